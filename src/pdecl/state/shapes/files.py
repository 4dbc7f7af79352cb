"""Shapes from files, and closed outlines and surfaces as shapes.

STL, PLY and OBJ are read by trimesh, gmsh's .msh by meshio: what others build on, both pure Python.
Whether a surface is closed and its faces turned alike is checked here.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ...support.mistakes import found
from ..rules import kronecker
from .patches import Patch, ShapeError, simplices, space
from .primitives import segment_distance
from .shape import Primitive

_NEAR = 12  # facets that a point is compared with


class Facets(Primitive):
    """What closed segments (m, 2, 2) in the plane or triangles (m, 3, 3) in space go round.

    The outside is on the right of segments, and where triangles run anticlockwise. `names`: of the part
    of the boundary that each is of.
    """

    kind = "facets"

    def __init__(self, corners: Any, names: Any = None, part: str | None = None):
        self.facets, self.part = np.asarray(corners, float), part
        self.dim = self.facets.shape[-1]
        if self.facets.ndim != 3 or self.facets.shape[1:] not in ((2, 2), (3, 3)):
            raise ValueError(
                f"Facets: `corners` must have shape (m, 2, 2) or (m, 3, 3); found {self.facets.shape}."
            )
        if len(self.facets) <= self.dim or not np.all(np.isfinite(self.facets)):
            raise ShapeError(f"Facets: {len(self.facets)} facets go round nothing, or are not finite.")
        self.facet_names = np.asarray([""] * len(self.facets) if names is None else names)
        ids = _vertices(self.facets)
        _require_closed(ids)
        self.exact = _volume(self.facets)
        if self.exact <= 0:
            raise ShapeError(
                "faces are turned inside out: the volume that they go round is negative. Read the file "
                "with repair=True, or turn the corners of each round."
            )
        _require_simple(self.facets)

    def __repr__(self) -> str:
        return f"Facets({len(self.facets)} {('segments', 'triangles')[self.dim - 2]})"

    def distance(self, points: Any) -> Any:
        if self.dim == 2:
            return segment_distance(points, self.facets[:, 0], self.facets[:, 1])
        return self._nearest(np.asarray(points))[0] if space(points) is np else _distance(self, points)

    @property
    def bounding_box(self) -> tuple[np.ndarray, np.ndarray]:
        return self.facets.min(axis=(0, 1)), self.facets.max(axis=(0, 1))

    def patches(self, reach: float, middle: Any) -> list[Patch]:
        distinct = dict.fromkeys(self.facet_names.tolist())
        return [
            simplices(self.facets[self.facet_names == name], f"surface {name}".strip())
            for name in distinct
        ]

    def _nearest(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Signed distances to triangles, and the nearest points on them.

        Of triangles that are equally near (at an edge) the one that faces the point most tells the side.
        """
        from trimesh.triangles import closest_point

        tree, owner, normals = self._cached("tree", self._tree)
        if len(points) > 20_000:
            parts = [self._nearest(points[i : i + 20_000]) for i in range(0, len(points), 20_000)]
            return np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts])
        rows = np.sort(owner[tree.query(points, k=_NEAR)[1]], axis=1)
        # Neighbouring samples are mostly of the same triangle, which is looked at once.
        repeated = np.zeros(rows.shape, bool)
        repeated[:, 1:] = rows[:, 1:] == rows[:, :-1]
        point, place = np.nonzero(~repeated)
        closest = np.full((*rows.shape, 3), np.inf)
        closest[point, place] = closest_point(self.facets[rows[point, place]], points[point])
        off = points[:, None, :] - closest
        length = np.linalg.norm(off, axis=2)
        facing = np.sum(np.where(repeated[..., None], 0.0, off) * normals[rows], axis=2)
        least = length.min(axis=1, keepdims=True)
        alike = length <= least + 1e-9 * self.size
        best = np.argmax(np.where(alike, np.abs(facing), -1.0), axis=1)[:, None]
        sign = np.where(np.take_along_axis(facing, best, 1)[:, 0] > 0, 1.0, -1.0)
        return sign * least[:, 0], np.take_along_axis(closest, best[..., None], 1)[:, 0]

    def _tree(self) -> tuple:
        """Points of the surface to look near: evenly spread, and each triangle's corners and centre."""
        from scipy.spatial import cKDTree  # slow to import

        count = max(20_000, 4 * len(self.facets))
        patch = simplices(self.facets)
        areas = np.linalg.norm(_crosses(self.facets), axis=1)
        s, ends = kronecker(count, 2), np.cumsum(areas) / np.sum(areas)
        even = patch.at(s)[0]
        owner = np.minimum(np.searchsorted(ends, s[:, 0], side="right"), len(ends) - 1)
        inner = 0.98 * self.facets + 0.02 * self.facets.mean(axis=1, keepdims=True)
        of = np.arange(len(self.facets))
        samples = np.concatenate([even, inner.reshape(-1, 3), self.facets.mean(axis=1)])
        return (
            cKDTree(samples),
            np.concatenate([owner, np.repeat(of, 3), of]),
            _crosses(self.facets) / areas[:, None],
        )


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _distance(shape: Facets, points: Any) -> Any:
    def call(x: Any) -> Any:
        x = np.asarray(x)
        return shape._nearest(x.reshape(-1, 3))[0].reshape(x.shape[:-1]).astype(x.dtype)

    like = jax.ShapeDtypeStruct(points.shape[:-1], points.dtype)
    return jax.pure_callback(call, like, points, vmap_method="broadcast_all")


