"""Where φ come from: files, standard input, arrays, the distribution itself. All give them a few at a
time."""

import abc
import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import PyTree

from ..family import Family, describe, phi_like
from ..family import phi as phis
from ..family.array_files import ArrayFile
from ..family.dataset import DatasetError
from ..family.published import usual_names
from ..reduced.validation import Batch, count_of


@runtime_checkable
class Source(Protocol):
    """φ number 0, 1, … of some origin.

    - `count`: how many there are; None where that shows only at the end.
    - `shape`: of one φ, as `phi.shape_of` has it.
    - `identity`: plain data that tells this origin from another.
    """

    @property
    def count(self) -> int | None: ...
    @property
    def shape(self) -> Any: ...
    @property
    def identity(self) -> dict[str, Any]: ...

    def batches(self, start: int, size: int) -> Iterator[Batch]:
        """φ number `start` and on, `size` at a time, never more of them in memory.

        A φ that cannot be read as numbers comes as whatever it is: `validate` says what is wrong.
        """
        ...


class _Counted(abc.ABC):
    """A known number of φ, any of which can be read."""

    count: int

    @abc.abstractmethod
    def _read(self, start: int, stop: int) -> Batch: ...

    def batches(self, start: int, size: int) -> Iterator[Batch]:
        for begin in range(start, self.count, size):
            yield self._read(begin, min(begin + size, self.count))


class FromDistribution(_Counted):
    """φ number 0 … count − 1 of a seed."""

    def __init__(self, family: Family, seed: int, count: int):
        self.family, self.seed, self.count = family, seed, count
        self.shape = phis.shape_of(phis.take(family.sample(seed, 1), 0))
        self.identity = {"family": describe(family), "seed": seed, "count": count}

    def _read(self, start: int, stop: int) -> Batch:
        return self.family.sample(self.seed, stop - start, start)


class FromShard:
    """φ number `first` … `stop` − 1 of another source, counted from 0 again."""

    def __init__(self, source: Source, first: int, stop: int):
        self.source, self.first, self.count = source, first, stop - first
        self.shape, self.identity = source.shape, source.identity

    def batches(self, start: int, size: int) -> Iterator[Batch]:
        left = self.count - start
        for batch in self.source.batches(self.first + start, size):
            yield _first(batch, left) if count_of(batch) > left else batch
            left -= size
            if left <= 0:
                return


class FromRows(_Counted):
    """φ that are the rows of an array: anything with `shape` and slices (NumPy, HDF5, memory maps)."""

    def __init__(self, rows: Any, family: Family, name: str = "phi"):
        axes = len(phi_like(family).shape)
        self._one = len(rows.shape) == axes
        shape = (1, *rows.shape) if self._one else tuple(rows.shape)
        if len(shape) != axes + 1 or 0 in shape:
            raise ValueError(
                f"{name} has shape {tuple(rows.shape)}; for {family.name} it needs {axes} "
                f"axes ({', '.join(family.phi_axes[family.phi_name])}) for one φ, and one more before "
                "them for many."
            )
        self._rows, self.count, self.shape = rows, shape[0], shape[1:]
        _require_shape(family, self.shape, name)
        ends = [self._read(0, 1), self._read(self.count - 1, self.count)]
        self.identity = {"count": self.count, "shape": list(self.shape), "ends": _digest(ends)}

    def _read(self, start: int, stop: int) -> np.ndarray:
        return np.asarray(self._rows)[None] if self._one else np.asarray(self._rows[start:stop])


