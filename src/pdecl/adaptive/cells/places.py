"""Where rows are: points inside, on the boundary and on the faces between cells of a shape.

A cell that the boundary cuts carries polynomials in the smallest box around its part of the shape. One
of which little is inside has none of its own: those of a neighbour hold there too.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .mesh import Mesh
from .polynomials import gauss, middles, products

# Samples of a cell that is cut, along each coordinate.
_SAMPLES = {1: 40, 2: 12, 3: 8}
# A cell with less inside has no polynomials of its own.
_SMALL = 0.25


@dataclass(frozen=True)
class Faces:
    """Faces between polynomials: the ones below and above each, its axis, its size, the box of the part
    that is inside; points on it, sorted by face."""

    pairs: np.ndarray  # (f, 2)
    axis: np.ndarray
    side: np.ndarray  # of the smaller cell
    low: np.ndarray
    high: np.ndarray
    share: np.ndarray
    coords: np.ndarray
    weights: np.ndarray  # their sum is one on each face
    starts: np.ndarray

    def of(self, face: int) -> slice:
        return slice(self.starts[face], self.starts[face + 1])

    def products(self, face: int, axis: int, p: int) -> np.ndarray:
        """Polynomials of total degree p at the points of a face, in the box of its part inside."""
        x, low, side = self.coords[self.of(face)], self.low[face], self.high[face] - self.low[face]
        flat = [a for a in range(x.shape[1]) if a != axis]
        low, side = (np.broadcast_to(y[flat], (len(x), len(flat))) for y in (low, side))
        return products(x[:, flat], low, side, p, (0,) * len(flat))


class Places:
    """`owner`: of each cell of the mesh the number of its polynomials, −1 outside. `low`, `side`:
    the polynomials' boxes; `size`: the largest side of their cells; `volume`: of what is inside."""

    def __init__(self, shape: Any, mesh: Mesh):
        self.shape, self.mesh, self.d = shape, mesh, len(mesh.low)
        self._unit = middles(_SAMPLES[self.d], self.d)
        self.owner: np.ndarray
        self._sample()
        self._join()
        homes = np.flatnonzero(self.owner == np.arange(len(mesh)))
        number = np.full(len(mesh) + 1, -1)
        number[homes] = np.arange(len(homes))
        self.owner, self.homes = number[self.owner], homes
        self.count = len(homes)
        self.volume = np.zeros(self.count)
        has = self.owner >= 0
        np.add.at(self.volume, self.owner[has], (self.share * np.prod(mesh.sides, axis=1))[has])
        self.size = mesh.sides[homes].max(axis=1)
        low, high = np.full((self.count, self.d), np.inf), np.full((self.count, self.d), -np.inf)
        np.minimum.at(low, self.owner[has], self._low[has])
        np.maximum.at(high, self.owner[has], self._high[has])
        self.low, self.side = low, high - low

    def weight(self, side: Any) -> Any:
        """How much the rows of a cell count: (side / largest)^(d − 2), so that what singular points
        leave in cells around them goes to zero with their size."""
        return (side / self.mesh.sides.max()) ** (self.d - 2)

    def locate(self, coords: np.ndarray) -> np.ndarray:
        """The polynomials that hold at points; the nearest ones where a cell has none."""
        found = self.owner[self.mesh.locate(coords)]
        for i in np.flatnonzero(found < 0):
            gap = np.maximum(0, np.maximum(self.low - coords[i], coords[i] - self.low - self.side))
            found[i] = np.argmin((gap**2).sum(axis=1))
        return found

    def interior(self, count: int) -> tuple[np.ndarray, ...]:
        """Gauss points inside, about `count` along each coordinate of a cell; the polynomials that hold
        there, and weights that add up to the volume of each."""
        mesh, cells = self.mesh, np.flatnonzero(self.owner >= 0)
        span = self._high - self._low
        filled = self.share * np.prod(mesh.sides, axis=1) / np.prod(np.where(span > 0, span, 1), axis=1)
        wanted = count * np.maximum(filled, 0.05) ** (-1 / self.d)
        is_guest = self.homes[self.owner] != np.arange(len(mesh))
        wanted = np.where(is_guest, wanted * self.share ** (1 / self.d), wanted)
        number = np.where(self.share < 1, np.clip(np.ceil(wanted), 3, 3 * count), count).astype(int)
        coords, own, weights = [], [], []
        for q in np.unique(number[cells]):
            here = cells[number[cells] == q]
            unit, mass = gauss(int(q), self.d)
            x = self._low[here, None] + span[here, None] * unit
            keep = np.ones(x.shape[:2], bool)
            where = self.share[here] < 1
            if where.any():
                keep[where] = self.shape.inside(x[where].reshape(-1, self.d)).reshape(where.sum(), -1)
            row, column = np.nonzero(keep)
            volume = (self.share * np.prod(mesh.sides, axis=1))[here] / np.maximum(keep @ mass, 1e-300)
            coords.append(x[row, column])
            own.append(self.owner[here][row])
            weights.append(volume[row] * mass[column])
        return sorted_by(np.concatenate(own), np.concatenate(coords), np.concatenate(weights))

    def at_boundary(self, coords: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """The polynomials that hold just inside of boundary points."""
        step = np.linalg.norm(self.mesh.sides[self.mesh.locate(coords)], axis=1)[:, None]
        found = np.full(len(coords), -1)
        for share in (1e-6, 0.02, 0.1, 0.3):
            left = np.flatnonzero(found < 0)
            found[left] = self.owner[self.mesh.locate((coords - share * step * normals)[left])]
        left = np.flatnonzero(found < 0)
        found[left] = self.locate(coords[left])
        return found

    def widened(self, coords: np.ndarray, own: np.ndarray) -> None:
        """Boxes of cut cells grow to hold these points."""
        high = self.low + self.side
        np.minimum.at(self.low, own, coords)
        np.maximum.at(high, own, coords)
        self.side = high - self.low

    def faces(self, count: int) -> Faces:
        """Gauss points, about `count` along each coordinate of a face."""
        pairs, axis, side, low, high, share = self._inner_faces
        other = self.owner[pairs]
        keep = (other[:, 0] != other[:, 1]) & (other >= 0).all(axis=1)
        pairs, axis, side, low, high, share = (x[keep] for x in (pairs, axis, side, low, high, share))
        filled = share * np.prod(_others(side, axis), axis=1)
        filled = filled / np.prod(_others(np.where(high > low, high - low, 1.0), axis), axis=1)
        e = self.d - 1
        number = np.where(
            share < 1, np.ceil(count * np.clip(filled, 0.05, 1) ** (-1 / e)), count
        ).astype(int)
        coords, face, weights = [], [], []
        for a in range(self.d):
            for q in np.unique(number[axis == a]):
                here = np.flatnonzero((axis == a) & (number == q))
                flat, mass = gauss(int(q), e)
                unit = np.insert(flat, a, 0.0, axis=1)
                x = low[here, None] + (high - low)[here, None] * unit
                inside = np.ones(x.shape[:2], bool)
                cut = share[here] < 1
                if cut.any():
                    inside[cut] = self.shape.inside(x[cut].reshape(-1, self.d)).reshape(cut.sum(), -1)
                row, column = np.nonzero(inside)
                coords.append(x[row, column])
                face.append(here[row])
                weights.append(mass[column] / np.maximum(inside @ mass, 1e-300)[row])
        known, number = np.unique(np.concatenate(face), return_inverse=True)
        at, x, mass = sorted_by(number, np.concatenate(coords), np.concatenate(weights))
        return Faces(
            self.owner[pairs[known]], axis[known], side[known], low[known], high[known], share[known],
            x, mass, np.searchsorted(at, np.arange(len(known) + 1)),
        )  # fmt: skip

    def _sample(self) -> None:
        """How much of each cell is inside, and the box around that."""
        mesh = self.mesh
        middle, radius = mesh.lows + mesh.sides / 2, np.linalg.norm(mesh.sides, axis=1) / 2
        distance = np.asarray(self.shape.distance(middle))
        self.share = (distance < 0).astype(float)
        self._low, self._high = mesh.lows.copy(), mesh.highs.copy()
        cut = np.flatnonzero(np.abs(distance) < radius * (1 + 1e-9))
        if len(cut):
            x = mesh.lows[cut, None] + mesh.sides[cut, None] * self._unit
            inside = _strictly(self.shape, x)
            self.share[cut] = inside.mean(axis=1)
            half = mesh.sides[cut] / (2 * _SAMPLES[self.d])
            there = inside[:, :, None]
            self._low[cut] = np.where(there, x, np.inf).min(axis=1) - half
            self._high[cut] = np.where(there, x, -np.inf).max(axis=1) + half

    @cached_property
    def _inner_faces(self) -> tuple[np.ndarray, ...]:
        """Faces of which a part is inside: cells, axis, the smaller cell's side, box, share."""
        mesh = self.mesh
        below, above, axis, smaller = mesh.faces
        keep = (self.share[below] > 0) & (self.share[above] > 0)
        below, above, axis, smaller = (x[keep] for x in (below, above, axis, smaller))
        row = np.arange(len(axis))
        low, high, side = mesh.lows[smaller].copy(), mesh.highs[smaller].copy(), mesh.sides[smaller]
        low[row, axis] = high[row, axis] = mesh.highs[below][row, axis]
        share = np.ones(len(axis))
        maybe = (self.share[below] < 1) | (self.share[above] < 1)
        for a in range(self.d):
            cut = np.flatnonzero(maybe & (axis == a))
            if len(cut):
                unit = np.insert(middles(_SAMPLES[self.d - 1], self.d - 1), a, 0.0, axis=1)
                x = low[cut, None] + (high - low)[cut, None] * unit
                inside = _strictly(self.shape, x)
                share[cut] = inside.mean(axis=1)
                half, there = (high - low)[cut] / (2 * _SAMPLES[self.d - 1]), inside[:, :, None]
                low[cut] = np.where(there, x, np.inf).min(axis=1) - half
                high[cut] = np.where(there, x, -np.inf).max(axis=1) + half
        some = share > 0
        pairs = np.stack([below, above], axis=1)
        return tuple(x[some] for x in (pairs, axis, side, low, high, share))

    def _join(self) -> None:
        """Cells of which little is inside are given to the neighbour with the largest common face."""
        self.owner = np.where(self.share > 0, np.arange(len(self.mesh)), -1)
        pairs, axis, side, _, _, share = self._inner_faces
        area = share * np.prod(_others(side, axis), axis=1)
        wanted, offered = np.concatenate([pairs, pairs[:, ::-1]]).T
        area = np.concatenate([area, area])
        may = (self.share[wanted] < _SMALL) & (self.share[offered] >= _SMALL)
        order = np.argsort(area[may])
        self.owner[wanted[may][order]] = offered[may][order]


def sorted_by(own: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
    order = np.argsort(own, kind="stable")
    return tuple(x[order] for x in (own, *others))


def _others(x: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """The columns other than one of each row."""
    keep = np.arange(x.shape[1]) != axis[:, None]
    return x[keep].reshape(len(x), -1)


def _strictly(shape: Any, x: np.ndarray) -> np.ndarray:
    """Which of points (n, m, d) are inside, (n, m), those on the boundary left out."""
    return (np.asarray(shape.distance(x.reshape(-1, x.shape[2]))) < 0).reshape(x.shape[:2])