@_distance.defjvp
def _distance_jvp(shape: Facets, primals: tuple, tangents: tuple) -> tuple:
    (points,), (along,) = primals, tangents

    def call(x: Any) -> Any:
        flat = np.asarray(x).reshape(-1, 3)
        distance, nearest = shape._nearest(flat)
        slope = (flat - nearest) / np.where(distance == 0, 1.0, distance)[:, None]
        return slope.reshape(x.shape).astype(x.dtype)

    like = jax.ShapeDtypeStruct(points.shape, points.dtype)
    slope = jax.pure_callback(call, like, points, vmap_method="broadcast_all")
    return _distance(shape, points), (slope * along).sum(axis=-1)


def load(
    path: str | os.PathLike[str], scale: float = 1.0, repair: bool = False, part: str | None = None
) -> Facets:
    """The shape in a file: a closed surface (STL, PLY, OBJ), or the domain of a mesh of gmsh (.msh), in
    the plane or in space, with its physical groups as parts of the boundary.

    Arguments:

    - `scale`: what coordinates are multiplied by, such as 1e-3 for millimetres.
    - `repair`: turns faces so that all lead out, and fills small holes.
    - `part`: what the boundary is called where the file has no names.
    """
    path, kind = Path(path), Path(path).suffix.lower()
    if not path.exists():
        raise FileNotFoundError(f"load: there is no file {path}.")
    if kind not in (".stl", ".ply", ".obj", ".msh"):
        raise ValueError(f"load: {path.name} is no STL, PLY, OBJ or gmsh .msh file: convert it to one.")
    if (
        isinstance(scale, bool)
        or not isinstance(scale, int | float | np.number)
        or not 0 < scale < np.inf
    ):
        raise ValueError(
            "load: `scale` must be a positive number, such as 1e-3 for millimetres; found "
            f"{found(scale)}."
        )
    read = _gmsh if kind == ".msh" else _surface
    try:
        corners, names = read(path, repair)
        return Facets(corners * scale, names, part)
    except ShapeError as error:
        raise ShapeError(f"{path.name}: {error}") from None
    except ImportError as error:
        raise ImportError(f"load: {error.name} is missing: pip install 'pdecl[shapes]'.") from error


def _surface(path: Path, repair: bool) -> tuple[np.ndarray, None]:
    import trimesh

    try:
        mesh: Any = trimesh.load(path, force="mesh")
    except ValueError as error:
        raise ShapeError(f"it cannot be read ({error}).") from None
    if len(getattr(mesh, "faces", ())) == 0:
        raise ShapeError("it holds no triangles.")
    if repair:
        trimesh.repair.fill_holes(mesh)
        trimesh.repair.fix_normals(mesh)
    mesh.update_faces(mesh.nondegenerate_faces())
    return np.asarray(mesh.triangles, float), None


def _gmsh(path: Path, repair: bool) -> tuple[np.ndarray, np.ndarray]:
    """Facets of one triangle (tetrahedron) only, with the names of their physical groups."""
    import meshio

    try:
        mesh = meshio.gmsh.read(path)
    except (meshio.ReadError, ValueError, IndexError) as error:
        raise ShapeError(f"it is no mesh of gmsh that meshio can read ({error}).") from None
    mesh.cells = [_straight(block) for block in mesh.cells]
    kinds = {block.type for block in mesh.cells}
    solid, facet = ("tetra", "triangle") if "tetra" in kinds else ("triangle", "line")
    if solid not in kinds:
        raise ShapeError(f"it holds no triangles or tetrahedra, but {', '.join(sorted(kinds))}.")
    dim = 3 if solid == "tetra" else 2
    points = np.asarray(mesh.points, float)
    if dim == 2 and np.any(points[:, 2:] != points[:1, 2:]):
        # A surface in space, closed or not; the check is made later.
        faces = np.concatenate([block.data for block in mesh.cells if block.type == "triangle"])
        return points[faces], _groups(mesh, "triangle", faces)
    cells = np.concatenate([block.data for block in mesh.cells if block.type == solid])
    cells = _positive(points[:, :dim], cells)
    sides = [[0, 1], [1, 2], [2, 0]] if dim == 2 else [[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]]
    faces = cells[:, sides].reshape(-1, dim)
    _, first, counts = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    faces = faces[first[counts == 1]]
    return points[faces][..., :dim], _groups(mesh, facet, faces)


