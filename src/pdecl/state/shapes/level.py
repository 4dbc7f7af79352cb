"""The zero level of a function as segments or triangles."""

from collections.abc import Callable
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from .patches import ShapeError

if TYPE_CHECKING:
    from .primitives import Signed


def level_set(shape: "Signed") -> np.ndarray:
    """Segments (m, 2, 2) or triangles (m, 3, 3), their right (anticlockwise) side outside.

    The cells of a grid are cut into simplices along their diagonals, in which the function is taken as
    linear; then corners are moved onto the level along its gradient.
    """
    dim, (low, high) = shape.dim, shape.bounding_box
    number = np.maximum(4, np.ceil((high - low) / (high - low).max() * shape.cells)).astype(int)
    axes = [np.linspace(a, b, n + 1) for a, b, n in zip(low, high, number, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    values = np.asarray(shape.distance(grid.reshape(-1, dim)), float).reshape(grid.shape[:-1])
    if not np.all(np.isfinite(values)):
        raise ShapeError(f"{shape!r}: the function is NaN or infinite somewhere in its box.")
    if np.min(values) >= 0:
        raise ShapeError(f"{shape!r} is empty: the function is negative nowhere in its box.")
    edge = [np.moveaxis(values, axis, 0)[end] for axis in range(dim) for end in (0, -1)]
    if any(np.min(face) < 0 for face in edge):
        raise ShapeError(
            f"{shape!r} is open: the function is negative on an edge of its box: make the box larger, "
            "or intersect with a Cuboid."
        )
    values = np.where(values == 0, 1e-12 * shape.size, values)
    cells = simplices_of(values.shape)
    corners = facets_of(grid.reshape(-1, dim)[cells], values.ravel()[cells])
    moved, _ = onto_level(shape.distance, corners.reshape(-1, dim), np.min((high - low) / number))
    corners = moved.reshape(corners.shape)
    return _outward(shape, corners[_sizes(corners) > 1e-9 * np.max(_sizes(corners))])


def simplices_of(counts: tuple[int, ...]) -> np.ndarray:
    """Numbers of the corners (m, d + 1) of the simplices that the cells of a grid are cut into: one for
    each path along edges from a cell's lowest corner to its highest."""
    dim, index, simplices = len(counts), np.arange(np.prod(counts)).reshape(counts), []
    for order in permutations(range(dim)):
        at = [np.zeros(dim, int)]
        for axis in order:
            at.append(at[-1] + np.eye(dim, dtype=int)[axis])
        parts = [tuple(slice(i, n - 1 + i) for i, n in zip(a, counts, strict=True)) for a in at]
        simplices.append(np.stack([index[part].ravel() for part in parts], axis=1))
    return np.concatenate(simplices)


def facets_of(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The zero level of functions that are linear in simplices: segments or triangles (m, d, d)."""
    order = np.argsort(values, axis=1)
    values = np.take_along_axis(values, order, 1)
    points = np.take_along_axis(points, order[..., None], 1)
    dim, below = points.shape[2], np.sum(values < 0, axis=1)

    def between(rows: np.ndarray, i: int, j: int) -> np.ndarray:
        a, b = values[rows, i, None], values[rows, j, None]
        return points[rows, i] + (a / (a - b)) * (points[rows, j] - points[rows, i])

    facets = []
    for count in range(1, dim + 1):
        rows = np.flatnonzero(below == count)
        ends = [between(rows, i, j) for i in range(count) for j in range(count, dim + 1)]
        picks = [tuple(range(dim))] if len(ends) == dim else [(0, 1, 2), (1, 3, 2)]
        facets += [np.stack([ends[i] for i in pick], axis=1) for pick in picks]
    return np.concatenate(facets)


def onto_level(
    distance: Callable[[np.ndarray], Any], x: np.ndarray, cell: float, steps: int = 3
) -> tuple[np.ndarray, np.ndarray]:
    """Points moved by Newton steps along the gradient, none longer than a cell, and the gradient."""
    step, at = 1e-5 * cell, lambda x: np.asarray(distance(x))
    for _ in range(steps):
        ways = step * np.eye(x.shape[1])
        slope = np.stack([(at(x + e) - at(x - e)) / (2 * step) for e in ways], axis=1)
        move = (at(x) / np.maximum(np.sum(slope**2, axis=1), 1e-12))[:, None] * slope
        move *= np.minimum(1, cell / np.maximum(np.linalg.norm(move, axis=1), 1e-300))[:, None]
        x = x - move
    return x, slope


def _sizes(corners: np.ndarray) -> np.ndarray:
    along = corners[:, 1] - corners[:, 0]
    if corners.shape[2] == 2:
        return np.linalg.norm(along, axis=1)
    return np.linalg.norm(np.cross(along, corners[:, 2] - corners[:, 0]), axis=1)


def _outward(shape: "Signed", corners: np.ndarray) -> np.ndarray:
    along = corners[:, 1] - corners[:, 0]
    if shape.dim == 2:
        normal = np.stack([along[:, 1], -along[:, 0]], axis=1)
    else:
        normal = np.cross(along, corners[:, 2] - corners[:, 0])
    normal = normal / np.linalg.norm(normal, axis=1)[:, None]
    middle, step = corners.mean(axis=1), 1e-3 * np.sqrt(_sizes(corners).max()) * normal
    if shape.dim == 2:
        step = 1e-3 * _sizes(corners).max() * normal
    turned = np.asarray(shape.distance(middle + step)) < np.asarray(shape.distance(middle - step))
    corners[turned] = corners[turned][:, [1, 0, *range(2, shape.dim)]]
    return corners
