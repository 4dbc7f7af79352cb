"""What a bound says: a number per φ, the norm it speaks of, and what it is made of."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..state.points import is_concrete
from ..support.summary import Summarised, Summary

# Relative to ‖v‖: what float64 may lose in the sums behind a bound.
ROUNDING = 1e-12


class ErrorBound(Summarised, eqx.Module):
    """How far a solution v is, at most, from the exact u of its distribution, for one φ or a batch.

    - `norm`: the norm of everything here, in words.
    - `kind`: "bound" (‖v − u‖ ≤ `bound` by a proof, up to the quadrature that `parts` allows for) or
      "estimate" (calibrated; it may be exceeded).
    - `bound`: of ‖v − u‖; infinite where v has no finite values.
    - `relative`: of ‖v − u‖ / ‖u‖, as bound / (‖v‖ − bound); infinite where that says nothing.
    - `lower`: ‖v − u‖ is at least this; zero where nothing better is known.
    - `size`: ‖v‖.
    - `parts`: what the bound is made of. They need not add up: some are joined as squares.
    """

    bound: Float[Array, "*batch"]
    relative: Float[Array, "*batch"]
    lower: Float[Array, "*batch"]
    size: Float[Array, "*batch"]
    parts: dict[str, Float[Array, "*batch"]]
    norm: str = eqx.field(static=True)
    kind: str = eqx.field(static=True)

    def within(self, tolerance: float) -> Bool[np.ndarray, "*batch"]:
        """Where the relative error is known to be at most `tolerance`."""
        if not (np.isfinite(tolerance) and tolerance > 0):
            raise ValueError(f"tolerance must be a positive number; found {tolerance!r}.")
        return np.asarray(self.relative) <= tolerance

    def summary(self) -> Summary:
        rows = [("relative", self.relative), ("absolute", self.bound), ("at least", self.lower)]
        parts = Summary("median, largest", self.parts.items())
        return Summary(f"Error {self.kind} in {self.norm}", [*rows, ("parts", parts)])

    def __str__(self) -> str:
        if not is_concrete(self.relative):
            return f"{self.kind} in {self.norm}, not computed yet"
        worst, middle = float(np.max(self.relative)), float(np.median(self.relative))
        return f"{self.kind} in {self.norm}: relative {middle:.3g} (median), {worst:.3g} (worst)"


def assemble(
    bound: Float[Array, "*batch"],
    size: Float[Array, "*batch"],
    parts: dict[str, Any],
    norm: str,
    lower: Float[Array, "*batch"] | None = None,
    kind: str = "bound",
) -> ErrorBound:
    """The record: rounding is added, and infinity stands for every number that is not one."""
    finite = jnp.isfinite(bound) & jnp.isfinite(size)
    rounding = ROUNDING * size
    bound = jnp.where(finite, bound + rounding, jnp.inf)
    room = jnp.where(finite, size - bound, 0.0)
    relative = jnp.where(room > 0, bound / jnp.where(room > 0, room, 1.0), jnp.inf)
    least = jnp.zeros_like(bound) if lower is None else jnp.maximum(lower - rounding, 0.0)
    least = jnp.where(finite, least, 0.0)
    return ErrorBound(bound, relative, least, size, parts | {"rounding": rounding}, norm, kind)
