"""`open`: the answers in a file, as an array of solutions that is read as it is needed."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np

from ..family import Family, phi_like
from ..family import phi as phis
from ..family.model import WEIGHTS, Model, along
from ..family.trained import find, shipped
from ..layer.solution import Solution
from ..reduced.load import load
from ..support import mistakes, storage
from ..support.status import Status
from . import formats
from .formats import Arrays
from .query import reduced, reductions_of
from .results import damaged_in, fingerprint_of, numbers_in_words, shard_of

_TOGETHER = 2**24  # numbers that are worked on at once
_AT_ONCE = 256  # answers that an iteration reads at once
_NEAR = 1e-9  # of the domain: as near to a node as a point has to be


class AnswersError(ValueError):
    """A file of answers that cannot be read, or not in the way that is asked for."""


def open(
    path: str | os.PathLike[str],
    model: Any = None,
    problem: Family | str | None = None,
) -> "AnswerFile":
    """The answers that `pdecl solve` wrote, read as they are needed. It runs no code of the file.

        answers = pdecl.open("answers.h5")
        answers[17](points)                # u of one φ, a Solution if ω was kept
        answers[100:200].d("x")(points)    # of a hundred, an array (100, n)
        answers.status, answers.phi, answers["distance"]

    - `path`: HDF5, NetCDF4 or Zarr; another process may be writing to it (`refresh` for what has come).
    - `model`: for a file with ω the trained basis or compiled solver that it was written with, or its
      file. Left out, it is looked for among those that come along. Another one is rejected.
    - `problem`: as in `pdecl.load`, for a model file of a problem of your own.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"open: `path` must be that of a file of answers; found {mistakes.found(path)}.")
    path = Path(path)
    partial = path.with_name(f"{path.name}.partial.h5")
    if not formats.exists(path) and partial.exists():
        path = partial  # which becomes `path` when it is complete
    with _opened(path) as arrays:
        done, digest = arrays.number("done"), fingerprint_of(arrays)["the model"]
        needed, attrs = WEIGHTS in arrays.layout.columns, arrays.attrs
    if isinstance(model, str | os.PathLike):
        model = load(model, problem)
    by = (
        f"It was written by: {json.loads(attrs['environment'])['command']}"
        if "environment" in attrs
        else ""
    )
    if model is not None and model.digest != digest:
        raise AnswersError(
            f"{path} was written with another model: the digest of this one is "
            f"{model.digest[:12]}…, that of the file's {digest[:12]}…. {by}"
        )
    if model is None and needed:
        model = _shipped(digest, json.loads(attrs["experiment"])["problem"])
        if model is None:
            raise AnswersError(
                f"{path} holds ω, and u needs the functions too: give the model that it was written "
                f"with, pdecl.open(path, model=…). {by}"
            )
    return AnswerFile(path, model, range(done))


