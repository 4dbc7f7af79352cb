"""Shapes that φ moves: points of a reference shape, carried along.

Each primitive carries the points of its boundary by its own parameters (centre and radius, corners), so
they stay on it exactly. Points inside follow boundary points as a thin plate would, which bends as
little as it can: Σ c_i k(|z − x_i|) + affine, k = r² log r in the plane and r in space. The derivative F
of the map gives weights by det F, and normals and weights on the boundary by the cofactor matrix of F.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Bool, Float, PRNGKeyArray

from ...support.mistakes import ask, found
from ...support.types import Phi
from ..points import Points, is_concrete
from .domain import Domain, ShapeRegion
from .patches import Coords, ShapeError
from .shape import Shape

_CONTROLS = {2: 160, 3: 400}  # boundary points that points inside follow


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MovingDomain(Domain):
    """`MovingDomain(lambda phi: Rectangle(...) - Disk(phi[:2], phi[2]), reference=phi_0)`: a shape for
    each φ, made of the same primitives in the same order.

    Arguments:

    - `of`: the shape of φ. It may be called on JAX arrays that are not known yet.
    - `reference`: the φ whose shape points are placed in before they are carried to that of another φ;
      one amidst those that are asked. Its bounding box is the domain's.
    - `names` and intervals: as of a `Domain`.

    Points depend on φ and can be differentiated with respect to it. Parts that cut each other have to
    move together. A shape that folds or is cut otherwise than the reference raises a `ShapeError` where
    φ is known; inside jit its weights are NaN, for which a solve has a status.
    """

    of: Callable[[Any], Shape]

    def __init__(
        self,
        of: Callable[[Any], Shape],
        reference: Any,
        names: Sequence[str] | None = None,
        **intervals: tuple[float, float],
    ):
        if not callable(of):
            raise TypeError(f"MovingDomain: `of` must be a function of φ; found {found(of)}.")
        shape = ask("MovingDomain: `of`", of, jax.tree.map(np.asarray, reference))
        if not isinstance(shape, Shape) or shape.dim not in _CONTROLS:
            raise TypeError(
                f"MovingDomain: `of` must return a shape of 2 or 3 dimensions; found {found(shape)}."
            )
        super().__init__(shape, names, None, **intervals)
        object.__setattr__(self, "of", of)
        still = [leaf for leaf, _ in shape.leaves() if not hasattr(leaf, "carry")]
        if still:
            raise TypeError(
                f"MovingDomain: {found(still[0])} cannot be moved by φ; balls, ellipses, boxes and "
                "polygons can."
            )

    def __eq__(self, other: object) -> bool:
        if type(other) is not MovingDomain:
            return False
        return self.of == other.of and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((self.of, self.names, self.bounds, self.shape))

    @property
    def interior(self) -> "MovingRegion":
        return MovingRegion(self, ((),))

    def boundary(self, *parts: str) -> "MovingRegion":
        region = super().boundary(*parts)
        return MovingRegion(self, region.sides, parts=region.parts)

    def face(self, **where: float) -> "MovingRegion":
        return MovingRegion(self, super().face(**where).sides)

    def outside(self, coords: Any) -> Bool[np.ndarray, " n"]:
        """Which points are NaN or outside of the bounding box: the shape is not known without φ."""
        given, (low, high) = np.asarray(coords, float), np.asarray(self.bounds).T
        slack = 1e-6 * (high - low)
        return ~np.all((given >= low - slack) & (given <= high + slack), axis=1)

    def _shape_of(self, phi: Phi) -> Shape:
        return self.of(phi)

    def at(self, phi: Phi) -> Domain:
        """The domain of one φ."""
        shape, _, misfit = _moved(self, phi)
        self._require_fit(misfit)
        return Domain(shape, self.names[: shape.dim], None, **dict(self.ranges()[shape.dim :]))

    def placed(self, sets: Sequence[Points], phi: Phi) -> tuple[Points, ...]:
        """Points of the reference shape carried to that of φ."""
        if not any("leaf" in points.data for points in sets):
            return tuple(sets)
        return tuple(self._placed(points, phi) if "leaf" in points.data else points for points in sets)

    def _placed(self, points: Points, phi: Phi) -> Points:
        dim, data = self.shape.dim, {k: v for k, v in points.data.items() if k != "leaf"}
        y, F, misfit = _carry(self, phi, points.coords[:, :dim], points.data["leaf"])
        fits = self._require_fit(misfit)
        cofactor = _cofactor(F)
        grown = jnp.sum(F[:, 0] * cofactor[:, 0], axis=1)
        if "normal" in data:
            normal, rest = data["normal"][:, :dim], data["normal"][:, dim:]
            on = jnp.any(normal != 0, axis=1)  # not at the begin or the end of time
            turned = jnp.einsum("nij,nj->ni", cofactor, normal)
            length = jnp.sqrt(jnp.where(on, jnp.sum(turned**2, axis=1), 1.0))
            grown = jnp.where(on, length, grown)
            data["normal"] = jnp.concatenate([turned / length[:, None], rest], axis=1)
        folds = jnp.any(grown <= 0)
        if is_concrete(folds) and bool(folds):
            raise ShapeError(
                "phi moves the boundary so far that the shape folds over: choose a nearer reference."
            )
        weights = jnp.where(fits & ~folds, points.weights * grown, jnp.nan)
        return _with(points, jnp.concatenate([y, points.coords[:, dim:]], axis=1), weights, data)

    def _require_fit(self, misfit: ArrayLike) -> Any:
        """Whether boundary points that are carried along end on the boundary."""
        fits = jnp.max(misfit) < 1e-6 * self.shape.size
        if is_concrete(fits) and not bool(fits):
            part = self._controls()[2][int(np.argmax(misfit))]
            raise ShapeError(
                f"phi makes the shape intersect itself: {part!r} is cut otherwise than in the reference."
            )
        return fits

    def _controls(self) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Points of the boundary that points inside follow, the primitive of each, and its part."""

        def make() -> tuple[np.ndarray, np.ndarray, list[str]]:
            pool, traced = self.shape.boundary_pool(_CONTROLS[self.shape.dim]), self.shape.traced
            few = slice(None, None, max(1, len(pool.coords) // _CONTROLS[self.shape.dim]))
            leaf = np.asarray([piece.leaf for piece in traced.pieces])[pool.cut[few]]
            return pool.coords[few], leaf, [traced.names[i][0] for i in pool.cut[few]]

        return self.shape._cached("controls", make)


class MovingRegion(ShapeRegion):
    """A part of a `MovingDomain`: its points know which primitive they are on (−1: none)."""

    def draw(self, key: PRNGKeyArray | None, count: int) -> Points:
        points = super().draw(key, count)
        leaf = jnp.full(len(points), -1)
        if self.sides != ((),) and not self._at_ends:
            leaves, dim = [leaf for leaf, _ in self.box.shape.leaves()], self.box.shape.dim
            near = jnp.stack(
                [jnp.abs(jnp.asarray(one.distance(points.coords[:, :dim]))) for one in leaves]
            )
            leaf = jnp.argmin(near, axis=0)
        return _with(points, points.coords, points.weights, {**points.data, "leaf": leaf})

    def still(self, domain: Domain) -> ShapeRegion:
        """The same part of the domain of one φ."""
        return ShapeRegion(domain, self.sides, self.paired, self.rule, self.parts)


def _with(points: Points, coords: Coords, weights: ArrayLike, data: dict[str, Any]) -> Points:
    return Points(coords, weights=weights, partners=points.partners, **data)


@partial(jax.jit, static_argnums=0)
def _carry(domain: MovingDomain, phi: Phi, x: Coords, leaf: Any) -> tuple[Any, Any, Any]:
    """Where points go, the derivative of the map, and how far boundary points end from the boundary."""
    _, carry, misfit = _moved(domain, phi)
    here, of, _ = domain._controls()
    shift = _carried(carry, here, of) - here
    shares = domain.shape._cached("plate", lambda: _plate(here)) @ shift

    def to(z: Any, of: Any) -> Any:
        ways = [f(z[None])[0] for f in carry]
        return jnp.stack([*ways, z + _terms(z, here) @ shares])[of]

    F = jax.vmap(jax.jacfwd(to))(x, leaf)
    return jax.vmap(to)(x, leaf), F, misfit


def _moved(domain: MovingDomain, phi: Phi) -> tuple[Shape, list, Any]:
    """The shape of φ, how each primitive carries points, and how far they end from the boundary."""
    shape = ask("MovingDomain: `of`", domain.of, phi)
    before, after = ([leaf for leaf, _ in one.leaves()] for one in (domain.shape, shape))
    if list(map(type, before)) != list(map(type, after)):
        raise ShapeError(
            "MovingDomain: `of` must make the same primitives in the same order for every φ."
        )
    carry = [lambda z, a=a, b=b: b.carry(a, z) for a, b in zip(before, after, strict=True)]
    here, of, _ = domain._controls()
    return shape, carry, jnp.abs(shape.distance(_carried(carry, here, of)))


def _carried(carry: list, x: np.ndarray, leaf: np.ndarray) -> Any:
    """Each boundary point by its own primitive."""
    out = jnp.asarray(x)
    for number in np.unique(leaf):
        rows = np.flatnonzero(leaf == number)
        out = out.at[rows].set(carry[number](x[rows]))
    return out


def _terms(z: Float[Any, " d"], here: np.ndarray) -> Any:
    """The kernel at each boundary point, one, and the coordinates, in units of the whole."""
    middle, size = here.mean(axis=0), np.ptp(here, axis=0).max()
    square = jnp.sum(((z - here) / size) ** 2, axis=1)
    apart = jnp.where(square > 0, square, 1.0)
    kernel = square * jnp.log(apart) if len(z) == 2 else jnp.where(square > 0, jnp.sqrt(apart), 0.0)
    return jnp.concatenate([kernel, jnp.ones(1), (z - middle) / size])


def _plate(here: np.ndarray) -> np.ndarray:
    """From the shifts of boundary points to the coefficients of the terms."""
    with jax.ensure_compile_time_eval():
        terms, n = np.asarray(jax.vmap(lambda z: _terms(z, here))(here)), len(here)
    whole = np.concatenate([terms, np.zeros((terms.shape[1] - n, terms.shape[1]))])
    whole[n:, :n] = terms[:, n:].T
    return np.linalg.inv(whole)[:, :n]


def _cofactor(F: Float[Any, "n d d"]) -> Float[Any, "n d d"]:
    """det F · F^(-T), which exists for singular F too."""
    if F.shape[1] == 2:
        return jnp.stack(
            [jnp.stack([F[:, 1, 1], -F[:, 1, 0]], 1), jnp.stack([-F[:, 0, 1], F[:, 0, 0]], 1)], axis=1
        )
    a, b, c = F[:, 0], F[:, 1], F[:, 2]
    return jnp.stack([jnp.cross(b, c), jnp.cross(c, a), jnp.cross(a, b)], axis=1)