class FromColumns(_Counted):
    """φ of several arrays, each with a first axis over φ: anything with `shape` and slices, by name."""

    def __init__(self, columns: Mapping[str, Any], family: Family, name: str = "phi"):
        self._columns, self._family, like = columns, family, phi_like(family)
        counts = {key: tuple(array.shape)[:1] for key, array in columns.items()}
        if len(set(counts.values())) != 1 or () in counts.values():
            shapes = ", ".join(f"{key} {tuple(array.shape)}" for key, array in columns.items())
            raise ValueError(
                f"{name}: the arrays of φ need a first axis over φ, all of one length; found {shapes}."
            )
        self.count, self.shape = next(iter(counts.values()))[0], phis.shape_of(like)
        first, last = self._read(0, 1), self._read(self.count - 1, self.count)
        ends = [*jax.tree.leaves(first), *jax.tree.leaves(last)]
        self.identity = {"count": self.count, "arrays": list(columns), "ends": _digest(ends)}

    def _read(self, start: int, stop: int) -> Any:
        arrays = {key: np.asarray(array[start:stop]) for key, array in self._columns.items()}
        return phis.from_columns(arrays, phi_like(self._family), self._family.phi_name)


class FromItems:
    """φ that come one by one: arrays, nested lists, or dictionaries that hold one under its name.

    They can be read once. Items that are exceptions stand for φ that could not be read.
    """

    def __init__(self, items: Iterable[Any], family: Family, count: int | None = None):
        self._family, self.count = family, count
        self._gone = 0
        items = iter(items)
        first = list(itertools.islice(items, 1))
        if not first:
            raise ValueError("there are no φ to solve for.")
        self._items = itertools.chain(first, items)
        self.shape = self._shape_of(first[0])
        self.identity = {"count": count, "shape": list(self.shape), "first": _digest(first)}

    def batches(self, start: int, size: int) -> Iterator[Batch]:
        """As any other's, but what was read cannot be read again."""
        if start < self._gone:
            raise ValueError(f"φ number {start} has gone by; they can be read once.")
        rest = itertools.islice(self._items, start - self._gone, None)
        self._gone = start
        while batch := [self._plain(item) for item in itertools.islice(rest, size)]:
            self._gone += len(batch)
            yield batch

    def _plain(self, item: PyTree) -> Any:
        if not isinstance(item, dict):
            return item
        if not _is_array(self._family):
            try:
                return phis.from_columns(item, phi_like(self._family), self._family.phi_name)
            except ValueError as error:
                return error
        names = [name for name in _phi_names(self._family) if name in item] or list(item)
        return item[names[0]] if names else item

    def _shape_of(self, item: PyTree) -> Any:
        """That of the first φ if it is a good one, and else that of the family."""
        family_shape = phis.shape_of(phi_like(self._family))
        if not self._family.on_grid:
            return family_shape
        try:
            return self._family.check(self._plain(item)).shape[1:]
        except ValueError:
            return family_shape


@contextmanager
def open_phi(
    where: str | os.PathLike[str],
    family: Family,
    name: str | None = None,
    stdin: Iterable[Any] | None = None,
) -> Iterator[Source]:
    """The φ in a file, or on standard input for "-".

    `.json` holds one φ or a list of them; `.jsonl` and standard input one φ on each line, as JSON. HDF5,
    NetCDF4, `.mat`, `.npz` and `.npy` hold an array: `name`, or the usual names (see
    `problems.published`), or the only one there is.
    """
    path = Path(where)
    if str(where) == "-":
        assert stdin is not None, 'give the stream for "-"'
        yield FromItems(_parsed(stdin), family)
    elif path.suffix == ".json":
        items = _json_items(path, family)
        yield FromItems(items, family, len(items))
    elif path.suffix == ".jsonl":
        with _existing(path).open("rb") as file:
            yield FromItems(_parsed(file), family)
    else:
        with ArrayFile(path) as arrays:
            try:
                source: Source
                if _is_array(family):
                    chosen = _choose(arrays, family, name)
                    source = FromRows(_Array(arrays, chosen), family, f"{path}: {chosen}")
                else:
                    needed = _needed(arrays, family)
                    source = FromColumns({key: _Array(arrays, key) for key in needed}, family, str(path))
            except ValueError as error:
                raise DatasetError(str(error)) from error
            yield source


def _first(batch: Batch, count: int) -> Batch:
    return phis.take(batch, slice(0, count)) if isinstance(batch, Mapping) else batch[:count]


