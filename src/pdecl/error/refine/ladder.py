"""The same solve with more points, then with more functions.

Points are tried first, twice and four times as many, but only where the bound is at most `NEAR` times
the tolerance: four times the points brought bounds of trained bases down by 1.1 to 1.7, and no number of
them makes up for functions that are missing. Functions follow, those that the family names (`further`)
in order of size. The last is the limit: what it does not reach is not reached.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...basis.networks.wrappers import Beside
from ...layer.solution import Solution
from ...layer.solve import solve
from ...state.domain import Region
from ...state.points import Points
from .. import ErrorBound
from .record import RefinedBy, is_better

NEAR = 2.0


class _Rung(NamedTuple):
    refined_by: RefinedBy
    basis: Any
    size: int
    points: tuple[Points, ...]
    resolution: dict[str, int]  # of the bound: as fine as the functions


def by_more(
    trained: Any, one: Solution, known: ErrorBound, tolerance: float
) -> tuple[Solution, ErrorBound, RefinedBy]:
    """The first answer for a batch of one that is within the tolerance, or else the one with the least
    bound; its bound, and what it took."""
    best, least, refined_by = one, known, RefinedBy.NOTHING
    for rung in _rungs(trained, one):
        near = bool(least.within(NEAR * tolerance)[0])
        if rung.refined_by == RefinedBy.POINTS and not near:
            continue
        again = lambda phi, start, rung=rung: solve(
            one.problem, rung.basis, phi, points=rung.points, throw=False, initial=start
        )
        found = jax.vmap(again)(one.phi, _padded(one, rung.size))
        bound = trained.bound(found, throw=False, **rung.resolution)
        if is_better(bound, least):
            best, least, refined_by = found, bound, rung.refined_by
        if bool(least.within(tolerance)[0]):
            break
    return best, least, refined_by


def _rungs(trained: Any, one: Solution) -> list[_Rung]:
    size, points = one.weights.shape[-1], one.points
    rungs = []
    if trained.experiment.method == "soft":
        rungs.append(_Rung(RefinedBy.WEIGHTS, one.basis, size, points, {}))
    for factor in (2, 4):
        counts = [factor * len(group.coords) for group in points]
        rungs.append(_Rung(RefinedBy.POINTS, one.basis, size, _placed(one, counts), {}))
    for further in trained.family.further(size):
        # Four for each function: with two, polynomials are wild between them near the ends of t. On
        # the faces in proportion to how fine the functions are there.
        most = size + further.size
        counts = [
            max(4 * most if one.problem.is_interior(place) else further.finest, 2 * len(group.coords))
            for place, group in enumerate(points)
        ]
        basis = Beside(one.basis, further)
        placed = _placed(one, counts)
        rungs.append(_Rung(RefinedBy.FUNCTIONS, basis, most, placed, further.resolution))
    return rungs


def _placed(one: Solution, counts: list[int]) -> tuple[Points, ...]:
    """That many points in each set of the problem; points that are given stay what they are."""
    sets = one.problem.sets()
    if not any(isinstance(on, Region) for on in sets):
        raise ValueError("refine: the problem's points are given; there are no more of them.")
    return tuple(
        replace(on, rule=None).draw(None, count) if isinstance(on, Region) else points
        for on, points, count in zip(sets, one.points, counts, strict=True)
    )


def _padded(one: Solution, size: int) -> Any:
    """The weights there are, to start from, with zeros for the functions that are new, the last of each
    unknown."""
    known = jnp.where(jnp.isfinite(one.weights).all(), one.weights, 0.0)
    count = len(one.problem.unknowns)
    more = (size - known.shape[-1]) // count
    parts = jnp.split(known, count, axis=-1)
    return jnp.concatenate([jnp.pad(part, [(0, 0), (0, more)]) for part in parts], axis=-1)
