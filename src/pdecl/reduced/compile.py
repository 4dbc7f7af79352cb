"""`compile`: from a trained basis to a solver. Everything here happens once, offline."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..family.experiment import Experiment, problem_of, solver_of, training_phis
from ..family.metrics import ErrorSummary, relative_l2, summarise
from ..family.phi import take
from ..family.trained import Trained
from ..layer.solution import Given, Solution
from ..layer.solve import require_precision
from ..layer.solvers import GaussNewton, LinearSolver
from ..layer.system import Plan, build
from ..state.points import Points
from ..state.problem import Problem, inside
from ..support.status import usable
from . import crease as creases
from . import pod
from .core import Core, answer
from .crease import Crease
from .forms import Form, Held, Live, Rows
from .online import Rules
from .selection import select_points, subset, units
from .snapshots import (
    FrontSnapshots,
    Snapshots,
    phi_independent,
    rows_of,
    take_snapshots,
)
from .solver import Compiled
from .statistics import learned_start, phi_statistics

Route = Literal["chosen", "all"]

_ROWS = 2.0  # rows for each function, where no number is given
# Functions of the front for each function. With half as many: 1.03% in place of 0.87% at 48 functions,
# no difference from 64 on.
_FRONT = 0.75
_MEASURED = 64  # held-out φ at most that an error is measured on
_COVERED = 0.97  # of φ have errors below their estimates
_FEW = 12
_BALANCED = 12  # training φ that tell how much each equation counts
_SHARE = 0.02  # of the stated error that the iteration may leave
_NOT_REDUCED = (
    "this basis sees φ, so that no combinations of its functions serve for all φ: leave `functions` and "
    "`error` out, train with fewer functions, or take a basis that does not see φ."
)
_SIZES = (8, 12, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024)


def compile(
    problem: Problem | Trained | Snapshots,
    basis: Any = None,
    phis: Any = None,
    *,
    functions: int | None = None,
    error: float | None = None,
    points: int | None = None,
    at: Any = None,
    route: Route = "chosen",
    solver: LinearSolver | GaussNewton | None = None,
    dtype: Any = jnp.float64,
    max_steps: int = 15,
) -> Compiled:
    """Turns a trained basis into a solver for many φ.

    Offline, once: the basis is solved with all its functions for every training φ; the leading
    directions of these answers take the place of the functions; the points whose rows matter are
    chosen among many (QR with pivoting over rows for several φ); rows are whitened by the inverse
    covariance of what the functions left out leave in them; jets there, and values at `at`, are
    stored. Online, in one compiled function for a batch: rows from the stored jets, Gram matrices,
    Cholesky factorisations, one matrix product for the values at `at`. The network does not run.

    `Creased` functions depend on φ, but only through a front that is a sum of functions like any other
    answer: over a basis that does not see φ all of this holds for them too. The front's own problem is
    reduced and solved first; then the two parts of u, smooth and creased, are found together.

    Any other basis whose functions depend on φ (`Modulated`, `FNO`) goes through the same door, but its
    functions cannot be stored or reduced: online the network runs for each φ of the batch at the
    chosen points, and at `at`. Chosen in advance are only the points.

    Arguments:

    - `problem`, `basis`: as in `solve`; or a `Trained` alone, which knows both, and its training φ; or a
      `Snapshots`, from `take_snapshots`, whose answers then serve many settings.
    - `phis`: training φ, along a first axis; hundreds. A quarter is held out to measure errors on. For a
      `Trained`: how many of its own (400).
    - `functions`: how many combinations of functions to keep, for each unknown (of creased functions, in
      both parts together). None keeps all.
    - `error`: keep as few as reach this mean relative error against the whole basis on held-out φ.
    - `points`: how many rows to keep in all, at least as many as functions: twice as many by default.
      Fewer than functions asks for the shortest weights (in the spread of the training answers) that
      satisfy them.
    - `at`: query points `(q, d)`, whose values every answer brings along.
    - `route`: "all" fits all the points that `solve` would draw, plainly, instead of chosen ones.
    - `dtype`: the precision of the steps' matrices; residuals are always in float64. `jnp.float32` is
      faster on a GPU and costs at most a step more.

    The result says in `error` what all this costs, measured on the held-out φ. (How rows are whitened
    is chosen on them too, out of four ways.)
    """
    snapshots, experiment = snapshots_from(
        problem, basis, phis, solver, reduce=functions is not None or error is not None
    )
    options = {"points": points, "at": at, "route": route, "dtype": dtype, "max_steps": max_steps}
    if error is None:
        made = assemble(snapshots, functions, **options)
    elif functions is not None:
        raise TypeError("compile: give `functions` or `error`, not both.")
    else:
        made = _smallest(snapshots, error, options)
    return replace(made, experiment=experiment)


def snapshots_from(
    problem: Problem | Trained | Snapshots, basis: Any, phis: Any, solver: Any, reduce: bool
) -> tuple[Snapshots, Experiment | None]:
    """Snapshots of what was given, and the experiment behind it if there is one."""
    require_precision(jnp.float64)
    if isinstance(problem, Snapshots):
        if basis is not None or phis is not None or solver is not None:
            raise TypeError("Snapshots come with their basis, φ and solver: leave these out.")
        return problem, problem.experiment
    if isinstance(problem, Trained):
        count = 400 if phis is None else phis
        if basis is not None or not isinstance(count, int):
            raise TypeError("a Trained comes with its basis; `phis` says how many training φ to use.")
        if count < 1:
            raise ValueError(f"compile: `phis` must be at least one training φ; found {count}.")
        snapshots = snapshots_of(problem, count, solver, reduce=reduce)
        return snapshots, snapshots.experiment
    if basis is None or phis is None:
        raise TypeError("give a problem, a basis and training φ (`problem.sample(key, 400)`).")
    one = jax.tree.map(lambda leaf: leaf[0], problem.check_many(phis))
    if reduce and not phi_independent(problem, basis, one):
        raise ValueError(_NOT_REDUCED)
    return take_snapshots(problem, basis, phis, solver), None


def snapshots_of(
    trained: Trained,
    count: int = 400,
    solver: LinearSolver | GaussNewton | None = None,
    *,
    reduce: bool = False,
    progress: Callable[[int], None] = lambda more: None,
) -> Snapshots:
    """The snapshots of a trained basis on the first of its training φ.

    `reduce` says that fewer functions will be asked for: a basis that does not allow it is rejected
    before anything is solved. `progress` is that of `take_snapshots`.
    """
    if trained.experiment.method == "soft":
        raise ValueError("a soft model predicts its weights and has nothing to solve for.")
    problem = problem_of(trained.experiment)
    training = replace(trained.experiment.training, phis=count)
    phis = training_phis(replace(trained.experiment, training=training))
    if reduce and phis is not None and not phi_independent(problem, trained.basis, take(phis, 0)):
        raise ValueError(_NOT_REDUCED)
    solver = solver_of(trained.experiment) if solver is None else solver
    snapshots = take_snapshots(problem, trained.basis, phis, solver, progress)
    return replace(snapshots, experiment=trained.experiment)


def assemble(
    snapshots: Snapshots,
    functions: int | None = None,
    *,
    points: int | None = None,
    at: Any = None,
    route: Route = "chosen",
    dtype: Any = jnp.float64,
    max_steps: int = 15,
) -> Compiled:
    """A solver with that many functions and rows, from what snapshots have found."""
    require_precision(dtype)
    if route not in ("chosen", "all"):
        raise ValueError(f"`route` must be 'chosen' or 'all'; found {route!r}.")
    at = None if at is None else inside(snapshots.problem, at)
    rules = Rules(jnp.dtype(dtype).name, jnp.asarray(1e-6), max_steps)
    if snapshots.sees_phi:
        if functions is not None:
            raise ValueError(_NOT_REDUCED)
        core = _phi_dependent(snapshots, points, route, at, rules)
        return Compiled(core, measured(snapshots, core))
    sizes = [size for _, size in snapshots.plan.sizes]
    most = max(sizes) if snapshots.front is None else sum(sizes)
    if functions is not None and not 1 <= functions <= most:
        raise ValueError(f"`functions` must be between 1 and the basis's own number; found {functions}.")
    return _phi_independent(snapshots, functions, points, route, at, rules)


def measured(snapshots: Snapshots, core: Core) -> ErrorSummary:
    """Relative L2 distance from the whole basis's answers over held-out φ; 1 without an answer."""
    return summarise(errors_of(snapshots, core)[0])


