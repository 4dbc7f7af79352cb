"""Points and weights for what of a box is inside a shape.

A box is cut into lines along an axis that the boundary crosses; where the boundary is on a line is found
as a root, and Gauss points lie between. Across, lines are Gauss points too, between the places where the
boundary leaves the box through a face, which are found in the same way. So smooth boundaries cost no
accuracy. Boxes in which the boundary bends much, or has an edge, are halved first.
"""

import itertools
from collections.abc import Callable

import numpy as np

from ..cells.polynomials import gauss, middles

Distance = Callable[[np.ndarray], np.ndarray]
Rule = tuple[np.ndarray, np.ndarray, np.ndarray]  # points, weights, the box of each

_PARTS = 4  # of a line, between which the boundary is looked for
_SHORT = 1e-10
_FLAT = 1e-9  # of a box's side, by which a plane may differ from a plane
_ROUNDS = 30


def inside_of(
    distance: Distance,
    low: np.ndarray,
    side: np.ndarray,
    count: int,
    bent: float,
    finest: float,
    least: float,
) -> Rule:
    """Of boxes (n, d): `count` Gauss points along each axis of a part. Boxes are halved until their
    boundary differs from a plane by no more than `bent` of their side, or they are as small as `finest`.
    `least`: what is zero of a distance."""
    d, own, found = low.shape[1], np.arange(len(low)), []
    ways = middles(2, d) - 0.25
    unit, mass = gauss(count, d)
    while len(low):
        middle = np.asarray(distance(low + side / 2))
        radius = np.linalg.norm(side, axis=1) / 2
        whole, cut = middle <= -radius, np.abs(middle) < radius
        axis, gap, highest = _looked_at(distance, low[cut], side[cut])
        # A plane that a box only touches does not cut it.
        flat = gap < _FLAT
        whole[np.flatnonzero(cut)[flat & (highest <= least)]] = True
        x = low[whole, None] + side[whole, None] * unit
        weights = np.prod(side[whole], axis=1)[:, None] * mass
        found.append((x.reshape(-1, d), weights.ravel(), np.repeat(own[whole], len(unit))))
        left = ~(flat & (highest <= least))
        low, side, own = (part[cut][left] for part in (low, side, own))
        axis, gap = axis[left], gap[left]
        halved = (gap > bent) & (side.max(axis=1) > finest)
        for a in range(d):
            here = ~halved & (axis == a)
            if here.any():
                x, weights, box = _by_lines(distance, low[here], side[here], a, count, least)
                found.append((x, weights, own[here][box]))
        low = (low[halved, None] + side[halved, None] * ways).reshape(-1, d)
        side, own = np.repeat(side[halved] / 2, 2**d, axis=0), np.repeat(own[halved], 2**d)
    x, weights, box = (np.concatenate(part) for part in zip(*found, strict=True))
    return x, weights, box


