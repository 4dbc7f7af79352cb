"""One slab: collocation at Radau stages in the marched coordinate, collocation in space.

The unknown Z, (s, N), are the coefficients of u at the stages. The derivatives by the marched coordinate
follow from y_0 = Z, y_{a+1} = D (y_a − start_a) / h. The Jacobian of the rows is Σ_e diag(g_e) (D/h)^a
⊗ T_e; with the slopes g_e at their mean over the stages it splits into solves in space alone
(`Inverse`). A fixed point with Anderson acceleration corrects for what the mean leaves out: nothing for
a linear equation with steady coefficients.
"""

import itertools
from collections.abc import Mapping

import numpy as np

from .inverse import Failed, Inverse
from .space import Space
from .stages import radau

Start = dict[str, list[np.ndarray]]  # for each unknown its value, its first derivative, …
_DEPTH = 7  # iterates that Anderson acceleration looks back at
# A change below this that no longer halves is rounding.
ROUNDING = 1e-9
_ROUGH = 1e-8  # a target that rounding in one step is far below


class Slab:
    """`scale`: for each unknown what its errors are relative to."""

    def __init__(
        self, space: Space, s: int, low: float, h: float, start: Start, scale: Mapping[str, float]
    ):
        self.space, self.s, self.low, self.h, self.start, self.scale = space, s, low, h, start, scale
        self.times = low + h * radau(s).nodes

    def jets(self, Z: np.ndarray) -> dict[str, list[np.ndarray]]:
        out = {}
        for u, share in self.space.shares.items():
            y = [Z[:, share]]
            for first in self.start.get(u, []):
                y.append(radau(self.s).derivative @ (y[-1] - first) / self.h)
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
        return {u: [y[-1] for y in jets[u][: len(start)]] for u, start in self.start.items()}

    def rows(self, Z: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        return self.space.evaluate(self.jets(Z), self.times)

    def measure(self, Z: np.ndarray) -> np.ndarray:
        return measure(self.space, Z, self.scale)

    def inverse(self, slopes: list[np.ndarray]) -> Inverse:
        """With the slopes at their mean over the stages."""
        held = [g.mean(axis=0) for g in slopes]
        inverse = self.space.inverse(held, self.s, self.h)
        inverse.slopes = held
        return inverse

    def is_solved_by(self, inverse: Inverse, slopes: list[np.ndarray]) -> bool:
        """Whether one step is all: a linear equation whose coefficients are those of the inverse."""
        pairs = zip(slopes, inverse.slopes, strict=True)
        return self.space.reading.linear and all(np.allclose(g, held, 1e-12, 0) for g, held in pairs)

    def solve(
        self, Z: np.ndarray, target: float, inverse: Inverse | None = None
    ) -> tuple[np.ndarray, Inverse, int]:
        """Z for which every row vanishes, up to changes of size `target`; with the inverse that served
        and the steps taken."""
        R, slopes = self.rows(Z)
        inverse = self.inverse(slopes) if inverse is None else inverse
        once = target > _ROUGH and self.is_solved_by(inverse, slopes)
        iterates: list[np.ndarray] = []
        changes: list[np.ndarray] = []
        sizes: list[float] = []
        for step in range(1, 31):
            change = -inverse(R)
            sizes.append(float(np.linalg.norm(self.measure(change))))
            if sizes[-1] < target or (once and np.isfinite(sizes[-1])):
                return Z + change, inverse, step
            if step > 2 and sizes[-2] / 2 < sizes[-1] < ROUNDING:
                return Z, inverse, step
            _require_progress(sizes)
            iterates, changes = [*iterates, Z][-_DEPTH:], [*changes, change][-_DEPTH:]
            Z = self._accelerated(iterates, changes)
            R, _ = self.rows(Z)
        raise Failed("the iteration does not converge")

    def _accelerated(self, iterates: list[np.ndarray], changes: list[np.ndarray]) -> np.ndarray:
        """Anderson: the combination of the last iterates whose changes cancel best."""
        Z = iterates[-1] + changes[-1]
        if len(changes) == 1:
            return Z
        moves, turns = ([b - a for a, b in itertools.pairwise(x)] for x in (iterates, changes))
        F = np.stack([self.measure(turn).ravel() for turn in turns], axis=1)
        shares = np.linalg.lstsq(F, self.measure(changes[-1]).ravel(), rcond=1e-10)[0]
        return Z - sum(g * (move + turn) for g, move, turn in zip(shares, moves, turns, strict=True))


def measure(space: Space, Z: np.ndarray, scale: Mapping[str, float]) -> np.ndarray:
    """(s, all): numbers whose squares add up to the mean square over space and stages, relative to
    `scale`."""
    parts = [
        space.spectrum(u, Z[:, share]).reshape(len(Z), -1) / scale[u]
        for u, share in space.shares.items()
    ]
    return np.concatenate(parts, axis=1) / np.sqrt(len(Z))


def _require_progress(sizes: list[float]) -> None:
    if not np.isfinite(sizes[-1]):
        raise Failed("the solution is not finite")
    if (len(sizes) > 4 and sizes[-1] > 10 * sizes[0]) or sizes[-1] > 1e6:
        raise Failed("the iteration diverges")
    if len(sizes) > 8 and sizes[-1] > 0.3 * sizes[-5]:
        raise Failed("the iteration is slow")
