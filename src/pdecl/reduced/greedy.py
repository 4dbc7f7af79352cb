"""Which φ to solve for: a weak greedy choice of those that the solutions so far say least well."""

import warnings
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float

from ..family import SPLITS, Family
from ..family.phi import stack, take
from .snapshots import Snapshots, residuals_of
from .statistics import WarmStart, learned_start

if TYPE_CHECKING:
    from .solver import Compiled

_OF = 8  # draws, of which the hardest is taken
_PLAIN = 4  # one φ of this many is taken as it is drawn: `take_snapshots` holds these out
_ROUNDING = 1e-13
_MANY = 2000  # φ that a compiled solver is asked for


class Draws:
    """φ of a family's distribution, one after the other.

    Every fourth is taken as it is drawn, and errors are measured on these. Once `learn` has seen
    solutions, each of the others is the hardest of a few draws: POD of plain draws says the typical φ
    well, and rare ones, whose errors are the worst, hardly at all.
    """

    def __init__(self, family: Family):
        self._family, self._number = family, 0
        self._hardness: WarmStart | None = None

    def plain(self, solved: int) -> bool:
        """Whether the φ to solve after this many is one as it is drawn."""
        return solved % _PLAIN == _PLAIN - 1

    def next(self, solved: int) -> Any:
        """The φ to solve after this many."""
        hardness = None if self.plain(solved) else self._hardness
        count = 1 if hardness is None else _OF
        phis = self._family.sample(SPLITS["train"].seed, count, self._number)
        self._number += count
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(phis)):
            raise ValueError("the distribution of φ, `parameter=`, gives NaN or infinite numbers.")
        if hardness is None:
            return take(phis, 0)
        return take(phis, int(np.argmax(jax.vmap(lambda phi: hardness(phi)[0])(phis))))

    def hardest(self, solver: "Compiled", snapshots: Snapshots, count: int) -> list[Any]:
        """Of many φ those that a solver has no answer for, or whose errors it states largest, and as
        many that leave most in rows that it does not look at: it has few."""
        phis = self._family.sample(SPLITS["train"].seed, _MANY, self._number)
        self._number += _MANY
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solution = solver(phis, throw=False)
        left = residuals_of(snapshots, phis, solution.weights)
        ways = [np.asarray(solution.error_estimate), np.where(np.isfinite(left), left, np.inf)]
        orders = [np.argsort(-x, kind="stable")[:count].tolist() for x in ways]
        in_turn = dict.fromkeys(k for pair in zip(*orders, strict=True) for k in pair)
        return [take(phis, k) for k in list(in_turn)[:count]]

    def learn(self, phis: list[Any], weights: Float[np.ndarray, "S N"], unknowns: int) -> None:
        """From solutions in orthonormal functions: what each adds to all others, interpolated in φ."""
        hardness = np.log(novelties(weights, unknowns))[:, None]
        self._hardness = learned_start(stack(phis), hardness, (1,))


def novelties(weights: Float[np.ndarray, "S N"], unknowns: int) -> Float[np.ndarray, " S"]:
    """The relative distance of each solution from the span of all others, the root of the mean square
    over unknowns.

    With G the Gram matrix of the solutions, each of norm one, its square is 1 / (G⁻¹)_ii.
    """
    squares = np.zeros(len(weights))
    for share in np.split(weights, unknowns, axis=1):
        norms = np.linalg.norm(share, axis=1, keepdims=True)
        alike = share / np.where(norms > 0, norms, 1.0)
        gram = alike @ alike.T + _ROUNDING * np.eye(len(alike))
        squares += 1 / np.diag(np.linalg.inv(gram)) / unknowns
    return np.sqrt(np.maximum(squares, _ROUNDING))
