"""Where the conditions of a problem with energies are integrated: points and weights in cells."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..cells.edges import edges
from ..cells.mesh import Mesh
from ..cells.polynomials import gauss
from ..reading import Reading
from .cuts import inside_of
from .splines import Hierarchy, table

Axes = tuple[int, ...]

_AT_ONCE = 2048  # full cells
_TOGETHER = 20_000  # points of others


@dataclass(frozen=True)
class Group:
    """Cells of one level with as many points each. `points` (cells, n): their numbers; `rows`: the
    B-splines on each cell; `places` of the points in the unit cell, (n, d) if all cells have the same,
    else (cells, n, d)."""

    level: int
    points: np.ndarray
    rows: np.ndarray
    places: np.ndarray
    sides: np.ndarray
    p: int
    _tables: dict[Axes, np.ndarray] = field(default_factory=dict)

    def table(self, axes: Axes) -> np.ndarray:
        """(…, n, B-splines): a derivative of each at the points."""
        if axes not in self._tables:
            orders = tuple(axes.count(a) for a in range(self.places.shape[-1]))
            flat = table(self.p, self.places.reshape(-1, self.places.shape[-1]), orders, self.sides)
            self._tables[axes] = flat.reshape(*self.places.shape[:-1], -1)
        return self._tables[axes]


@dataclass(frozen=True)
class Sites:
    """Points, with all that a condition reads there but u; `leaf`: the cell of each; `full`: how many
    of the first ones are the Gauss points `unit` of cells that are inside as a whole."""

    where: dict[str, Any]
    weights: np.ndarray
    leaf: np.ndarray
    full: int = 0
    unit: np.ndarray | None = None

    @property
    def coords(self) -> np.ndarray:
        return self.where["coords"]

    def moved(self, leaf: np.ndarray) -> "Sites":
        """The same points in the cells of another mesh."""
        return Sites(self.where, self.weights, leaf)

    def groups(self, functions: Hierarchy) -> Iterator[Group]:
        mesh = functions.mesh
        if self.full:
            assert self.unit is not None
            points = np.arange(self.full).reshape(-1, len(self.unit))
            leaf = self.leaf[points[:, 0]]
            for number, level in enumerate(functions.levels):
                here = np.flatnonzero(mesh.level[leaf] == number)
                for first in range(0, len(here), _AT_ONCE):
                    some = here[first : first + _AT_ONCE]
                    rows = level.rows[functions.number[leaf[some]]]
                    yield Group(number, points[some], rows, self.unit, level.sides, functions.p)
        order = self.full + np.argsort(self.leaf[self.full :], kind="stable")
        leaves, starts, counts = np.unique(self.leaf[order], return_index=True, return_counts=True)
        levels = mesh.level[leaves]
        for number, count in np.unique(np.stack([levels, counts], axis=1), axis=0):
            here, level = (
                np.flatnonzero((levels == number) & (counts == count)),
                functions.levels[number],
            )
            many = max(1, _TOGETHER // count)
            for first in range(0, len(here), many):
                some = here[first : first + many]
                points = order[starts[some][:, None] + np.arange(count)]
                places = (self.coords[points] - mesh.lows[leaves[some]][:, None]) / level.sides
                rows = level.rows[functions.number[leaves[some]]]
                yield Group(int(number), points, rows, places, level.sides, functions.p)


class Inside:
    """Points in the cells of meshes of one domain, `count` along each axis; for `bent` and `finest` see
    `inside_of`. Those of cells that its boundary cuts are kept: the
    next mesh has most of these cells too."""

    def __init__(self, reading: Reading, count: int, bent: float, finest: float):
        self.domain, self.shape = reading.problem.domain, reading.shape
        self.count, self.bent, self.finest = count, bent, finest
        self._cuts: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}
        self._full: set[tuple[int, ...]] = set()

    def on(self, mesh: Mesh) -> tuple[Sites, np.ndarray]:
        """The points, and which cells have any."""
        unit, mass = gauss(self.count, len(mesh.low))
        is_full = np.ones(len(mesh), bool)
        coords, weights, leaf = [], [], []
        if self.shape is not None:
            keys = [(int(k), *map(int, i)) for k, i in zip(mesh.level, mesh.place, strict=True)]
            self._cut(mesh, keys)
            for number, key in enumerate(keys):
                if key in self._cuts:
                    x, w = self._cuts[key]
                    is_full[number] = False
                    coords.append(x)
                    weights.append(w)
                    leaf.append(np.full(len(w), number))
            is_full &= np.asarray(self.shape.distance(mesh.lows + mesh.sides / 2)) < 0
        whole = np.flatnonzero(is_full)
        x = mesh.lows[whole, None] + mesh.sides[whole, None] * unit
        coords.insert(0, x.reshape(-1, x.shape[-1]))
        weights.insert(0, (np.prod(mesh.sides[whole], axis=1)[:, None] * mass).ravel())
        leaf.insert(0, np.repeat(whole, len(unit)))
        has = np.zeros(len(mesh), bool)
        numbers = np.concatenate(leaf)
        has[numbers] = True
        where = self._where(np.concatenate(coords))
        return Sites(where, np.concatenate(weights), numbers, len(leaf[0]), unit), has

    def _cut(self, mesh: Mesh, keys: list[tuple[int, ...]]) -> None:
        """Finds the points of cells that the boundary, or that of a shape inside, cuts and that are not
        known."""
        sides = mesh.sides
        middle, radius = mesh.lows + sides / 2, np.linalg.norm(sides, axis=1) / 2
        near = lambda shape: np.abs(np.asarray(shape.distance(middle))) < radius
        within = list(getattr(self.domain, "within", {}).values())
        by = np.stack([near(self.shape), *map(near, within)], axis=1)
        known = np.array([key in self._cuts or key in self._full for key in keys])
        todo = by.any(axis=1) & ~known & (np.asarray(self.shape.distance(middle)) < radius)
        for pattern in np.unique(by[todo], axis=0):
            here = np.flatnonzero(todo & (by == pattern).all(axis=1))
            inner = [shape for shape, is_near in zip(within, pattern[1:], strict=True) if is_near]
            rules = [
                inside_of(
                    _together(self.shape, inner, signs),
                    mesh.lows[here],
                    sides[here],
                    self.count + 1,
                    self.bent,
                    self.finest,
                    1e-12 * self.shape.size,
                )
                for signs in np.ndindex(*[2] * len(inner))
            ]
            x, weights, own = (np.concatenate(part) for part in zip(*rules, strict=True))
            order = np.argsort(own, kind="stable")
            ends = np.searchsorted(own[order], np.arange(len(here) + 1))
            for k, cell in enumerate(here):
                mine = order[ends[k] : ends[k + 1]]
                if not inner and weights[mine].sum() > (1 - 1e-9) * np.prod(sides[cell]):
                    self._full.add(keys[cell])
                else:
                    self._cuts[keys[cell]] = x[mine], weights[mine]

    def _where(self, coords: np.ndarray) -> dict[str, Any]:
        known = getattr(self.domain.interior, "known", None)
        data = {} if known is None else known(coords)
        return {"coords": coords, "partners": {}, "data": {**data, "index": np.arange(len(coords))}}


def on_boundary(reading: Reading, index: int, functions: Hierarchy, count: int) -> Sites:
    """About `count` points along each direction of the boundary in a cell, where a condition holds."""
    region, mesh = reading.problem.conditions[index].on, functions.mesh
    if reading.shape is None:
        coords, normals, weights = (
            np.concatenate(part)
            for part in zip(*(_on_face(mesh, side, count) for side in region.sides), strict=True)
        )
    else:
        ring = edges(reading.shape, mesh, 3 * count, {name for (name,) in region.sides})
        coords, normals, weights = ring.coords, ring.normals, ring.weights
    size = np.linalg.norm(mesh.high - mesh.low)
    leaf = functions.locate(coords - 1e-7 * size * normals)
    known = getattr(region, "known", None)
    data = {} if known is None else known(coords)
    data = {**data, "normal": normals, "index": np.arange(len(coords))}
    return Sites({"coords": coords, "partners": {}, "data": data}, weights, leaf)


def _on_face(mesh: Mesh, side: tuple[int, int], count: int) -> tuple[np.ndarray, ...]:
    """Gauss points of the cells at a face of a box."""
    axis, end = side
    d, last = len(mesh.low), (mesh.counts[axis] << mesh.level) - 1
    here = mesh.place[:, axis] == (last if end else 0)
    low, sides = mesh.lows[here], mesh.sides[here]
    flat = [a for a in range(d) if a != axis]
    unit, mass = gauss(count, d - 1) if flat else (np.zeros((1, 0)), np.ones(1))
    x = np.repeat(low[:, None], len(mass), axis=1)
    x[:, :, flat] += sides[:, None, flat] * unit
    x[:, :, axis] = mesh.high[axis] if end else mesh.low[axis]
    normal = np.where(np.arange(d) == axis, (-1.0, 1.0)[end], 0.0)
    weights = np.prod(sides[:, flat], axis=1)[:, None] * mass
    coords = x.reshape(-1, d)
    return coords, np.repeat(normal[None], len(coords), axis=0), weights.ravel()


def _together(shape: Any, inner: list[Any], signs: tuple[int, ...]) -> Any:
    """The distance of what is in the shape, and in or out of each of the others."""

    def distance(x: np.ndarray) -> np.ndarray:
        parts = [np.asarray(shape.distance(x))]
        for other, sign in zip(inner, signs, strict=True):
            parts.append((1, -1)[sign] * np.asarray(other.distance(x)))
        return np.max(parts, axis=0)

    return distance
