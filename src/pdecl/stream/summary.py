"""What is asked of answers beside their values: bounds of their errors, and to be within a tolerance;
and what a stream of them came to."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import numpy as np

from ..error.refine import RefinedBy, by_nodal_values, refine
from ..family.distance import FAR
from ..family.trained import Trained
from ..layer.solution import Solution
from ..support.status import Status, usable

PENDING = -128  # beside the codes of `Status`: a φ whose turn has not come
_SHOWN = 20


def status_name(code: int) -> str:
    return "PENDING" if code == PENDING else Status(code).name


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
        solution = by_nodal_values(solution, nodes)
    bounds = trained.bound(solution, throw=False)
    better: dict[int, Solution] = {}
    refined_by = np.zeros(len(bounds.relative), np.int8)
    if target.refine and target.tolerance is not None:
        counts = np.isin(np.arange(len(refined_by)), good)
        known = eqx.tree_at(lambda b: b.relative, bounds, np.where(counts, bounds.relative, 0.0))
        refined = refine(trained, solution, target.tolerance, known=known)
        bounds, better, refined_by = refined.bound, refined.better, refined.codes
    return Bounds(np.asarray(bounds.bound), np.asarray(bounds.relative), refined_by), better


def kind_of(trained: Trained) -> str:
    """Whether errors are bounded by a proof, "bound", or estimated, "estimate"."""
    return "estimate" if trained.family.bound is None else "bound"


@dataclass
class BoundSummary:
    """The largest of the relative bounds (infinite where one says nothing), and the φ above the
    tolerance: the first of them with their bounds."""

    target: ErrorTarget
    worst: float = 0.0
    over: list[dict[str, Any]] = field(default_factory=list)
    over_count: int = 0
    refined: Counter[str] = field(default_factory=Counter)

    def add(self, start: int, bounds: Bounds) -> None:
        known = bounds.relative[~np.isnan(bounds.relative)]
        self.worst = max(self.worst, float(known.max(initial=0.0)))
        self.refined.update(
            RefinedBy(int(code)).name for code in bounds.refined_by if code > RefinedBy.NOTHING
        )
        for place in np.flatnonzero([self.target.violation(float(r)) for r in bounds.relative]):
            self.over_count += 1
            if len(self.over) < _SHOWN:
                limit = float(bounds.relative[place])
                self.over.append({"number": start + int(place), "relative_bound": _finite(limit)})

    def as_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"largest_relative_bound": _finite(self.worst)}
        if self.target.tolerance is not None:
            plain |= {"tolerance": self.target.tolerance}
            plain |= {"over_tolerance_count": self.over_count, "over_tolerance": self.over}
        if self.target.refine:
            plain |= {"refined": sum(self.refined.values()), "refined_by": dict(self.refined)}
        return plain


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


@dataclass
class StreamSummary:
    """Counts by status, the φ without a usable answer (the first with their reasons), the far ones,
    and what the bounds came to if they were asked for."""

    statuses: Counter[str] = field(default_factory=Counter)
    bad: list[dict[str, Any]] = field(default_factory=list)
    bad_count: int = 0
    far: int = 0
    farthest: float = 0.0
    bounds: BoundSummary | None = None

    @property
    def count(self) -> int:
        return sum(self.statuses.values())

    @classmethod
    def begin(cls, target: ErrorTarget | None) -> "StreamSummary":
        """An empty one, for answers with that target."""
        return cls(bounds=None if target is None else BoundSummary(target))

    def add(
        self,
        start: int,
        codes: np.ndarray,
        distances: np.ndarray,
        messages: list[str],
        bounds: Bounds | None = None,
    ) -> None:
        if self.bounds is not None and bounds is not None:
            self.bounds.add(start, bounds)
        for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
            self.statuses[status_name(int(code))] += int(count)
        bad = np.flatnonzero(~usable(codes))
        self.bad_count += len(bad)
        for place in bad[: max(0, _SHOWN - len(self.bad))]:
            self.bad.append({"number": start + int(place), "why": messages[place]})
        known = distances[np.isfinite(distances)]
        self.far += int((known > FAR).sum())
        self.farthest = max(self.farthest, float(known.max(initial=0.0)))

    def as_dict(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "statuses": dict(self.statuses),
            "bad_count": self.bad_count,
            "bad": self.bad,
            "out_of_distribution": self.far,
            "largest_distance": self.farthest,
            **(self.bounds.as_dict() if self.bounds else {}),
        }
