"""The verb: a PDE on a box or a shape, to a tolerance, without a basis."""

from typing import Any

import jax
import numpy as np
from threadpoolctl import threadpool_limits

from ..state.points import is_concrete
from ..state.problem import Problem
from ..state.shapes.moving import MovingDomain
from ..support.mistakes import found
from ..support.progress import late_bar
from ..support.status import SolveError, Status
from .answer import Adaptive, Piece
from .cells.levels import Levels as CellLevels
from .cells.marching import ByDegree, Marches
from .corners import disagreement
from .effort import Budget, Effort, Stop
from .energies.levels import Levels as EnergyLevels
from .levels import Levels
from .marching import March
from .reading import Reading, repetition
from .residuals import relative_residuals
from .rows import Equations, ManyEquations, equations_of, equations_of_many
from .space import is_inside
from .traced import Traced

# Below it, errors of sums of thousands of terms in float64 cannot be told from rounding.
_FINEST = 1e-12
# Of the tolerance, for the local error of a slab at first.
_LOCAL = 0.3
_MARCHES = 8
_GROW = "errors grow on the way, or do not fall with more functions."
_FULL = "the budget of {:g} functions is used up."
# The relative residual above which a condition does not hold, unless it has a limit of its own. What
# holds stays far below, whatever the tolerance; of conditions that contradict each other one is left
# with 1.
_CONTRADICTION = 0.3


def solve_to_tolerance(
    problem: Problem,
    phi: Any,
    tolerance: float,
    budget: float | Budget,
    progress: bool,
    throw: bool,
    checked: bool = True,
) -> Adaptive | Traced:
    """See `pdecl.solve`. `phi` has been checked against the problem's distribution. `checked`: whether
    the conditions' residuals are measured, which takes a third of the time of a small problem."""
    tolerance = _positive("tolerance", tolerance, "1e-4")
    budget = budget_of(budget)
    if not _FINEST <= tolerance < 1:
        raise ValueError(
            f"`tolerance` is a relative error from {_FINEST:g} (below it, rounding in float64 decides) "
            f"to "
            f"1; found {tolerance:g}."
        )
    _require_numbers(problem)
    if not all(map(is_concrete, jax.tree.leaves(phi))):
        if isinstance(problem.domain, MovingDomain):
            raise TypeError(
                "a solve to a tolerance is not differentiated, nor traced by jit or vmap, with respect "
                "to a shape that φ moves: call it outside, or pass a basis and no `tolerance`."
            )
        if any(c.kind == "Energy" for c in problem.conditions):
            raise TypeError(
                "a solve of an Energy to a tolerance is not differentiated, nor traced by jit or vmap: "
                "call it outside, or pass a basis and no `tolerance`."
            )
        return Traced.of(
            problem,
            phi,
            lambda phis: solve_many_to_tolerance(problem, phis, tolerance, budget, progress, throw),
        )
    # Threads of the linear algebra that wait by spinning cost more than they win on small matrices.
    with threadpool_limits(1, "blas"), late_bar("solving", progress) as tell:
        solution = _solution(problem, phi, tolerance, Effort.of(budget, tell), checked)
    if throw:
        _raise_failed(solution)
    return solution


def solve_many_to_tolerance(
    problem: Problem,
    phis: Any,
    tolerance: float,
    budget: float | Budget,
    progress: bool = False,
    throw: bool = False,
    checked: bool = True,
) -> list[Adaptive]:
    """The solutions of a batch of φ, `budget` seconds for each. On a box with a marched coordinate they
    march together."""
    phis = jax.tree.map(np.asarray, phis)
    count = len(jax.tree.leaves(phis)[0])
    with threadpool_limits(1, "blas"), late_bar("solving", progress) as tell:
        effort = Effort.of(budget_of(budget), tell, count)
        equations = equations_of_many(problem, phis)
        together = _levels_of(equations.reading) is None and repetition(equations.reading) is None
        if together:
            solutions = _by_marches(equations, tolerance, effort, checked)
            for k, solution in enumerate(solutions):
                _finish(solution, equations.one(k), effort, checked, count)
        else:
            solutions = []
            for k in range(count):
                one = Effort.of(budget_of(budget), tell)
                solutions.append(_solution(problem, equations.one(k).phi, tolerance, one, checked))
    if throw:
        for k, solution in enumerate(solutions):
            _raise_failed(solution, k if count > 1 else None)
    return solutions


