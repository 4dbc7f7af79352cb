"""Answers brought within a tolerance, by what suits the problem; only where their bound exceeds it.

The usual means: the same solve with more points, then with more functions. Points are tried first, twice
and four times as many, but only where the bound is at most `NEAR` times the tolerance: four times the
points brought bounds of trained bases down by 1.1 to 1.7, and no number of them makes up for functions
that are missing. Functions follow, those that the family names (`further`) in order of size. The last is
the limit: what it does not reach is not reached.
"""

import enum
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int8

from ..basis.grid import ElementBasis
from ..basis.networks.wrappers import Beside
from ..layer.solution import Given, Solution
from ..layer.solve import solve
from ..state.domain import Box, Region
from ..state.points import Points
from ..support.status import Status
from ..support.types import Phi
from . import ErrorBound

NEAR = 2.0


def refine(
    trained: Any, solution: Solution, tolerance: float, *, known: ErrorBound | None = None
) -> "Refined":
    """Solutions whose relative bound is at most `tolerance`, where that can be reached.

    - A family that can polish its answers does that. On a grid: conjugate gradients from the given
      answer on, until the bound in the energy norm holds. The refined answer is a function on the grid.
    - Otherwise: more points where the bound is near the tolerance, then further functions beside the
      learned ones, more and more of them. See the head of this file.

    φ are refined one at a time, so what is compiled does not depend on how many need it. For a φ that
    cannot be brought within the tolerance, the answer with the least bound is kept and said to be
    `RefinedBy.NOT_REACHED`.

    Arguments:

    - `trained`: the `Trained` basis; `solution` is a batch of its answers, hard or soft.
    - `tolerance`: for the relative bound, in the norm of `trained.bound`.
    - `known`: the bounds of the solution, where they have been computed before.
    """
    if not (np.isfinite(tolerance) and tolerance > 0):
        raise ValueError(f"tolerance must be a positive number; found {tolerance!r}.")
    if not isinstance(solution, Solution) or solution.code.ndim != 1:
        raise ValueError("refine takes the solutions of a batch of φ, as trained.solve gives them.")
    family = trained.family
    if known is None:
        known = trained.bound(solution, throw=False)
    over = np.flatnonzero(~known.within(tolerance))
    if family.on_grid and len(over):
        solution = by_nodal_values(solution)
    refined_by = np.zeros(len(known.relative), np.int8)
    better: dict[int, Solution] = {}
    for place in over.tolist():
        single = _member(solution, place)
        first = _put(known, place)
        if family.polish is not None:
            found, reached = family.polish(single, tolerance), RefinedBy.CONJUGATE_GRADIENTS
            improved = trained.bound(found, throw=False)
        else:
            found, improved, reached = by_more(trained, single, first, tolerance)
        within = bool(improved.within(tolerance)[0])
        refined_by[place] = reached if within else RefinedBy.NOT_REACHED
        if within or _is_better(improved, first):
            better[place] = found
            known = _put(known, place, improved)
    return Refined(solution, better, known, refined_by, float(tolerance))


class RefinedBy(enum.IntEnum):
    """How a φ came within the tolerance. `str(refined_by)` says it in words."""

    NOT_REACHED = -1
    NOTHING = 0
    WEIGHTS = 1
    POINTS = 2
    FUNCTIONS = 3
    CONJUGATE_GRADIENTS = 4

    def __str__(self) -> str:
        return _WORDS[self]


_WORDS = {
    RefinedBy.NOT_REACHED: "not reached: the answer with the least bound was kept",
    RefinedBy.NOTHING: "nothing was needed",
    RefinedBy.WEIGHTS: "weights solved for instead of those the network predicted",
    RefinedBy.POINTS: "more points",
    RefinedBy.FUNCTIONS: "more functions",
    RefinedBy.CONJUGATE_GRADIENTS: "conjugate gradients",
}


@dataclass(frozen=True)
class Refined:
    """Answers for a batch of φ, called and differentiated like the `Solution` they began as.

    - `original`: the solution that was refined; `better` has a solution, a batch of one, for each φ
      whose answer changed.
    - `bound`: the bounds of the answers. `reached`: whether they are within `tolerance`.
    - `codes`: of `RefinedBy`, one for each φ; `refined_by` has their words.
    """

    original: Solution
    better: dict[int, Solution]
    bound: ErrorBound
    codes: Int8[np.ndarray, " batch"]
    tolerance: float

    def __call__(self, points: Any) -> Any:
        """u at points of shape `(n, d)`: an array `(batch, n)`."""
        return self.d()(points)

    def d(self, *coordinates: str) -> Any:
        """A derivative of u as a function of points: `refined.d("x")(points)`."""

        def at(points: Any) -> Any:
            values = self.original.d(*coordinates)(points)
            for place, solution in self.better.items():
                values = values.at[place].set(solution.d(*coordinates)(points)[0])
            return values

        return at

    @property
    def refined_by(self) -> list[RefinedBy]:
        return [RefinedBy(int(code)) for code in self.codes]

    @property
    def reached(self) -> Bool[np.ndarray, " batch"]:
        return self.codes != RefinedBy.NOT_REACHED

    @property
    def status(self) -> list[Status]:
        """How each solve ended; for a refined φ that of the solve it was refined by."""
        codes = np.asarray(self.original.code).copy()
        for place, solution in self.better.items():
            codes[place] = int(solution.code[0])
        return [Status(int(code)) for code in codes]


