"""Problems on shapes in which nothing is marched: cells are halved where most is left of their rows.

Each level is solved by Newton's method from the one before. What is left is estimated from the last
change and from how much the rest of the rows fell.
"""

from typing import Any

import numpy as np

from ..answer import Piece
from ..effort import Effort, Stop
from ..inverse import Failed
from ..levels import CAUTION
from ..rows import Equations
from ..slab import ROUNDING
from .mesh import Mesh
from .places import Places
from .polynomials import gauss, products
from .sets import sets_of
from .space import Cells, LeastSquares

_MOST, _MOST_LEVELS = {2: 150_000, 3: 120_000}, 50
_FIRST = {2: 4, 3: 3}  # cells along the shortest side
_THINNEST = 1000  # box, in cubes of its shortest side
_MARKED = 0.3  # of the largest rest


Values = dict[str, np.ndarray]


class Levels:
    """`Z` are the coefficients in `space`; `estimates` the relative error of each unknown."""

    def __init__(self, equations: Equations, tolerance: float, effort: Effort):
        self.equations, self.tolerance, self.effort = equations, tolerance, effort
        self.reading = reading = equations.reading
        low, high = reading.shape.bounding_box
        self.d = len(low)
        _require_compact(high - low)
        self.mesh = Mesh.uniform(np.asarray(low, float), np.asarray(high, float), _FIRST.get(self.d, 1))
        self.p = _degree(tolerance, self.d)
        self.scale = dict.fromkeys(reading.problem.unknowns, 1.0)
        self.space: Cells | None = None
        self.Z = np.zeros((0, 0))
        self.rest, self.change, self.count = np.inf, np.inf, 0
        self.estimates = dict.fromkeys(reading.problem.unknowns, np.inf)

    @property
    def pieces(self) -> list[Piece]:
        if self.space is None:
            return []
        return [Piece(0.0, 1.0, self.space, 1, self.space.coefficients(self.Z))]

    def run(self) -> None:
        """Raises `Stop` where it ends above the tolerance."""
        while not max(self.estimates.values()) <= self.tolerance:
            if self.pieces and (size := self.pieces[0].space.size) > _MOST.get(self.d, 2000):
                raise Stop(f"{size} functions are the most there may be.")
            if self.count >= _MOST_LEVELS:
                raise Stop(f"{self.count} levels of cells are the most there may be.")
            if self.effort.used_up:
                raise Stop(f"{self.effort.in_words()}.")
            try:
                self._next_level()
            except Failed as failure:
                raise Stop(f"level {self.count + 1} was not solved: {failure}.") from failure

    def _next_level(self) -> None:
        space = self._space()
        self.effort.allow(space.size)
        start = np.zeros((space.places.count, space.own))
        if self.space is not None and not self.reading.linear:
            start = _carried(self.space, self.Z, space)
        # A level need not be solved better than it is.
        target = max(0.01 * self.tolerance, 0.01 * min(self.change, 1.0))
        Z, rests = Newton(space, self.effort).solve(start, target)
        _, x, weights = space.places.interior(4)
        values = lambda level, Z: {u: level.at(Z, u, x) for u in space.unknowns}
        before = None if self.space is None else values(self.space, self.Z)
        self._measure(space, values(space, Z), before, weights, rests, 0.0)
        self.space, self.Z = space, Z

    def _space(self) -> Cells:
        places = Places(self.reading.shape, self.mesh)
        return Cells(self.equations, places, sets_of(self.reading, places, self.p), self.p, self.scale)

    def _measure(
        self,
        space: Any,
        now: Values,
        before: Values | None,
        weights: np.ndarray,
        rests: np.ndarray,
        more: float,
    ) -> None:
        """Estimates from the values of this level and the one before at points with these weights, and
        the cells of the next level."""
        mean = weights / weights.sum()
        sizes = {u: float(np.sqrt(mean @ v**2)) for u, v in now.items()}
        top = max(sizes.values()) or 1.0
        self.scale = {u: max(size, 1e-3 * top) for u, size in sizes.items()}
        rest = float(np.linalg.norm(rests))
        if before is not None:
            gap = lambda u: float(np.sqrt(mean @ (now[u] - before[u]) ** 2)) / self.scale[u]
            changes = {u: gap(u) for u in now}
            change = max(changes.values())
            # Rows say how errors fall; polynomials of a higher degree without cells, their changes.
            if self.rest:
                rate = float(np.clip(rest / self.rest, 0.15, 0.7))
            else:
                rate = float(np.clip(change / self.change, 0.03, 0.7)) if self.change < np.inf else 0.7
            self.change = change
            self.estimates = {u: CAUTION * rate / (1 - rate) * x + more for u, x in changes.items()}
        self.rest, self.count = rest, self.count + 1
        self.effort.tell(None, f"{space.size} functions, error {max(self.estimates.values()):.1e}")
        self._refine(space, rests)

    def _refine(self, space: Any, rests: np.ndarray) -> None:
        marks, owner = rests > _MARKED * rests.max(), space.places.owner
        self.mesh = self.mesh.refined((owner >= 0) & marks[owner])


