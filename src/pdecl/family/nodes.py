"""Values at the nodes of a grid of the bounding box; where a domain is a shape, NaN outside of it."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from ..layer.solution import Solution
from ..state.problem import Problem
from ..support.types import Phi


def values_on(solution: Solution, counts: Sequence[int]) -> Any:
    """The values of a batch of solutions at all nodes, (batch, n), in the domain's order; for several
    unknowns a dictionary."""
    domain = solution.problem.domain
    coords = np.asarray(domain.lattice(*counts))
    inside = inside_of(solution.problem, solution.phi, counts)
    if inside is None:
        return solution(coords)
    some = np.flatnonzero(~domain.outside(coords))

    def spread(values: Float[Any, "batch n"]) -> np.ndarray:
        out = np.full((len(values), len(coords)), np.nan)
        out[:, some] = np.asarray(values)
        return np.where(inside, out, np.nan)

    return jax.tree.map(spread, solution(coords[some]))


def inside_of(problem: Problem, phi: Phi, counts: Sequence[int]) -> np.ndarray | None:
    """Which nodes are inside of the domain of each of a batch of φ, (batch, n); None where all are."""
    domain = problem.domain
    coords = domain.lattice(*counts)
    one = lambda phi: domain.covers(coords, phi)
    if jax.eval_shape(one, jax.tree.map(lambda leaf: leaf[0], phi)) is None:
        return None
    leaves = jax.tree.leaves(phi)
    return np.stack([
        np.asarray(one(jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), phi)))
        for i in range(len(leaves[0]))
    ])  # fmt: skip


def without_outside(values: ArrayLike, inside: np.ndarray | None) -> np.ndarray:
    """Zero where there is no domain, so that no norm counts it."""
    array = np.asarray(values)
    return array if inside is None else np.where(inside.reshape(array.shape), array, 0.0)
