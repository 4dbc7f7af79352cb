"""The PDE-constrained layer: from a system of rows to the weights ω, differentiably."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..support.status import Status
from .gram import transposed
from .implicit import attach, constant
from .precision import precision_of
from .solvers import GaussNewton, LinearSolver
from .solvers.gauss_newton import preconditioner, stationarity
from .solvers.quadratic import minimise
from .solvers.starts import reach
from .system import QuadraticModel, System, linearise


class Outcome(eqx.Module):
    """What a solve found: ω and how it went. What the fields are is said of `Solution`."""

    weights: Float[Array, " N"]
    code: Int[Array, ""]  # a Status
    iterations: Int[Array, ""]
    optimality: Float[Array, ""]
    violation: Float[Array, ""]
    residual: dict[str, Float[Array, ""]] = eqx.field(default_factory=dict)
    measured: dict[str, Float[Array, ""]] | None = None
    room: Float[Array, ""] | None = None


def weights_of(
    system: System, solver: GaussNewton, initial: Float[Array, " N"] | None = None
) -> Outcome:
    """The ω that the conditions ask for, differentiable in everything the system is made of."""
    nothing = jnp.zeros(system.plan.size, system.dtype)
    at_zero = linearise(system)
    ridge, columns = _ridge(at_zero, system, solver.linear)
    if system.is_affine:
        # Also what a change of functions is measured against: their part along themselves drops out of
        # derivatives, which are several times less accurate for nearly dependent functions otherwise.
        model = at_zero.scaled(1 / columns)
        p, multipliers, effort = minimise(model, ridge / columns**2, nothing, solver.linear)
        effort = jax.tree.map(jnp.asarray, effort)  # outside `jit` its linear solve gives plain numbers
        weights, iterations, converged = p / columns, effort.steps, effort.converged
    else:
        start = None if initial is None else initial.astype(nothing.dtype)
        held, fixed, zeroed = constant((system, ridge, at_zero))
        path = lambda ridge: reach(held, ridge, zeroed, start, solver)
        # Without derivatives also by what a condition closes over.
        path = constant(eqx.filter_closure_convert(path, fixed))
        weights, multipliers, iterations, converged = path(fixed)
        model = constant(linearise(system, weights))
        inverse = Partial(preconditioner, model, fixed, 0.0, solver.linear)
        optimality = lambda z: stationarity(system, ridge, z)
        weights, multipliers = attach((weights, multipliers), optimality, inverse)
    seen = constant((system, at_zero, ridge, weights, multipliers, converged))
    code, distance, violation = _status(*seen)
    return Outcome(weights, code, iterations, distance, violation)


def default_ridge(linear: LinearSolver, dtype: DTypeLike) -> float:
    """The solver's ridge, or one that its arithmetic can resolve and its gradients need."""
    if linear.ridge is not None:
        return linear.ridge
    return precision_of(dtype).ridge if linear.direct else precision_of(dtype).iterative_ridge


def _ridge(model: QuadraticModel, system: System, linear: LinearSolver) -> tuple[Array, Array]:
    """What each ω_j² is penalised with, and the norm of each column, at u = 0.

    The penalty is relative to the columns, so that it does not care how functions are scaled. Where
    rows are fewer than functions it decides which ω is the shortest; there all columns count alike.
    """
    squares = model.gram(jnp.zeros_like(model.g), with_equalities=True).diagonal()
    mean = jnp.mean(squares)
    rows = model.r.size + model.c.size + (0 if model.D is None else model.D[..., 0].size)
    if rows < system.plan.size:
        squares = jnp.full_like(squares, mean)
    # A function that no row sees still needs a norm.
    squares = jnp.where(squares > 1e-24 * mean, squares, jnp.where(mean > 0, mean, 1.0))
    return default_ridge(linear, squares.dtype) * squares, jnp.sqrt(squares)


def _status(
    system: System,
    at_zero: QuadraticModel,
    ridge: Array,
    weights: Array,
    multipliers: Array,
    converged: Array,
) -> tuple[Array, Array, Array]:
    """The status, the relative size of the gradient of the Lagrangian, and the relative violation."""
    slope, _ = stationarity(system, ridge, (weights, jnp.zeros_like(multipliers)))
    c, pull_back = jax.vjp(lambda w: system.rows(w, "Enforce"), weights)
    norm = lambda x: jnp.linalg.norm(x * jnp.sqrt(jnp.mean(ridge) / ridge))
    relative = lambda x, size: x / jnp.where(size > 0, size, 1.0)
    force, (pull,) = at_zero.slope(), pull_back(multipliers)
    if at_zero.C is not None and at_zero.A is None and at_zero.E is None and c.size > weights.size:
        force = transposed(at_zero.C, at_zero.c)  # there they are a fit, whose pull vanishes
    if not system.is_affine:
        # Rows may have no slope at u = 0 and so no force there; at the solution they have.
        pulled = jax.vjp(lambda w: system.rows(w, "Fit"), weights)[1](at_zero.r)[0]
        force = jnp.abs(force) + jnp.abs(pulled)
    # At the solution the equality rows' pull balances everything else, so its size counts too.
    optimality = relative(norm(slope + pull), norm(force) + norm(ridge * weights) + norm(pull))
    violation = relative(jnp.linalg.norm(c), jnp.linalg.norm(at_zero.c))

    beyond, tolerance = c.size > weights.size, precision_of(weights.dtype).tolerance
    inaccurate = Status.ILL_CONDITIONED if system.is_affine else Status.NOT_CONVERGED
    verdicts = [  # the later, the more it matters
        ((violation > tolerance) & beyond, Status.OVERDETERMINED),
        (optimality > tolerance, inaccurate),
        ((violation > tolerance) & (not beyond), Status.CONSTRAINTS_INCONSISTENT),
        (~converged, Status.NOT_CONVERGED),
        (~finite(weights), Status.ILL_CONDITIONED),
        (~finite((at_zero.r, at_zero.c, at_zero.g, ridge)), Status.NONFINITE_EQUATION),
        (~finite(system.jets), Status.NONFINITE_NETWORK),
        (~finite((system.phi, system.sets)), Status.NONFINITE_INPUT),
    ]
    return judged(verdicts), optimality, violation


def judged(verdicts: Sequence[tuple[Array, Status]]) -> Int[Array, ""]:
    """The last status of those that happened; solved if none has."""
    code = jnp.asarray(int(Status.SOLVED))
    for happened, status in verdicts:
        code = jnp.where(happened, int(status), code)
    return code


def finite(tree: PyTree) -> Bool[Array, ""]:
    """Whether all numbers in a tree are."""
    leaves = [x for x in jax.tree.leaves(tree) if eqx.is_inexact_array(x)]
    return jnp.all(jnp.asarray([jnp.all(jnp.isfinite(x)) for x in leaves] or [True]))
