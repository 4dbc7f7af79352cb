"""`solve`: the weights for one φ or many, as a `Solution` that can be called."""

import time
from collections import Counter
from typing import Any, Literal, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from . import basis as bases
from .adaptive import Adaptive, solve_to_tolerance
from .condition import require_limit
from .implicit import constant
from .layer import Outcome, weights_of
from .mistakes import found
from .points import Points, is_concrete
from .problem import Problem, inside, require_problem
from .residual import relative_residuals, unseen
from .solvers import GaussNewton, LinearSolver
from .status import SolveError, Status
from .summary import Summarised, Summary, Table
from .system import build

# The relative residual above which a condition does not hold.
RESIDUAL_LIMIT = 0.03
# Seconds for a solve to a tolerance.
BUDGET = 600.0


class Solution(Summarised, eqx.Module):
    """u = Σ ω_i f_i (and the basis's offset) for one φ, or for a batch of them, and how the solve went.

    - `weights`: ω, of shape `(N,)`, or `(batch, N)`.
    - `status`: a `Status`, or a list of them for a batch.
    - `residual`: for each condition the root mean square of its equation on the points that were
      fitted (for an energy: its value). `residual_at` gives it on other points.
    - `iterations`: steps of an iterative solver; zero for a direct one.
    - `optimality`: size of the gradient of the Lagrangian relative to the terms it is the sum of.
    - `violation`: size of the `Enforce` rows relative to their size at u = 0.
    - `points`: the sets of points that were fitted.
    - `relative_residual`: for each `Fit` and `Enforce` condition the root mean square of its equation
      over that of the size of its terms, on points that were not fitted: 1e-3 says that the condition
      holds to three digits. An energy has none.
    """

    problem: Problem
    basis: Any
    phi: Any
    points: tuple[Points, ...]
    weights: Float[Array, "*batch N"]
    residual: dict[str, Float[Array, "*batch"]]
    iterations: Int[Array, "*batch"]
    optimality: Float[Array, "*batch"]
    violation: Float[Array, "*batch"]
    code: Int[Array, "*batch"]
    batched: bool = eqx.field(static=True)
    # What `solve` has measured; other solutions measure it when they are asked.
    measured: dict[str, Float[Array, "*batch"]] | None = eqx.field(default=None, kw_only=True)
    seconds: Float[Array, ""] | None = eqx.field(default=None, kw_only=True)

    def __call__(self, points: Any) -> Any:
        """u at points of shape `(n, d)`: an array `(n,)`, or `(batch, n)`; for several unknowns a
        dictionary of such arrays."""
        return self.d()(points)

    def d(self, *coordinates: str) -> Any:
        """A derivative of u as a function of points: `solution.d("x", "x")(points)`."""
        axes = tuple(sorted(self.problem.domain.axis(name) for name in coordinates))
        return lambda points: _query(self, inside(self.problem, points), axes)

    @property
    def status(self) -> Status | list[Status]:
        """How each solve ended."""
        codes = np.asarray(self.code)
        return [Status(int(c)) for c in codes] if self.batched else Status(int(codes))

    @property
    def relative_residual(self) -> dict[str, Float[Array, "*batch"]]:
        """How well each condition holds; see above."""
        if self.measured is not None:
            return self.measured
        return _relative_residuals(self, self.problem.fresh(self.weights.shape[-1]), on_unseen=True)

    def relative_residual_at(self, points: tuple[Points, ...]) -> dict[str, Float[Array, "*batch"]]:
        """`relative_residual` on other points, such as more of them: `problem.draw(size, key)`."""
        return _relative_residuals(self, self.problem.check_points(points), on_unseen=False)

    def summary(self) -> Summary:
        """What is printed of it."""
        count = f" for a batch of {len(self.weights)} φ" if self.batched else ""
        return Summary(
            f"Solution{count}",
            [
                ("status", _counted(self)),
                ("functions", self.weights.shape[-1]),
                ("points", " + ".join(str(len(points)) for points in self.points) or None),
                ("iterations", self.iterations),
                ("optimality", self.optimality),
                ("violation", self.violation if _enforces(self.problem) else None),
                ("seconds", self.seconds),
                ("conditions", Table(("", "relative residual", "residual"), _held(self))),
            ],
        )

    def residual_at(self, points: tuple[Points, ...]) -> dict[str, Float[Array, "*batch"]]:
        """`residual` on other points, such as fresh ones: `problem.draw(size, key)`."""
        return _residuals(self, self.problem.check_points(points))


