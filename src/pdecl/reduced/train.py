"""From a family to a compiled solver: solutions for φ of its distribution, as few of their modes as
will do."""

import itertools
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..adaptive import Adaptive, AdaptiveMany, solve_many_to_tolerance
from ..adaptive.levels import MANY
from ..adaptive.reading import read
from ..basis.networks import Modes
from ..family import SPLITS, Family, Network, Training
from ..family.experiment import Experiment
from ..family.phi import stack, take
from ..state.affine import depends
from ..state.problem import Problem
from ..support.progress import late_bar
from ..support.status import SolveError, Status
from .common import Common
from .compile import assemble, calibrated
from .greedy import Draws
from .pod import TooFewDirections, leading_modes
from .snapshots import Snapshots, all_fitted, take_snapshots
from .solver import Compiled

Tell = Callable[[float | None, str], None]
_MOST, _FEWEST = 960, 16  # solutions
_TOGETHER = 48  # φ that are solved in one batch
_FUNCTIONS = 400  # at most that are compared
_NUMBERS = 6e7  # that all solutions together may hold in one space
_SOLVING = 0.6  # of the budget goes to the solutions
_FINER = 0.1  # of the tolerance is that of the solutions
_OWN = 0.6  # of the tolerance may be what the modes leave out
_LOOK = (24, 48, 96, 160, 240, 400, 640)  # solutions with which it is seen whether they suffice
_LOOSEST = 3e-3  # tolerance of theirs that is made looser still, where the budget does not allow more
_LOOSE = 1e-4  # tolerance of theirs that is made looser, where more of them are worth more
_USELESS = 3e-2  # an error above which functions are no solver
_HARD = 24  # φ of a round that the solver is tried on: the hardest of many
_WORST = 10.0  # times the tolerance may be the largest of their errors
_ROWS = (2, 3)  # for each function, one after the other
_BETTER = 0.8  # times an error is one that more functions or rows are worth
_POINTS = 2000  # that solutions are compared at
_SIZES = (4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 240, 288, 340)


class NoBasis(SolveError):
    """No basis that is small was found; `training` is what was tried."""

    training: Mapping[str, Any] = MappingProxyType({})


def fit_reduced(family: Family, tolerance: float, budget: float, progress: bool) -> Compiled:
    """See `fit`."""
    if (why := why_not(family)) is not None:
        raise ValueError(f"fit without a network: {why}; or give a basis and an optimiser.")
    begun = time.perf_counter()
    seconds = lambda: time.perf_counter() - begun
    problem, draws = all_fitted(family.problem()), Draws(family)
    with late_bar("training", progress) as tell:
        phis, solutions = _solutions(problem, draws, tolerance, _SOLVING * budget, tell)
        training: dict[str, Any] = {
            "tolerance": tolerance,
            "solutions": len(solutions),
            "tolerance of solutions": max(one.tolerance for one in solutions),
            "seconds of solutions": round(seconds(), 1),
            "tried": [],
        }
        over, worst, least = lambda: seconds() > budget, np.inf, 0
        make = lambda least: _made(family, problem, phis, solutions, least, training, over, tell)
        before = seconds()
        made, snapshots = make(0)
        while True:
            # A round takes about as long as this, and a share of it for the solutions.
            if seconds() + 1.5 * (seconds() - before) > budget:
                break
            chosen = draws.hardest(made, snapshots, _HARD)
            hard, exact = _exactly(problem, chosen, solutions[-1].tolerance, 0.1 * budget, tell)
            if not hard:
                break
            before_that, worst = worst, float(_distances(made, hard, exact).max())
            training["tried"][-1] |= {"worst": worst, "solutions": len(solutions)}
            if worst <= _WORST * tolerance or over():
                break
            _add(problem, draws, phis, solutions, hard, exact)
            if worst > 0.5 * before_that:  # more solutions alone do not help
                least = made.functions // len(problem.unknowns) + 1
            before = seconds()
            try:
                made, snapshots = make(least)
            except NoBasis:  # the one before serves
                break
    training |= {"solutions": len(solutions), "seconds": round(seconds(), 1)}
    if np.isfinite(worst):
        training["worst of the hardest φ"] = worst
    return replace(made, training=training)


