"""Darcy: conjugate gradients from an answer on, until its bound holds.

The preconditioner is the fast Poisson solve that the bound is made of, so every step knows its own
bound for nothing. The residual is computed anew in each step, not updated: a stencil costs little
beside the sines, and the bound is then about u itself, whatever was rounded.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...error.record import assemble
from ...layer.solution import Solution
from ...support.status import Status
from .bound import NORM, differences, energy_norm
from .grid import face_coefficients, flux_balance, poisson, ratio

# The most steps; and after this many without a smaller bound rounding is all that is left.
STEPS, PATIENCE = 500, 20


class _State(NamedTuple):
    u: Float[Array, "n n"]
    residual: Float[Array, "m m"]
    improved: Float[Array, "n n"]
    direction: Float[Array, "n n"]
    relative: Float[Array, ""]
    best: Float[Array, "n n"]
    least: Float[Array, ""]
    step: Int[Array, ""]
    since: Int[Array, ""]


def by_conjugate_gradients(solution: Solution, tolerance: float) -> Solution:
    """A batch of one, given at the nodes, with its values improved until the bound holds."""
    nodes = solution.phi.shape[-1]
    start = jnp.nan_to_num(solution.weights[0].reshape(nodes, nodes), posinf=0.0, neginf=0.0)
    u, steps = _until(jnp.asarray(solution.phi[0]), start, jnp.asarray(tolerance), STEPS, PATIENCE)
    parts = lambda s: (s.weights, s.iterations, s.code)
    code = jnp.full_like(solution.code, int(Status.SOLVED))
    found = eqx.tree_at(
        parts, solution, (u.reshape(1, -1), jnp.full_like(solution.iterations, steps), code)
    )
    return eqx.tree_at(lambda s: s.residual, found, found.residual_at(found.points))


@eqx.filter_jit
def _until(
    nu: Float[Array, "n n"],
    start: Float[Array, "n n"],
    tolerance: Float[Array, ""],
    most: int,
    patience: int,
) -> tuple[Float[Array, "n n"], Int[Array, ""]]:
    """The first iterate whose relative bound is within the tolerance, or else the best of them."""
    faces, load = face_coefficients(nu), (nu.shape[-1] - 1.0) ** -2

    def look(u: Array) -> tuple[Array, Array, Array]:
        residual = load - flux_balance(faces, u)
        improved = jnp.pad(poisson(residual), 1)
        flows = zip(faces, differences(improved), strict=True)
        upper = jnp.sqrt(sum(jnp.sum(f**2 / c) for c, f in flows))
        return residual, improved, assemble(upper, energy_norm(nu, u), {}, NORM).relative

    def step(state: _State) -> _State:
        size = _inner(state.residual, state.improved)
        image = flux_balance(faces, state.direction)
        u = state.u + ratio(size, _inner(image, state.direction)) * state.direction
        residual, improved, relative = look(u)
        turn = ratio(_inner(residual, improved), size)
        smaller = relative < state.least
        return _State(
            u, residual, improved, improved + turn * state.direction, relative,
            jnp.where(smaller, u, state.best), jnp.minimum(relative, state.least),
            state.step + 1, jnp.where(smaller, 0, state.since + 1),
        )  # fmt: skip

    def goes_on(state: _State) -> Bool[Array, ""]:
        # An infinite bound (its error exceeds u) may stay infinite for a while and still come down.
        waiting = (state.since < patience) | ~jnp.isfinite(state.least)
        return (state.least > tolerance) & (state.step < most) & waiting

    u = jnp.pad(start[1:-1, 1:-1], 1)
    residual, improved, relative = look(u)
    none = jnp.asarray(0)
    begin = _State(u, residual, improved, improved, relative, u, relative, none, none)
    end = jax.lax.while_loop(goes_on, step, begin)
    return end.best, end.step


def _inner(interior: Float[Array, "m m"], padded: Float[Array, "n n"]) -> Float[Array, ""]:
    return jnp.sum(interior * padded[1:-1, 1:-1])