def _solution(problem: Problem, phi: Any, tolerance: float, effort: Effort, checked: bool) -> Adaptive:
    equations = equations_of(problem, phi)
    if (why := repetition(equations.reading)) is not None:
        nothing = dict.fromkeys(problem.unknowns, np.inf)
        return _stopped(_solved(equations, tolerance, [], nothing), Stop(why))
    if _levels_of(equations.reading) is None:
        (solution,) = _by_marches(ManyEquations.of(equations), tolerance, effort, checked)
    else:
        solution = _by_levels(equations, tolerance, effort)
    _finish(solution, equations, effort, checked)
    return solution


def _finish(
    solution: Adaptive, equations: Equations, effort: Effort, checked: bool, count: int = 1
) -> None:
    if checked and not _ended_early(solution):
        if solution.relative_residual is None:
            found = relative_residuals(solution, equations)
            solution.relative_residual = {name: float(x) for name, x in found.items()}
        _status(solution, solution.relative_residual)
        solution.message = f"{solution.message} {disagreement(solution, equations)}".strip()
    solution.steps, solution.factorisations = effort.steps, effort.factorisations
    solution.seconds = effort.seconds / count


def _by_levels(equations: Equations, tolerance: float, effort: Effort) -> Adaptive:
    levels, stop = _levels_of(equations.reading)(equations, tolerance, effort), None
    try:
        levels.run()
    except Stop as reason:
        stop = reason
    solution = _solved(equations, tolerance, levels.pieces, levels.estimates)
    solution.has_jumped = getattr(levels, "has_jumped", False)
    return _stopped(solution, stop)


def _levels_of(reading: Reading) -> Any:
    """None for what is marched on a box."""
    if reading.energies:
        return EnergyLevels
    many = len(reading.space_axes) > 3
    if reading.marched is not None:
        return None if reading.shape is None else ByDegree if many else Marches
    return Levels if reading.shape is None or many else CellLevels


def _by_marches(
    equations: ManyEquations, tolerance: float, effort: Effort, checked: bool
) -> list[Adaptive]:
    """φ march again with smaller local errors where errors grew on the way: what chaos or instability
    amplifies is paid for once it is known."""
    shares, here = np.full(equations.count, _LOCAL), np.arange(equations.count)
    best: list[Any] = [None] * equations.count
    for _ in range(_MARCHES):
        again = []
        goals = np.maximum(shares * tolerance, _FINEST)
        for k, solution in _march(equations, here, tolerance, goals, effort, checked).items():
            early = _ended_early(solution) or (solution.status.failed and solution.message != _GROW)
            if best[k] is not None and (early or _has_stalled(solution, best[k])):
                best[k] = _stopped(best[k], Stop(solution.message))
            elif early or not solution.status.failed:
                best[k] = solution
            else:
                best[k] = solution
                shares[k] *= _LOCAL * min(1.0, tolerance / solution.error_estimate)
                again.append(k)
        here = np.array(sorted(again), int)
        if not len(here):
            break
    return best


def _has_stalled(solution: Adaptive, best: Adaptive) -> bool:
    """Smaller local errors did not help, although errors are not so large that they cannot grow."""
    return best.error_estimate < 0.1 and solution.error_estimate > 0.8 * best.error_estimate


def _march(
    equations: ManyEquations,
    here: np.ndarray,
    tolerance: float,
    goals: np.ndarray,
    effort: Effort,
    checked: bool,
) -> dict[int, Adaptive]:
    """The solutions of some φ by their numbers; those that fail alone, alone."""
    nothing = dict.fromkeys(equations.reading.problem.unknowns, np.inf)
    marches, alone, found = list[March](), here, dict[int, Adaptive]()
    try:
        marches, alone = [March(equations.some(here), goals[here], effort)], here[:0]
    except Stop as reason:
        if len(here) == 1:
            (k,) = here.tolist()
            return {k: _stopped(_solved(equations.one(k), tolerance, [], nothing), reason)}
    while marches:
        march, stop = marches.pop(), None
        try:
            march.run()
        except Stop as reason:
            stop = reason
        marches += march.parted
        alone = np.append(alone, here[list(march.left)])
        reading, estimates = equations.reading, march.estimates
        stacked = Adaptive(reading.problem, None, tolerance, march.pieces, reading.marched, {})
        residuals = _residuals(march, stacked) if checked else {}
        for k, number in enumerate(here[march.numbers].tolist()):
            each = {u: float(x[k]) for u, x in estimates.items()} if march.pieces else nothing
            solved = _solved(equations.one(number), tolerance, march.pieces_of(k), each)
            solved.march = stacked, k
            full = march.is_full and solved.error_estimate > tolerance
            found[number] = _stopped(solved, Stop(_FULL.format(effort.functions)) if full else stop)
            if residuals and not found[number].status.failed:
                found[number].relative_residual = {name: float(x[k]) for name, x in residuals.items()}
    for k in alone:
        found |= _march(equations, np.array([k]), tolerance, goals, effort, checked)
    return found