class Newton:
    """Newton's method with steps shortened until the next one, by the same factors, is smaller."""

    def __init__(self, space: Cells, effort: Effort):
        self.space, self.effort = space, effort

    def solve(self, Z: np.ndarray, target: float) -> tuple[np.ndarray, np.ndarray]:
        """Z, and what the rows of each cell are left with."""
        rows, sizes = self.space.rows_at(Z), []
        for _ in range(40):
            self.effort.factorisations += 1
            self.effort.steps += 1
            factors = LeastSquares(self.space, [g for _, g in rows])
            to, rests = self._step(factors, Z, rows)
            sizes.append(self._size(to - Z))
            if not np.isfinite(sizes[-1]):
                raise Failed("the solution is not finite")
            if self.space.reading.linear or sizes[-1] < target:
                return to, rests
            Z, rows, length = self._along(factors, Z, to, sizes[-1], free=len(sizes) == 1)
            # Rows that cannot all hold slow Newton's method down: it ends where it does not get nearer.
            stuck = len(sizes) > 6 and sizes[-1] > 0.5 * sizes[-3] and sizes[-1] < 0.1
            if stuck or (length == 0 and sizes[-1] < ROUNDING):
                return Z, rests
            if length == 0:
                raise Failed("Newton's method finds no step that leads nearer to a solution")
        raise Failed("Newton's method does not converge")

    def _step(self, factors: LeastSquares, Z: np.ndarray, rows: list) -> tuple[np.ndarray, np.ndarray]:
        sides = [at - values for at, (values, _) in zip(factors.linear(Z), rows, strict=True)]
        return factors.solve(sides)

    def _along(
        self, factors: LeastSquares, Z: np.ndarray, to: np.ndarray, size: float, free: bool
    ) -> tuple[np.ndarray, list, float]:
        length = 1.0
        while length > 1e-2:
            there = Z + length * (to - Z)
            rows = self.space.rows_at(there)
            ahead = self._size(self._step(factors, there, rows)[0] - there)
            if np.isfinite(ahead) and (free or ahead < (1 - 0.1 * length) * size or size < 0.1):
                return there, rows, length
            length /= 2
        return Z, [], 0.0

    def _size(self, change: np.ndarray) -> float:
        """Of a change of the coefficients: the worst unknown's, relative to its size."""
        volume = self.space.places.volume / self.space.places.volume.sum()
        parts = self.space.columns.items()
        return max(
            float(np.sqrt(volume @ (change[:, share] ** 2).sum(axis=1))) / self.space.scale[u]
            for u, share in parts
        )


def _require_compact(sides: np.ndarray) -> None:
    if (ratio := float(np.prod(sides / sides.min()))) > _THINNEST:
        words = " by ".join(f"{side:.3g}" for side in sides)
        raise ValueError(
            f"the shape is {words}: with cells as wide as its shortest side it would take {ratio:.0e} "
            "of them. Are its coordinates in different units? Scale them, or pass a basis."
        )


def _degree(tolerance: float, d: int) -> int:
    digits = -np.log10(tolerance)
    degree, most = (3.5 + 0.8 * digits, 12) if d == 2 else (4.6 + 0.6 * digits, 9)
    return int(np.clip(round(degree), 7 - d, most))


def _carried(old: Cells, Z: np.ndarray, new: Cells) -> np.ndarray:
    """Polynomials on new cells that agree with old ones at Gauss points."""
    out = np.zeros((new.places.count, new.own))
    for u, share in new.columns.items():
        p = new.p[u]
        unit, _ = gauss(p + 1, new.d)
        x = (new.places.low[:, None] + new.places.side[:, None] * unit).reshape(-1, new.d)
        at = old.at(Z, u, np.clip(x, new.places.mesh.low, new.places.mesh.high))
        basis = products(unit, np.zeros_like(unit), np.ones_like(unit), p, (0,) * new.d)
        out[:, share] = at.reshape(-1, len(unit)) @ np.linalg.pinv(basis).T
    return out
