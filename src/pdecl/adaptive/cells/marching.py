"""Problems on shapes with a marched coordinate: all slabs on the same cells, again on finer ones.

The lengths of slabs follow the polynomials in time, whose last coefficients say what they leave out. A
march's error in space is estimated, as that of a level is, from the change to the march before.
"""

from typing import Any

import numpy as np

from ..answer import Adaptive, Piece
from ..degrees import Degrees
from ..effort import Effort, Stop
from ..indicators import Marched as Before
from ..indicators import extrapolated, rms, time_tail, with_start
from ..inverse import Failed
from ..levels import CAUTION
from ..rows import Equations
from ..slab import Slab, Start
from ..start import Starter
from .levels import Levels

_SHORTEST, _MOST_SLABS = 1e-12, 2000
# What a slab may leave out in time: this much of the tolerance, more on the first levels.
_LOCAL, _COARSE = 0.1, 0.03
_TIMES = 12
_AT_ONCE = 1e-9  # of the length
_CONTRADICTED = 0.05  # of a condition's terms


class Marches(Levels):
    """Levels of cells, on each of which all slabs are marched."""

    @property
    def pieces(self) -> list[Piece]:
        return self._pieces

    def __init__(self, equations: Equations, tolerance: float, effort: Effort):
        super().__init__(equations, tolerance, effort)
        self._pieces: list[Piece] = []
        self.has_jumped = False
        self.seen: Adaptive | None = None
        assert self.reading.marched is not None
        self.axis: int = self.reading.marched
        self.low, self.high = self.reading.problem.domain.bounds[self.axis]
        self.first = (self.high - self.low) / 4

    def _next_level(self) -> None:
        space: Any = self._space()
        self.effort.allow(space.size)
        goal = max(_LOCAL * self.tolerance, self._coarse)
        scale = {} if self.seen is None else self.scale
        march = March(space, goal, self.effort, scale, self.first)
        march.run()
        self.first, self.has_jumped = march.usual, march.has_jumped
        problem, phi = self.reading.problem, self.equations.phi
        nothing = dict.fromkeys(problem.unknowns, np.inf)
        seen = Adaptive(problem, phi, self.tolerance, march.pieces, self.axis, nothing)
        points, weights = self._sample(space)
        now = seen.at(points, ())
        before = None if self.seen is None else self.seen.at(points, ())
        in_time = CAUTION * march.left_in_time
        self._measure(space, now, before, weights, march.rests, in_time)
        self.seen, self._pieces = seen, march.pieces

    @property
    def _coarse(self) -> float:
        """What slabs of this level need not be better than."""
        return float(_COARSE / 4**self.count)

    def _sample(self, space: Any) -> tuple[np.ndarray, np.ndarray]:
        """Points of the shape at several times, with weights."""
        low, high = self.low, self.high
        _, x, weights = space.places.interior(3)
        times = low + (high - low) * ((np.arange(_TIMES) + 0.5) / _TIMES) ** 2
        spans = np.diff(low + (high - low) * (np.arange(_TIMES + 1) / _TIMES) ** 2)
        coords = np.zeros((_TIMES, len(x), self.d + 1))
        coords[:, :, space.axes] = x
        coords[:, :, self.axis] = times[:, None]
        return coords.reshape(-1, self.d + 1), np.outer(spans, weights).ravel()


class ByDegree(Marches):
    """In four and more coordinates of space: polynomials of a total degree, no cells."""

    def _space(self) -> Any:
        return Degrees(self.equations, 2 * self.count + 3)

    def _sample(self, space: Any) -> tuple[np.ndarray, np.ndarray]:
        coords = np.asarray(self.reading.problem.domain.interior.draw(None, 4000).coords)
        return coords, np.ones(len(coords))

    @property
    def _coarse(self) -> float:
        return float(0.1 * _COARSE / 32**self.count)

    def _refine(self, space: Any, rests: np.ndarray) -> None:
        """The degree follows the count of levels."""


