"""A solve to measure others by, where no solution is known: more functions, more points, no training.

Steep and flat functions of the coordinates that nobody trained are rich enough for smooth solutions in a
few dimensions; how many are, and how steep, is decided by what they leave of the conditions at points
that they were not fitted on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..basis.networks.features import Scaled
from ..basis.networks.layers import dense
from ..layer.solution import Solution
from ..layer.solve import solve
from ..state.problem import Problem
from ..support.types import Phi
from .nodes import values_on

_SIZES, _STEEPNESS = (150, 300, 600), (1.0, 3.0)
_ENOUGH = 1e-6  # a relative residual with which nothing richer is tried


class Untrained(eqx.Module):
    """Random tanh functions of a point and the constant, `count` for each unknown."""

    layer: eqx.nn.Linear
    features: Scaled
    count: int = eqx.field(static=True)
    unknowns: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, problem: Problem, count: int, steepness: float = 1.0, *, key: PRNGKeyArray):
        dim = len(problem.domain.names)
        self.layer = dense(dim, count - 1, steepness, steepness, key)
        self.features, self.count, self.unknowns = Scaled(problem.domain), count, problem.unknowns

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        values = jnp.append(jnp.tanh(self.layer(self.features(x))), 1.0)
        return values if len(self.unknowns) == 1 else dict.fromkeys(self.unknowns, values)

    @property
    def size(self) -> int:
        return self.count * len(self.unknowns)

    @property
    def finest(self) -> int:
        """Points on a face that see the finest of them."""
        dim = len(self.features.box.names)
        return max(1, round(4 * self.count ** ((dim - 1) / dim)))

    @property
    def resolution(self) -> dict[str, int]:
        return {}


@dataclass(frozen=True)
class Richer:
    """A basis that was chosen for a problem, and the largest relative residual that it left."""

    problem: Problem
    basis: Untrained
    residual: float

    def solve(self, phi: Phi) -> Solution:
        """The solutions for a batch of φ."""
        one = lambda phi: solve(self.problem, self.basis, phi, throw=False, residual_limit=None)
        return jax.vmap(one)(phi)

    def on_mesh(self, phi: Phi, axes: Sequence[np.ndarray]) -> Any:
        """u on the grid of the axes, indexed in the domain's order, for each φ of a batch."""
        shape = tuple(map(len, axes))
        values = values_on(self.solve(phi), shape)
        return jax.tree.map(lambda u: np.asarray(u).reshape(len(u), *shape), values)

    def __str__(self) -> str:
        left = f", relative residual up to {self.residual:.1g}" if np.isfinite(self.residual) else ""
        return f"a solve with {self.basis.count} untrained functions{left}"


def choose(problem: Problem, phis: Phi) -> Richer:
    """The first that leaves next to nothing for a batch of φ, or the one that leaves least."""
    best = None
    for number, (size, steepness) in enumerate((n, s) for n in _SIZES for s in _STEEPNESS):
        basis = Untrained(problem, size, steepness, key=jr.key(number))
        solution = jax.vmap(lambda phi, basis=basis: solve(problem, basis, phi, throw=False))(phis)
        worst = [np.max(left) for left in solution.relative_residual.values()]
        left = float(np.nan_to_num(max(worst, default=np.inf), nan=np.inf))
        if best is None or left < best.residual or not worst:
            best = Richer(problem, basis, left)
        if left < _ENOUGH:
            break
    assert best is not None
    return best


def further_functions(problem: Problem, size: int) -> list[Untrained]:
    """Twice and four times as many functions as there are, to put beside them."""
    each = max(16, size // len(problem.unknowns))
    return [Untrained(problem, times * each, 2.0, key=jr.key(times)) for times in (2, 4)]
