"""Convection: what residual, initial and inflow errors leave in the domain, transported.

With e = v − u and r = v_t + β v_x, the error obeys e_t + β e_x = r. Measure x by the time T(x) = ∫₀ˣ
ds/β that the wave needs to get there: e_t + e_T = r, a shift at speed one. In the norm

    ‖f‖² = ∫₀¹ f² / β dx = ∫ f² dT

a shift loses nothing but what leaves at x = 1. What started or entered an age a ago is still inside
only if it was at T ≤ T(1) − a then. So, exactly for the data and by the triangle inequality for the
residual,

    ‖e(t)‖ ≤ √( ∫_(T ≤ T(1)−t) e₀² dT + ∫_(t−T(1))^t e_b² ds ) + ∫₀ᵗ √( ∫_(T ≤ T(1)−t+s) r(s)² dT ) ds.

The bound is the L2 norm over t of the right-hand side. On each cell of times it is replaced by a
constant from above (least age for what leaves, the whole cell for what enters), so no interpolation
in t is needed.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...error.record import ErrorBound, assemble
from ...error.sampling import CELL_COARSE, CELL_FINE, Lobatto, by_cell, lobatto, on_mesh
from ...layer.solution import Solution, jit
from .spline import speed

NORM = "L2 over x and t with weight 1/beta"


@jit
def convection_bound(solution: Solution, cells: int = 24) -> ErrorBound:
    """The bound for a batch, by the nested rules on `cells` cells along x and t."""
    rule = lobatto(cells)
    mesh = on_mesh(solution, (rule.nodes, rule.nodes), {(), (0,), (1,)})
    rules = np.stack([rule.fine, rule.coarse]), np.stack([CELL_FINE, CELL_COARSE])

    def by_both(beta: Array, v: Array, v_x: Array, v_t: Array) -> dict[str, Array]:
        return jax.vmap(lambda weights, cell: _one(beta, v, v_x, v_t, rule, weights, cell))(*rules)

    both = jax.vmap(by_both)(solution.phi, mesh[()], mesh[0,], mesh[1,])
    fine, coarse = (jax.tree.map(lambda found, k=k: found[:, k], both) for k in (0, 1))
    missed = jnp.abs(fine["bound"] - coarse["bound"])
    parts = {name: fine[name] for name in ("initial", "inflow", "residual")}
    return assemble(fine["bound"] + missed, fine["size"], parts | {"quadrature": missed}, NORM)


def _one(
    beta: Float[Array, " sensors"],
    v: Float[Array, "x t"],
    v_x: Float[Array, "x t"],
    v_t: Float[Array, "x t"],
    rule: Lobatto,
    weights: Float[Array, " nodes"],
    in_cell: Float[Array, " nodes_of_a_cell"],
) -> dict[str, Float[Array, ""]]:
    nodes, ends = rule.nodes, np.arange(rule.cells + 1) / rule.cells
    cell = in_cell / rule.cells
    here = speed(beta, jnp.asarray(nodes))
    # T at the ends of the cells, and the integrals of squares up to there.
    up_to = lambda f: _sums(by_cell(f / here) @ cell)
    travel = up_to(jnp.ones_like(here))
    initial = up_to((v[:, 0] - jnp.sin(jnp.pi * nodes)) ** 2)
    inflow = _sums(by_cell((v[0] - jnp.sin(jnp.pi * nodes / 2)) ** 2) @ cell)
    residual = jax.vmap(up_to, in_axes=1)((v_t + here[:, None] * v_x) ** 2)

    # Everything for times in cell k, which begins at ends[k].
    def within(start: Float[Array, ""], end: Float[Array, ""]) -> dict[str, Array]:
        still = _before(travel, initial, travel[-1] - start)
        entered = _at(ends, inflow, end, 1) - _at(ends, inflow, start - travel[-1], 0)
        age = jnp.maximum(start - nodes, 0.0)
        left = jax.vmap(lambda sums, a: _before(travel, sums, travel[-1] - a))(residual, age)
        seen = by_cell(jnp.sqrt(left)) @ cell
        return {
            "initial": still,
            "inflow": entered,
            "residual": jnp.where(ends[:-1] < end - 1e-9, seen, 0.0).sum(),
        }

    at_times = jax.vmap(within)(jnp.asarray(ends[:-1]), jnp.asarray(ends[1:]))
    total = jnp.sqrt(at_times["initial"] + at_times["inflow"]) + at_times["residual"]
    over_time = lambda squares: jnp.sqrt(jnp.mean(squares))
    return {
        "bound": over_time(total**2),
        "initial": over_time(at_times["initial"]),
        "inflow": over_time(at_times["inflow"]),
        "residual": over_time(at_times["residual"] ** 2),
        "size": jnp.sqrt((weights / here) @ v**2 @ weights),
    }


def _sums(each: Float[Array, " cells"]) -> Float[Array, " ends"]:
    return jnp.concatenate([jnp.zeros(1), jnp.cumsum(each)])


def _before(travel: Array, sums: Array, time: Array) -> Array:
    """The integral over T ≤ time, from above: to the end of the cell in which that is; 0 if time < 0."""
    end = jnp.searchsorted(travel, time - 1e-12, side="left")
    return jnp.where(time < 0, 0.0, sums[jnp.minimum(end, len(sums) - 1)])


def _at(ends: np.ndarray, sums: Array, time: Array, up: int) -> Array:
    """The integral up to a time, from above (up = 1) or from below (up = 0), at an end of a cell."""
    place = time * (len(ends) - 1)
    index = jnp.ceil(place - 1e-9) if up else jnp.floor(place + 1e-9)
    return sums[jnp.clip(index, 0, len(sums) - 1).astype(int)]
