"""The functions of two bases as one basis."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..basis import specialise


class Beside(eqx.Module):
    """The functions of a learned basis, and further ones, for each unknown."""

    learned: Any
    further: Any

    def at(self, phi: Any) -> "Beside":
        return Beside(specialise(self.learned, phi), specialise(self.further, phi))

    def __call__(self, x: Float[Array, " d"], phi: Any) -> Any:
        pair = self.learned(x, phi), self.further(x, phi)
        return jax.tree.map(lambda one, other: jnp.concatenate([one, other]), *pair)

    def __getattr__(self, name: str) -> Any:
        if name != "offset":
            raise AttributeError(name)
        return getattr(self.learned, name)
