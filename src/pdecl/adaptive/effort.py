"""What a solve may use and what it has used, and why it stopped short."""

import math
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..support.mistakes import found

Tell = Callable[[float | None, str], None]  # of the share that is done, if known, and a note
_STATM = Path("/proc/self/statm")


@dataclass(frozen=True)
class Budget:
    """What a solve to a tolerance may use. It ends where one of them is used up, and says which.

    - `seconds`: for each φ, compilation included.
    - `functions`: at one time.
    - `gigabytes`: of memory, beyond what the process has when it begins. A factorisation that has
      begun is finished, and may take more.
    """

    seconds: float = 600.0
    functions: float = math.inf
    gigabytes: float = math.inf

    def __post_init__(self) -> None:
        for name, x in vars(self).items():
            if isinstance(x, bool) or not isinstance(x, int | float) or not x > 0:
                raise ValueError(f"Budget: `{name}` must be a positive number; found {found(x)}.")


@dataclass
class Effort:
    """`budget`: seconds. `functions`, `gigabytes`: the most there may be. `tell`: the progress bar."""

    budget: float
    tell: Tell
    functions: float = math.inf
    gigabytes: float = math.inf
    began: float = field(default_factory=time.perf_counter)
    before: float = field(default_factory=lambda: resident())
    steps: int = 0
    factorisations: int = 0

    @classmethod
    def of(cls, budget: Budget, tell: Tell, count: int = 1) -> "Effort":
        """For a batch of φ all their seconds together."""
        return cls(count * budget.seconds, tell, budget.functions, budget.gigabytes)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def memory(self) -> float:
        """Gigabytes that it has taken."""
        return max(0.0, resident() - self.before)

    @property
    def used_up(self) -> bool:
        return self.seconds > self.budget or (self.gigabytes < math.inf and self.memory > self.gigabytes)

    def in_words(self) -> str:
        if self.seconds > self.budget:
            return f"the budget of {self.budget:g} s is used up"
        return f"the budget of {self.gigabytes:g} GB is used up"

    def require(self, where: str = "") -> None:
        """Raises `Stop` where something is used up."""
        if self.used_up:
            raise Stop(f"{self.in_words()}{where}.")

    def allow(self, functions: int) -> None:
        """Raises `Stop` where these are too many."""
        if functions > self.functions:
            raise Stop(
                f"the budget of {self.functions:g} functions is less than the {functions} needed."
            )

    def foresee(self, last: float, taken: float, larger: float) -> None:
        """Raises `Stop` where a level so much larger than the last would take more than there is. The
        last took so many seconds, and so many gigabytes."""
        if self.seconds + larger * last > self.budget:
            raise Stop(f"a richer level would take more than the budget of {self.budget:g} s.")
        if self.gigabytes < math.inf and larger * taken > self.gigabytes:
            raise Stop(f"a richer level would take more than the budget of {self.gigabytes:g} GB.")


@dataclass
class Stop(Exception):
    """The end before the tolerance is met."""

    why: str


def resident() -> float:
    """Gigabytes that the process has in memory; where the system does not say, the most so far."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * resource.getpagesize() / 1e9
    most: Any = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(most * (1 if sys.platform == "darwin" else 1024) / 1e9)
