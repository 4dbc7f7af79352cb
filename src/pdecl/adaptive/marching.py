"""Problems with a marched coordinate: slabs whose length, and pieces whose sizes, follow the tolerance.

Two solutions march side by side: the one that is returned, and a companion with two more nodes in each
piece and two more stages. Their difference is the error, carried on as the equation carries it.

A batch of φ marches together, on the same pieces and slabs: those that the neediest asks for. Each has
an error of its own. A φ that fails where others do not leaves them.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .answer import Piece
from .effort import Effort, Stop
from .grid import Grid
from .indicators import (
    Marched,
    by_piece,
    difference,
    extrapolated,
    lifted,
    rms,
    scales,
    smooth_and_swift,
    space_tails,
    time_tail,
    with_start,
)
from .inverse import Failed
from .pieces import merged, refined, uniform
from .rows import ManyEquations
from .slab import Found, Slab, Start
from .space import Coefficients, Space
from .start import Starter

# Pieces along each coordinate at first, and functions beyond which nothing is refined, by the number of
# space coordinates.
_FIRST = {0: 1, 1: 4, 2: 2}
_MOST = {0: 8000, 1: 8000, 2: 6000}
_MOST_SLABS = 5000
# Thrice the difference: the companion is not exact, least where the equation has kinks.
_CAUTION = 3.0
# What a slab costs whatever the batch, in φ, and the share of the cost below which some part.
_OVERHEAD, _WORTH = 8.0, 0.75
# Lengths relative to the whole: what no slab may fall below, and what makes a jump pass.
_SHORTEST, _JUMP = 1e-12, 1e-9


@dataclass
class Level:
    """A space, the start of the next slab in it, and the inverse that served the last one."""

    space: Grid
    s: int
    start: Start
    inverse: Any = None
    reusable: bool = False

    def serving(self, h: float) -> Any:
        fits = self.inverse is not None and self.reusable and self.inverse.h == h
        return self.inverse if fits else None

    def some(self, numbers: np.ndarray) -> "Level":
        """For some of the φ, without the inverse."""
        return Level(self.space.some(numbers), self.s, _some(self.start, numbers))


@dataclass
class LocalError:
    """What one correction on the companion's space changes, from the same start: its part that is smooth
    in time, which is space's, the rest, and the shares of pieces."""

    inverse: Any
    smooth: np.ndarray
    swift: np.ndarray
    spread: list[np.ndarray]


class Left(Exception):
    """Some φ have left: the slab is tried again without them."""


