"""Factorisations: of one matrix in space, and of a slab's stages as several of them."""

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from .effort import Stop
from .pieces import Sparse
from .stages import is_real, radau

Solve = Callable[[np.ndarray], np.ndarray]
Both = tuple[Solve, Solve]  # with a matrix, and with its transpose
# A sparse matrix with more than this share of entries (2D and 3D) is factored faster as a dense one, up
# to this many functions.
_FULL, _DENSE = 0.04, 6000
_SOFT = 1e-3
# With more functions than these, and rows this wide (not in 1D, where factors are as narrow), one real
# factorisation serves all stages and lengths, as a preconditioner; it is made anew where it takes more
# steps than these, and left where it takes many.
_LARGE, _WIDE, _STEPS, _MANY_STEPS = 700, 50, 30, 100
_ACCURACY = 1e-10
SINGULAR = "the equations are singular: conditions repeat or contradict each other"


class Failed(Exception):
    """This slab, or level, cannot be solved as it is: it says why."""


class Singular(Failed):
    """Its linear equations have no solution, or many."""


class Inverse:
    """The solve with Σ_a (D/h)^a ⊗ A_a, the matrices A_a in space alone.

    With D = S diag(ν) S⁻¹ it is a sparse complex system for each conjugate pair of eigenvalues:
    (Σ_a (ν/h)^a A_a) x̂ = (S⁻¹R)_ν,  Z = 2 Re Σ S_ν x̂_ν, and a real ν once. Large ones are solved by
    GMRES with the inverse for a real ν of their size, which is kept in `near`. Instead of matrices: what
    solves for each ν/h by itself.
    """

    slopes: list[np.ndarray]  # of the conditions that it was made for

    def __init__(
        self,
        matrices: "dict[int, Any] | Callable[[complex], Both]",
        s: int,
        h: float,
        sizes: np.ndarray | None,
        near: list[Both],
    ):
        self.h, self._stages, self._factors = h, radau(s), list[Both]()
        if not isinstance(matrices, dict):
            self._factors = [matrices(shift / h) for shift in map(_shift, self._stages.rates)]
            return
        shifted = lambda shift: sum(shift**a * A for a, A in matrices.items())
        rows, columns = next(iter(matrices.values())).shape
        entries = max(getattr(A, "nnz", rows * columns) for A in matrices.values())
        large = rows == columns > _LARGE and entries > _WIDE * rows and s > 1
        if large and not near:
            middle = np.exp(np.log(np.abs(self._stages.rates)).mean()) / h
            near.append(factorise(shifted(middle)))
        for rate in self._stages.rates:
            M = shifted(_shift(rate) / h)
            self._factors.append(_by_steps(M, near) if large else factorise(M, sizes))

    def __call__(self, R: np.ndarray) -> np.ndarray:
        stages = self._stages
        return self._sum(stages.dual, stages.vectors.T, [solve for solve, _ in self._factors], R)

    def transposed(self, Z: np.ndarray) -> np.ndarray:
        """The transpose of the map from R to Z."""
        stages = self._stages
        return self._sum(stages.vectors.T, stages.dual, [back for _, back in self._factors], Z)

    def _sum(
        self, into: np.ndarray, out_of: np.ndarray, solves: list[Solve], x: np.ndarray
    ) -> np.ndarray:
        total, hat = np.zeros(()), into @ x
        for rate, solve, y, vector in zip(self._stages.rates, solves, hat, out_of, strict=True):
            once = is_real(rate)
            term = np.outer(vector, solve(y.real if once else y))
            total = total + (term.real if once else 2 * term.real)
        return total


def _shift(rate: complex) -> complex:
    return rate.real if is_real(rate) else rate


def factorise(M: Any, sizes: np.ndarray | None = None) -> Both:
    """The solve with M, and the transpose of that map; each row divided by its largest entry. With more
    rows than columns the least squares, rows divided by `sizes`."""
    rows, columns = M.shape
    if rows < columns:
        raise Singular(f"the conditions give {rows} rows for {columns} functions: some are missing")
    if isinstance(M, np.ndarray):
        size = np.abs(M).max(axis=1) if sizes is None else sizes
        size = np.where(size > 0, size, 1.0)
        solve, back = _least_squares_dense(M / size[:, None])
        return lambda r: solve((r.T / size).T), lambda x: (back(x).T / size).T
    largest = abs(M).max(axis=1).toarray().ravel()
    size = largest if sizes is None or rows == columns else sizes
    size = np.where(size > 0, size, 1.0)
    scaled = scipy.sparse.diags(1 / size) @ M
    if not np.isfinite(scaled.data).all():
        raise Failed("an equation is not finite")
    if rows > columns:
        solve, back = (
            _least_squares_dense(scaled.toarray())
            if scaled.nnz > 0.5 * rows * columns
            else _least_squares(scaled)
        )
    elif rows < _DENSE and scaled.nnz > _FULL * rows**2:
        solve, back = _dense(scaled.toarray())
    else:
        solve, back = _sparse(scaled)
    return lambda r: solve((r.T / size).T), lambda x: (back(x).T / size).T