def _made(
    family: Family, problem: Problem, phis: list[Any], solutions: list[Adaptive], least: int,
    training: dict[str, Any], over: Callable[[], bool], tell: Tell,
) -> tuple[Compiled, Snapshots]:  # fmt: skip
    """A compiled solver of these solutions, with at least so many functions for each unknown, and what
    it is made from."""
    tell(None, f"modes of {len(solutions)} solutions")
    tolerance = training["tolerance"]
    common = Common(solutions)
    basis, weights = modes(common, [common.vector(one) for one in solutions])
    left = float(_left_out(weights, len(problem.unknowns))[-1])
    if left > _USELESS:
        raise _no_basis(f"{weights.shape[1]} functions leave out {left:.1%}", training)
    snapshots = take_snapshots(problem, basis, stack(phis), weights=weights)
    made, tried = _reduced(snapshots, tolerance, least, over, tell)
    training["tried"] += tried
    if made.error.mean > _USELESS:
        raise _no_basis(f"{made.functions} functions have errors of {made.error.mean:.1%}", training)
    size = next(iter(basis.coefficients.values())).shape[-1]
    experiment = Experiment(
        family, "hard", "default", Network("Modes", size, 0, 0, {"pieces": basis.pieces}),
        Training(0, 1, 0.0, phis=len(solutions)),
    )  # fmt: skip
    stated = float(np.quantile([one.error_estimate for one in solutions], 0.9))
    calibration = calibrated(snapshots, made.core), stated
    made = replace(made, experiment=experiment, training=training, calibration=calibration)
    return made, snapshots


def _exactly(
    problem: Problem, phis: list[Any], tolerance: float, budget: float, tell: Tell
) -> tuple[list[Any], list[Adaptive]]:
    """Those of the φ that are solved in the time, and their solutions."""
    found = _solved(problem, phis, tolerance, budget / max(len(phis), 1), False)
    good = [k for k, one in enumerate(found) if one.error_estimate < 10 * tolerance]
    tell(None, f"{len(good)} of the hardest φ")
    return [phis[k] for k in good], [found[k] for k in good]


def _distances(made: Compiled, phis: list[Any], exact: list[Adaptive]) -> np.ndarray:
    """The relative errors of a solver for these φ; one without an answer."""
    points = made.core.problem.domain.interior.draw(None, _POINTS).coords
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = made(stack(phis), throw=False)(points)
    side_by_side = lambda values: np.concatenate(
        [np.asarray(x) for x in jax.tree.leaves(values)], axis=1
    )
    ours, truth = side_by_side(found), side_by_side(AdaptiveMany(exact)(points))
    errors = np.linalg.norm(ours - truth, axis=1) / np.linalg.norm(truth, axis=1)
    return np.asarray(np.where(np.isfinite(errors), errors, 1.0))