@overload
def solve(
    problem: Problem,
    basis: Any,
    phi: Any = None,
    *,
    batch: bool = False,
    solver: LinearSolver | GaussNewton | None = None,
    key: PRNGKeyArray | None = None,
    points: tuple[Points, ...] | None = None,
    initial: Float[Array, "*batch N"] | None = None,
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
    budget: float = BUDGET,
    progress: bool = True,
    throw: bool = True,
) -> Adaptive: ...


@overload
def solve(
    problem: Problem,
    basis: Any = None,  # here φ
    phi: Any = None,
    *,
    batch: Literal[True],
    tolerance: float,
    budget: float = BUDGET,
    progress: bool = True,
    throw: bool = True,
) -> list[Adaptive]: ...


def solve(
    problem: Problem,
    basis: Any = None,
    phi: Any = None,
    *,
    batch: bool = False,
    solver: LinearSolver | GaussNewton | None = None,
    key: PRNGKeyArray | None = None,
    points: tuple[Points, ...] | None = None,
    initial: Float[Array, "*batch N"] | None = None,
    throw: bool = True,
    residual_limit: float | None = RESIDUAL_LIMIT,
    dtype: Any = jnp.float64,
    tolerance: float | None = None,
    budget: float = BUDGET,
    progress: bool = True,
) -> Solution | Adaptive | list[Adaptive]:
    """Finds the weights ω for which u = Σ ω_i f_i obeys the problem's conditions.

    `solve(problem, phi, tolerance=1e-4)` needs no basis: see the end.

    Arguments:

    - `phi`: the problem's parameter; with `batch=True` every array in it has a first axis more, and
      what does not depend on φ is evaluated once for all.
    - `solver`: a linear solver (`Cholesky()`, the default, `QR()`, `SVD()`, `CG()`, `GMRES()`,
      `LSMR()`), or `GaussNewton(linear=...)` to say more about nonlinear conditions. Whether a
      problem is linear is found out; affine ones need one linear solve.
    - `key`: shifts or draws the points; without one they are always the same.
    - `points`: the points themselves, from `problem.draw`, in the place of drawing them here.
    - `initial`: ω to start from, for nonlinear conditions.
    - `throw`: whether a failed solve raises. If not, look at `solution.status`.
    - `residual_limit`: the relative residual above which a condition counts as not held
      (`Status.NOT_HELD`), unless it has a limit of its own. None: nothing is measured or judged, which
      saves its time.
    - `dtype`: `jnp.float32` says that single precision is meant. It costs: the ridge is 1e-5, and
      gradients are good to a digit or two, or wrong where the basis is nearly dependent.

    Differentiable in the basis, φ and the points' data, in forward and reverse mode. Works inside `jit`,
    `vmap` and `grad`.

    With `tolerance`, a relative L2 error, the functions are chosen too: piecewise polynomials whose
    pieces, and slabs in a coordinate that is time, follow the estimated error. For one φ on a box, on
    the CPU, not inside `jit`; `Fit` and `Enforce` are the same there, since all rows hold, and weights
    do not matter. Returns an `Adaptive`, which is called like a `Solution` and says its
    `error_estimate`.

    - `tolerance`: it grows until the estimate is below it, or the budget is used up.
    - `budget`: seconds for a φ. - `progress`: whether a bar is shown on work of more than two seconds.
    - `batch=True`: a list with an `Adaptive` for each φ. What is compiled serves all φ of a problem,
      in one call or in several.
    """
    require_problem(problem, "solve")
    require_precision(dtype)
    require_limit("solve", residual_limit)
    if tolerance is not None:
        limit = None if residual_limit == RESIDUAL_LIMIT else f"{residual_limit}"
        others: dict[str, Any] = {"solver": solver, "key": key, "points": points, "initial": initial}
        others |= {"residual_limit": limit}
        _require_no_basis(basis, phi, others, dtype)
        phi = cast(problem.check(basis if phi is None else phi, batch), dtype)
        return solve_to_tolerance(problem, phi, tolerance, budget, progress, throw, batch)
    _require_basis(basis)
    phi = problem.check(phi, batch)
    solver = complete(solver)
    size = lambda: sum(sizes_of(problem, basis, phi, batch).values())
    drawn = problem.draw(size(), key) if points is None else problem.check_points(points)
    points = cast(drawn, dtype)
    if initial is not None and initial.shape[-1:] != (size(),):
        raise ValueError(f"`initial` has shape {initial.shape}; the basis has {size()} functions.")
    fresh = None if residual_limit is None else cast(problem.fresh(size()), dtype)
    begun = time.perf_counter()
    found, residual, measured = _solve(
        problem, basis, cast(phi, dtype), points, fresh, solver, initial, batch
    )
    code = judged(problem, found.code, measured, residual_limit)
    seconds = _seconds_since(begun, code) if throw else None
    solution = Solution(
        problem, basis, phi, points, found.weights, residual, found.iterations, found.optimality,
        found.violation, code, batch, measured=measured, seconds=seconds,
    )  # fmt: skip
    return raise_failed(solution) if throw else solution


