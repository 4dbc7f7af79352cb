"""`solve`: the weights ω for which u = Σ ω_i f_i obeys a problem's conditions."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, overload

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, PRNGKeyArray

from ..adaptive import Adaptive, Budget, Traced, solve_to_tolerance
from ..basis import basis as bases
from ..parallel.devices import mesh_in_vmap, over_devices, placed
from ..state.condition import require_limit
from ..state.points import Points
from ..state.problem import Problem, require_problem
from ..support.mistakes import found
from ..support.status import Status
from .amplification import room_for_error
from .batching import whole
from .implicit import constant
from .layer import Outcome, finite, weights_of
from .residual import relative_residuals, unseen
from .solution import RESIDUAL_LIMIT, Given, Solution, check_residuals, check_room, raise_failed
from .solvers import GaussNewton, LinearSolver
from .system import build

# Seconds for a solve to a tolerance.
BUDGET = 600.0

# What a solve is made of beside φ: problem, basis, points, fresh points, solver, start, residual limit.
_Given = tuple[
    Problem, Any, tuple[Points, ...], tuple[Points, ...] | None, GaussNewton, Array | None, Array | None
]


@overload
def solve(
    problem: Problem,
    basis: Any,
    phi: Any = None,
    *,
    solver: LinearSolver | GaussNewton | None = None,
    key: PRNGKeyArray | None = None,
    points: tuple[Points, ...] | None = None,
    initial: Float[Array, " N"] | None = None,
    throw: bool = True,
    residual_limit: float | None = RESIDUAL_LIMIT,
    dtype: Any = jnp.float64,
) -> Solution: ...


@overload
def solve(
    problem: Problem,
    basis: Any = None,  # here φ
    phi: Any = None,
    *,
    tolerance: float,
    budget: float | Budget = BUDGET,
    progress: bool = True,
    throw: bool = True,
) -> Adaptive: ...


def solve(
    problem: Problem,
    basis: Any = None,
    phi: Any = None,
    *,
    solver: LinearSolver | GaussNewton | None = None,
    key: PRNGKeyArray | None = None,
    points: tuple[Points, ...] | None = None,
    initial: Float[Array, " N"] | None = None,
    throw: bool = True,
    residual_limit: float | None = RESIDUAL_LIMIT,
    dtype: Any = jnp.float64,
    tolerance: float | None = None,
    budget: float | Budget = BUDGET,
    progress: bool = True,
) -> Solution | Adaptive | Traced:
    """Finds the weights ω for which u = Σ ω_i f_i obeys the problem's conditions.

    `solve(problem, phi, tolerance=1e-4)` needs no basis: see the end.

    Arguments:

    - `basis`: N functions: any callable `basis(x, phi)` that returns their values at a point, such as
      those in `pdecl.nn`.
    - `phi`: the problem's parameter. For many: `jax.vmap(lambda phi: solve(problem, basis, phi))(phis)`,
      in which what does not depend on φ is evaluated once for all. φ that are split over devices, by
      `jax.device_put(phis, NamedSharding(mesh, PartitionSpec("phi")))`, are solved for where they are.
    - `solver`: a linear solver (`Cholesky()`, the default, `QR()`, `CG()`, `GMRES()`,
      `LSMR()`), or `GaussNewton(linear=...)` to say more about nonlinear conditions. Whether a
      problem is linear is found out; affine ones need one linear solve.
    - `key`: shifts or draws the points; without one they are always the same.
    - `points`: the collocation points, from `problem.draw`, instead of drawing them here. Where a set of
      them is split over devices, so are its rows: for one system with many more rows than functions.
    - `initial`: ω to start from, for nonlinear conditions.
    - `throw`: whether a failed solve raises. If not, look at `solution.status`.
    - `residual_limit`: the relative residual above which a condition counts as not held
      (`Status.NOT_HELD`), unless it has a limit of its own. Residuals that leave room for an error of
      ten times the limit have a status too (`Status.AMPLIFIED`) and a warning. None: nothing is
      measured, which saves its time.
    - `dtype`: `jnp.float32` says that single precision is meant. It costs: the ridge is 1e-5, and
      gradients are good to a digit or two, or wrong where the basis is nearly dependent.

    Differentiable in the basis, φ and the points' data, in forward and reverse mode. Works inside `jit`,
    `vmap` and `grad`. A failure inside `jit` raises at run time.

    With `tolerance`, a relative L2 error, the functions are chosen too: piecewise polynomials whose
    pieces, and slabs in a coordinate that is time, follow the estimated error. On a box or a shape, on
    the CPU; `Fit` and `Enforce` are the same there, and weights do not matter. Returns an `Adaptive`,
    which is called like a `Solution` and says its `error_estimate`. Inside `jit` and `grad` its values
    are computed on the host, and have first derivatives with respect to φ and to points.

    - `tolerance`: it grows until the estimate is below it, or the budget is used up.
    - `budget`: seconds for a φ, or a `Budget` of seconds, functions and memory.
    - `progress`: whether a bar is shown on work of more than two seconds.

    Many φ: `jax.vmap(lambda phi: solve(problem, phi, tolerance=1e-4))(phis)`. They march together, on
    the same pieces and slabs, each with an error estimate of its own.
    """
    require_problem(problem, "solve")
    require_precision(dtype)
    require_limit("solve", residual_limit)
    if tolerance is not None:
        others: dict[str, Any] = {"solver": solver, "key": key, "points": points, "initial": initial}
        if residual_limit != RESIDUAL_LIMIT:
            others["residual_limit"] = f"{residual_limit}"
        _require_no_basis(basis, phi, others, dtype)
        phi = cast(problem.check(basis if phi is None else phi), dtype)
        return solve_to_tolerance(problem, phi, tolerance, budget, progress, throw)
    _require_basis(basis)
    phi, points, size = _placed(problem, basis, phi, points, key, dtype)
    if initial is not None and initial.shape != (size(),):
        raise ValueError(
            f"`initial` has shape {initial.shape}; the basis has {size()} functions, so ({size()},)."
        )
    fresh = limit = None
    if residual_limit is not None:
        fresh, limit = cast(problem.fresh(size()), dtype), jnp.asarray(residual_limit)
    begun = time.perf_counter()
    given = (problem, basis, points, fresh, complete(solver), initial, limit)
    mesh = None if _is_traced(given) else mesh_in_vmap(phi)
    found = _solve(given, phi) if mesh is None else _solve_on(mesh, given, phi)
    solution = Solution(Given.of(problem, basis, points), phi, **vars(found))
    if not throw:
        return solution
    solution = raise_failed(solution)
    if whole(found.code) is None:
        return solution
    return replace(solution, seconds=jnp.asarray(time.perf_counter() - begun))


def predict(
    problem: Problem,
    basis: Any,
    phi: Any = None,
    *,
    points: tuple[Points, ...] | None = None,
    key: PRNGKeyArray | None = None,
    throw: bool = True,
) -> Solution:
    """The weights ω that the network itself predicts (`basis.weights(phi)`, or ones), with no solve.

    What a soft model answers. The `Solution` is like any other, with the arguments of `solve`:
    residuals are measured on the points, the status is `Status.PREDICTED`, and the optimality, which
    nothing has looked at, is NaN.
    """
    require_problem(problem, "predict")
    phi, points, _ = _placed(problem, basis, phi, points, key, jnp.float64)
    found = _predict(problem, basis, phi, points)
    solution = Solution(Given.of(problem, basis, points), phi, **vars(found))
    return raise_failed(solution) if throw else solution


def _placed(
    problem: Problem,
    basis: Any,
    phi: Any,
    points: tuple[Points, ...] | None,
    key: PRNGKeyArray | None,
    dtype: Any,
) -> tuple[Any, tuple[Points, ...], Callable[[], int]]:
    """φ and the collocation points, checked and in that precision, and what tells the basis's size."""
    require_precision(dtype)
    phi = problem.check(phi)
    size = cache(lambda: sum(sizes_of(problem, basis, phi).values()))
    points = problem.draw(size(), key) if points is None else problem.check_points(points)
    return cast(phi, dtype), cast(points, dtype), size


