"""The boundary of a combined shape: what is left of each primitive's patches, and points on it.

A point of a patch is on the boundary if a small step along the normal leaves the shape, in one sense or
the other. So coincident faces, which abound in what people draw, need no case of their own. Signed
distances change at most as fast as the point moves, so a stretch of a patch that is farther from all
other primitives than it is long is not cut by them; others are halved.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...support.mistakes import ask
from ..rules import kronecker
from .patches import Patch, ShapeError
from .strata import apportion

if TYPE_CHECKING:
    from .shape import Shape

_STEP = 1e-8  # along the normal, relative to the shape's size
_SEVERAL = 15  # points of a pool for each that is picked; odd, so that a group of a curve has a middle
_GAUSS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True)
class Pool:
    """Many points to pick few from: weights sum to the measure, points are grouped by `sorted_by` within
    each class of `cut`, as many to a measure as `density` says."""

    coords: np.ndarray
    normals: np.ndarray
    weights: np.ndarray
    density: np.ndarray
    cut: np.ndarray
    sorted_by: np.ndarray


@dataclass(frozen=True, eq=False)
class Piece:
    """What is left of a patch: between two parameters of a curve, or wherever it is on the boundary."""

    patch: Patch
    leaf: int
    names: tuple[str, ...]
    sign: float  # of the patch's normal: −1 where the shape is outside of the primitive
    ends: tuple[float, float] = (0.0, 1.0)


class Boundary:
    """Pieces of the boundary of a shape; `names[i]` are the names of class i of its points."""

    def __init__(self, shape: "Shape", pieces: list[Piece], classify: "Classify", whole: bool):
        self.shape, self.pieces, self.classify = shape, pieces, classify
        self.whole = whole  # whether no primitive is cut by another
        self.names = [piece.names for piece in pieces]

    def pool(self, count: int, names: Sequence[str] = ()) -> Pool:
        """Points on the parts of these names (all if there are none)."""
        wanted = [i for i, own in enumerate(self.names) if not names or set(names) & set(own)]
        sizes = self.shape._cached("sizes", self._measured)
        shares = np.maximum(sizes[wanted], sizes[wanted].sum() / (4 * len(wanted)))
        numbers = apportion(shares, max(count, len(wanted)))
        make = _on_curve if self.shape.dim == 2 else self._on_patch
        parts = []
        for i, number, share in zip(wanted, numbers, shares, strict=True):
            x, normal, weights, order = make(self.pieces[i], _SEVERAL * number)
            even = np.ones(len(x))
            parts.append((x, normal, weights, share / sizes[i] * even, np.full(len(x), i), order))
        return Pool(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _measured(self) -> np.ndarray:
        if self.shape.dim == 2:
            return np.asarray([_length(piece) for piece in self.pieces])
        return np.asarray([self._on_patch(piece, 4000)[2].sum() for piece in self.pieces])

    def _on_patch(self, piece: Piece, count: int) -> tuple:
        """Points of a piece in three or more dimensions."""
        dim = self.shape.dim
        if dim == 3 and not piece.patch.suffix.startswith("surface"):
            s, share = self._cells(piece, count)
            side = np.sqrt(share)[:, None]  # off the lattice, so that no two points are alike
            s = s + 0.9 * side * (kronecker(len(s), 2) - 0.5)
        else:
            s = kronecker(count, dim - 1)
            share = np.full(count, 1.0 / count)
        x, normal, jacobian = piece.patch.at(s)
        if self.whole and not self.shape.renamed():
            here = np.ones(len(x), bool)
        else:
            names, signs = self.classify(x, normal, piece.leaf, piece.patch)
            wanted = self.classify.number(piece.names)
            here = (names == wanted) & (signs == piece.sign)
        weights = (jacobian * share)[here]
        return x[here], piece.sign * normal[here], weights, x[here]

    def _cells(self, piece: Piece, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Midpoints of squares of the patch's parameters, smaller where others cut it."""
        side, s = 1 / 8, (np.stack(np.meshgrid(*[np.arange(8)] * 2), -1).reshape(-1, 2) + 0.5) / 8
        squares, quarters = [], np.stack(np.meshgrid([-0.25, 0.25], [-0.25, 0.25]), -1).reshape(-1, 2)
        for _ in range(12):
            fine = side**2 * count <= 1
            cut = np.zeros(len(s), bool)
            if not self.whole or self.shape.renamed():
                cut = self.classify.near(piece, s, side)
            if fine and not 0 < np.sum(cut) <= 6000:
                break
            split = cut if fine else np.ones(len(s), bool)
            squares.append((s[~split], np.full(np.sum(~split), side**2)))
            s = (s[split][:, None, :] + side * quarters).reshape(-1, 2)
            side = side / 2
        squares.append((s, np.full(len(s), side**2)))
        return np.concatenate([a for a, _ in squares]), np.concatenate([b for _, b in squares])

    def corners(self) -> tuple[np.ndarray, np.ndarray]:
        """Where pieces of plane curves meet at an angle, and the angle of the inside."""
        starts, ends = zip(*(_directed(piece) for piece in self.pieces), strict=True)
        tol = 1e-6 * self.shape.size
        places, angles = [], []
        for x, t in ends:
            for y, r in starts:
                if np.linalg.norm(x - y) < tol:
                    turn = np.arctan2(t[0] * r[1] - t[1] * r[0], t @ r)
                    if abs(turn) > 1e-4:
                        places.append(x)
                        angles.append(np.pi - turn)
                    break
        return np.reshape(places, (-1, 2)), np.asarray(angles)


