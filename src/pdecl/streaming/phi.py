"""Where φ come from: files, standard input, arrays, the law itself. All give them a few at a time."""

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..array_files import ArrayFile
from ..compiled.refusal import Batch
from ..dataset import DatasetError
from ..problems.law import Law, describe
from ..problems.published import USUAL_NAMES


@runtime_checkable
class Source(Protocol):
    """φ number 0, 1, … of some origin.

    - `count`: how many there are; None where that shows only at the end.
    - `shape`: of one φ. `identity`: plain data that tells this origin from another.
    """

    @property
    def count(self) -> int | None: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def identity(self) -> dict[str, Any]: ...

    def batches(self, start: int, size: int) -> Iterator[Batch]:
        """φ number `start` and on, `size` at a time, never more of them in memory.

        A φ that cannot be read as numbers comes as whatever it is: `screen` says what is wrong with it.
        """
        ...


class FromLaw:
    """φ number 0 … count − 1 of a seed of the law."""

    def __init__(self, law: Law, seed: int, count: int):
        self.law, self.seed, self.count = law, seed, count
        self.shape = law.sample(seed, 1).shape[1:]
        self.identity = {"law": describe(law), "seed": seed, "count": count}

    def batches(self, start: int, size: int) -> Iterator[Batch]:
        for begin in range(start, self.count, size):
            yield self.law.sample(self.seed, min(size, self.count - begin), begin)


class FromRows:
    """φ that are the rows of an array: anything with `shape` and slices (NumPy, HDF5, memory maps)."""

    def __init__(self, rows: Any, law: Law, name: str = "phi"):
        axes = len(law.phi_dims)
        self._one = len(rows.shape) == axes
        shape = (1, *rows.shape) if self._one else tuple(rows.shape)
        if len(shape) != axes + 1 or 0 in shape:
            raise ValueError(
                f"{name} has shape {tuple(rows.shape)}; for {law.name} it needs {axes} axes "
                f"({', '.join(law.phi_dims)}) for one φ, and one more before them for many."
            )
        self._rows, self.count, self.shape = rows, shape[0], shape[1:]
        _require_shape(law, self.shape, name)
        ends = [self._read(0, 1), self._read(self.count - 1, self.count)]
        self.identity = {"count": self.count, "shape": list(self.shape), "ends": _digest(ends)}

    def batches(self, start: int, size: int) -> Iterator[Batch]:
        for begin in range(start, self.count, size):
            yield self._read(begin, min(begin + size, self.count))

    def _read(self, start: int, stop: int) -> np.ndarray:
        return np.asarray(self._rows)[None] if self._one else np.asarray(self._rows[start:stop])


class FromItems:
    """φ that come one by one: arrays, nested lists, or dictionaries that hold one under its name.

    They can be read once. Items that are exceptions stand for φ that could not be read.
    """

    def __init__(self, items: Iterable[Any], law: Law, count: int | None = None):
        self._law, self.count = law, count
        items = iter(items)
        first = list(itertools.islice(items, 1))
        if not first:
            raise ValueError("there are no φ to solve for.")
        self._items = itertools.chain(first, items)
        self.shape = self._shape_of(first[0])
        self.identity = {"count": count, "shape": list(self.shape), "first": _digest(first)}

    def batches(self, start: int, size: int) -> Iterator[Batch]:
        rest = itertools.islice(self._items, start, None)
        while batch := [self._plain(item) for item in itertools.islice(rest, size)]:
            yield batch

    def _plain(self, item: Any) -> Any:
        if not isinstance(item, dict):
            return item
        names = [name for name in _phi_names(self._law) if name in item] or list(item)
        return item[names[0]] if names else item

    def _shape_of(self, item: Any) -> tuple[int, ...]:
        """That of the first φ if it is a good one, and else that of the law."""
        law_shape = self._law.sample(0, 1).shape[1:]
        if len(law_shape) == 1:
            return law_shape
        try:
            return self._law.check(self._plain(item)).shape[1:]
        except ValueError:
            return law_shape


@contextmanager
def open_phi(
    where: str | os.PathLike[str], law: Law, name: str | None = None, stdin: Iterable[Any] | None = None
) -> Iterator[Source]:
    """The φ in a file, or on standard input for "-".

    `.json` holds one φ or a list of them; `.jsonl` and standard input one φ on each line, as JSON. HDF5,
    NetCDF4, `.mat`, `.npz` and `.npy` hold an array: `name`, or the usual names (see
    `problems.published`), or the only one there is.
    """
    path = Path(where)
    if str(where) == "-":
        assert stdin is not None, 'give the stream for "-"'
        yield FromItems(_parsed(stdin), law)
    elif path.suffix == ".json":
        items = _json_items(path, len(law.phi_dims))
        yield FromItems(items, law, len(items))
    elif path.suffix == ".jsonl":
        with _existing(path).open("rb") as file:
            yield FromItems(_parsed(file), law)
    else:
        with ArrayFile(path) as arrays:
            chosen = _choose(arrays, law, name)
            try:
                source = FromRows(_Array(arrays, chosen), law, f"{path}: {chosen}")
            except ValueError as error:
                raise DatasetError(str(error)) from error
            yield source


def _require_shape(law: Law, shape: tuple[int, ...], name: str) -> None:
    """Points of Burgers and convection are those of the law; Darcy is solved on any square grid."""
    wanted = law.sample(0, 1).shape[1:] if len(shape) == 1 else None
    if wanted is not None and shape != wanted:
        raise ValueError(
            f"{name} gives each φ {shape[0]} values; this model takes {law.phi_name} at {wanted[0]} "
            "evenly spaced points from x = 0 to x = 1, both ends included. Interpolate it to these."
        )
    if wanted is None:
        law.check(np.ones(shape))


class _Array:
    """One array of a file, as something with a shape and slices."""

    def __init__(self, file: ArrayFile, name: str):
        self.file, self.name, self.shape = file, name, file.shape(name)

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self.file.rows(self.name, rows.start, rows.stop)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.file.whole(self.name), dtype)


def _choose(file: ArrayFile, law: Law, name: str | None) -> str:
    if name is not None and name not in file.names:
        raise DatasetError(f"{file.path} has no {name!r}; it has {', '.join(file.names) or 'nothing'}.")
    usual = [known for known in _phi_names(law) if known in file.names]
    if name is None and not usual and len(file.names) != 1:
        raise DatasetError(
            f"{file.path} has the variables {', '.join(file.names) or 'none'}; φ of {law.name} is "
            f"looked for under {', '.join(_phi_names(law))}. Say which it is with --name."
        )
    return name or (usual or file.names)[0]


def _phi_names(law: Law) -> list[str]:
    return list(dict.fromkeys([law.phi_name, *(phi for phi, _ in USUAL_NAMES[law.name])]))


def _parsed(lines: Iterable[Any]) -> Iterator[Any]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                yield ValueError(f"line {number} is not JSON, or was cut short ({error})")


def _json_items(path: Path, axes: int) -> list[Any]:
    try:
        found = json.loads(_existing(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise DatasetError(
            f"{path} is truncated, damaged or no JSON ({error}); for one φ on each line call it .jsonl"
        ) from error
    if isinstance(found, dict) and len(found) == 1:
        (found,) = found.values()
    if not isinstance(found, list):
        raise DatasetError(f"{path} must hold φ as a list of numbers, or a list of such φ")
    return [found] if _depth(found) == axes else found


def _depth(value: Any) -> int:
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
