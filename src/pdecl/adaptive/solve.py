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
from .effort import Effort, Stop
from .energies.levels import Levels as EnergyLevels
from .levels import Levels
from .marching import March
from .reading import Reading
from .residuals import relative_residuals
from .rows import Equations, equations_of
from .space import is_inside
from .traced import Traced

# Below it, errors of sums of thousands of terms in float64 cannot be told from rounding.
_FINEST = 1e-12
# Of the tolerance, for the local error of a slab at first.
_LOCAL = 0.3
_MARCHES = 8
# The relative residual above which a condition does not hold, unless it has a limit of its own. What
# holds stays far below, whatever the tolerance; of conditions that contradict each other one is left
# with 1.
_CONTRADICTION = 0.3


def solve_to_tolerance(
    problem: Problem,
    phi: Any,
    tolerance: float,
    budget: float,
    progress: bool,
    throw: bool,
    checked: bool = True,
) -> Adaptive | Traced:
    """See `pdecl.solve`. `phi` has been checked against the problem's distribution. `checked`: whether
    the conditions' residuals are measured, which takes a third of the time of a small problem."""
    tolerance = _positive("tolerance", tolerance, "1e-4")
    budget = _positive("budget", budget, "600, in seconds")
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
        host = lambda phi: solve_to_tolerance(problem, phi, tolerance, budget, False, throw)
        return Traced(problem, phi, host)
    # Threads of the linear algebra that wait by spinning cost more than they win on small matrices.
    with threadpool_limits(1, "blas"), late_bar("solving", progress) as tell:
        solution = _solution(problem, phi, tolerance, Effort(budget, tell), checked)
    if throw:
        _raise_failed(solution)
    return solution


def _solution(problem: Problem, phi: Any, tolerance: float, effort: Effort, checked: bool) -> Adaptive:
    equations = equations_of(problem, phi)
    if equations.reading.marched is None or equations.reading.shape is not None:
        solution = _by_levels(equations, tolerance, effort)
    else:
        solution = _by_marches(equations, tolerance, effort)
    if checked and not _ended_early(solution):
        _status(solution, relative_residuals(solution, equations))
        solution.message = f"{solution.message} {disagreement(solution, equations)}".strip()
    solution.steps, solution.factorisations = effort.steps, effort.factorisations
    solution.seconds = effort.seconds
    return solution


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
    if reading.energies:
        return EnergyLevels
    many = len(reading.space_axes) > 3
    if reading.marched is not None:
        return ByDegree if many else Marches
    return Levels if reading.shape is None or many else CellLevels


def _by_marches(equations: Equations, tolerance: float, effort: Effort) -> Adaptive:
    """The march is done again with smaller local errors where errors grew on the way: what chaos or
    instability amplifies is paid for once it is known."""
    share, best = _LOCAL, None
    for _ in range(_MARCHES):
        solution = _march(equations, tolerance, max(share * tolerance, _FINEST), effort)
        early = _ended_early(solution)
        if best is not None and (early or _has_stalled(solution, best)):
            return _stopped(best, Stop(solution.message))
        if early or not solution.status.failed:
            return solution
        best = solution
        share *= _LOCAL * min(1.0, tolerance / solution.error_estimate)
    return solution


def _has_stalled(solution: Adaptive, best: Adaptive) -> bool:
    """Smaller local errors did not help, although errors are not so large that they cannot grow."""
    return best.error_estimate < 0.1 and solution.error_estimate > 0.8 * best.error_estimate


def _march(equations: Equations, tolerance: float, goal: float, effort: Effort) -> Adaptive:
    nothing = dict.fromkeys(equations.reading.problem.unknowns, np.inf)
    stop = None
    try:
        march = March(equations, goal, effort)
    except Stop as reason:
        return _stopped(_solved(equations, tolerance, [], nothing), reason)
    try:
        march.run()
    except Stop as reason:
        stop = reason
    estimates = march.estimates if march.pieces else nothing
    return _stopped(_solved(equations, tolerance, march.pieces, estimates), stop)


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
        solution.message = "errors grow on the way, or do not fall with more functions."
    return solution


def _ended_early(solution: Adaptive) -> bool:
    """Whether a march did not come to its end."""
    if solution.marched is None or not solution.pieces:
        return not solution.pieces
    last, (low, high) = solution.pieces[-1], solution.problem.domain.bounds[solution.marched]
    return last.low + last.h < high - 1e-9 * (high - low)


def _status(solution: Adaptive, measured: dict[str, float]) -> None:
    """Of conditions that contradict each other one is left with a residual, whatever the estimate. Just
    after a jump derivatives have no bound, and so have residuals of equations: they are not judged."""
    solution.relative_residual = measured
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


def _raise_failed(solution: Adaptive) -> None:
    if not solution.status.failed:
        return
    estimate = (
        f"The error estimate is {solution.error_estimate:.2g}, asked was {solution.tolerance:.2g}:"
    )
    raise SolveError(solution.status, "", f"{estimate} {solution.message}")


def _positive(name: str, x: Any, example: str) -> float:
    number = x.item() if getattr(x, "shape", None) == () and is_concrete(x) else x
    if isinstance(number, bool) or not isinstance(number, int | float) or not number > 0:
        raise ValueError(f"`{name}` must be a positive number, such as {example}; found {found(x)}.")
    return number


def _require_numbers(problem: Problem) -> None:
    if not all(map(is_concrete, jax.tree.leaves(problem))):
        raise TypeError(
            "a solve to a tolerance is differentiated with respect to φ; its problem must hold numbers "
            "and not be traced by jit, vmap or grad: pass what varies as φ, or a basis and no "
            "`tolerance`."
        )
