"""Least squares with full matrices by normal equations, whose products serve all shifts.

The rows of each condition are divided by the root mean square of their norms. What normal equations
lose, refinement by the rows' own residual makes good; where that is too much, QR is left.
"""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from functools import reduce
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

from .inverse import Both, Singular

_LARGE = 500
_DEPENDENT = 1e-13  # the smallest pivot beside the largest

Block = dict[int, np.ndarray]  # (rows, N), real, by the power of the shift


class Normal:
    """`Normal(blocks)(shift)`: the least squares with Σ_a shift^a A_a, and the transpose of that map.
    `blocks` are of each condition, and are multiplied by the inverse of `_triangle` if there is one."""

    def __init__(self, blocks: Sequence[Block]):
        self.blocks = [block for block in blocks if block]
        self._counts = [len(next(iter(block.values()))) for block in self.blocks]
        self._triangle: np.ndarray | None = None
        self._products = self._multiplied()
        self._traces = [{ab: np.asarray(np.trace(P)) for ab, P in one.items()} for one in self._products]

    def __call__(self, shift: complex = 1.0) -> Both:
        sizes = [_gram(t, shift).real / n for t, n in zip(self._traces, self._counts, strict=True)]
        weights = [1 / float(size) if size > 0 else 1.0 for size in sizes]
        factor, norms = self._factored(shift, weights)
        if factor is None:
            self._turn(shift, weights)
            factor, norms = self._factored(shift, weights)
        if factor is None:
            raise Singular("the equations are singular: conditions repeat or contradict each other")
        rows, triangle = np.repeat(weights, self._counts), self._triangle
        inner = lambda y: scipy.linalg.cho_solve(factor, y / norms, check_finite=False) / norms

        def solve(r: np.ndarray) -> np.ndarray:
            x = inner(self._back(shift, rows * r))
            return _upper(triangle, x + inner(self._back(shift, rows * (r - self._apply(shift, x)))))

        def back(x: np.ndarray) -> np.ndarray:  # (2P − P M P)ᵀ, P being `inner` after rows
            x = _upper(triangle, x, "T")
            once = lambda y: rows * self._apply(shift, inner(y.conj())).conj()
            y = once(x)
            return y + once(x - self._back(shift, y.conj()).conj())

        return solve, back

    def _multiplied(self) -> list[dict[tuple[int, int], np.ndarray]]:
        with _all_cores(self.blocks):
            return [
                {(a, b): A.T @ B for a, A in block.items() for b, B in block.items() if a <= b}
                for block in self.blocks
            ]

    def _factored(self, shift: complex, weights: list[float]) -> tuple[Any, np.ndarray]:
        """Cholesky's factor of the products with columns of norm one, and these norms; none where
        columns depend on each other as far as the products can tell."""
        grams = [_gram(products, shift) for products in self._products]
        gram = reduce(np.add, [w * G for w, G in zip(weights, grams, strict=True)])
        norms = np.sqrt(np.diag(gram).real)
        norms = np.where(norms > 0, norms, 1.0)
        gram /= np.outer(norms, norms)
        try:
            with _all_cores(self.blocks):
                factor = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None, norms
        return (factor if np.abs(np.diag(factor[0])).min() ** 2 > _DEPENDENT else None), norms

    def _turn(self, shift: complex, weights: list[float]) -> None:
        """To columns that are orthonormal for the real shift of this size: then products lose nothing,
        for other shifts of such a size either."""
        size = abs(shift)
        whole = [
            w**0.5 * sum(size**a * A for a, A in block.items())
            for w, block in zip(weights, self.blocks, strict=True)
        ]
        with _all_cores(self.blocks):
            (R,) = scipy.linalg.qr(np.concatenate(whole), mode="r", check_finite=False)
            n = R.shape[1]
            R = np.triu(R[:n])
            if len(R) < n or not np.abs(np.diag(R)).min() > 0:
                raise Singular("the equations are singular: conditions are missing, or repeat")
            self.blocks = [{a: _upper(R, A.T, "T").T for a, A in block.items()} for block in self.blocks]
        self._triangle = R if self._triangle is None else R @ self._triangle
        self._products = self._multiplied()

    def _apply(self, shift: complex, x: np.ndarray) -> np.ndarray:
        return np.concatenate(
            [sum(shift**a * _product(A, x) for a, A in block.items()) for block in self.blocks]
        )

    def _back(self, shift: complex, r: np.ndarray) -> Any:
        """The product with the adjoint."""
        parts = np.split(r, np.cumsum(self._counts)[:-1])
        return sum(
            np.conj(shift) ** a * _product(A.T, part)
            for block, part in zip(self.blocks, parts, strict=True)
            for a, A in block.items()
        )


def _upper(R: np.ndarray | None, x: np.ndarray, trans: str = "N") -> np.ndarray:
    """R⁻¹ x or R⁻ᵀ x."""
    return x if R is None else scipy.linalg.solve_triangular(R, x, trans=trans, check_finite=False)


def _all_cores(blocks: list[Block]) -> Any:
    """Products and factors of large matrices by all cores: a solve keeps to one, which small ones are
    fastest on."""
    columns = max((A.shape[1] for block in blocks for A in block.values()), default=0)
    return threadpool_limits(os.cpu_count(), "blas") if columns > _LARGE else nullcontext()


def _product(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Of a real matrix, which is not made complex for a complex vector."""
    return A @ x if np.isrealobj(x) else A @ x.real + 1j * (A @ x.imag)


def _gram(products: dict[tuple[int, int], np.ndarray], shift: complex) -> np.ndarray:
    """Σ_ab conj(shift)^a shift^b A_aᵀ A_b."""
    total: Any = 0.0
    for (a, b), product in products.items():
        factor = np.conj(shift) ** a * shift**b
        total = total + factor * product
        if a != b:
            total = total + np.conj(factor) * product.T
    return np.asarray(total)
