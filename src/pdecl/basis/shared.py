"""Functions that all φ share, evaluated by several devices together."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float

from ..parallel.devices import over_points
from ..state.affine import depends
from ..state.domain import Box
from ..state.jet import Axes
from ..state.problem import Problem
from ..support.types import Phi
from .basis import Basis, BasisLike, Wrapper, as_basis, forwarded, specialise


class Shared(Wrapper):
    """The same functions, each device of a mesh at a part of the points: inside `parallel.split` alone,
    and where all devices evaluate them equally often."""

    mesh: Mesh = eqx.field(static=True)
    pointwise: ClassVar[Any] = False
    offset, weights = forwarded("offset"), forwarded("weights")

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        return as_basis(self.inner)(x, phi)

    def at(self, phi: Phi) -> Basis:
        return Shared(specialise(self.inner, phi), self.mesh)

    def jets(self, coords: Float[Array, "n d"], phi: Phi, wanted: set[Axes]) -> dict[Axes, Any]:
        return over_points(lambda x: self.inner.jets(x, phi, wanted), coords, self.mesh)


def may_share(problem: Problem, basis: BasisLike, phi: Phi) -> bool:
    """Whether functions, and the points of the problem, are the same for all φ."""
    if type(problem.domain) is not Box:
        return False
    here = specialise(basis, phi)
    if not here.pointwise or here.contract is not None or here.on_lattice is not None:
        return False
    coords = jnp.zeros((1, len(problem.domain.names)))
    values = lambda phi: specialise(basis, phi).jets(coords, phi, {()})
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), phi)
    return not jax.tree.leaves(like) or not depends(values, like)
