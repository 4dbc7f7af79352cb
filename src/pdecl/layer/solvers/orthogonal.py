"""QR and SVD of the rows: slower, and never squaring the condition number in the factorisation."""

from typing import Any

from jaxtyping import Array, Float

from .. import lapack
from ..gram import Operator
from . import triangular
from .base import DirectSolver


class QR(DirectSolver):
    """R of the rows' QR factorisation, and corrected semi-normal equations RᵀR x = f.

    For the CPU and for checking: a batch of QR factorisations is slow on a GPU. `ridge` and
    `refinements` are those of `Cholesky`.
    """

    ridge: float | None = None
    refinements: int = 1

    def prepare(self, gram: Operator) -> triangular.Triangular:
        return triangular.split(lapack.triangle(gram.root().as_matrix()).T)[0]

    def down(self, prepared: Any, f: Float[Array, "N ..."]) -> Float[Array, "N ..."]:
        return triangular.down(prepared, f)

    def up(self, prepared: Any, f: Float[Array, "N ..."]) -> Float[Array, "N ..."]:
        return triangular.up(prepared, f)


class SVD(DirectSolver):
    """The rows' singular values and right singular vectors. The most robust, and the slowest.

    `ridge` and `refinements` are those of `Cholesky`.
    """

    ridge: float | None = None
    refinements: int = 1

    def prepare(self, gram: Operator) -> Float[Array, "N N"]:
        values, vectors = lapack.singular(gram.root().as_matrix())
        return vectors / values[:, None]

    def down(self, prepared: Any, f: Float[Array, "N ..."]) -> Float[Array, "N ..."]:
        return prepared @ f

    def up(self, prepared: Any, f: Float[Array, "N ..."]) -> Float[Array, "N ..."]:
        return prepared.T @ f