class Classify:
    """Which part of the boundary points of a patch are on, by number (−1: none), and with which sign."""

    def __init__(self, shape: "Shape"):
        self.shape = shape
        self.leaves = [leaf for leaf, _ in shape.leaves()]
        self.leaf_names, self.renamed = shape.leaf_names(), shape.renamed()
        self.table: list[tuple[str, ...]] = []

    def number(self, names: tuple[str, ...]) -> int:
        if names not in self.table:
            self.table.append(names)
        return self.table.index(names)

    def __call__(self, x: np.ndarray, normal: np.ndarray, leaf: int, patch: Patch) -> tuple:
        if len(self.leaves) == 1:  # all of a primitive's patches are its boundary
            signs = np.ones(len(x))
        else:
            step = _STEP * self.shape.size * normal
            behind, ahead = (np.asarray(self.shape.distance(x + way * step)) for way in (-1, 1))
            signs = np.where(
                (behind < 0) & (ahead > 0), 1.0, np.where((behind > 0) & (ahead < 0), -1.0, 0.0)
            )
        for other in self.leaves[:leaf]:  # a face of two primitives is the first one's
            signs[np.abs(other.distance(x)) < 0.01 * _STEP * self.shape.size] = 0.0
        names = np.where(signs == 0, -1, self.number(self.names(leaf, patch)))
        for part, predicate in self.renamed:
            names = np.where((names >= 0) & holds(part, predicate, x), self.number((part,)), names)
        return names, signs

    def names(self, leaf: int, patch: Patch) -> tuple[str, ...]:
        own = self.leaf_names[leaf]
        suffix = patch.suffix.removeprefix("surface").strip()
        if not suffix:
            return own
        if patch.suffix != suffix:  # a group of a file; "outer" is the rest, as it is beside a predicate
            return (suffix, *(name for name in own if name.startswith("hole")))
        return (suffix if own[0] == "outer" else f"{own[0]} {suffix}", *own)

    def near(self, piece: Piece, s: np.ndarray, side: float, named: bool = True) -> np.ndarray:
        """Which squares (or intervals) of a patch another primitive may cut, or, where parts that are
        `named` count, a predicate does."""
        x = piece.patch.at(s)[0]
        k = s.shape[1]
        ways = np.stack(np.meshgrid(*[[-0.5, 0.5]] * k), -1).reshape(-1, k)
        around = [piece.patch.at(np.clip(s + side * way, 0, 1))[0] for way in ways]
        radius = 1.05 * np.max([np.linalg.norm(y - x, axis=1) for y in around], axis=0)
        near = np.zeros(len(s), bool)
        for i, other in enumerate(self.leaves):
            if i != piece.leaf:
                near |= np.abs(np.asarray(other.distance(x))) < radius
        for part in self.renamed if named else ():
            near |= np.any([holds(*part, y) != holds(*part, x) for y in around], axis=0)
        return near


