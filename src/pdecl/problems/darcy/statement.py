"""Darcy's equation as conditions on the nodes and faces of a grid; the same numbers as `grid.py`."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from ...basis.grid import subsample
from ...state.condition import Condition, Energy, Enforce, Fit
from ...state.domain import Box
from ...state.points import Points, lattice_points
from ...state.problem import Problem
from ...state.rules import tensor
from .grid import face_coefficients, upscaled_faces


def problem(
    grid: int,
    draw: Callable[[jax.Array], Float[Array, "grid grid"]],
    form: str,
    walls: bool,
    nodes: int | None = None,
) -> Problem:
    """−∇·(ν∇u) = 1 for ν at grid × grid nodes; `walls` adds u = 0 at the boundary nodes.

    With `nodes` u has this many nodes a side, and the energy of its slopes the ν that lies between them.
    """
    if form not in _FORMS:
        raise ValueError(f"form must be one of {', '.join(map(repr, _FORMS))}; found {form!r}.")
    nodes = grid if nodes is None else nodes
    subsample(np.zeros((grid, grid)), nodes)  # or an error that says which numbers fit
    if nodes < grid and form != "energy":
        raise ValueError(f"only the form 'energy' takes ν on more nodes than u has; found {form!r}.")
    conditions = _FORMS[form](nodes)
    if walls:
        edge = Points(_boundary(nodes))
        conditions = [*conditions, Enforce(lambda u, z, nu: u(), on=edge, name="walls")]
    return Problem(Box(x=(0, 1), y=(0, 1)), conditions, parameter=draw)


def _energy(grid: int) -> list[Condition]:
    """½ν (u_x² + u_y²) by one point in the middle of each face, −u by the nodes; cells of h²."""
    h = 1 / (grid - 1)
    nodes, middles = (h, 1 - h, grid - 2), (h / 2, 1 - h / 2, grid - 1)

    def cells(*lattice: tuple[float, float, int]) -> Points:
        coords = lattice_points(lattice)
        return Points(coords, weights=np.full(len(coords), h**2), lattice=lattice)

    def faces(nu: Any) -> Any:
        return face_coefficients(nu) if nu.shape[-1] == grid else upscaled_faces(nu, grid)

    across_x = lambda u, z, nu: 0.5 * faces(nu)[0].ravel()[z.index] * u.d("x") ** 2
    across_y = lambda u, z, nu: 0.5 * faces(nu)[1].ravel()[z.index] * u.d("y") ** 2
    return [
        Energy(across_x, on=cells(middles, nodes), name="energy across x"),
        Energy(across_y, on=cells(nodes, middles), name="energy across y"),
        Energy(lambda u, z, nu: -u(), on=cells(nodes, nodes), name="source"),
    ]


def _conservative(grid: int) -> list[Condition]:
    nodes = _interior(grid, 1)

    def balance(u: Any, z: Any, nu: Any) -> Any:
        i, j = z.node[0], z.node[1]
        east, west, north, south = (
            (nu[i, j] + nu[i + a, j + b]) / 2 * (u() - u.at(name)()) for name, (a, b) in _SIDES.items()
        )
        return (east + west + north + south) * (grid - 1) ** 2 - 1

    return [Fit(balance, on=_stencil(grid, nodes, 1), name="equation")]


def _wide(grid: int) -> list[Condition]:
    nodes = _interior(grid, 2)

    def balance(u: Any, z: Any, nu: Any) -> Any:
        i, j = z.node[0], z.node[1]
        outflow = sum(nu[i + a, j + b] * (u() - u.at(name)()) for name, (a, b) in _SIDES.items())
        return outflow * ((grid - 1) / 2) ** 2 - 1

    return [Fit(balance, on=_stencil(grid, nodes, 2), name="equation")]


_FORMS: dict[str, Callable[[int], list[Condition]]] = {
    "energy": _energy,
    "conservative": _conservative,
    "wide": _wide,
}
_SIDES = {"east": (1, 0), "west": (-1, 0), "north": (0, 1), "south": (0, -1)}


def _stencil(grid: int, nodes: np.ndarray, reach: int) -> Points:
    """Nodes with their four neighbours, `reach` steps away, as partners."""
    h = 1 / (grid - 1)
    sides = {name: (nodes + reach * np.asarray(step)) * h for name, step in _SIDES.items()}
    return Points(nodes * h, partners=sides, node=nodes)


def _interior(grid: int, margin: int) -> np.ndarray:
    """Numbers (i, j) of the nodes at least `margin` away from the boundary."""
    inside = np.arange(margin, grid - margin)
    return tensor([inside, inside], 2)


def _boundary(grid: int) -> np.ndarray:
    nodes = lattice_points(((0, 1, grid), (0, 1, grid)))
    return nodes[(nodes * (1 - nodes)).prod(axis=1) == 0]
