"""A basis evaluated in single precision under a solve in double."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..basis import require_basis, specialise
from ..summary import Summarised, Summary
from .words import inner
from .wrappers import forward


class InSingle(Summarised, eqx.Module):
    """The same basis with its network and derivatives in float32: parameters, points and φ are cast.

    Gradients reach the parameters in their own precision, and the solve keeps its own: training in
    mixed precision. An offset (exact initial data) is not cast. A basis on a grid computes its values
    in float32 and interpolates them in the precision of the points.
    """

    inner: Any

    def __check_init__(self) -> None:
        require_basis(self.inner, "InSingle: `inner`")

    def summary(self) -> Summary:
        return Summary("InSingle: evaluated in float32", [("basis", inner(self.inner))])

    def __call__(self, x: Float[Array, " d"], phi: Any = None) -> Any:
        return self.at(phi)(x, phi)

    def at(self, phi: Any) -> Any:
        return as_single(specialise(_single(self.inner), _single(phi)))


class Single(eqx.Module):
    """A basis of points whose parameters are in float32 already."""

    inner: Any

    def __call__(self, x: Float[Array, " d"], phi: Any) -> Any:
        return self.inner(_single(x), _single(phi))

    def __getattr__(self, name: str) -> Any:
        return forward(self, name, "weights", "offset")


def as_single(basis: Any) -> Any:
    """A basis whose parameters are in float32 already, for points in double."""
    on_grid = hasattr(basis, "jets") or hasattr(basis, "contract")
    return basis if on_grid else Single(basis)


def _single(tree: Any) -> Any:
    return jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, tree)
