"""A shape: signed distance, points and weights inside and on the boundary, parts of the boundary."""

import abc
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from ...support.mistakes import found
from ..rules import require_count
from .boundary import Boundary, Pool, trace
from .inside import centres, fill
from .patches import Coords, Patch, space
from .strata import strata


@dataclass(frozen=True)
class Part:
    """What is known of a named part of a boundary: what a primitive is, and whether it is a hole.

    `size` is the radius of a ball, the half-widths of other primitives.
    """

    name: str
    kind: str
    hole: bool
    centre: Float[np.ndarray, " d"]
    size: float | Float[np.ndarray, " d"]
    primitive: "Shape"


class Shape(abc.ABC):
    """A bounded set of points, closed, in two or more dimensions.

    `a | b`, `a - b`, `a & b` are unions, differences and intersections. Points are arrays (n, d), of
    NumPy or JAX.
    """

    dim: int

    @abc.abstractmethod
    def distance(self, points: Float[Any, "n d"]) -> Float[Any, " n"]:
        """Signed distance to the boundary, negative inside. Of combined shapes and ellipses its size may
        be less than the distance, never more."""

    @property
    @abc.abstractmethod
    def bounding_box(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Lowest and highest coordinates."""

    @abc.abstractmethod
    def leaves(self, hole: bool = False) -> Iterator[tuple["Primitive", bool]]:
        """The primitives that it is made of, and whether each is taken away."""

    def renamed(self) -> tuple[tuple[str, Callable], ...]:
        """Names given to parts of the boundary by predicates; the last counts."""
        return ()

    def __or__(self, other: "Shape") -> "Shape":
        return Union(self, other)

    def __and__(self, other: "Shape") -> "Shape":
        return Intersection(self, other)

    def __sub__(self, other: "Shape") -> "Shape":
        return Difference(self, other)

    def name(self, part: str, predicate: Callable[[Any], Any]) -> "Shape":
        """The same shape, the boundary where `predicate(points)` holds being called `part`.

        `predicate` gets points (n, d) and returns n truth values.
        """
        if not isinstance(part, str) or not part:
            raise TypeError(f"name: the part's name must be a string; found {found(part)}.")
        if not callable(predicate):
            raise TypeError(
                f"name: {part!r} needs a function of points (n, d), such as lambda x: x[:, 0] < 1e-9; "
                f"found {found(predicate)}."
            )
        return Named(self, part, predicate)

    def inside(self, points: Float[Any, "n d"]) -> Bool[Any, " n"]:
        """Whether points are in the shape, its boundary included."""
        return self.distance(points) <= 1e-9 * self.size

    @property
    def size(self) -> float:
        """The diagonal of the bounding box."""
        low, high = self.bounding_box
        return float(np.linalg.norm(high - low))

    @property
    def measure(self) -> float:
        """Area or volume."""
        return float(self.interior_pool(256).weights.sum())

    @property
    def boundary_measure(self) -> float:
        """Length or area of the boundary."""
        return float(self.traced.pool(16).weights.sum())

    @property
    def traced(self) -> Boundary:
        """The boundary, each patch cut to what is left of it."""
        return self._cached("traced", lambda: trace(self))

    @property
    def parts(self) -> list[Part]:
        """The parts of the boundary that primitives gave it, and what each of those is."""
        labels = {name for names in self.traced.names for name in names}
        return [
            Part(name, leaf.kind, hole, *leaf.extent(), leaf)
            for (name, *_), (leaf, hole) in zip(self.leaf_names(), self.leaves(), strict=True)
            if name in labels
        ]

    @property
    def part_names(self) -> list[str]:
        """The parts that the boundary is divided into: each boundary point is in one of them."""
        return list(dict.fromkeys(names[0] for names in self.traced.names))

    @property
    def corners(self) -> tuple[Float[np.ndarray, "k 2"], Float[np.ndarray, " k"]]:
        """Corners of a plane shape, and the angle of the inside at each."""
        return self.traced.corners() if self.dim == 2 else (np.zeros((0, self.dim)), np.zeros(0))

    def interior(self, n: int) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """n points inside, evenly spread but denser in thin parts, and weights that add up to the
        measure."""
        require_count("interior: n", n)
        pool = self.interior_pool(n)
        groups = strata(pool.coords, pool.weights, pool.density, n)
        return centres(self, pool, groups), groups.masses

    def boundary(
        self, n: int, part: str | tuple[str, ...] | None = None
    ) -> tuple[Any, Any, Any, list[str]]:
        """About n points of the boundary or of parts of it: points, outward normals, weights, labels."""
        require_count("boundary: n", n)
        pool = self.boundary_pool(n, part)
        picked, weights = strata(pool.sorted_by, pool.weights, pool.density, n, pool.cut).middles()
        labels = [self.traced.names[i][0] for i in pool.cut[picked]]
        return pool.coords[picked], pool.normals[picked], weights, labels

    def interior_pool(self, n: int) -> Pool:
        """Many more than n points inside, to pick from."""
        level = max(8, int(np.ceil(np.log2(n))))
        return self._cached(("inside", level), lambda: fill(self, 2**level))

    def boundary_pool(self, n: int, part: str | tuple[str, ...] | None = None) -> Pool:
        names = () if part is None else (part,) if isinstance(part, str) else tuple(part)
        known = {name for names in self.traced.names for name in names}
        for name in names:
            if name not in known:
                given = name in dict(self.renamed())
                words = (
                    f"the predicate of the part {name!r} holds nowhere on the boundary"
                    if given
                    else f"there is no part {name!r}"
                )
                raise ValueError(f"boundary: {words}; the parts are {', '.join(self.part_names)}.")
        level = max(6, int(np.ceil(np.log2(n))))
        return self._cached(("on", level, names), lambda: self.traced.pool(2**level, names))

    def leaf_names(self) -> list[tuple[str, ...]]:
        """What each primitive's part of the boundary is called: its own name first, then wider ones."""
        holes = [hole for _, hole in self.leaves()]
        several, count, all_names = holes.count(False) > 1, {True: 0, False: 0}, []
        for leaf, hole in self.leaves():
            count[hole] += 1
            word = "hole" if hole else "outer"
            numbered = f"{word} {count[hole]}" if hole or several else word
            names = (leaf.part, numbered, "holes" if hole else "outer")
            all_names.append(tuple(dict.fromkeys(name for name in names if name)))
        return all_names

    def _cached(self, key: Hashable, make: Callable[[], Any]) -> Any:
        memory = self.__dict__.setdefault("_memory", {})
        if key not in memory:
            memory[key] = make()
        return memory[key]


class Primitive(Shape):
    """A shape with patches of its own. `part` names its boundary."""

    kind: str
    part: str | None = None
    exact: float | None = None  # its measure, where a formula gives it

    @abc.abstractmethod
    def patches(self, reach: float, middle: np.ndarray) -> list[Patch]:
        """Its boundary; that of an unbounded shape as far as `reach` around `middle`."""

    def leaves(self, hole: bool = False) -> Iterator[tuple["Primitive", bool]]:
        yield self, hole

    def extent(self) -> tuple[np.ndarray, Any]:
        """Centre and size."""
        low, high = self.bounding_box
        return (low + high) / 2, (high - low) / 2


class Combined(Shape):
    """Two shapes."""

    def __init__(self, first: Shape, second: Any):
        for shape in (first, second):
            if not isinstance(shape, Shape):
                raise TypeError(f"shapes combine with shapes; found {found(shape)}.")
        if first.dim != second.dim:
            raise ValueError(f"shapes of {first.dim} and {second.dim} dimensions cannot be combined.")
        self.first, self.second, self.dim = first, second, first.dim

    def __repr__(self) -> str:
        return f"({self.first!r} {self.sign} {self.second!r})"

    sign: str

    @abc.abstractmethod
    def joined(self, xp: ModuleType, one: Float[Any, " n"], other: Float[Any, " n"]) -> Any:
        """The signed distance from those of the two."""

    def distance(self, points: Coords) -> Any:
        one, other = self.first.distance(points), self.second.distance(points)
        return self.joined(space(one, other), one, other)

    def leaves(self, hole: bool = False) -> Iterator[tuple[Primitive, bool]]:
        yield from self.first.leaves(hole)
        yield from self.second.leaves(hole != isinstance(self, Difference))

    def renamed(self) -> tuple[tuple[str, Callable], ...]:
        return (*self.first.renamed(), *self.second.renamed())


class Union(Combined):
    sign = "|"

    def joined(self, xp: ModuleType, one: Float[Any, " n"], other: Float[Any, " n"]) -> Any:
        return xp.minimum(one, other)

    @property
    def bounding_box(self) -> tuple[np.ndarray, np.ndarray]:
        (a, b), (c, d) = self.first.bounding_box, self.second.bounding_box
        return np.minimum(a, c), np.maximum(b, d)


class Intersection(Combined):
    sign = "&"

    def joined(self, xp: ModuleType, one: Float[Any, " n"], other: Float[Any, " n"]) -> Any:
        return xp.maximum(one, other)

    @property
    def bounding_box(self) -> tuple[np.ndarray, np.ndarray]:
        (a, b), (c, d) = self.first.bounding_box, self.second.bounding_box
        return np.maximum(a, c), np.minimum(b, d)


class Difference(Combined):
    sign = "-"

    def joined(self, xp: ModuleType, one: Float[Any, " n"], other: Float[Any, " n"]) -> Any:
        return xp.maximum(one, -other)

    @property
    def bounding_box(self) -> tuple[np.ndarray, np.ndarray]:
        return self.first.bounding_box


class Named(Shape):
    """A shape with a name for a part of its boundary."""

    def __init__(self, inner: Shape, part: str, predicate: Callable):
        self.inner, self.part, self.predicate, self.dim = inner, part, predicate, inner.dim

    def __repr__(self) -> str:
        return f"{self.inner!r}.name({self.part!r}, ...)"

    def distance(self, points: Coords) -> Any:
        return self.inner.distance(points)

    @property
    def bounding_box(self) -> tuple[np.ndarray, np.ndarray]:
        return self.inner.bounding_box

    def leaves(self, hole: bool = False) -> Iterator[tuple[Primitive, bool]]:
        return self.inner.leaves(hole)

    def renamed(self) -> tuple[tuple[str, Callable], ...]:
        return (*self.inner.renamed(), (self.part, self.predicate))
