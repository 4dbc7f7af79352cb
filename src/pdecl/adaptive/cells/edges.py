"""Points on the boundary of a shape, as dense as the cells there ask for."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...state.shapes.boundary import Piece
from .mesh import Mesh
from .polynomials import gauss, middles

_ROUNDS = 40


@dataclass(frozen=True)
class Edges:
    """Boundary points with outward normals and weights; `piece`: which of the boundary's they are on."""

    coords: np.ndarray
    normals: np.ndarray
    weights: np.ndarray
    piece: np.ndarray


def edges(shape: Any, mesh: Mesh, count: int, named: set[str] | None = None) -> Edges:
    """About `count` points along each direction of the boundary in a cell, on all pieces or on those with
    one of some names."""
    found = []
    for number, piece in enumerate(shape.traced.pieces):
        if named is not None and not named & set(piece.names):
            continue
        x, normals, weights = _on_piece(shape, piece, mesh, count)
        found.append((x, normals, weights, np.full(len(x), number)))
    return Edges(*(np.concatenate(part) for part in zip(*found, strict=True)))


def _on_piece(shape: Any, piece: Piece, mesh: Mesh, count: int) -> tuple[np.ndarray, ...]:
    """Gauss points of parts of the patch's parameters, halved until a part is a quarter of its cell."""
    d = len(mesh.low)
    k, (a, b) = d - 1, piece.ends
    stretched = lambda s: np.concatenate([a + (b - a) * s[:, :1], s[:, 1:]], axis=1)
    first = {1: 16, 2: 6}[k]
    s, side = middles(first, k), np.full(first**k, 1 / first)
    unit, mass = gauss(max(2, count // 3), k)
    done = []
    for _ in range(_ROUNDS):
        x, _, jacobian = piece.patch.at(stretched(s))
        cell = mesh.sides[mesh.locate(x)].min(axis=1)
        large = (b - a) * jacobian * side**k > (cell / 4) ** k
        inner = (s[~large, None] + side[~large, None, None] * (unit - 0.5)).reshape(-1, k)
        x, normals, jacobian = piece.patch.at(stretched(inner))
        shares = (side[~large, None] ** k * mass).ravel()
        done.append((x, piece.sign * normals, (b - a) * jacobian * shares))
        if not large.any():
            break
        ways = middles(2, k) - 0.5
        s = (s[large, None] + side[large, None, None] * ways).reshape(-1, k)
        side = np.repeat(side[large] / 2, 2**k)
    x, normals, weights = (np.concatenate(part) for part in zip(*done, strict=True))
    boundary = shape.traced
    if d > 2 and not (boundary.whole and not shape.renamed()):
        names, signs = boundary.classify(x, piece.sign * normals, piece.leaf, piece.patch)
        here = (names == boundary.classify.number(piece.names)) & (signs == piece.sign)
        x, normals, weights = x[here], normals[here], weights[here]
    return x, normals, weights
