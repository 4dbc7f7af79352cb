"""What is asked of every φ: values on a grid or at points, derivatives, functionals of them; or ω."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, PyTree

from ..family import Family
from ..family import phi as phis
from ..family.array_files import ArrayFile
from ..family.dataset import DatasetError
from ..family.model import WEIGHTS, along, column
from ..state.problem import Problem

FUNCTION = "function"
DTYPES = ("float64", "float32")
_REDUCTION = re.compile(r"\s*(\w+)(?:\s+of\s+([\w.]+))?\s+over\s+(\w+(?:\s*,\s*\w+)*)\s*")
_FUNCTIONS = ("mean", "norm", "max", "min")


@dataclass(frozen=True)
class Reduction:
    """One functional: `function` of u, or of what `of` names, over axes."""

    function: str
    over: tuple[str, ...]
    of: str | None = None

    def __str__(self) -> str:
        of = "" if self.of is None else f" of {self.of}"
        return f"{self.function}{of} over {', '.join(self.over)}"

    def name(self, of: str) -> str:
        """What files call it."""
        return f"{self.function}_{of}_over_{'_'.join(self.over)}"


@dataclass(frozen=True)
class Query:
    """Coordinates `(n, d)`, what their `columns` are, and how the n values are laid out: `axes` names
    each axis and its values. `inside`: of the nodes of a grid those inside of a shape, which are asked;
    values at the others are NaN.

    `derivatives` are written as they are read: "x" is u_x, "xx" is u_xx; coordinates with longer names
    have dots between them: "theta.theta". With `reductions` these are kept instead of the values; with
    `functions`, the number of a model's weights, the weights are. `dtype` is that of what is kept.
    """

    columns: tuple[str, ...]
    coords: np.ndarray
    axes: dict[str, np.ndarray]
    order: tuple[int, ...] | None
    derivatives: tuple[str, ...] = ()
    unknowns: tuple[str, ...] = ("u",)
    reductions: tuple["Reduction", ...] = ()
    functions: int | None = None
    dtype: str = "float64"
    inside: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"answers are kept as {' or '.join(DTYPES)}; found {self.dtype!r}.")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(values) for values in self.axes.values())

    @property
    def names(self) -> tuple[str, ...]:
        """What is asked for: "u", "u_x", …"""
        return tuple(column(name, d) for d in ("", *self.derivatives) for name in self.unknowns)

    @property
    def kept(self) -> dict[str, tuple[str, ...]]:
        """What a file has of each φ, by name: the axes of it."""
        if self.functions is not None:
            return {WEIGHTS: (FUNCTION,)}
        if not self.reductions:
            return {name: tuple(self.axes) for name in self.names}
        return {
            reduction.name(name): tuple(axis for axis in self.axes if axis not in reduction.over)
            for reduction in self.reductions
            for name in self.names
            if reduction.of in (None, name)
        }

    @property
    def lines(self) -> dict[str, np.ndarray]:
        """The axes of what is kept, and the values along each."""
        known = {**self.axes, FUNCTION: np.arange(self.functions or 0)}
        return {axis: known[axis] for dims in self.kept.values() for axis in dims}

    @property
    def numbers(self) -> int:
        """How many are kept of each φ."""
        lines = self.lines
        return sum(int(np.prod([len(lines[axis]) for axis in dims])) for dims in self.kept.values())

    def keep(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """What is kept of values `(batch, n)`."""
        if self.functions is not None:
            return {name: np.asarray(values[name], self.dtype) for name in self.kept}
        arranged = {name: self.arrange(u) for name, u in values.items()}
        if self.reductions:
            arranged = reduced(arranged, self.axes, self.reductions)
        return {name: np.asarray(u, self.dtype) for name, u in arranged.items()}

    def arrange(self, values: ArrayLike) -> np.ndarray:
        """Values `(batch, n)` as `(batch, *shape)`."""
        values = np.asarray(values, np.float64)
        if self.order is None:
            return values
        sizes = [self.shape[self.order.index(axis)] for axis in range(len(self.order))]
        if self.inside is not None:
            whole = np.full((len(values), int(np.prod(sizes))), np.nan)
            whole[:, self.inside] = values
            values = whole
        grid = values.reshape(len(values), *sizes)
        return np.ascontiguousarray(np.transpose(grid, (0, *(1 + axis for axis in self.order))))

    def places(self) -> np.ndarray:
        """The coordinates `(n, d)` in the order of the arranged values."""
        if self.order is None:
            return self.coords
        grid = np.meshgrid(*self.axes.values(), indexing="ij")
        return np.stack([grid[list(self.axes).index(name)].ravel() for name in self.columns], axis=1)


def on_grid(
    problem: Problem,
    family: Family,
    counts: tuple[int, ...] | None,
    shape: PyTree,
    derivatives: Iterable[str] = (),
) -> Query:
    """Evenly spaced nodes, ends included, laid out as the references are: along the `solution_dims`.

    `counts` are the nodes along each coordinate in the domain's order; without them those of the
    standard grid for φ of a shape.
    """
    names = problem.domain.names
    if counts is None:
        standard = family.coordinates(phis.stack([phis.zeros(shape)]))
        counts = tuple(len(standard[name]) for name in names)
    if len(counts) != len(names) or min(counts) < 2:
        raise ValueError(
            f"the grid needs at least 2 nodes along each of {', '.join(names)}, as in "
            f"{','.join(['101'] * len(names))}; found {','.join(map(str, counts))}."
        )
    lines = [np.linspace(*ends, n) for ends, n in zip(problem.domain.bounds, counts, strict=True)]
    order = tuple(names.index(name) for name in family.solution_dims)
    axes = {names[axis]: lines[axis] for axis in order}
    coords = np.asarray(problem.domain.lattice(*counts))
    inside = np.flatnonzero(~problem.domain.outside(coords))
    if not len(inside):
        raise ValueError("the grid: none of its nodes is inside of the shape; ask for more.")
    wanted = _derivatives(problem, family, derivatives)
    some = None if len(inside) == len(coords) else inside
    return Query(names, coords[inside], axes, order, wanted, problem.unknowns, inside=some)


def at_points(problem: Problem, family: Family, coords: Any, derivatives: Iterable[str] = ()) -> Query:
    """Points of shape `(n, d)`, columns in the domain's order."""
    coords = np.asarray(coords, np.float64)
    names = problem.domain.names
    if coords.ndim != 2 or coords.shape[1] != len(names) or not len(coords):
        raise ValueError(
            f"points must have the shape (n, {len(names)}), columns {', '.join(names)}; "
            f"found {coords.shape}."
        )
    outside = np.flatnonzero(problem.domain.outside(coords))
    if outside.size:
        raise ValueError(
            f"{outside.size} of {len(coords)} points are NaN or outside the domain, the first of them "
            f"row {outside[0]}: {coords[outside[0]]}."
        )
    axes = {"point": np.arange(len(coords))}
    wanted = _derivatives(problem, family, derivatives)
    return Query(names, coords, axes, None, wanted, problem.unknowns)