class _Rung(NamedTuple):
    refined_by: RefinedBy
    basis: Any
    size: int
    points: tuple[Points, ...]
    resolution: dict[str, int]  # of the bound: as fine as the functions


def by_more(
    trained: Any, single: Solution, known: ErrorBound, tolerance: float
) -> tuple[Solution, ErrorBound, RefinedBy]:
    """The first answer for a batch of one that is within the tolerance, or else the one with the least
    bound; its bound, and what it took."""
    best, least, refined_by = single, known, RefinedBy.NOTHING
    for rung in _rungs(trained, single):
        near = bool(least.within(NEAR * tolerance)[0])
        if rung.refined_by == RefinedBy.POINTS and not near:
            continue
        again = lambda phi, start, rung=rung: solve(
            single.problem, rung.basis, phi, points=rung.points, throw=False, initial=start
        )
        solved = jax.vmap(again)(single.phi, _padded(single, rung.size))
        bound = trained.bound(solved, throw=False, **rung.resolution)
        if _is_better(bound, least):
            best, least, refined_by = solved, bound, rung.refined_by
        if bool(least.within(tolerance)[0]):
            break
    return best, least, refined_by


def _rungs(trained: Any, single: Solution) -> list[_Rung]:
    size, points, problem = single.weights.shape[-1], single.points, single.problem
    if not any(isinstance(on, Region) for on in problem.sets()):
        raise ValueError("refine: the problem's points are given; there are no more of them.")
    rungs = []
    if trained.experiment.method == "soft":
        rungs.append(_Rung(RefinedBy.WEIGHTS, single.basis, size, points, {}))
    for factor in (2, 4):
        counts = [factor * len(group.coords) for group in points]
        rungs.append(_Rung(RefinedBy.POINTS, single.basis, size, problem.redraw(points, counts), {}))
    for further in trained.family.further(size):
        # Four for each function: with two, polynomials are wild between them near the ends of t. On
        # the faces in proportion to how fine the functions are there.
        most = size + further.size
        counts = [
            max(4 * most if problem.is_interior(place) else further.finest, 2 * len(group.coords))
            for place, group in enumerate(points)
        ]
        basis = Beside(single.basis, further)
        placed = problem.redraw(points, counts)
        rungs.append(_Rung(RefinedBy.FUNCTIONS, basis, most, placed, further.resolution))
    return rungs


def _padded(single: Solution, size: int) -> Any:
    """The weights there are, to start from, with zeros for the functions that are new, the last of each
    unknown."""
    known = jnp.where(jnp.isfinite(single.weights).all(), single.weights, 0.0)
    count = len(single.problem.unknowns)
    more = (size - known.shape[-1]) // count
    parts = jnp.split(known, count, axis=-1)
    return jnp.concatenate([jnp.pad(part, [(0, 0), (0, more)]) for part in parts], axis=-1)


def _member(solution: Solution, place: int) -> Solution:
    """One φ of a batch, as a batch of one."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[place : place + 1], solution)


def _put(bounds: ErrorBound, place: int, one: ErrorBound | None = None) -> ErrorBound:
    """Bounds with those of one φ replaced; without `one`, the bounds of that φ alone."""
    if one is None:
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[place : place + 1], bounds)
    return jax.tree.map(lambda leaf, new: jnp.asarray(leaf).at[place].set(new[0]), bounds, one)


def _is_better(one: ErrorBound, other: ErrorBound) -> bool:
    """Whether the bound of a single φ is smaller, also where both say nothing relative to ‖u‖."""
    pair = lambda found: (float(found.relative[0]), float(found.bound[0]))
    return pair(one) < pair(other)


class NodalBasis(eqx.Module):
    """The multilinear hat functions of a square grid, boundary included: Σ ω_i f_i interpolates ω.

    For answers whose weights are known. There are `nodes`² functions, so nothing that holds all of them
    at all points should be asked of it; sums are taken on the grid (`contract`).
    """

    box: Box = eqx.field(static=True)
    nodes: int = eqx.field(static=True)

    def contract(self, weights: Float[Array, " N"], phi: Phi = None) -> ElementBasis:
        return ElementBasis(self.box, weights.reshape(self.nodes, self.nodes, 1))

    def __call__(self, x: Float[Array, " 2"], phi: Phi = None) -> Float[Array, " N"]:
        low, high = np.asarray(self.box.bounds).T
        places = (x - low) / (high - low) * (self.nodes - 1)
        hats = jnp.maximum(1 - jnp.abs(places[:, None] - np.arange(self.nodes)), 0)
        return jnp.outer(hats[0], hats[1]).ravel()


def by_nodal_values(solution: Solution, values: Float[Any, "batch N"] | None = None) -> Solution:
    """The same functions, known by their values at the nodes of φ's grid: no network is run again.

    `values` are those of the solution at `domain.mesh(n, n)`, where they are at hand.
    """
    if isinstance(solution.basis, NodalBasis):
        return solution
    nodes, box = solution.phi.shape[-1], solution.problem.domain
    if values is None:
        values = solution(box.mesh(nodes, nodes))
    given = Given.of(solution.problem, NodalBasis(box, nodes), solution.points)
    return replace(solution, given=given, weights=jnp.asarray(values))
