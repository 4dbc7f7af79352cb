"""Patches: pieces of a boundary as images of the unit interval, square or cube."""

from collections.abc import Callable
from dataclasses import dataclass
from math import gamma, pi
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

# Points, and what patches map to them, in arrays of NumPy or JAX.
Coords: TypeAlias = Shaped[Any, "n d"]
Parameters: TypeAlias = Shaped[Any, "n k"]


class ShapeError(ValueError):
    """A shape that cannot be used, and what is wrong with it."""


def space(*arrays: Any) -> Any:
    """NumPy, or JAX where anything is JAX's: nothing is compiled where nothing is differentiated."""
    leaves = jax.tree.leaves(arrays)
    return jnp if any(isinstance(leaf, jax.Array | jax.core.Tracer) for leaf in leaves) else np


@dataclass(frozen=True, eq=False)
class Patch:
    """`at(s)` for s of shape (n, k) gives points (n, d), outward normals, and the measure of the image
    per unit of s. `suffix` tells it from others of the same primitive; `even` says that the measure per
    unit is the same everywhere; `corners` (m, d, d) are those of the simplices it consists of, if so."""

    at: Callable[[Any], tuple[Any, Any, Any]]
    suffix: str = ""
    even: bool = True
    corners: Any = None


def sphere(dim: int, s: Parameters) -> Any:
    """The unit cube onto the unit sphere of R^dim, equal volumes to equal areas.

    The last coordinate z of an evenly drawn point has density (1 − z²)^((dim−3)/2); the others are a
    point of the sphere with one dimension less, of radius √(1 − z²).
    """
    xp = space(s)
    if dim == 2:
        return xp.stack([xp.cos(2 * pi * s[:, 0]), xp.sin(2 * pi * s[:, 0])], axis=1)
    if dim == 3:
        z = 1 - 2 * s[:, :1]
    else:
        from scipy.special import betaincinv  # slow to import

        z = 2 * betaincinv((dim - 1) / 2, (dim - 1) / 2, np.asarray(s[:, :1])) - 1
    return xp.concatenate([xp.sqrt(xp.maximum(1 - z**2, 0)) * sphere(dim - 1, s[:, 1:]), z], axis=1)


def sphere_area(dim: int) -> float:
    """Of the unit sphere in R^dim."""
    return 2 * pi ** (dim / 2) / gamma(dim / 2)


def simplices(corners: Shaped[Any, "m d d"], suffix: str = "") -> Patch:
    """Segments in the plane or triangles in space, of shape (m, d, d), as one patch of even measure.

    The first parameter runs through them by their measure. Their outward normals are on the right of
    segments, and where triangles run anticlockwise.
    """
    normals, sizes = _normals(corners)
    xp = space(corners)
    whole, ends = xp.sum(sizes), np.cumsum(np.asarray(jax.lax.stop_gradient(sizes)))
    ends = ends / ends[-1]

    def at(s: Parameters) -> tuple[Any, Any, Any]:
        first = np.asarray(s[:, 0])
        row = np.minimum(np.searchsorted(ends, first, side="right"), len(ends) - 1)
        start = np.where(row > 0, ends[row - 1], 0.0)
        u = np.clip((first - start) / np.maximum(ends[row] - start, 1e-300), 0, 1)[:, None]
        here, v = corners[row], np.asarray(s[:, 1:2])
        if len(ends) > 1:  # within each, so that a point has one normal
            u, v = np.clip(u, 1e-6, 1 - 1e-6), np.clip(v, 1e-6, 1 - 1e-6)
        points = (1 - u) * here[:, 0] + u * here[:, 1]
        if here.shape[2] == 3:
            root = np.sqrt(u)
            points = (1 - root) * here[:, 0] + root * ((1 - v) * here[:, 1] + v * here[:, 2])
        return points, normals[row], xp.broadcast_to(whole, (len(row),))

    return Patch(at, suffix, corners=corners)


def _normals(corners: Shaped[Any, "m d d"]) -> tuple[Any, Any]:
    """Unit normals and measures of segments or triangles."""
    xp = space(corners)
    along = corners[:, 1] - corners[:, 0]
    if corners.shape[2] == 2:
        normal, share = xp.stack([along[:, 1], -along[:, 0]], axis=1), 1.0
    else:
        normal, share = xp.cross(along, corners[:, 2] - corners[:, 0]), 0.5
    length = xp.sqrt(xp.sum(normal**2, axis=1))
    return normal / length[:, None], share * length
