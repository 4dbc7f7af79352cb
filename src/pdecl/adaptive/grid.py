"""Products of pieces in each space coordinate, with rows at the products of their nodes."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import scipy

from ..state.domain import Region
from ..state.jet import Entry
from ..state.rules import tensor
from .bands import Bands, Each, Layout
from .pieces import Breaks, Pieces, Sparse
from .rows import Equations, ManyEquations
from .separable import Separable, separable
from .space import Coefficients, Space, is_inside

_FEW = 300  # functions: a factorisation is as fast


class Grid(Space):
    """`breaks`: the mesh of each space coordinate; `count`: Gauss nodes in a piece.

    Functions of a coordinate are as smooth as the equation reads, and of the degree that makes them as
    many as nodes and conditions at the ends. An unknown with none, such as a pressure, has a degree
    less: there are then somewhat more rows than functions.
    """

    def __init__(self, equations: Equations | ManyEquations, breaks: list[Breaks], count: int):
        super().__init__(equations)
        self.breaks = list(breaks)
        self.lines = {u: [self._line(u, p, count) for p in range(len(self.axes))] for u in self.unknowns}
        self.allot({u: prod(line.size for line in lines) for u, lines in self.lines.items()})
        taken: dict[tuple, tuple] = {}
        self.points = [self._once(i, self._place(i), taken) for i in self.reading.rest]
        self._apart: tuple[list[np.ndarray], Separable | None] | None = None
        self._layout: Layout | None = None

    def values(self, u: str, coords: np.ndarray, orders: tuple[int, ...]) -> Sparse:
        """On grids products of the coordinates' tables; elsewhere products row by row."""
        lines, columns = self.lines[u], [coords[:, a] for a in self.axes]
        if len(lines) == 1:
            return lines[0].table(columns[0], orders[0])
        unique = [np.unique(column, return_inverse=True) for column in columns]
        if prod(len(x) for x, _ in unique) > 4 * len(coords):
            tables = [line.table(x, k) for line, x, k in zip(lines, columns, orders, strict=True)]
            out = tables[0]
            for table in tables[1:]:
                out = _row_products(out, table)
            return out
        out, at = scipy.sparse.csr_matrix(np.ones((1, 1))), np.zeros(len(coords), int)
        for line, (x, back), k in zip(lines, unique, orders, strict=True):
            out = scipy.sparse.kron(out, line.table(x, k), format="csr")
            at = at * len(x) + back
        return out[at]

    def on_grid(
        self, u: str, coefficients: np.ndarray, lines: list[np.ndarray], orders: Sequence[int]
    ) -> np.ndarray:
        x = self._unravelled(u, coefficients)
        for p, (line, at, k) in enumerate(zip(self.lines[u], lines, orders, strict=True)):
            table = line.table(at, k)
            x = _along(x, coefficients.ndim - 1 + p, table.__matmul__)
        return x

    def spectrum(self, u: str, coefficients: np.ndarray) -> np.ndarray:
        x = self._unravelled(u, coefficients)
        for p, line in enumerate(self.lines[u]):
            x = _along(x, coefficients.ndim - 1 + p, lambda y, line=line: line.spectrum @ y)
        return x

    def convert(self, other: "Grid", coefficients: Coefficients) -> Coefficients:
        """By interpolation at Greville points."""
        out = {}
        for u, c in coefficients.items():
            x, lead = other._unravelled(u, c), c.ndim - 1
            for p, (mine, theirs) in enumerate(zip(self.lines[u], other.lines[u], strict=True)):
                table = theirs.table(mine.samples, 0)
                x = _along(x, lead + p, lambda y, m=mine, t=table: m.from_samples(t @ y))
            out[u] = x.reshape(*c.shape[:-1], -1)
        return out

    def convert_transposed(self, other: "Grid", u: str, weights: np.ndarray) -> np.ndarray:
        """From what each coefficient (N_u,) counts here to what coefficients there count."""
        if other is self:
            return weights
        x = self._unravelled(u, weights)
        for p, (mine, theirs) in enumerate(zip(self.lines[u], other.lines[u], strict=True)):
            table = theirs.table(mine.samples, 0).T
            x = _along(x, p, lambda y, m=mine, t=table: t @ m.from_samples_transposed(y))
        return x.ravel()

    def samples(self, u: str) -> np.ndarray:
        """Points at which values determine the functions of u: (N_u, space axes)."""
        return tensor([line.samples for line in self.lines[u]], len(self.axes))

    def interpolate(self, u: str, values: np.ndarray) -> np.ndarray:
        """Coefficients (…, N_u) of the functions with these values at `samples(u)`."""
        x = self._unravelled(u, values)
        for p, line in enumerate(self.lines[u]):
            x = _along(x, values.ndim - 1 + p, line.from_samples)
        return x.reshape(values.shape)

    def interpolate_transposed(self, u: str, weights: np.ndarray) -> np.ndarray:
        x = self._unravelled(u, weights)
        for p, line in enumerate(self.lines[u]):
            x = _along(x, p, line.from_samples_transposed)
        return x.ravel()

    def read(self, k: int, entry: Entry, coefficients: np.ndarray) -> np.ndarray:
        """In three coordinates line by line: a table would have hundreds of entries in each row."""
        on = self.reading.problem.conditions[self.reading.rest[k]].on
        if len(self.axes) < 3 or not is_inside(on):
            return super().read(k, entry, coefficients)
        lines = [line.nodes for line in self.lines[self.unknowns[0]]]
        orders = [entry.axes.count(a) for a in self.axes]
        values = self.on_grid(entry.unknown, coefficients, lines, orders)
        return values.reshape(*coefficients.shape[:-1], -1)

    def separable(self, slopes: Sequence[np.ndarray]) -> Separable | None:
        if len(self.axes) < 2 or self.size < _FEW:
            return None
        if self._apart is None or not all(map(np.array_equal, self._apart[0], slopes)):
            self._apart = list(slopes), separable(self, slopes)
        return self._apart[1]

    def inverse(self, slopes: Sequence[np.ndarray], s: int, h: float) -> Any:
        """Also with the slopes of a batch of φ, (φ, n, rows, entries)."""
        if len(self.axes) < 2 and sum(g.shape[-3] * g.shape[-2] for g in slopes) == self.size:
            if self._layout is None:
                self._layout = Layout(self)
            return Bands(self._layout, slopes, s, h)
        one = lambda slopes: Space.inverse(self, slopes, s, h)
        return one(slopes) if slopes[0].ndim == 3 else Each(one, slopes, h)

    def pieces(self, u: str, p: int) -> int:
        return self.lines[u][p].pieces

    def _unravelled(self, u: str, x: np.ndarray) -> np.ndarray:
        return x.reshape((*x.shape[:-1], *(line.size for line in self.lines[u])))

    def _line(self, u: str, p: int, count: int) -> Pieces:
        reading, axis = self.reading, self.axes[p]
        given = lambda name: [reading.ends.get((name, axis, side), 0) for side in (0, 1)]
        order, periodic = max(1, reading.orders[u][axis]), axis in reading.periodic
        conditions = order if periodic else reading.conditions(u, axis)
        smooth = max(order, conditions)
        carries = np.any([given(name) for name in self.unknowns], axis=0)
        bounds = reading.problem.domain.bounds[axis]
        multiplicity = count + conditions - smooth
        return Pieces(bounds, self.breaks[p], count, multiplicity, smooth, periodic, carries.tolist())

    # --- where conditions hold -------------------------------------------------------------------------
    def _place(self, index: int) -> dict[str, Any]:
        on = self.reading.problem.conditions[index].on
        if not isinstance(on, Region):
            return self.given_points(index)
        sides = [self._side(side) for side in on.sides]
        coords, normals = (np.concatenate(part) for part in zip(*sides, strict=True))
        data = {"index": np.arange(len(coords))} | ({} if is_inside(on) else {"normal": normals})
        return {"coords": coords, "partners": {}, "data": data}

    def _side(self, side: tuple) -> tuple[np.ndarray, np.ndarray]:
        """Points of the interior, or of a face, and its normals. The marched coordinate is left at
        zero."""
        box, lines = self.reading.problem.domain, []
        for axis, line in zip(self.axes, self.lines[self.unknowns[0]], strict=True):
            if side and side[0] == axis:
                lines.append(np.array([box.bounds[axis][side[1]]]))
            else:
                lines.append(self._along_a_face(line, axis) if side else line.nodes)
        grid = tensor(lines, len(lines))
        coords, normals = np.zeros((2, len(grid), len(box.names)))
        coords[:, self.axes] = grid
        if side:
            normals[:, side[0]] = (-1.0, 1.0)[side[1]]
        return coords, normals

    def _along_a_face(self, line: Pieces, axis: int) -> np.ndarray:
        """Where a condition on a face is asked for along another axis: at the nodes and ends, and nearer
        to the ends where there are several conditions (a plate's), for functions that bend more."""
        ends = [(u, axis, side) for u in self.unknowns for side in (0, 1)]
        more = max(self.reading.ends.get(end, 0) for end in ends) - 1
        if more < 1:
            return line.edges
        share = np.arange(1, more + 1) / (more + 1)
        low, high = line.points[0], line.points[-1]
        nearer = [low + share * (line.nodes[0] - low), high - share * (high - line.nodes[-1])]
        return np.concatenate([line.edges, *nearer])

    def _once(self, index: int, where: dict[str, Any], taken: dict[tuple, tuple]) -> dict[str, Any]:
        """Without the points on edges where an earlier face already determines the same of the same
        unknowns: rows stay as many as functions, or a few more."""
        on = self.reading.problem.conditions[index].on
        if not isinstance(on, Region) or is_inside(on) or len(self.axes) < 2:
            return where
        owners, keep = tuple(sorted(self.reading.owned[index])), []
        for j, (x, normal) in enumerate(zip(where["coords"], where["data"]["normal"], strict=True)):
            face = (index, *normal)
            if taken.setdefault((owners, *x), face) == face:
                keep.append(j)
        return {
            "coords": where["coords"][keep],
            "partners": {},
            "data": {name: x[keep] for name, x in where["data"].items()},
        }


def _along(x: np.ndarray, axis: int, change: Any) -> np.ndarray:
    """A linear map of columns, applied to one axis of an array."""
    y = np.moveaxis(x, axis, -1)
    z = change(y.reshape(-1, y.shape[-1]).T).T
    return np.moveaxis(z.reshape(*y.shape[:-1], -1), -1, axis)


def _row_products(a: Sparse, b: Sparse) -> Sparse:
    """All products of the entries of each row of a with those of the same row of b."""
    rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    many = np.diff(b.indptr)[rows]  # every entry of a meets all of b's in its row
    first = np.repeat(np.arange(len(rows)), many)
    within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    second = b.indptr[rows][first] + within
    columns = a.indices[first] * b.shape[1] + b.indices[second]
    data = a.data[first] * b.data[second]
    return scipy.sparse.csr_matrix(
        (data, (rows[first], columns)), shape=(a.shape[0], a.shape[1] * b.shape[1])
    )
