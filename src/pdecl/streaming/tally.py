"""What a stream of solves came to."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..status import Status
from .novelty import FAR

# Beside the codes of `Status`: a φ that its law's check refused, and one whose turn has not come.
REFUSED, PENDING = -2, -128
_SHOWN = 20


def status_name(code: int) -> str:
    return {REFUSED: "REFUSED", PENDING: "PENDING"}.get(code) or Status(code).name


def usable(code: int) -> bool:
    """Whether there is an answer that can be used."""
    return code not in (REFUSED, PENDING) and not Status(code).failed


@dataclass
class Tally:
    """Counts by status, the φ without a usable answer (the first with their reasons), the far ones."""

    statuses: Counter[str] = field(default_factory=Counter)
    bad: list[dict[str, Any]] = field(default_factory=list)
    bad_count: int = 0
    far: int = 0
    farthest: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.statuses.values())

    def add(self, start: int, codes: np.ndarray, distances: np.ndarray, messages: list[str]) -> None:
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
            "outside_the_law": self.far,
            "largest_distance": self.farthest,
        }
