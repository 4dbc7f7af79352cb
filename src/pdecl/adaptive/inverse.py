"""Factorisations: of one matrix in space, and of a slab's stages as several of them."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from .pieces import Sparse
from .stages import is_real, radau

Solve = Callable[[np.ndarray], np.ndarray]
# A sparse matrix with more than this share of entries (2D and 3D) is factored faster as a dense one,
# up to what memory holds.
_FULL, _ENTRIES = 0.04, 4e6
_SOFT = 1e-3


class Failed(Exception):
    """This slab, or level, cannot be solved as it is: it says why."""


class Singular(Failed):
    """Its linear equations have no solution, or many."""


class Inverse:
    """The solve with Σ_a (D/h)^a ⊗ A_a, the matrices A_a in space alone.

    With D = S diag(ν) S⁻¹ it is a sparse complex system for each conjugate pair of eigenvalues:
    (Σ_a (ν/h)^a A_a) x̂ = (S⁻¹R)_ν,  Z = 2 Re Σ S_ν x̂_ν, and a real ν once.
    """

    def __init__(self, matrices: dict[int, Any], s: int, h: float):
        self.h, self._stages, self._factors = h, radau(s), []
        for rate in self._stages.rates:
            shift = (rate.real if is_real(rate) else rate) / h
            self._factors.append(factorise(sum(shift**a * A for a, A in matrices.items())))

    def __call__(self, R: np.ndarray) -> np.ndarray:
        stages, out = self._stages, np.zeros(())
        hat = stages.dual @ R
        for j, (rate, solve) in enumerate(zip(stages.rates, self._factors, strict=True)):
            once = is_real(rate)
            term = np.outer(stages.vectors[:, j], solve(hat[j].real if once else hat[j]))
            out = out + (term.real if once else 2 * term.real)
        return out


def factorise(M: Any, sizes: np.ndarray | None = None) -> Solve:
    """The solve with M, each row divided by its largest entry. With more rows than columns the least
    squares, rows divided by `sizes`."""
    rows, columns = M.shape
    if rows < columns:
        raise Singular(f"the conditions give {rows} rows for {columns} functions: some are missing")
    largest = abs(M).max(axis=1).toarray().ravel()
    size = largest if sizes is None or rows == columns else sizes
    size = np.where(size > 0, size, 1.0)
    scaled = scipy.sparse.diags(1 / size) @ M
    if not np.isfinite(scaled.data).all():
        raise Failed("an equation is not finite")
    if rows > columns:
        solve = (
            _least_squares_dense(scaled) if scaled.nnz > 0.5 * rows * columns else _least_squares(scaled)
        )
    elif _FULL * rows**2 < scaled.nnz < _ENTRIES:
        solve = _dense(scaled.toarray())
    else:
        solve = _sparse(scaled)
    return lambda r: solve(r / size)


def _sparse(A: Sparse) -> Solve:
    try:
        return scipy.sparse.linalg.splu(A.tocsc()).solve
    except RuntimeError as error:  # "Factor is exactly singular"
        raise Singular(
            "the equations are singular: conditions repeat or contradict each other"
        ) from error


def _dense(A: np.ndarray) -> Solve:
    with warnings.catch_warnings():
        warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
        try:
            factors = scipy.linalg.lu_factor(A, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgWarning as error:
            raise Singular(
                "the equations are singular: conditions repeat or contradict each other"
            ) from error
    return lambda r: scipy.linalg.lu_solve(factors, r, check_finite=False)


def _least_squares(A: Sparse) -> Solve:
    """By the augmented system [αI A; Aᴴ 0] with columns of norm one: sparse, and stable where the normal
    equations, which square the condition, are not."""
    norms = np.sqrt(np.asarray(A.multiply(A.conj()).sum(axis=0)).ravel().real)
    norms = np.where(norms > 0, norms, 1.0)
    A = A @ scipy.sparse.diags(1 / norms)
    rows, columns = A.shape
    solve = _sparse(
        scipy.sparse.bmat([[_SOFT * scipy.sparse.identity(rows), A], [A.conj().T, None]], format="csr")
    )
    return lambda r: solve(np.concatenate([r, np.zeros(columns)]))[rows:] / norms


def _least_squares_dense(A: Sparse) -> Solve:
    Q, R = scipy.linalg.qr(A.toarray(), mode="economic", check_finite=False)
    return lambda r: scipy.linalg.solve_triangular(R, Q.conj().T @ r, check_finite=False)
