"""What is asked of answers beside their values: bounds of their errors, and to be within a tolerance."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np

from ..error.refine import RefinedBy, at_nodes, refine
from ..family.trained import Trained
from ..layer.solution import Solution


@dataclass(frozen=True)
class ErrorTarget:
    """A bound with every answer; with a `tolerance`, for relative bounds, those that exceed it are
    named; with `refine` they are refined first."""

    tolerance: float | None = None
    refine: bool = False

    def __post_init__(self) -> None:
        if self.tolerance is not None and not (np.isfinite(self.tolerance) and self.tolerance > 0):
            raise ValueError(f"tolerance must be a positive number; found {self.tolerance!r}.")
        if self.refine and self.tolerance is None:
            raise ValueError("to refine answers, say how good they must be: give a tolerance.")

    def violation(self, relative: float) -> str:
        """What is wrong with an answer of that bound; "" for nothing."""
        if self.tolerance is None or not relative > self.tolerance:
            return ""
        after = " after refinement" if self.refine else ""
        return f"its relative bound{after}, {relative:.3g}, exceeds the tolerance {self.tolerance:g}"


@dataclass(frozen=True)
class Bounds:
    """For each φ the bound of ‖v − u‖ and of ‖v − u‖ / ‖u‖, and how it was refined (`RefinedBy`); NaN,
    and `NOTHING`, for a φ that was rejected."""

    absolute: np.ndarray
    relative: np.ndarray
    refined_by: np.ndarray

    def of(self, count: int, rejected: np.ndarray) -> "Bounds":
        """Those of the first φ, without numbers for the ones that were rejected."""
        blank = lambda values, no: np.where(rejected, no, values[:count])
        return Bounds(
            blank(self.absolute, np.nan),
            blank(self.relative, np.nan),
            blank(self.refined_by, int(RefinedBy.NOTHING)).astype(np.int8),
        )


def check_bounds(
    trained: Trained, solution: Solution, target: ErrorTarget, nodes: Any, good: list[int]
) -> tuple[Bounds, dict[int, Solution]]:
    """The bounds of a batch, and the solutions of the φ whose answers were refined.

    `nodes` are its values at the nodes of a grid that φ is on; `good` the places of φ that count.
    """
    if nodes is not None:
        solution = at_nodes(solution, nodes)
    found = trained.bound(solution, throw=False)
    better: dict[int, Solution] = {}
    refined_by = np.zeros(len(found.relative), np.int8)
    if target.refine and target.tolerance is not None:
        counts = np.isin(np.arange(len(refined_by)), good)
        known = eqx.tree_at(lambda b: b.relative, found, np.where(counts, found.relative, 0.0))
        refined = refine(trained, solution, target.tolerance, known=known)
        found, better, refined_by = refined.bound, refined.better, refined.codes
    return Bounds(np.asarray(found.bound), np.asarray(found.relative), refined_by), better


def norm_of(trained: Trained) -> str:
    """The norm that bounds speak of, in words."""
    return trained.family.norm


def kind_of(trained: Trained) -> str:
    """Whether errors are bounded by a proof, "bound", or estimated, "estimate"."""
    return "estimate" if trained.family.bound is None else "bound"
