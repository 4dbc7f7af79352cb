"""Interfaces between materials: conditions across them, and functions that may bend there."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...support.mistakes import found
from ...support.types import Phi
from ..condition import Fit
from .domain import Domain
from .shape import Shape


def interface(
    domain: Domain, name: str, within: Any = 1.0, beyond: Any = 1.0, unknown: str | None = None
) -> list[Fit]:
    """Two conditions on `domain.interface(name)`: u is the same on both sides, and so is a ∂u/∂n.

    Arguments:

    - `within`, `beyond`: the coefficient a on the two sides, numbers or functions of (z, phi).
    - `unknown`: which of several.
    """
    on, names = domain.interface(name), domain.names

    def both(u: Any) -> tuple[Any, Any]:
        u = u if unknown is None else getattr(u, unknown)
        return u.at("within"), u.at("beyond")

    def value(u: Any, z: Any, phi: Phi) -> Any:
        one, other = both(u)
        return one() - other()

    def flux(u: Any, z: Any, phi: Phi) -> Any:
        one, other = both(u)
        a, b = (at(z, phi) if callable(at) else at for at in (within, beyond))
        return sum(z.normal[i] * (a * one.d(x) - b * other.d(x)) for i, x in enumerate(names))

    label = f"{name}{'' if unknown is None else ' ' + unknown}"
    return [Fit(value, on=on, name=f"{label}: value"), Fit(flux, on=on, name=f"{label}: flux")]


class Split(eqx.Module):
    """The functions of a basis twice: zero beyond a shape, and zero within it. What is made of them may
    jump and bend where the shape ends; `interface` says how.

    Arguments: `basis`, any callable `basis(x, phi)`; `shape`, such as `domain.within["core"]`.
    """

    basis: Callable[[Any, Any], Any]
    shape: Shape = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not isinstance(self.shape, Shape):
            raise TypeError(
                f"Split: `shape` must be a shape of pdecl.shapes; found {found(self.shape)}."
            )

    def __call__(self, x: Float[Array, " d"], phi: Phi) -> Any:
        values = self.basis(x, phi)
        within = self.shape.distance(x[None, : self.shape.dim])[0] < 0
        return jnp.concatenate([jnp.where(within, values, 0.0), jnp.where(within, 0.0, values)])