def calibrated(snapshots: Snapshots, core: Core) -> float:
    """What the rows' residual is multiplied by to be above the error for nearly all φ.

    For those held out it is, and the more so the fewer they are: the largest of a few says little.
    """
    errors, left = errors_of(snapshots, core)
    ratios = np.sort(errors / np.maximum(left, 1e-300))
    largest = ratios[min(len(ratios), int(np.ceil(_COVERED * (len(ratios) + 1)))) - 1]
    return float(largest * (1 + _FEW / len(ratios)))


def errors_of(snapshots: Snapshots, core: Core) -> tuple[np.ndarray, np.ndarray]:
    """The errors on held-out φ, and what is left of their rows."""
    numbers = snapshots.held_out[:_MEASURED]
    phis = snapshots.some(numbers)
    match core.form:
        case Crease():  # the front as it is found online is part of the answer
            found = answer(core.at_points(snapshots.quadrature, snapshots.phi(0)), phis, True)
            full = pod.answers_on(snapshots, numbers)
            ours = np.asarray((found.values or {})[snapshots.problem.unknowns[0]])
        case Held():
            found, full = answer(core, phis, True), pod.answers_on(snapshots, numbers)
            ours = pod.combined(snapshots, np.asarray(found.weights))
        case _:
            found, coords = answer(core, phis, True), snapshots.quadrature[::4]
            full, ours = (
                _queried(snapshots, phis, jnp.asarray(w), coords)
                for w in (snapshots.weights[numbers], found.weights)
            )
    good = usable(found.code)
    errors = np.ones(len(numbers))
    if good.any():
        errors[good] = relative_l2(ours[good], full[good])
    return errors, np.asarray(found.left)