def _by_steps(M: Sparse, near: list[Both]) -> Both:
    """The solve with M by GMRES with a solve nearby. As long as M has the same sign of real part for all
    of its spectrum, in time and space, it takes about ten steps."""
    solve, back = near[0]
    directly: list[Both] = []

    def by(which: int, A: Sparse, precondition: Solve, r: np.ndarray) -> np.ndarray:
        if not directly:
            count: list[float] = []
            real = M.dtype.kind != "c" and r.dtype.kind != "c"
            apply = precondition if real else _complex(precondition)
            matrix = scipy.sparse.linalg.LinearOperator(
                A.shape, lambda x: apply(A @ x), dtype=float if real else complex
            )
            x, failed = scipy.sparse.linalg.gmres(
                matrix, apply(r), rtol=_ACCURACY, restart=_MANY_STEPS, maxiter=1, callback=count.append,
                callback_type="pr_norm",
            )  # fmt: skip
            if len(count) > _STEPS:
                near.clear()
            if not failed:
                return x
            directly.append(factorise(M))
        return directly[0][which](r)

    T = M.T.tocsr()
    return lambda r: by(0, M, solve, r), lambda x: by(1, T, back, x)


def _complex(solve: Solve) -> Solve:
    """A real solve for complex right-hand sides."""

    def both(r: np.ndarray) -> np.ndarray:
        x = solve(np.stack([r.real, r.imag], axis=1))
        return x[:, 0] + 1j * x[:, 1]

    return both


def _sparse(A: Sparse) -> Both:
    try:
        factors = scipy.sparse.linalg.splu(A.tocsc())
    except RuntimeError as error:  # "Factor is exactly singular"
        raise Singular(SINGULAR) from error
    return factors.solve, lambda x: factors.solve(x, "T")


def _dense(A: np.ndarray) -> Both:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if 2 * A.nbytes > free:
        raise Stop(
            f"{len(A)} functions: a factorisation needs {2 * A.nbytes / 1e9:.1f} GB of memory, and "
            f"{free / 1e9:.1f} GB are free."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
        try:
            factors = scipy.linalg.lu_factor(A, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgWarning as error:
            raise Singular(SINGULAR) from error
    solve = lambda r, trans=0: scipy.linalg.lu_solve(factors, r, trans, check_finite=False)
    return solve, lambda x: solve(x, 1)


def _least_squares(A: Sparse) -> Both:
    """By the augmented system [αI A; Aᴴ 0] with columns of norm one: sparse, and stable where the normal
    equations, which square the condition, are not."""
    norms = np.sqrt(np.asarray(A.multiply(A.conj()).sum(axis=0)).ravel().real)
    norms = np.where(norms > 0, norms, 1.0)
    A = A @ scipy.sparse.diags(1 / norms)
    rows, columns = A.shape
    # SuperLU would find out too, but writes lines of LAPACK's about it before.
    if scipy.sparse.csgraph.structural_rank(A) < columns:
        raise Singular(SINGULAR)
    solve, back = _sparse(
        scipy.sparse.bmat([[_SOFT * scipy.sparse.identity(rows), A], [A.conj().T, None]], format="csr")
    )
    return (
        lambda r: solve(np.concatenate([r, np.zeros(columns)]))[rows:] / norms,
        lambda x: back(np.concatenate([np.zeros(rows), x / norms]))[:rows],
    )


def _least_squares_dense(A: np.ndarray) -> Both:
    Q, R = scipy.linalg.qr(A, mode="economic", check_finite=False)
    solve = lambda r, trans=0: scipy.linalg.solve_triangular(R, r, trans, check_finite=False)
    return lambda r: solve(Q.conj().T @ r), lambda x: Q.conj() @ solve(x, 1)
