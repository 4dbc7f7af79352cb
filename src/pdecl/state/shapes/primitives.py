"""Primitives: balls, ellipses, boxes, polygons, half-spaces, and shapes by a function of one's own."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import ArrayLike, Shaped

from ...support.mistakes import ask, found
from .level import level_set, onto_level
from .patches import Coords, Parameters, Patch, ShapeError, simplices, space, sphere, sphere_area
from .shape import Primitive

Vector = ArrayLike | Sequence[Any]


class Ball(Primitive):
    """All points no farther than `radius` from `centre`; in the plane a disc. Any dimension."""

    kind = "ball"

    def __init__(self, centre: Vector, radius: Any, part: str | None = None):
        name = type(self).__name__
        _positive(f"{name}: radius", radius, one=True)
        self.centre, self.radius = _vector(f"{name}: centre", centre), _plain(radius)
        self.part, self.dim = part, len(self.centre)
        self.exact = float(sphere_area(self.dim) / self.dim * _known(radius) ** self.dim)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_short(self.centre)}, {_short(self.radius)})"

    def distance(self, points: Coords) -> Any:
        return _norm(points - self.centre) - self.radius

    @property
    def bounding_box(self) -> tuple[np.ndarray, np.ndarray]:
        centre, radius = _known(self.centre), _known(self.radius)
        return centre - radius, centre + radius

    def extent(self) -> tuple[np.ndarray, Any]:
        return _known(self.centre), float(_known(self.radius))

    def carry(self, before: "Ball", points: Coords) -> Any:
        """Points of the ball `before` where they are in this one."""
        return self.centre + (points - before.centre) * (self.radius / before.radius)

    def patches(self, reach: float, middle: np.ndarray) -> list[Patch]:
        def at(s: Parameters) -> tuple[Any, Any, Any]:
            xp, normal = space(s, self.centre, self.radius), sphere(self.dim, s)
            area = sphere_area(self.dim) * self.radius ** (self.dim - 1)
            return (
                self.centre + self.radius * normal,
                normal,
                xp.broadcast_to(xp.asarray(area), (len(s),)),
            )

        return [Patch(at)]


class Disk(Ball):
    """A ball in the plane."""

    def __init__(self, centre: Vector, radius: Any, part: str | None = None):
        super().__init__(centre, radius, part)
        _in_the_plane(self, "centre", "Ball")


class Ellipse(Primitive):
    """An ellipse, or an ellipsoid in more dimensions, with these semi-axes; `angle` turns one in the
    plane anticlockwise."""

    kind = "ellipse"

    def __init__(self, centre: Vector, axes: Vector, angle: Any = 0.0, part: str | None = None):
        self.centre, self.axes = _vector("Ellipse: centre", centre), _vector("Ellipse: axes", axes)
        self.angle, self.part, self.dim = _plain(angle), part, len(self.centre)
        _positive("Ellipse: axes", self.axes)
        if len(self.axes) != self.dim:
            raise ValueError(f"Ellipse: {len(self.axes)} axes for {self.dim} coordinates.")
        if self.dim != 2 and np.any(_known(angle)):
            raise ValueError("Ellipse: `angle` is for two dimensions.")
        self.exact = float(sphere_area(self.dim) / self.dim * np.prod(_known(self.axes)))

    def __repr__(self) -> str:
        return f"Ellipse({_short(self.centre)}, {_short(self.axes)})"

    def _turned(self, x: Coords, angle: Any) -> Any:
        if self.dim != 2:
            return x
        xp = space(x, angle)
        c, s = xp.cos(angle), xp.sin(angle)
        return xp.stack([c * x[:, 0] - s * x[:, 1], s * x[:, 0] + c * x[:, 1]], axis=1)

    def distance(self, points: Coords) -> Any:
        # q = |x/a| grows at most by 1/min(a) per length, so this is never more than the distance.
        xp = space(points, self.axes)
        return (_norm(self._turned(points - self.centre, -self.angle) / self.axes) - 1) * xp.min(
            self.axes
        )

    @property
    def bounding_box(self) -> tuple[np.ndarray, np.ndarray]:
        centre, reach = _known(self.centre), _known(self.axes)
        if self.dim == 2:
            c, s = np.cos(_known(self.angle)), np.sin(_known(self.angle))
            reach = np.sqrt(np.asarray([[c * c, s * s], [s * s, c * c]]) @ reach**2)
        return centre - reach, centre + reach

    def carry(self, before: "Ellipse", points: Coords) -> Any:
        straight = before._turned(points - before.centre, -before.angle)
        return self.centre + self._turned(straight * (self.axes / before.axes), self.angle)

    def patches(self, reach: float, middle: np.ndarray) -> list[Patch]:
        def at(s: Parameters) -> tuple[Any, Any, Any]:
            xp, unit = space(s, self.centre, self.axes, self.angle), sphere(self.dim, s)
            slope = unit / self.axes
            length = _norm(slope)
            normal = self._turned(slope / length[:, None], self.angle)
            # A linear map takes areas by det A · |A^(-T) n|.
            area = sphere_area(self.dim) * xp.prod(self.axes) * length
            return self.centre + self._turned(unit * self.axes, self.angle), normal, area

        return [Patch(at, even=False)]


class Cuboid(Primitive):
    """The box between two corners; in the plane a rectangle. Any dimension.

    Its sides are called left and right (lowest and highest first coordinate), bottom and top (second),
    back and front (third), and after that "x4 low", "x4 high".
    """

    kind = "box"
    sides = ("left", "right", "bottom", "top", "back", "front")

    def __init__(self, low: Vector, high: Vector, part: str | None = None):
        name = type(self).__name__
        self.low, self.high = _vector(f"{name}: low", low), _vector(f"{name}: high", high)
        self.part, self.dim = part, len(self.low)
        if len(self.high) != self.dim:
            raise ValueError(f"{name}: corners of {self.dim} and {len(self.high)} coordinates.")
        known = not isinstance(self.high - self.low, jax.core.Tracer)
        size = _known(self.high) - _known(self.low) if known else np.ones(self.dim)
        if not np.all(size > 0):
            raise ShapeError(f"{name}: empty: it must run from low to high; found {low} and {high}.")
        self.exact = float(np.prod(size))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_short(self.low)}, {_short(self.high)})"

    def distance(self, points: Coords) -> Any:
        xp = space(points, self.low, self.high)
        beyond = xp.abs(points - (self.low + self.high) / 2) - (self.high - self.low) / 2
        outside = _norm(xp.maximum(beyond, 0.0))
        return outside + xp.minimum(xp.max(beyond, axis=1), 0.0)

    @property
    def bounding_box(self) -> tuple[np.ndarray, np.ndarray]:
        return _known(self.low), _known(self.high)

    def carry(self, before: "Cuboid", points: Coords) -> Any:
        share = (points - before.low) / (before.high - before.low)
        return self.low + share * (self.high - self.low)

    def patches(self, reach: float, middle: np.ndarray) -> list[Patch]:
        return [self._side(axis, end) for axis in range(self.dim) for end in (0, 1)]

    def _side(self, axis: int, end: int) -> Patch:
        which = 2 * axis + end
        name = self.sides[which] if which < 6 else f"x{axis + 1} {('low', 'high')[end]}"
        rest = [i for i in range(self.dim) if i != axis]
        normal = np.eye(self.dim)[axis] * (2 * end - 1)

        def at(s: Parameters) -> tuple[Any, Any, Any]:
            xp, size = space(s, self.low, self.high), self.high - self.low
            unit = xp.stack(
                [
                    s[:, rest.index(i)] if i in rest else xp.full(len(s), float(end))
                    for i in range(self.dim)
                ],
                axis=1,
            )
            area = 1.0
            for i in rest:
                area = area * size[i]
            points = self.low + size * unit
            return (
                points,
                np.broadcast_to(normal, unit.shape),
                xp.broadcast_to(xp.asarray(area), (len(s),)),
            )

        return Patch(at, name)


class Rectangle(Cuboid):
    """A cuboid in the plane."""

    def __init__(self, low: Vector, high: Vector, part: str | None = None):
        super().__init__(low, high, part)
        _in_the_plane(self, "low", "Cuboid")


class HalfSpace(Primitive):
    """The side of the plane through `point` that its outward `normal` points away from."""

    kind = "half-space"

    def __init__(self, point: Vector, normal: Vector, part: str | None = None):
        self.point, out = _vector("HalfSpace: point", point), _vector("HalfSpace: normal", normal)
        self.part, self.dim = part, len(self.point)
        if not np.any(_known(out)):
            raise ValueError("HalfSpace: `normal` must not be zero.")
        self.normal = out / space(out).sqrt(space(out).sum(out**2))

    def __repr__(self) -> str:
        return f"HalfSpace({_short(self.point)}, {_short(self.normal)})"

    def distance(self, points: Coords) -> Any:
        return (points - self.point) @ self.normal

    @property
    def bounding_box(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = np.full(self.dim, -np.inf), np.full(self.dim, np.inf)
        normal, point = _known(self.normal), _known(self.point)
        axis = int(np.argmax(np.abs(normal)))
        if abs(abs(normal[axis]) - 1) < 1e-12:
            (high if normal[axis] > 0 else low)[axis] = point[axis]
        return low, high

    def extent(self) -> tuple[np.ndarray, Any]:
        return _known(self.point), np.inf

    def patches(self, reach: float, middle: np.ndarray) -> list[Patch]:
        frame = np.linalg.svd(_known(self.normal)[None])[2][1:]  # across the normal

        def at(s: Parameters) -> tuple[Any, Any, Any]:
            xp = space(s, self.point, self.normal)
            across = (2 * s - 1) * reach @ frame + middle
            points = across - ((across - self.point) @ self.normal)[:, None] * self.normal
            area = np.full(len(s), (2 * reach) ** (self.dim - 1))
            return points, xp.broadcast_to(self.normal, points.shape), area

        return [Patch(at)]


class Polygon(Primitive):
    """A polygon with these corners, in either sense of rotation. `names`: of its sides, the first from
    the first corner to the second; without them they are called "side 1", "side 2" and so on."""

    kind = "polygon"

    def __init__(
        self,
        corners: Vector,
        names: Sequence[str] | None = None,
        part: str | None = None,
    ):
        self.vertices = _plain(corners)
        self.part, self.dim = part, 2
        known = _known(self.vertices)
        if known.ndim != 2 or known.shape[1] != 2 or len(known) < 3:
            raise ValueError(f"Polygon: needs three corners (x, y) at least; found shape {known.shape}.")
        if not np.all(np.isfinite(known)):
            raise ShapeError("Polygon: corners must be finite numbers.")
        if np.array_equal(known[0], known[-1]):
            self.vertices, known = self.vertices[:-1], known[:-1]
        if isinstance(corners, jax.core.Tracer):
            self.exact, self.side_names = None, list(names or ())
            return  # taken to run anticlockwise
        ahead = np.roll(known, -1, axis=0)
        area = float(np.sum(known[:, 0] * ahead[:, 1] - known[:, 1] * ahead[:, 0]) / 2)
        _require_simple(known)
        sides = list(names) if names else [f"side {i + 1}" for i in range(len(known))]
        if len(sides) != len(known):
            raise ValueError(f"Polygon: {len(sides)} names for {len(known)} sides.")
        if area < 0:  # anticlockwise, so that normals are on the right of sides
            self.vertices, sides = self.vertices[::-1], [*sides[-2::-1], sides[-1]]
        self.exact, self.side_names = abs(area), sides

    def __repr__(self) -> str:
        return f"Polygon of {len(self.vertices)} corners"

    def distance(self, points: Coords) -> Any:
        return segment_distance(
            points, self.vertices, space(self.vertices).roll(self.vertices, -1, axis=0)
        )

    @property
    def bounding_box(self) -> tuple[np.ndarray, np.ndarray]:
        known = _known(self.vertices)
        return known.min(axis=0), known.max(axis=0)

    def carry(self, before: "Polygon", points: Coords) -> Any:
        """Along the side that is nearest."""
        xp = space(points, self.vertices)
        a, b = before.vertices, np.roll(before.vertices, -1, axis=0)
        along, off = b - a, points[:, None, :] - a
        t = xp.sum(off * along, axis=2) / np.sum(along**2, axis=1)
        near = xp.sum((off - xp.clip(t, 0, 1)[..., None] * along) ** 2, axis=2)
        side = xp.argmin(near, axis=1)
        here = xp.take_along_axis(t, side[:, None], 1)
        ahead = xp.roll(self.vertices, -1, axis=0)
        return self.vertices[side] + here * (ahead - self.vertices)[side]

    def patches(self, reach: float, middle: np.ndarray) -> list[Patch]:
        xp = space(self.vertices)
        segments = xp.stack([self.vertices, xp.roll(self.vertices, -1, axis=0)], axis=1)
        distinct = list(dict.fromkeys(self.side_names))
        if len(segments) > 200 and len(distinct) == len(segments):
            return [simplices(segments, "surface")]
        return [simplices(s[None], name) for s, name in zip(segments, self.side_names, strict=True)]


class Signed(Primitive):
    """Where a signed distance of one's own is negative, between `low` and `high`.

    `function(points)` takes (n, d) and returns n numbers, JAX's or NumPy's; they need not be exact
    distances, but must not change faster than the point moves. `cells`: of the grid along the longest
    side that the boundary is found by; what is smaller may be missed.
    """

    kind = "function"

    def __init__(
        self,
        function: Callable[[Any], Any],
        low: Vector,
        high: Vector,
        cells: int | None = None,
        part: str | None = None,
    ):
        if not callable(function):
            raise TypeError(f"Signed: the first argument must be a function; found {found(function)}.")
        self.function, self.part = function, part
        self.low, self.high = _vector("Signed: low", low), _vector("Signed: high", high)
        self.dim = len(self.low)
        if self.dim not in (2, 3):
            raise ValueError(f"Signed: for two and three dimensions; found {self.dim}.")
        self.cells = cells or {2: 400, 3: 48}[self.dim]
        value = np.asarray(function((self.low + self.high)[None] / 2))
        if value.shape != (1,):
            raise ValueError(
                f"Signed: the function must return n numbers for points (n, d); for one point it "
                f"returned shape {value.shape}."
            )

    def __repr__(self) -> str:
        return f"Signed(..., {_short(self.low)}, {_short(self.high)})"

    def distance(self, points: Coords) -> Any:
        value = ask("the function of Signed", self.function, points)
        return value if space(points) is not np else np.asarray(value)

    @property
    def bounding_box(self) -> tuple[np.ndarray, np.ndarray]:
        return self.low, self.high

    def patches(self, reach: float, middle: np.ndarray) -> list[Patch]:
        facets = simplices(self._cached("level", lambda: level_set(self)), "surface")
        cell = np.min(self.high - self.low) / self.cells

        def at(s: Parameters) -> tuple[Any, Any, Any]:
            x, _, area = facets.at(s)
            x, slope = onto_level(self.distance, x, cell)
            return x, slope / np.linalg.norm(slope, axis=1)[:, None], area

        return [Patch(at, facets.suffix)]


def _require_simple(corners: np.ndarray) -> None:
    """That no two sides of a polygon cross."""
    a, b = corners, np.roll(corners, -1, axis=0)
    if np.any(np.all(a == b, axis=1)):
        row = int(np.argmax(np.all(a == b, axis=1)))
        raise ShapeError(f"Polygon: corner {row} and the next are the same, {a[row]}.")
    n = len(a)
    side = lambda p, q, r: (
        (q[..., 0] - p[..., 0]) * (r[..., 1] - p[..., 1])
        - (q[..., 1] - p[..., 1]) * (r[..., 0] - p[..., 0])
    )
    for i in range(n - 1):
        others = np.arange(i + 2, n - (i == 0))
        c, d = a[others], b[others]
        over = side(a[i], b[i], c) * side(a[i], b[i], d) < 0
        hit = over & (side(c, d, a[i]) * side(c, d, b[i]) < 0)
        if hit.any():
            raise ShapeError(
                f"Polygon: it intersects itself: side {i + 1} crosses side {others[np.argmax(hit)] + 1}."
            )


def segment_distance(points: Coords, a: Shaped[Any, "k d"], b: Shaped[Any, "k d"]) -> Any:
    """Signed distances to closed segments from a to b."""
    return _by_blocks(lambda x: _segment_distance(x, a, b), points, len(a))


def _segment_distance(points: Coords, a: Shaped[Any, "k d"], b: Shaped[Any, "k d"]) -> Any:
    xp = space(points, a, b)
    along, off = b - a, points[:, None, :] - a
    t = xp.clip(xp.sum(off * along, axis=2) / xp.sum(along**2, axis=1), 0, 1)
    nearest = xp.min(xp.sum((off - t[..., None] * along) ** 2, axis=2), axis=1)
    # Crossings of a ray to the right.
    x, y = points[:, :1], points[:, 1:]
    spans = (a[:, 1] > y) != (b[:, 1] > y)
    slope = along[:, 1] + (along[:, 1] == 0)
    crossings = xp.sum(spans & (x < a[:, 0] + (y - a[:, 1]) / slope * along[:, 0]), axis=1)
    away = nearest > 0
    length = xp.where(away, xp.sqrt(xp.where(away, nearest, 1.0)), 0.0)
    return xp.where(crossings % 2 == 1, -length, length)


def _by_blocks(function: Callable, points: Coords, width: int) -> Any:
    block = max(1, 4_000_000 // max(width, 1))
    if space(points) is not np or len(points) <= block:
        return function(points)
    return np.concatenate([function(points[i : i + block]) for i in range(0, len(points), block)])


def _norm(x: Coords) -> Any:
    """Lengths of rows, with derivatives of zero at zero."""
    xp = space(x)
    square = xp.sum(x**2, axis=1)
    away = square > 0
    return xp.where(away, xp.sqrt(xp.where(away, square, 1.0)), 0.0)


def _vector(name: str, x: Any) -> Any:
    if isinstance(x, jax.core.Tracer):
        return x
    try:
        vector = _plain(space(*x).asarray(x)) if space(*x) is not np else np.asarray(x, float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a list of numbers; found {found(x)}.") from error
    if vector.ndim != 1 or len(vector) < 2:
        raise ValueError(f"{name} must hold two numbers or more; found {x!r}.")
    if not np.all(np.isfinite(_known(vector))):
        raise ShapeError(f"{name} has entries that are NaN or infinite: {x!r}.")
    return vector


def _in_the_plane(shape: Primitive, name: str, otherwise: str) -> None:
    if shape.dim != 2:
        raise ValueError(
            f"{type(shape).__name__}: `{name}` must be two numbers; found {shape.dim}: "
            f"in {shape.dim} dimensions write {otherwise}."
        )


def _plain(x: Vector) -> Any:
    """NumPy's, where the numbers are known."""
    return x if isinstance(x, jax.core.Tracer) else np.asarray(x, float)


def _known(x: Vector) -> Any:
    """The numbers, or ones of no meaning inside jit."""
    return np.ones(np.shape(x)) if isinstance(x, jax.core.Tracer) else np.asarray(x, float)


def _positive(name: str, x: Vector, one: bool = False) -> None:
    if isinstance(x, str) or (one and np.shape(x) != ()):
        raise TypeError(f"{name} must be a number; found {found(x)}.")
    if not np.all(_known(x) > 0):
        raise ShapeError(f"{name} must be positive; found {_short(x)}.")


def _short(x: Vector) -> str:
    if isinstance(x, jax.core.Tracer):
        return "…"
    numbers = np.asarray(x, float)
    return np.array2string(numbers, separator=", ", formatter={"float_kind": "{:.6g}".format})
