"""Piecewise polynomials on the cells of a shape, and the conditions' rows on them.

Rows are more than functions: least squares. What decides is how they are weighed.

- A row is in units of its unknown: divided by Σ_e |g_e| (3/h)^order · (size of the unknown), h the
  cell's side, and multiplied by the root of its share of the cell, or of the cell's face: the sum of
  squares is a quadrature. Rows of unknowns of lower order (a pressure) are multiplied by h/H for each
  order that lacks.
- The mean of each condition over a cell, and of each jump over a face, counts `_MEAN` times as much as
  the rest. Without that a residual that is smooth over many cells costs little, ∝ h, beside what a
  corner leaves in one cell, and least squares distribute the corner's error over the whole (flow leaks,
  re-entrant corners pollute). With it cells conserve what the equation conserves, as finite volumes do.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from ...state.jet import Entry
from ..inverse import Inverse
from ..reading import Reading
from ..rows import Equations
from ..slab import Start
from ..space import Space
from ..stages import is_real, radau
from ..start import Starter
from .elimination import Elimination, Traces, Tree, dissect
from .places import Faces, Places
from .polynomials import degrees, products

_Part = tuple[int, str, np.ndarray, np.ndarray]  # face, unknown, rows on functions, rows on traces
_STEEP = 3.0
_MEAN = 30.0


@dataclass(frozen=True)
class Set:
    """Where a condition holds: points sorted by the polynomials that hold there, and for each the share
    of its cell, or of its cell's face."""

    where: dict[str, Any]
    own: np.ndarray
    shares: np.ndarray

    @cached_property
    def starts(self) -> np.ndarray:
        return np.searchsorted(self.own, np.arange(self.own.max(initial=-1) + 2))

    def of(self, cell: int) -> slice:
        if cell + 1 >= len(self.starts):
            return slice(0, 0)
        return slice(self.starts[cell], self.starts[cell + 1])


