"""Products of Legendre polynomials up to a total degree, in boxes of their own."""

from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre


@lru_cache(maxsize=64)
def degrees(p: int, d: int) -> np.ndarray:
    """The degrees (n, d) of the products."""
    grid = np.indices([p + 1] * d).reshape(d, -1).T
    return grid[grid.sum(axis=1) <= p]


def products(
    coords: np.ndarray, low: np.ndarray, side: np.ndarray, p: int, orders: tuple[int, ...]
) -> np.ndarray:
    """(points, n): a derivative of each product at points that have a box each, `low` and `side` of
    shape (points, d). Their mean square over the box is one."""
    index, out = degrees(p, coords.shape[1]), np.ones((len(coords), 1))
    for a, order in enumerate(orders):
        x = 2 * (coords[:, a] - low[:, a]) / side[:, a] - 1
        line = legendre.legvander(x, p) @ _derivative(p, order) * (2 / side[:, a, None]) ** order
        out = out * line[:, index[:, a]]
    return out


@lru_cache(maxsize=64)
def _derivative(p: int, order: int) -> np.ndarray:
    """Legendre coefficients of a derivative of each P_k √(2k + 1)."""
    out = np.zeros((p + 1, p + 1))
    if order <= p:
        out[: p + 1 - order] = legendre.legder(np.eye(p + 1), order, axis=0)
    return out * np.sqrt(2 * np.arange(p + 1) + 1)


@lru_cache(maxsize=64)
def gauss(count: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss points of the unit cube, `count` along each coordinate, and their weights."""
    x, w = legendre.leggauss(count)
    grid = np.stack(np.meshgrid(*[(x + 1) / 2] * d, indexing="ij"), -1).reshape(-1, d)
    return grid, np.prod(np.stack(np.meshgrid(*[w / 2] * d, indexing="ij"), -1), axis=-1).ravel()


@lru_cache(maxsize=64)
def middles(count: int, d: int) -> np.ndarray:
    """Midpoints of the unit cube's parts, `count` along each coordinate."""
    x = (np.arange(count) + 0.5) / count
    return np.stack(np.meshgrid(*[x] * d, indexing="ij"), -1).reshape(-1, d)
