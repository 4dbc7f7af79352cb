"""Smooth splines on cells of several sizes: hierarchical B-splines.

Every size of cells has the B-splines of its uniform grid. Those count whose support is not in smaller
cells altogether and reaches no larger one, so that functions are small where cells are, and what larger
cells can represent smaller ones can too. On a cell all of them are combinations of the (p + 1)^d
B-splines of its own size.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb
from typing import Any

import numpy as np
import scipy

from ..cells.mesh import Mesh


@lru_cache(maxsize=16)
def _powers(p: int) -> np.ndarray:
    """Coefficients (power, p + 1) of the B-splines on the unit cell, the one that ends there first."""
    old = np.ones((1, 1))
    for q in range(1, p + 1):
        new = np.zeros((q + 1, q + 1))
        for j in range(q + 1):
            if j > 0:  # (t + q − j)/q times the one before
                new[:q, j] += (q - j) / q * old[:, j - 1]
                new[1:, j] += old[:, j - 1] / q
            if j < q:  # (j + 1 − t)/q
                new[:q, j] += (j + 1) / q * old[:, j]
                new[1:, j] -= old[:, j] / q
        old = new
    return old


def line(p: int, t: np.ndarray, order: int) -> np.ndarray:
    """(n, p + 1): a derivative of each B-spline at places t of its cell."""
    powers = _powers(p)
    for _ in range(order):
        powers = np.arange(1, len(powers))[:, None] * powers[1:]
    return np.vander(t, len(powers), increasing=True) @ powers


def table(p: int, t: np.ndarray, orders: tuple[int, ...], sides: np.ndarray) -> np.ndarray:
    """(n, (p + 1)^d): products of them at places t (n, d) of a cell with these sides."""
    out = np.ones((len(t), 1))
    for a, order in enumerate(orders):
        along = line(p, t[:, a], order) / sides[a] ** order
        out = (out[:, :, None] * along[:, None, :]).reshape(len(t), -1)
    return out


@dataclass(frozen=True)
class Level:
    """Cells of one size. `leaves`: their numbers in the mesh; `rows` (leaves, (p + 1)^d): the B-splines
    on each; `combined` (B-splines, functions): what each counts in the functions; `sides`: of a cell."""

    leaves: np.ndarray
    rows: np.ndarray
    combined: Any
    sides: np.ndarray


class Hierarchy:
    """The functions of degree p on the leaves of a mesh that are `inside`: `size` of them, with their
    `places`. `number` tells for each leaf its place among those of its level. `active` are the B-splines
    of each level that count; given, the functions of a mesh of which this one halves cells."""

    def __init__(self, mesh: Mesh, inside: np.ndarray, p: int, active: list[np.ndarray] | None = None):
        self.mesh, self.inside, self.p, self.d = mesh, inside, p, len(mesh.low)
        self.levels: list[Level] = []
        self.active: list[np.ndarray] = []
        self.number = np.full(len(mesh), -1)
        deepest = int(mesh.level[inside].max())
        cells = _with_ancestors(mesh, inside, deepest)
        self._offsets = np.indices([p + 1] * self.d).reshape(self.d, -1).T
        before: tuple[np.ndarray, Any] | None = None
        parts, places, self.size = [], [], 0
        for level in range(deepest + 1):
            leaves = np.flatnonzero(inside & (mesh.level == level))
            self.number[leaves] = np.arange(len(leaves))
            keys = np.unique(self._keys(level, cells[level][:, None] + self._offsets))
            if active is None:
                here = np.unique(self._keys(level, mesh.place[leaves][:, None] + self._offsets))
                here = here[~self._reaches_larger(level, self._indices(level, here))]
            else:
                here = active[level] if level < len(active) else keys[:0]
            self.active.append(here)
            own = scipy.sparse.csr_matrix(
                (np.ones(len(here)), (np.searchsorted(keys, here), np.arange(len(here)))),
                (len(keys), len(here)),
            )
            combined = own
            if before is not None:
                combined = scipy.sparse.hstack([self._halved(level, keys, *before), own], "csr")
            rows = np.searchsorted(keys, self._keys(level, mesh.place[leaves][:, None] + self._offsets))
            sides = (mesh.high - mesh.low) / mesh.counts / 2.0**level
            parts.append((leaves, rows, combined, sides))
            places.append(mesh.low + (self._indices(level, here) + (1 - p) / 2) * sides)
            self.size += len(here)
            before = keys, combined
        self.places = np.concatenate(places)
        for leaves, rows, combined, sides in parts:
            combined = scipy.sparse.csr_matrix(
                (combined.data, combined.indices, combined.indptr), (combined.shape[0], self.size)
            )
            self.levels.append(Level(leaves, rows, combined, sides))

    def values(self, coords: np.ndarray, leaf: np.ndarray, orders: tuple[int, ...]) -> Any:
        """(points, functions): a derivative of each function at points in these leaves."""
        found, rows = [], []
        for number, level in enumerate(self.levels):
            here = np.flatnonzero(self.mesh.level[leaf] == number)
            if not len(here):
                continue
            t = (coords[here] - self.mesh.lows[leaf[here]]) / level.sides
            values = table(self.p, t, orders, level.sides)
            columns = level.rows[self.number[leaf[here]]]
            ends = np.arange(len(here) + 1) * values.shape[1]
            shape = (len(here), level.combined.shape[0])
            sparse = scipy.sparse.csr_matrix((values.ravel(), columns.ravel(), ends), shape)
            found.append(sparse @ level.combined)
            rows.append(here)
        if not found:
            return scipy.sparse.csr_matrix((len(coords), self.size))
        return scipy.sparse.vstack(found, "csr")[np.argsort(np.concatenate(rows))]

    def on_leaves(self, some: np.ndarray) -> np.ndarray:
        """The leaves on which any of these functions is not zero."""
        parts = [
            level.leaves[((level.combined @ some.astype(float)) > 0)[level.rows].any(axis=1)]
            for level in self.levels
        ]
        return np.concatenate(parts)

    def locate(self, coords: np.ndarray) -> np.ndarray:
        """The leaf with functions that each point is in, or the nearest of them."""
        low, high = self.mesh.low, self.mesh.high
        found = self.mesh.locate(np.clip(coords, low, high))
        lost = np.flatnonzero(~self.inside[found])
        if len(lost):
            homes, tree = self._homes
            found[lost] = homes[tree.query(coords[lost])[1]]
        return found

    @cached_property
    def _homes(self) -> tuple[np.ndarray, Any]:
        homes = np.flatnonzero(self.inside)
        return homes, scipy.spatial.cKDTree(self.mesh.middles[homes])

    def _widths(self, level: int) -> np.ndarray:
        return (self.mesh.counts << level) + self.p

    def _keys(self, level: int, index: np.ndarray) -> np.ndarray:
        """One number for each B-spline of a level, by its index along each axis; −1 for none."""
        widths, key = self._widths(level), np.zeros(index.shape[:-1], np.int64)
        for a in range(self.d):
            key = key * widths[a] + index[..., a]
        return np.where(np.all((index >= 0) & (index < widths), axis=-1), key, -1)

    def _indices(self, level: int, keys: np.ndarray) -> np.ndarray:
        return np.stack(np.unravel_index(keys, self._widths(level)), axis=1)

    def _reaches_larger(self, level: int, index: np.ndarray) -> np.ndarray:
        """Which B-splines are not zero on a larger leaf that is inside."""
        reaches = np.zeros(len(index), bool)
        for offset in self._offsets:
            place = index - offset
            for larger in range(level):
                leaf = self.mesh.find(np.full(len(place), larger), place >> (level - larger))
                reaches |= (leaf >= 0) & self.inside[leaf]
        return reaches

    def _halved(self, level: int, keys: np.ndarray, old: np.ndarray, combined: Any) -> Any:
        """Combinations of the larger B-splines `old` as combinations of these half as large:
        B_i = Σ_k 2^−p (p + 1 over k) B_{2i − p + k}."""
        p, index = self.p, self._indices(level - 1, old)
        ways = np.indices([p + 2] * self.d).reshape(self.d, -1).T
        binomial = np.array([comb(p + 1, k) for k in range(p + 2)])
        weight = np.prod(binomial[ways] * 2.0**-p, axis=1)
        wanted = self._keys(level, 2 * index[:, None] - p + ways)
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        row, column = np.nonzero(keys[at] == wanted)
        halved = scipy.sparse.csr_matrix((weight[column], (at[row, column], row)), (len(keys), len(old)))
        return halved @ combined


def _with_ancestors(mesh: Mesh, inside: np.ndarray, deepest: int) -> list[np.ndarray]:
    """For each level the places of its leaves inside, and of the cells that smaller ones came from."""
    found: list[np.ndarray] = []
    for level in range(deepest, -1, -1):
        own = mesh.place[inside & (mesh.level == level)]
        if found:
            own = np.concatenate([own, found[-1] >> 1])
        found.append(np.unique(own, axis=0))
    return found[::-1]
