"""The energy of functions, its slope and its curvature with respect to their coefficients.

Conditions that hold values are in it by the method of multipliers: λ·r + r²/2ε at points of the
boundary, with λ corrected until r is as small as functions allow. Values held at each point exactly
would be more than functions can do on a curved boundary, and they would be stiff.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from ..rows import Equations
from .sites import Group, Sites
from .splines import Hierarchy


@dataclass
class Held:
    """Of a condition that holds values: multipliers (points, rows), and 1/ε at each point."""

    multipliers: np.ndarray
    stiffness: np.ndarray


@dataclass
class Form:
    """The sum of all conditions, each of which is integrated over its `sites`. Coefficients are of shape
    (functions, unknowns)."""

    equations: Equations
    functions: Hierarchy
    sites: dict[int, Sites]
    held: dict[int, Held]
    keep: bool = True  # tables of functions at points

    def __post_init__(self) -> None:
        self.unknowns = self.equations.reading.problem.unknowns
        self._kept: dict[int, list[Group]] = {}

    def groups(self, index: int) -> Iterable[Group]:
        if not self.keep:
            return self.sites[index].groups(self.functions)
        if index not in self._kept:
            self._kept[index] = list(self.sites[index].groups(self.functions))
        return self._kept[index]

    def read(self, C: np.ndarray, index: int) -> np.ndarray:
        """(points, entries): what a condition reads."""
        entries = self.equations.reading.entries[index]
        v = np.empty((len(self.sites[index].weights), len(entries)))
        on_level = [level.combined @ C for level in self.functions.levels]
        for group in self.groups(index):
            local = on_level[group.level][group.rows]
            for e, entry in enumerate(entries):
                coefficients = local[:, :, self.unknowns.index(entry.unknown), None]
                v[group.points, e] = (group.table(entry.axes) @ coefficients)[..., 0]
        return v

    def value(self, C: np.ndarray) -> float:
        total = 0.0
        for i, sites in self.sites.items():
            v = self.read(C, i)
            if i in self.held:
                r, held = self.equations.rows(i, sites.where, v)[0], self.held[i]
                density = (held.multipliers * r).sum(axis=1) + held.stiffness * (r**2).sum(axis=1) / 2
            else:
                density = self._weight(i) * self.equations.density(i, sites.where, v)
            total += float(sites.weights @ density)
        return total

    def local(self, index: int, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slopes (points, entries) and curvatures (points, entries, entries) with respect to what is
        read, weights included."""
        sites = self.sites[index]
        if index in self.held:
            r, J = self.equations.rows(index, sites.where, v)
            held = self.held[index]
            force = held.multipliers + held.stiffness[:, None] * r
            slopes = np.einsum("nr,nre->ne", force, J)
            curvatures = np.einsum("n,nre,nrf->nef", held.stiffness, J, J)
        else:
            slopes, curvatures = self.equations.curvature(index, sites.where, v)
            slopes, curvatures = self._weight(index) * slopes, self._weight(index) * curvatures
        return slopes * sites.weights[:, None], curvatures * sites.weights[:, None, None]

    def slopes(self, index: int, v: np.ndarray) -> np.ndarray:
        """Of an energy alone, (points, entries)."""
        sites = self.sites[index]
        found = self.equations.slope(index, sites.where, v)
        return found * (self._weight(index) * sites.weights)[:, None]

    def slope(self, slopes: dict[int, np.ndarray]) -> np.ndarray:
        """(functions, unknowns), from slopes (points, entries)."""
        total = np.zeros((self.functions.size, len(self.unknowns)))
        on_level = self._empty()
        for i, G in slopes.items():
            for group in self.groups(i):
                for e, entry in enumerate(self.equations.reading.entries[i]):
                    part = (G[group.points, e][:, None] @ group.table(entry.axes))[:, 0]
                    u = self.unknowns.index(entry.unknown)
                    level = on_level[group.level]
                    level[:, u] += np.bincount(group.rows.ravel(), part.ravel(), len(level))
        for where, part in zip(self.functions.levels, on_level, strict=True):
            total += where.combined.T @ part
        return total

    def curvature(self, curvatures: dict[int, np.ndarray]) -> Any:
        """A sparse matrix, the unknowns of each function side by side, from curvatures (points, entries,
        entries)."""
        m, n = len(self.unknowns), self.functions.size
        total = scipy.sparse.csr_matrix((n * m, n * m))
        for a in range(m):
            for b in range(a, m):
                block = self._block(curvatures, a, b).tocoo()
                row, column = block.row * m + a, block.col * m + b
                part = scipy.sparse.csr_matrix((block.data, (row, column)), total.shape)
                total = total + part if a == b else total + part + part.T
        return total

    def diagonal(self, curvatures: dict[int, np.ndarray]) -> np.ndarray:
        """(functions, unknowns): about that of the curvature, B-splines of a function taken one by
        one."""
        total = np.zeros((self.functions.size, len(self.unknowns)))
        on_level = self._empty()
        for i, H in curvatures.items():
            entries = self.equations.reading.entries[i]
            for group in self.groups(i):
                for e, f in np.ndindex(len(entries), len(entries)):
                    if entries[e].unknown == entries[f].unknown:
                        product = group.table(entries[e].axes) * group.table(entries[f].axes)
                        part = (H[group.points, e, f][:, None] @ product)[:, 0]
                        level, u = on_level[group.level], self.unknowns.index(entries[e].unknown)
                        level[:, u] += np.bincount(group.rows.ravel(), part.ravel(), len(level))
        for where, part in zip(self.functions.levels, on_level, strict=True):
            total += where.combined.multiply(where.combined).T @ part
        return total

    def _block(self, curvatures: dict[int, np.ndarray], a: int, b: int) -> Any:
        n = self.functions.size
        total = scipy.sparse.csr_matrix((n, n))
        for number, level in enumerate(self.functions.levels):
            data, rows, columns = [], [], []
            for i, H in curvatures.items():
                for group in self.groups(i):
                    part = self._pairs(i, H, group, a, b) if group.level == number else None
                    if part is not None:
                        many = group.rows.shape[1]
                        data.append(part.ravel())
                        rows.append(np.repeat(group.rows, many, axis=1).ravel().astype(np.int32))
                        columns.append(np.tile(group.rows, many).ravel().astype(np.int32))
            if data:
                place = np.concatenate(rows), np.concatenate(columns)
                shape = (level.combined.shape[0],) * 2
                K = scipy.sparse.csr_matrix((np.concatenate(data), place), shape)
                total = total + level.combined.T @ K @ level.combined
        return total

    def _pairs(self, i: int, H: np.ndarray, group: Any, a: int, b: int) -> np.ndarray | None:
        """(cells, B-splines, B-splines) of two unknowns."""
        entries = self.equations.reading.entries[i]
        ours = [e for e, entry in enumerate(entries) if entry.unknown == self.unknowns[a]]
        theirs = [f for f, entry in enumerate(entries) if entry.unknown == self.unknowns[b]]
        total = None
        for e in ours:
            T = group.table(entries[e].axes)
            if T.ndim == 2:  # the same in all cells
                for f in theirs:
                    both = (T[:, :, None] * group.table(entries[f].axes)[:, None]).reshape(len(T), -1)
                    part = H[group.points, e, f] @ both
                    total = part if total is None else total + part
            elif theirs:
                turned = sum(
                    H[group.points, e, f][..., None] * group.table(entries[f].axes) for f in theirs
                )
                part = np.swapaxes(T, 1, 2) @ turned
                total = part if total is None else total + part
        return total

    def _empty(self) -> list[np.ndarray]:
        levels = self.functions.levels
        return [np.zeros((level.combined.shape[0], len(self.unknowns))) for level in levels]

    def _weight(self, index: int) -> float:
        return float(self.equations.reading.problem.conditions[index].weight)
