"""Convolutions on a grid by a few waves, on a domain that need not be periodic.

A function on nodes of [0, 1] is seen as zero up to a period of 1 + padding, as if padded for an FFT.
Few waves are kept, so their coefficients are sums (by the trapezoidal rule) with cosines and sines:
products of matrices, with the same period and so the same waves on every grid. Real and imaginary parts
are kept apart, for weights in real arrays.
"""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PRNGKeyArray

_FADE = 1.5


class Separable(eqx.Module):
    """The sum of a convolution along each axis: 4 · modes · channels² weights."""

    weights: Float[Array, "2 modes channels channels 2"]
    padding: float = eqx.field(static=True)

    def __init__(self, channels: int, modes: int, padding: float, *, key: PRNGKeyArray):
        weights = (4 * channels) ** -0.5 * jr.normal(key, (2, modes, channels, channels, 2))
        self.weights = _fading(np.arange(modes)) * weights
        self.padding = padding

    def __call__(self, h: Float[Array, "n m channels"]) -> Float[Array, "n m channels"]:
        along = lambda axis: _along(jnp.moveaxis(h, axis, 0), self.weights[axis], self.padding)
        return along(0) + jnp.moveaxis(along(1), 0, 1)


class Full(eqx.Module):
    """A convolution in the plane: 4 · modes² · channels² weights.

    The waves are −modes … modes − 1 along x and 0 … modes − 1 along y; the others are conjugates.
    """

    weights: Float[Array, "2*modes modes channels channels 2"]
    padding: float = eqx.field(static=True)

    def __init__(self, channels: int, modes: int, padding: float, *, key: PRNGKeyArray):
        weights = (2 * channels) ** -0.5 * jr.normal(key, (2 * modes, modes, channels, channels, 2))
        self.weights = _fading(np.hypot(*np.ogrid[-modes:modes, :modes])) * weights
        self.padding = padding

    def __call__(self, h: Float[Array, "n m channels"]) -> Float[Array, "n m channels"]:
        n, m, _ = h.shape
        modes = self.weights.shape[1]
        rows = _resolved(np.arange(-modes, modes), n, self.padding)
        columns = _resolved(np.arange(modes), m, self.padding)
        cos_x, sin_x, share_x = _waves(rows, n, self.padding, h.dtype)
        cos_y, sin_y, share_y = _waves(columns, m, self.padding, h.dtype)
        over_y = lambda wave: jnp.einsum("xyc,yk,y->xkc", h, wave, share_y)
        over_x = lambda part, wave: jnp.einsum("xkc,xj,x->jkc", part, wave, share_x)
        re, im = over_y(cos_y), -over_y(sin_y)
        re, im = over_x(re, cos_x) + over_x(im, sin_x), over_x(im, cos_x) - over_x(re, sin_x)
        weights = self.weights[rows + modes][:, columns]
        re, im = _mix("jkc,jkcd->jkd", re, im, weights)
        back_x = lambda part, wave: jnp.einsum("jkd,xj->xkd", part, wave)
        re, im = back_x(re, cos_x) - back_x(im, sin_x), back_x(re, sin_x) + back_x(im, cos_x)
        return _real(re, im, cos_y, sin_y, columns)


def _fading(orders: np.ndarray) -> Array:
    """High waves start weak, so that the first functions are smooth."""
    return jnp.asarray((1 + orders[..., None, None, None]) ** -_FADE)


def _along(h: Float[Array, "n m c"], weights: Array, padding: float) -> Float[Array, "n m d"]:
    """A convolution along the first axis."""
    n = h.shape[0]
    orders = _resolved(np.arange(weights.shape[0]), n, padding)
    cos, sin, share = _waves(orders, n, padding, h.dtype)
    over = lambda wave: jnp.einsum("xyc,xk->ykc", h, share[:, None] * wave)
    re, im = _mix("ykc,kcd->ykd", over(cos), -over(sin), weights[orders])
    return jnp.swapaxes(_real(re, im, cos, sin, orders), 0, 1)


def _real(re: Array, im: Array, cos: Array, sin: Array, orders: np.ndarray) -> Array:
    """The real function along the second axis with these coefficients of waves from zero on."""
    twice = jnp.asarray(np.where(orders > 0, 2.0, 1.0), re.dtype)  # each stands for its conjugate too
    back = lambda part, wave: jnp.einsum("ykd,xk->yxd", part, twice * wave)
    return back(re, cos) - back(im, sin)


def _mix(spec: str, re: Array, im: Array, weights: Array) -> tuple[Array, Array]:
    """The complex product with the weights, summed over channels."""
    a, b = weights[..., 0], weights[..., 1]
    product = lambda part, weight: jnp.einsum(spec, part, weight)
    return product(re, a) - product(im, b), product(re, b) + product(im, a)


def _resolved(orders: np.ndarray, n: int, padding: float) -> np.ndarray:
    """Those waves that n nodes tell apart."""
    return orders[np.abs(orders) < (1 + padding) * (n - 1) / 2]


def _waves(orders: np.ndarray, n: int, padding: float, dtype: DTypeLike) -> tuple[Array, Array, Array]:
    """Cosines and sines of the waves at n nodes, (n, k), and each node's share in a mean."""
    angles = 2 * np.pi * np.linspace(0, 1, n)[:, None] * orders / (1 + padding)
    share = np.full(n, 1 / ((n - 1) * (1 + padding)))
    share[[0, -1]] /= 2
    return (
        jnp.asarray(np.cos(angles), dtype),
        jnp.asarray(np.sin(angles), dtype),
        jnp.asarray(share, dtype),
    )
