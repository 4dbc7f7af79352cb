"""Solutions and their derivatives on the grids that bounds integrate over."""

from functools import cache
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Float64

from ..basis import basis as bases
from ..basis.basis import BasisLike
from ..layer.solution import Solution, each
from ..state.jet import Axes
from ..state.problem import Problem
from ..state.rules import tensor


class Lobatto(NamedTuple):
    """Nodes of [0, 1] in equal cells, with the weights of two nested rules.

    `fine` is Gauss–Lobatto quadrature with five nodes a cell, exact to degree 7. `coarse` is
    Simpson's rule on the first, middle and last of them, exact to degree 3, with zeros elsewhere.
    """

    cells: int
    nodes: Float64[np.ndarray, " n"]
    fine: Float64[np.ndarray, " n"]
    coarse: Float64[np.ndarray, " n"]


@cache
def lobatto(cells: int) -> Lobatto:
    """The nested rules on that many cells; node 4k is the end of cell k − 1 and the start of cell k."""
    inner = np.sqrt(3 / 7)
    within = (np.asarray([-1.0, -inner, 0.0, inner]) + 1) / 2
    nodes = np.append(((np.arange(cells)[:, None] + within) / cells).ravel(), 1.0)
    return Lobatto(cells, nodes, _composite(CELL_FINE, cells), _composite(CELL_COARSE, cells))


CELL_FINE = np.asarray([1 / 10, 49 / 90, 32 / 45, 49 / 90, 1 / 10]) / 2
CELL_COARSE = np.asarray([1 / 3, 0.0, 4 / 3, 0.0, 1 / 3]) / 2


def by_cell(values: Float[Array, "*batch n"]) -> Float[Array, "*batch cells 5"]:
    """Values at the nodes of `lobatto`, five for each cell; those between two cells occur twice."""
    cells = (values.shape[-1] - 1) // 4
    return values[..., 4 * np.arange(cells)[:, None] + np.arange(5)]


def on_mesh(
    solution: Solution, axes: tuple[np.ndarray, np.ndarray], wanted: set[Axes]
) -> dict[Axes, Float[Array, "batch n m"]]:
    """Derivatives of the solutions of a batch on the mesh of two axes, all of them in one pass."""
    coords = jax.numpy.asarray(tensor(list(axes), 2))

    def one(
        problem: Problem, basis: BasisLike, _: object, phi: Array, weights: Array
    ) -> dict[Axes, Array]:
        values = bases.derivatives_of(basis, problem.unknowns, weights, coords, phi, wanted)
        return {key: u.reshape(len(axes[0]), len(axes[1])) for (_, key), u in values.items()}

    return each(solution, one)


def _composite(cell: np.ndarray, cells: int) -> np.ndarray:
    weights = np.zeros(4 * cells + 1)
    for start in range(0, 4 * cells, 4):
        weights[start : start + 5] += cell / cells
    return weights