def holds(part: str, predicate: Callable, x: np.ndarray) -> np.ndarray:
    """Where a user's predicate holds."""
    values = np.asarray(ask(f"the predicate of the part {part!r}", predicate, x))
    if values.shape != (len(x),):
        raise ValueError(
            f"name: the predicate of {part!r} must return {len(x)} truth values for {len(x)} points; "
            f"found shape {values.shape}."
        )
    return values.astype(bool)


def trace(shape: "Shape") -> Boundary:
    """The boundary of a shape."""
    low, high = shape.bounding_box
    if not np.all(np.isfinite(low) & np.isfinite(high)):
        raise ShapeError(f"{shape!r} is not bounded: intersect it with a ball, a box or a polygon.")
    if not np.all(low < high):
        raise ShapeError(f"{shape!r} is empty: its parts do not overlap.")
    _check_sizes(shape)
    classify, pieces, whole = Classify(shape), [], True
    for index, leaf in enumerate(classify.leaves):
        for patch in leaf.patches(shape.size, (low + high) / 2):
            split = _intervals if shape.dim == 2 else _kinds
            found, uncut = split(classify, patch, index)
            pieces += found
            whole &= uncut
    if not pieces:
        raise ShapeError(f"{shape!r} is empty: it has no boundary.")
    return Boundary(shape, pieces, classify, whole)


def _check_sizes(shape: "Shape") -> None:
    for leaf, _ in shape.leaves():
        low, high = leaf.bounding_box
        if np.all(np.isfinite(high - low)):
            size = np.linalg.norm(high - low)
            if size < 1e-5 * shape.size:
                raise ShapeError(
                    f"{leaf!r} is {shape.size / size:.0e} times smaller than the whole shape: are its "
                    "units others?"
                )
    low, high = shape.bounding_box
    if np.max(np.abs([low, high])) > 1e6 * shape.size:
        raise ShapeError(
            f"{shape!r} is {shape.size:.3g} wide but lies {np.max(np.abs([low, high])):.3g} from the "
            "origin: digits are lost; move it to the origin."
        )


def _intervals(classify: Classify, patch: Patch, leaf: int) -> tuple[list[Piece], bool]:
    """Stretches of a plane curve that are on the boundary, their ends by bisection."""
    many = 64 if not patch.suffix.startswith("surface") else 20_000
    trial = Piece(patch, leaf, (), 1.0)
    cells = np.stack([np.arange(many) + 0.5, np.ones(many)], 1) / many
    done = []
    for _ in range(6):
        near = np.zeros(len(cells), bool)
        for side in np.unique(cells[:, 1]):
            here = cells[:, 1] == side
            near[here] = classify.near(trial, cells[here, :1], side)
        done.append(cells[~near])
        cells = np.concatenate(
            [cells[near] * [1, 0.5] + way * cells[near, 1:] * [0.25, 0] for way in (-1, 1)]
        )
        if len(cells) == 0:
            break
    s = np.sort(np.concatenate([*done, cells])[:, 0])
    kind = lambda s: _coded(*classify(*patch.at(s[:, None])[:2], leaf, patch))
    codes = kind(s)
    change = np.flatnonzero(codes[1:] != codes[:-1])
    low, high = s[change], s[change + 1]
    for _ in range(50):
        middle = (low + high) / 2
        same = kind(middle) == codes[change] if len(middle) else np.zeros(0, bool)
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    ends = np.concatenate([[0.0], (low + high) / 2, [1.0]])
    firsts = codes[np.concatenate([[0], change + 1])]
    pieces = [
        Piece(patch, leaf, classify.table[abs(code) - 1], float(np.sign(code)), (a, b))
        for code, a, b in zip(firsts, ends[:-1], ends[1:], strict=True)
        if code and b - a > 1e-7
    ]
    return pieces, len(change) == 0 and bool(codes[0])


def _coded(names: np.ndarray, signs: np.ndarray) -> np.ndarray:
    return np.where(names >= 0, (names + 1) * signs, 0).astype(int)


