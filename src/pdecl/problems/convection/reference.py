"""Convection with speed β(x) > 0 solved exactly, and by the box scheme.

A characteristic needs the time T(x) = ∫₀ˣ ds/β(s) from the left end to x, so the value at (x, t)
came in from the boundary at time t − T(x) if that is positive, and otherwise started at the x₀ with
T(x₀) = T(x) − t:

    u(x, t) = sin(π(t − T(x))/2)   if t ≥ T(x),      u(x, t) = sin(πx₀)   else.

β is a cubic on each interval between sensors, given by its values and slopes there (in units of the
spacing), so Gauss–Legendre quadrature of 1/β on an interval is exact to rounding.
"""

import numpy as np
from jaxtyping import Float, Int

from ...family.arrays import AnyArray, namespace

_GAUSS_POINTS = 8


def on_axes(beta: np.ndarray, slopes: np.ndarray, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """u on any grid, indexed [x, t], for one β."""
    intervals = len(beta) - 1
    arrival = arrival_times(beta, slopes)
    left = np.minimum((x * intervals).astype(int), intervals - 1)
    travel = arrival[left] + time_within(beta, slopes, left, x * intervals - left)
    back = travel[:, None] - t
    u = np.sin(-np.pi / 2 * back)
    later = back > 0
    u[later] = np.sin(np.pi * position_at(beta, slopes, arrival, back[later], polish=3))
    return u


def arrival_times(beta: Float[AnyArray, " n"], slopes: Float[AnyArray, " n"]) -> Float[AnyArray, " n"]:
    """T at the sensors, for one β."""
    xp = namespace(beta)
    intervals = beta.shape[-1] - 1
    each = time_within(beta, slopes, np.arange(intervals), xp.ones(intervals, beta.dtype))
    return xp.concatenate([xp.zeros(1, beta.dtype), xp.cumsum(each)])


def position_at(
    beta: Float[AnyArray, " n"],
    slopes: Float[AnyArray, " n"],
    arrival: Float[AnyArray, " n"],
    time: Float[AnyArray, "*times"],
    polish: int,
) -> Float[AnyArray, "*times"]:
    """The x with T(x) = time, given T at the sensors."""
    xp = namespace(beta)
    intervals = beta.shape[-1] - 1
    left = xp.clip(xp.searchsorted(arrival, time.reshape(-1), side="right") - 1, 0, intervals - 1)
    left = left.reshape(time.shape)
    width = arrival[left + 1] - arrival[left]
    elapsed = time - arrival[left]
    # dx/dT = β, so the inverse's slopes at both ends are known.
    s = elapsed / width
    inside = s * s * (3 - 2 * s) + width * intervals * (
        beta[left] * s * (1 - s) ** 2 + beta[left + 1] * s * s * (s - 1)
    )
    for _ in range(polish):
        excess = time_within(beta, slopes, left, inside) - elapsed
        inside = inside - excess * hermite(beta, slopes, left, inside) * intervals
    return (left + inside) / intervals


def time_within(beta: AnyArray, slopes: AnyArray, left: AnyArray, inside: AnyArray) -> AnyArray:
    """∫ dx/β from sensor `left` over the fraction `inside` of the interval to its right."""
    nodes, weights = np.polynomial.legendre.leggauss(_GAUSS_POINTS)
    total = 0 * inside
    for node, weight in zip(nodes, weights, strict=True):
        total = total + float(weight) / hermite(beta, slopes, left, inside * float(node / 2 + 0.5))
    return total * inside / (2 * (beta.shape[-1] - 1))


def hermite(
    values: Float[AnyArray, "*batch n"],
    slopes: Float[AnyArray, "*batch n"],
    left: Int[AnyArray, "*points"],
    inside: Float[AnyArray, "*points"],
) -> Float[AnyArray, "..."]:
    """The cubic on the interval to the right of sensor `left`, at the fraction `inside` of it."""
    rest = 1 - inside
    return rest**2 * ((1 + 2 * inside) * values[..., left] + inside * slopes[..., left]) + (
        inside**2
    ) * ((1 + 2 * rest) * values[..., left + 1] - rest * slopes[..., left + 1])


def box_scheme(beta: Float[AnyArray, "count n"]) -> Float[AnyArray, "count n n"]:
    """u on the grid of β's points and as many times, by the box scheme (second order).

    On each cell u_t is the mean of the differences at its two x, β u_x the mean of those at its two
    times, β the mean of its ends:

        u(t+h, x+h) = u(t, x) + (1 − β)/(1 + β) · (u(t, x+h) − u(t+h, x))      (equal steps in x
        and t)

    A node needs its left, lower and lower-left neighbours, so whole antidiagonals are advanced at
    once.
    """
    diagonals = [first_diagonal(beta)] * 2
    for number in range(1, 2 * beta.shape[-1] - 1):
        diagonals.append(next_diagonal(beta, diagonals[-2], diagonals[-1], number))
    return from_diagonals(np.stack(diagonals[1:]))


def first_diagonal(beta: AnyArray) -> AnyArray:
    """Antidiagonal 0 holds only the corner u(0, 0) = 0; entry i of a diagonal belongs to x_i."""
    return 0 * beta


def next_diagonal(beta: AnyArray, before: AnyArray, last: AnyArray, number: int | AnyArray) -> AnyArray:
    """Antidiagonal `number` (time index + space index) from the two before it."""
    xp = namespace(beta)
    h = 1 / (beta.shape[-1] - 1)
    mean = (beta[..., 1:] + beta[..., :-1]) / 2
    inner = before[..., :-1] + (1 - mean) / (1 + mean) * (last[..., 1:] - last[..., :-1])
    on_boundary = xp.sin(xp.asarray(np.pi / 2 * h * number, beta.dtype))
    diagonal = xp.concatenate([0 * beta[..., :1] + on_boundary, inner], axis=-1)
    at_start = np.arange(beta.shape[-1]) == number
    return xp.where(at_start, xp.sin(xp.asarray(np.pi * h * number, beta.dtype)), diagonal)


def from_diagonals(diagonals: AnyArray) -> AnyArray:
    """u[φ, time, x] = diagonals[time + x, φ, x]."""
    n = diagonals.shape[-1]
    index = np.arange(n)
    return namespace(diagonals).moveaxis(diagonals[index[:, None] + index, :, index], -1, 0)
