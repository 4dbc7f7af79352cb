"""Factorisations of one space coordinate for a batch of φ: LAPACK's banded LU, one for each φ and stage.

In the order of their places, rows and functions of one coordinate have entries near the diagonal alone.
Where the coordinate is periodic both of its ends come first: the order is that of the distance from the
seam. Matrices are products of sparse ones with the slopes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from .inverse import SINGULAR, Failed
from .stages import is_real, radau


class Layout:
    """Where the entries of Σ_a shift^a A_a are, for the rows and functions of a space.

    - `rows`, `columns`: their numbers in order. - `below`, `above`: how many diagonals there are.
    - `assemble`: for each order a of the derivative by the marched coordinate the matrix from all slopes
      of a φ to A_a in LAPACK's band storage: column after column, with room above for what is exchanged.
    - `sizes`: likewise from their absolute values to bounds of the entries of each row.
    - `owner`: of each slope its row.
    """

    def __init__(self, space: Any):
        reading, self.size = space.reading, space.size
        parts: dict[int, list[tuple[np.ndarray, ...]]] = {}
        places, owners, first, slope = [], [], 0, 0
        for k, i in enumerate(reading.rest):
            where, entries, count = space.points[k]["coords"], reading.entries[i], reading.rows[i]
            n = len(where)
            for e, entry in enumerate(entries):
                T = scipy.sparse.coo_matrix(space.table(k, entry))
                column = T.col + space.shares[entry.unknown].start
                for r in range(count):
                    source = slope + (T.row * count + r) * len(entries) + e
                    here = parts.setdefault(reading.march_count(entry), [])
                    here.append((first + r * n + T.row, column, source, T.data))
            places += [where] * count
            own = first + np.arange(n)[:, None] + n * np.arange(count)
            owners.append(np.repeat(own.ravel(), len(entries)))
            first, slope = first + count * n, slope + n * count * len(entries)
        along = lambda x: x[:, 0] if x.shape[1] else np.zeros(len(x))
        functions = np.concatenate([space.samples(u) for u in space.unknowns])
        self.rows = _order(space, along(np.concatenate(places)[:, space.axes]))
        self.columns = _order(space, along(functions))
        row, column = np.argsort(self.rows), np.argsort(self.columns)
        self.owner = row[np.concatenate(owners)]
        joined = {a: [np.concatenate(x) for x in zip(*here, strict=True)] for a, here in parts.items()}
        offsets = [column[j] - row[i] for i, j, _, _ in joined.values()]
        self.above = max(0, *(int(x.max(initial=0)) for x in offsets))
        self.below = max(0, *(int(-x.min(initial=0)) for x in offsets))
        self.depth = 2 * self.below + self.above + 1
        self.assemble, self.sizes = {}, {}
        for a, (i, j, source, data) in joined.items():
            place = column[j] * self.depth + self.below + self.above + row[i] - column[j]
            shape = self.size * self.depth, slope
            self.assemble[a] = scipy.sparse.csr_matrix((data, (place, source)), shape=shape)
            whole = scipy.sparse.csr_matrix((np.abs(data), (source, j)), shape=(slope, self.size))
            self.sizes[a] = whole.max(axis=1).toarray().ravel()


def _order(space: Any, x: np.ndarray) -> np.ndarray:
    axis = space.axes[0] if space.axes else None
    if axis in space.reading.periodic:
        low, high = space.reading.problem.domain.bounds[axis]
        x = np.minimum(x - low, high - x)
    return np.argsort(x, kind="stable")


class Bands:
    """The solve with Σ_a (D/h)^a ⊗ A_a as `Inverse` does it, for each φ of a batch with its own slopes
    (φ, n, rows, entries), or for one. `why`: of the φ whose matrices are singular or not finite; their
    solutions are NaN."""

    slopes: list[np.ndarray]

    def __init__(self, layout: Layout, slopes: Sequence[np.ndarray], s: int, h: float):
        self.layout, self.h, self._stages = layout, h, radau(s)
        self.single = slopes[0].ndim == 3
        batch = [g[None] for g in slopes] if self.single else slopes
        flat = np.concatenate([g.reshape(len(g), -1) for g in batch], axis=1)
        self.why: dict[int, str] = {}
        self._sizes = np.ones((len(flat), layout.size))
        self._factors: list[list[Any]] = [[] for _ in self._stages.rates]
        for b, g in enumerate(flat):
            self._factorise(b, g)

    def _factorise(self, b: int, g: np.ndarray) -> None:
        """For one φ, one after the other: its matrices stay in the cache. Rows are divided by a bound of
        their entries."""
        layout, rates = self.layout, self._stages.rates
        if not np.isfinite(g).all():
            self.why[b], g = "an equation is not finite", np.ones_like(g)
        size = np.zeros(layout.size)
        scale = np.exp(np.log(np.abs(rates)).mean()) / self.h
        for a, most in layout.sizes.items():
            np.maximum.at(size, layout.owner, scale**a * most * np.abs(g))
        size = np.where(size > 0, size, 1.0)
        self._sizes[b] = size
        g = g / size[layout.owner]
        parts = {a: S @ g for a, S in layout.assemble.items()}
        for k, rate in enumerate(rates):
            if b in self.why:
                self._factors[k].append(None)
                continue
            shift = (rate.real if is_real(rate) else rate) / self.h
            band = np.zeros(layout.size * layout.depth, np.asarray(shift).dtype)
            for a, A in parts.items():
                band += shift**a * A
            (factor,) = scipy.linalg.get_lapack_funcs(("gbtrf",), dtype=band.dtype)
            band = band.reshape(layout.size, layout.depth).T
            lu, pivots, info = factor(band, layout.below, layout.above, overwrite_ab=True)
            if info > 0:
                self.why[b] = SINGULAR
            self._factors[k].append((lu, pivots) if info == 0 else None)

    def __call__(self, R: np.ndarray, some: np.ndarray | None = None) -> np.ndarray:
        """(φ, s, N) from (φ, s, N), for all φ or for some by their numbers; or for one."""
        return self._sum(self._stages.dual, self._stages.vectors.T, R, some, False)

    def transposed(self, Z: np.ndarray) -> np.ndarray:
        """The transpose of the map from R to Z."""
        return self._sum(self._stages.vectors.T, self._stages.dual, Z, None, True)

    def _sum(
        self, into: np.ndarray, out_of: np.ndarray, x: np.ndarray, some: Any, transposed: bool
    ) -> np.ndarray:
        batch = x[None] if self.single else x
        some = np.arange(len(batch)) if some is None else some
        total: Any = 0.0
        hats = np.moveaxis(into @ batch, 1, 0)
        for k, (rate, hat) in enumerate(zip(self._stages.rates, hats, strict=True)):
            once = is_real(rate)
            y = self._solve(k, hat.real if once else hat, some, transposed)[:, None]
            vector = out_of[k][:, None]
            total = total + (vector.real * y if once else 2 * (vector * y).real)
        return np.asarray(total[0] if self.single else total)

    def _solve(self, k: int, r: np.ndarray, some: Any, transposed: bool) -> np.ndarray:
        layout, size = self.layout, self._sizes[some]
        first, last = (layout.columns, layout.rows) if transposed else (layout.rows, layout.columns)
        r = r[:, first] if transposed else r[:, first] / size
        out = np.full(r.shape, np.nan, r.dtype)
        (solve,) = scipy.linalg.get_lapack_funcs(("gbtrs",), dtype=r.dtype)
        for n, b in enumerate(some):
            if (factor := self._factors[k][b]) is not None:
                lu, pivots = factor
                out[n, last], _ = solve(
                    lu, layout.below, layout.above, r[n], pivots, trans=int(transposed), overwrite_b=True
                )
        return out / size[:, np.argsort(last)] if transposed else out


class Each:
    """The same by one inverse for each φ, made by `make` of its slopes; one for all whose slopes are the
    same."""

    slopes: list[np.ndarray]

    def __init__(self, make: Any, slopes: Sequence[np.ndarray], h: float):
        self.h, self.why = h, dict[int, str]()
        self._inverses: list[Any] = []
        alike = all((g == g[:1]).all() for g in slopes)
        for b in range(1 if alike else len(slopes[0])):
            try:
                self._inverses.append(make([g[b] for g in slopes]))
            except Failed as failure:
                self.why[b] = str(failure)
                self._inverses.append(None)
        if alike:
            self._inverses *= len(slopes[0])
            self.why = {b: why for why in self.why.values() for b in range(len(slopes[0]))}

    def __call__(self, R: np.ndarray, some: np.ndarray | None = None) -> np.ndarray:
        some = np.arange(len(R)) if some is None else some
        solved = [self._inverses[b] for b in some]
        return np.stack(
            [
                np.full_like(r, np.nan) if inverse is None else inverse(r)
                for inverse, r in zip(solved, R, strict=True)
            ]
        )