class Cells(Space):
    """Polynomials of total degree `p[u]` for each unknown in each of `places.count` cells. Coefficients
    are Z (cells, `own`), an unknown's being `columns[u]`; those of slabs stand unknown by unknown,
    `shares[u]`. `scale`: sizes of the unknowns."""

    def __init__(
        self,
        equations: Equations,
        places: Places,
        sets: list[Set],
        p: int,
        scale: dict[str, float],
    ):
        super().__init__(equations)
        self.places, self.sets, self.scale, self.d = places, sets, scale, places.d
        self.order = {u: space_order(self.reading, u) for u in self.unknowns}
        top = max(self.order.values())
        self.lack = {u: top - order for u, order in self.order.items()}
        self.p = {u: p if self.lack[u] == 0 else p - 1 for u in self.unknowns}
        number = {u: len(degrees(self.p[u], self.d)) for u in self.unknowns}
        self.allot(number)
        self.columns, self.own = self.shares, self.size
        self.allot({u: n * places.count for u, n in number.items()})
        self.points = [s.where for s in sets]
        self._shrunk = places.size / places.mesh.sides.max()

    # --- functions
    def table(self, k: int, entry: Entry) -> np.ndarray:
        """(points, functions of a cell)"""
        orders = tuple(entry.axes.count(a) for a in self.axes)
        key = (k, entry.unknown, orders)
        if key not in self._tables:
            s = self.sets[k]
            x = s.where["coords"][:, self.axes]
            self._tables[key] = self._products(entry.unknown, x, s.own, orders)
        return self._tables[key]

    def values(self, u: str, coords: np.ndarray, orders: tuple[int, ...]) -> Any:
        x = coords[:, self.axes]
        own = self.places.locate(x)
        table = self._products(u, x, own, orders)
        n = table.shape[1]
        columns, ends = (own * n)[:, None] + np.arange(n), np.arange(len(x) + 1) * n
        return scipy.sparse.csr_matrix(
            (table.ravel(), columns.ravel(), ends), shape=(len(x), self.places.count * n)
        )

    def coefficients(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        """Of each unknown, (1, N_u), as `values` takes them."""
        return {u: Z[:, share].reshape(1, -1) for u, share in self.columns.items()}

    def joined(self, Z: np.ndarray) -> np.ndarray:
        """(cells, own) as one vector, unknown by unknown."""
        return np.concatenate([Z[:, part].ravel() for part in self.columns.values()])

    def split(self, z: np.ndarray) -> np.ndarray:
        parts = [z[share].reshape(self.places.count, -1) for share in self.shares.values()]
        return np.concatenate(parts, axis=1)

    def spectrum(self, u: str, coefficients: np.ndarray) -> np.ndarray:
        volume = self.places.volume / self.places.volume.sum()
        shape = (*coefficients.shape[:-1], self.places.count, -1)
        return coefficients.reshape(shape) * np.sqrt(volume)[:, None]

    def at(self, Z: np.ndarray, u: str, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.values(u, x, (0,) * self.d) @ Z[:, self.columns[u]].ravel())

    def _products(self, u: str, x: np.ndarray, own: np.ndarray, orders: tuple[int, ...]) -> np.ndarray:
        return products(x, self.places.low[own], self.places.side[own], self.p[u], orders)

    def start(self, starter: Starter) -> Start:
        """Polynomials that agree best with the start at points inside each cell."""
        own, x, weights = self.places.interior(max(self.p.values()) + 1)
        values = starter.values(x, self.axes)
        ends = np.searchsorted(own, np.arange(self.places.count + 1))
        out: Start = {}
        for u in self.unknowns:
            wanted = [j for j, (v, _) in enumerate(starter.slots) if v == u]
            basis = self._products(u, x, own, (0,) * self.d)
            found = np.zeros((len(wanted), self.places.count, basis.shape[1]))
            for cell in range(self.places.count if wanted else 0):
                here = slice(ends[cell], ends[cell + 1])
                root = np.sqrt(weights[here])[:, None]
                found[:, cell] = np.linalg.lstsq(root * basis[here], root * values[here][:, wanted])[0].T
            out[u] = [c.ravel() for c in found]
        return out

    # --- rows of conditions
    def rows_at(self, Z: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Every condition's values (n, rows) and slopes (n, rows, entries)."""
        out = []
        for k, i in enumerate(self.reading.rest):
            own, entries = self.sets[k].own, self.reading.entries[i]
            v = np.empty((len(own), len(entries)))
            for e, entry in enumerate(entries):
                v[:, e] = np.einsum(
                    "ij,ij->i", self.table(k, entry), Z[:, self.columns[entry.unknown]][own]
                )
            out.append(self.equations.rows(i, self.points[k], v))
        return out

    def evaluate(
        self, jets: dict[str, list[np.ndarray]], times: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        s, values, slopes = len(times), [], []
        for k, i in enumerate(self.reading.rest):
            own, entries = self.sets[k].own, self.reading.entries[i]
            v = np.empty((s, len(own), len(entries)))
            for e, entry in enumerate(entries):
                part = jets[entry.unknown][self.reading.march_count(entry)]
                for j, c in enumerate(part.reshape(s, self.places.count, -1)):
                    v[j, :, e] = np.einsum("ij,ij->i", self.table(k, entry), c[own])
            where = self._at(times, self.points[k])
            rows, g = self.equations.rows(i, where, v.reshape(s * len(own), -1))
            values.append(rows.reshape(s, -1))
            slopes.append(g.reshape(s, len(own), *g.shape[1:]))
        return np.concatenate(values, axis=1), slopes

    def inverse(self, slopes: Sequence[np.ndarray], s: int, h: float) -> "StageSolves":
        return StageSolves(self, slopes, s, h)

    def weighed(
        self, slopes: Sequence[np.ndarray], shift: complex = 1.0
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each condition its rows on the functions of their cells, (n, rows, own), and the weights
        (n, rows) that they were multiplied with. A derivative by the marched coordinate is a product
        with `shift`."""
        out = []
        for k, i in enumerate(self.reading.rest):
            s, g = self.sets[k], slopes[k]
            J = np.zeros((*g.shape[:2], self.own), type(shift))
            size = np.zeros(g.shape[:2])
            lack = np.full(g.shape[1], np.inf)
            for e, entry in enumerate(self.reading.entries[i]):
                times = self.reading.march_count(entry)
                u, slope = entry.unknown, g[:, :, e] * shift**times
                J[:, :, self.columns[u]] += slope[:, :, None] * self.table(k, entry)[:, None]
                order = len(entry.axes) - times
                steep = self.scale[u] * (_STEEP / self.places.size[s.own]) ** order
                size += np.abs(slope) * steep[:, None]
                lack = np.where(slope.any(axis=0), np.minimum(lack, self.lack[u]), lack)
            mean = np.sqrt(self._mean(s, size**2))
            shrunk = self._shrunk[s.own, None] ** np.where(lack < np.inf, lack, 0.0)
            weights = np.sqrt(s.shares)[:, None] * shrunk / np.where(mean > 0, mean, 1.0)
            out.append((J * weights[:, :, None], weights))
        return out

    def _mean(self, s: Set, x: np.ndarray) -> np.ndarray:
        """Over the points of a cell, at each of them."""
        total, count = np.zeros((self.places.count, x.shape[1])), np.zeros(self.places.count)
        np.add.at(total, s.own, x)
        np.add.at(count, s.own, 1)
        return (total / np.maximum(count, 1)[:, None])[s.own]

    # --- rows of faces
    @cached_property
    def faces(self) -> Faces:
        return self.places.faces(max(self.p.values()) + 1)

    @cached_property
    def continuity(self) -> tuple[list[tuple[np.ndarray, Traces]], Tree]:
        """For each cell its rows on faces: on its functions, and on the traces of its faces in order; u
        and its normal derivatives below its order are polynomials on the face, the same for both cells.
        And the tree that they are eliminated by."""
        f = self.faces
        count = np.zeros(len(f.pairs), int)
        parts: list[list[_Part]] = [[] for _ in range(self.places.count)]
        for u in self.unknowns:
            for k in range(self.order[u]):
                sides = [self._normal(u, k, side) for side in (0, 1)]
                for face, (pair, axis) in enumerate(zip(f.pairs, f.axis, strict=True)):
                    here, h = f.of(face), f.side[face].max()
                    share = np.sqrt(f.share[face] * f.weights[here] * self.places.weight(h))
                    size = self.scale[u] * (_STEEP / h) ** k
                    weights = share[:, None] * (h / self.places.mesh.sides.max()) ** self.lack[u] / size
                    trace = f.products(
                        face, int(axis), _distinguished(self.p[u] - k, self.d - 1, len(share))
                    )
                    for cell, side in zip(pair, sides, strict=True):
                        own = side[here]
                        both = _conserving(np.concatenate([own, -trace], axis=1) * weights, share)
                        parts[cell].append((face, u, both[:, : own.shape[1]], both[:, own.shape[1] :]))
                    count[face] += trace.shape[1]
        rows = [self._joined(sorted(part, key=lambda row: row[0])) for part in parts]
        middle = self.places.mesh.lows + self.places.mesh.sides / 2
        return rows, Tree(dissect(middle[self.places.homes], f.pairs), count)

    def _normal(self, u: str, order: int, side: int) -> np.ndarray:
        """A derivative along the normal of the functions on one side, at all points of faces."""
        f = self.faces
        face = np.repeat(np.arange(len(f.axis)), np.diff(f.starts))
        out = np.zeros((len(face), self.columns[u].stop - self.columns[u].start))
        for axis in range(self.d):
            here = f.axis[face] == axis
            orders = tuple(order if a == axis else 0 for a in range(self.d))
            out[here] = self._products(u, f.coords[here], f.pairs[face[here], side], orders)
        return out

    def _joined(self, parts: list[_Part]) -> tuple[np.ndarray, Traces]:
        """Of a cell's parts, sorted by face."""
        height, width = sum(len(own) for *_, own, _ in parts), sum(t.shape[1] for *_, t in parts)
        own, faces, top, right = np.zeros((height, self.own)), [], 0, 0
        for _, group in itertools.groupby(parts, key=lambda part: part[0]):
            here = list(group)
            block = scipy.linalg.block_diag(*(trace for *_, trace in here))
            row = top
            for _, u, on_own, _ in here:
                own[row : row + len(on_own), self.columns[u]] = on_own
                row += len(on_own)
            rows, columns = slice(top, top + len(block)), slice(right, right + block.shape[1])
            faces.append((rows, columns, block))
            top, right = rows.stop, columns.stop
        return own, Traces(height, width, faces)


class LeastSquares:
    """The factors of a linearisation: rows of conditions and of faces."""

    def __init__(self, space: Cells, slopes: Sequence[np.ndarray], shift: complex = 1.0):
        self.space, self.weighed = space, space.weighed(slopes, shift)
        static, tree = space.continuity
        self.static = [rows for rows, _ in static]
        blocks = [self._block(cell) for cell in range(space.places.count)]
        self.elimination = Elimination(tree, blocks, [traces for _, traces in static])

    def solve(self, sides: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Z for right-hand sides (n, rows) of each condition, and the norm of what the rows of each cell
        are left with."""
        weighed = [side * weights for side, (_, weights) in zip(sides, self.weighed, strict=True)]
        right = [
            np.concatenate([*map(np.ravel, self._parts(weighed, cell)), np.zeros(len(static))])
            for cell, static in enumerate(self.static)
        ]
        Z, left = self.elimination.solve(right)
        return np.stack(Z), left

    def linear(self, Z: np.ndarray) -> list[np.ndarray]:
        """The linearised rows, (n, rows) of each condition, without their weights."""
        pairs = zip(self.weighed, self.space.sets, strict=True)
        return [np.einsum("nra,na->nr", J, Z[s.own]) / weights for (J, weights), s in pairs]

    def _block(self, cell: int) -> np.ndarray:
        rows = self._parts([J for J, _ in self.weighed], cell)
        parts = [part.reshape(-1, self.space.own) for part in rows]
        return np.concatenate([*parts, self.static[cell]])

    def _parts(self, rows: Sequence[np.ndarray], cell: int) -> list[np.ndarray]:
        out = []
        for x, s in zip(rows, self.space.sets, strict=True):
            here = s.of(cell)
            part = x[here]
            if len(part):
                flat = _conserving(part.reshape(len(part), -1), np.sqrt(s.shares[here]))
                part = flat.reshape(part.shape)
            out.append(part)
        return out


class StageSolves(Inverse):
    """The solve with Σ_a (D/h)^a ⊗ A_a of a slab with s stages, as `Inverse` does: least squares for
    each conjugate pair of eigenvalues of D. `rests`: what the rows of each cell were left with."""

    def __init__(self, space: Cells, slopes: Sequence[np.ndarray], s: int, h: float):
        self.space, self.h, self._stages = space, h, radau(s)
        self.rests = np.zeros(space.places.count)
        rates = self._stages.rates
        shifts = [float(rate.real) if is_real(rate) else complex(rate) for rate in rates]
        self._solves = [LeastSquares(space, slopes, shift / h) for shift in shifts]

    def __call__(self, R: np.ndarray) -> np.ndarray:
        stages, out, squares = self._stages, np.zeros((len(R), self.space.size)), 0.0
        for j, (rate, factor) in enumerate(zip(stages.rates, self._solves, strict=True)):
            once = is_real(rate)
            hat = stages.dual[j] @ R
            Z, left = factor.solve(self._sides(hat.real if once else hat))
            term = np.outer(stages.vectors[:, j], self.space.joined(Z))
            out += term.real if once else 2 * term.real
            size = np.mean(np.abs(stages.vectors[:, j]) ** 2) * (1 if once else 2)
            squares = squares + size * left**2
        self.rests = np.sqrt(squares)
        return out

    def _sides(self, flat: np.ndarray) -> list[np.ndarray]:
        shapes = [weights.shape for _, weights in self._solves[0].weighed]
        parts = np.split(flat, np.cumsum([n * rows for n, rows in shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _conserving(rows: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """Rows (n, …) that were multiplied by these roots of weights, their mean made larger."""
    norm = float(roots @ roots)
    if norm == 0:
        return rows
    return rows + (_MEAN - 1) / norm * np.outer(roots, roots @ rows)


def space_order(reading: Reading, u: str) -> int:
    """Of the highest derivative of an unknown along space."""
    entries = (e for i in reading.rest for e in reading.entries[i] if e.unknown == u)
    return max((len(e.axes) - reading.march_count(e) for e in entries), default=0)


def _distinguished(p: int, d: int, count: int) -> int:
    """A total degree, at most p, of which that many points tell all products apart."""
    while p > 0 and len(degrees(p, d)) > count:
        p -= 1
    return p
