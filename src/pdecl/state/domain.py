"""A box of named coordinates and the places in it where conditions hold."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray

from ..support.mistakes import found
from ..support.types import Phi
from .points import RESERVED, Points
from .rules import Gauss, Grid, LowDiscrepancy, Nodes, Rule, Uniform, per_axis, require_count, tensor


@dataclass(frozen=True, init=False)
class Box:
    """An axis-parallel box, the ends of each coordinate by its name: `Box(x=(0, 1), t=(0, 2))`.

    A domain that is no box is a `pdecl.shapes.Domain`, or conditions on `Points` of one's own in a box.
    """

    names: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]

    def __init__(self, *unnamed: Any, **bounds: tuple[float, float]):
        if unnamed:
            raise TypeError("Box: name the coordinates, as in Box(x=(0, 1), t=(0, 2)).")
        if not bounds:
            raise ValueError("Box: name at least one coordinate, as in Box(x=(0, 1)).")
        for name, pair in bounds.items():
            if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(map(_is_number, pair))):
                raise TypeError(f"Box: {name} must be a pair of numbers, (low, high); found {pair!r}.")
            low, high = pair
            if name in ("normal", *RESERVED) or name.startswith("_"):
                raise ValueError(f"Box: {name!r} cannot name a coordinate.")
            if not (np.isfinite(low) and np.isfinite(high) and low < high):
                raise ValueError(f"Box: {name} must run from low to high; found ({low}, {high}).")
        object.__setattr__(self, "names", tuple(bounds))
        object.__setattr__(self, "bounds", tuple((float(a), float(b)) for a, b in bounds.values()))

    def __repr__(self) -> str:
        ranges = (f"{name}=({low:g}, {high:g})" for name, (low, high) in self.ranges())
        return f"Box({', '.join(ranges)})"

    def ranges(self) -> list[tuple[str, tuple[float, float]]]:
        return list(zip(self.names, self.bounds, strict=True))

    @property
    def interior(self) -> "Region":
        """The inside of the box."""
        return Region(self, ((),))

    def face(self, **where: float) -> "Region":
        """One face: `box.face(t=0)` is where t has its lowest or highest value."""
        if len(where) != 1:
            raise ValueError("face: name one coordinate and its value, as in box.face(t=0).")
        ((name, value),) = where.items()
        bounds = self.bounds[self.axis(name)]
        near = [_is_number(value) and abs(value - b) <= 1e-9 * (bounds[1] - bounds[0]) for b in bounds]
        if not any(near):
            raise ValueError(
                f"face: {name}={value!r} is no face of the box; {name} runs from {bounds[0]} to "
                f"{bounds[1]}."
            )
        return Region(self, ((self.axis(name), near.index(True)),))

    def faces(self, *names: str) -> "Region":
        """Both faces of each named coordinate; all faces of the box if none is named."""
        sides = [(self.axis(name), end) for name in names or self.names for end in (0, 1)]
        return Region(self, tuple(sides))

    def periodic(self, name: str) -> "Region":
        """Pairs of points on the two faces of a coordinate.

        A condition on them sees the lower face as `u` and the upper as `u.at("opposite")`.
        """
        return Region(self, ((self.axis(name), 0),), paired=True)

    def mesh(self, *counts: int) -> Float[Array, "n d"]:
        """Evenly spaced points, ends included, to look at a solution: `box.mesh(101, 101)`."""
        return self.lattice(*counts)

    def lattice(self, *counts: int) -> Float[Array, "n d"]:
        """All nodes of an even grid of the bounding box, ends included: of a box its mesh."""
        for count in counts:
            require_count("mesh: counts", count)
        axes = [
            np.linspace(*bounds, count)
            for bounds, count in zip(self.bounds, per_axis(counts, len(self.names)), strict=True)
        ]
        return jnp.asarray(tensor(axes, len(axes)))

    def outside(self, coords: Float[ArrayLike, "n d"]) -> Bool[np.ndarray, " n"]:
        """Which points are NaN or not in the box, edges included."""
        given, (low, high) = np.asarray(coords, float), np.asarray(self.bounds).T
        slack = 1e-9 * (high - low)
        return ~np.all((given >= low - slack) & (given <= high + slack), axis=1)

    def covers(self, coords: Float[Array, "n d"], phi: Phi) -> Bool[Array, " n"] | None:
        """Which points of the bounding box are inside of the domain of φ; None for a box, where all
        are."""
        return None

    def placed(self, sets: Sequence[Points], phi: Phi) -> tuple[Points, ...]:
        """Points where φ puts them: of a box, where they are."""
        return tuple(sets)

    def axis(self, name: str) -> int:
        if not isinstance(name, str):
            raise TypeError(
                f"coordinates are named by strings, {', '.join(map(repr, self.names))}; "
                f"found {found(name)}."
            )
        if name not in self.names:
            raise ValueError(
                f"unknown coordinate {name!r}; the domain's coordinates are {', '.join(self.names)}."
            )
        return self.names.index(name)


@dataclass(frozen=True)
class Region:
    """A part of a box, and how points are placed in it.

    Without a rule, points are of low discrepancy and as many as the basis needs. Each method returns
    the same part with a rule of its own: `box.interior.uniform(500)`.
    """

    box: Box
    sides: tuple[tuple, ...]
    paired: bool = False
    rule: Rule | None = None

    def __repr__(self) -> str:
        return f"{self} of {self.box!r}"

    def __str__(self) -> str:
        """Where it is, and how points are placed there: "t = 0, 500 uniform points"."""
        names, bounds = self.box.names, self.box.bounds
        if self.sides == ((),):
            place = "interior"
        elif self.paired:
            place = f"{names[self.sides[0][0]]} periodic"
        elif len(self.sides) == 2 * len(names):
            place = "all faces"
        else:
            place = ", ".join(f"{names[axis]} = {bounds[axis][end]:g}" for axis, end in self.sides)
        return place if self.rule is None else f"{place}, {self.rule}"

    def uniform(self, count: int) -> "Region":
        """`count` independent uniform points."""
        return replace(self, rule=Uniform(count))

    def low_discrepancy(self, count: int) -> "Region":
        """`count` points spread evenly, shifted by the key if there is one."""
        return replace(self, rule=LowDiscrepancy(count))

    def nodes(self, count: int, side: int) -> "Region":
        """`count` different nodes, drawn from a grid of `side` nodes along each coordinate."""
        return replace(self, rule=Nodes(count, side))

    def grid(self, *counts: int) -> "Region":
        """The midpoints of `counts` cells along each coordinate."""
        return replace(self, rule=Grid(counts))

    def gauss(self, *nodes: int, cells: int | Sequence[int] = 1) -> "Region":
        """Gauss–Legendre quadrature, in each of `cells` cells along each coordinate."""
        several = tuple(cells) if isinstance(cells, tuple | list) else (cells,)
        return replace(self, rule=Gauss(nodes, several))

    def draw(self, key: PRNGKeyArray | None, count: int) -> Points:
        """Points with weights that add up to the region's measure.

        `count` is used where the region has no rule. It is the number over all sides together.
        """
        parts = len(self.sides)
        rule = self.rule or LowDiscrepancy(count)
        if isinstance(rule, Uniform | LowDiscrepancy | Nodes):
            shares = [rule.count // parts + (i < rule.count % parts) for i in range(parts)]
            rules: list[Any] = [replace(rule, count=share) if share else None for share in shares]
        else:
            rules = [rule] * parts
        keys = [None] * parts if key is None else list(jr.split(key, parts))
        drawn = [
            self._side(side, rule, key)
            for side, rule, key in zip(self.sides, rules, keys, strict=True)
            if rule is not None
        ]
        coords, weights, normals = (jnp.concatenate(part) for part in zip(*drawn, strict=True))
        data = {} if self.sides == ((),) else {"normal": normals}
        partners = {}
        if self.paired:
            ((axis, _),) = self.sides
            here = np.arange(len(self.box.names)) == axis
            partners["opposite"] = jnp.where(here, self.box.bounds[axis][1], coords)
        return Points(coords, weights=weights, partners=partners, lattice=None, **data)

    def _side(self, side: tuple, rule: Rule, key: PRNGKeyArray | None) -> tuple[Any, ...]:
        # NumPy wherever nothing is random: a JAX operation outside jit is compiled for every shape.
        low, high = np.asarray(self.box.bounds).T
        free = [i for i in range(len(low)) if not side or i != side[0]]
        # The face of an interval is a single point, however many were asked for.
        unit, weights = rule.place(key, len(free)) if free else (np.zeros((1, 1)), np.ones(1))
        # The column of each coordinate in the unit cube; that of the face's own is not looked at.
        column = np.asarray([free.index(i) if i in free else 0 for i in range(len(low))])
        start, span, normal = low.copy(), high - low, np.zeros(len(low))
        if side:
            axis, end = side
            start[axis], span[axis], normal[axis] = self.box.bounds[axis][end], 0.0, (-1.0, 1.0)[end]
        coords = start + span * unit[:, column]
        return coords, weights * np.prod(span[free]), np.broadcast_to(normal, coords.shape)


def _is_number(x: Any) -> bool:
    return np.ndim(x) == 0 and np.issubdtype(np.asarray(x).dtype, np.number)
