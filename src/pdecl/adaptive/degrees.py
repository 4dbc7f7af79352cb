"""Products of polynomials up to a total degree, for four coordinates and more: far fewer than a grid's.

More rows than functions, at points of low discrepancy; where they are dense enough any points serve.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import jax
import numpy as np
from numpy.polynomial import legendre

from ..state.condition import located
from .inverse import Inverse
from .normal import Normal
from .rows import Equations
from .slab import Start
from .space import Coefficients, Space, is_inside
from .start import Starter

# Rows at 2 N points inside and 0.15 N on each face.
_INSIDE, _FACE = 2.0, 0.15
_AROUND = 1.0  # on the boundary of a shape
_SAMPLE = 4000


class Polynomials:
    """Polynomials whose derivatives of order `order`, the highest that conditions read, are Legendre
    polynomials: rows of that order are then well conditioned. Of a `sample` of where the points of a
    shape are: polynomials that are orthonormal there. A ball of five dimensions is a sixth of its box,
    and what is orthogonal over the box is nearly dependent in the ball."""

    def __init__(
        self, bounds: tuple[float, float], size: int, order: int, sample: np.ndarray | None = None
    ):
        (self.low, self.high), self.size, self.order = bounds, size, order
        self._turn: np.ndarray | None = None
        if sample is not None:
            self.order = 0
            values = legendre.legvander(self._unit(sample), size - 1) / np.sqrt(len(sample))
            R = np.linalg.qr(values, mode="r")
            self._turn = np.linalg.inv(np.sign(np.diag(R))[:, None] * R)

    def table(self, x: np.ndarray, derivative: int) -> np.ndarray:
        scale = 2.0 / (self.high - self.low)
        values = legendre.legvander(self._unit(x), self.size)
        matrix = _legendre_of(self.size, self.order, derivative)
        return scale**derivative * (values @ (matrix if self._turn is None else matrix @ self._turn))

    @cached_property
    def spectrum(self) -> np.ndarray:
        if self._turn is not None:
            return np.eye(self.size)
        matrix = _legendre_of(self.size, self.order, 0)[: self.size]
        return matrix / np.sqrt(2 * np.arange(self.size) + 1)[:, None]

    def _unit(self, x: np.ndarray) -> np.ndarray:
        return (x - self.low) * (2.0 / (self.high - self.low)) - 1


class Degrees(Space):
    """`degree`: of the rows of the highest derivative; with b conditions at the ends of a coordinate the
    functions have total degree below degree + b."""

    def __init__(self, equations: Equations, degree: int):
        super().__init__(equations)
        self.lines = {u: [self._line(u, axis, degree) for axis in self.axes] for u in self.unknowns}
        self.index = {
            u: _below(max(line.size for line in lines), lines) for u, lines in self.lines.items()
        }
        self.allot({u: len(index) for u, index in self.index.items()})
        self.points = [self._place(i) for i in self.reading.rest]
        self._normal: tuple[list[np.ndarray], Normal] | None = None

    def values(self, u: str, coords: np.ndarray, orders: tuple[int, ...]) -> np.ndarray:
        lines = [
            line.table(coords[:, axis], order)
            for line, axis, order in zip(self.lines[u], self.axes, orders, strict=True)
        ]
        # Products of the first coordinates, then of one more: few columns but for the last.
        index, out = self.index[u], lines[0]
        known = np.arange(out.shape[1])[:, None]
        for p in range(1, len(lines)):
            wanted, back = np.unique(index[:, : p + 1], axis=0, return_inverse=True)
            rank = {tuple(row): j for j, row in enumerate(known)}
            parents = [rank[tuple(row[:-1])] for row in wanted]
            out, known = out[:, parents] * lines[p][:, wanted[:, -1]], wanted
        return out[:, back.ravel()] if len(lines) > 1 else out[:, index[:, 0]]

    def matrices(
        self, slopes: Sequence[np.ndarray], some: Sequence[int] | None = None
    ) -> dict[int, np.ndarray]:
        """As arrays: no entry is zero."""
        some = range(len(slopes)) if some is None else some
        tops = np.cumsum([0] + [slopes[k].shape[0] * slopes[k].shape[1] for k in some])
        out: dict[int, np.ndarray] = {}
        for top, k in zip(tops, some, strict=False):
            n = len(slopes[k])
            for e, entry in enumerate(self.reading.entries[self.reading.rest[k]]):
                if not slopes[k][:, :, e].any():
                    continue
                whole = out.setdefault(self.reading.march_count(entry), np.zeros((tops[-1], self.size)))
                for r in range(slopes[k].shape[1]):
                    rows = slice(top + r * n, top + (r + 1) * n)
                    slope = slopes[k][:, r, e, None]
                    whole[rows, self.shares[entry.unknown]] += slope * self.table(k, entry)
        return out

    def inverse(self, slopes: Sequence[np.ndarray], s: int, h: float) -> Inverse:
        """With least squares whose products serve all slabs with the same slopes."""
        if self._normal is None or not all(map(np.array_equal, self._normal[0], slopes)):
            blocks = [self.matrices(slopes, [k]) for k in range(len(slopes))]
            self._normal = list(slopes), Normal(blocks)
        return Inverse(self._normal[1], s, h, None, self.near)

    def start(self, starter: Starter) -> Start:
        """Polynomials that agree best with the start at points inside."""
        domain = self.reading.problem.domain
        x = np.asarray(domain.interior.draw(None, 3 * self.size).coords)
        values, out = starter.values(x[:, self.axes], self.axes), {}
        for u in self.unknowns:
            wanted = [j for j, (v, _) in enumerate(starter.slots) if v == u]
            table = self.values(u, x, (0,) * len(self.axes))
            fit, _ = Normal([{0: table}])()
            out[u] = [fit(column) for column in values[:, wanted].T]
        return out

    def spectrum(self, u: str, coefficients: np.ndarray) -> np.ndarray:
        shape = [line.size for line in self.lines[u]]
        x = np.zeros((*coefficients.shape[:-1], *shape))
        x[(..., *self.index[u].T)] = coefficients
        for p, line in enumerate(self.lines[u]):
            axis = coefficients.ndim - 1 + p
            x = np.moveaxis(np.tensordot(line.spectrum, x, (1, axis)), 0, axis)
        return x

    def convert(self, other: "Degrees", coefficients: Coefficients) -> Coefficients:
        """The same polynomials, cut or with zeros for the degrees that are new: the functions of a
        smaller degree are functions of a larger one, in the same order along each coordinate."""
        out = {}
        for u, c in coefficients.items():
            mine, theirs = self.index[u], other.index[u]
            place = {tuple(k): j for j, k in enumerate(theirs)}
            both = [(j, place[tuple(k)]) for j, k in enumerate(mine) if tuple(k) in place]
            here, there = np.asarray(both).T
            out[u] = np.zeros((*c.shape[:-1], len(mine)))
            out[u][..., here] = c[..., there]
        return out

    def _line(self, u: str, axis: int, degree: int) -> Polynomials:
        ends = sum(self.reading.ends.get((u, axis, side), 0) for side in (0, 1))
        if self.reading.shape is not None:
            ends = self.reading.orders[u][axis]
        order = max(1, self.reading.orders[u][axis])
        domain, sample = self.reading.problem.domain, None
        if self.reading.shape is not None:
            sample = np.asarray(domain.interior.draw(None, _SAMPLE).coords)[:, axis]
        return Polynomials(domain.bounds[axis], degree + ends, order, sample)

    def _place(self, index: int) -> dict[str, Any]:
        """Points of low discrepancy, half way to the density of Chebyshev points."""
        reading, on = self.reading, self.reading.problem.conditions[index].on
        if not hasattr(on, "sides"):
            return self.given_points(index)
        shape = reading.shape is not None
        count = round(_INSIDE * self.size) if is_inside(on) else round(_FACE * self.size) * len(on.sides)
        if shape and not is_inside(on):
            count = round(_AROUND * self.size)
        where = jax.tree.map(np.asarray, located(on.draw(None, max(count, len(on.sides)))))
        low, high = np.asarray(reading.problem.domain.bounds).T
        x = where["coords"]
        if shape:
            still = np.arange(x.shape[1]) == reading.marched
            return where | {"coords": np.where(still, 0.0, x)}
        bent = low + (high - low) * (1 - np.cos(np.pi * (x - low) / (high - low))) / 2
        coords = 0.5 * bent + 0.5 * x
        if reading.marched is not None:
            coords[:, reading.marched] = 0.0
        return where | {"coords": coords}


def _below(degree: int, lines: list[Polynomials]) -> np.ndarray:
    grid = np.indices([line.size for line in lines]).reshape(len(lines), -1).T
    return grid[grid.sum(axis=1) < degree]


@lru_cache(maxsize=256)
def _legendre_of(size: int, order: int, derivative: int) -> np.ndarray:
    """Legendre coefficients (size + 1, size) of a derivative of each function: the first `order`
    functions are Legendre polynomials, the others are integrated `order` times."""
    if derivative > order:
        top = legendre.legder(_legendre_of(size, order, order), derivative - order, axis=0)
        return np.concatenate([top, np.zeros((size + 1 - len(top), size))])
    out = np.zeros((size + 1, size))
    for k in range(min(order, size)):
        one = legendre.legder(np.eye(size + 1)[k], derivative)
        out[: len(one), k] = one
    if size > order:
        grow = np.eye(size + 2 * order + 2, size - order)
        for _ in range(
            order - derivative
        ):  # the antiderivative of P_k is (P_{k+1} − P_{k−1}) / (2k + 1)
            over = grow / (2 * np.arange(len(grow)) + 1)[:, None]
            grow = np.zeros_like(grow)
            grow[1:] += over[:-1]
            grow[:-1] -= over[1:]
        out[:, order:] = grow[: size + 1]
    return out