def propose(
    problem: Problem,
    basis: Any,
    phi: Any = None,
    *,
    batch: bool = False,
    points: tuple[Points, ...] | None = None,
    key: PRNGKeyArray | None = None,
    throw: bool = True,
) -> Solution:
    """The weights ω that the network itself proposes (`basis.weights(phi)`, or ones), with no solve.

    What a soft model answers. The `Solution` is like any other, with the arguments of `solve`:
    residuals are measured on the points, the status is `Status.GIVEN`, and the optimality, which
    nothing has looked at, is NaN.
    """
    require_problem(problem, "propose")
    require_precision(jnp.float64)
    phi = problem.check(phi, batch)
    size = lambda: sum(sizes_of(problem, basis, phi, batch).values())
    drawn = problem.draw(size(), key) if points is None else problem.check_points(points)
    points = cast(drawn, jnp.float64)
    found, residual = _propose(problem, basis, cast(phi, jnp.float64), points, batch)
    solution = Solution(
        problem, basis, phi, points, found.weights, residual, found.iterations, found.optimality,
        found.violation, found.code, batch,
    )  # fmt: skip
    return raise_failed(solution) if throw else solution


@eqx.filter_jit
def _solve(
    problem: Problem,
    basis: Any,
    phi: Any,
    points: tuple[Points, ...],
    fresh: tuple[Points, ...] | None,
    solver: GaussNewton,
    initial: Array | None,
    batch: bool,
) -> tuple[Outcome, dict[str, Array], dict[str, Array] | None]:
    def one(
        phi: Any, initial: Array | None
    ) -> tuple[Outcome, dict[str, Array], dict[str, Array] | None]:
        # On a GPU a product of float32 matrices may otherwise be made of 19-bit numbers.
        with jax.default_matmul_precision("highest"):
            hold = solver.linear.direct
            system = build(problem, basis, phi, points, hold_jets=hold)
            outcome = weights_of(system, solver, initial)
            residual, measured = system.residuals(outcome.weights), None
            if fresh is not None:
                sets = unseen(system, fresh)
                check = build(problem, constant(basis), constant(phi), sets, hold, whole=True)
                measured = relative_residuals(check, constant(outcome.weights))
            return outcome, residual, measured

    axes = (0, 0 if initial is not None and initial.ndim == 2 else None)
    return jax.vmap(one, axes)(phi, initial) if batch else one(phi, initial)


@eqx.filter_jit
def _propose(
    problem: Problem, basis: Any, phi: Any, points: tuple[Points, ...], batch: bool
) -> tuple[Outcome, dict[str, Array]]:
    def one(phi: Any) -> tuple[Outcome, dict[str, Array]]:
        system = build(problem, basis, phi, points, hold_jets=False)
        sizes = dict(system.plan.sizes)
        weights = bases.proposed(system.basis, problem.unknowns, phi, sizes).astype(jnp.float64)
        residual = system.residuals(weights)
        finite = jnp.all(jnp.asarray([jnp.all(jnp.isfinite(x)) for x in (weights, *residual.values())]))
        code = jnp.where(finite, int(Status.GIVEN), int(Status.NONFINITE_NETWORK))
        left, size = (
            jnp.linalg.norm(system.rows(w, "Enforce")) for w in (weights, jnp.zeros_like(weights))
        )
        violation = left / jnp.where(size > 0, size, 1.0)
        return Outcome(weights, code, jnp.asarray(0), jnp.asarray(jnp.nan), violation), residual

    return jax.vmap(one)(phi) if batch else one(phi)


@eqx.filter_jit
def _query(solution: Solution, coords: Float[Array, "n d"], axes: tuple[int, ...]) -> Any:
    unknowns = solution.problem.unknowns

    def one(weights: Array, phi: Any) -> Any:
        basis, shares = bases.specialise(solution.basis, phi), _shares(solution, weights)
        found = bases.combine(basis, unknowns, shares, coords, phi, {axes})
        fixed = bases.offsets(basis, unknowns, coords, phi, {axes}) or {}
        values = {name: found[name, axes] + fixed.get((name, axes), 0.0) for name in unknowns}
        return values[unknowns[0]] if len(unknowns) == 1 else values

    call = jax.vmap(one) if solution.batched else one
    return call(solution.weights, solution.phi)


