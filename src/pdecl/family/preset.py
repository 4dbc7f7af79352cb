"""How a basis for a problem is made and trained, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Network:
    """Which network, how many functions, how large; `options` are its other arguments.

    - `kind`: the name of a class in `pdecl.nn`. `size`: how many functions. `width`, `depth`: of the
      hidden layers.
    - `periodic`: coordinates, and up to which wave, that the network sees through sines and cosines:
      `("x", 1)`.
    - `creased`: the share of the functions that crease along the family's front.
    - `wall`: functions are zero on the boundary of the box.
    """

    kind: str
    size: int
    width: int
    depth: int
    options: Mapping[str, Any] = field(default_factory=dict)
    periodic: tuple[Any, ...] | None = None
    wall: bool = False
    creased: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.creased < 1:
            raise ValueError(f"creased is a share, from 0 to below 1; found {self.creased}.")
        if self.creased and self.kind == "FNO":
            raise ValueError("functions on a grid, as an FNO's are, cannot be creased; leave it at 0.")


@dataclass(frozen=True)
class Training:
    """How a network is trained. The rate falls along a cosine from `rate` to `rate` · `final`.

    - `decay`: another schedule, a staircase: (0.9, 2000) is `rate` times 0.9 after every 2000 steps.
    - `clip`: the norm that longer gradients are shortened to; None: they are not.
    - `phis`: how many of the split "train" to draw from; 0 draws new φ in every step.
    - `solver`: the linear solver's name; `ridge` its ridge, None for its default.
    - `newton`: the most steps of Gauss–Newton in training, for nonlinear problems; `restarts`: attempts
      from other starts where conditions hold badly after the first, as they do for a poor basis.
    - `optimiser`: "adam", or "muon", whose steps of a matrix have singular values of one size.
    - `metrics_phis`: how many of the test φ the history's metrics are taken on.
    """

    steps: int
    batch: int
    rate: float
    final: float = 0.01
    warmup: int = 50
    clip: float | None = 1.0
    mean: str = "log"
    phis: int = 1000
    include_collocation: bool = False
    single: bool = False
    solver: str = "Cholesky"
    ridge: float | None = None
    newton: int = 15
    metrics_phis: int = 10
    optimiser: str = "adam"
    decay: tuple[float, int] | None = None
    restarts: int = 16


@dataclass(frozen=True)
class Preset:
    """What a family suggests for a method (hard or soft) under a name.

    - `statement`: arguments of the family's `problem`; `loss_statement` those that differ for the
      loss's points.
    - `grid`: for families on a grid, the nodes a side on which it is trained.
    """

    network: Network
    training: Training
    statement: Mapping[str, Any] = field(default_factory=dict)
    loss_statement: Mapping[str, Any] = field(default_factory=dict)
    grid: int | None = None