def _is_traced(tree: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def _solve_on(mesh: Mesh, given: _Given, phi: Any) -> Outcome:
    """Inside `vmap` over φ that are split over devices: each solves for its own, and asks no other."""

    # Of shapes alone: with a mesh of explicit axes the types of φ here say too where they are.
    plain = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), phi)
    like = eqx.filter_eval_shape(_solve, given, plain)

    @jax.custom_batching.custom_vmap
    def one(phi: Any) -> Outcome:
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)

    @one.def_vmap
    def batch(size: int, in_batched: Any, phis: Any) -> tuple[Outcome, Any]:
        found = _solve_all_on(mesh, given, placed(phis, mesh))
        return found, jax.tree.map(lambda _: True, found)

    return one(phi)


@eqx.filter_jit
def _solve_all_on(mesh: Mesh, given: _Given, phis: Any) -> Outcome:
    each = lambda given, phis: jax.vmap(lambda phi: _solve(given, phi))(phis)
    return over_devices(each, mesh, given, phis)


@eqx.filter_jit
def _solve(given: _Given, phi: Any) -> Outcome:
    problem, basis, points, fresh, solver, initial, limit = given
    # On a GPU a product of float32 matrices may otherwise be made of 19-bit numbers.
    with jax.default_matmul_precision("highest"):
        hold = solver.linear.direct
        system = build(problem, basis, phi, points, materialise=hold)
        found = weights_of(system, solver, initial)
        found = replace(found, residual=system.residuals(found.weights))
        if fresh is None:
            return found
        sets = unseen(system, fresh)
        check = build(problem, constant(basis), constant(phi), sets, hold, whole=True)
        weights = constant(found.weights)
        measured = relative_residuals(check, weights)
        code = check_residuals(problem, found.code, measured, limit)
        if not hold or system.indices("Energy") or not measured:
            return replace(found, code=code, measured=measured)
        system, check = constant((system, check))
        room = room_for_error(system, check, weights, measured, code, solver.linear)
        code = check_room(problem, code, room, limit)
        return replace(found, code=code, measured=measured, room=room)


