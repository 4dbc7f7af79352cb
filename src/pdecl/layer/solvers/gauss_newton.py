"""Gauss–Newton with Levenberg–Marquardt damping, for rows that are not affine in u."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..batching import anywhere
from ..gram import transposed
from ..implicit import symmetric_solve
from ..system import QuadraticModel, System, linearise
from .base import LinearSolver, unrefined
from .direct import Cholesky
from .equalities import kkt_inverse

# After how many steps the curvature of the rows is looked at; the relative damping that counts as none.
_PATIENCE, _LEAST_DAMPING = 6, 1e-12


class GaussNewton(eqx.Module):
    """Solves nonlinear conditions by a sequence of quadratic models.

    A step that does not lower the objective (plus, with `Enforce` conditions, a multiple of their
    violation) is damped and tried again; only the very first from u = 0 is taken as it is, since the
    way to the solution often leads over a hill. Where `Enforce` conditions are nonlinear their curvature
    pulls at the solution, and so does that of rows which cannot all hold; after a few steps (there: from
    the first on) steps are improved to those of Newton's method if that serves. Each φ of a batch
    stops by itself, as soon as a further step can be expected to lower the objective by less than a
    fraction rtol² of it, or atol² of its value at u = 0: as much less than the last step did as that one
    did less than the step before.

    - `linear`: the solver for each step's linear system, and for affine problems, which need no other.
    - `rtol`, `atol`: see above.
    - `max_steps`: how many steps, accepted or not, from one start.
    - `restarts`: how many further attempts where the first did not converge, or ended with a relative
      residual above `restart_above`: continuation in the nonlinear terms, see `starts.py`.
    """

    linear: LinearSolver = Cholesky()
    rtol: float = 1e-8
    atol: float = 1e-12
    max_steps: int = 50
    restarts: int = 16
    restart_above: float = 0.1

    def __check_init__(self) -> None:
        if not isinstance(self.linear, LinearSolver):
            raise TypeError(f"GaussNewton: `linear` must be a linear solver; found {self.linear!r}.")
        if self.max_steps < 1:
            raise ValueError(f"GaussNewton: max_steps must be at least 1; found {self.max_steps}.")
        if self.restarts < 0:
            raise ValueError(f"GaussNewton: restarts must not be negative; found {self.restarts}.")


class _State(eqx.Module):
    weights: Float[Array, " N"]
    multipliers: Float[Array, " m"]
    damping: Float[Array, ""]
    growth: Float[Array, ""]
    penalty: Float[Array, ""]
    fall: Float[Array, ""]  # of the last step, if it was accepted and not damped
    rejected: Bool[Array, ""]  # whether the last step was
    steps: Int[Array, ""]
    done: Bool[Array, ""]


def search(
    system: System,
    ridge: Float[Array, " N"],
    start: Float[Array, " N"],
    solver: GaussNewton,
    *,
    free_start: Bool[Array, ""] | bool = False,
    roughly: tuple[Bool[Array, ""], GaussNewton] | None = None,
    idle: Bool[Array, ""] | bool = False,
) -> tuple[Float[Array, " N"], Float[Array, " m"], Int[Array, ""], Bool[Array, ""]]:
    """ω, multipliers, steps taken, and whether the stopping rule was met. Not differentiable.

    - `free_start`: the first step is taken as it is (of least squares; a penalty or an energy is no
      measure of how far a step leads astray).
    - `roughly`: whether another solver's `rtol` and `max_steps` count.
    - `idle`: nothing is to be done.
    """
    constrained = system.count("Enforce") > 0
    free_start = free_start & (not constrained and not system.indices("Energy"))
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
    rtol: Any = max(solver.rtol, 10 * epsilon)  # what the arithmetic can tell apart
    max_steps: Any = solver.max_steps
    if roughly is not None:
        rough, other = roughly
        rtol = jnp.where(rough, other.rtol, rtol)
        max_steps = jnp.where(rough, other.max_steps, max_steps)
    nothing = jnp.zeros_like(start)
    scale = jnp.abs(objective(nothing)) + 0.5 * jnp.sum(system.rows(nothing, "Enforce") ** 2)

    def advance(state: _State) -> _State:
        model = linearise(system, state.weights)
        inverse = preconditioner(model, ridge, state.damping, linear)
        step, multipliers = _step(model, ridge, state, inverse)

        def improved(step: Array, multipliers: Array) -> tuple[Array, Array]:
            better, balance = _newton_step(system, model, ridge, state, multipliers, inverse, curved)
            penalty = jnp.maximum(state.penalty, 2 * jnp.linalg.norm(balance))
            serves = merit(state.weights + better, penalty) < merit(state.weights + step, penalty)
            return jnp.where(serves, better, step), jnp.where(serves, balance, multipliers)

        if curved:
            step, multipliers = improved(step, multipliers)
        elif linear.direct:
            # Rows that cannot all hold: Gauss–Newton, which does not see their curvature, is slow there.
            slow = anywhere((state.steps >= _PATIENCE) & ~state.done)
            step, multipliers = jax.lax.cond(slow, improved, lambda *same: same, step, multipliers)
        fall = _fall(model, ridge, state.weights, step, multipliers)
        penalty = jnp.maximum(state.penalty, 2 * jnp.linalg.norm(multipliers))
        before, after = merit(state.weights, penalty), merit(state.weights + step, penalty)
        violation = jnp.linalg.norm(model.c)
        expected = fall + (penalty - jnp.linalg.norm(multipliers)) * violation
        # Below this the objective's own rounding decides, and the step is as good as any.
        tiny = expected <= 500 * epsilon * (jnp.abs(before) + scale)
        free_now = free_start & (state.steps == 0)
        accept = jnp.isfinite(after) & ((before - after > 1e-4 * expected) | tiny | free_now)
        further = fall * jnp.where(fall < state.fall, fall / state.fall, 1.0)
        # After a first step up a hill any fall is small beside where it led to.
        settled = (
            enough(further, after) & (violation**2 <= rtol**2 * scale) & ~(free_now & (after > before))
        )
        free = state.damping <= 1e-6
        gain = (before - after) / jnp.where(expected > 0, expected, 1.0)
        shrunk = state.damping * _factor(jnp.where(tiny, 1.0, gain), state.rejected)
        shrunk = jnp.where(shrunk < _LEAST_DAMPING, 0.0, shrunk)
        grown = jnp.maximum(state.damping * state.growth, 100 * _LEAST_DAMPING)
        pick = lambda new, old: jnp.where(accept, new, old)
        return _State(
            weights=pick(state.weights + step, state.weights),
            multipliers=pick(multipliers, state.multipliers),
            damping=pick(shrunk, grown),
            growth=pick(10.0, state.growth * 2),
            penalty=penalty,
            fall=jnp.where(accept & free, fall, 0.0),
            rejected=~accept,
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
        rejected=jnp.asarray(False),
        steps=jnp.asarray(0),
        done=jnp.asarray(idle),
    )
    state = jax.lax.while_loop(lambda s: ~s.done & (s.steps < max_steps), advance, state)
    return state.weights, state.multipliers, state.steps, state.done & (state.damping < 1e12)


def _factor(gain: Float[Array, ""], rejected: Bool[Array, ""]) -> Float[Array, ""]:
    """What the damping is multiplied by after an accepted step, by the fall over what was expected.

    Less boldly where the step before was rejected: half of all steps would be, otherwise.
    """
    well = jnp.where(rejected, 0.5, 0.1)
    return jnp.where(gain > 0.75, well, jnp.where(gain > 0.25, 0.5, 2.0))


def stationarity(
    system: System, ridge: Float[Array, " N"], z: tuple[Float[Array, " N"], Float[Array, " m"]]
) -> tuple[Float[Array, " N"], Float[Array, " m"]]:
    """The gradient of the Lagrangian by ω and by the multipliers: zero at the solution."""

    def lagrangian(weights: Array, multipliers: Array) -> Array:
        total = system.objective(weights) + 0.5 * jnp.sum(ridge * weights**2)
        return total + multipliers @ system.rows(weights, "Enforce")

    return jax.grad(lagrangian, argnums=(0, 1))(*z)


def preconditioner(
    model: QuadraticModel,
    ridge: Float[Array, " N"],
    damping: Float[Array, ""] | float,
    linear: LinearSolver,
) -> Any:
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


def _columns(model: QuadraticModel, ridge: Array) -> Float[Array, " N"]:
    return jnp.sqrt(model.gram(ridge, with_equalities=True).diagonal())


def _step(model: QuadraticModel, ridge: Array, state: _State, inverse: Callable) -> tuple[Array, Array]:
    """The step and the new multipliers."""
    slope = model.slope() + ridge * state.weights
    if model.C is None:
        return inverse(-slope, model.c)
    p, change = inverse(-slope - transposed(model.C, state.multipliers), -model.c)
    return p, state.multipliers + change


def _newton_step(
    system: System,
    model: QuadraticModel,
    ridge: Array,
    state: _State,
    multipliers: Array,
    inverse: Callable,
    curved: bool,
) -> tuple[Array, Array]:
    """The same with the exact second derivative of the Lagrangian, for the multipliers of that step.

    Equality rows that are `curved` bend along the step. What they are then violated by is corrected at
    once: else the merit, which weighs it, would refuse even the best of steps (the Maratos effect).
    """
    at = state.weights, multipliers
    damping = state.damping * _columns(model, ridge) ** 2

    def product(p: Array, change: Array) -> tuple[Array, Array]:
        f, g = jax.jvp(lambda z: stationarity(system, ridge, z), (at,), ((p, change),))[1]
        return f + damping * p, g

    slope, violation = stationarity(system, ridge, at)
    rtol, most = (1e-8, 50) if curved else (1e-3, 20)
    p, change = symmetric_solve(product, (-slope, -violation), inverse, rtol=rtol, max_steps=most)
    if not curved:
        return p, multipliers + change
    bend, _ = inverse(jnp.zeros_like(p), -system.rows(state.weights + p, "Enforce"))
    return p + bend, multipliers + change


def _fall(model: QuadraticModel, ridge: Array, weights: Array, step: Array, multipliers: Array) -> Array:
    """How far the quadratic model falls along a step."""
    slope = model.slope() + ridge * weights
    if model.C is not None:
        slope = slope + transposed(model.C, multipliers)
    return 0.5 * jnp.abs(slope @ step)
