"""Answers brought within a tolerance, by what suits the problem; only where their bound exceeds it."""

from typing import Any

import numpy as np

from ...layer.solution import Solution
from .. import ErrorBound
from .ladder import by_more
from .nodes import NodalBasis as NodalBasis
from .nodes import at_nodes as at_nodes
from .record import Refined as Refined
from .record import RefinedBy as RefinedBy
from .record import is_better, member, put

__all__ = ["NodalBasis", "Refined", "RefinedBy", "at_nodes", "refine"]


def refine(
    trained: Any, solution: Solution, tolerance: float, *, known: ErrorBound | None = None
) -> Refined:
    """Solutions whose relative bound is at most `tolerance`, where that can be reached.

    - A family that can polish its answers does that. On a grid: conjugate gradients from the given
      answer on, until the bound in the energy norm holds. The refined answer is a function on the grid.
    - Otherwise: more points where the bound is near the tolerance, then further functions beside the
      learned ones, more and more of them. See `ladder.py` for the steps and where they end.

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
    if solution.code.ndim != 1:
        raise ValueError("refine takes the solutions of a batch of φ, as trained.solve gives them.")
    family = trained.family
    if known is None:
        known = trained.bound(solution, throw=False)
    over = np.flatnonzero(~known.within(tolerance))
    if family.on_grid and len(over):
        solution = at_nodes(solution)
    refined_by = np.zeros(len(known.relative), np.int8)
    better: dict[int, Solution] = {}
    for place in over.tolist():
        one = member(solution, place)
        first = put(known, place)
        if family.polish is not None:
            found, reached = family.polish(one, tolerance), RefinedBy.CONJUGATE_GRADIENTS
            improved = trained.bound(found, throw=False)
        else:
            found, improved, reached = by_more(trained, one, first, tolerance)
        within = bool(improved.within(tolerance)[0])
        refined_by[place] = reached if within else RefinedBy.NOT_REACHED
        if within or is_better(improved, first):
            better[place] = found
            known = put(known, place, improved)
    return Refined(solution, better, known, refined_by, float(tolerance))
