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

from .inverse import Both, factorise

_LARGE = 500
_DEPENDENT = 1e-13  # the smallest pivot beside the largest

Block = dict[int, np.ndarray]  # (rows, N), real, by the power of the shift


class Normal:
    """`Normal(blocks)(shift)`: the least squares with Σ_a shift^a A_a, and the transpose of that map.
    `blocks` are of each condition."""

    def __init__(self, blocks: Sequence[Block]):
        self.blocks = [block for block in blocks if block]
        with _all_cores(self.blocks):
            self._products = [
                {(a, b): A.T @ B for a, A in block.items() for b, B in block.items() if a <= b}
                for block in self.blocks
            ]
        self._counts = [len(next(iter(block.values()))) for block in self.blocks]

    def __call__(self, shift: complex = 1.0) -> Both:
        grams = [_gram(products, shift) for products in self._products]
        sizes = [float(np.trace(G).real) / n for G, n in zip(grams, self._counts, strict=True)]
        weights = [1 / size if size > 0 else 1.0 for size in sizes]
        gram = reduce(np.add, [w * G for w, G in zip(weights, grams, strict=True)])
        norms = np.sqrt(np.diag(gram).real)
        norms = np.where(norms > 0, norms, 1.0)
        gram /= np.outer(norms, norms)
        rows = np.repeat(weights, self._counts)
        try:
            with _all_cores(self.blocks):
                factor = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return self._by_rows(shift, rows)
        if not np.abs(np.diag(factor[0])).min() ** 2 > _DEPENDENT:
            return self._by_rows(shift, rows)
        inner = lambda y: scipy.linalg.cho_solve(factor, y / norms, check_finite=False) / norms

        def solve(r: np.ndarray) -> np.ndarray:
            x = inner(self._back(shift, rows * r))
            return x + inner(self._back(shift, rows * (r - self._apply(shift, x))))

        def back(x: np.ndarray) -> np.ndarray:  # (2P − P M P)ᵀ, P being `inner` after rows
            once = lambda y: rows * self._apply(shift, inner(y.conj())).conj()
            y = once(x)
            return y + once(x - self._back(shift, y.conj()).conj())

        return solve, back

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

    def _by_rows(self, shift: complex, weights: np.ndarray) -> Both:
        whole = [sum(shift**a * A for a, A in block.items()) for block in self.blocks]
        with _all_cores(self.blocks):
            return factorise(np.concatenate(whole), 1 / np.sqrt(weights))


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
