"""What `fit` returns for a family that has no small basis: each φ is solved by itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..adaptive import Adaptive, AdaptiveMany, solve_many_to_tolerance, solve_to_tolerance
from ..state.problem import Problem
from ..support.summary import Summarised, Summary

_BUDGET = 600.0  # seconds for one φ


@dataclass(frozen=True, repr=False)
class Direct(Summarised):
    """`solver(phi)` and `solver(batch)`, as `pdecl.solve(problem, phi, tolerance=...)`: for families
    (of moving shocks) whose solutions no small number of functions can say.

    - `why`: what was found of a basis. - `training`: what was tried.
    """

    problem: Problem
    tolerance: float
    why: str
    training: Mapping[str, Any]

    def __call__(self, phi: Any, *, throw: bool | None = None) -> Adaptive | AdaptiveMany:
        """The solution for one φ, or for a batch. `throw`: whether a failure raises; the default for
        one φ."""
        leaves, like = jax.tree.leaves(phi), jax.tree.leaves(self.problem.phi_like)
        if not leaves or np.ndim(leaves[0]) == len(like[0].shape):
            return self._one(self.problem.check(phi), throw is not False)
        phis = self.problem.check_many(phi)
        return AdaptiveMany(
            solve_many_to_tolerance(self.problem, phis, self.tolerance, _BUDGET, throw=throw is True)
        )

    def _one(self, phi: Any, throw: bool) -> Adaptive:
        found = solve_to_tolerance(self.problem, phi, self.tolerance, _BUDGET, False, throw)
        assert isinstance(found, Adaptive)
        return found

    def summary(self) -> Summary:
        shown = [(name, value) for name, value in self.training.items() if name != "tried"]
        return Summary("Solver of each φ by itself", [("", self.why), *shown])