def _require_shape(family: Family, shape: tuple[int, ...], name: str) -> None:
    """A field is solved for on any square grid; any other φ has the shape that the family gives it."""
    if family.on_grid:
        family.check(np.ones(shape))
        return
    wanted = phis.shape_of(phi_like(family))
    if shape == wanted:
        return
    axes = family.coordinates(np.ones((1, *wanted)))
    lines = [(axis, axes[axis]) for axis in family.phi_axes[family.phi_name]]
    where = " and ".join(f"{axis} = {line[0]:g} to {line[-1]:g}" for axis, line in lines)
    raise ValueError(
        f"{name} gives each φ {' × '.join(map(str, shape))} values; this model takes {family.phi_name} "
        f"at {' × '.join(map(str, wanted))} evenly spaced points, {where}, both ends included. "
        "Interpolate it to these."
    )


def _is_array(family: Family) -> bool:
    """Whether φ is one array."""
    return isinstance(phi_like(family), jax.ShapeDtypeStruct)


def _needed(file: ArrayFile, family: Family) -> list[str]:
    """The arrays of φ, all of which have to be in a file."""
    names = list(family.phi_axes)
    missing = [name for name in names if name not in file.names]
    if missing:
        raise DatasetError(
            f"{file.path} has the variables {', '.join(file.names) or 'none'}; φ of {family.name} is "
            f"made of {', '.join(names)}."
        )
    return names


class _Array:
    """One array of a file, as something with a shape and slices."""

    def __init__(self, file: ArrayFile, name: str):
        self.file, self.name, self.shape = file, name, file.shape(name)

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self.file.rows(self.name, rows.start, rows.stop)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.file.whole(self.name), dtype)


def _choose(file: ArrayFile, family: Family, name: str | None) -> str:
    if name is not None and name not in file.names:
        raise DatasetError(f"{file.path} has no {name!r}; it has {', '.join(file.names) or 'nothing'}.")
    usual = [known for known in _phi_names(family) if known in file.names]
    if name is None and not usual and len(file.names) != 1:
        raise DatasetError(
            f"{file.path} has the variables {', '.join(file.names) or 'none'}; φ of {family.name} is "
            f"looked for under {', '.join(_phi_names(family))}. Say which it is with --name."
        )
    return name or (usual or file.names)[0]


def _phi_names(family: Family) -> list[str]:
    return list(dict.fromkeys([family.phi_name, *(phi for phi, _ in usual_names(family))]))


def _parsed(lines: Iterable[Any]) -> Iterator[Any]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                yield ValueError(f"line {number} is not JSON, or was cut short ({error})")


def _json_items(path: Path, family: Family) -> list[Any]:
    """The φ of a JSON file: a list of them, one alone, or for several arrays a list of each."""
    try:
        value = json.loads(_existing(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise DatasetError(
            f"{path} is truncated, damaged or no JSON ({error}); for one φ on each line call it .jsonl"
        ) from error
    if not _is_array(family):
        if isinstance(value, dict):
            like = dict(zip(family.phi_axes, jax.tree.leaves(phi_like(family)), strict=True))
            deep = [key for key in like if _depth(value.get(key)) > like[key].ndim]
            lengths = {len(value[key]) for key in deep}
            if len(deep) == len(like) and len(lengths) == 1:
                return [{key: value[key][n] for key in like} for n in range(lengths.pop())]
            return [value]
        return value if isinstance(value, list) else [value]
    axes = phi_like(family).ndim
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    if not isinstance(value, list):
        raise DatasetError(f"{path} must hold φ as a list of numbers, or a list of such φ")
    return [value] if _depth(value) == axes else value


def _depth(value: object) -> int:
    return 1 + _depth(value[0]) if isinstance(value, list) and value else 0


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    return path


def _digest(values: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for value in values:
        array = isinstance(value, np.ndarray)
        digest.update(np.ascontiguousarray(value).tobytes() if array else repr(value).encode())
    return digest.hexdigest()
