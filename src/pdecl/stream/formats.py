"""Files of arrays over φ: HDF5, which NetCDF4 is, and Zarr, by the same words; `.npz` and `.mat` from a
file that is finished.

An HDF5 file of a known number of φ has a place for everything from the start, and only these places are
written to after that: a process may end at any moment and leave a file that can be read. So it is not
compressed as it is written: a compressed one is made at the end. Zarr is a folder with a small file for
each chunk, which takes the old one's place when it is whole, and can be compressed at once.

h5py, Zarr and SciPy are imported when they are used.
"""

import fcntl
import json
import math
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..support.files import replacing, require_writable

HDF5, ZARR, CONVERTED = (".h5", ".hdf5", ".nc"), (".zarr",), (".npz", ".mat")
MESSAGE = 240  # bytes
_HELD = 2**26  # bytes held at a time
_CHUNK, _LONGEST = 2**22, 8192  # bytes, and φ, of a chunk
GROWTH = 16  # batches that a file of unknown length grows by
_MATLAB_LIMIT = 2**32 - 2**16


class FormatError(OSError):
    """A file that cannot be opened, and why."""


@dataclass(frozen=True)
class Column:
    """An array over φ: its type, or "text"; its axes after the first; what stands for no value."""

    dtype: str
    dims: tuple[str, ...] = ()
    fill: Any = None
    attrs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """What is in a file beside attributes: values along each axis, arrays over φ, and `fixed` arrays
    along one axis, each with its name."""

    axes: Mapping[str, np.ndarray]
    columns: Mapping[str, Column]
    fixed: Mapping[str, tuple[str, np.ndarray]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    def described(self) -> str:
        """As JSON, without the numbers that are arrays of the file."""
        columns = {n: [c.dtype, c.dims, c.fill, dict(c.attrs)] for n, c in self.columns.items()}
        return json.dumps(
            {
                "axes": list(self.axes),
                "columns": columns,
                "fixed": {name: axis for name, (axis, _) in self.fixed.items()},
                "units": dict(self.units),
            },
            ensure_ascii=False,
        )  # fmt: skip

    def row(self, name: str) -> tuple[int, ...]:
        """The shape of a column's part for one φ."""
        return tuple(len(self.axes[axis]) for axis in self.columns[name].dims)

    def sizes(self) -> dict[str, int]:
        """How many numbers each column has for one φ."""
        return {name: math.prod(self.row(name)) for name in self.columns}


class Arrays:
    """An open file: rows of columns, and a few numbers. `layout` is what it was made with. `rewrites`:
    whether something stood where it is written to now."""

    path: Path
    rewrites: bool = False
    attrs: dict[str, Any]
    layout: Layout

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        raise NotImplementedError

    def write(self, name: str, start: int, values: Any) -> None:
        raise NotImplementedError

    def whole(self, name: str) -> np.ndarray:
        """An array that is no column."""
        raise NotImplementedError

    def samples(self) -> int:
        """For how many φ there is room."""
        raise NotImplementedError

    def resize(self, samples: int, blocks: int) -> None:
        raise NotImplementedError

    def number(self, name: str, value: int | None = None) -> int:
        """`done` or `complete`; set, if a value is given."""
        raise NotImplementedError

    def sync(self) -> None:
        """Puts everything on the disk."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def texts(self, name: str, start: int, stop: int) -> list[str]:
        values = self.read(name, start, stop).tolist()
        return [one.decode() if isinstance(one, bytes) else str(one) for one in values]

    def _read_layout(self) -> Layout:
        described = json.loads(self.attrs["layout"])
        columns = {
            name: Column(d, tuple(dims), f, a) for name, (d, dims, f, a) in described["columns"].items()
        }
        fixed = {name: (axis, self.whole(name)) for name, axis in described["fixed"].items()}
        return Layout(
            {axis: self.whole(axis) for axis in described["axes"]}, columns, fixed, described["units"]
        )


# Arrays of HDF5 with a number for each batch; and what netCDF calls a dimension that has no coordinates.
_OF_BLOCKS = ("checksum", "block")
_DIMENSION_ALONE = "This is a netCDF dimension but not a netCDF variable."


class Hdf5(Arrays):
    def __init__(self, path: Path, write: bool):
        import h5py

        self.path = path
        # Who only reads takes no lock, and does not mind that of the one who writes.
        self.file = h5py.File(path, "r+") if write else h5py.File(path, "r", locking=False)
        self._open: dict[str, Any] = {}
        try:
            self.attrs = dict(self.file.attrs.items())
            self.layout = self._read_layout()
        except KeyError:
            self.file.close()
            raise

    @classmethod
    def create(
        cls, path: Path, layout: Layout, count: int | None, batch: int, attrs: Mapping[str, Any],
        first: int, compressed: bool,
    ) -> None:  # fmt: skip
        import h5py

        def column(name: str, dtype: str, axes: tuple[str, ...], fill: Any, length: int) -> Any:
            shape = (length, *(len(layout.axes[axis]) for axis in axes))
            kind = h5py.string_dtype("utf-8", MESSAGE) if dtype == "text" else dtype
            rows = batch if name not in _OF_BLOCKS else 1024
            rows = rows if count is None else max(1, min(rows, length))
            options = _PACKED if compressed else {"dcpl": _in_place(fill)}
            if compressed or count is None:
                options = {**options, "chunks": (rows, *shape[1:])}
            if count is None:
                options = {**options, "maxshape": (None, *shape[1:])}
            item = file.create_dataset(name, shape, kind, fillvalue=fill, **options)
            scales = {"sample": name, "block": _DIMENSION_ALONE}
            if name in scales:
                item.make_scale(scales[name])
                return item
            if name == "checksum":
                column("block", "u1", (), 0, length)
            return _attached(file, item, ("block" if name == "checksum" else "sample", *axes))

        def fixed(name: str, values: Any, axes: tuple[str, ...]) -> Any:
            file[name] = values
            if axes != (name,):
                return _attached(file, file[name], axes)
            file[name].make_scale(name)
            return file[name]

        with h5py.File(path, "w", track_order=True) as file:
            _make(layout, count, batch, first, column, fixed)
            file.attrs.update(attrs)

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        return np.asarray(self._item(name)[start:stop])

    def write(self, name: str, start: int, values: Any) -> None:
        if self.layout.columns.get(name, Column("")).dtype == "text":
            if not any(values) and not self.rewrites:
                return  # there is none in its place, and on the disk a hole
            values = np.array([clip(text).encode() for text in values], self._item(name).dtype)
        self._item(name)[slice(start, start + len(values))] = values

    def whole(self, name: str) -> np.ndarray:
        return np.asarray(self.file[name][()])

    def samples(self) -> int:
        return len(self.file["status"])

    def resize(self, samples: int, blocks: int) -> None:
        for name, item in self.file.items():
            if item.maxshape and item.maxshape[0] is None:
                old = len(item)
                item.resize(blocks if name in _OF_BLOCKS else samples, axis=0)
                if name == "sample" and samples > old:
                    item[old:] = np.arange(old, samples)
        self.file.flush()

    def number(self, name: str, value: int | None = None) -> int:
        if value is not None:
            self.file[name][()] = value
        return int(self.file[name][()])

    def _item(self, name: str) -> Any:
        if name not in self._open:
            self._open[name] = self.file[name]
        return self._open[name]

    def sync(self) -> None:
        self.file.flush()
        os.fsync(self.file.id.get_vfd_handle())

    def close(self) -> None:
        # After a failed write HDF5 cannot flush what it could not write; what is in place stays.
        with suppress(OSError, RuntimeError):
            self.file.close()


_PACKED = {"compression": "gzip", "compression_opts": 1, "shuffle": True, "fletcher32": True}


def _attached(file: Any, item: Any, axes: tuple[str, ...]) -> Any:
    """An array of HDF5 whose dimensions have names."""
    for place, axis in enumerate(axes):
        item.dims[place].attach_scale(file[axis])
    return item


def _in_place(fill: Any) -> Any:
    """What makes HDF5 give an array its place at once, filled if there is a value to fill it with."""
    import h5py

    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    if fill is None:
        plan.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    return plan


class Zarr(Arrays):
    """Rows wait in memory until a chunk is full, or until `sync`."""

    def __init__(self, path: Path, write: bool):
        zarr = _zarr(path)
        self.path, self._lock = path, None
        if not (path / "zarr.json").is_file():
            raise FormatError(f"{path} is no Zarr folder of format 3")
        if write:
            self._lock = (path / ".lock").open("w")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise FormatError(f"{path}: its lock is held") from error
        self._open: dict[str, Any] = {}
        self._waiting: dict[str, tuple[int, list[Any]]] = {}
        try:
            self.group = zarr.open_group(path, mode="r+" if write else "r")
            self.attrs = dict(self.group.attrs)
            self.layout = self._read_layout()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(
        cls, path: Path, layout: Layout, count: int | None, batch: int, attrs: Mapping[str, Any],
        first: int, compressed: bool,
    ) -> None:  # fmt: skip
        zarr = _zarr(path)
        from zarr.codecs import BloscCodec

        pack = BloscCodec(cname="lz4", clevel=1, shuffle="shuffle") if compressed else None
        group = zarr.create_group(path)

        def column(name: str, dtype: str, axes: tuple[str, ...], fill: Any, length: int) -> Any:
            row = tuple(len(layout.axes[axis]) for axis in axes)
            size = 8 * batch * int(np.prod(row, dtype=np.int64))
            many = max(1, min(_CHUNK // size, _LONGEST // batch))
            rows = min(length, batch * many if name != "checksum" else _LONGEST)
            if fill is None:
                fill = {"text": "", "f4": np.nan, "f8": np.nan}.get(dtype, 0)
            return group.create_array(
                name, shape=(length, *row), chunks=(max(1, rows), *row), fill_value=fill,
                dtype=str if dtype == "text" else dtype,
                dimension_names=("block" if name == "checksum" else "sample", *axes),
                **({} if dtype == "text" else {"compressors": pack}),
            )  # fmt: skip

        def fixed(name: str, values: Any, axes: tuple[str, ...]) -> Any:
            values = np.asarray(values)
            item = group.create_array(
                name, shape=values.shape, dtype=values.dtype, chunks=values.shape or "auto",
                dimension_names=axes, compressors=None,
            )  # fmt: skip
            item[...] = values
            return item

        _make(layout, count, batch, first, column, fixed)
        group.attrs.update(dict(attrs))

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        self._flush(name)
        with _as_os_error(f"{self.path}: {name}"):
            return np.asarray(self._item(name)[start:stop])

    def write(self, name: str, start: int, values: Any) -> None:
        if self.layout.columns.get(name, Column("")).dtype == "text":
            values = np.array([clip(text) for text in values], np.dtypes.StringDType())
        begun, parts = self._waiting.get(name, (start, []))
        if parts and begun + sum(map(len, parts)) != start:
            self._flush(name)
            begun, parts = start, []
        self._waiting[name] = (begun, [*parts, np.array(values)])
        rows = self._item(name).chunks[0]
        stop = start + len(values)
        if stop % rows == 0 or stop - begun >= rows:
            self._flush(name)

    def whole(self, name: str) -> np.ndarray:
        self._flush(name)
        with _as_os_error(f"{self.path}: {name}"):
            return np.asarray(self._item(name)[...])

    def samples(self) -> int:
        return int(self._item("status").shape[0])

    def resize(self, samples: int, blocks: int) -> None:
        self._flush()
        old = self.samples()
        for name in ("sample", *self.layout.columns):
            item = self._item(name)
            item.resize((samples, *item.shape[1:]))
        self._item("checksum").resize((blocks,))
        if samples > old:
            self._item("sample")[old:] = np.arange(old, samples)

    def number(self, name: str, value: int | None = None) -> int:
        if value is not None:
            self._item(name)[...] = value
        return int(self._item(name)[()])

    def sync(self) -> None:
        self._flush()

    def close(self) -> None:
        with suppress(OSError):
            self._flush()
        if self._lock is not None:
            self._lock.close()

    def _item(self, name: str) -> Any:
        if name not in self._open:
            self._open[name] = self.group[name]
        return self._open[name]

    def _flush(self, only: str | None = None) -> None:
        for name in [only] if only is not None else list(self._waiting):
            start, parts = self._waiting.get(name, (0, []))
            if parts:
                self._put(name, start, np.concatenate(parts))
            self._waiting.pop(name, None)  # not before: what could not be written still waits

    def _put(self, name: str, start: int, values: np.ndarray) -> None:
        item = self._item(name)
        try:
            item[start : start + len(values)] = values
        except OSError:
            raise
        except Exception:  # perhaps a chunk of which the rest cannot be read
            touched = range(start // item.chunks[0], -(-(start + len(values)) // item.chunks[0]))
            damaged = [number for number in touched if not _readable(item, number)]
            if not damaged:
                raise
            for number in damaged:  # all its φ are damaged, and solved anew
                places = "/".join([str(number), *["0"] * (len(item.shape) - 1)])
                (self.path / name / "c" / places).unlink(missing_ok=True)
            item[start : start + len(values)] = values


def _make(
    layout: Layout, count: int | None, batch: int, first: int, column: Callable, fixed: Callable
) -> None:
    """All arrays of a new file: `column(name, dtype, axes, fill, length)` makes one over φ, or over
    batches, `fixed(name, values, axes)` any other."""
    samples = batch * GROWTH if count is None else count
    items = {axis: fixed(axis, values, (axis,)) for axis, values in layout.axes.items()}
    column("sample", "i8", (), 0, samples)[:] = np.arange(first, first + samples)
    for name, about in layout.columns.items():
        items[name] = column(name, about.dtype, about.dims, about.fill, samples)
        items[name].attrs.update(about.attrs)
    for name, (axis, values) in layout.fixed.items():
        items[name] = fixed(name, values, (axis,))
    for name in layout.units.keys() & items.keys():
        items[name].attrs["units"] = layout.units[name]
    column("checksum", "u4", (), 0, -(-samples // batch))
    fixed("done", np.int64(0), ())
    fixed("complete", np.int8(0), ())


def _readable(item: Any, number: int) -> bool:
    """Whether a chunk of Zarr can be decoded."""
    rows = item.chunks[0]
    try:
        item[number * rows : (number + 1) * rows]
    except Exception:  # each codec has its own kinds
        return False
    return True


def create(
    path: Path,
    layout: Layout,
    count: int | None,
    batch: int,
    attrs: Mapping[str, Any],
    *,
    first: int = 0,
    compressed: bool = False,
) -> None:
    """A new file, instead of any there is, with room for this many φ; for any number if None.

    `first` is the number of its first φ; chunks hold whole batches.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove(path)
    try:
        attrs = {**attrs, "layout": layout.described()}
        _kind(path).create(path, layout, count, batch, attrs, first, compressed)
    except OSError:
        remove(path)
        raise


def open_arrays(path: Path, write: bool = False) -> Arrays:
    """A file that `create` made. An OSError or a KeyError says why it cannot be read."""
    return _kind(path)(path, write)


def remove(path: Path) -> None:
    """Removes a file, or a folder that Zarr made."""
    if path.is_dir() and path.suffix in ZARR and (path / "zarr.json").is_file():
        shutil.rmtree(path)
    elif not path.is_dir():
        path.unlink(missing_ok=True)


def exists(path: Path) -> bool:
    """Whether something is there; of a Zarr folder that was not begun nothing is."""
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def require_place(out: Path) -> None:
    """Raises, in words, if answers cannot be written there, before the work."""
    if out.suffix not in HDF5 + ZARR + CONVERTED:
        raise ValueError(f"{out}: results are written as {', '.join(HDF5 + ZARR + CONVERTED)}.")
    if out.suffix in ZARR:
        _zarr(out)
        if out.is_dir() and (not any(out.iterdir()) or (out / "zarr.json").is_file()):
            return
    require_writable(out)


def require_fits(out: Path, count: int, values: int) -> None:
    """`.mat` files of the kind that SciPy writes hold arrays below 4 GB."""
    size = 8 * count * values
    if out.suffix == ".mat" and size > _MATLAB_LIMIT:
        raise ValueError(
            f"{out}: an array would be {size / 1e9:.1f} GB, and a .mat file holds arrays below 4 GB; "
            "write .h5, which MATLAB reads with h5read."
        )


def convert(stream: Path, out: Path) -> None:
    """Writes what a finished stream holds, a few rows at a time: `.npz`, `.mat`, or HDF5 compressed."""
    arrays = open_arrays(stream)
    try:
        with replacing(out) as temporary:
            if out.suffix in HDF5:
                _pack(arrays, temporary)
            elif out.suffix == ".npz":
                _write_npz(arrays, temporary)
            else:
                _write_mat(arrays, out, temporary)
    finally:
        arrays.close()


def clip(message: str) -> str:
    return message.encode()[:MESSAGE].decode(errors="ignore")


def pieces(arrays: Arrays, name: str, count: int) -> Iterator[tuple[int, np.ndarray]]:
    """The rows of a column, as many at a time as can be held, each piece with its first."""
    known = arrays.layout.columns.get(name)
    text = known is not None and known.dtype == "text"
    row = MESSAGE if text else 8 * math.prod(_row(arrays, name))
    step = max(1, _HELD // row)
    for start in range(0, count, step):
        yield start, arrays.read(name, start, min(start + step, count))


def _row(arrays: Arrays, name: str) -> tuple[int, ...]:
    return arrays.layout.row(name) if name in arrays.layout.columns else ()


def _pack(arrays: Arrays, out: Path) -> None:
    count, batch = arrays.samples(), int(arrays.attrs["batch"])
    attrs = {name: value for name, value in arrays.attrs.items() if name != "layout"}
    first = int(arrays.read("sample", 0, 1)[0])
    attrs |= {"layout": arrays.layout.described()}
    Hdf5.create(out, arrays.layout, count, batch, attrs, first, compressed=True)
    packed = Hdf5(out, write=True)
    for name, column in arrays.layout.columns.items():
        for start, rows in pieces(arrays, name, count):
            values = arrays.texts(name, start, start + len(rows)) if column.dtype == "text" else rows
            packed.write(name, start, values)
    packed.write("checksum", 0, arrays.whole("checksum"))
    packed.number("done", count)
    packed.number("complete", 1)
    packed.sync()
    packed.close()


def _write_npz(arrays: Arrays, out: Path) -> None:
    count, layout = arrays.samples(), arrays.layout
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name in [*layout.axes, "sample", *layout.columns, *layout.fixed]:
            if name in layout.axes or name in layout.fixed:
                values = arrays.whole(name)
                _write_member(archive, name, values.dtype, values.shape, iter([values]))
                continue
            rows = lambda name=name: (_decoded(part) for _, part in pieces(arrays, name, count))
            dtype = next(rows()).dtype
            if layout.columns.get(name, Column("")).dtype == "text":  # no wider than its longest
                dtype = max((part.dtype for part in rows()), key=lambda dtype: dtype.itemsize)
            _write_member(archive, name, dtype, (count, *_row(arrays, name)), rows())


def _write_member(
    archive: zipfile.ZipFile, name: str, dtype: np.dtype, shape: Any, parts: Iterator[np.ndarray]
) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(member, header)
        for part in parts:
            member.write(np.ascontiguousarray(part, dtype).tobytes())


def _write_mat(arrays: Arrays, out: Path, temporary: Path) -> None:
    from scipy.io import savemat

    count, layout = arrays.samples(), arrays.layout
    require_fits(out, count, max(layout.sizes().values()))
    contents = {name: arrays.whole(name) for name in [*layout.axes, *layout.fixed]}
    contents |= {name: _decoded(arrays.read(name, 0, count)) for name in ["sample", *layout.columns]}
    with temporary.open("wb") as target:
        savemat(target, contents)


def _decoded(values: np.ndarray) -> np.ndarray:
    """Text as NumPy's plain strings."""
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8")
    return np.asarray(values, str) if values.dtype.kind in "TO" else values


def _kind(path: Path) -> type[Hdf5] | type[Zarr]:
    return Zarr if path.suffix in ZARR else Hdf5


def _zarr(path: Path) -> Any:
    try:
        import zarr
    except ImportError:
        raise ValueError(
            f"{path}: Zarr is not installed, pip install 'pdecl[zarr]'; or write {', '.join(HDF5)}."
        ) from None
    return zarr


@contextmanager
def _as_os_error(what: str) -> Iterator[None]:
    """What Zarr raises of a damaged chunk, as an OSError that names the array."""
    try:
        yield
    except (OSError, KeyError):
        raise
    except Exception as error:
        raise OSError(f"{what} is damaged ({error})") from error
