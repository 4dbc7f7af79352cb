"""A smooth function that is zero on parts of a shape's boundary and positive inside.

What a basis is multiplied by for values that hold exactly. A signed distance bends inside, where two
parts are equally near; second derivatives of it are of no use. Here each primitive gives a function
that is smooth away from its corners, zero on its boundary and positive inside, and they are joined by
Rvachev's a + b − √(a² + b²) ("and") and a + b + √(a² + b²) ("or"), which keep slopes at the boundary.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .patches import Coords, ShapeError
from .primitives import Ball, Cuboid, Ellipse, HalfSpace, Polygon, Signed
from .shape import Combined, Difference, Named, Primitive, Shape, Union

Sides = list[list[bool]]  # of each primitive's patches: which are wanted
_ZERO, _POSITIVE = 1e-9, 1e-12  # relative to the shape's size


def wanted_sides(shape: Shape, parts: Sequence[str]) -> Sides:
    """Of each primitive the patches that are to be zero. Those of which other parts of the boundary are
    made are left out; those of which nothing is left lie outside, and stay."""
    out, names = [], set(parts)
    for number, (leaf, _) in enumerate(shape.leaves()):
        seen: dict[str, list[bool]] = {}
        for piece in shape.traced.pieces:
            if piece.leaf == number:
                seen.setdefault(piece.patch.suffix, []).append(bool(names & set(piece.names)))
        flags = [all(seen.get(patch.suffix, [True])) for patch in leaf.patches(1.0, np.zeros(shape.dim))]
        is_wanted = any(any(found) for found in seen.values())
        out.append(flags if is_wanted else [False] * len(flags))
    return out


def smooth_distance(shape: Shape, sides: Sides) -> Callable[[Float[Any, "n d"]], Float[Array, " n"]]:
    """The function of points (n, d). `shape` may be one that φ has moved: `sides` are of a shape made
    of the same primitives."""
    joined = _joined(shape, iter(sides))
    if joined is None:
        raise ShapeError("exact values: none of these parts is a primitive's: use a Fit for them.")
    return joined


def require_told_apart(shape: Shape, parts: Sequence[str]) -> None:
    """That the function is zero on these parts and nowhere else."""
    distance = smooth_distance(shape, wanted_sides(shape, parts))
    pool, names = shape.boundary_pool(256), shape.traced.names
    value = np.abs(np.asarray(distance(pool.coords))) / shape.size
    is_on = np.array([bool(set(own) & set(parts)) for own in names])[pool.cut]
    inside = np.asarray(distance(shape.interior_pool(256).coords))
    wrong = np.where(is_on, value > _ZERO, value < _POSITIVE)
    if wrong.any() or inside.min() <= 0:
        where = [names[i][0] for i in pool.cut[wrong]]
        words = f" from {where[0]!r}" if where and where[0] not in parts else ""
        raise ShapeError(
            f"exact values: {', '.join(map(repr, parts))} cannot be told{words} by a smooth distance, "
            "which knows whole primitives and their sides: take both, or use a Fit."
        )


def _joined(shape: Shape, sides: Any) -> Callable[[Any], Any] | None:
    """Positive inside of the wanted sides; None where none is."""
    if isinstance(shape, Named):
        return _joined(shape.inner, sides)
    if isinstance(shape, Combined):
        first, second = _joined(shape.first, sides), _joined(shape.second, sides)
        if second is not None and isinstance(shape, Difference):
            outside = second
            second = lambda x: -outside(x)
        if first is None or second is None:
            return first or second
        return _either(first, second) if isinstance(shape, Union) else _both(first, second)
    assert isinstance(shape, Primitive)
    flags = next(sides)
    return _primitive(shape, flags) if any(flags) else None


def _primitive(leaf: Primitive, flags: list[bool]) -> Callable[[Any], Any]:
    match leaf:
        case Ball():
            square = lambda x: jnp.sum((x - leaf.centre) ** 2, axis=1)
            return lambda x: (leaf.radius**2 - square(x)) / (2 * leaf.radius)
        case Ellipse():
            turned = lambda x: leaf._turned(x - leaf.centre, -leaf.angle) / leaf.axes
            return lambda x: jnp.min(leaf.axes) * (1 - jnp.sum(turned(x) ** 2, axis=1)) / 2
        case Cuboid():
            return lambda x: _of_box(leaf, flags, x)
        case Polygon():
            return lambda x: _of_polygon(leaf, flags, x)
        case HalfSpace() | Signed():
            return lambda x: -leaf.distance(x)
    raise ShapeError(
        f"exact values: {leaf!r} has no smooth distance; balls, ellipses, boxes, polygons, half-spaces "
        "and functions of one's own have. Use a Fit."
    )


def _of_box(box: Cuboid, flags: list[bool], x: Coords) -> Any:
    ends = [part for a in range(box.dim) for part in (x[:, a] - box.low[a], box.high[a] - x[:, a])]
    ends = [part for part, wanted in zip(ends, flags, strict=True) if wanted]
    out = ends[0]
    for part in ends[1:]:
        out = out + part - _hypot(out, part)
    return out


def _of_polygon(polygon: Polygon, flags: list[bool], x: Coords) -> Any:
    """The reciprocals of distances to segments added up: each is smooth but at its ends (f, the line's
    own distance, beside what is zero on the segment alone)."""
    a = jnp.asarray(polygon.vertices)
    along = jnp.roll(a, -1, axis=0) - a
    if len(flags) == len(a):
        rows = np.flatnonzero(flags)
        a, along = a[rows], along[rows]
    length = jnp.sqrt(jnp.sum(along**2, axis=1))
    off = x[:, None] - a
    f = (along[:, 0] * off[..., 1] - along[:, 1] * off[..., 0]) / length
    middle = jnp.sum((off - along / 2) ** 2, axis=2)
    t = ((length / 2) ** 2 - middle) / length
    beside = (_hypot(t, f**2) - t) / 2
    square = f**2 + beside**2
    is_off = square > 0
    each = jnp.where(is_off, jnp.sqrt(jnp.where(is_off, square, 1.0)), f)
    least = jnp.min(each, axis=1)
    away = (each > 0).all(axis=1)
    total = jnp.sum(1 / jnp.where(away[:, None], each, 1.0), axis=1)
    inside = jnp.asarray(polygon.distance(x)) <= 0
    return jnp.where(away, 1 / total, least) * jnp.where(inside, 1.0, -1.0)


def _both(one: Callable, other: Callable) -> Callable[[Any], Any]:
    def at(x: Coords) -> Any:
        a, b = one(x), other(x)
        return a + b - _hypot(a, b)

    return at


def _either(one: Callable, other: Callable) -> Callable[[Any], Any]:
    def at(x: Coords) -> Any:
        a, b = one(x), other(x)
        return a + b + _hypot(a, b)

    return at


def _hypot(a: Any, b: Any) -> Any:
    """√(a² + b²), with derivatives of zero at zero."""
    square = a**2 + b**2
    away = square > 0
    return jnp.where(away, jnp.sqrt(jnp.where(away, square, 1.0)), 0.0)
