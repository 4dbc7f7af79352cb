"""Gauss–Newton with Levenberg–Marquardt damping, for rows that are not affine in u."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..gram import transposed
from ..implicit import symmetric_solve
from ..system import Model, System, linearise
from .base import LinearSolver, unrefined
from .cholesky import Cholesky
from .quadratic import kkt_inverse


class GaussNewton(eqx.Module):
    """Solves nonlinear conditions by a sequence of quadratic models.

    A step that does not lower the objective (plus, with `Enforce` conditions, a multiple of their
    violation) is damped and tried again. Where `Enforce` conditions are nonlinear their curvature pulls
    at the solution, and steps are improved to those of Newton's method if that serves. Each φ of a batch
    stops by itself, as soon as a further step can be expected to lower the objective by less than a
    fraction rtol² of it, or atol² of its value at u = 0: as much less than the last step did as that one
    did less than the step before.

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
    fall: Float[Array, ""]  # of the last step, if it was accepted and not damped
    steps: Int[Array, ""]
    done: Bool[Array, ""]


def search(
    system: System, ridge: Float[Array, " N"], start: Float[Array, " N"], solver: GaussNewton
) -> tuple[Float[Array, " N"], Float[Array, " m"], Int[Array, ""], Bool[Array, ""]]:
    """ω, multipliers, steps taken, and whether the stopping rule was met. Not differentiable."""
    constrained = system.count("Enforce") > 0
    curved = not all(system.plan.affine[i] for i in system.indices("Enforce"))

    def objective(weights: Array) -> Array:
        return system.objective(weights) + 0.5 * jnp.sum(ridge * weights**2)

    def merit(weights: Array, penalty: Array) -> Array:
        if not constrained:
            return objective(weights)
        return objective(weights) + penalty * jnp.linalg.norm(system.rows(weights, "Enforce"))

    def enough(fall: Array, value: Array) -> Array:
        return fall <= rtol**2 * jnp.abs(value) + solver.atol**2 * scale

    linear = unrefined(solver.linear)  # each step corrects the one before
    epsilon = float(jnp.finfo(start.dtype).eps)
    rtol = max(solver.rtol, 10 * epsilon)  # what the arithmetic can tell apart
    nothing = jnp.zeros_like(start)
    scale = jnp.abs(objective(nothing)) + 0.5 * jnp.sum(system.rows(nothing, "Enforce") ** 2)

    def advance(state: _State) -> _State:
        model = linearise(system, state.weights)
        step, multipliers = _step(model, ridge, state, linear)
        if curved:
            better, balance = _newton_step(system, model, ridge, state, multipliers, linear)
            penalty = jnp.maximum(state.penalty, 2 * jnp.linalg.norm(balance))
            serves = merit(state.weights + better, penalty) < merit(state.weights + step, penalty)
            step = jnp.where(serves, better, step)
            multipliers = jnp.where(serves, balance, multipliers)
        fall = _fall(model, ridge, state.weights, step, multipliers)
        penalty = jnp.maximum(state.penalty, 2 * jnp.linalg.norm(multipliers))
        before, after = merit(state.weights, penalty), merit(state.weights + step, penalty)
        violation = jnp.linalg.norm(model.c)
        expected = fall + (penalty - jnp.linalg.norm(multipliers)) * violation
        # Below this the objective's own rounding decides, and the step is as good as any.
        tiny = expected <= 500 * epsilon * (jnp.abs(before) + scale)
        accept = jnp.isfinite(after) & ((before - after > 1e-4 * expected) | tiny)
        further = fall * jnp.where(fall < state.fall, fall / state.fall, 1.0)
        settled = enough(further, after) & (violation**2 <= rtol**2 * scale)
        free = state.damping <= 1e-6
        shrunk = jnp.where(state.damping < 1e-8, 0.0, state.damping / 10)
        grown = jnp.maximum(state.damping * state.growth, 1e-6)
        pick = lambda new, old: jnp.where(accept, new, old)
        return _State(
            weights=pick(state.weights + step, state.weights),
            multipliers=pick(multipliers, state.multipliers),
            damping=pick(shrunk, grown),
            growth=pick(10.0, state.growth * 2),
            penalty=penalty,
            fall=jnp.where(accept & free, fall, 0.0),
            steps=state.steps + 1,
            done=(accept & settled & free) | (state.damping > 1e12),
        )

    state = _State(
        weights=start,
        multipliers=jnp.zeros(system.count("Enforce"), start.dtype),
        damping=jnp.zeros((), start.dtype),
        growth=jnp.full((), 10.0, start.dtype),
        penalty=jnp.zeros((), start.dtype),
        fall=jnp.zeros((), start.dtype),
        steps=jnp.asarray(0),
        done=jnp.asarray(False),
    )
    state = jax.lax.while_loop(lambda s: ~s.done & (s.steps < solver.max_steps), advance, state)
    return state.weights, state.multipliers, state.steps, state.done & (state.damping < 1e12)