@eqx.filter_jit
def _residuals(solution: Solution, points: tuple[Points, ...]) -> dict[str, Array]:
    def one(weights: Array, phi: Any) -> dict[str, Array]:
        system = build(solution.problem, solution.basis, phi, points, hold_jets=False)
        return system.residuals(weights)

    call = jax.vmap(one) if solution.batched else one
    return call(solution.weights, solution.phi)


@eqx.filter_jit
def _relative_residuals(
    solution: Solution, points: tuple[Points, ...], on_unseen: bool
) -> dict[str, Array]:
    problem, basis = solution.problem, solution.basis

    def one(weights: Array, phi: Any) -> dict[str, Array]:
        system = build(problem, basis, phi, solution.points, hold_jets=False)
        sets = unseen(system, points) if on_unseen else points
        return relative_residuals(build(problem, basis, phi, sets, False, whole=True), weights)

    call = jax.vmap(one) if solution.batched else one
    return call(solution.weights, solution.phi)


def judged(
    problem: Problem, code: Array, measured: dict[str, Array] | None, limit: float | None
) -> Array:
    """The status, where a condition does not hold although the solve went well. NaN does not hold."""
    if limit is None or measured is None:
        return code
    well = (code == int(Status.SOLVED)) | (code == int(Status.OVERDETERMINED))
    for name, most in _limits(problem, limit).items():
        code = jnp.where(well & ~(measured[name] <= most), int(Status.NOT_HELD), code)
    return code


def _limits(problem: Problem, limit: float) -> dict[str, float]:
    """The relative residual up to which each condition holds."""
    named = zip(problem.names(), problem.conditions, strict=True)
    own = {name: c.residual_limit for name, c in named if c.kind != "Energy"}
    return {name: limit if given is None else given for name, given in own.items()}


def _seconds_since(begun: float, code: Array) -> Array | None:
    """How long a solve took, its compilation included; None inside `jit`."""
    if not is_concrete(code):
        return None
    jax.block_until_ready(code)
    return jnp.asarray(time.perf_counter() - begun)


def _counted(solution: Solution) -> str:
    """The status, or for a batch how often each occurs."""
    if not is_concrete(solution.code):
        return "not computed yet"
    statuses = [Status(int(code)) for code in np.atleast_1d(np.asarray(solution.code))]
    if not solution.batched:
        return str(statuses[0])
    return ", ".join(f"{count} {status}" for status, count in Counter(statuses).most_common())


def _held(solution: Solution) -> list[tuple[str, Any, Any]]:
    """For each condition its name, and how well it holds where that has been measured."""
    measured = solution.measured or {}
    return [(name, measured.get(name, ""), size) for name, size in solution.residual.items()]


def _enforces(problem: Problem) -> bool:
    return any(condition.kind == "Enforce" for condition in problem.conditions)


def _shares(solution: Solution, weights: Array) -> dict[str, Array]:
    sizes = sizes_of(solution.problem, solution.basis, solution.phi, solution.batched)
    ends = np.cumsum(list(sizes.values()))[:-1]
    return dict(zip(sizes, jnp.split(weights, ends), strict=True))


def sizes_of(problem: Problem, basis: Any, phi: Any, batch: bool) -> dict[str, int]:
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[batch:], leaf.dtype), phi)
    return bases.sizes(basis, problem.unknowns, len(problem.domain.names), one)


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
    return jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, tree)


def raise_failed(solution: Solution) -> Solution:
    """Raises for a failed solve: at once where the numbers are known, at run time inside jit."""
    if is_concrete(solution.code):
        codes = np.atleast_1d(np.asarray(solution.code))
        for index, status in enumerate(Status(int(code)) for code in codes):
            if status.failed:
                where = f" for φ number {index} of the batch" if solution.batched else ""
                raise SolveError(status, where, _detail(solution, status, index))
        return solution
    weights = solution.weights
    for status in Status:
        if status.failed:
            weights = eqx.error_if(weights, solution.code == int(status), f"{status}. {status.advice}")
    return eqx.tree_at(lambda s: s.weights, solution, weights)


def _detail(solution: Solution, status: Status, index: int) -> str:
    if status is not Status.NOT_HELD or solution.measured is None:
        return ""
    return worst_held(solution.problem, solution.measured, index) + "."


def worst_held(problem: Problem, measured: dict[str, Any], index: int = 0) -> str:
    """Which condition holds least for φ number `index`, and how far."""
    far = {name: float(np.atleast_1d(r)[index]) for name, r in measured.items()}
    allowed = _limits(problem, RESIDUAL_LIMIT)
    worst = max(far, key=lambda name: far[name] / allowed[name])
    return f"{worst!r} has a relative residual of {far[worst]:.2g}"