def _phi_dependent(
    snapshots: Snapshots, points: int | None, route: Route, at: Any, rules: Rules
) -> Core:
    size = snapshots.plan.size
    count = round(_ROWS * size) if points is None else points
    sets = snapshots.problem.draw(size)
    if route == "chosen" and any(snapshots.open):
        sets = _subsets(snapshots, select_points(snapshots, count, None, Live(None)))
    rows = rows_of(snapshots.problem, snapshots.plan, sets)
    return Core(
        problem=snapshots.problem, basis=snapshots.basis, sets=sets, plan=snapshots.plan, jets=None,
        form=Live(None), whitening=None, norm=None,
        statistics=phi_statistics(snapshots.phis, snapshots.kept, snapshots.held_out),
        at=at, values=None, rules=eqx.tree_at(lambda r: r.rtol, rules, jnp.asarray(1e-8)),
        solver=snapshots.solver, lean=_all_fitted(snapshots.problem) and rows >= size,
    )  # fmt: skip


def _phi_independent(
    snapshots: Snapshots, functions: int | None, points: int | None, route: Route, at: Any, rules: Rules
) -> Compiled:
    """A basis that does not see φ, but for a crease: everything is held."""
    form: Form = Held(None)
    if snapshots.front is not None:
        form = _crease(snapshots, snapshots.front, functions, route, rules)
    modes, sizes = pod.reduced_basis(snapshots, functions)
    count = round(_ROWS * modes.shape[1]) if points is None else points
    plan = pod.with_sizes(snapshots.plan, modes)
    answers = pod.coefficients(snapshots, modes, form)
    balanced = functions is not None and route == "chosen"
    some = snapshots.some(snapshots.kept[:_BALANCED])
    if route == "chosen" and any(snapshots.open):
        held = _online(snapshots, form)
        wholes = answers[:_BALANCED] @ modes.T
        unit = units(held.rows(form), some, wholes) if balanced else None
        numbers = select_points(held, count, modes, form, unit)
        sets = _subsets(held, numbers)
    else:
        held = _online(_drawn(snapshots), form)
        sets = held.candidates
        numbers = tuple(np.arange(len(points)) for points in sets)
    rows = rows_of(snapshots.problem, plan, sets)
    lean = _all_fitted(snapshots.problem) and rows >= plan.size
    jets = pod.reduced_jets(held, numbers, modes, plan)
    reduced = Rows(snapshots.problem, snapshots.basis, sets, plan, jets, form)
    start = None if _affine(plan) else learned_start(snapshots.some(snapshots.kept), answers)

    def core_with(whitening: np.ndarray | None) -> Core:
        turn = np.diag(sizes)
        if lean:
            turn = pod.coordinates(snapshots, reduced, answers, whitening)
        turned = modes @ turn
        turned_start = None if start is None else start.turned(np.linalg.inv(turn))
        return Core(
            problem=snapshots.problem, basis=snapshots.basis, sets=sets, plan=plan,
            jets=jax.tree.map(jnp.asarray, pod.reduced_jets(held, numbers, turned, plan)),
            form=replace(form, modes=jnp.asarray(turned)),
            whitening=None if whitening is None else jnp.asarray(whitening), norm=jnp.asarray(turn),
            statistics=phi_statistics(
                snapshots.phis, snapshots.kept, snapshots.held_out, turned_start
            ),
            at=None, values=None, rules=rules, solver=snapshots.solver, lean=lean,
        )  # fmt: skip

    ways: list[np.ndarray | None] = [None]
    if lean and balanced:
        left = pod.truncation_residuals(snapshots, reduced, answers)
        ways = list(pod.whitenings(left, units(reduced, some, answers[:_BALANCED])))
    cores = [core_with(way) for way in ways]
    best = min(cores, key=lambda core: measured(snapshots, core).mean)
    best = _with_tolerance(snapshots, best, exact=functions is None)
    error = measured(snapshots, best)
    if at is not None:
        best = best.at_points(at, snapshots.phi(0))
    return Compiled(best, error)


