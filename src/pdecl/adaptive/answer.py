"""What a solve to a tolerance returns: a function of the coordinates with a statement of its error."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.polynomial import legendre

from ..state.plots import Shown
from ..state.points import is_concrete
from ..state.problem import Problem, inside
from ..support.status import Status
from ..support.summary import Summary, Table
from .space import Coefficients, Space
from .stages import to_legendre

_AT_ONCE = 4096  # points


@dataclass(frozen=True)
class Piece:
    """The solution on one slab, from `low` on: coefficients of each unknown at its start and stages."""

    low: float
    h: float
    space: Space
    s: int
    values: Coefficients


@dataclass(repr=False, eq=False)
class Adaptive(Shown):
    """u for one φ, from `solve(problem, phi, tolerance=...)`. `u(points)` are its values,
    `u.d("x")(points)` a derivative; for several unknowns a dictionary.

    - `status`: `Status.SOLVED`, or why not; `message` says more.
    - `error_estimate`: of the relative L2 error over the box, the worst of the unknowns; `estimates` for
      each of them.
    - `relative_residual`: how well each condition holds on points that no row was at, as in `Solution`.
    - `functions`: the most at one time; `slabs` of the coordinate that was marched along, if one was.
    - `has_jumped`: whether the boundary contradicted the start, which then is followed by a jump.
    - `steps`, `factorisations`, `seconds`: what it took, compilation included; of φ that were solved
      together the share of one in the seconds.

    Where a march stopped early, values beyond are NaN.
    """

    problem: Problem
    phi: Any
    tolerance: float
    pieces: list[Piece]
    marched: int | None
    estimates: dict[str, float]
    status: Status = Status.SOLVED
    message: str = ""
    relative_residual: dict[str, float] | None = None
    steps: int = 0
    factorisations: int = 0
    seconds: float = np.nan
    has_jumped: bool = False
    # All that marched together, values with one more axis in front, and the place of this one.
    march: "tuple[Adaptive, int] | None" = field(default=None, repr=False)

    def __call__(self, points: Any) -> Any:
        """u at points of shape `(n, d)`: an array `(n,)`, or a dictionary of them."""
        return self.d()(points)

    def d(self, *coordinates: str) -> Callable[[Any], Any]:
        """A derivative of u as a function of points: `u.d("x", "x")(points)`."""
        axes = tuple(self.problem.domain.axis(name) for name in coordinates)

        def at(points: Any) -> Any:
            coords = inside(self.problem, points)
            if not is_concrete(coords):
                raise TypeError(
                    "a solution found to a tolerance is evaluated by NumPy, not inside jit, vmap or "
                    "grad: "
                    "call it outside, or solve with a basis."
                )
            found = {u: jnp.asarray(x) for u, x in self.at(np.asarray(coords), axes).items()}
            return found if len(found) > 1 else next(iter(found.values()))

        return at

    def on_grid(self, *lines: Any, by: Sequence[str] = ()) -> Any:
        """u, or its derivative `by=("x",)`, at all products of values of each coordinate, in the order
        of the domain: an array `(len(x), len(t))`, or a dictionary of them. Much faster than at as many
        points."""
        box = self.problem.domain
        if len(lines) != len(box.names):
            raise ValueError(
                f"on_grid takes values of each of {', '.join(box.names)}; found {len(lines)}."
            )
        values = [np.asarray(line, float).reshape(-1) for line in lines]
        for line, name, (low, high) in zip(values, box.names, box.bounds, strict=True):
            if line.size and not (low <= line.min() and line.max() <= high):
                raise ValueError(f"on_grid: {name} is from {low:g} to {high:g} in the domain.")
        out = self._on_grid(values, tuple(box.axis(name) for name in by))
        return out if len(out) > 1 else next(iter(out.values()))

    def at(self, coords: np.ndarray, axes: tuple[int, ...]) -> dict[str, np.ndarray]:
        """The derivative along these axes of each unknown, without checks."""
        lead = next(iter(self.pieces[0].values.values())).shape[:-2] if self.pieces else ()
        out = {u: np.full((*lead, len(coords)), np.nan) for u in self.problem.unknowns}
        for piece, here in self.by_piece(coords):
            for first in range(0, len(here), _AT_ONCE):
                some = here[first : first + _AT_ONCE]
                for u, values in _evaluated(piece, self.marched, coords[some], axes).items():
                    out[u][..., some] = values
        return out

    def some(self, numbers: np.ndarray) -> "Adaptive":
        """Of φ that marched together, some."""
        cut = lambda piece: replace(piece, values={u: x[numbers] for u, x in piece.values.items()})
        return replace(self, pieces=[cut(piece) for piece in self.pieces])

    @property
    def error_estimate(self) -> float:
        return max(self.estimates.values())

    @property
    def functions(self) -> int:
        return max((piece.space.size for piece in self.pieces), default=0)

    @property
    def slabs(self) -> int | None:
        return None if self.marched is None else len(self.pieces)

    def summary(self) -> Summary:
        several, held = len(self.estimates) > 1, self.relative_residual
        return Summary(
            "Solution to a tolerance",
            [
                ("status", str(self.status)),
                ("", self.message or None),
                ("error estimate", f"{self.error_estimate:.2g} (asked: {self.tolerance:.2g})"),
                (
                    "of unknowns",
                    Table(("", "estimate"), list(self.estimates.items())) if several else None,
                ),
                ("functions", self.functions),
                ("slabs", None if self.slabs is None else f"{self.slabs} along {self._marched_name()}"),
                ("steps", self.steps),
                ("factorisations", self.factorisations),
                ("seconds", self.seconds),
                ("conditions", held and Table(("", "relative residual"), list(held.items()))),
            ],
        )

    def _on_grid(self, lines: list[np.ndarray], axes: tuple[int, ...]) -> dict[str, np.ndarray]:
        out = {u: np.full([len(line) for line in lines], np.nan) for u in self.problem.unknowns}
        times = np.zeros((1, len(lines)))
        if self.marched is not None:
            times = np.zeros((len(lines[self.marched]), len(lines)))
            times[:, self.marched] = lines[self.marched]
        for piece, here in self.by_piece(times):
            space = piece.space
            orders = [axes.count(a) for a in space.axes]
            for u in space.unknowns:
                x = _in_time(piece, self.marched, u, times[here], axes) @ piece.values[u]
                x = space.on_grid(u, x, [lines[a] for a in space.axes], orders)
                if self.marched is None:
                    out[u][...] = x[0]
                else:
                    np.moveaxis(out[u], self.marched, 0)[here] = x
        return out

    def _marched_name(self) -> str:
        return "" if self.marched is None else self.problem.domain.names[self.marched]

    def by_piece(self, coords: np.ndarray) -> list[tuple[Piece, np.ndarray]]:
        if not self.pieces:
            return []
        if self.marched is None:
            return [(self.pieces[0], np.arange(len(coords)))]
        low, high = self.problem.domain.bounds[self.marched]
        ends = np.array([piece.low + piece.h for piece in self.pieces])
        which = np.searchsorted(ends + 1e-12 * (high - low), coords[:, self.marched])
        if ends[-1] > high - 1e-9 * (high - low):
            which = np.minimum(which, len(ends) - 1)
        solved = np.unique(which[which < len(ends)])
        return [(self.pieces[k], np.flatnonzero(which == k)) for k in solved]


def _evaluated(
    piece: Piece, marched: int | None, coords: np.ndarray, axes: tuple[int, ...]
) -> dict[str, np.ndarray]:
    space, out = piece.space, {}
    orders = tuple(axes.count(a) for a in space.axes)
    for u in space.unknowns:
        in_time = _in_time(piece, marched, u, coords, axes)
        flat = piece.values[u].reshape(-1, piece.values[u].shape[-1])
        x = (space.values(u, coords, orders) @ flat.T).reshape(len(coords), -1, in_time.shape[1])
        out[u] = (x * in_time[:, None]).sum(axis=2).T.reshape(*piece.values[u].shape[:-2], -1)
    return out


def pulled(
    solution: Adaptive, coords: np.ndarray, axes: tuple[int, ...], weights: dict[str, np.ndarray]
) -> list[Coefficients]:
    """For each piece what its coefficients count in the sum of the derivative of u along these axes at
    points times weights."""
    out = [{u: np.zeros_like(x) for u, x in piece.values.items()} for piece in solution.pieces]
    places = {id(piece): k for k, piece in enumerate(solution.pieces)}
    for piece, here in solution.by_piece(coords):
        orders = tuple(axes.count(a) for a in piece.space.axes)
        for u, w in weights.items():
            in_time = _in_time(piece, solution.marched, u, coords[here], axes) * w[here, None]
            out[places[id(piece)]][u] += (piece.space.values(u, coords[here], orders).T @ in_time).T
    return out


def _in_time(
    piece: Piece, marched: int | None, u: str, coords: np.ndarray, axes: tuple[int, ...]
) -> np.ndarray:
    """(points, start and stages): what each value in time counts there."""
    if marched is None:
        return np.ones((len(coords), 1))
    x = 2 * (coords[:, marched] - piece.low) / piece.h - 1
    order = axes.count(marched)
    polynomials = legendre.legder(to_legendre(piece.values[u], piece.s), order, axis=0)
    return legendre.legvander(x, len(polynomials) - 1) @ polynomials * (2 / piece.h) ** order
