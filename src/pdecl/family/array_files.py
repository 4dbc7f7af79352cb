"""Arrays in files, read a few rows at a time: HDF5, NetCDF4, `.mat`, `.npz`, `.npy`."""

import os
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .dataset import DatasetError


@runtime_checkable
class Rows(Protocol):
    """An array of which a few rows can be read."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def rows(self, start: int, stop: int) -> np.ndarray: ...


class ArrayFile:
    """The arrays in a file. Whatever goes wrong in reading is a `DatasetError` that names the file.

    HDF5, NetCDF4, MATLAB 7.3, `.npy` and `.npz` give their rows without the rest; older `.mat` files and
    arrays that were stored column by column are read whole.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        if not self.path.is_file():
            raise DatasetError(f"there is no file {self.path}")
        self._open = ExitStack()
        try:
            with _explaining(self.path):
                self._arrays = _arrays(self.path, self._open)
        except BaseException:
            self._open.close()
            raise

    @property
    def names(self) -> list[str]:
        return list(self._arrays)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._arrays[name].shape)

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Rows start … stop − 1 of an array, its axes in the order (φ, …)."""
        with _explaining(self.path):
            return self._arrays[name].rows(start, stop)

    def whole(self, name: str) -> np.ndarray:
        return self.rows(name, 0, self.shape(name)[0])

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()


def _arrays(path: Path, stack: ExitStack) -> dict[str, Rows]:
    with path.open("rb") as file:
        head = file.read(520)
    if b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:520]):
        return _hdf5(path, stack, matlab=head.startswith(b"MATLAB"))
    if path.suffix == ".npz":
        archive = stack.enter_context(zipfile.ZipFile(path))
        names = [name for name in archive.namelist() if name.endswith(".npy")]
        members = {name.removesuffix(".npy"): _member(path, archive, name, stack) for name in names}
        return {name: member for name, member in members.items() if len(member.shape)}
    if path.suffix == ".npy":
        return {"phi": _Held(np.load(path, mmap_mode="r", allow_pickle=False))}
    if path.suffix == ".mat":
        from scipy.io import loadmat

        return {name: _Held(v) for name, v in loadmat(path).items() if not name.startswith("__")}
    raise DatasetError(f"{path} is no .nc, .mat, .npz or HDF5 file")


def _hdf5(path: Path, stack: ExitStack, matlab: bool) -> dict[str, Rows]:
    import h5py

    file = stack.enter_context(h5py.File(path, "r"))
    return {name: _Slices(item, matlab) for name, item in file.items() if getattr(item, "shape", None)}


class _Held:
    def __init__(self, values: np.ndarray):
        self.values, self.shape = values, values.shape

    def rows(self, start: int, stop: int) -> np.ndarray:
        return np.asarray(self.values[start:stop])


class _Slices:
    """An array in HDF5. MATLAB 7.3 is HDF5 behind a header of 512 bytes, with its axes reversed."""

    def __init__(self, item: Any, matlab: bool):
        self.item, self.matlab = item, matlab
        self.shape = item.shape[::-1] if matlab else item.shape

    def rows(self, start: int, stop: int) -> np.ndarray:
        return self.item[..., start:stop].T if self.matlab else self.item[start:stop]


class _Member:
    """A row-by-row array inside `.npz`, read from its stream: compressed or not, never whole."""

    def __init__(self, stream: Any, shape: tuple[int, ...], dtype: np.dtype):
        self.stream, self.shape, self.dtype = stream, shape, dtype
        self.begin = stream.tell()
        self.row = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))

    def rows(self, start: int, stop: int) -> np.ndarray:
        stop = min(stop, self.shape[0])
        wanted = self.begin + start * self.row
        if self.stream.tell() != wanted:
            self.stream.seek(wanted)
        size = (stop - start) * self.row
        data = self.stream.read(size)
        if len(data) != size:
            raise EOFError(f"{len(data)} of {size} bytes")
        return np.frombuffer(data, self.dtype).reshape(stop - start, *self.shape[1:])


def _member(path: Path, archive: zipfile.ZipFile, name: str, stack: ExitStack) -> Rows:
    stream: Any = stack.enter_context(archive.open(name))
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(stream)
    if version in read:
        shape, by_columns, dtype = read[version](stream)
        if not (by_columns or dtype.hasobject):
            return _Member(stream, shape, dtype)
    with np.load(path, allow_pickle=False) as arrays:
        return _Held(arrays[name.removesuffix(".npy")])


@contextmanager
def _explaining(path: Path) -> Iterator[None]:
    try:
        yield
    except DatasetError:
        raise
    except Exception as error:  # each format has its own kinds
        raise DatasetError(
            f"{path} is truncated or damaged ({type(error).__name__}: {error})"
        ) from error