def stationarity(
    system: System, ridge: Float[Array, " N"], z: tuple[Float[Array, " N"], Float[Array, " m"]]
) -> tuple[Float[Array, " N"], Float[Array, " m"]]:
    """The gradient of the Lagrangian by ω and by the multipliers: zero at the solution."""

    def lagrangian(weights: Array, multipliers: Array) -> Array:
        total = system.objective(weights) + 0.5 * jnp.sum(ridge * weights**2)
        return total + multipliers @ system.rows(weights, "Enforce")

    return jax.grad(lagrangian, argnums=(0, 1))(*z)


def preconditioner(model: Model, ridge: Float[Array, " N"], damping: Any, linear: LinearSolver) -> Any:
    """An approximate inverse of the second derivative of the Lagrangian, from first derivatives of
    the rows: `(f, g) ↦ (p, multipliers)`."""
    columns = _columns(model, ridge)
    damped = ridge + damping * columns**2
    model = model.scaled(1 / columns)
    hessian, C = model.gram(damped / columns**2), model.C
    if C is not None:
        inverse = kkt_inverse(linear, hessian, C)

        def constrained(f: Array, g: Array) -> tuple[Array, Array]:
            p, multipliers, _ = inverse(f / columns, g)
            return p / columns, multipliers

        return constrained
    prepared = linear.prepare(hessian)
    return lambda f, g: (linear.apply(prepared, hessian, f / columns)[0] / columns, g)


def _columns(model: Model, ridge: Array) -> Float[Array, " N"]:
    return jnp.sqrt(model.gram(ridge, with_equalities=True).diagonal())


def _step(model: Model, ridge: Array, state: _State, linear: LinearSolver) -> tuple[Array, Array]:
    """The step and the new multipliers."""
    slope = model.slope() + ridge * state.weights
    inverse = preconditioner(model, ridge, state.damping, linear)
    if model.C is None:
        return inverse(-slope, model.c)
    p, change = inverse(-slope - transposed(model.C, state.multipliers), -model.c)
    return p, state.multipliers + change


def _newton_step(
    system: System,
    model: Model,
    ridge: Array,
    state: _State,
    multipliers: Array,
    linear: LinearSolver,
) -> tuple[Array, Array]:
    """The same with the exact second derivative of the Lagrangian, for the multipliers of that step.

    The equality rows bend along the step. What they are then violated by is corrected at once: else
    the merit, which weighs it, would refuse even the best of steps (the Maratos effect).
    """
    at = state.weights, multipliers
    damping = state.damping * _columns(model, ridge) ** 2
    inverse = preconditioner(model, ridge, state.damping, linear)

    def product(p: Array, change: Array) -> tuple[Array, Array]:
        f, g = jax.jvp(lambda z: stationarity(system, ridge, z), (at,), ((p, change),))[1]
        return f + damping * p, g

    slope, violation = stationarity(system, ridge, at)
    p, change = symmetric_solve(product, (-slope, -violation), inverse, rtol=1e-8, max_steps=50)
    bend, _ = inverse(jnp.zeros_like(p), -system.rows(state.weights + p, "Enforce"))
    return p + bend, multipliers + change


def _fall(model: Model, ridge: Array, weights: Array, step: Array, multipliers: Array) -> Array:
    """How far the quadratic model falls along a step."""
    slope = model.slope() + ridge * weights
    if model.C is not None:
        slope = slope + transposed(model.C, multipliers)
    return 0.5 * jnp.abs(slope @ step)
