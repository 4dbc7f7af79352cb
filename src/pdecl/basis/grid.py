"""Bases given by their values on a grid: differentiated by stencils, or as finite elements."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..state.domain import Box
from ..state.jet import Axes
from ..state.points import Lattice
from ..support.mistakes import found
from ..support.summary import Summarised, Summary
from ..support.types import Phi
from .basis import Basis

Values = Float[Array, "... N"] | Callable[[Any], Float[Array, "... N"]]


class _Nodal(Summarised, Basis):
    """N functions given by their values at the nodes of a grid."""

    box: Box = eqx.field(static=True)
    values: Values
    pointwise = False

    @property
    def count(self) -> int | None:
        values: Any = self.values
        return values.shape[-1] if hasattr(values, "shape") else getattr(values, "count", None)

    def summary(self) -> Summary:
        values: Any = self.values
        if isinstance(values, Summarised):
            what: Any = values.summary()
        elif hasattr(values, "shape"):
            what = f"{values.shape[-1]:,} on {' × '.join(map(str, values.shape[:-1]))} nodes"
        else:
            what = found(values)
        return Summary(f"{type(self).__name__} over {self.box!r}", [("functions", what)])

    def at(self, phi: Phi) -> "_Nodal":
        return type(self)(self.box, grid_values(self.box, self.values, phi))

    def contract(self, weights: Float[Array, " N"], phi: Phi) -> "_Nodal":
        values = grid_values(self.box, self.values, phi).astype(weights.dtype)
        return type(self)(self.box, (values @ weights)[..., None])

    def times(self, factor: Callable[[Array], Array]) -> "_Nodal":
        assert not callable(self.values), "`times` is for the basis of one φ: `basis.at(phi)`"
        factors = jax.vmap(factor)(self.box.mesh(*self.values.shape[:-1]))
        factors = factors.reshape(*self.values.shape[:-1], 1).astype(self.values.dtype)
        return type(self)(self.box, self.values * factors)


class GridBasis(_Nodal):
    """N functions given on a grid of the box, ends included, with derivatives by stencils.

    - `values`: an array `(n_1, …, n_d, N)`, or a function (a network) from φ to one.

    Derivatives are differences of second order, central inside and one-sided at the ends. Between the
    nodes values and derivatives are interpolated linearly; at the nodes they are the stencils' own.
    """

    def jets(
        self, coords: Float[Array, "n d"], phi: Phi, wanted: set[Axes]
    ) -> dict[Axes, Float[Array, "n N"]]:
        values = grid_values(self.box, self.values, phi)
        out = {}
        for axes in wanted:
            field = values
            for axis, (low, high) in enumerate(self.box.bounds):
                step = (high - low) / (values.shape[axis] - 1)
                field = _differentiate(field, axis, step, axes.count(axis))
            out[axes] = interpolate(self.box, field, coords)
        return out


class ElementBasis(_Nodal):
    """The same functions as finite elements: multilinear in each cell, differentiated as such.

    First derivatives are exact inside a cell and jump between cells, which is what an energy with a
    coefficient that jumps from cell to cell asks for: `box.interior.gauss(2, cells=(n_1 - 1, …))` then
    integrates it exactly. Second derivatives are zero; use `GridBasis` for equations that need them.
    """

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Float[Array, " N"]:
        return interpolate(self.box, grid_values(self.box, self.values, phi), x[None])[0]

    def jets(
        self, coords: Float[Array, "n d"], phi: Phi, wanted: set[Axes]
    ) -> dict[Axes, Float[Array, "n N"]]:
        values = grid_values(self.box, self.values, phi)
        return {axes: interpolate(self.box, values, coords, axes) for axes in wanted}

    def on_lattice(
        self, lattice: Lattice, phi: Phi, wanted: set[Axes]
    ) -> dict[Axes, Float[Array, "n N"]]:
        """The same at points in rows and columns: one coordinate after the other, without a search."""
        values, out = grid_values(self.box, self.values, phi), {}
        for axes in wanted:
            field = values
            for axis, row in enumerate(lattice):
                field = _along(field, axis, self.box.bounds[axis], row, axes.count(axis))
            out[axes] = field.reshape(-1, field.shape[-1])
        return out


def grid_values(box: Box, values: Values, phi: Phi) -> Float[Array, "... N"]:
    """The values as an array, checked against the box."""
    values = values(phi) if callable(values) else values
    if values.ndim != len(box.names) + 1 or min(values.shape[:-1]) < 4:
        raise ValueError(
            f"a basis on a grid over {', '.join(box.names)} needs values of shape "
            f"({', '.join('n_' + name for name in box.names)}, N) with at least 4 nodes along each "
            f"coordinate; found {values.shape}."
        )
    return values


def interpolate(
    box: Box, values: Float[Array, "... N"], coords: Float[Array, "n d"], axes: Axes = ()
) -> Float[Array, "n N"]:
    """Multilinear interpolation of values on a grid of the box, ends included, or a derivative of it."""
    corner, pairs = jnp.zeros(len(coords), int), []
    for axis, (low, high) in enumerate(box.bounds):
        n = values.shape[axis]
        position = (coords[:, axis] - low) * ((n - 1) / (high - low))
        cell = jnp.clip(jnp.floor(position).astype(int), 0, n - 2)
        corner = corner * n + cell
        pairs.append(_shares(position - cell, (n - 1) / (high - low), axes.count(axis)))
    # All corners' rows are read in one pass: there is no array of cells.
    rows = values.reshape(-1, values.shape[-1])
    strides = [math.prod(values.shape[axis + 1 : -1]) for axis in range(len(pairs))]
    total: Any = 0.0
    for sides in itertools.product((0, 1), repeat=len(pairs)):
        share: Any = math.prod(pair[side] for pair, side in zip(pairs, sides, strict=True))
        number = corner + sum(side * stride for side, stride in zip(sides, strides, strict=True))
        total = total + share[:, None] * rows.at[number].get(mode="promise_in_bounds")
    return total


def _along(
    field: Array, axis: int, bounds: tuple[float, float], row: tuple[float, float, int], order: int
) -> Array:
    """Linear interpolation along one axis at evenly spaced places, or its derivative of an order."""
    n, (low, high) = field.shape[axis], bounds
    position = (np.linspace(*row) - low) * ((n - 1) / (high - low))
    position = np.where(np.abs(position - position.round()) < 1e-9, position.round(), position)
    cells = np.clip(np.floor(position).astype(int), 0, n - 2)
    step = int(cells[1] - cells[0]) if len(cells) > 1 else 1
    even = step > 0 and bool(np.all(np.diff(cells) == step))

    def ends(side: int) -> Array:
        if not even:
            return jnp.take(field, cells + side, axis=axis)
        return jax.lax.slice_in_dim(field, cells[0] + side, cells[-1] + side + 1, step, axis)

    low_share, high_share = _shares(position - cells, (n - 1) / (high - low), order)
    shape = [-1 if k == axis else 1 for k in range(field.ndim)]
    if not np.any(high_share):
        return ends(0) * low_share.reshape(shape)
    return ends(0) * low_share.reshape(shape) + ends(1) * high_share.reshape(shape)


def _shares(fraction: Any, cells: float, order: int) -> tuple[Any, Any]:
    """What the two ends of a cell count in a linear function, or in its derivative of an order."""
    if order == 0:
        return 1 - fraction, fraction
    slope = 0 * fraction + (cells if order == 1 else 0.0)
    return -slope, slope


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


def subsample(values: Float[Any, "*batch n n"], nodes: int) -> Float[Any, "*batch nodes nodes"]:
    """Every k-th node of a square grid, so that `nodes` remain along each side, both ends kept."""
    n = values.shape[-1]
    if nodes < 2 or nodes > n or (n - 1) % (nodes - 1):
        fitting = [(n - 1) // k + 1 for k in range(1, (n - 1) // 4 + 1) if (n - 1) % k == 0]
        raise ValueError(
            f"a grid of {n} nodes a side has no subgrid of {nodes}; "
            f"choose one of {', '.join(map(str, fitting))}"
        )
    stride = (n - 1) // (nodes - 1)
    return values[..., ::stride, ::stride]