class AnswerFile:
    """Answers in a file: `len`, slices (which are such files again), iteration; one by its place.

    - `answers[17]`: a `Solution` if the file holds ω, else a `StoredAnswer` with the same calls.
    - `answers(points)`, `answers.d("x")(points)`: u of all, `(φ, n)`; for several unknowns a dictionary.
      A file of values has them at its nodes alone; without points, as they are laid out there.
    - `answers["distance"]`: a column of the file, for all φ; `names` are those that there are.
    """

    def __init__(self, path: Path, model: Model | None, rows: range):
        self.path, self.model, self._rows = path, model, rows
        with _opened(path) as arrays:
            self._layout, self._attrs = arrays.layout, arrays.attrs
        about = json.loads(self._attrs["answers"])
        self._unknowns, self._coordinates, self._phi_names = (
            tuple(about[name]) for name in ("unknowns", "coordinates", "phi")
        )

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, which: str | slice | SupportsIndex) -> Any:
        if isinstance(which, str):
            return self._read([which], self._rows)[which]
        if isinstance(which, slice):
            return AnswerFile(self.path, self.model, self._rows[which])
        try:
            place = self._rows[which]
        except IndexError:
            raise IndexError(f"there are {len(self)} answers; there is no number {which}.") from None
        rows = range(place, place + 1)
        return _member(self._solution(rows), 0) if self.weights else StoredAnswer(self._some(rows))

    def __iter__(self) -> Iterator[Any]:
        for rows in self._blocks(_AT_ONCE):
            found = self._solution(rows) if self.weights else None
            for place in range(len(rows)):
                here = rows[place : place + 1]
                yield StoredAnswer(self._some(here)) if found is None else _member(found, place)

    def __call__(self, points: Any = None) -> Any:
        return self.d()(points)

    def d(self, *coordinates: str) -> Any:
        """A derivative of u of all as a function of points."""

        def at(points: Any = None) -> Any:
            found = self._values(coordinates, points, self._rows)
            return next(iter(found.values())) if len(self._unknowns) == 1 else found

        return at

    def __repr__(self) -> str:
        return f"<{len(self)} answers ({', '.join(self.names)}) in {self.path}>"

    @property
    def weights(self) -> bool:
        """Whether the file holds ω."""
        return WEIGHTS in self._layout.columns

    @property
    def names(self) -> list[str]:
        """The columns of the file."""
        return list(self._layout.columns)

    @property
    def numbers(self) -> np.ndarray:
        """The number of each φ: that in the whole stream, if this is a piece of it."""
        return self["sample"]

    @property
    def phi(self) -> Any:
        """φ of all, a batch; drawn again, where the file says by which seed."""
        return self._phi(self._rows)

    @property
    def status(self) -> list[Status]:
        """How each solve ended."""
        return [Status(int(code)) for code in self["status"]]

    @property
    def residual(self) -> dict[str, np.ndarray]:
        """For each condition, as in `Solution`."""
        return _residuals(self._read([n for n in self.names if n.startswith("residual_")], self._rows))

    @property
    def complete(self) -> bool:
        """Whether the file holds all that it was begun for."""
        with _opened(self.path) as arrays:
            return bool(arrays.number("complete"))

    def refresh(self) -> "AnswerFile":
        """All answers that there are by now."""
        with _opened(self.path) as arrays:
            return self._some(range(arrays.number("done")))

    def damaged(self) -> str:
        """Which φ do not match their checksum any more, in words; "" for none. The command that wrote
        the file, given again, solves them anew."""
        with _opened(self.path) as arrays:
            done, batch = arrays.number("done"), int(arrays.attrs["batch"])
            starts, first = damaged_in(arrays, done), shard_of(arrays).first
        return numbers_in_words(first, starts, batch, done) if starts else ""

    def reduce(self, words: str, grid: tuple[int, ...] | None = None) -> dict[str, np.ndarray]:
        """Functionals of all, by name: "mean over t; max over x, t", as `pdecl solve --reduce` has them.
        A file with ω needs a `grid`, nodes along each coordinate."""
        axes = self._axes(grid)
        wanted = reductions_of(words, list(axes), list(self._on_nodes(grid, self._rows[:1])))
        nodes = int(np.prod([len(line) for line in axes.values()]))
        parts = [
            reduced(self._on_nodes(grid, rows), axes, wanted)
            for rows in self._blocks(max(1, _TOGETHER // nodes))
        ]
        return phis.joined(parts)

    def to_xarray(self, grid: tuple[int, ...] | None = None) -> Any:
        """An `xarray.Dataset` with the dimension `sample`: values, status, distance. A file with ω needs
        a `grid`, nodes along each coordinate."""
        import xarray as xr

        axes = self._axes(grid)
        data: dict[str, Any] = {
            name: (("sample", *axes), u) for name, u in self._on_nodes(grid, self._rows).items()
        }
        beside = self._read(["sample", "status", "iterations", "distance"], self._rows)
        data |= {name: ("sample", beside[name]) for name in ("status", "iterations", "distance")}
        return xr.Dataset(data, {"sample": beside["sample"], **axes})

    def _some(self, rows: range) -> "AnswerFile":
        return AnswerFile(self.path, self.model, rows)

    def _blocks(self, size: int) -> Iterator[range]:
        return (self._rows[start : start + size] for start in range(0, max(1, len(self)), size))

    def _values(self, coordinates: Sequence[str], points: Any, rows: range) -> dict[str, np.ndarray]:
        """Of every unknown, by the names that a file has for them."""
        if not self.weights:
            return self._stored(coordinates, points, rows)
        if points is None:
            raise AnswersError("this file holds ω: say at which points, answers(points).")
        points = jnp.asarray(points, float)
        step, parts = max(1, _TOGETHER // max(1, len(points))), []
        for start in range(0, max(1, len(rows)), step):
            found = self._solution(rows[start : start + step]).d(*coordinates)(points)
            found = found if isinstance(found, dict) else {self._unknowns[0]: found}
            parts.append({name: np.asarray(u) for name, u in found.items()})
        return phis.joined(parts)

    def _stored(self, coordinates: Sequence[str], points: Any, rows: range) -> dict[str, np.ndarray]:
        """What a file of values has, as it is laid out, or at some of its nodes."""
        held = self._held()
        wanted = {name: (stem, tuple(sorted(coordinates))) for name, (stem, _) in held.items()}
        names = [name for name, known in held.items() if known == wanted[name]]
        if not names:
            what = f"derivative along {', '.join(coordinates)}" if coordinates else "values"
            raise AnswersError(f"{self.path} has no {what}; it has {', '.join(self.names)}.")
        found = {held[name][0]: u for name, u in self._read(names, rows).items()}
        if points is None:
            return found
        places = self._places(self._layout.columns[names[0]].dims, np.asarray(points, float))
        return {name: u.reshape(len(u), -1)[:, places] for name, u in found.items()}

    def _held(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """The columns of unknowns and their derivatives: which unknown, along which coordinates."""
        held = {}
        for name, column in self._layout.columns.items():
            stem = next((u for u in self._unknowns if name == u or name.startswith(f"{u}_")), None)
            if stem is not None and column.dims and name not in self._phi_names:
                rest = name.removeprefix(stem).removeprefix("_")
                held[name] = (stem, tuple(sorted(along(rest, self._coordinates))) if rest else ())
        return held

    def _places(self, dims: Sequence[str], points: np.ndarray) -> np.ndarray:
        """Which node each point is."""
        if tuple(dims) == ("point",):
            known = {name: values for name, (_, values) in self._layout.fixed.items()}
        else:
            lines = np.meshgrid(*(self._layout.axes[axis] for axis in dims), indexing="ij")
            known = dict(zip(dims, map(np.ravel, lines), strict=True))
        nodes = np.stack([known[axis] for axis in self._coordinates], axis=1)
        if points.ndim != 2 or points.shape[1] != nodes.shape[1]:
            raise AnswersError(
                f"points must have the shape (n, {nodes.shape[1]}); found {points.shape}."
            )
        from scipy.spatial import cKDTree

        scale = np.maximum(np.ptp(nodes, axis=0), 1e-300)
        apart, places = cKDTree(nodes / scale).query(points / scale)
        far = np.flatnonzero(~(apart <= _NEAR))
        if far.size:
            raise AnswersError(
                f"{self.path} holds values at its own nodes, and {far.size} of {len(points)} points are "
                f"none of these, the first {points[far[0]]}. For u anywhere keep ω: --store weights."
            )
        return np.asarray(places)

    def _axes(self, grid: tuple[int, ...] | None) -> dict[str, np.ndarray]:
        """The axes of values on nodes."""
        if not self.weights:
            if grid is not None:
                raise AnswersError(f"{self.path} holds values at its own nodes: leave the grid out.")
            held = list(self._held())
            if not held:
                raise AnswersError(
                    f"{self.path} holds functionals alone; read them by name: {', '.join(self.names)}."
                )
            return {axis: self._layout.axes[axis] for axis in self._layout.columns[held[0]].dims}
        domain: Any = self._problem(self._rows[:1]).domain
        if grid is None or len(grid) != len(domain.names) or min(grid) < 2:
            raise AnswersError(
                f"a file with ω needs a grid, nodes along each of {', '.join(domain.names)}: "
                f"grid=({', '.join(['101'] * len(domain.names))})."
            )
        lines = [np.linspace(a, b, n) for (a, b), n in zip(domain.bounds, grid, strict=True)]
        return dict(zip(domain.names, lines, strict=True))

    def _on_nodes(self, grid: tuple[int, ...] | None, rows: range) -> dict[str, np.ndarray]:
        if not self.weights:
            return self._read(list(self._held()), rows)
        assert grid is not None
        points = self._problem(self._rows[:1]).domain.mesh(*grid)
        return {name: u.reshape(len(u), *grid) for name, u in self._values((), points, rows).items()}

    def _solution(self, rows: range) -> Solution:
        """A batch of solutions, from ω."""
        names = [name for name in self.names if name.startswith("residual_")]
        columns = self._read([WEIGHTS, "status", "iterations", *names], rows)
        weights = jnp.asarray(columns[WEIGHTS], float)
        assert self.model is not None
        given, weights = self.model.given(weights, self._grid(rows))
        unknown = jnp.full(len(rows), jnp.nan)
        return Solution(
            given, jax.tree.map(jnp.asarray, self._phi(rows)), weights,
            jnp.asarray(columns["status"], int), jnp.asarray(columns["iterations"], int),
            unknown, unknown,
            {name: jnp.asarray(r) for name, r in _residuals({n: columns[n] for n in names}).items()},
        )  # fmt: skip

    def _problem(self, rows: range) -> Any:
        assert self.model is not None
        return self.model.problem(self._grid(rows))

    def _grid(self, rows: range) -> int | None:
        assert self.model is not None
        family = self.model.trained.family
        return family.grid_of(self._phi(rows)) if family.on_grid else None

    def _phi(self, rows: range) -> Any:
        if "drawn" in self._attrs and len(rows):
            assert self.model is not None
            drawn, low = json.loads(self._attrs["drawn"]), min(rows)
            some = self.model.trained.family.sample(
                drawn["seed"], max(rows) + 1 - low, drawn["first"] + low
            )
            return phis.take(some, np.asarray(rows) - low)
        columns = self._read([n for n in self._phi_names if n in self._layout.columns], rows)
        if self.model is None:
            return columns if len(columns) != 1 else next(iter(columns.values()))
        family = self.model.trained.family
        return phis.from_columns(columns, phi_like(family), family.phi_name)

    def _read(self, names: Sequence[str], rows: range) -> dict[str, np.ndarray]:
        """Columns of some φ."""
        low, high = (min(rows), max(rows) + 1) if len(rows) else (0, 0)
        by_name = {}
        with _opened(self.path) as arrays:
            for name in names:
                if name not in self._layout.columns and name != "sample":
                    raise KeyError(f"{self.path} has no {name!r}; it has {', '.join(self.names)}.")
                text = name != "sample" and self._layout.columns[name].dtype == "text"
                read = arrays.texts if text else arrays.read
                by_name[name] = np.asarray(read(name, low, high))
        at = np.asarray(rows, int) - low
        return by_name if rows.step == 1 else {name: values[at] for name, values in by_name.items()}


class StoredAnswer:
    """One answer of a file of values: what a `Solution` has, at the nodes of the file alone."""

    def __init__(self, one: AnswerFile):
        self._one = one

    def __call__(self, points: Any = None) -> Any:
        """u at nodes `(n, d)`; without points as it is laid out in the file."""
        return self.d()(points)

    def d(self, *coordinates: str) -> Any:
        """A derivative that the file has, as a function of points."""
        of_all = self._one.d(*coordinates)
        return lambda points=None: jax.tree.map(lambda u: u[0], of_all(points))

    def __getitem__(self, name: str) -> Any:
        return self._one[name][0]

    def __repr__(self) -> str:
        return f"<answer number {self.number}: {self.status}>"

    @property
    def number(self) -> int:
        return int(self._one.numbers[0])

    @property
    def phi(self) -> Any:
        return phis.take(self._one.phi, 0)

    @property
    def status(self) -> Status:
        return self._one.status[0]

    @property
    def residual(self) -> dict[str, float]:
        return {name: float(values[0]) for name, values in self._one.residual.items()}

    def to_xarray(self) -> Any:
        return self._one.to_xarray().isel(sample=0)


@contextmanager
def _opened(path: Path) -> Iterator[Arrays]:
    """A file for the time of a read, so that it is as its writer has it now."""
    if not formats.exists(path):
        raise AnswersError(f"there is no file {path}.")
    try:
        arrays = formats.open_arrays(path)
    except (OSError, KeyError) as error:
        why = "it is a folder" if isinstance(error, IsADirectoryError) else error
        raise AnswersError(f"{path} is damaged, or not a file of answers ({why}).") from error
    try:
        yield arrays
    finally:
        arrays.close()


def _shipped(digest: str, problem: str) -> Any:
    """The model for a problem that comes along and has this digest."""
    for name in shipped():
        if storage.recipe_in(find(name)).get("experiment", {}).get("problem") == problem:
            model = load(name)
            if model.digest == digest:
                return model
    return None


def _member(solutions: Solution, place: int) -> Solution:
    return jax.tree.map(lambda leaf: leaf[place], solutions)


def _residuals(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix("residual_").replace("|", "/"): r for name, r in columns.items()}
