"""Functions that are carried along characteristics."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...support.types import Phi
from .reference import arrival_times, hermite
from .spline import slopes

_NODES, _WEIGHTS = (np.asarray(rule) / 2 for rule in np.polynomial.legendre.leggauss(8))


class Carried(eqx.Module):
    """Functions that are constant along the characteristics of a β, with a kink on the one from (0, 0).

    A characteristic is known by s = T(x) − t, T(x) = ∫₀ˣ dy/β. The functions are s B_i(s), with the
    B_i cubic B-splines on `cells` equal cells of 0 ≤ s ≤ T(1), and the same on −1 ≤ s ≤ 0: each solves
    the equation, so what is left for the weights is to fit initial and inflow values. The factor s makes
    them continuous; the u of our problem is zero at s = 0.
    """

    cells: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return 2 * (self.cells + 3)

    @property
    def finest(self) -> int:
        """Points on a face that see the finest of them."""
        return 4 * self.cells

    @property
    def resolution(self) -> dict[str, int]:
        """Of the bound: as fine as the functions."""
        return {"cells": max(24, self.cells // 4)}

    def at(self, beta: Float[Array, " sensors"]) -> "_CarriedBy":
        bends = slopes(beta)
        return _CarriedBy(self.cells, beta, bends, arrival_times(beta, bends))

    def __call__(self, x: Float[Array, " 2"], phi: Phi) -> Float[Array, " N"]:
        return self.at(phi)(x, phi)


class _CarriedBy(eqx.Module):
    cells: int = eqx.field(static=True)
    beta: Float[Array, " sensors"]
    slopes: Float[Array, " sensors"]
    arrival: Float[Array, " sensors"]

    def __call__(self, x: Float[Array, " 2"], phi: Phi) -> Float[Array, " N"]:
        s = self._travel(x[0]) - x[1]
        knots = np.arange(-1, self.cells + 2)
        started = s * _spline(s / self.arrival[-1] * self.cells - knots)
        entered = s * _spline(-s * self.cells - knots)
        return jnp.concatenate([jnp.where(s > 0, started, 0.0), jnp.where(s > 0, 0.0, entered)])

    def _travel(self, x: Float[Array, ""]) -> Float[Array, ""]:
        """T(x): at the sensor to the left, and by Gauss–Legendre quadrature from there."""
        intervals = len(self.beta) - 1
        left = jnp.clip(jnp.floor(x * intervals), 0, intervals - 1).astype(int)
        inside = x * intervals - left
        cells = jnp.full(len(_NODES), left)
        between = hermite(self.beta, self.slopes, cells, inside * (_NODES + 0.5))
        return self.arrival[left] + inside / intervals * jnp.sum(_WEIGHTS / between)


def _spline(r: Float[Array, " n"]) -> Float[Array, " n"]:
    """The cubic B-spline around 0 with knots −2, …, 2."""
    r = jnp.abs(r)
    return jnp.where(r < 1, 2 / 3 - r**2 + r**3 / 2, jnp.maximum(2 - r, 0.0) ** 3 / 6)