def weights_alone(problem: Problem, functions: int) -> Query:
    """The weights of this many functions, from which u follows anywhere."""
    names = problem.domain.names
    nowhere = np.empty((0, len(names)))
    return Query(names, nowhere, {}, None, (), problem.unknowns, functions=functions)


def reducing(query: Query, words: Sequence[str] | str) -> Query:
    """The same with functionals instead of values: "mean over t; max of u_x over x, t". A ValueError
    says what is wrong with the words."""
    if query.inside is not None:
        raise ValueError(
            "--reduce: on a grid over a shape some nodes have no value, and a mean over the rest is not "
            "that over the shape. Ask for points inside it (--points), or keep the values."
        )
    return replace(query, reductions=reductions_of(words, tuple(query.axes), query.names))


def reductions_of(
    words: Sequence[str] | str, axes: Sequence[str], names: Sequence[str]
) -> tuple[Reduction, ...]:
    """Words for functionals of values that have these axes and names."""
    each = (words if isinstance(words, str) else ";".join(words)).split(";")
    reductions: list[Reduction] = []
    for word in [*filter(str.strip, each)] or [""]:  # nothing but semicolons names none
        match = _REDUCTION.fullmatch(word)
        if match is None:
            raise ValueError(
                f"{word.strip()!r} is no functional: write {', '.join(_FUNCTIONS)} over coordinates, as "
                'in "mean over t", "max of u_x over x, t", several with a semicolon between.'
            )
        over = tuple(axis.strip() for axis in match[3].split(","))
        reduction = Reduction(match[1], over, match[2])
        if reduction.function not in _FUNCTIONS:
            raise ValueError(
                f"{str(reduction)!r}: there is no {reduction.function}; write {', '.join(_FUNCTIONS)}."
            )
        for axis in over:
            if axis not in axes:
                raise ValueError(f"{str(reduction)!r}: these values have the axes {', '.join(axes)}.")
        if len(set(over)) < len(over):
            raise ValueError(f"{str(reduction)!r} names an axis twice.")
        if reduction.of is not None and reduction.of not in names:
            raise ValueError(
                f"{str(reduction)!r}: there is no {reduction.of}; there is {', '.join(names)}."
            )
        if reduction in reductions:
            raise ValueError(f"{str(reduction)!r} is there twice.")
        reductions.append(reduction)
    return tuple(reductions)


