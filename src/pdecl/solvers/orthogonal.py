"""QR and SVD of the rows: slower, and never squaring the condition number in the factorisation."""

from typing import Any

import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jaxtyping import Array, Float

from ..gram import Operator
from .base import DirectSolver


class QR(DirectSolver):
    """R of the rows' QR factorisation, and corrected semi-normal equations RᵀR x = f.

    For the CPU and for checking: a batch of QR factorisations is slow on a GPU.
    """

    ridge: float | None = None
    refinements: int = 1

    def prepare(self, gram: Operator) -> Float[Array, "N N"]:
        return jnp.linalg.qr(gram.root().as_matrix(), mode="r")

    def down(self, prepared: Any, f: Float[Array, "N ..."]) -> Float[Array, "N ..."]:
        return jsl.solve_triangular(prepared, f, trans="T")

    def up(self, prepared: Any, f: Float[Array, "N ..."]) -> Float[Array, "N ..."]:
        return jsl.solve_triangular(prepared, f)


class SVD(DirectSolver):
    """The rows' singular values and right singular vectors. The most robust, and the slowest."""

    ridge: float | None = None
    refinements: int = 1

    def prepare(self, gram: Operator) -> Float[Array, "N N"]:
        _, values, vectors = jnp.linalg.svd(gram.root().as_matrix(), full_matrices=False)
        return vectors / values[:, None]

    def down(self, prepared: Any, f: Float[Array, "N ..."]) -> Float[Array, "N ..."]:
        return prepared @ f

    def up(self, prepared: Any, f: Float[Array, "N ..."]) -> Float[Array, "N ..."]:
        return prepared.T @ f
