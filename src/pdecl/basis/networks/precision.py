"""A basis evaluated in single precision under a solve in double."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...support.summary import Summarised, Summary
from ..basis import Basis, require_basis, specialise
from .words import inner
from .wrappers import Wrapper


class InSingle(Summarised, Wrapper):
    """The same basis with its network and derivatives in float32: parameters, points and φ are cast.

    Gradients reach the parameters in their own precision, and the solve keeps its own: training in
    mixed precision. An offset (exact initial data) is not cast. A basis on a grid computes its values
    in float32 and interpolates them in the precision of the points.
    """

    def __check_init__(self) -> None:
        require_basis(self.inner, "InSingle: `inner`")

    def summary(self) -> Summary:
        return Summary("InSingle: evaluated in float32", [("basis", inner(self.inner))])

    def at(self, phi: Any) -> Any:
        return as_single(specialise(_single(self.inner), _single(phi)))


class Single(Wrapper):
    """A basis of points whose parameters are in float32 already."""

    def __call__(self, x: Float[Array, " d"], phi: Any = None) -> Any:
        return self.inner(_single(x), _single(phi))

    @property
    def weights(self) -> Any:
        return self.inner.weights

    @property
    def offset(self) -> Any:
        return self.inner.offset


def as_single(basis: Basis) -> Basis:
    """A basis whose parameters are in float32 already, for points in double."""
    return Single(basis) if basis.pointwise and basis.contract is None else basis


def _single(tree: Any) -> Any:
    return jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, tree)
