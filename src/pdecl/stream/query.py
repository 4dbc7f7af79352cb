"""Where solutions are asked for: a grid or points, and which derivatives."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..family import Family
from ..family.array_files import ArrayFile
from ..family.dataset import DatasetError
from ..state.problem import Problem


@dataclass(frozen=True)
class Query:
    """Coordinates `(n, d)`, what their `columns` are, and how the n values are laid out: `axes` names
    each axis and its values. `kept`: of the nodes of a grid those that are inside of a shape, which are
    asked; values at the others are NaN.

    `derivatives` are written as they are read: "x" is u_x, "xx" is u_xx; coordinates with longer names
    have dots between them: "theta.theta".
    """

    columns: tuple[str, ...]
    coords: np.ndarray
    axes: dict[str, np.ndarray]
    order: tuple[int, ...] | None
    derivatives: tuple[str, ...] = ()
    unknowns: tuple[str, ...] = ("u",)
    kept: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(values) for values in self.axes.values())

    @property
    def names(self) -> tuple[str, ...]:
        """What is asked for: "u", "u_x", …"""
        return tuple(column(name, d) for d in ("", *self.derivatives) for name in self.unknowns)

    def arrange(self, values: Any) -> np.ndarray:
        """Values `(batch, n)` as `(batch, *shape)`."""
        values = np.asarray(values, np.float64)
        if self.order is None:
            return values
        sizes = [self.shape[self.order.index(axis)] for axis in range(len(self.order))]
        if self.kept is not None:
            whole = np.full((len(values), int(np.prod(sizes))), np.nan)
            whole[:, self.kept] = values
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
    shape: Any,
    derivatives: Any = (),
) -> Query:
    """Evenly spaced nodes, ends included, laid out as the references are: along the `solution_dims`.

    `counts` are the nodes along each coordinate in the domain's order; without them those of the
    standard grid for φ of a shape.
    """
    names = problem.domain.names
    if counts is None:
        is_shape = lambda part: isinstance(part, tuple) and all(isinstance(n, int) for n in part)
        standard = family.coordinates(
            jax.tree.map(lambda one: np.empty((1, *one)), shape, is_leaf=is_shape)
        )
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
    kept = np.flatnonzero(~problem.domain.outside(coords))
    if not len(kept):
        raise ValueError("the grid: none of its nodes is inside of the shape; ask for more.")
    wanted = _derivatives(problem, family, derivatives)
    some = None if len(kept) == len(coords) else kept
    return Query(names, coords[kept], axes, order, wanted, problem.unknowns, some)


def at_points(problem: Problem, family: Family, coords: Any, derivatives: Any = ()) -> Query:
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


def read_points(path: str | os.PathLike[str], names: tuple[str, ...]) -> np.ndarray:
    """Points from a file.

    `.csv` or `.txt` with a column for each coordinate; or `.npz`, `.npy`, HDF5 or `.mat` with an array
    `(n, d)` called "points" (or the only one), or with an array for each coordinate.
    """
    path = Path(path)
    if path.suffix in (".csv", ".txt"):
        return _read_columns(path)
    with ArrayFile(path) as file:
        if "points" in file.names or len(file.names) == 1:
            return file.whole("points" if "points" in file.names else file.names[0])
        if set(names) <= set(file.names):
            return np.stack([np.ravel(file.whole(name)) for name in names], axis=1)
        raise DatasetError(
            f"{path} has the variables {', '.join(file.names)}; points are looked for under points, or "
            f"{' and '.join(names)}."
        )


def _read_columns(path: Path) -> np.ndarray:
    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    try:
        rows = [line.replace(",", " ").split() for line in path.read_text().splitlines() if line.strip()]
        return np.asarray(rows[_is_header(rows[:1]) :], np.float64)
    except ValueError as error:
        raise DatasetError(f"{path} does not hold columns of numbers ({error})") from error


def _is_header(first: list[list[str]]) -> bool:
    try:
        np.asarray(first, np.float64)
    except ValueError:
        return True
    return False


def along(derivative: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The coordinates of a derivative: "xt" is along x and t, "theta.t" along theta and t."""
    if derivative in names or "." in derivative:
        return tuple(derivative.split("."))
    return tuple(derivative)


def column(unknown: str, derivative: str = "") -> str:
    """What files call an unknown's derivative."""
    return f"{unknown}_{derivative}" if derivative else unknown


def _derivatives(problem: Problem, family: Family, wanted: Any) -> tuple[str, ...]:
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
