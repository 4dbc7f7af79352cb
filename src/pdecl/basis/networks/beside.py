"""The functions of two bases as one basis."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..basis import Basis, as_basis, specialise


class Beside(Basis):
    """The functions of a learned basis, and further ones, for each unknown."""

    learned: Any
    further: Any

    def at(self, phi: Any) -> "Beside":
        return Beside(specialise(self.learned, phi), specialise(self.further, phi))

    def __call__(self, x: Float[Array, " d"], phi: Any = None) -> Any:
        pair = self.learned(x, phi), self.further(x, phi)
        return jax.tree.map(lambda one, other: jnp.concatenate([one, other]), *pair)

    @property
    def count(self) -> int | None:
        one, other = as_basis(self.learned).count, as_basis(self.further).count
        return None if one is None or other is None else one + other

    @property
    def offset(self) -> Any:
        return as_basis(self.learned).offset