def reduced(
    values: Mapping[str, np.ndarray], axes: Mapping[str, np.ndarray], reductions: Sequence[Reduction]
) -> dict[str, np.ndarray]:
    """Functionals of values `(batch, *axes)`.

    On a grid `mean` and `norm`, the root of the integral of the square, are integrals by the trapezoidal
    rule; over points all count alike. `max` and `min` are over the nodes.
    """
    functionals = {}
    for reduction in reductions:
        for name, u in values.items():
            if reduction.of not in (None, name):
                continue
            u = u**2 if reduction.function == "norm" else u
            for axis in sorted(reduction.over, key=list(axes).index, reverse=True):
                u = _over(u, 1 + list(axes).index(axis), reduction.function, axes[axis], axis)
            functionals[reduction.name(name)] = np.sqrt(u) if reduction.function == "norm" else u
    return functionals


def _over(u: np.ndarray, place: int, function: str, line: np.ndarray, axis: str) -> np.ndarray:
    if function in ("max", "min"):
        return np.asarray(getattr(u, function)(axis=place))
    weights = np.full(len(line), 1 / len(line))
    if axis != "point":
        steps = np.diff(line)
        weights = (np.append(steps, 0) + np.append(0, steps)) / 2
        weights = weights if function == "norm" else weights / (line[-1] - line[0])
    return np.moveaxis(u, place, -1) @ weights


def read_points(path: str | os.PathLike[str], names: tuple[str, ...]) -> np.ndarray:
    """Points from a file.

    `.csv` or `.txt` with a column for each coordinate, in their order or as a first line names them; or
    `.npz`, `.npy`, HDF5 or `.mat` with an array `(n, d)` called "points" (or the only one), or with an
    array for each coordinate.
    """
    path = Path(path)
    if path.suffix in (".csv", ".txt"):
        return _read_columns(path, names)
    with ArrayFile(path) as file:
        if "points" in file.names or len(file.names) == 1:
            return file.whole("points" if "points" in file.names else file.names[0])
        if set(names) <= set(file.names):
            return np.stack([np.ravel(file.whole(name)) for name in names], axis=1)
        raise DatasetError(
            f"{path} has the variables {', '.join(file.names)}; points are looked for under points, or "
            f"{' and '.join(names)}."
        )


def _read_columns(path: Path, names: tuple[str, ...]) -> np.ndarray:
    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    try:
        rows = [line.replace(",", " ").split() for line in path.read_text().splitlines() if line.strip()]
        headed = _is_header(rows[:1])
        values = np.asarray(rows[headed:], np.float64)
    except ValueError as error:
        raise DatasetError(f"{path} does not hold columns of numbers ({error})") from error
    if not headed or values.ndim != 2:
        return values
    header = [word for word in (part.strip("#\"'") for part in rows[0]) if word]
    if not set(names) <= set(header) or len(header) != values.shape[1]:
        raise DatasetError(
            f"{path} has the columns {', '.join(header)}; points are looked for under "
            f"{' and '.join(names)}, or without a first line of names."
        )
    return values[:, [header.index(name) for name in names]]


def _is_header(first: list[list[str]]) -> bool:
    try:
        np.asarray(first, np.float64)
    except ValueError:
        return True
    return False


def _derivatives(problem: Problem, family: Family, wanted: Iterable[str]) -> tuple[str, ...]:
    wanted = tuple(dict.fromkeys(wanted))
    for derivative in wanted:
        if not derivative or not set(along(derivative, problem.domain.names)) <= set(
            problem.domain.names
        ):
            raise ValueError(
                f"there is no derivative {derivative!r}; write it with the coordinates "
                f"{', '.join(problem.domain.names)}, as in x or xx."
            )
        if family.on_grid and len(derivative) > 1:
            raise ValueError(
                f"derivative {derivative!r}: solutions of {family.name} are linear between nodes and "
                "have first derivatives only."
            )
    return wanted
