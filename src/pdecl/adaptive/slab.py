"""One slab: collocation at Radau stages in the marched coordinate, collocation in space.

The unknown Z, (s, N), are the coefficients of u at the stages. The derivatives by the marched coordinate
follow from y_0 = Z, y_{a+1} = D (y_a − start_a) / h. The Jacobian of the rows is Σ_e diag(g_e) (D/h)^a
⊗ T_e; with the slopes g_e at their mean over the stages it splits into solves in space alone
(`Inverse`). A fixed point with Anderson acceleration corrects for what the mean leaves out: nothing for
a linear equation with steady coefficients.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .inverse import Failed
from .space import Space
from .stages import radau

Start = dict[str, list[np.ndarray]]  # for each unknown its value, its first derivative, …
_DEPTH = 7  # iterates that Anderson acceleration looks back at
# A change below this that no longer halves is rounding.
ROUNDING = 1e-9
_ROUGH = 1e-8  # a target that rounding in one step is far below


class Slab:
    """`scale`: for each unknown what its errors are relative to. `check` is called before each step, and
    raises where no more may be taken."""

    def __init__(
        self,
        space: Space,
        s: int,
        low: float,
        h: float,
        start: Start,
        scale: Mapping[str, Any],
        check: Callable[[], None] = lambda: None,
    ):
        self.space, self.s, self.low, self.h, self.start, self.scale = space, s, low, h, start, scale
        self.check = check
        self.times = low + h * radau(s).nodes

    def jets(self, Z: np.ndarray) -> dict[str, list[np.ndarray]]:
        out = {}
        for u, share in self.space.shares.items():
            y = [Z[..., share]]
            for first in self.start.get(u, []):
                y.append(radau(self.s).derivative @ (y[-1] - first[..., None, :]) / self.h)
            out[u] = y
        return out

    def jets_transposed(self, jets: dict[str, list[np.ndarray]]) -> tuple[np.ndarray, Start]:
        """From what each of the jets counts to what Z and the start count."""
        parts, D, starts = [], radau(self.s).derivative.T / self.h, {}
        for u in self.space.shares:
            y, firsts = jets[u][-1], []
            for below in jets[u][-2::-1]:
                moved = D @ y
                firsts.append(-moved.sum(axis=0))
                y = below + moved
            parts.append(y)
            starts[u] = firsts[::-1]
        return np.concatenate(parts, axis=1), starts

    def end(self, Z: np.ndarray) -> Start:
        """What the next slab starts from."""
        jets = self.jets(Z)
        return {u: [y[..., -1, :] for y in jets[u][: len(start)]] for u, start in self.start.items()}

    def rows(self, Z: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        return self.space.evaluate(self.jets(Z), self.times)

    def values(self, Z: np.ndarray) -> np.ndarray:
        return self.space.evaluate_values(self.jets(Z), self.times)

    def measure(self, Z: np.ndarray) -> np.ndarray:
        return measure(self.space, Z, self.scale)

    def some(self, numbers: np.ndarray) -> "Slab":
        """For some of the φ of a batch."""
        start = {u: [y[numbers] for y in ys] for u, ys in self.start.items()}
        scale = {u: np.asarray(x)[numbers] for u, x in self.scale.items()}
        return Slab(self.space.some(numbers), self.s, self.low, self.h, start, scale, self.check)

    def inverse(self, slopes: list[np.ndarray]) -> Any:
        """With the slopes at their mean over the stages."""
        held = [g.mean(axis=-4) for g in slopes]
        inverse = self.space.inverse(held, self.s, self.h)
        inverse.slopes = held
        return inverse

    def is_solved_by(self, inverse: Any, slopes: list[np.ndarray]) -> Any:
        """Whether one step is all: a linear equation whose coefficients are those of the inverse."""
        if not self.space.reading.linear:
            return False
        pairs = zip(slopes, inverse.slopes, strict=True)
        same = [np.isclose(g, held[..., None, :, :, :], 1e-12, 0) for g, held in pairs]
        return np.all([x.all(axis=(-4, -3, -2, -1)) for x in same], axis=0)

    def solve(self, Z: np.ndarray, target: float, inverse: Any = None) -> tuple[np.ndarray, Any, int]:
        """Z for which every row vanishes, up to changes of size `target`; with the inverse that served
        and the steps taken."""
        found = self.solve_each(Z, target, inverse)
        if found.why:
            raise Failed(found.why[0])
        return found.Z, found.inverse, int(found.steps)

    def solve_each(self, Z: np.ndarray, target: Any, inverse: Any = None) -> "Found":
        """The same for each φ of a batch, as many steps as it needs; those that fail end as NaN."""
        R, slopes = self.rows(Z)
        inverse = self.inverse(slopes) if inverse is None else inverse
        once = (np.asarray(target) > _ROUGH) & self.is_solved_by(inverse, slopes)
        single = Z.ndim == 2
        if single:  # as a batch of one
            Z, R = Z[None], R[None]
        rows = lambda slab, Z: slab.rows(Z[0])[0][None] if single else slab.values(Z)
        apply = lambda R, here: inverse(R[0])[None] if single else inverse(R, here)
        count, slab, here = len(Z), self, np.arange(len(Z))
        target, once = (np.broadcast_to(x, (count,)) for x in (target, once))
        out, taken, why = np.full_like(Z, np.nan), np.zeros(count, int), dict[int, str]()
        steps = Steps()
        for step in range(1, 31):
            self.check()
            change = -apply(R, here)
            sizes = steps.add(Z, change, slab.measure(change).reshape(len(Z), -1))
            finite = np.isfinite(sizes[-1])
            done = (sizes[-1] < target[here]) | (once[here] & finite)
            rounding = np.zeros_like(done)
            if step > 2:
                rounding = (sizes[-2] / 2 < sizes[-1]) & (sizes[-1] < ROUNDING) & ~done
            out[here[done]], out[here[rounding]] = (Z + change)[done], Z[rounding]
            taken[here] = step
            failed = {} if done.all() else _without_progress(sizes, done | rounding)
            why |= {int(here[k]): words for k, words in failed.items()}
            keep = ~(done | rounding)
            keep[list(failed)] = False
            if not keep.any():
                break
            if not keep.all():
                here, slab = here[keep], slab.some(np.flatnonzero(keep))
                steps.keep(keep)
            Z = steps.next()
            R = rows(slab, Z)
        else:
            why |= dict.fromkeys(here.tolist(), "the iteration does not converge")
        why |= {b: words for b, words in getattr(inverse, "why", {}).items() if b in why}
        return Found(out[0], inverse, taken[0], why) if single else Found(out, inverse, taken, why)


@dataclass
class Found:
    """Z, (s, N), what it was found with, the steps that it took, and why some φ were not solved."""

    Z: np.ndarray
    inverse: Any
    steps: Any
    why: dict[int, str]


class Steps:
    """The last iterates (φ, s, N), their changes, and these as they are measured (φ, all)."""

    def __init__(self) -> None:
        self.iterates: list[np.ndarray] = []
        self.changes: list[np.ndarray] = []
        self.measured: list[np.ndarray] = []
        self.sizes: list[np.ndarray] = []

    def add(self, Z: np.ndarray, change: np.ndarray, measured: np.ndarray) -> list[np.ndarray]:
        """The sizes of all changes so far, (φ,) each."""
        for kept, new in ((self.iterates, Z), (self.changes, change), (self.measured, measured)):
            kept.append(new)
            del kept[:-_DEPTH]
        self.sizes.append(np.linalg.norm(measured, axis=1))
        return self.sizes

    def keep(self, some: np.ndarray) -> None:
        for kept in (self.iterates, self.changes, self.measured, self.sizes):
            kept[:] = [x[some] for x in kept]

    def next(self) -> np.ndarray:
        """Anderson: the combination of the last iterates whose changes cancel best."""
        Z = self.iterates[-1] + self.changes[-1]
        if len(self.changes) == 1:
            return Z
        turned = np.stack([b - a for a, b in itertools.pairwise(self.measured)], axis=2)
        # Of [F m] = QR the triangle says what the least squares F g = m are.
        triangle: Any = np.linalg.qr(np.concatenate([turned, self.measured[-1][..., None]], axis=2), "r")
        inner, right = triangle[:, :-1, :-1], triangle[:, :-1, -1:]
        shares = (np.linalg.pinv(inner, rcond=1e-10) @ right)[..., 0]
        pairs = zip(itertools.pairwise(self.iterates), itertools.pairwise(self.changes), strict=True)
        for k, ((a, b), (c, d)) in enumerate(pairs):
            Z = Z - shares[:, k, None, None] * (b - a + d - c)
        return Z


def measure(space: Space, Z: np.ndarray, scale: Mapping[str, Any]) -> np.ndarray:
    """(…, s, all): numbers whose squares add up to the mean square over space and stages, relative to
    `scale`."""
    parts = []
    for u, share in space.shares.items():
        own = space.spectrum(u, Z[..., share]).reshape(*Z.shape[:-1], -1)
        parts.append(own / np.asarray(scale[u])[..., None, None])
    return np.concatenate(parts, axis=-1) / np.sqrt(Z.shape[-2])


def _without_progress(sizes: list[np.ndarray], done: np.ndarray) -> dict[int, str]:
    """Which of the φ that are not done will not be, and why."""
    last = sizes[-1]
    diverges = (last > 1e6) | ((len(sizes) > 4) & (last > 10 * sizes[0]))
    slow = (len(sizes) > 8) & (last > 0.3 * sizes[-5]) if len(sizes) > 4 else np.zeros_like(done)
    out: dict[int, str] = {}
    for words, which in (
        ("the iteration is slow", slow),
        ("the iteration diverges", diverges),
        ("the solution is not finite", ~np.isfinite(last)),
    ):
        out |= dict.fromkeys(np.flatnonzero(which & ~done).tolist(), words)
    return out
