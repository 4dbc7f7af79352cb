"""What `fit` returns for a family that has no small basis: each φ is solved by itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..adaptive import Adaptive, solve_to_tolerance
from ..family.phi import take
from ..state.problem import Problem
from ..support.status import Status
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

    def __call__(self, phi: Any, *, throw: bool | None = None) -> "Adaptive | DirectSolutions":
        """The solution for one φ, or for a batch. `throw`: whether a failure raises; the default for
        one φ."""
        leaves, like = jax.tree.leaves(phi), jax.tree.leaves(self.problem.phi_like)
        if not leaves or np.ndim(leaves[0]) == len(like[0].shape):
            return self._one(self.problem.check(phi), throw is not False)
        phis = self.problem.check_many(phi)
        count = len(jax.tree.leaves(phis)[0])
        return DirectSolutions([self._one(take(phis, k), throw is True) for k in range(count)])

    def _one(self, phi: Any, throw: bool) -> Adaptive:
        found = solve_to_tolerance(self.problem, phi, self.tolerance, _BUDGET, False, throw)
        assert isinstance(found, Adaptive)
        return found

    def summary(self) -> Summary:
        shown = [(name, value) for name, value in self.training.items() if name != "tried"]
        return Summary("Solver of each φ by itself", [("", self.why), *shown])


@dataclass(frozen=True)
class DirectSolutions(Sequence[Adaptive]):
    """The solutions of a batch: `solutions(points)` are all their values, `solutions[k]` is one."""

    each: list[Adaptive]

    def __call__(self, points: Any) -> Any:
        """(batch, n); for several unknowns a dictionary of such arrays."""
        return self.d()(points)

    def d(self, *coordinates: str) -> Callable[[Any], Any]:
        """A derivative of u as a function of points."""
        return lambda points: jax.tree.map(
            lambda *values: jnp.stack(values), *[one.d(*coordinates)(points) for one in self.each]
        )

    def __len__(self) -> int:
        return len(self.each)

    def __getitem__(self, k: Any) -> Any:
        return DirectSolutions(self.each[k]) if isinstance(k, slice) else self.each[k]

    @property
    def status(self) -> list[Status]:
        return [one.status for one in self.each]

    @property
    def error_estimate(self) -> np.ndarray:
        return np.array([one.error_estimate for one in self.each])
