"""Bases made of others: with boundary and initial data built in, on a coarser grid, in float32, joined.

They compose, and take any basis. `Mollified` and `ExactInitial` multiply the functions by a factor
that vanishes on a part of the boundary. Functions given at points are multiplied there; functions on a
grid at its nodes, so that elements stay elements.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ...state.domain import Region
from ...state.jet import Axes
from ...state.points import Point
from ...support.mistakes import ask, found, require_arguments
from ...support.summary import Summarised, Summary
from ...support.types import Phi
from ..basis import Basis, Wrapper, as_basis, forwarded, require_basis, specialise
from ..grid import subsample
from .features import require_dimension
from .layers import Pickled, inner, name_of

Factor = Callable[[Array], Array]  # of a point


class Mollified(Summarised, Wrapper):
    """Functions that vanish on faces of the box: `Mollified(basis, box.faces())`.

    Each function is multiplied by 4s(1 − s) for a coordinate with both its faces in `on`, by s or 1 − s
    for one with a single face, where s runs from 0 to 1 across the box.
    """

    on: Region = eqx.field(static=True)

    def __check_init__(self) -> None:
        require_basis(self.inner, "Mollified: `inner`")
        _require_faces("Mollified", self.on)

    def summary(self) -> Summary:
        return Summary("Mollified", [("zero on", str(self.on)), ("basis", inner(self.inner))])

    def at(self, phi: Phi) -> Any:
        return times(specialise(self.inner, phi), Vanishing(self.on))


class ExactInitial(Summarised, Pickled, Wrapper):
    """u = value + s Σ ω_i f_i with s zero on a face: u equals `value` there, whatever the weights are.

    - `on`: the face, `box.face(t=0)`; s runs from 0 there to 1 on the opposite face.
    - `value`: a function `value(z, phi)` of a point, as in a condition: `lambda z, phi: jnp.sin(z.x)`.
      For several unknowns it returns a dictionary.
    - `rate`: if given, 1 − exp(−rate·s) takes the place of s: for what changes fast at first.
    """

    on: Region = eqx.field(static=True)
    value: Callable[[Any, Any], Any]
    rate: float | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        require_basis(self.inner, "ExactInitial: `inner`")
        _require_faces("ExactInitial", self.on)
        if not callable(self.value):
            raise TypeError(
                "ExactInitial: `value` must be a function of (z, phi), such as lambda z, phi: 0.0; "
                f"found {found(self.value)}."
            )
        require_arguments("ExactInitial: `value`", self.value, ("z", "phi"))

    def summary(self) -> Summary:
        rows = [
            ("exact on", str(self.on)),
            ("value", name_of(self.value)),
            ("rate", self.rate),
            ("basis", inner(self.inner)),
        ]
        return Summary("ExactInitial", rows)

    def at(self, phi: Phi) -> Any:
        inner = times(specialise(self.inner, phi), Vanishing(self.on, self.rate))
        return Shifted(inner, AtPoint(self.on.box.names, self.value))


class Thinned(Summarised, Wrapper):
    """A basis that sees every k-th node of a field φ, so that `nodes` remain along each side.

    An FNO gives its functions on the grid of the field that it sees, so theirs is that coarser grid. The
    problem may still be told of the whole φ (`problem(nodes=…)` of a family on a grid).
    """

    nodes: int = eqx.field(static=True)

    def summary(self) -> Summary:
        return Summary(f"Thinned: {self.nodes} nodes a side", [("basis", inner(self.inner))])

    def at(self, phi: Phi) -> Any:
        return specialise(self.inner, subsample(phi, self.nodes))


class InSingle(Summarised, Wrapper):
    """The same basis with its network and derivatives in float32: parameters, points and φ are cast.

    Gradients reach the parameters in their own precision, and the solve keeps its own: training in
    mixed precision. An offset (exact initial data) is not cast. A basis on a grid computes its values
    in float32 and interpolates them in the precision of the points.
    """

    def __check_init__(self) -> None:
        require_basis(self.inner, "InSingle: `inner`")

    def summary(self) -> Summary:
        return Summary("InSingle: evaluated in float32", [("basis", inner(self.inner))])

    def at(self, phi: Phi) -> Any:
        return as_single(specialise(_single(self.inner), _single(phi)))


class Single(Wrapper):
    """A basis of points whose parameters are in float32 already."""

    weights, offset = forwarded("weights"), forwarded("offset")

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        return self.inner(_single(x), _single(phi))


def as_single(basis: Basis) -> Basis:
    """A basis whose parameters are in float32 already, for points in double."""
    return Single(basis) if basis.pointwise and basis.contract is None else basis


def _single(tree: PyTree) -> Any:
    return jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, tree)


class Beside(Basis):
    """The functions of a learned basis, and further ones, for each unknown."""

    learned: Any
    further: Any
    offset = forwarded("offset", "learned")

    def at(self, phi: Phi) -> "Beside":
        return Beside(specialise(self.learned, phi), specialise(self.further, phi))

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        pair = self.learned(x, phi), self.further(x, phi)
        return jax.tree.map(lambda one, other: jnp.concatenate([one, other]), *pair)

    @property
    def count(self) -> int | None:
        one, other = as_basis(self.learned).count, as_basis(self.further).count
        return None if one is None or other is None else one + other


class Vanishing(eqx.Module):
    """A factor that is zero on faces of a box and positive elsewhere."""

    on: Region = eqx.field(static=True)
    rate: float | None = eqx.field(static=True, default=None)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, ""]:
        require_dimension(self.on.box, x)
        factor, axes = jnp.ones((), x.dtype), [axis for axis, _ in self.on.sides]
        for axis, end in self.on.sides:
            low, high = self.on.box.bounds[axis]
            s = (x[axis] - low) / (high - low)
            factor = factor * (1 - s if end else s) * axes.count(axis)
        return factor if self.rate is None else -jnp.expm1(-self.rate * factor)


class AtPoint(Pickled, eqx.Module):
    """A function of a named point and φ as one of an array of coordinates."""

    names: tuple[str, ...] = eqx.field(static=True)
    value: Callable[[Any, Any], Any]

    def __call__(self, x: Float[Array, " d"], phi: Phi) -> Any:
        point = Point(self.names, x, {}, {})
        return ask("ExactInitial: `value`", self.value, point, phi, phi=phi)


class Times(Wrapper):
    """A basis of points multiplied by a factor."""

    factor: Factor
    weights = forwarded("weights")

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        return _product(self.factor, self.inner, x, phi)


class Shifted(Wrapper):
    """A basis with a fixed function beside it."""

    value: Callable[[Any, Any], Any]
    pointwise, weights, contract = map(forwarded, ("pointwise", "weights", "contract"))

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        return self.inner(x, phi)

    def offset(self, x: Float[Array, " d"], phi: Phi) -> Any:
        value = self.value(x, phi)
        if self.inner.offset is None:
            return value
        return jax.tree.map(jnp.add, value, self.inner.offset(x, phi))

    def times(self, factor: Factor) -> "Shifted":
        return Shifted(times(self.inner, factor), Product(self.value, factor))

    def jets(self, coords: Float[Array, "n d"], phi: Phi, wanted: set[Axes]) -> dict[Axes, Any]:
        return self.inner.jets(coords, phi, wanted)


class Product(eqx.Module):
    """A fixed function multiplied by a factor."""

    inner: Callable[[Any, Any], Any]
    factor: Factor

    def __call__(self, x: Float[Array, " d"], phi: Phi) -> Any:
        return _product(self.factor, self.inner, x, phi)


def _product(factor: Factor, inner: Callable[[Any, Any], Any], x: Array, phi: Phi) -> Any:
    here = factor(x)
    return jax.tree.map(lambda values: here.astype(values.dtype) * values, inner(x, phi))


def times(basis: Basis, factor: Factor) -> Basis:
    """The basis, made for one φ, multiplied by a factor."""
    if basis.times is not None:
        return basis.times(factor)
    if not basis.pointwise:
        raise TypeError(
            f"{type(basis).__name__} differentiates in its own way (`jets`), so it has to offer "
            "`times(factor)`, itself multiplied by a function of a point."
        )
    if basis.offset is not None:
        return Shifted(Times(basis, factor), Product(basis.offset, factor))
    return Times(basis, factor)


def _require_faces(wrapper: str, on: object) -> None:
    if not isinstance(on, Region) or on.sides == ((),):
        raise TypeError(f"{wrapper}: `on` must be faces of a box, such as box.faces() or box.face(t=0).")
    if on.sides[0] and isinstance(on.sides[0][0], str):
        raise TypeError(
            f"{wrapper}: {on} is of a shape: write ExactBoundary(basis, (domain.boundary(...), value))."
        )
