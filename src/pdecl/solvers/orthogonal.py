"""QR and SVD of the rows: slower, and never squaring the condition number in the factorisation."""

from typing import Any

import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jaxtyping import Array, Float

from ..gram import Gram
from .base import Effort, LinearSolver, check_ridge, exact


class QR(LinearSolver):
    """R of the rows' QR factorisation, and corrected semi-normal equations RᵀR x = f.

    For the CPU and for checking: a batch of QR factorisations is slow on a GPU.
    """

    ridge: float | None = None
    refinements: int = 2
    direct = True

    def __check_init__(self) -> None:
        check_ridge("QR", self.ridge)

    def prepare(self, gram: Gram) -> Float[Array, "N N"]:
        return jnp.linalg.qr(gram.root().as_matrix(), mode="r")

    def apply(self, prepared: Any, gram: Gram, f: Float[Array, " N"]) -> tuple[Array, Effort]:
        x = jsl.cho_solve((prepared, False), f)
        for _ in range(self.refinements):
            x = x + jsl.cho_solve((prepared, False), f - gram.mv(x))
        return x, exact()


class SVD(LinearSolver):
    """The rows' singular values and right singular vectors. The most robust, and the slowest."""

    ridge: float | None = None
    refinements: int = 2
    direct = True

    def __check_init__(self) -> None:
        check_ridge("SVD", self.ridge)

    def prepare(self, gram: Gram) -> tuple[Array, Array]:
        _, values, vectors = jnp.linalg.svd(gram.root().as_matrix(), full_matrices=False)
        return values, vectors

    def apply(self, prepared: Any, gram: Gram, f: Float[Array, " N"]) -> tuple[Array, Effort]:
        values, vectors = prepared
        inverse = lambda y: vectors.T @ ((vectors @ y) / values**2)
        x = inverse(f)
        for _ in range(self.refinements):
            x = x + inverse(f - gram.mv(x))
        return x, exact()
