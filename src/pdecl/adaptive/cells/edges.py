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
    """About `count` points along each direction of the boundary in a cell, on all pieces or on those
    with one of some names."""
    found = []
    for number, piece in enumerate(shape.traced.pieces):
        if named is not None and not named & set(piece.names):
            continue
        x, normals, weights = _on_piece(shape, piece, mesh, count)
        found.append((x, normals, weights, np.full(len(x), number)))
    return Edges(*(np.concatenate(part) for part in zip(*found, strict=True)))


def _on_piece(shape: Any, piece: Piece, mesh: Mesh, count: int) -> tuple[np.ndarray, ...]:
    """Points of what is left of a piece."""
    d = len(mesh.low)
    of_triangles = d == 3 and piece.patch.corners is not None
    points = _on_triangles if of_triangles else _on_patch
    x, normals, weights = points(piece, mesh, max(2, count // 3))
    boundary = shape.traced
    if d > 2 and not (boundary.whole and not shape.renamed()):
        names, signs = boundary.classify(x, piece.sign * normals, piece.leaf, piece.patch)
        here = (names == boundary.classify.number(piece.names)) & (signs == piece.sign)
        x, normals, weights = x[here], normals[here], weights[here]
    return x, normals, weights


def _on_patch(piece: Piece, mesh: Mesh, count: int) -> tuple[np.ndarray, ...]:
    """Gauss points of parts of the patch's parameters, halved until a part is a quarter of its cell."""
    k, (a, b) = len(mesh.low) - 1, piece.ends
    stretched = lambda s: np.concatenate([a + (b - a) * s[:, :1], s[:, 1:]], axis=1)
    first = {1: 16, 2: 6}[k]
    s, side = middles(first, k), np.full(first**k, 1 / first)
    unit, mass = gauss(count, k)
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
    return x, normals, weights


def _on_triangles(piece: Piece, mesh: Mesh, count: int) -> tuple[np.ndarray, ...]:
    """Gauss points of triangles, each quartered until it is smaller than half its cell: parameters that
    run through all of them would mix their weights."""
    corners, done = np.asarray(piece.patch.corners), []
    unit, mass = gauss(count, 2)
    r, v = unit[:, :1], unit[:, 1:]
    shares = np.concatenate([1 - r, r * (1 - v), r * v], axis=1)
    for _ in range(_ROUNDS):
        turned = corners[:, [1, 2, 0]]
        long = np.linalg.norm(turned - corners, axis=2).max(axis=1)
        large = long > mesh.sides[mesh.locate(corners.mean(axis=1))].min(axis=1) / 2
        here = corners[~large]
        crosses = np.cross(here[:, 1] - here[:, 0], here[:, 2] - here[:, 0])
        twice = np.linalg.norm(crosses, axis=1)
        normals = piece.sign * np.repeat(crosses / twice[:, None], len(mass), axis=0)
        x = np.einsum("qk,nkd->nqd", shares, here).reshape(-1, 3)
        done.append((x, normals, (twice[:, None] * mass * r[:, 0]).ravel()))
        if not large.any():
            break
        a, middle = corners[large], ((corners + turned) / 2)[large]
        ab, bc, ca = middle[:, 0], middle[:, 1], middle[:, 2]
        quarters = [(a[:, 0], ab, ca), (ab, a[:, 1], bc), (ca, bc, a[:, 2]), (ab, bc, ca)]
        corners = np.concatenate([np.stack(quarter, axis=1) for quarter in quarters])
    x, normals, weights = (np.concatenate(part) for part in zip(*done, strict=True))
    return x, normals, weights
