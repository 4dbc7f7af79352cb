"""A shape with names for its coordinates, times intervals of others, as the domain of a problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray

from ...support.mistakes import found
from ...support.types import Phi
from ..domain import Box, Region
from ..points import Points
from ..rules import LowDiscrepancy, Uniform, kronecker
from .boundary import Pool
from .inside import centres
from .patches import Coords, space
from .shape import Shape
from .strata import Strata, strata


@dataclass(frozen=True, init=False, eq=False)
class Domain(Box):
    """`Domain(shape)`, `Domain(shape, t=(0, 3))`: what a `Box` is, of any shape.

    Arguments:

    - `shape`: a `Shape`; its coordinates are called x, y, z (from four on x1, x2, …), or `names`.
    - `inside`: shapes within it by name, such as another material: `inside={"core": Ball(...)}`. Every
      point then knows whether it is in there, `z.core` (1.0 or 0.0), and `interface("core")` is where it
      ends.
    - any further coordinates: intervals, of time or a parameter.
    """

    shape: Shape
    within: Mapping[str, Shape]

    def __init__(
        self,
        shape: Shape,
        names: Sequence[str] | None = None,
        inside: Mapping[str, Shape] | None = None,
        **intervals: tuple[float, float],
    ):
        if not isinstance(shape, Shape):
            raise TypeError(f"Domain: `shape` must be a shape of pdecl.shapes; found {found(shape)}.")
        dim = shape.dim
        own = tuple(
            names or ("x", "y", "z")[:dim] if dim <= 3 else names or [f"x{i + 1}" for i in range(dim)]
        )
        if len(own) != dim or len({*own, *intervals}) != dim + len(intervals):
            raise ValueError(
                f"Domain: `names` must be {dim} distinct names, for the shape's coordinates alone; "
                f"found {', '.join([*own, *intervals])}."
            )
        low, high = shape.traced.shape.bounding_box
        super().__init__(**dict(zip(own, zip(low, high, strict=True), strict=True)), **intervals)
        for name, part in (inside or {}).items():
            if not isinstance(part, Shape) or part.dim != dim or name in self.names:
                raise ValueError(
                    f"Domain: inside[{name!r}] must be a shape of {dim} dimensions under a name of "
                    "its own."
                )
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "within", dict(inside or {}))

    # By its shape, which compares by identity; a box compares by bounds alone.
    def __eq__(self, other: object) -> bool:
        return type(other) is Domain and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((self.names, self.bounds, self.shape))

    def _identity(self) -> tuple:
        return self.names, self.bounds, self.shape, self.within

    def __repr__(self) -> str:
        further = (f", {name}=({a:g}, {b:g})" for name, (a, b) in self.ranges()[self.shape.dim :])
        return f"{type(self).__name__}({self.shape!r}{''.join(further)})"

    @property
    def interior(self) -> "ShapeRegion":
        """The inside of the shape, at all times."""
        return ShapeRegion(self, ((),))

    def boundary(self, *parts: str) -> "ShapeRegion":
        """The boundary of the shape at all times, or parts of it: `domain.boundary("hole 1", "top")`."""
        self.shape.boundary_pool(1, parts or None)
        return ShapeRegion(self, tuple((name,) for name in parts or self.shape.part_names), parts=parts)

    def interface(self, name: str) -> "ShapeRegion":
        """Where the shape called `name` in `inside` ends within this one.

        Normals lead out of it. Points have partners on its two sides, `u.at("within")` and
        `u.at("beyond")`.
        """
        if name not in self.within:
            there = ", ".join(self.within) or "none"
            raise ValueError(f"interface: there is no shape {name!r} inside; there are: {there}.")
        return ShapeRegion(self, ((name,),), within=name)

    def face(self, **where: float) -> Region:
        """Where a coordinate that is not the shape's begins or ends: `domain.face(t=0)`."""
        for name in where:
            self._require_interval(name, "face")
        region = super().face(**where)
        return ShapeRegion(self, region.sides)

    def faces(self, *names: str) -> Region:
        """Both ends of each named coordinate that is not the shape's."""
        for name in names or self.names:
            self._require_interval(name, "faces")
        return ShapeRegion(self, super().faces(*names).sides)

    def periodic(self, name: str) -> Region:
        self._require_interval(name, "periodic")
        return ShapeRegion(self, super().periodic(name).sides, paired=True)

    def mesh(self, *counts: int) -> Float[Array, "n d"]:
        """Those points of an even mesh of the bounding box that are inside."""
        points = np.asarray(self.lattice(*counts))
        return jnp.asarray(points[~self.outside(points)])

    def outside(self, coords: Float[ArrayLike, "n d"]) -> Bool[np.ndarray, " n"]:
        """Which points are NaN or outside, by more than a millionth of the shape's size."""
        given, dim = np.asarray(coords, float), self.shape.dim
        known = np.isfinite(given).all(axis=1)
        near = known & (np.asarray(self.shape.distance(given[:, :dim])) <= 1e-6 * self.shape.size)
        (low, high) = np.asarray(self.bounds).T
        slack = 1e-9 * (high - low)
        between = (given >= low - slack) & (given <= high + slack)
        return ~(near & np.all(between[:, dim:], axis=1))

    def covers(self, coords: Float[Array, "n d"], phi: Phi) -> Bool[Array, " n"]:
        shape = self._shape_of(phi)
        return jnp.asarray(shape.distance(coords[:, : shape.dim])) <= 1e-6 * self.shape.size

    def _shape_of(self, phi: Phi) -> Shape:
        return self.shape

    def _require_interval(self, name: str, what: str) -> None:
        if self.axis(name) < self.shape.dim:
            raise ValueError(
                f"{what}: {name} is a coordinate of the shape: its boundary is domain.boundary(), "
                f"parts of it are {', '.join(self.shape.part_names)}."
            )


