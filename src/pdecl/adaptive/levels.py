"""Problems in which nothing is marched: all coordinates at once, on levels of growing size.

Each level is solved by Newton's method from the one before. What is left is estimated from the last
change and from how much the tails fell.
"""

import numpy as np

from .answer import Piece
from .degrees import Degrees
from .effort import Effort, Stop
from .grid import Grid
from .indicators import rms, scales, space_tails
from .inverse import Failed, Solve, factorise
from .pieces import Breaks, refined, uniform
from .rows import Equations
from .slab import ROUNDING, measure
from .space import Coefficients, Space

_MOST, _MOST_LEVELS = 12000, 30
# From this many coordinates on, polynomials of a total degree.
MANY = 4
CAUTION = 3.0
_TIMES = np.zeros(1)


class Levels:
    """`values` are the coefficients in `space`; `estimates` the relative error of each unknown."""

    def __init__(self, equations: Equations, tolerance: float, effort: Effort):
        self.equations, self.tolerance, self.effort = equations, tolerance, effort
        reading = equations.reading
        self.d = len(reading.space_axes)
        self.nodes = int(np.clip(round(3.5 - 0.8 * np.log10(tolerance)), 5, 10))
        self.degree, self.count = 4, 0
        self.last = 0.0  # seconds of the last level
        self.breaks: list[Breaks] = [uniform({1: 4, 2: 2}.get(self.d, 1))] * self.d
        self.space: Space | None = None
        self.values: Coefficients = {}
        self.tail = np.inf
        self.changes = dict.fromkeys(reading.problem.unknowns, 0.0)
        self.estimates = dict.fromkeys(reading.problem.unknowns, np.inf)

    @property
    def pieces(self) -> list[Piece]:
        return [] if self.space is None else [Piece(0.0, 1.0, self.space, 1, self.values)]

    def run(self) -> None:
        """Raises `Stop` where it ends above the tolerance."""
        while max(self.estimates.values()) > self.tolerance:
            if self.space is not None and self.space.size > _MOST:
                raise Stop(f"{self.space.size} functions are the most there may be.")
            if self.count >= _MOST_LEVELS:
                raise Stop(f"{self.count} levels of refinement are the most there may be.")
            self.effort.require()
            try:
                self._next_level()
            except Failed as failure:
                raise Stop(f"level {self.count + 1} was not solved: {failure}.") from failure

    def _next_level(self) -> None:
        total = self.d >= MANY
        space: Space = (
            Degrees(self.equations, self.degree)
            if total
            else Grid(self.equations, self.breaks, self.nodes)
        )
        began = self.effort.seconds
        longer = 1.0 if self.space is None else space.size / self.space.size
        self.effort.allow(space.size)
        self.effort.foresee(self.last, self.effort.memory, longer)
        scale, before = dict.fromkeys(space.unknowns, 1.0), {}
        Z = np.zeros((1, space.size))
        if self.space is not None:
            scale = scales({u: rms(self.space, u, x) for u, x in self.values.items()})
            before = space.convert(self.space, self.values)
            for u, x in before.items():
                Z[:, space.shares[u]] = x
        Z = Newton(space, scale, self.effort).solve(Z, 0.01 * self.tolerance)
        self.values = {u: Z[:, share] for u, share in space.shares.items()}
        scale = scales({u: rms(space, u, x) for u, x in self.values.items()})
        tails = space_tails(space, self.values, scale)
        tail = max(1e-300, *(float(np.linalg.norm(e)) for e in tails))
        if self.space is not None:
            # The change times how the tails fall: the sum of what would follow, with caution. A jump in
            # a coefficient may lie between the same nodes as before and change nothing: what earlier
            # changes have become counts too.
            falls = min(tail / self.tail, 0.7)
            rate = max(falls, 0.15)
            share = CAUTION * rate / (1 - rate)
            for u, x in self.values.items():
                change = rms(space, u, x - before[u]) / scale[u]
                self.changes[u] = max(change, falls * self.changes[u])
            self.estimates = {u: share * change for u, change in self.changes.items()}
        self.space, self.tail, self.last = space, tail, self.effort.seconds - began
        self.count, self.degree = self.count + 1, self.degree + 1
        self.effort.tell(None, f"{space.size} functions, error {max(self.estimates.values()):.1e}")
        top = max(e.max() for e in tails)
        if not total:
            self.breaks = [refined(b, e > 0.1 * top) for b, e in zip(self.breaks, tails, strict=True)]


class Newton:
    """Newton's method with steps shortened until the next one, by the same factorisation, is smaller."""

    def __init__(self, space: Space, scale: dict[str, float], effort: Effort):
        self.space, self.scale, self.effort = space, scale, effort

    def solve(self, Z: np.ndarray, target: float) -> np.ndarray:
        R, slopes = self._rows(Z)
        for step in range(40):
            self.effort.require()
            inverse = self._inverse(slopes)
            change = -inverse(R[0])[None]
            size = self._size(change)
            if not np.isfinite(size):
                raise Failed("the solution is not finite")
            found = self._along(Z, change, size, inverse, free=step == 0 or size < target)
            if found is None:
                if size < 1e-7:  # rounding
                    return Z
                raise Failed("Newton's method finds no step that leads nearer to a solution")
            Z, R, slopes, length, ahead = found
            rounding = size < ROUNDING and ahead > 0.1 * size
            if size * length < target or rounding or self.space.reading.linear:
                return Z
        raise Failed("Newton's method does not converge")

    def _along(
        self, Z: np.ndarray, change: np.ndarray, size: float, inverse: Solve, free: bool
    ) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], float, float] | None:
        length = 1.0
        while length > 1e-3:
            there = Z + length * change
            R, slopes = self._rows(there)
            ahead = self._size(inverse(R[0])[None])
            if np.isfinite(ahead) and (free or ahead < (1 - 0.1 * length) * size):
                return there, R, slopes, length, ahead
            length /= 2
        return None

    def _rows(self, Z: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        return self.space.evaluate({u: [Z[:, share]] for u, share in self.space.shares.items()}, _TIMES)

    def _inverse(self, slopes: list[np.ndarray]) -> Solve:
        here = [g[0] for g in slopes]
        self.effort.factorisations += 1
        self.effort.steps += 1
        apart = self.space.separable(here)
        if apart is not None:
            return apart(0.0)[0]
        matrices = self.space.matrices(here)
        if not matrices:
            raise Failed("no condition depends on u")
        return factorise(matrices[0], self.space.row_sizes(here))[0]

    def _size(self, Z: np.ndarray) -> float:
        return float(np.linalg.norm(measure(self.space, Z, self.scale)))