class March:
    """One march over all slabs on fixed cells. `rests`: what rows of each cell are left with;
    `left_in_time`: what slabs leave out in time, in the mean."""

    def __init__(self, space: Any, goal: float, effort: Effort, scale: dict[str, float], first: float):
        self.space, self.effort, self.goal, self.first = space, effort, goal, first
        self.reading = space.reading
        assert self.reading.marched is not None
        self.low, self.high = self.reading.problem.domain.bounds[self.reading.marched]
        self.length = self.high - self.low
        self.s = int(np.clip(round(0.5 - 0.8 * np.log10(goal)), 3, 9))
        self.scale = dict(scale)
        self.rests, self.squares = np.zeros(1), 0.0
        self.pieces: list[Piece] = []
        self.has_jumped = False

    @property
    def left_in_time(self) -> float:
        return float(np.sqrt(self.squares / self.length))

    def run(self) -> None:
        start = self.space.start(Starter(self.space.equations))
        # Where the boundary contradicts the start (a hot wall on a cold body), cells wider than the
        # layer that this makes follow it in no time. That is a jump, which no short slab resolves: one
        # of next to no length takes it, whatever its tail is.
        jumps = self._is_contradicted(start)
        at, h, last, before, inverse = self.low, self.first, np.inf, None, None
        if jumps:
            h = _AT_ONCE * self.length
        name = self.reading.problem.domain.names[self.reading.marched]
        while at < self.high - _SHORTEST * self.length:
            if self.effort.used_up:
                raise Stop(f"{self.effort.in_words()} at {name} = {at:.4g}.")
            if h < _SHORTEST * self.length or len(self.pieces) > _MOST_SLABS:
                raise Stop(f"stopped at {name} = {at:.4g}, where slabs become too short.")
            h = min(h, self.high - at)
            allowed = self.goal * max(1.0, (self.length / (20 * h)) ** 0.25)
            slab = Slab(self.space, self.s, at, h, start, self._scale(start))
            if not self.scale:
                self.scale = self._tried(start)
                continue
            guess = np.zeros((self.s, self.space.size))
            if not self.reading.linear:
                guess = extrapolated(before, slab)
            reuse: Any = inverse if inverse is not None and inverse.h == h else None
            try:
                Z, inverse, _ = slab.solve(guess, 0.03 * allowed, reuse)
            except Failed:
                h, inverse, jumps = (self.first if jumps else h / 2), None, False
                continue
            self.effort.steps += 1
            self.effort.factorisations += reuse is None
            values = with_start(self.space, Z, start)
            sizes = {u: rms(self.space, u, x) for u, x in values.items()}
            scale = {u: max(size, self.scale.get(u, 0.0), 1e-300) for u, size in sizes.items()}
            tail = time_tail(self.space, values, self.s, scale)
            longer = 0.9 * (allowed / tail) ** (1 / (self.s + 1))
            # A tail that does not fall with the length is space's: rows that cannot all hold.
            if tail > 1.5 * allowed and tail < 0.6 * last and not jumps:
                h, last = h * max(0.1, min(longer, 0.5)), tail
                continue
            last = np.inf
            self.scale = scale
            self.pieces.append(Piece(at, h, self.space, self.s, values))
            self.rests = self.rests + h / self.length * getattr(inverse, "rests", self.rests) ** 2
            self.squares += h * tail**2
            start, before, at = slab.end(Z), Before(at, h, self.space, values), at + h
            self.effort.tell((at - self.low) / self.length, f"{self.space.size} functions")
            if jumps:
                self.has_jumped, jumps, h, before = True, False, self.first, None
            elif longer > 1.5:
                h *= min(longer, 4.0)
        self.rests = np.sqrt(self.rests)

    @property
    def usual(self) -> float:
        """The length of the first slab that follows the solution."""
        return next(piece.h for piece in self.pieces if piece.h > 2 * _AT_ONCE * self.length)

    def _is_contradicted(self, start: Start) -> bool:
        """Whether the start leaves a condition that is no equation of motion far from satisfied. Not of
        waves: a jump would leave them with a speed without bound."""
        if any(len(derivatives) > 1 for derivatives in start.values()):
            return False
        sizes = {u: share.stop - share.start for u, share in self.space.shares.items()}
        nothing = {u: [np.zeros((1, n))] * (1 + len(start.get(u, []))) for u, n in sizes.items()}
        jets = {u: [start[u][0][None], *x[1:]] if start.get(u) else x for u, x in nothing.items()}
        times = np.array([self.low])
        rows, slopes = self.space.evaluate(jets, times)
        alone, _ = self.space.evaluate(nothing, times)
        counts = [g[..., 0].size for g in slopes]
        parts = (np.split(x[0], np.cumsum(counts)[:-1]) for x in (rows, alone))
        for i, g, row, rest in zip(self.reading.rest, slopes, *parts, strict=True):
            unknown = [
                bool(self.reading.march_count(entry) or not start.get(entry.unknown))
                for entry in self.reading.entries[i]
            ]
            if g[..., unknown].any():
                continue
            size = np.linalg.norm(row - rest) + np.linalg.norm(rest)
            if np.linalg.norm(row) > _CONTRADICTED * size:
                return True
        return False

    def _tried(self, start: Start) -> dict[str, float]:
        """Sizes of the unknowns: the start's, or where that is nothing what one slab over all says."""
        sizes = {u: rms(self.space, u, x[0][None]) for u, x in start.items() if x}
        if len(sizes) == len(self.space.unknowns) and all(sizes.values()):
            return sizes
        slab = Slab(self.space, 3, self.low, self.length, start, self._scale(start))
        try:
            Z, _, _ = slab.solve(np.zeros((3, self.space.size)), 0.1)
        except Failed:
            return {u: sizes.get(u, 0.0) or 1.0 for u in self.space.unknowns}
        found = with_start(self.space, Z, start)
        return {u: rms(self.space, u, x) or 1.0 for u, x in found.items()}

    def _scale(self, start: Start) -> dict[str, float]:
        """Of what is known, or of the start; one where that is nothing."""
        sizes = {
            u: max(
                [self.scale.get(u, 0.0)] + [rms(self.space, u, x[None]) for x in start.get(u, [])[:1]]
            )
            for u in self.space.unknowns
        }
        return {u: size or 1.0 for u, size in sizes.items()}
