"""Boundary values on a shape that hold whatever the weights are."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...state.domain import Region
from ...state.points import Point
from ...state.shapes.domain import Domain, ShapeRegion
from ...state.shapes.moving import MovingDomain
from ...state.shapes.smooth import Sides, require_told_apart, smooth_distance, wanted_sides
from ...support.mistakes import ask, found, require_arguments
from ...support.summary import Summarised, Summary
from ...support.types import Phi
from ..basis import Wrapper, require_basis, specialise
from .layers import Pickled, inner, name_of
from .wrappers import Shifted, times


class ExactBoundary(Summarised, Pickled, Wrapper):
    """u = g + s Σ ω_i f_i, s a smooth distance that is zero on parts of a shape's boundary: u has the
    values given there, whatever the weights are.

        ExactBoundary(basis, (domain.boundary("outer"), 1.0), (domain.boundary("holes"), 0.0))

    - `given`: parts of a boundary, each with a number or a function `value(z, phi)` of a point; for
      several unknowns it returns a dictionary. Between parts g goes from one value to the other as
      distances do: Σ (g_i / s_i) / Σ (1 / s_i).

    Conditions for these parts are then not needed. Primitives and their sides have smooth distances;
    surfaces from files have none.
    """

    given: tuple[tuple[ShapeRegion, Any], ...] = eqx.field(static=True)

    def __init__(self, inner: Any, *given: tuple[ShapeRegion, Any]):
        self.inner, self.given = inner, given
        require_basis(inner, "ExactBoundary: `inner`")
        if not given:
            raise TypeError("ExactBoundary: name a part and its value, (domain.boundary(), 0.0).")
        for pair in given:
            _require_given(pair)
        domain = given[0][0].box
        if any(on.box != domain for on, _ in given):
            raise ValueError("ExactBoundary: all parts must be of one domain.")
        for on, _ in given:
            require_told_apart(domain.shape, _parts(on))

    def summary(self) -> Summary:
        rows = [(f"exact on {on}", name_of(value)) for on, value in self.given]
        return Summary("ExactBoundary", [*rows, ("basis", inner(self.inner))])

    def at(self, phi: Phi) -> Any:
        domain = self.given[0][0].box
        whole = tuple(part for on, _ in self.given for part in _parts(on))
        factor = _Distance(domain, _sides(domain, whole), phi)
        each = [_Distance(domain, _sides(domain, _parts(on)), phi) for on, _ in self.given]
        values = [_value(domain, value) for _, value in self.given]
        return Shifted(times(specialise(self.inner, phi), factor), _Between(each, values))


class _Distance(eqx.Module):
    """A factor that is zero on parts of the boundary."""

    domain: Domain = eqx.field(static=True)
    sides: Any = eqx.field(static=True)
    phi: Any

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, ""]:
        domain = self.domain
        shape = domain.of(self.phi) if isinstance(domain, MovingDomain) else domain.shape
        sides = [list(flags) for flags in self.sides]
        return smooth_distance(shape, sides)(x[None, : shape.dim])[0]


class _Between(eqx.Module):
    """Σ (g_i / s_i) / Σ (1 / s_i), written without quotients that are infinite on a part."""

    distances: list[_Distance]
    values: list[Callable[[Any, Any], Any]]

    def __call__(self, x: Float[Array, " d"], phi: Phi) -> Any:
        s = jnp.stack([distance(x) for distance in self.distances])
        n = len(self.distances)
        others = jnp.stack([jnp.prod(s[np.arange(n) != i]) for i in range(n)])
        shares = others / jnp.maximum(others.sum(), jnp.finfo(x.dtype).tiny)
        given = [value(x, phi) for value in self.values]
        if not isinstance(given[0], dict):
            return sum(share * value for share, value in zip(shares, given, strict=True))
        return {
            name: sum(share * value[name] for share, value in zip(shares, given, strict=True))
            for name in given[0]
        }


def _value(domain: Domain, value: Any) -> Callable[[Any, Any], Any]:
    if not callable(value):
        return lambda x, phi: jnp.asarray(value, x.dtype)
    return lambda x, phi: ask(
        "ExactBoundary: value", value, Point(domain.names, x, {}, {}), phi, phi=phi
    )


def _parts(on: ShapeRegion) -> tuple[str, ...]:
    return on.parts or tuple(on.box.shape.part_names)


@lru_cache(maxsize=256)
def _sides(domain: Domain, parts: tuple[str, ...]) -> tuple[tuple[bool, ...], ...]:
    sides: Sides = wanted_sides(domain.shape, parts)
    return tuple(map(tuple, sides))


def _is_boundary(on: ShapeRegion) -> bool:
    """Whether it is of the boundary: not the inside, nor the begin or end of an interval."""
    (first, *_) = on.sides
    return bool(first) and isinstance(first[0], str)


def _require_given(pair: Any) -> None:
    is_pair = isinstance(pair, tuple) and len(pair) == 2
    on = pair[0] if is_pair else None
    if not (isinstance(on, ShapeRegion) and on.within is None and _is_boundary(on)):
        raise TypeError(
            "ExactBoundary: takes pairs of a part of a shape's boundary and its value, such as "
            f"(domain.boundary('hole 1'), 0.0); found {on if isinstance(on, Region) else found(pair)}."
        )
    if callable(pair[1]):
        require_arguments("ExactBoundary: the value", pair[1], ("z", "phi"))
