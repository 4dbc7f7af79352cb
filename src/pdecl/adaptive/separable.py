"""Direct solves on a grid where the equation is a sum of operators along one coordinate each.

Each of them is diagonalised; in the products of their eigenvectors the sum is a division (Lynch, Rice
and Thomas, 1964). Values given on faces are eliminated before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy

from .inverse import SINGULAR, Both, Singular
from .pieces import Sparse
from .space import is_inside

_STEADY = 1e-12  # beside the largest slope
_TOUCHES = 1e-13  # beside the largest entry of the faces' rows
_SKEW = 1e8  # condition of eigenvectors
_SINGULAR = 1e-13

Line = tuple[np.ndarray, np.ndarray, np.ndarray]  # eigenvalues, from eigenvectors, to them


@dataclass(frozen=True)
class Term:
    """slope · (D/h)^`march` ⊗ the tables (nodes, functions) along each line."""

    march: int
    slope: float
    tables: list[np.ndarray]


@dataclass(frozen=True)
class Separable:
    """`separable(shift)`: the solve with Σ_a shift^a A_a, and with its transpose.

    - `alone`, `steep`: the terms of the equation without derivatives in space, and with.
    - `inner`: the functions that vanish where values are given, (N,).
    - `faces`: the rows there; `rows` are those inside.
    - `lines`: of each coordinate the operator, diagonalised.
    """

    alone: list[Term]
    steep: list[Term]
    inner: np.ndarray
    faces: Sparse
    rows: slice
    lines: list[Line]

    @cached_property
    def _given(self) -> Any:
        return scipy.sparse.linalg.splu(self.faces[:, ~self.inner].tocsc())

    @cached_property
    def _outside(self) -> np.ndarray:
        outside = np.ones(len(self.inner), bool)
        outside[self.rows] = False
        return outside

    def __call__(self, shift: complex) -> Both:
        spread = reduce(np.add.outer, [values for values, _, _ in self.lines])
        divisor = spread + sum(term.slope * shift**term.march for term in self.alone)
        if not np.abs(divisor).min() > _SINGULAR * np.abs(divisor).max():
            raise Singular(SINGULAR)
        into, out_of = [q for _, _, q in self.lines], [p for _, p, _ in self.lines]
        turned = lambda matrices: [matrix.T for matrix in matrices]
        slopes = [(term.slope * shift**term.march, term.tables) for term in self.alone + self.steep]
        shape = [table.shape for table in slopes[0][1]]
        nodes, sizes = ([s[k] for s in shape] for k in (0, 1))

        def through(first: list[np.ndarray], second: list[np.ndarray], x: np.ndarray) -> np.ndarray:
            y = _products(second, _products(first, x.reshape(nodes)) / divisor).ravel()
            return y.real if np.isreal(shift) and np.isrealobj(x) else y

        def total(of: Any, box: np.ndarray) -> np.ndarray:
            return np.asarray(sum(g * _products(of(tables), box) for g, tables in slopes)).ravel()

        def solve(r: np.ndarray) -> np.ndarray:
            x = np.zeros(len(self.inner), np.result_type(r, np.asarray(shift)))
            x[~self.inner] = _each_part(self._given.solve, r[self._outside])
            inside = r[self.rows]
            if x.any():
                box = x.reshape(sizes)
                inside = inside - total(lambda tables: tables, box)
            x[self.inner] = through(into, out_of, inside)
            return x

        def back(w: np.ndarray) -> np.ndarray:
            r = np.zeros(len(self.inner), np.result_type(w, np.asarray(shift)))
            r[self.rows] = through(turned(out_of), turned(into), w[self.inner])
            box = r[self.rows].reshape(nodes)
            rest = (w - total(turned, box))[~self.inner]
            r[self._outside] = _each_part(lambda y: self._given.solve(y, "T"), rest)
            return r

        return solve, back


def separable(space: Any, slopes: Sequence[np.ndarray]) -> Separable | None:
    """For one unknown with one steady equation inside and values given on faces; None for any other."""
    places = [space.reading.problem.conditions[i].on for i in space.reading.rest]
    insides = [k for k, on in enumerate(places) if is_inside(on)]
    if len(space.unknowns) > 1 or len(insides) != 1:
        return None
    (k,), lines = insides, space.lines[space.unknowns[0]]
    g, entries = slopes[k], space.reading.entries[space.reading.rest[k]]
    if g.shape[1] != 1 or not np.ptp(g, axis=0).max() <= _STEADY * np.abs(g).max():
        return None
    terms: tuple[list[Term], list[Term]] = ([], [])
    for entry, slope in zip(entries, g[0, 0], strict=True):
        orders, march = [entry.axes.count(a) for a in space.axes], space.reading.march_count(entry)
        if sum(map(bool, orders)) > 1 or (any(orders) and march):
            return None
        tables = [line.table(line.nodes, n).toarray() for line, n in zip(lines, orders, strict=True)]
        terms[any(orders)].append(Term(march, float(slope), tables))
    first = sum(x.shape[0] * x.shape[1] for x in slopes[:k])
    others = [j for j in range(len(slopes)) if j != k]
    faces = space.matrices(slopes, others)
    inner = _inner(faces.get(0), [line.size for line in lines], [len(line.nodes) for line in lines])
    if inner is None or set(faces) != {0}:
        return None
    made = [_line(terms[1], p, inner[p], lines[p]) for p in range(len(lines))]
    if any(np.linalg.cond(vectors) > _SKEW for _, _, vectors in made):
        return None
    whole = reduce(np.logical_and.outer, inner).ravel()
    return Separable(*terms, whole, faces[0], slice(first, first + len(g)), made)


def _line(steep: list[Term], p: int, inner: np.ndarray, line: Any) -> Line:
    """The operator along a line, on values at its nodes, diagonalised."""
    back = np.linalg.inv(line.table(line.nodes, 0).toarray()[:, inner])
    plain = line.table(line.nodes, 0).toarray()
    own = [t for t in steep if not np.array_equal(t.tables[p], plain)]
    operator = sum((t.slope * t.tables[p][:, inner] for t in own), np.zeros_like(back)) @ back
    values, vectors = np.linalg.eig(operator)
    return values, back @ vectors, np.linalg.inv(vectors)


def _inner(faces: Sparse | None, sizes: list[int], nodes: list[int]) -> list[np.ndarray] | None:
    """Along each line the functions that rows of faces do not touch: as many as nodes, or None."""
    if faces is None:
        return None
    size = np.asarray(abs(faces).max(axis=0).todense()).reshape(sizes)
    free = size <= _TOUCHES * size.max()
    others = lambda p: tuple(q for q in range(len(sizes)) if q != p)
    lines = [free.any(axis=others(p)) for p in range(len(sizes))]
    if [int(line.sum()) for line in lines] != nodes:
        return None
    product = np.array_equal(free, reduce(np.logical_and.outer, lines))
    return lines if product and free.size - free.sum() == faces.shape[0] else None


def _products(matrices: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    for p, matrix in enumerate(matrices):
        x = np.moveaxis(np.tensordot(matrix, x, (1, p)), 0, p)
    return x


def _each_part(solve: Any, x: np.ndarray) -> np.ndarray:
    """A real solve, for complex numbers too."""
    return solve(x) if np.isrealobj(x) else solve(x.real.copy()) + 1j * solve(x.imag.copy())
