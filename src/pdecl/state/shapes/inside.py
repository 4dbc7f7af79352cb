"""Points inside a shape: cells that are halved where the boundary cuts them."""

from typing import TYPE_CHECKING

import numpy as np

from ..rules import kronecker
from .boundary import Pool, measure_by_divergence
from .patches import ShapeError
from .strata import Strata

if TYPE_CHECKING:
    from .shape import Shape

_SEVERAL = 16  # points of a pool for each that is picked
_CUT = 20_000  # cells that the boundary cuts, at most


def fill(shape: "Shape", count: int = 256) -> Pool:
    """Many points inside with the volume of each, and how much denser points should lie there."""
    low, high = shape.traced.shape.bounding_box
    find = _cells if shape.dim <= 3 else _sieve
    coords, weights, depth = find(shape, low, high, _SEVERAL * count)
    if len(coords) == 0:
        raise ShapeError(f"{shape!r} is empty: no point is inside of it.")
    exact = measure_by_divergence(shape)
    weights = weights * ((exact or weights.sum()) / weights.sum())
    spacing = (weights.sum() / count) ** (1 / shape.dim)
    density = _thinness(coords, depth, spacing) if shape.dim <= 3 else np.ones(len(coords))
    none = np.zeros(len(coords), int)
    return Pool(coords, np.zeros_like(coords), weights, density, none, coords)


def centres(shape: "Shape", pool: Pool, groups: Strata) -> np.ndarray:
    """The centre of mass of each group of points, or where that is outside the point next to it."""
    middle, means = pool.coords[groups.middle], groups.means(pool.coords, pool.weights)
    inside = np.asarray(shape.distance(means[:, : shape.dim])) < -1e-6 * shape.size
    return np.where(inside[:, None], means, middle)


def _cells(
    shape: "Shape", low: np.ndarray, high: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Midpoints of cells that are inside, their volumes and depths."""
    dim = shape.dim
    number = np.maximum(2, np.ceil((high - low) / (high - low).max() * 8)).astype(int)
    side = (high - low) / number
    corner = np.stack(np.meshgrid(*map(np.arange, number), indexing="ij"), -1).reshape(-1, dim)
    middles = low + (corner + 0.5) * side
    halves = np.stack(np.meshgrid(*[[-0.25, 0.25]] * dim, indexing="ij"), -1).reshape(-1, dim)
    levels: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    volume = None
    for level in range(40):
        distance = np.asarray(shape.distance(middles))
        radius = np.linalg.norm(side) / 2
        cut, full = np.abs(distance) < radius, distance <= -radius
        inside = sum(w.sum() for _, w, _ in levels) + np.prod(side) * (full.sum() + cut.sum() / 2)
        volume = inside if volume is None or inside > 0 else volume
        fine = np.prod(side) <= inside / count
        more = np.sum(cut) * 2**dim <= _CUT * dim
        keep = full if not (fine and not more) else distance <= 0
        if fine:
            levels.append(_with(middles[keep], np.prod(side), distance[keep]))
            if not more:
                break
            middles = middles[cut]
        else:
            middles = middles[cut | full]
        if len(middles) == 0 or level == 39:
            break
        middles = (middles[:, None, :] + halves * side).reshape(-1, dim)
        side = side / 2
    parts = [np.concatenate(part) for part in zip(*levels, strict=True)]
    return parts[0], parts[1], parts[2]


def _with(middles: np.ndarray, volume: float, distance: np.ndarray) -> tuple:
    """What a level of cells adds."""
    return middles, np.full(len(middles), volume), -distance


def _sieve(shape: "Shape", low: np.ndarray, high: np.ndarray, count: int) -> tuple:
    """Points of low discrepancy in the bounding box that are inside."""
    tried = 4 * count
    for _ in range(8):
        coords = low + (high - low) * kronecker(tried, shape.dim)
        distance = np.asarray(shape.distance(coords))
        if np.sum(distance <= 0) >= count or tried > 4_000_000:
            break
        tried *= 4
    inside = distance <= 0
    return _with(coords[inside], np.prod(high - low) / tried, distance[inside])


def _thinness(coords: np.ndarray, depth: np.ndarray, spacing: float) -> np.ndarray:
    """How much denser points should lie than evenly: a part thinner than the spacing gets points as far
    apart as the spacing along it, by the deepest point of a block of 3^d cells of that side."""
    from scipy.ndimage import maximum_filter  # slow to import

    low = coords.min(axis=0)
    index = ((coords - low) / spacing).astype(int)
    deepest = np.zeros(index.max(axis=0) + 1)
    np.maximum.at(deepest, tuple(index.T), depth)
    around = maximum_filter(deepest, size=3)[tuple(index.T)]
    return np.clip(0.5 * spacing / np.maximum(around, 1e-300), 1.0, 20.0)