class March:
    """One march over all slabs; `goals`: for the local error of each φ, relative.

    - `numbers`: of the φ that are still here, in the batch that set out.
    - `left`: numbers of those that failed alone, and why. - `parted`: marches of those that need so much
      more than the others that they had better go on by themselves. - `is_full`: whether the budget
      allowed no more functions somewhere.
    """

    def __init__(self, equations: ManyEquations, goals: np.ndarray, effort: Effort):
        self.equations, self.goals, self.effort = equations, goals, effort
        self.reading = reading = equations.reading
        assert reading.marched is not None
        self.name = reading.problem.domain.names[reading.marched]
        self.low, self.high = reading.problem.domain.bounds[reading.marched]
        self.length, self.d = self.high - self.low, len(reading.space_axes)
        # As many stages and nodes as balance work and error for solutions of some smoothness.
        goal = float(np.exp(np.log(goals).mean()))
        self.s = int(np.clip(round(2.5 - 0.8 * np.log10(goal)), 5, 13))
        self.nodes, self.most = self.s + 1, _MOST.get(self.d, 3000)
        self.at, self.h = self.low, self.length / 50
        self.breaks = [uniform(_FIRST.get(self.d, 1))] * self.d
        self.blocked: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.numbers, self.left = np.arange(equations.count), dict[int, str]()
        self.suspects, self.parted = np.zeros(equations.count, bool), list[March]()
        self.pieces: list[Piece] = []  # of all φ, with one more axis in front of their values
        nothing = lambda: {u: np.zeros(equations.count) for u in reading.problem.unknowns}
        self.wrong, self.squares = nothing(), nothing()
        self.before: Marched | None = None
        self.refinements, self.last_local = 0, np.full(equations.count, np.inf)
        self.floor, self.needs = np.zeros((2, equations.count))
        self.starter, self.is_full = Starter(equations), False
        self.main: Level
        self.rich: Level
        self.scale: dict[str, Any]
        self._begin()

    @property
    def estimates(self) -> dict[str, np.ndarray]:
        """For each unknown the relative errors over all that has been marched."""
        top = np.max(list(self.squares.values()), axis=0)
        sizes = {u: np.maximum(np.maximum(x, 1e-6 * top), 1e-300) for u, x in self.squares.items()}
        return {u: _CAUTION * np.sqrt(self.wrong[u] / sizes[u]) for u in sizes}

    @property
    def is_done(self) -> bool:
        return self.at >= self.high - _SHORTEST * self.length

    def run(self) -> None:
        """Raises `Stop` where it ends before the end; `pieces` and `estimates` are of what is done."""
        why = ""
        while not self.is_done:
            self._require_budget()
            self._fit_length()
            try:
                self._attempt()
                self.suspects[:] = False
            except Left:
                continue
            except Failed as failure:
                why = f" ({failure})"
                self._shorten(0.5)
            if self.h < _SHORTEST * self.length or len(self.pieces) > _MOST_SLABS:
                if len(self.numbers) > 1:  # where the neediest ends others need not
                    self._fork(np.flatnonzero(self.needs >= self.needs.max()))
                    self.h = self.length / 50
                    continue
                raise Stop(f"stopped at {self.name} = {self.at:.4g}, where slabs become too short{why}.")

    def pieces_of(self, k: int) -> list[Piece]:
        """The solution of the k-th φ that is still here."""
        equations, spaces, out = self.equations.one(k), dict[int, Any](), []
        for piece in self.pieces:
            if id(piece.space) not in spaces:
                spaces[id(piece.space)] = piece.space.of(equations)
            values = {u: x[k] for u, x in piece.values.items()}
            out.append(replace(piece, space=spaces[id(piece.space)], values=values))
        return out

    # --- φ that fail ----------------------------------------------------------------------------------
    def _solved(self, found: Found) -> np.ndarray:
        """Z of all φ. Where some failed, a second time those leave, if others did not."""
        if not found.why:
            return found.Z
        failed = np.isin(np.arange(len(self.numbers)), list(found.why))
        again = failed & self.suspects
        if again.any() and not failed.all():
            self._leave({k: found.why[k] for k in np.flatnonzero(again).tolist()})
            raise Left
        self.suspects |= failed
        self.needs = np.where(failed, np.inf, self.needs)
        raise Failed(next(iter(found.why.values())))

    def _leave(self, why: dict[int, str]) -> None:
        self.left |= {int(self.numbers[k]): words for k, words in why.items()}
        self._keep(np.setdiff1d(np.arange(len(self.numbers)), list(why)))

    def _part(self, needs: np.ndarray, tails: list[np.ndarray]) -> bool:
        """Whether the neediest φ march on by themselves from here: slabs cost as many steps as the one
        with the largest error in time asks for, and pieces are wanted wherever one has its tail."""
        lengths = np.clip(needs, 1e-9, None) ** (-1 / (self.s + 1))
        order = np.argsort(lengths)
        least = np.clip(lengths[order], 0.2, 16.0)
        width = np.ones((2, len(order)))  # of the first k, and of the others, relative to now
        for e in tails:
            wanted = (e[order] * np.sqrt(e.shape[1])) ** (1 / (self.nodes + 1))
            wanted = np.clip(wanted, 0.25, 4.0)
            ahead = np.maximum.accumulate(wanted).mean(axis=1)
            behind = np.maximum.accumulate(wanted[::-1])[::-1].mean(axis=1)
            width *= np.stack([ahead, behind])
        k = np.arange(1, len(order))
        cost = lambda count, width, length: (_OVERHEAD + count * width) / length
        apart = cost(k, width[0, :-1], least[0]) + cost(len(order) - k, width[1, 1:], least[1:])
        if len(order) < 2 or apart.min() > _WORTH * cost(len(order), width[1, 0], least[0]):
            return False
        self._fork(np.sort(order[: k[np.argmin(apart)]]))
        return True

    def _fork(self, needy: np.ndarray) -> None:
        """These march on by themselves from here."""
        other = copy(self)
        other.blocked, other.left, other.parted = dict(self.blocked), {}, []
        other._keep(needy)
        self.parted.append(other)
        self._keep(np.setdiff1d(np.arange(len(self.numbers)), needy))

    def _keep(self, here: np.ndarray) -> None:
        """Goes on with some of the φ."""
        space = self.main.space
        self.numbers, self.equations = self.numbers[here], self.equations.some(here)
        self.starter = Starter(self.equations)
        self.goals, self.floor, self.last_local = (
            x[here] for x in (self.goals, self.floor, self.last_local)
        )
        self.suspects, self.needs = self.suspects[here], self.needs[here]
        self.scale = _of(self.scale, here)
        self.wrong, self.squares = _of(self.wrong, here), _of(self.squares, here)
        self.main, self.rich = self.main.some(here), self.rich.some(here)
        self.pieces = [replace(piece, values=_of(piece.values, here)) for piece in self.pieces]
        if self.before is not None:
            values = _of(self.before.values, here)
            there = self.main.space if self.before.space is space else self.before.space
            self.before = Marched(self.before.low, self.before.h, there, values)

    # --- the start ------------------------------------------------------------------------------------
    def _begin(self) -> None:
        """Pieces are halved until they resolve the start as far as it is smooth."""
        self._from_start()
        self.effort.allow(self.main.space.size)
        rich = self.rich
        ones = np.ones(len(self.numbers))
        sizes = {u: rms(rich.space, u, y[0][..., None, :]) if y else ones for u, y in rich.start.items()}
        self.scale = scales(sizes)
        finite = np.isfinite(list(sizes.values())).all(axis=0)
        if not finite.all():
            why = f"the values at {self.name} = {self.low:g} are NaN or infinite."
            if not finite.any():
                raise Stop(why)
            self._leave(dict.fromkeys(np.flatnonzero(~finite).tolist(), why))
        for _ in range(6):
            gaps = [gap / self.goals[:, None] for gap in self._start_gaps()]
            needy = [np.linalg.norm(gap, axis=1) >= 3 for gap in gaps]
            if not np.any(needy):
                return
            if self.d > 1:  # along which coordinate
                gaps = [tail / self.goals[:, None] for tail in self._start_tails()]
            some = np.any(needy, axis=0)
            most = np.max([gap.max(axis=1) for gap in gaps], axis=0)
            self.breaks = [
                refined(b, (gap > 0.1 * most[:, None])[some].any(axis=0))
                for b, gap in zip(self.breaks, gaps, strict=True)
            ]
            before = self.main, self.rich
            self._from_start()
            if self.main.space.size > self.effort.functions:
                (self.main, self.rich), self.is_full = before, True
                self.breaks = self.main.space.breaks
                return

    def _start_gaps(self) -> list[np.ndarray]:
        rich, start = self.rich.space, self.main.start
        delta = np.zeros((len(self.numbers), 1, rich.size))
        for u, y in self.rich.start.items():
            if y:
                gap = y[0] - rich.convert(self.main.space, {u: start[u][0]})[u]
                delta[:, 0, rich.shares[u]] = gap
        return by_piece(rich, delta, self.scale)

    def _start_tails(self) -> list[np.ndarray]:
        first = lambda level: {u: y[0][..., None, :] for u, y in level.start.items() if y}
        tails = [space_tails(lv.space, first(lv), self.scale) for lv in (self.main, self.rich)]
        return [np.maximum(*pair) for pair in zip(*tails, strict=True)]

    def _from_start(self) -> None:
        spaces = self._space(0), self._space(2)
        self.main = Level(spaces[0], self.s, self.starter(spaces[0]))
        self.rich = Level(spaces[1], self.s + 2, self.starter(spaces[1]))

    def _space(self, more: int) -> Grid:
        return Grid(self.equations, self.breaks, self.nodes + more)

    # --- one slab -------------------------------------------------------------------------------------
    def _fit_length(self) -> None:
        left = self.high - self.at
        self.h = min(self.h, left)
        if left - self.h < 0.1 * self.h:
            self.h = left
        # A short slab counts little in the norm over all of time, which lets jumps at the start pass.
        longer = max(1.0, (self.length / (20 * self.h)) ** 0.25)
        self.allowed = np.maximum(self.floor, self.goals * longer)

    def _slab(self, space: Grid, s: int, start: Start) -> Slab:
        return Slab(space, s, self.at, self.h, start, self.scale, self._require_budget)

    def _require_budget(self) -> None:
        self.effort.require(f" at {self.name} = {self.at:.4g}")

    def _attempt(self) -> None:
        """Solves the next slab; accepts it, or changes its length or the pieces."""
        main, s = self.main, self.s
        slab = self._slab(main.space, s, main.start)
        Z = self._solve(slab, extrapolated(self.before, slab))
        values = with_start(main.space, Z, main.start)
        self.needs = needs = time_tail(main.space, values, s, self.scale) / self.allowed
        stages = {u: x[..., -s:, :] for u, x in values.items()}
        tails = [x / self.allowed[:, None] for x in space_tails(main.space, stages, self.scale)]
        if self._part(needs, tails):
            raise Left
        in_time = float(needs.max())
        may_shorten = self.h > _JUMP * self.length
        may_refine = self.d > 0 and main.space.size < self.most and not self.is_full
        if in_time > 1.5 and may_shorten:
            wanted = 0.85 * in_time ** (-1 / (s + 1))
            return self._shorten(float(np.clip(wanted, 0.2, 0.9)))
        if may_refine and (marks := self._marked_by_tails(tails)) is not None:
            return self._refine(marks)
        local = self._local_error(values)
        self._learn_floor(local.smooth)
        if may_refine and (marks := self._marked_by_error(local, tails)) is not None:
            self.refinements += 1
            return self._refine(marks)
        swift = float((local.swift / self.allowed).max())
        worst = max(float((local.smooth / self.allowed).max()) if may_refine else 0.0, swift)
        if worst > 2 and may_shorten:
            return self._shorten(float(np.clip(worst ** (-1 / (s + 1)), 0.3, 0.8)))
        self._accept(slab, Z, values, local)
        self._coarsen(tails, local.spread)
        longer = 0.9 * max(in_time, swift, 1e-300) ** (-1 / (s + 1))
        if not 0.97 <= longer <= 1.2:  # of the same length factorisations serve again
            self.h *= float(np.clip(longer, 0.2, 4.0))

    def _solve(self, slab: Slab, guess: np.ndarray) -> np.ndarray:
        """With the inverse of the last slab, if it serves; if it does not lead there, with its own."""
        level, target = self.main, 0.03 * self.allowed
        inverse = level.serving(slab.h)
        self.effort.factorisations += inverse is None
        found = slab.solve_each(guess, target, inverse)
        if found.why and inverse is not None:
            self.effort.factorisations += 1
            found = slab.solve_each(guess, target)
        level.inverse, level.reusable = found.inverse, bool(found.steps.mean() <= 4)
        self.effort.steps += int(found.steps.max())
        return self._solved(found)

    def _local_error(self, values: dict[str, np.ndarray]) -> LocalError:
        """Also found where the last coefficients do not show it: a kink of the equation between
        nodes."""
        main, rich = self.main, self.rich
        same = moved(main.start, main.space, rich.space)
        check = self._slab(rich.space, rich.s, same)
        R, slopes = check.rows(lifted(main.space, rich.space, values, main.start, same, self.s))
        inverse = rich.serving(self.h)
        if inverse is None:
            inverse = check.inverse(slopes)
            self.effort.factorisations += 1
        if inverse.why:
            self._solved(Found(R, inverse, 0, inverse.why))
        delta = -inverse(R)
        smooth, swift = smooth_and_swift(check.measure(delta), rich.s)
        return LocalError(inverse, smooth, swift, by_piece(rich.space, delta, self.scale))

    def _learn_floor(self, smooth: np.ndarray) -> None:
        """Where halved pieces did not lower a small error it is rounding, of high derivatives on small
        pieces: no less is asked for from here on."""
        if self.refinements:
            stays = (0.7 * self.last_local < smooth) & (smooth < 1e-7)
            self.floor = np.where(stays, np.maximum(self.floor, 1.5 * smooth), self.floor)
            self.allowed = np.where(stays, self.floor, self.allowed)
        self.last_local = smooth

    def _accept(self, slab: Slab, Z: np.ndarray, values: Coefficients, local: LocalError) -> None:
        main, rich = self.main, self.rich
        companion = self._slab(rich.space, rich.s, rich.start)
        guess = lifted(main.space, rich.space, values, main.start, rich.start, self.s)
        found = companion.solve_each(guess, 0.1 * self.allowed, local.inverse)
        Y, most = self._solved(found), int(found.steps.max())
        rich.inverse, rich.reusable = local.inverse, most <= 2 and self.reading.linear
        self.effort.steps += most
        richer = with_start(rich.space, Y, rich.start)
        for u in values:
            wrong, square = difference(main.space, rich.space, values, richer, u, self.s)
            self.wrong[u] += self.h / self.length * wrong
            self.squares[u] += self.h / self.length * square
        self.pieces.append(Piece(self.at, self.h, main.space, self.s, values))
        main.start, rich.start = slab.end(Z), companion.end(Y)
        self.before = Marched(self.at, self.h, main.space, values)
        self.at += self.h
        self.refinements = 0
        done = (self.at - self.low) / self.length
        self.scale = scales({u: np.sqrt(x / done) for u, x in self.squares.items()})
        self.effort.tell(
            done, f"{main.space.size} functions, error {np.max(list(self.estimates.values())):.1e}"
        )

    # --- lengths and pieces ---------------------------------------------------------------------------
    def _shorten(self, factor: float) -> None:
        self.h *= factor
        self.main.reusable = self.rich.reusable = False

    def _marked_by_tails(self, tails: list[np.ndarray]) -> list[np.ndarray] | None:
        """Pieces to be halved, along coordinates whose tails are too large."""
        wholes = [np.linalg.norm(e, axis=1) for e in tails]
        if np.max(wholes) <= 1:
            return None
        return [
            (_large(e, 0.7) | _most(e, 0.5))[x > 1].any(axis=0)
            for e, x in zip(tails, wholes, strict=True)
        ]

    def _marked_by_error(self, local: LocalError, tails: list[np.ndarray]) -> list[np.ndarray] | None:
        """The same where the local error is too large, at most three times in a row."""
        needy = local.smooth > 1.5 * self.allowed
        if not needy.any() or self.refinements >= 3:
            return None
        wholes = np.stack([np.linalg.norm(e, axis=1) for e in tails])
        counts = wholes > 0.03 * wholes.max(axis=0)
        spread = [e / self.allowed[:, None] for e in local.spread]
        marks = [
            _large(e, 0.7) & _most(e, 0.2) & x[:, None] for e, x in zip(spread, counts, strict=True)
        ]
        # Where nothing stands out: what is largest.
        none = ~np.any([m.any(axis=1) for m in marks], axis=0)
        marks = [
            m | (none[:, None] & (e >= 0.2 * e.max(axis=1, keepdims=True)))
            for m, e in zip(marks, spread, strict=True)
        ]
        return [m[needy].any(axis=0) for m in marks]

    def _refine(self, marks: Sequence[np.ndarray]) -> None:
        """Halves pieces. What had to be halved is not joined again soon, each time for longer."""
        for p, (breaks, mark) in enumerate(zip(self.breaks, marks, strict=True)):
            for a, b, marked in zip(breaks[:-1], breaks[1:], mark, strict=True):
                if marked:
                    _, delay = self.blocked.get((p, a, b), (0, 2))
                    self.blocked[p, a, b] = (len(self.pieces) + delay, 2 * delay)
        before = self.breaks
        self.breaks = [refined(b, mark) for b, mark in zip(self.breaks, marks, strict=True)]
        if self.effort.functions < np.inf and self._space(0).size > self.effort.functions:
            self.breaks, self.is_full = before, True
            return
        self._change_spaces()
        self.before = None

    def _coarsen(self, tails: list[np.ndarray], spread: list[np.ndarray]) -> None:
        """Joins siblings whose pieces stay far below their share even when twice as long."""
        fewer = []
        for p, breaks in enumerate(self.breaks):
            own = spread[p] / self.allowed[:, None]
            e = np.maximum(tails[p], own) if self.d == 1 else tails[p]
            small = ~_large(e * 2.0 ** (self.nodes + 1), 0.1).any(axis=0)
            free = lambda a, b, p=p: self.blocked.get((p, a, b), (0, 0))[0] <= len(self.pieces)
            joined = merged(breaks, small, free)
            fewer.append(joined if len(joined) < 0.9 * len(breaks) else breaks)
        if fewer != self.breaks:
            self.breaks, old = fewer, self.main.space
            self._change_spaces()
            if self.before is not None:
                self.before.values = self.main.space.convert(old, self.before.values)
                self.before.space = self.main.space

    def _change_spaces(self) -> None:
        """Both levels in spaces of the present pieces; while no time has passed, from the problem's
        start."""
        if self.at == self.low:
            return self._from_start()
        for level, more in ((self.main, 0), (self.rich, 2)):
            old, level.space = level.space, self._space(more)
            level.start = moved(level.start, old, level.space)
            level.inverse, level.reusable = None, False


def moved(start: Start, old: Space, new: Space) -> Start:
    return {u: [new.convert(old, {u: y})[u] for y in ys] for u, ys in start.items()}


def _large(e: np.ndarray, share: float) -> np.ndarray:
    """Pieces with more than a share of what is allowed, if it were spread evenly; e is (φ, pieces)."""
    return e > share / np.sqrt(e.shape[1])


def _most(e: np.ndarray, share: float) -> np.ndarray:
    """Pieces with more than a share of the most."""
    return e > share * e.max(axis=1, keepdims=True)


def _of(values: dict[str, Any], numbers: np.ndarray) -> dict[str, Any]:
    return {u: np.asarray(x)[numbers] for u, x in values.items()}


def _some(start: Start, numbers: np.ndarray) -> Start:
    return {u: [y[numbers] for y in ys] for u, ys in start.items()}
