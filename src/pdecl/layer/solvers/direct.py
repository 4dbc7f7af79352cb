"""Solvers that factorise: by Cholesky, the default, or QR of the rows."""

from .. import lapack
from ..gram import Operator
from . import triangular
from .base import DirectSolver


class Cholesky(DirectSolver):
    """Factorises H and refines each solution against the rows.

    Forming H squares the condition number of the rows. The refinement, which multiplies with the rows
    themselves, wins most of that back, and on a GPU a batch of Gram products and Cholesky
    factorisations is hundreds of times faster than a batch of QR factorisations.

    - `ridge`: relative to rows whose columns have norm one. None: 1e-12, or 1e-5 in float32.
    - `refinements`: how often a solution is corrected.
    """

    def prepare(self, gram: Operator) -> triangular.Triangular:
        return triangular.factorise(gram.lower())


class QR(DirectSolver):
    """R of the rows' QR factorisation, and corrected semi-normal equations RᵀR x = f.

    The condition number is not squared in the factorisation, so that nearly dependent functions need
    less of a ridge. For the CPU and for checking: a batch of QR factorisations is slow on a GPU.
    Arguments are those of `Cholesky`.
    """

    def prepare(self, gram: Operator) -> triangular.Triangular:
        return triangular.split(lapack.triangle(gram.root().as_matrix()).T)[0]