def _residuals(march: March, stacked: Adaptive) -> dict[str, Any]:
    """The conditions' relative residuals of all φ of a march, if one of them is solved."""
    worst = np.max(list(march.estimates.values()), axis=0)
    if not march.is_done or not (worst <= stacked.tolerance).any():
        return {}
    return relative_residuals(stacked, march.equations)


def _solved(
    equations: Equations, tolerance: float, pieces: list[Piece], estimates: dict[str, float]
) -> Adaptive:
    reading = equations.reading
    return Adaptive(reading.problem, equations.phi, tolerance, pieces, reading.marched, estimates)


def _stopped(solution: Adaptive, stop: Stop | None) -> Adaptive:
    """With its status: of the reason, or of its estimate."""
    if stop is not None:
        solution.status, solution.message = Status.TOLERANCE_NOT_MET, stop.why
    elif not solution.error_estimate <= solution.tolerance:
        solution.status = Status.TOLERANCE_NOT_MET
        solution.message = _GROW
    return solution


def _ended_early(solution: Adaptive) -> bool:
    """Whether a march did not come to its end."""
    if solution.marched is None or not solution.pieces:
        return not solution.pieces
    last, (low, high) = solution.pieces[-1], solution.problem.domain.bounds[solution.marched]
    return bool(last.low + last.h < high - 1e-9 * (high - low))


def _status(solution: Adaptive, measured: dict[str, float]) -> None:
    """Of conditions that contradict each other one is left with a residual, whatever the estimate. Just
    after a jump derivatives have no bound, and so have residuals of equations: they are not judged."""
    named = zip(solution.problem.names(), solution.problem.conditions, strict=True)
    limits = {
        name: _CONTRADICTION if c.residual_limit is None else c.residual_limit
        for name, c in named
        if name in measured and not (solution.has_jumped and is_inside(c.on))
    }
    if not limits:
        return
    worst = max(limits, key=lambda name: measured[name] / limits[name])
    if not measured[worst] <= limits[worst]:
        solution.status = Status.TOLERANCE_NOT_MET
        solution.message += (
            f" {worst!r} is left with a residual of {measured[worst]:.2g} relative to its terms: do "
            "conditions contradict each other?"
        )


def _raise_failed(solution: Adaptive, number: int | None = None) -> None:
    if not solution.status.failed:
        return
    of = "The" if number is None else f"φ number {number}: the"
    estimate = (
        f"{of} error estimate is {solution.error_estimate:.2g}, asked was {solution.tolerance:.2g}:"
    )
    raise SolveError(solution.status, "", f"{estimate} {solution.message}")


def _positive(name: str, x: Any, example: str) -> float:
    number = x.item() if getattr(x, "shape", None) == () and is_concrete(x) else x
    if isinstance(number, bool) or not isinstance(number, int | float) or not number > 0:
        raise ValueError(f"`{name}` must be a positive number, such as {example}; found {found(x)}.")
    return number


def budget_of(budget: float | Budget) -> Budget:
    return (
        budget if isinstance(budget, Budget) else Budget(_positive("budget", budget, "600, in seconds"))
    )


def _require_numbers(problem: Problem) -> None:
    if not all(map(is_concrete, jax.tree.leaves(problem))):
        raise TypeError(
            "a solve to a tolerance is differentiated with respect to φ; its problem must hold numbers "
            "and not be traced by jit, vmap or grad: pass what varies as φ, or a basis and no "
            "`tolerance`."
        )
