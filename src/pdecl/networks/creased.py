"""Functions that crease along curves which the network learns."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import basis as bases
from .layers import require_counts


class Creased(eqx.Module):
    """A basis some of whose functions have a crease, for solutions whose slope jumps.

    The last functions of `basis` are multiplied by √(s² + w²) − w, with s a function of `level`: for a
    small blur w this is |s|, whose slope jumps across the curve s = 0. Where that curve lies for each φ,
    and how sharp the crease is, is trained like everything else.

    Arguments:

    - `basis`: the functions, of any kind.
    - `level`: a basis of `creases` functions s, one for each curve.
    - `along`: how many functions are creased along each of the curves.
    - `blur`: w at the start.
    """

    basis: Any
    level: Any
    log_blur: Float[Array, " creases"]
    along: int = eqx.field(static=True)

    def __init__(self, basis: Any, level: Any, creases: int, along: int, blur: float = 0.2):
        require_counts(creases=creases, along=along)
        if not blur > 0:
            raise ValueError(f"Creased: blur must be positive; found {blur}.")
        self.basis, self.level, self.along = basis, level, along
        self.log_blur = jnp.full(creases, jnp.log(blur), float)

    def at(self, phi: Any) -> "Creased":
        parts = (bases.specialise(self.basis, phi), bases.specialise(self.level, phi))
        return eqx.tree_at(lambda c: (c.basis, c.level), self, parts)

    def __call__(self, x: Float[Array, " d"], phi: Any = None) -> Any:
        return jax.tree.map(self._crease, self.basis(x, phi), self.level(x, phi))

    def _crease(self, functions: Float[Array, " N"], s: Float[Array, " creases"]) -> Array:
        blur = jnp.exp(self.log_blur).astype(s.dtype)
        folds = jnp.repeat(jnp.sqrt(s**2 + blur**2) - blur, self.along)
        smooth = functions.shape[-1] - folds.size
        if smooth < 0:
            raise ValueError(
                f"Creased: {self.log_blur.size} creases with {self.along} functions along each need at "
                f"least {folds.size} functions; the basis has {functions.shape[-1]}."
            )
        return jnp.concatenate([functions[:smooth], functions[smooth:] * folds])