@eqx.filter_jit
def _predict(problem: Problem, basis: Any, phi: Any, points: tuple[Points, ...]) -> Outcome:
    system = build(problem, basis, phi, points, materialise=False)
    sizes = dict(system.plan.sizes)
    weights = bases.predicted(system.basis, problem.unknowns, phi, sizes).astype(jnp.float64)
    residual = system.residuals(weights)
    well = finite((weights, residual))
    code = jnp.where(well, int(Status.PREDICTED), int(Status.NONFINITE_NETWORK))
    left, size = (jnp.linalg.norm(system.rows(w, "Enforce")) for w in (weights, jnp.zeros_like(weights)))
    violation = left / jnp.where(size > 0, size, 1.0)
    return Outcome(weights, code, jnp.asarray(0), jnp.asarray(jnp.nan), violation, residual)


def sizes_of(problem: Problem, basis: Any, phi: Any) -> dict[str, int]:
    """How many functions a basis has for each unknown, for a φ as it is or as shapes."""
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), phi)
    return bases.sizes(basis, problem.unknowns, len(problem.domain.names), shapes)


def complete(solver: LinearSolver | GaussNewton | None) -> GaussNewton:
    if solver is None:
        return GaussNewton()
    if isinstance(solver, LinearSolver):
        return GaussNewton(linear=solver)
    if isinstance(solver, GaussNewton):
        return solver
    raise TypeError(f"`solver` must be a linear solver or GaussNewton; found {found(solver)}.")


def _require_basis(basis: Any) -> None:
    if basis is None:
        raise TypeError(
            "solve: give a basis, solve(problem, basis, phi), or a tolerance, "
            "solve(problem, phi, tolerance=1e-4)."
        )


def _require_no_basis(basis: Any, phi: Any, others: dict[str, Any], dtype: Any) -> None:
    if callable(basis):
        raise TypeError(
            f"solve: a solve to a tolerance chooses its own functions; found the basis {found(basis)}. "
            "Leave out `basis`, solve(problem, phi, tolerance=1e-4), or `tolerance`."
        )
    if basis is not None and phi is not None:
        raise TypeError("solve: two φ were given: write solve(problem, phi, tolerance=1e-4).")
    for name, value in others.items():
        if value is not None:
            raise ValueError(
                f"solve: `{name}` is of a solve with a basis, and does nothing with `tolerance`: leave "
                "it out."
            )
    if dtype != jnp.float64:
        raise ValueError("solve: a solve to a tolerance is in float64; leave `dtype` out.")


def require_precision(dtype: Any) -> None:
    if dtype not in (jnp.float32, jnp.float64):
        raise ValueError(f"`dtype` must be jnp.float64 or jnp.float32; found {dtype}.")
    if dtype == jnp.float64 and not jax.config.read("jax_enable_x64"):
        raise RuntimeError(
            "pdecl solves in float64, and JAX has it turned off. Say "
            'jax.config.update("jax_enable_x64", True) before anything else, or pass dtype=jnp.float32 '
            "if single precision is meant."
        )


def cast(tree: Any, dtype: Any) -> Any:
    wrong = lambda x: eqx.is_inexact_array(x) and (x.dtype != dtype or x.weak_type)
    return jax.tree.map(lambda x: x.astype(dtype) if wrong(x) else x, tree)
