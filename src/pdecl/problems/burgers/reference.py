"""Burgers' equation by Fourier modes in x and exponential Runge–Kutta steps (ETDRK4) in t.

In Fourier space u_t = L u + N(u) with L = −ν(2πk)² and N(u) = −πik (u²)^. ETDRK4 (Cox and
Matthews; coefficients by the contour integrals of Kassam and Trefethen) treats L exactly and N to
fourth order. Of `points` grid points only the lower two thirds of the modes are kept, so products
do not alias.

A solution is a set of Fourier coefficients c_k, k ≥ 0: u(x) = c₀ + 2 Re Σ_(k≥1) c_k exp(2πikx).
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Complex128, Float, Float64

from ...family.arrays import AnyArray, namespace
from ...family.fourier import irfft, rfft

OUTPUTS = 101
State = AnyArray


def etdrk4(
    waves: Complex[AnyArray, "count k"], viscosity: float, points: int, steps: int
) -> Float[AnyArray, "count 101 101"]:
    """u at t = j/100 (axis 1) and x = i/100 (axis 2), from the Fourier coefficients of u₀.

    `steps` is a multiple of 100, or less than 100; in the latter case cubic Hermite interpolation
    in t fills in the times between the steps. NumPy in, NumPy out; JAX arrays run on their
    device, in their precision (complex64 gives a float32 solver).
    """
    if steps > OUTPUTS - 1 and steps % (OUTPUTS - 1):
        raise ValueError(f"steps must be below {OUTPUTS - 1} or a multiple of it, got {steps}")
    if isinstance(waves, jax.Array):
        return _etdrk4_jax(waves, viscosity, points, steps)
    # Steps too large blow up to infinity or NaN: that is the answer, and `converged` acts on it.
    with np.errstate(over="ignore", invalid="ignore"):
        return _etdrk4(waves, viscosity, points, steps, _python_scan)


@partial(jax.jit, static_argnums=(1, 2, 3))
def _etdrk4_jax(waves: Array, viscosity: float, points: int, steps: int) -> Array:
    return _etdrk4(waves, viscosity, points, steps, _jax_scan)


def converged(
    waves: Complex128[np.ndarray, "count k"],
    viscosity: float,
    tolerance: float = 1e-9,
    most_points: int = 4096,
    most_steps: int = 12800,
) -> Float64[np.ndarray, "count 101 101"]:
    """`etdrk4`, refined until its error is below `tolerance` relative to max |u|.

    The time step is halved until that changes the solution by less than 15 tolerances: at fourth
    order the finer solution's own error is 1/15 of the change. Then twice the points must change
    it by less than a tenth of one; spectral accuracy leaves the finer solution's error far below.
    """
    points, steps = 256, 200
    coarse = etdrk4(waves, viscosity, points, steps)
    while points <= most_points and steps <= most_steps:
        fine = etdrk4(waves, viscosity, points, 2 * steps)
        change = _change(coarse, fine)
        if not change.max() <= 15 * tolerance:
            coarse, steps = fine, 2 * steps
            continue
        denser = etdrk4(waves, viscosity, 2 * points, steps)
        change = _change(coarse, denser)
        if change.max() <= tolerance / 10:
            return fine
        coarse, points = denser, 2 * points
    worst = int(np.argmax(np.where(np.isfinite(change), change, np.inf)))
    raise ValueError(
        f"Burgers reference: φ number {worst} still changes by {change[worst]:.1e} at {points} "
        f"points and {steps} steps (wanted error {tolerance:.0e}); its shocks are too thin for "
        f"viscosity {viscosity:g}, or u0 is too rough: raise the viscosity or smooth u0"
    )


def _change(coarse: np.ndarray, fine: np.ndarray) -> np.ndarray:
    """Largest difference relative to the largest value, for each φ; NaN where a solve blew up."""
    with np.errstate(invalid="ignore"):
        largest = np.abs(fine).max(axis=(1, 2))
        return np.abs(fine - coarse).max(axis=(1, 2)) / np.where(largest > 0, largest, 1)


def _etdrk4(
    waves: State, viscosity: float, points: int, steps: int, scan: Callable[..., tuple[State, State]]
) -> State:
    xp = namespace(waves)
    kept = points // 3 + 1
    real = waves.real.dtype
    frequencies = 2 * np.pi * np.arange(kept)
    step_size = 1 / steps
    linear = -viscosity * frequencies**2
    table = [xp.asarray(c, real) for c in _coefficients(step_size * linear, step_size)]
    half_slope = xp.asarray(-0.5j * frequencies, waves.dtype)

    def nonlinear(v: State) -> State:
        values = irfft(v, n=points) * points
        return half_slope * (rfft(values * values)[..., :kept] / points)

    def step(v: State) -> tuple[State, State]:
        """The state after one step, and the time derivative before it."""
        full, half, quarter, f1, f2, f3 = table
        slope = nonlinear(v)
        a = half * v + quarter * slope
        slope_a = nonlinear(a)
        b = half * v + quarter * slope_a
        slope_b = nonlinear(b)
        c = half * a + quarter * (2 * slope_b - slope)
        new = full * v + f1 * slope + 2 * f2 * (slope_a + slope_b) + f3 * nonlinear(c)
        return new, xp.asarray(linear, real) * v + slope

    start = _resize(xp, waves, kept)
    states, rates = scan(step, start, min(steps, OUTPUTS - 1), max(1, steps // (OUTPUTS - 1)))
    if steps < OUTPUTS - 1:
        states = _hermite(states, rates, steps)
    values = _evaluate(xp, states, np.arange(OUTPUTS) / (OUTPUTS - 1))
    return xp.moveaxis(values, 0, 1)


def _python_scan(step: Callable, start: State, records: int, each: int) -> tuple[State, State]:
    states, rates, v = [start], [], start
    for _ in range(records):
        v, rate = step(v)
        for _ in range(each - 1):
            v, _ = step(v)
        states.append(v)
        rates.append(rate)
    rates.append(step(v)[1])
    return np.stack(states), np.stack(rates)


def _jax_scan(step: Callable, start: State, records: int, each: int) -> tuple[State, State]:
    def record(v: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
        new, rate = step(v)
        new = jax.lax.fori_loop(0, each - 1, lambda _, w: step(w)[0], new)
        return new, (new, rate)

    last, (states, rates) = jax.lax.scan(record, start, length=records)
    return (jnp.concatenate([start[None], states]), jnp.concatenate([rates, step(last)[1][None]]))


def _hermite(states: State, rates: State, steps: int) -> State:
    """Cubic Hermite interpolation of the states at t = 0, 1/steps, …, 1 to the output times."""
    position = np.arange(OUTPUTS) * steps / (OUTPUTS - 1)
    left = np.minimum(position.astype(int), steps - 1)
    s = (position - left)[:, None, None].astype(states.real.dtype)
    value_left, value_right = (1 + 2 * s) * (1 - s) ** 2, s * s * (3 - 2 * s)
    rate_left, rate_right = s * (1 - s) ** 2 / steps, s * s * (s - 1) / steps
    return (
        value_left * states[left]
        + value_right * states[left + 1]
        + rate_left * rates[left]
        + rate_right * rates[left + 1]
    )


def _resize(xp: object, waves: State, kept: int) -> State:
    """Cut or zero-pad to `kept` modes."""
    missing = kept - waves.shape[-1]
    if missing <= 0:
        return waves[..., :kept]
    return xp.pad(waves, [(0, 0)] * (waves.ndim - 1) + [(0, missing)])  # type: ignore[attr-defined]


def _evaluate(xp: object, waves: State, x: np.ndarray) -> State:
    angles = 2 * np.pi * np.outer(np.arange(1, waves.shape[-1]), x)
    cosines = xp.asarray(2 * np.cos(angles), waves.real.dtype)  # type: ignore[attr-defined]
    sines = xp.asarray(2 * np.sin(angles), waves.real.dtype)  # type: ignore[attr-defined]
    tail = waves[..., 1:]
    return waves[..., :1].real + _product(tail.real, cosines) - _product(tail.imag, sines)


def _product(left: State, right: State) -> State:
    if isinstance(left, jax.Array):
        # GPUs may round float32 products to TF32 unless told not to.
        return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)
    return left @ right


def _coefficients(z: np.ndarray, step_size: float) -> tuple[np.ndarray, ...]:
    """e^z, e^(z/2) and the weights of ETDRK4 for z = (step size) · L.

    The weights have removable singularities at z = 0, where their formulas lose all digits. As
    entire functions they equal their mean over a circle around z; they are real, so half a circle
    will do.
    """
    circle = z[:, None] + np.exp(1j * np.pi * (np.arange(32) + 0.5) / 32)
    grown = np.exp(circle)

    def mean(values: np.ndarray) -> np.ndarray:
        return step_size * values.mean(axis=1).real

    quarter = mean((np.exp(circle / 2) - 1) / circle)
    f1 = mean((-4 - circle + grown * (4 - 3 * circle + circle**2)) / circle**3)
    f2 = mean((2 + circle + grown * (circle - 2)) / circle**3)
    f3 = mean((-4 - 3 * circle - circle**2 + grown * (4 - circle)) / circle**3)
    return np.exp(z), np.exp(z / 2), quarter, f1, f2, f3
