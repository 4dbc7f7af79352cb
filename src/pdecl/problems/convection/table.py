"""Convection by a table: the fast way to the exact solution on a whole grid.

u is constant along characteristics, and the characteristic through (x, t) is known by the one number
s = T(x) − t. So u(x, t) = G(s) with a function G of one variable:

    G(s) = sin(−πs/2) for s ≤ 0 (entered at the boundary),   G(s) = sin(π T⁻¹(s)) for s ≥ 0.

G is tabulated with its slope, G'(s) = π cos(πx) β(x) at x = T⁻¹(s), on cells to both sides of its
kink at s = 0, and cubic Hermite interpolation gives all values: no search, no sine per grid node.
"""

from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Float

from ...family.arrays import AnyArray, namespace
from .reference import OUTPUTS, hermite, position_at, travel_times


def tabulated_characteristics(
    beta: Float[AnyArray, "count n"], slopes: Float[AnyArray, "count n"], cells: int = 128
) -> Float[AnyArray, "count 101 101"]:
    """u at t = j/100 (axis 1) and x = i/100 (axis 2), with `cells` cells to each side of the kink.

    Fourth order in 1/cells: about 1e-6 with 128. NumPy in, NumPy out; JAX arrays run on their device.
    """
    if isinstance(beta, jax.Array):
        return _tabulated_jax(beta, slopes, cells)
    return np.stack([_tabulated(b, s, cells) for b, s in zip(beta, slopes, strict=True)])


@partial(jax.jit, static_argnums=2)
def _tabulated_jax(beta: Array, slopes: Array, cells: int) -> Array:
    return jax.vmap(partial(_tabulated, cells=cells))(beta, slopes)


def _tabulated(beta: AnyArray, slopes: AnyArray, cells: int) -> AnyArray:
    xp = namespace(beta)
    real = beta.dtype
    intervals = beta.shape[-1] - 1
    arrival, travel = travel_times(beta, slopes)

    entered = xp.asarray(np.arange(cells + 1) / cells - 1, real)
    width = arrival[-1] / cells
    x = position_at(beta, slopes, arrival, xp.asarray(np.arange(cells + 1), real) * width, 2)
    left = xp.clip(xp.floor(x * intervals), 0, intervals - 1).astype(int)
    speed = hermite(beta, slopes, left, x * intervals - left)
    # Slopes are per cell; the kink is node `cells` of the table, once from each side.
    values = xp.concatenate([xp.sin(-np.pi / 2 * entered), xp.sin(np.pi * x)])
    rates = xp.concatenate(
        [-np.pi / 2 / cells * xp.cos(np.pi / 2 * entered), np.pi * xp.cos(np.pi * x) * speed * width]
    )

    grid = xp.asarray(np.arange(OUTPUTS) / (OUTPUTS - 1), real)
    s = travel[None, :] - grid[:, None]
    place = xp.where(s < 0, (s + 1) * cells, s / width)
    cell = xp.clip(xp.floor(place), 0, cells - 1).astype(np.int32)
    return hermite(values, rates, cell + xp.where(s < 0, 0, cells + 1), place - cell)
