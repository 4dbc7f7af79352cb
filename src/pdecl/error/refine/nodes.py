"""All functions of a grid as a basis: its weights are values at the nodes."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...basis.grid import ElementBasis
from ...layer.solution import Given, Solution
from ...state.domain import Box


class NodalBasis(eqx.Module):
    """The multilinear hat functions of a square grid, boundary included: Σ ω_i f_i interpolates ω.

    For answers whose weights are known. There are `nodes`² functions, so nothing that holds all of them
    at all points should be asked of it; sums are taken on the grid (`contract`).
    """

    box: Box = eqx.field(static=True)
    nodes: int = eqx.field(static=True)

    def contract(self, weights: Float[Array, " N"], phi: Any = None) -> ElementBasis:
        return ElementBasis(self.box, weights.reshape(self.nodes, self.nodes, 1))

    def __call__(self, x: Float[Array, " 2"], phi: Any = None) -> Float[Array, " N"]:
        low, high = np.asarray(self.box.bounds).T
        places = (x - low) / (high - low) * (self.nodes - 1)
        hats = jnp.maximum(1 - jnp.abs(places[:, None] - np.arange(self.nodes)), 0)
        return jnp.outer(hats[0], hats[1]).ravel()


def at_nodes(solution: Solution, values: Float[Any, "batch N"] | None = None) -> Solution:
    """The same functions, known by their values at the nodes of φ's grid: no network is run again.

    `values` are those of the solution at `domain.mesh(n, n)`, where they are at hand.
    """
    if isinstance(solution.basis, NodalBasis):
        return solution
    nodes, box = solution.phi.shape[-1], solution.problem.domain
    if values is None:
        values = solution(box.mesh(nodes, nodes))
    given = Given.of(solution.problem, NodalBasis(box, nodes), solution.points)
    return replace(solution, given=given, weights=jnp.asarray(values))
