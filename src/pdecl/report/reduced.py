"""A trained basis cut down to fewer functions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from ..basis.basis import Basis, specialise
from ..basis.grid import ElementBasis, GridBasis


class Reduced(Basis):
    """The functions g = f M of another basis f, fewer than it has."""

    inner: Any
    matrix: Float[ArrayLike, "N n"]

    @property
    def count(self) -> int:
        return np.shape(self.matrix)[1]

    def __call__(self, x: Float[Array, " d"], phi: Any = None) -> Any:
        return self.at(phi)(x, phi)

    def at(self, phi: Any) -> Any:
        inner = specialise(self.inner, phi)
        if isinstance(inner, ElementBasis | GridBasis):
            assert not callable(inner.values), "`at` has made an array of them"
            return type(inner)(inner.box, inner.values @ self.matrix)
        return Combined(inner, self.matrix)


class Combined(Basis):
    """A basis for one φ whose values are combined at each point."""

    inner: Basis
    matrix: Float[ArrayLike, "N n"]

    @property
    def count(self) -> int:
        return np.shape(self.matrix)[1]

    def __call__(self, x: Float[Array, " d"], phi: Any = None) -> Any:
        return self.inner(x, phi) @ self.matrix

    @property
    def offset(self) -> Any:
        return self.inner.offset


def directions(
    weights: Float[np.ndarray, "K N"], gram: Float[np.ndarray, "N N"]
) -> Float[np.ndarray, "N k"]:
    """Combinations of functions, those first that solutions use most (proper orthogonal decomposition).

    With the functions' Gram matrix G the solutions for K parameters have the inner products Ω G Ωᵀ =
    V S² Vᵀ, and their modes are the combinations M = Ωᵀ V S⁻¹, which have the Gram matrix 1.
    """
    sizes, turns = np.linalg.eigh(weights @ gram @ weights.T)
    sizes, turns = sizes[::-1], turns[:, ::-1]
    kept = sizes > 1e-14 * sizes[0]
    return weights.T @ turns[:, kept] / np.sqrt(sizes[kept])


def gram_of(basis: Any, phis: Any, coords: Any) -> Float[np.ndarray, "N N"]:
    """Mean products of all pairs of functions over points and φ."""
    coords = jnp.asarray(coords)
    values = [np.asarray(values_at(basis, jnp.asarray(phi), coords)) for phi in phis]
    return np.asarray(sum(one.T @ one / len(one) for one in values) / len(values))


@eqx.filter_jit
def values_at(basis: Any, phi: Any, coords: Any) -> Float[Array, "n N"]:
    """The values of all functions for one φ at points."""
    made = specialise(basis, phi)
    return jax.vmap(lambda x: made(x, phi))(coords)