@dataclass(frozen=True)
class ShapeRegion(Region):
    """A part of a `Domain`: its inside, parts of its boundary, its begin or end in time."""

    parts: tuple[str, ...] = ()
    within: str | None = None

    box: Domain

    def __str__(self) -> str:
        names, (place, *_) = self.box.names, self.sides or ((),)
        if self.within is not None:
            words = f"interface of {self.within!r}"
        elif place == ():
            words = "interior"
        elif isinstance(place[0], str):
            words = f"boundary {', '.join(self.parts)}".strip()
        else:
            words = ", ".join(
                f"{names[axis]} = {self.box.bounds[axis][end]:g}" for axis, end in self.sides
            )
            words = f"{names[place[0]]} periodic" if self.paired else words
        return words if self.rule is None else f"{words}, {self.rule}"

    def draw(self, key: PRNGKeyArray | None, count: int) -> Points:
        rule = self.rule or LowDiscrepancy(count)
        if not isinstance(rule, Uniform | LowDiscrepancy):
            raise ValueError(
                f"{self}: a shape has no rows and columns; write .low_discrepancy(n), whose weights are "
                "those of a midpoint rule."
            )
        if not self._at_ends:
            return self._placed(key, rule, None)
        number = len(self.sides)
        keys = [None] * number if key is None else list(jr.split(key, number))
        shares = [rule.count // number + (i < rule.count % number) for i in range(number)]
        sets = [
            self._placed(key, replace(rule, count=max(1, share)), side)
            for side, key, share in zip(self.sides, keys, shares, strict=True)
        ]
        return sets[0] if number == 1 else _joined(sets)

    @property
    def _at_ends(self) -> bool:
        return bool(self.sides[0]) and not isinstance(self.sides[0][0], str)

    def _placed(
        self, key: PRNGKeyArray | None, rule: Uniform | LowDiscrepancy, end: tuple[int, int] | None
    ) -> Points:
        pool, groups = self._pool(rule.count, end)
        picked: Any
        if isinstance(rule, Uniform):
            if key is None:
                rule.place(key, 1)  # which says what is missing
            assert key is not None
            ends = np.cumsum(pool.weights)
            picked = jnp.searchsorted(
                jnp.asarray(ends), ends[-1] * jr.uniform(key, (rule.count,), float)
            )
            picked = jnp.minimum(picked, len(ends) - 1)
            weights = np.full(rule.count, ends[-1] / rule.count)
        elif key is not None:
            picked, weights = groups.drawn(key)
        elif rule.start == 0.5:
            picked, weights = groups.middles()
            if not pool.normals[:, : self.box.shape.dim].any():
                return self._points(
                    centres(self.box.shape, pool, groups), pool.normals[picked], weights, end
                )
        else:
            picked, weights = groups.picked(
                (rule.start + 0.6180339887 * np.arange(len(groups.masses))) % 1.0
            )
        take = lambda values: space(picked).asarray(values)[picked]
        return self._points(take(pool.coords), take(pool.normals), weights, end)

    def _points(
        self, coords: Coords, normals: Coords, weights: ArrayLike, end: tuple[int, int] | None
    ) -> Points:
        partners, data = {}, self.known(coords)
        if self.sides != ((),):
            data["normal"] = normals
        if self.within is not None:
            step = 1e-7 * self.box.shape.size * data["normal"]
            partners = {"within": coords - step, "beyond": coords + step}
        if self.paired and end is not None:
            here = np.arange(len(self.box.names)) == end[0]
            partners["opposite"] = space(coords).where(here, self.box.bounds[end[0]][1], coords)
        return Points(coords, weights=weights, partners=partners, **data)

    def known(self, coords: Coords) -> dict[str, Any]:
        """Which shapes inside of the domain points are in, as data of theirs."""
        box, dim = self.box, self.box.shape.dim
        return {
            name: (shape.distance(coords[:, :dim]) < 0).astype(float)
            for name, shape in box.within.items()
            if name != self.within
        }

    def _pool(self, count: int, end: tuple[int, int] | None) -> tuple[Pool, Strata]:
        level = max(16, 2 ** int(np.ceil(np.log2(count))))
        shape, key = (
            self.box.shape,
            (self.box.bounds[self.box.shape.dim :], self.parts, self.within, end, self.sides == ((),)),
        )
        pool = shape._cached(("pool", level, *key), lambda: self._many(level, end))
        make = lambda: strata(pool.sorted_by, pool.weights, pool.density, count, pool.cut)
        return pool, shape._cached(("strata", count, *key), make)

    def _many(self, count: int, end: tuple[int, int] | None) -> Pool:
        """Many points in the shape or on its boundary, at times spread over the intervals."""
        box, shape = self.box, self.box.shape
        if self.within is not None:
            pool = _only_inside(box.within[self.within].boundary_pool(count), shape)
        elif end is not None or self.sides == ((),):
            pool = shape.interior_pool(count)
        else:
            pool = shape.boundary_pool(count, self.parts or None)
        intervals = box.bounds[shape.dim :]
        if not intervals:
            return pool
        low, high = np.asarray(intervals).T
        several = pool if end is not None else _repeated(pool, 1 if len(pool.coords) > 8 * count else 8)
        n, span = len(several.coords), high - low
        times = low + span * kronecker(n, len(intervals))
        weights, normals = several.weights, np.zeros((n, len(box.names)))
        normals[:, : shape.dim] = several.normals
        if end is not None:
            axis, side = end
            times[:, axis - shape.dim] = intervals[axis - shape.dim][side]
            span = np.delete(span, axis - shape.dim)
            normals[:, axis] = (-1.0, 1.0)[side]
        scaled = (times - low) / (high - low) * shape.size
        return Pool(
            np.concatenate([several.coords, times], axis=1), normals, weights * np.prod(span),
            several.density, several.cut, np.concatenate([several.sorted_by, scaled], axis=1),
        )  # fmt: skip


def _repeated(pool: Pool, times: int) -> Pool:
    """Every point several times, each with its share of the weight."""
    if times == 1:
        return pool
    parts = {name: np.repeat(values, times, axis=0) for name, values in vars(pool).items()}
    return Pool(**{**parts, "weights": parts["weights"] / times})


def _only_inside(pool: Pool, shape: Shape) -> Pool:
    """What of an interface is inside of the shape, not on its boundary."""
    inside = np.asarray(shape.distance(pool.coords)) < -1e-7 * shape.size
    if not inside.any():
        raise ValueError("interface: it lies outside of the domain.")
    return Pool(**{name: values[inside] for name, values in vars(pool).items()})


def _joined(sets: list[Points]) -> Points:
    join = lambda parts: jnp.concatenate(list(parts))
    data: dict[str, Any] = {name: join(points.data[name] for points in sets) for name in sets[0].data}
    return Points(join(p.coords for p in sets), weights=join(p.weights for p in sets), **data)
