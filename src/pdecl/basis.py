"""What a basis is, and how its functions and their derivatives are evaluated at points.

A basis is any callable `basis(x, phi)` of one point x of shape `(d,)`, in the order of the domain's
coordinates, that returns the values of its N functions: an array `(N,)`, or for several unknowns a
dictionary with one such array for each. An Equinox module is one, and so is a plain function.

A basis that has its own way of differentiating (one given on a grid) offers
`basis.jets(coords, phi, wanted)` instead, with `wanted` a set of axes tuples (`(0, 0)` is the second
derivative in the first coordinate), and returns a dictionary from those to arrays `(n, N)`.
"""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .jet import Axes, derivatives

_CHUNK = 2048  # points evaluated together where the N functions are not held

Basis = Any  # callable, or with `jets`
Weights = dict[str, Float[Array, " _N"]]


def sizes(basis: Basis, unknowns: tuple[str, ...], dim: int, phi: Any) -> dict[str, int]:
    """How many functions each unknown has, found from shapes alone; checks what the basis returns."""
    if not (callable(basis) or hasattr(basis, "jets")):
        raise TypeError(f"the basis must be a function of (x, phi); found {type(basis).__name__}.")
    coords = jax.ShapeDtypeStruct((1, dim), jnp.zeros(()).dtype)
    out = jax.eval_shape(lambda x, phi: _raw(basis, x, phi, {()})[()], coords, phi)
    shapes = {unknown: leaf.shape for unknown, leaf in _by_unknown(out, unknowns).items()}
    for unknown, shape in shapes.items():
        if len(shape) != 2 or shape[1] == 0:
            raise ValueError(
                f"the basis must return one value for each of its functions at a point, an array of "
                f"shape (N,); for {unknown!r} it returned shape {shape[1:]}."
            )
    return {unknown: shape[1] for unknown, shape in shapes.items()}


def evaluate(
    basis: Basis,
    unknowns: tuple[str, ...],
    coords: Float[Array, "n d"],
    phi: Any,
    wanted: Iterable[Axes],
) -> dict[tuple[str, Axes], Float[Array, "n _N"]]:
    """The wanted derivatives of all functions at all points, one array for each unknown and axes."""
    found = _raw(basis, coords, phi, set(wanted))
    return {
        (unknown, axes): values.astype(coords.dtype)
        for axes, out in found.items()
        for unknown, values in _by_unknown(out, unknowns).items()
    }


def combine(
    basis: Basis,
    unknowns: tuple[str, ...],
    weights: Weights,
    coords: Float[Array, "n d"],
    phi: Any,
    wanted: Iterable[Axes],
) -> dict[tuple[str, Axes], Float[Array, " n"]]:
    """The wanted derivatives of Σ ω_i f_i, without ever holding those of the N functions.

    The sum is taken first and differentiated then, so that the cost of a derivative and the memory
    for it do not depend on N.
    """
    wanted = set(wanted)
    if hasattr(basis, "jets"):
        found = evaluate(basis, unknowns, coords, phi, wanted)
        return {key: values @ weights[key[0]] for key, values in found.items()}

    def total(x: Float[Array, " d"]) -> dict[str, Float[Array, ""]]:
        out = _by_unknown(basis(x, phi), unknowns)
        return {name: out[name].astype(x.dtype) @ weights[name] for name in unknowns}

    # A chunk of points at a time, recomputed when differentiated: no array of n×N at any moment.
    at_point = jax.checkpoint(lambda x: derivatives(total, x, wanted))
    found = jax.lax.map(at_point, coords, batch_size=_CHUNK)
    return {(name, axes): found[axes][name] for axes in wanted for name in unknowns}


def _raw(basis: Basis, coords: Float[Array, "n d"], phi: Any, wanted: set[Axes]) -> dict[Axes, Any]:
    if hasattr(basis, "jets"):
        return basis.jets(coords, phi, wanted)
    return jax.vmap(lambda x: derivatives(lambda y: basis(y, phi), x, wanted))(coords)


def _by_unknown(out: Any, unknowns: tuple[str, ...]) -> dict[str, Any]:
    if len(unknowns) == 1 and not isinstance(out, dict):
        return {unknowns[0]: out}
    if not isinstance(out, dict) or set(out) != set(unknowns):
        found = sorted(out) if isinstance(out, dict) else type(out).__name__
        raise ValueError(
            f"the problem has the unknowns {', '.join(unknowns)}, so its basis must return a "
            f"dictionary with an array (N,) for each; found {found}."
        )
    return {unknown: out[unknown] for unknown in unknowns}
