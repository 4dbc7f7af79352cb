"""Factorisations and what else is asked of LAPACK: every such call of the package is made here.

For why, see `singly`: on a CPU each call is for a single matrix, so that programs that hold many of
them, in whatever order, end. With a jaxlib whose batched calls block no thread JAX's own functions can
take the places of these.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .batching import singly


@singly
def cholesky(lower: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The lower factor. What is above the diagonal is not read."""
    return jax.lax.linalg.cholesky(lower, symmetrize_input=False)


@singly
def divide(lower: Float[Array, "n n"], columns: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """L⁻¹ columns."""
    return jax.lax.linalg.triangular_solve(lower, columns, left_side=True, lower=True)


@singly
def triangle(matrix: Float[Array, "m n"]) -> Float[Array, "k n"]:
    """R of the QR factorisation."""
    return jnp.linalg.qr(matrix, mode="r")


@jax.custom_jvp
def eigh(matrix: Float[Array, "*batch n n"]) -> tuple[Float[Array, "*batch n"], Array]:
    """Eigenvalues and vectors of symmetric matrices."""
    one = _eigh
    for _ in matrix.shape[:-2]:
        one = jax.vmap(one)
    return one(matrix)


@singly
def _eigh(matrix: Float[Array, "n n"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    values, vectors = jnp.linalg.eigh(matrix)
    return values, vectors


@eigh.defjvp
def _eigh_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple, tuple]:
    """For distinct eigenvalues λ: with M = VᵀȦV, λ̇ is its diagonal and V̇ = V (M_ij / (λ_j − λ_i))."""
    values, vectors = eigh(*primals)
    inner = jnp.swapaxes(vectors, -1, -2) @ tangents[0] @ vectors
    diagonal = jnp.eye(values.shape[-1], dtype=values.dtype)
    gaps = values[..., None, :] - values[..., :, None] + diagonal
    turn = (1 - diagonal) * inner / gaps
    return (values, vectors), (jnp.diagonal(inner, axis1=-2, axis2=-1), vectors @ turn)
