"""One coordinate's functions: piecewise polynomials (B-splines) on a dyadic mesh, and the mesh.

With κ Gauss nodes in each of E pieces, where the equation holds, and b conditions at the ends, functions
of degree κ + b − 1 with b − 1 continuous derivatives are E·κ + b: as many as there are rows (collocation
at Gauss points, de Boor and Swartz).
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy

# Breaks are integers, in units of the length over 2^30, so that halves and siblings are exact.
Breaks = tuple[int, ...]
Sparse = Any  # a matrix of scipy.sparse, which `import scipy` loads when it is first used
_WHOLE = 2**30


class Pieces:
    """B-splines of degree κ + `smooth` − 1 with `smooth` − 1 continuous derivatives, κ the multiplicity
    of inner knots; periodic ones are as smooth across the seam.

    - `nodes`: `count` Gauss points in each piece.
    - `edges`: the nodes, with each end that carries conditions: where faces of other coordinates have
      rows.
    - `samples`: Greville points, at which values determine the functions.
    """

    def __init__(
        self,
        bounds: tuple[float, float],
        breaks: Breaks,
        count: int,
        multiplicity: int,
        smooth: int,
        periodic: bool,
        carries: Sequence[bool],
    ):
        self.low, self.high = bounds
        self.points = self.low + (self.high - self.low) * np.asarray(breaks) / _WHOLE
        self.degree = multiplicity + smooth - 1
        end = np.ones(self.degree + 1)
        inner = np.repeat(self.points[1:-1], multiplicity)
        self.knots = np.concatenate([self.low * end, inner, self.high * end])
        self.open = len(self.knots) - self.degree - 1
        self.size = self.open - (smooth if periodic else 0)
        gauss = (scipy.special.roots_legendre(count)[0] + 1) / 2
        self.nodes = (self.points[:-1, None] + np.diff(self.points)[:, None] * gauss).ravel()
        ends = [[x] if here else [] for x, here in zip(bounds, carries, strict=True)]
        self.edges = np.concatenate([ends[0], self.nodes, ends[1]])
        self._fold = self._seam(smooth) if periodic else None
        averages = [self.knots[i + 1 : i + self.degree + 1].mean() for i in range(self.open)]
        self.samples = np.asarray(averages)[: self.size]

    @property
    def pieces(self) -> int:
        return len(self.points) - 1

    def table(self, x: np.ndarray, derivative: int) -> Sparse:
        """(points, functions): a derivative of each function at each point."""
        out = self._open_table(x, derivative)
        return out if self._fold is None else (out @ self._fold).tocsr()

    @cached_property
    def spectrum(self) -> Sparse:
        """To Legendre coefficients in each piece, times the root of its share of the length: squares add
        up to the mean square over the coordinate."""
        q = self.degree + 1
        x, _ = scipy.special.roots_legendre(q)
        norms = np.sqrt(2 * np.arange(q) + 1)
        inverse = np.linalg.inv(np.polynomial.legendre.legvander(x, q - 1)) / norms[:, None]
        lengths = np.diff(self.points)
        at = (self.points[:-1, None] + lengths[:, None] * (x + 1) / 2).ravel()
        share = scipy.sparse.diags(np.sqrt(lengths / (self.high - self.low)))
        return (scipy.sparse.kron(share, inverse) @ self.table(at, 0)).tocsr()

    def from_samples(self, values: np.ndarray) -> np.ndarray:
        """Coefficients from values at `samples`."""
        return self._sampled.solve(np.ascontiguousarray(values))

    def from_samples_transposed(self, weights: np.ndarray) -> np.ndarray:
        return self._sampled.solve(np.ascontiguousarray(weights), "T")

    @cached_property
    def _sampled(self) -> Any:
        return scipy.sparse.linalg.splu(self.table(self.samples, 0).tocsc())

    def _open_table(self, x: np.ndarray, derivative: int) -> Sparse:
        """Without periodicity. A derivative of a spline has the scaled differences of its
        coefficients."""
        x = np.clip(np.asarray(x, float), self.low, self.high)
        change, knots, degree = scipy.sparse.identity(self.open, format="csr"), self.knots, self.degree
        for _ in range(derivative):
            if degree == 0:
                return scipy.sparse.csr_matrix((len(x), self.open))
            n = len(knots) - degree - 1
            span = knots[degree + 1 : degree + n] - knots[1:n]
            w = degree / np.where(span > 0, span, np.inf)
            change = scipy.sparse.diags([-w, w], [0, 1], shape=(n - 1, n)).tocsr() @ change
            knots, degree = knots[1:-1], degree - 1
        return scipy.interpolate.BSpline.design_matrix(x, knots, degree).tocsr() @ change

    def _seam(self, smooth: int) -> Sparse:
        """The last functions by the first, so that derivatives below `smooth` agree at the two ends."""
        ends = np.array([self.low, self.high])
        tables = [self._open_table(ends, j).toarray() for j in range(smooth)]
        first = np.array([table[0, :smooth] for table in tables])
        last = np.array([table[1, -smooth:] for table in tables])
        tail = scipy.sparse.hstack(
            [np.linalg.solve(last, first), scipy.sparse.csr_matrix((smooth, self.size - smooth))],
            format="csr",
        )
        return scipy.sparse.vstack([scipy.sparse.identity(self.size, format="csr"), tail]).tocsr()


def uniform(count: int) -> Breaks:
    """`count` pieces of one length, a power of two."""
    return tuple(range(0, _WHOLE + 1, _WHOLE // count))


def refined(breaks: Breaks, marks: Any) -> Breaks:
    """Marked pieces halved."""
    out = [breaks[0]]
    for a, b, mark in zip(breaks[:-1], breaks[1:], marks, strict=True):
        out += [(a + b) // 2, b] if mark and b - a > 1 else [b]
    return tuple(out)


def merged(breaks: Breaks, marks: Any, may: Callable[[int, int], bool]) -> Breaks:
    """Siblings of the dyadic mesh joined where both are marked and `may(low, high)` allows it."""
    out, i = [breaks[0]], 0
    while i < len(breaks) - 1:
        if _siblings(breaks, i) and marks[i] and marks[i + 1] and may(breaks[i], breaks[i + 2]):
            i += 1
        out.append(breaks[i + 1])
        i += 1
    return tuple(out)


def _siblings(breaks: Breaks, i: int) -> bool:
    """Whether piece i and the next are the halves of one, which is not larger than half the length."""
    size = breaks[i + 1] - breaks[i]
    there = i + 2 < len(breaks) and breaks[i + 2] - breaks[i + 1] == size
    return there and breaks[i] % (2 * size) == 0 and size < _WHOLE // 4