def _crease(
    snapshots: Snapshots,
    front: FrontSnapshots,
    functions: int | None,
    route: Route,
    rules: Rules,
) -> Crease:
    """The front as it is found online, with fewer functions."""
    size = None if functions is None else max(1, min(round(_FRONT * functions), front.snapshots.most))
    made = assemble(front.snapshots, size, route=route, dtype=jnp.dtype(rules.steps))
    blur, along = jnp.asarray(front.blur), snapshots.basis.along
    return Crease(None, front.problem, made.core, blur, front.orders, along)


def _online(snapshots: Snapshots, form: Form) -> Snapshots:
    """The snapshots with points as they are read online."""
    return replace(snapshots, candidates=form.online(snapshots.candidates))


def _with_tolerance(snapshots: Snapshots, core: Core, exact: bool) -> Core:
    """Steps go on until what they leave is a small part of the error that there is anyway."""
    rtol = 1e-8 if exact else float(np.clip(_SHARE * measured(snapshots, core).mean, 1e-8, 1e-3))
    return eqx.tree_at(lambda c: c.rules.rtol, core, jnp.asarray(rtol))


def _smallest(snapshots: Snapshots, error: float, options: dict[str, Any]) -> Compiled:
    """The fewest functions that reach an error, by bisection over a ladder of numbers."""
    if snapshots.sees_phi:
        raise ValueError(_NOT_REDUCED)
    if not 0 < error < 1:
        raise ValueError(f"`error` is relative and must lie between 0 and 1; found {error}.")
    most = snapshots.most
    if options["points"] is not None:
        most = min(most, options["points"] // len(snapshots.problem.unknowns))
    ladder = [size for size in _SIZES if size < most]
    low, high, best = 0, len(ladder), None
    while low < high:
        middle = (low + high) // 2
        try:
            made = assemble(snapshots, ladder[middle], **options)
        except pod.TooFewDirections as few:  # all of them are the most there is
            ladder = [*(size for size in ladder if size < few.limit), few.limit]
            high = len(ladder)
            continue
        if made.error.mean <= error:
            high, best = middle, made
        else:
            low = middle + 1
    if best is not None:
        return best
    made = assemble(snapshots, None, **options)
    if made.error.mean > error:
        raise ValueError(
            f"`error`: with all {made.functions} functions and {made.rows} rows the mean error is "
            f"{made.error.mean:.3g}, not {error:.3g}: raise `points`, or give more `phis`."
        )
    return made


def _subsets(snapshots: Snapshots, numbers: tuple[np.ndarray, ...]) -> tuple[Points, ...]:
    return tuple(
        subset(points, chosen) if free else points
        for points, chosen, free in zip(snapshots.candidates, numbers, snapshots.open, strict=True)
    )


def _drawn(snapshots: Snapshots) -> Snapshots:
    """The snapshots with the points that `solve` would draw for candidates."""
    sets, one = snapshots.problem.draw(snapshots.plan.size), snapshots.phi(0)
    if snapshots.front is not None:
        inner, orders = creases.inner_of(snapshots.basis), snapshots.front.orders
        sets = creases.held(inner, snapshots.problem, sets, one, orders)
        held = creases.jets_in(sets, snapshots.plan, snapshots.problem.places, orders)
        return replace(snapshots, candidates=sets, jets=held)
    jets = eqx.filter_jit(build)(snapshots.problem, snapshots.basis, one, sets, whole=True).jets
    return replace(snapshots, candidates=sets, jets=jax.tree.map(np.asarray, jets))


def _queried(snapshots: Snapshots, phis: Any, weights: Array, coords: Array) -> np.ndarray:
    count = len(weights)
    zeros = jnp.zeros(count)
    given, code = Given.of(snapshots.problem, snapshots.basis, ()), zeros.astype(int)
    solution = Solution(given, phis, weights, code, code, zeros, zeros, {})
    return np.concatenate([np.asarray(part) for part in jax.tree.leaves(solution(coords))], axis=1)


def _all_fitted(problem: Problem) -> bool:
    return all(condition.kind == "Fit" for condition in problem.conditions)


def _affine(plan: Plan) -> bool:
    return all(plan.affine)
