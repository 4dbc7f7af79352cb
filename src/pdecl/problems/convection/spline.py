"""β between its sensors: a cubic spline."""

from functools import cache

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline

from ...family.arrays import AnyArray, namespace
from .reference import hermite


def speed(
    beta: Float[AnyArray, "*batch n"], x: Float[AnyArray, "*points"] | float
) -> Float[AnyArray, "..."]:
    """β(x) anywhere in [0, 1], from its values at n evenly spaced sensors: their cubic spline."""
    xp = namespace(beta, x)
    intervals = beta.shape[-1] - 1
    position = xp.asarray(x) * intervals
    left = xp.clip(xp.floor(position), 0, intervals - 1).astype(int)
    return xp.asarray(hermite(beta, slopes(beta), left, position - left))


def slopes(beta: Float[AnyArray, "*batch n"]) -> Float[AnyArray, "*batch n"]:
    """Slopes of the (not-a-knot) cubic spline at the sensors, per sensor spacing."""
    return beta @ _slope_matrix(beta.shape[-1])


@cache
def _slope_matrix(n: int) -> np.ndarray:
    """A spline is linear in its data, so its slopes are one matrix times the values."""
    knots = np.arange(float(n))
    matrix = np.ascontiguousarray(CubicSpline(knots, np.eye(n))(knots, 1).T)
    matrix.setflags(write=False)
    return matrix
