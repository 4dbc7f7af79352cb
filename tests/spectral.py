"""Small fixed bases with known functions, to put under the layer instead of a network."""

from collections.abc import Callable
from itertools import product
from typing import Any

import jax.numpy as jnp
import numpy as np


def chebyshev(box: Any, *degrees: int, total: int | None = None) -> Callable:
    """Products of Chebyshev polynomials up to a degree in each coordinate, one number: all alike.

    With `total` only those whose degrees add up to no more than that. Evaluated as polynomials, so
    that derivatives of any order are finite on the faces too.
    """
    degrees = degrees * len(box.names) if len(degrees) == 1 else degrees
    orders = np.array([p for p in product(*(range(d + 1) for d in degrees)) if sum(p) <= (total or 1e9)])
    most = max(degrees) + 1
    polynomials = np.zeros((most, most))
    for k in range(most):
        polynomials[k, : k + 1] = np.polynomial.chebyshev.cheb2poly(np.eye(most)[k])[: k + 1]

    def basis(x, phi):
        low, high = np.asarray(box.bounds).T
        s = ((2 * x - low - high) / (high - low))[:, None]
        powers = jnp.ones_like(s)
        while powers.shape[1] < most:  # 1 | s | s², s³ | s⁴ …: few operations to differentiate
            powers, s = jnp.concatenate([powers, s * powers], axis=1), s * s
        values = powers[:, :most] @ polynomials.T
        out = values[0, orders[:, 0]]
        for i in range(1, len(x)):
            out = out * values[i, orders[:, i]]
        return out

    return basis


def sines(box: Any, *counts: int) -> Callable:
    """Products of sin(kπs), k = 1, 2, …, with s from 0 to 1 across the box: zero on all faces."""
    counts = counts * len(box.names) if len(counts) == 1 else counts
    waves = np.array(list(product(*(range(1, n + 1) for n in counts))), float)

    def basis(x, phi):
        low, high = np.asarray(box.bounds).T
        values = jnp.sin(jnp.pi * waves * (x - low) / (high - low))
        out = values[:, 0]
        for i in range(1, len(x)):
            out = out * values[:, i]
        return out

    return basis


def only(u: Callable) -> Callable:
    """The basis of one function, `u(x, phi)`, or for a system of a dictionary of such values."""

    def basis(x, phi):
        out = u(x, phi)
        return {k: v[None] for k, v in out.items()} if isinstance(out, dict) else out[None]

    return basis