def _kinds(classify: Classify, patch: Patch, leaf: int) -> tuple[list[Piece], bool]:
    """The names and signs that occur on a patch."""
    dim = classify.shape.dim
    s = kronecker(4096, dim - 1)
    codes = _coded(*classify(*patch.at(s)[:2], leaf, patch))
    pieces = [
        Piece(patch, leaf, classify.table[abs(code) - 1], float(np.sign(code)))
        for code in np.unique(codes)
        if code
    ]
    alone = dim > 3 or not np.any(classify.near(Piece(patch, leaf, (), 1.0), s, 0.03, named=False))
    uncut = np.all(np.sign(codes) == np.sign(codes[0])) and codes[0] != 0
    return pieces, bool(uncut and (alone or patch.suffix.startswith("surface")))


def _nodes(piece: Piece, panels: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Gauss points of a piece of a curve, and their shares of the parameter."""
    a, b = piece.ends
    t, w = _GAUSS
    unit = ((np.arange(panels)[:, None] + (t + 1) / 2) / panels).ravel()
    return (a + (b - a) * unit)[:, None], np.tile(w / (2 * panels), panels) * (b - a)


def _length(piece: Piece) -> float:
    if piece.patch.even:
        a, b = piece.ends
        return (b - a) * float(piece.patch.at(np.full((1, 1), (a + b) / 2))[2][0])
    s, share = _nodes(piece)
    return float(share @ piece.patch.at(s)[2])


def _on_curve(piece: Piece, count: int) -> tuple:
    """Points evenly spaced in arc length."""
    a, b = piece.ends
    even = (np.arange(count) + 0.5) / count
    if not piece.patch.even:
        fine = np.linspace(a, b, 1025)
        speed = piece.patch.at(((fine[1:] + fine[:-1]) / 2)[:, None])[2]
        grown = np.concatenate([[0], np.cumsum(speed)]) / speed.sum()
        s = np.interp(even, grown, fine)
    else:
        s = a + (b - a) * even
    x, normal, _ = piece.patch.at(s[:, None])
    length = _length(piece)
    return x, piece.sign * normal, np.full(count, length / count), (length * even)[:, None]


def _directed(piece: Piece) -> tuple:
    """(point, tangent) where a piece starts and ends, walked with the inside on the left."""
    a, b = piece.ends
    small = 1e-9 * (b - a)
    x, normal, _ = piece.patch.at(np.asarray([[a], [a + small], [b - small], [b]]))
    tangent = piece.sign * np.stack([-normal[:, 1], normal[:, 0]], axis=1)
    near = np.asarray(piece.patch.at(np.asarray([[(a + b) / 2 - 1e-4 * (b - a)], [(a + b) / 2]]))[0])
    middle = piece.patch.at(np.asarray([[(a + b) / 2]]))[1][0] * piece.sign
    forward = (near[1] - near[0]) @ [-middle[1], middle[0]] > 0
    ends = ((x[0], tangent[1]), (x[3], tangent[2]))
    return ends if forward else ends[::-1]


def measure_by_divergence(shape: "Shape") -> float | None:
    """∫ 1 = (1/d) ∮ x·n, or the sum of what formulas give; None where neither is known."""
    boundary = shape.traced
    leaves = boundary.classify.leaves
    exact = [leaf.exact for leaf in leaves]
    if boundary.whole and None not in exact:
        signs = {piece.leaf: piece.sign for piece in boundary.pieces}
        return float(sum(sign * (exact[i] or 0.0) for i, sign in signs.items()))
    if shape.dim == 2:
        total = 0.0
        for piece in boundary.pieces:
            panels = 8 if not piece.patch.suffix.startswith("surface") else 1000
            s, share = _nodes(piece, panels)
            x, normal, jacobian = piece.patch.at(s)
            total += piece.sign * float(share @ (jacobian * np.sum(x * normal, axis=1))) / 2
        return total
    if shape.dim > 3:
        return None
    pool = boundary.pool(2000)
    middle = np.mean(shape.bounding_box, axis=0)
    return float(pool.weights @ np.sum((pool.coords - middle) * pool.normals, axis=1)) / 3
