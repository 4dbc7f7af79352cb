"""What a stream of solves came to."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..error.refine import RefinedBy
from ..family.distance import FAR
from ..support.status import Status
from .target import Bounds, ErrorTarget

PENDING = -128  # beside the codes of `Status`: a φ whose turn has not come
_SHOWN = 20


def status_name(code: int) -> str:
    return "PENDING" if code == PENDING else Status(code).name


def usable(code: int) -> bool:
    """Whether there is an answer that can be used."""
    return code != PENDING and not Status(code).failed


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
                found = float(bounds.relative[place])
                self.over.append({"number": start + int(place), "relative_bound": _finite(found)})

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
        self.statuses.update(status_name(int(code)) for code in codes)
        for place in np.flatnonzero([not usable(int(code)) for code in codes]):
            self.bad_count += 1
            if len(self.bad) < _SHOWN:
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