def _straight(block: Any) -> Any:
    """Cells of second order without the nodes between their corners."""
    import meshio

    kind, count = {
        "line3": ("line", 2), "triangle6": ("triangle", 3), "tetra10": ("tetra", 4)
    }.get(block.type, (block.type, None))  # fmt: skip
    return meshio.CellBlock(kind, block.data[:, :count])


def _positive(points: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Cells whose corners run in the positive sense."""
    along = points[cells[:, 1:]] - points[cells[:, :1]]
    turned = np.linalg.det(along) < 0
    cells = cells.copy()
    cells[turned, :2] = cells[turned, 1::-1]
    return cells


def _groups(mesh: Any, kind: str, faces: np.ndarray) -> np.ndarray:
    """The physical group of each face, "" where it has none."""
    words = {(int(tag), int(dim)): name for name, (tag, dim) in mesh.field_data.items()}
    dim, known = {"line": 1, "triangle": 2}[kind], {}
    tags = mesh.cell_data.get("gmsh:physical", [np.zeros(len(b.data), int) for b in mesh.cells])
    for block, tag in zip(mesh.cells, tags, strict=True):
        if block.type == kind:
            for face, number in zip(np.sort(block.data, axis=1), tag, strict=True):
                known[tuple(face)] = words.get((int(number), dim), f"group {number}" if number else "")
    return np.asarray([known.get(tuple(face), "") for face in np.sort(faces, axis=1)])


def _vertices(corners: np.ndarray) -> np.ndarray:
    """Numbers of corners, alike where they are equal to within a billionth of the whole."""
    flat = corners.reshape(-1, corners.shape[-1])
    grid = np.round((flat - flat.min(axis=0)) / (1e-9 * np.ptp(flat, axis=0).max()))
    return np.unique(grid, axis=0, return_inverse=True)[1].reshape(corners.shape[:2])


def _require_closed(ids: np.ndarray) -> None:
    """That every edge (corner) is gone through as often one way as the other."""
    if ids.shape[1] == 2:
        starts, ends = (np.bincount(ids[:, i], minlength=ids.max() + 1) for i in (0, 1))
        if np.any(starts != ends):
            raise ShapeError(f"the outline is open at {np.sum(starts != ends)} corners.")
        return
    edges = ids[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    way = np.where(edges[:, 0] < edges[:, 1], 1, -1)
    _, which = np.unique(np.sort(edges, axis=1), axis=0, return_inverse=True)
    count, balance = np.bincount(which.ravel()), np.bincount(which.ravel(), weights=way)
    if np.any(count % 2):
        raise ShapeError(
            f"the surface is open: {np.sum(count % 2)} edges belong to one face only. Close it, or read "
            "the file with repair=True."
        )
    if np.any(balance):
        raise ShapeError(
            f"faces are turned inside out: at {np.sum(balance != 0)} edges neighbours run in different "
            "senses. Read the file with repair=True."
        )


def _require_simple(corners: np.ndarray) -> None:
    """That facets go round every place once or not at all, at points spread over their box."""
    count = int(np.clip(2_000_000 // len(corners), 16, 256))
    low, high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
    points = low + (high - low) * kronecker(count, corners.shape[-1])
    turns = np.concatenate([_turns(corners, some) for some in np.array_split(points, 16)])
    wrong = np.flatnonzero(np.abs(turns - 0.5) > 1)
    if len(wrong):
        raise ShapeError(
            f"its faces go round the point {points[wrong[0]]} {turns[wrong[0]]:.0f} times: bodies "
            "overlap, the surface cuts itself, or that of a hollow is turned inside out. Load bodies "
            "one by one and unite them: a | b."
        )


def _turns(corners: np.ndarray, points: np.ndarray) -> np.ndarray:
    """How often facets go round each point: the sum of the angles at which they are seen."""
    sides = corners - points[:, None, None]
    if corners.shape[-1] == 2:
        (a, b), dot = np.moveaxis(sides, 2, 0), np.prod(sides, axis=2).sum(axis=-1)
        return np.arctan2(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0], dot).sum(axis=1) / (2 * np.pi)
    a, b, c = np.moveaxis(sides, 2, 0)
    la, lb, lc = np.moveaxis(np.linalg.norm(sides, axis=-1), 2, 0)
    dot = lambda x, y: np.einsum("...i,...i->...", x, y)
    below = la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb
    return np.arctan2(dot(a, np.cross(b, c)), below).sum(axis=1) / (2 * np.pi)


def _crosses(corners: np.ndarray) -> np.ndarray:
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2


def _volume(corners: np.ndarray) -> float:
    centred = corners - corners.mean(axis=(0, 1))
    if corners.shape[-1] == 2:
        a, b = centred[:, 0], centred[:, 1]
        return float(np.sum(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2)
    return float(np.sum(centred[:, 0] * _crosses(centred)) / 3)
