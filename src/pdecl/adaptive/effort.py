"""What a solve may use and what it has used, and why it stopped short."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Tell = Callable[[float | None, str], None]  # of the share that is done, if known, and a note


@dataclass
class Effort:
    """`budget`: seconds. `tell`: the progress bar."""

    budget: float
    tell: Tell
    began: float = field(default_factory=time.perf_counter)
    steps: int = 0
    factorisations: int = 0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def used_up(self) -> bool:
        return self.seconds > self.budget

    def in_words(self) -> str:
        return f"the budget of {self.budget:g} s is used up"


@dataclass
class Stop(Exception):
    """The end before the tolerance is met."""

    why: str
