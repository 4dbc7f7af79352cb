"""Gauss–Newton with Levenberg–Marquardt damping, for rows that are not affine in u."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..system import Model, System, linearise
from .base import LinearSolver
from .cholesky import Cholesky
from .quadratic import kkt_inverse


class GaussNewton(eqx.Module):
    """Solves nonlinear conditions by a sequence of quadratic models.

    A step that does not lower the objective (plus, with `Enforce` conditions, a multiple of their
    violation) is damped and tried again. Each φ of a batch stops by itself, as soon as a step promises
    to lower the objective by less than a fraction rtol² of it, or atol² of its value at u = 0.

    - `linear`: the solver for each step's linear system, and for affine problems, which need no other.
    - `rtol`, `atol`: see above.
    - `max_steps`: how many steps, accepted or not.
    """

    linear: LinearSolver = Cholesky()
    rtol: float = 1e-8
    atol: float = 1e-12
    max_steps: int = 50

    def __check_init__(self) -> None:
        if not isinstance(self.linear, LinearSolver):
            raise TypeError(f"GaussNewton: `linear` must be a linear solver; found {self.linear!r}.")
        if self.max_steps < 1:
            raise ValueError(f"GaussNewton: max_steps must be at least 1; found {self.max_steps}.")


class _State(eqx.Module):
    weights: Float[Array, " N"]
    multipliers: Float[Array, " m"]
    damping: Float[Array, ""]
    growth: Float[Array, ""]
    penalty: Float[Array, ""]
    steps: Int[Array, ""]
    done: Bool[Array, ""]


def search(
    system: System, ridge: Float[Array, " N"], start: Float[Array, " N"], solver: GaussNewton
) -> tuple[Float[Array, " N"], Float[Array, " m"], Int[Array, ""], Bool[Array, ""]]:
    """ω, multipliers, steps taken, and whether the stopping rule was met. Not differentiable."""
    constrained = system.count("Enforce") > 0

    def objective(weights: Array) -> Array:
        return system.objective(weights) + 0.5 * jnp.sum(ridge * weights**2)

    def merit(weights: Array, penalty: Array) -> Array:
        if not constrained:
            return objective(weights)
        return objective(weights) + penalty * jnp.linalg.norm(system.rows(weights, "Enforce"))

    def enough(fall: Array, value: Array) -> Array:
        return fall <= solver.rtol**2 * jnp.abs(value) + solver.atol**2 * scale

    nothing = jnp.zeros_like(start)
    scale = jnp.abs(objective(nothing)) + 0.5 * jnp.sum(system.rows(nothing, "Enforce") ** 2)

    def advance(state: _State) -> _State:
        model = linearise(system, state.weights)
        step, multipliers, fall = _step(model, ridge, state, solver.linear)
        penalty = jnp.maximum(state.penalty, 2 * jnp.linalg.norm(multipliers))
        before, after = merit(state.weights, penalty), merit(state.weights + step, penalty)
        violation = jnp.linalg.norm(model.c)
        expected = fall + (penalty - jnp.linalg.norm(multipliers)) * violation
        # Below this the objective's own rounding decides, and the step is as good as any.
        tiny = expected <= 1e-13 * (jnp.abs(before) + scale)
        accept = jnp.isfinite(after) & ((before - after > 1e-4 * expected) | tiny)
        settled = enough(fall, before) & (violation**2 <= solver.rtol**2 * scale)
        shrunk = jnp.where(state.damping < 1e-8, 0.0, state.damping / 10)
        grown = jnp.maximum(state.damping * state.growth, 1e-6)
        pick = lambda new, old: jnp.where(accept, new, old)
        return _State(
            weights=pick(state.weights + step, state.weights),
            multipliers=pick(multipliers, state.multipliers),
            damping=pick(shrunk, grown),
            growth=pick(10.0, state.growth * 2),
            penalty=penalty,
            steps=state.steps + 1,
            done=(accept & settled & (state.damping <= 1e-6)) | (state.damping > 1e12),
        )

    state = _State(
        weights=start,
        multipliers=jnp.zeros(system.count("Enforce"), start.dtype),
        damping=jnp.zeros((), start.dtype),
        growth=jnp.full((), 10.0, start.dtype),
        penalty=jnp.zeros((), start.dtype),
        steps=jnp.asarray(0),
        done=jnp.asarray(False),
    )
    state = jax.lax.while_loop(lambda s: ~s.done & (s.steps < solver.max_steps), advance, state)
    return state.weights, state.multipliers, state.steps, state.done & (state.damping < 1e12)


def preconditioner(model: Model, ridge: Float[Array, " N"], damping: Any, linear: LinearSolver) -> Any:
    """An approximate inverse of the second derivative of the Lagrangian, from first derivatives of
    the rows: `(f, g) ↦ (p, multipliers)`. Columns are scaled to norm one before."""
    columns = jnp.sqrt(model.gram(ridge, with_equalities=True).diagonal())
    model = model.scaled(1 / columns)
    hessian, C = model.gram(ridge / columns**2 + damping), model.C
    if C is not None:
        inverse = kkt_inverse(linear, hessian, C)

        def constrained(f: Array, g: Array) -> tuple[Array, Array]:
            p, multipliers, _ = inverse(f / columns, g)
            return p / columns, multipliers

        return constrained
    prepared = linear.prepare(hessian)
    return lambda f, g: (linear.apply(prepared, hessian, f / columns)[0] / columns, g)


def _step(model: Model, ridge: Array, state: _State, linear: LinearSolver) -> tuple[Array, Array, Array]:
    """The step, the new multipliers, and how far the quadratic model falls along it."""
    slope = model.slope(jnp.zeros_like(ridge)) + ridge * state.weights
    inverse = preconditioner(model, ridge, state.damping, linear)
    if model.C is None:
        p, none = inverse(-slope, model.c)
        return p, none, -0.5 * slope @ p
    p, change = inverse(-slope - model.C.T.mv(state.multipliers), -model.c)
    multipliers = state.multipliers + change
    return p, multipliers, 0.5 * jnp.abs((slope + model.C.T.mv(multipliers)) @ p)
