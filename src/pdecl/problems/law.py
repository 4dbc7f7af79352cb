"""What the three problems have in common: a law of φ, a reference solver, the splits."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Float, Float64

from ..domain import Region
from ..problem import Problem


@runtime_checkable
class Law(Protocol):
    """A parametrised PDE with the law of its parameter φ and a numerical method to trust.

    A law is a frozen dataclass: its fields are the constants of the problem, and two laws with
    equal fields draw equal φ.
    """

    name: ClassVar[str]
    equation: ClassVar[str]
    phi_name: ClassVar[str]
    phi_dims: ClassVar[tuple[str, ...]]
    solution_dims: ClassVar[tuple[str, ...]]
    # Raised whenever `sample` or `reference` would give other numbers, so that cached files are
    # made anew.
    version: ClassVar[int]
    # How many φ `references` likes to get at once.
    batch: ClassVar[int]

    def __hash__(self) -> int: ...

    def problem(self, *args: Any, **kwargs: Any) -> Problem:
        """The PDE as conditions, for `solve` and `fit`; φ is what `draw` returns."""
        ...

    def sample(self, seed: int, count: int, start: int = 0) -> Float64[np.ndarray, "count ..."]:
        """φ number start … start + count − 1 of a seed; the same on every machine."""
        ...

    def draw(self, key: jax.Array) -> Float[Array, "..."]:
        """One φ from a JAX key: pure, for `vmap` and `jit` (training on fresh φ)."""
        ...

    def check(self, phi: Any) -> Float64[np.ndarray, "count ..."]:
        """A user's φ as a float64 batch (one φ: a batch of one); a ValueError says what is wrong."""
        ...

    def reference(self, phi: Any) -> Float64[np.ndarray, "count ..."]:
        """Trusted solutions on the standard grid, in float64 on the CPU."""
        ...

    def companions(self, phi: Any, truth: bool = False) -> dict[str, np.ndarray]:
        """Further solutions beside the reference, by variable name; costly ones only if `truth`."""
        ...

    def coordinates(self, phi: np.ndarray) -> dict[str, np.ndarray]:
        """Coordinate values of every dimension of φ and of the solution, except `sample`."""
        ...


@dataclass(frozen=True)
class Split:
    """φ number 0 … count − 1 of a seed."""

    seed: int
    count: int


# Two seeds are two sets of independent streams, so the splits cannot overlap, however many φ are
# drawn from either.
SPLITS: Mapping[str, Split] = {"train": Split(seed=1, count=1000), "test": Split(seed=2, count=50)}


def with_counts(regions: list[Region], inside: int | None, on_face: int | None) -> list[Region]:
    """Parts of a box, the interior first, with that many points; None leaves the number to the basis."""
    counts = [inside, *[on_face] * (len(regions) - 1)]
    return [
        region if count is None else region.low_discrepancy(count)
        for region, count in zip(regions, counts, strict=True)
    ]


def describe(law: Law) -> dict[str, Any]:
    """The law as plain data: what decides whether a cached file still holds."""
    return {
        "problem": law.name,
        "equation": law.equation,
        "version": law.version,
        **asdict(law),  # type: ignore[call-overload]
    }