def _looked_at(
    distance: Distance, low: np.ndarray, side: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The axis along which the distance changes most in each box, how far from linear it is, by the
    box's side, and its highest value."""
    n, d = low.shape
    unit = np.indices([3] * d).reshape(d, -1).T / 2
    x = (low[:, None] + side[:, None] * unit).reshape(-1, d)
    values = np.asarray(distance(x)).reshape(n, len(unit))
    design = np.concatenate([np.ones((len(unit), 1)), unit - 0.5], axis=1)
    plane = values @ np.linalg.pinv(design).T
    gap = np.abs(values - plane @ design.T).max(axis=1)
    slopes = np.abs(plane[:, 1:]) / side
    return np.argmax(slopes, axis=1), gap / side.min(axis=1), values.max(axis=1)


def _by_lines(
    distance: Distance, low: np.ndarray, side: np.ndarray, axis: int, count: int, least: float
) -> Rule:
    n, d = low.shape
    order = [a for a in range(d) if a != axis] + [axis]
    x, weights, box = low.copy(), np.prod(side, axis=1), np.arange(n)
    unit, mass = (part.ravel() for part in gauss(count, 1))
    for step, a in enumerate(order):
        ends = np.array(list(itertools.product((0.0, 1.0), repeat=d - 1 - step)))
        base = np.repeat(x[:, None], len(ends), axis=1)
        base[:, :, order[step + 1 :]] += side[box][:, None, order[step + 1 :]] * ends
        width = side[box, a]
        start = base.reshape(-1, d)
        breaks = _breaks(distance, start, a, np.repeat(width, len(ends)), least)
        breaks = breaks.reshape(len(x), -1)
        breaks = np.sort(np.concatenate([np.zeros((len(x), 1)), breaks, np.ones((len(x), 1))], axis=1))
        length = np.diff(breaks, axis=1)
        row, part = np.nonzero(length > _SHORT)
        if a == axis:
            y = x[row]
            y[:, a] += width[row] * (breaks[row, part] + length[row, part] / 2)
            kept = np.asarray(distance(y)) < 0
            row, part = row[kept], part[kept]
        first, long = breaks[row, part], length[row, part]
        t = first[:, None] + long[:, None] * unit
        weights = (weights[row] * long)[:, None] * mass
        x = np.repeat(x[row], count, axis=0)
        x[:, a] += (width[row, None] * t).ravel()
        weights, box = weights.ravel(), np.repeat(box[row], count)
    return x, weights, box


def _breaks(
    distance: Distance, start: np.ndarray, axis: int, width: np.ndarray, least: float
) -> np.ndarray:
    """(lines, _PARTS): where the boundary crosses each part of a line, as a share of it; one where it
    does not."""

    def at(line: np.ndarray, t: np.ndarray) -> np.ndarray:
        x = start[line]
        x[:, axis] += width[line] * t
        values = np.asarray(distance(x))
        return np.where(np.abs(values) <= least, -least, values)

    n, t = len(start), np.tile(np.linspace(0, 1, _PARTS + 1), (len(start), 1))
    values = at(np.repeat(np.arange(n), _PARTS + 1), t.ravel()).reshape(n, -1)
    # Where a line does not cross the boundary it may touch it: at the vertex of a parabola.
    alike = np.flatnonzero(np.all((values < 0) == (values[:, :1] < 0), axis=1))
    node = np.clip(np.argmin(np.abs(values[alike]), axis=1), 1, _PARTS - 1)
    before, here, after = (values[alike, node + k] for k in (-1, 0, 1))
    bend = before - 2 * here + after
    vertex = (node + (before - after) / (2 * np.where(bend == 0, 1.0, bend))) / _PARTS
    # Within a part of its node, so that the nodes stay in order.
    some = (bend * here > 0) & (np.abs(vertex * _PARTS - node) < 1)
    alike, node, vertex = alike[some], node[some], vertex[some]
    t[alike, node], values[alike, node] = vertex, at(alike, vertex)
    found = np.ones((n, _PARTS))
    line, part = np.nonzero((values[:, 1:] < 0) != (values[:, :-1] < 0))
    if not len(line):
        return found
    a, b = t[line, part], t[line, part + 1]
    fa, fb = values[line, part], values[line, part + 1]
    left = np.arange(len(line))
    for _ in range(_ROUNDS):  # regula falsi, as Illinois has it
        ai, bi, fai, fbi = a[left], b[left], fa[left], fb[left]
        middle = (ai * fbi - bi * fai) / (fbi - fai)
        f = at(line[left], middle)
        same = (f < 0) == (fbi < 0)
        fa[left], a[left] = np.where(same, fai / 2, fbi), np.where(same, ai, bi)
        b[left], fb[left] = middle, f
        left = left[(np.abs(f) > least) & (np.abs(b - a)[left] > _SHORT)]
        if not len(left):
            break
    found[line, part] = b
    return found
