"""What a refinement says: the answers, their bounds, and for each φ by which means it got there."""

import enum
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int8

from ...layer.solution import Solution
from ...support.status import Status
from .. import ErrorBound


class RefinedBy(enum.IntEnum):
    """How a φ came within the tolerance. `str(refined_by)` says it in words."""

    NOT_REACHED = -1
    NOTHING = 0
    WEIGHTS = 1
    POINTS = 2
    FUNCTIONS = 3
    CONJUGATE_GRADIENTS = 4

    def __str__(self) -> str:
        return _WORDS[self]


_WORDS = {
    RefinedBy.NOT_REACHED: "not reached: the answer with the least bound was kept",
    RefinedBy.NOTHING: "nothing was needed",
    RefinedBy.WEIGHTS: "weights solved for instead of those the network predicted",
    RefinedBy.POINTS: "more points",
    RefinedBy.FUNCTIONS: "more functions",
    RefinedBy.CONJUGATE_GRADIENTS: "conjugate gradients",
}


@dataclass(frozen=True)
class Refined:
    """Answers for a batch of φ, called and differentiated like the `Solution` they began as.

    - `original`: the solution that was refined; `better` has a solution, a batch of one, for each φ
      whose answer changed.
    - `bound`: the bounds of the answers. `reached`: whether they are within `tolerance`.
    - `codes`: of `RefinedBy`, one for each φ; `refined_by` has their words.
    """

    original: Solution
    better: dict[int, Solution]
    bound: ErrorBound
    codes: Int8[np.ndarray, " batch"]
    tolerance: float

    def __call__(self, points: Any) -> Any:
        """u at points of shape `(n, d)`: an array `(batch, n)`."""
        return self.d()(points)

    def d(self, *coordinates: str) -> Any:
        """A derivative of u as a function of points: `refined.d("x")(points)`."""

        def at(points: Any) -> Any:
            values = self.original.d(*coordinates)(points)
            for place, solution in self.better.items():
                values = values.at[place].set(solution.d(*coordinates)(points)[0])
            return values

        return at

    @property
    def refined_by(self) -> list[RefinedBy]:
        return [RefinedBy(int(code)) for code in self.codes]

    @property
    def reached(self) -> Bool[np.ndarray, " batch"]:
        return self.codes != RefinedBy.NOT_REACHED

    @property
    def status(self) -> list[Status]:
        """How each solve ended; for a refined φ that of the solve it was refined by."""
        codes = np.asarray(self.original.code).copy()
        for place, solution in self.better.items():
            codes[place] = int(solution.code[0])
        return [Status(int(code)) for code in codes]


def member(solution: Solution, place: int) -> Solution:
    """One φ of a batch, as a batch of one."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[place : place + 1], solution)


def put(bounds: ErrorBound, place: int, one: ErrorBound | None = None) -> ErrorBound:
    """Bounds with those of one φ replaced; without `one`, the bounds of that φ alone."""
    if one is None:
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[place : place + 1], bounds)
    return jax.tree.map(lambda leaf, new: jnp.asarray(leaf).at[place].set(new[0]), bounds, one)


def is_better(one: ErrorBound, other: ErrorBound) -> bool:
    """Whether the bound of a single φ is smaller, also where both say nothing relative to ‖u‖."""
    pair = lambda found: (float(found.relative[0]), float(found.bound[0]))
    return pair(one) < pair(other)
