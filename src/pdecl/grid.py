"""Bases given by their values on a grid: differentiated by stencils, or as finite elements."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .domain import Box
from .jet import Axes

Values = Float[Array, "... N"] | Callable[[Any], Float[Array, "... N"]]


class GridBasis(eqx.Module):
    """N functions given on a grid of the box, ends included, with derivatives by stencils.

    - `values`: an array `(n_1, …, n_d, N)`, or a function (a network) from φ to one.

    Derivatives are differences of second order, central inside and one-sided at the ends. Between the
    nodes values and derivatives are interpolated linearly; at the nodes they are the stencils' own.
    """

    box: Box = eqx.field(static=True)
    values: Values

    def at(self, phi: Any) -> "GridBasis":
        return GridBasis(self.box, on_grid(self.box, self.values, phi))

    def contract(self, weights: Float[Array, " N"], phi: Any) -> "GridBasis":
        return GridBasis(self.box, _combined(self.box, self.values, weights, phi))

    def times(self, factor: Callable[[Array], Array]) -> "GridBasis":
        return GridBasis(self.box, _multiplied(self.box, self.values, factor))

    def jets(
        self, coords: Float[Array, "n d"], phi: Any, wanted: set[Axes]
    ) -> dict[Axes, Float[Array, "n N"]]:
        values = on_grid(self.box, self.values, phi)
        found = {}
        for axes in wanted:
            field = values
            for axis, (low, high) in enumerate(self.box.bounds):
                step = (high - low) / (values.shape[axis] - 1)
                field = _differentiate(field, axis, step, axes.count(axis))
            found[axes] = jax.vmap(lambda x, field=field: interpolate(self.box, field, x))(coords)
        return found


class ElementBasis(eqx.Module):
    """The same functions as finite elements: multilinear in each cell, differentiated as such.

    First derivatives are exact inside a cell and jump between cells, which is what an energy with a
    coefficient that jumps from cell to cell asks for: `box.interior.gauss(2, cells=(n_1 - 1, …))` then
    integrates it exactly. Second derivatives are zero; use `GridBasis` for equations that need them.
    """

    box: Box = eqx.field(static=True)
    values: Values

    def at(self, phi: Any) -> "ElementBasis":
        return ElementBasis(self.box, on_grid(self.box, self.values, phi))

    def contract(self, weights: Float[Array, " N"], phi: Any) -> "ElementBasis":
        return ElementBasis(self.box, _combined(self.box, self.values, weights, phi))

    def times(self, factor: Callable[[Array], Array]) -> "ElementBasis":
        return ElementBasis(self.box, _multiplied(self.box, self.values, factor))

    def __call__(self, x: Float[Array, " d"], phi: Any = None) -> Float[Array, " N"]:
        return interpolate(self.box, on_grid(self.box, self.values, phi), x)


def on_grid(box: Box, values: Values, phi: Any) -> Float[Array, "... N"]:
    """The values as an array, checked against the box."""
    values = values(phi) if callable(values) else values
    if values.ndim != len(box.names) + 1 or min(values.shape[:-1]) < 4:
        raise ValueError(
            f"a basis on a grid over {', '.join(box.names)} needs values of shape "
            f"({', '.join('n_' + name for name in box.names)}, N) with at least 4 nodes along each "
            f"coordinate; found {values.shape}."
        )
    return values


def _combined(box: Box, values: Values, weights: Float[Array, " N"], phi: Any) -> Float[Array, "... 1"]:
    """Σ ω_i f_i on the grid, as the values of a single function."""
    values = on_grid(box, values, phi)
    return (values.astype(weights.dtype) @ weights)[..., None]


def _multiplied(box: Box, values: Values, factor: Callable[[Array], Array]) -> Float[Array, "... N"]:
    """Values on the grid times a function of a point, at the nodes."""
    assert not callable(values), "`times` is for the basis of one φ: `basis.at(phi)`"
    nodes = box.mesh(*values.shape[:-1])
    factors = jax.vmap(factor)(nodes).reshape(values.shape[:-1])
    return values * factors[..., None].astype(values.dtype)


def interpolate(box: Box, values: Float[Array, "... N"], x: Float[Array, " d"]) -> Float[Array, " N"]:
    """Multilinear interpolation at one point of values on a grid of the box, ends included."""
    cells, fractions = [], []
    for axis, (low, high) in enumerate(box.bounds):
        n = values.shape[axis]
        position = (x[axis] - low) * ((n - 1) / (high - low))
        cell = jnp.clip(jnp.floor(position).astype(int), 0, n - 2)
        cells.append(cell)
        fractions.append(position - cell)
    zero = jnp.zeros_like(cells[0])
    sizes = (*[2] * len(cells), values.shape[-1])
    block = jax.lax.dynamic_slice(values, (*cells, zero), sizes)
    for fraction in fractions:  # each pass contracts the leading axis
        block = (1 - fraction) * block[0] + fraction * block[1]
    return block


def _differentiate(field: Array, axis: int, step: float, order: int) -> Array:
    """The derivative of an order along an axis, by differences of second order."""
    for size in [2] * (order // 2) + [1] * (order % 2):
        f = jnp.moveaxis(field, axis, 0)
        if size == 1:
            inner = (f[2:] - f[:-2]) / 2
            first = (-3 * f[0] + 4 * f[1] - f[2]) / 2
            last = (3 * f[-1] - 4 * f[-2] + f[-3]) / 2
        else:
            inner = f[2:] - 2 * f[1:-1] + f[:-2]
            first = 2 * f[0] - 5 * f[1] + 4 * f[2] - f[3]
            last = 2 * f[-1] - 5 * f[-2] + 4 * f[-3] - f[-4]
        f = jnp.concatenate([first[None], inner, last[None]]) / step**size
        field = jnp.moveaxis(f, 0, axis)
    return field
