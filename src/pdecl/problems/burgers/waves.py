"""Periodic functions to put beside learned ones that do not suffice."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...support.types import Phi

# Chebyshev polynomials of an interval a little longer than [0, 1]: arccos has no derivative at its ends.
_STRETCH = 1.02


class Waves(eqx.Module):
    """Sines and cosines of 2πkx up to k = `count`, and one, times polynomials of t below `degree`."""

    count: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return (2 * self.count + 1) * self.degree

    @property
    def finest(self) -> int:
        """Points on a face that see the finest of them."""
        return 8 * self.count

    @property
    def resolution(self) -> dict[str, int]:
        """Of the bound: as fine as the functions."""
        return {"points": max(128, 8 * self.count)}

    def __call__(self, x: Float[Array, " 2"], phi: Phi) -> Float[Array, " N"]:
        angles = 2 * np.pi * np.arange(1, self.count + 1) * x[0]
        around = jnp.concatenate([jnp.ones(1), jnp.cos(angles), jnp.sin(angles)])
        along = jnp.cos(np.arange(self.degree) * jnp.arccos((2 * x[1] - 1) / _STRETCH))
        return jnp.outer(around, along).ravel()