def _add(
    problem: Problem, draws: Draws, phis: list[Any], solutions: list[Adaptive], hard: list[Any],
    exact: list[Adaptive],
) -> None:  # fmt: skip
    """These φ among the others, with every fourth as it is drawn: errors are measured on those."""
    waiting, plain = list(zip(hard, exact, strict=True)), list[tuple[Any, Adaptive]]()
    tolerance, budget = solutions[-1].tolerance, 10 * max(one.seconds for one in exact)
    while waiting:
        place = waiting
        if draws.plain(len(solutions)):
            if not plain:
                drawn = [draws.next(len(solutions)) for _ in range(len(waiting) // 3 + 1)]
                found = _solved(problem, drawn, tolerance, budget, False)
                plain = [
                    (phi, one)
                    for phi, one in zip(drawn, found, strict=True)
                    if one.error_estimate < 10 * tolerance
                ]
            place = plain
        if place:
            phi, one = place.pop(0)
            phis.append(phi)
            solutions.append(one)


def _no_basis(why: str, training: dict[str, Any]) -> NoBasis:
    error = NoBasis(
        Status.TOLERANCE_NOT_MET, "",
        f"No small basis was found: {why}, on φ left out. Solve each φ by itself, "
        f"pdecl.solve(problem, phi, tolerance={training['tolerance']:g}).",
    )  # fmt: skip
    error.training = training
    return error


def why_not(family: Family) -> str | None:
    """Why a family cannot be trained so; None where it can."""
    problem = family.problem()
    if problem.parameter is None:
        return f"{family.name} has no distribution of φ to draw from, `parameter=lambda key: ...`"
    if jax.tree.leaves(problem.phi_like) and not depends(problem.parameter, jax.random.key(0)):
        return f"the distribution of φ of {family.name} gives the same φ for every key: draw from `key`"
    try:
        reading = read(problem, take(family.sample(SPLITS["train"].seed, 1), 0))
    except ValueError as error:
        return str(error)
    many = len(reading.space_axes) >= MANY
    return f"{len(reading.space_axes)} coordinates are too many for a grid of pieces" if many else None


def modes(common: Common, vectors: list[dict[str, np.ndarray]]) -> tuple[Modes, np.ndarray]:
    """POD of solutions that count alike: functions that are orthonormal in the mean over the box, as
    many for each unknown, and the solutions' weights."""
    functions, weights = {}, {}
    for u in vectors[0]:
        rows = np.stack([vector[u] for vector in vectors])
        sizes = np.linalg.norm(rows, axis=1, keepdims=True)
        alike = rows / np.where(sizes > 0, sizes, 1.0)
        if not alike.any():
            raise ValueError(
                f"fit without a network: {u} is zero for every φ: does it have a source, a start or "
                "values at the boundary? Where it is meant, solve each φ by itself, "
                "pdecl.solve(problem, phi, tolerance=...)."
            )
        functions[u] = leading_modes(alike, alike @ alike.T, _FUNCTIONS)
        weights[u] = rows @ functions[u]
    least = min(w.shape[1] for w in weights.values())
    together = np.concatenate([w[:, :least] for w in weights.values()], axis=1)
    return common.functions({u: f[:, :least] for u, f in functions.items()}), together


def _solutions(
    problem: Problem, draws: Draws, wanted: float, budget: float, tell: Tell
) -> tuple[list[Any], list[Adaptive]]:
    """φ of the distribution and their solutions, until there are enough or the budget is used up; to a
    looser tolerance where the first of them takes too long."""
    tolerance = _FINER * wanted
    begun, number, looks = time.perf_counter(), 0, list(_LOOK)
    phis: list[Any] = []
    found: list[Adaptive] = []
    waiting: dict[bool, list[tuple[Any, Adaptive]]] = {True: [], False: []}  # plain draws and others
    pace = 0.0  # seconds for a φ
    while number < _MOST:
        before = time.perf_counter()
        # The first ones say how long one takes; the first of all is compiled for.
        size = 1 if len(found) < 3 else min(_TOGETHER, looks[0] - len(found) if looks else _TOGETHER)
        size = max(1, min(size, int((budget - before + begun) / max(pace, 1e-9))))
        chosen = [(draws.plain(k), draws.next(k)) for k in range(len(found), len(found) + size)]
        checked = number < _FEWEST  # whether conditions contradict each other is seen in some
        share = budget / (_FEWEST if found else 4)
        drawn = [phi for _, phi in chosen]
        solved = _solved(problem, drawn, tolerance, share, checked)
        while len(found) < 2 and solved[0].status.failed and tolerance < _LOOSEST:
            tolerance *= 10
            solved = _solved(problem, drawn, tolerance, share, checked)
        number, pace = number + size, (time.perf_counter() - before) / size
        for (plain, phi), one in zip(chosen, solved, strict=True):
            if one.error_estimate < 10 * tolerance:
                waiting[plain].append((phi, one))
        while place := waiting[draws.plain(len(found))]:
            phi, one = place.pop(0)
            phis.append(phi)
            found.append(one)
        used = (time.perf_counter() - begun) / budget
        tell(_SOLVING * max(used, number / _MOST), f"{len(found)} solutions")
        if used > 1 or (number >= _FEWEST and len(found) < number / 2):
            break
        # The first ones say how many the budget allows.
        if len(found) == 3 and 2 * _LOOK[0] * pace > budget and tolerance < wanted:
            tolerance *= 10
        if looks and len(found) >= looks[0]:
            looks = [look for look in looks if look > len(found)]
            common = Common(found)
            _, weights = modes(common, [common.vector(one) for one in found])
            if _suffice(weights, len(problem.unknowns), wanted):
                break
            if (len(found) + 1) * common.size > _NUMBERS:
                break
            draws.learn(phis, weights, len(problem.unknowns))
            # Many are needed: what functions leave out will be more than the tolerance of solutions.
            if len(found) / used < _MOST and tolerance < _LOOSE:
                tolerance *= 10
    if len(found) < _FEWEST:
        raise SolveError(
            Status.TOLERANCE_NOT_MET, "",
            f"{len(found)} of {number} φ of the distribution were solved to a tolerance of "
            f"{tolerance:.1g} in {time.perf_counter() - begun:.0f} s; {_FEWEST} are needed: raise "
            f"`tolerance` or `budget`. "
            f"{solved[-1].message}",
        )  # fmt: skip
    return phis, found


def _solved(
    problem: Problem, phis: list[Any], tolerance: float, budget: float, checked: bool
) -> list[Adaptive]:
    """`budget`: seconds for each."""
    if not phis:
        return []
    return solve_many_to_tolerance(problem, stack(phis), tolerance, budget, checked=checked)


def _suffice(weights: np.ndarray, unknowns: int, tolerance: float) -> bool:
    """Whether a few modes of the solutions have what φ that are left out need."""
    fewest = _fewest(weights, unknowns, _OWN * tolerance)
    return fewest is not None and fewest <= len(weights) // 5


def _reduced(
    snapshots: Snapshots, tolerance: float, least: int, over: Callable[[], bool], tell: Tell
) -> tuple[Compiled, list[dict[str, Any]]]:
    """The fewest functions, from `least` on, that meet the tolerance on φ left out, or the best in the
    time. Where functions would do and their rows do not, more rows are tried."""
    best, tried = None, []
    sizes = [size for size in _SIZES if least <= size < snapshots.most] + [snapshots.most]
    unknowns = len(snapshots.plan.sizes)
    fewest = _fewest(snapshots.weights, unknowns, _OWN * tolerance)
    enough = [size for size in sizes if fewest is not None and size >= fewest]
    # Steps by single precision end as near: residuals are in double. Affine rows take but one.
    dtype = jnp.float64 if all(snapshots.plan.affine) else jnp.float32
    made_of = lambda size, ratio: assemble(
        snapshots, size, points=round(ratio * size * unknowns), dtype=dtype
    )
    for size, ratio in itertools.product(enough or sizes[-1:], _ROWS if enough else _ROWS[:1]):
        try:
            made = made_of(size, ratio)
        except TooFewDirections as few:
            made = made_of(few.limit, ratio)
        error = {"mean": made.error.mean, "max": made.error.max}
        tried.append({"functions": made.functions, "rows": made.rows, **error})
        tell(None, f"{made.functions} functions, {made.rows} rows, error {made.error.mean:.1e}")
        if best is None or made.error.mean < _BETTER * best.error.mean:
            best = made
        if made.error.mean <= tolerance or over():
            break
    assert best is not None
    return best, tried


def _fewest(weights: np.ndarray, unknowns: int, tolerance: float) -> int | None:
    """How many modes of each unknown leave a mean relative error below the tolerance on φ left out; None
    where all of them do not."""
    small = np.flatnonzero(_left_out(weights, unknowns) <= tolerance)
    return int(small[0]) if small.size else None


def _left_out(weights: np.ndarray, unknowns: int) -> np.ndarray:
    """The mean relative error that 0, 1, … modes of each unknown leave on every fourth φ, with the modes
    those of the others."""
    out = np.arange(len(weights)) % 4 == 3
    left, whole = np.zeros((out.sum(), (~out).sum() + 1)), np.zeros((out.sum(), 1))
    for share in np.split(weights, unknowns, axis=1):
        norms = np.linalg.norm(share, axis=1, keepdims=True)
        directions = np.linalg.svd((share / np.where(norms > 0, norms, 1.0))[~out], full_matrices=False)[
            2
        ]
        squares = (share[out] @ directions.T) ** 2
        rest = norms[out] ** 2 - np.cumsum(np.pad(squares, ((0, 0), (1, 0))), axis=1)
        rest = np.pad(np.maximum(rest, 0.0), ((0, 0), (0, left.shape[1] - rest.shape[1])), mode="edge")
        left, whole = left + rest, whole + norms[out] ** 2
    return np.asarray(np.sqrt(left / np.where(whole > 0, whole, 1.0)).mean(axis=0))
