"""Fast solvers of the three problems for a batch of φ on the standard grid, to measure the layer beside.

`etdrk4`, Burgers by Fourier modes and few steps in t, as `Burgers.reference` takes many.

`cole_hopf`, Burgers in closed form: u = c − 2ν θ_x/θ with c the mean of u₀ and θ a solution of the heat
equation in the frame that moves with c.

`tabulated_characteristics`, convection by a table: the fast way to the exact solution on a whole grid.
u is constant along characteristics, and the characteristic through (x, t) is known by the one number
s = T(x) − t. So u(x, t) = G(s) with a function G of one variable:

    G(s) = sin(−πs/2) for s ≤ 0 (entered at the boundary),   G(s) = sin(π T⁻¹(s)) for s ≥ 0.

G is tabulated with its slope, G'(s) = π cos(πx) β(x) at x = T⁻¹(s), on cells to both sides of its
kink at s = 0, and cubic Hermite interpolation gives all values: no search, no sine per grid node.

`conjugate_gradients`, Darcy's five-point scheme.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from pdecl.family.arrays import AnyArray, irfft, namespace, rfft
from pdecl.problems.burgers.reference import LARGEST_RANGE, OUTPUTS, etdrk4_weights
from pdecl.problems.convection.reference import (
    arrival_times,
    first_diagonal,
    from_diagonals,
    hermite,
    next_diagonal,
    position_at,
    time_within,
)
from pdecl.problems.darcy.grid import Average, face_coefficients, flux_balance, poisson, ratio


@partial(jax.jit, static_argnums=(1, 2, 3))
def etdrk4(
    waves: Complex[Array, "count k"], viscosity: float, points: int, steps: int
) -> Float[Array, "count 101 101"]:
    """u at t = j/100 (axis 1) and x = i/100 (axis 2), from the Fourier coefficients of u₀.

    `steps` is a multiple of 100, or less than 100; in the latter case cubic Hermite interpolation in t
    fills in the times between the steps. complex64 gives a float32 solver.
    """
    real, kept, records = waves.real.dtype, points // 3 + 1, min(steps, OUTPUTS - 1)
    frequencies = 2 * np.pi * np.arange(kept)
    linear = -viscosity * frequencies**2
    table = [jnp.asarray(c, real) for c in etdrk4_weights(linear / steps, 1 / steps)]

    def nonlinear(v: Array) -> Array:
        values = irfft(v, n=points) * points
        half_slope = jnp.asarray(-0.5j * frequencies, waves.dtype)
        return half_slope * (rfft(values * values)[..., :kept] / points)

    def step(v: Array) -> tuple[Array, Array]:
        """The state after one step, and the time derivative before it."""
        full, half, quarter, f1, f2, f3 = table
        slope = nonlinear(v)
        a = half * v + quarter * slope
        slope_a = nonlinear(a)
        slope_b = nonlinear(half * v + quarter * slope_a)
        c = half * a + quarter * (2 * slope_b - slope)
        new = full * v + f1 * slope + 2 * f2 * (slope_a + slope_b) + f3 * nonlinear(c)
        return new, jnp.asarray(linear, real) * v + slope

    def record(v: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
        new, rate = step(v)
        new = jax.lax.fori_loop(0, steps // records - 1, lambda _, w: step(w)[0], new)
        return new, (new, rate)

    start = _resize(jnp, waves, kept)
    last, (states, rates) = jax.lax.scan(record, start, length=records)
    states = jnp.concatenate([start[None], states])
    if steps < OUTPUTS - 1:
        states = _hermite(states, jnp.concatenate([rates, step(last)[1][None]]), steps)
    angles = np.outer(frequencies[1:], np.arange(OUTPUTS) / (OUTPUTS - 1))
    cosines, sines = (jnp.asarray(2 * f(angles), real) for f in (np.cos, np.sin))
    tail = states[..., 1:]
    values = states[..., :1].real + _product(tail.real, cosines) - _product(tail.imag, sines)
    return jnp.moveaxis(values, 0, 1)


def _hermite(states: Array, rates: Array, steps: int) -> Array:
    """Cubic Hermite interpolation of the states at t = 0, 1/steps, …, 1 to the output times."""
    position = np.arange(OUTPUTS) * steps / (OUTPUTS - 1)
    left = np.minimum(position.astype(int), steps - 1)
    s = (position - left)[:, None, None].astype(states.real.dtype)
    value_left, value_right = (1 + 2 * s) * (1 - s) ** 2, s * s * (3 - 2 * s)
    rate_left, rate_right = s * (1 - s) ** 2 / steps, s * s * (s - 1) / steps
    at_values = value_left * states[left] + value_right * states[left + 1]
    return at_values + rate_left * rates[left] + rate_right * rates[left + 1]


def _resize(xp: Any, waves: AnyArray, kept: int) -> AnyArray:
    """Cut or zero-pad to `kept` modes."""
    missing = kept - waves.shape[-1]
    if missing <= 0:
        return waves[..., :kept]
    return xp.pad(waves, [(0, 0)] * (waves.ndim - 1) + [(0, missing)])


def _product(left: AnyArray, right: AnyArray) -> AnyArray:
    if isinstance(left, jax.Array):
        # GPUs may round float32 products to TF32 unless told not to.
        return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)
    return left @ right


def cole_hopf(
    waves: Complex[AnyArray, "count k"], viscosity: float, points: int = 1024
) -> Float[AnyArray, "count 101 101"]:
    """u at t = j/100 (axis 1) and x = i/100 (axis 2), from the Fourier coefficients of u₀.

    θ is resolved by `points` points in x. For NumPy input a ValueError says when viscosity is so
    small that θ spans more than exp(20) and digits would be lost; under `jit` nothing can be
    raised.
    """
    xp = namespace(waves)
    real = waves.real.dtype
    modes = points // 2 + 1
    frequencies = 2 * np.pi * np.arange(modes)
    padded = _resize(xp, waves, modes)
    antiderivative = padded * xp.asarray(
        np.concatenate([[0.0], 1 / (1j * frequencies[1:])]), waves.dtype
    )
    exponent = irfft(antiderivative, n=points) * (-points / (2 * viscosity))
    if not isinstance(waves, jax.Array):
        _require_range(exponent, viscosity)
    exponent = exponent - exponent.max(axis=-1, keepdims=True)
    theta = rfft(xp.exp(exponent)) / points

    grid = np.arange(OUTPUTS) / (OUTPUTS - 1)
    decay = xp.asarray(np.exp(-viscosity * np.outer(grid, frequencies**2)), real)
    mean = waves[..., 0].real
    drift = xp.exp(-1j * mean[:, None, None] * np.outer(grid, frequencies).astype(real))
    theta = theta[:, None, :] * decay * drift
    weights = np.where(np.arange(modes) == 0, 1.0, 2.0)
    angles = np.outer(frequencies, grid)
    cosines = xp.asarray(weights[:, None] * np.cos(angles), real)
    sines = xp.asarray(weights[:, None] * np.sin(angles), real)
    slope = theta * xp.asarray(1j * frequencies, waves.dtype)

    def values(of: AnyArray) -> AnyArray:
        return _product(of.real, cosines) - _product(of.imag, sines)

    return mean[:, None, None] - 2 * viscosity * values(slope) / values(theta)


cole_hopf_jax = jax.jit(cole_hopf, static_argnums=(1, 2))


def _require_range(exponent: np.ndarray, viscosity: float) -> None:
    span = float((exponent.max(axis=-1) - exponent.min(axis=-1)).max())
    if not span <= LARGEST_RANGE:
        raise ValueError(
            f"viscosity {viscosity:g} is too small for the Cole–Hopf formula: "
            f"θ spans exp({span:.0f}); use ETDRK4 (`Burgers.reference`)"
        )


def characteristics(
    beta: Float[AnyArray, "count n"], slopes: Float[AnyArray, "count n"], polish: int = 3
) -> Float[AnyArray, "count 101 101"]:
    """u at t = j/100 (axis 1) and x = i/100 (axis 2).

    The start x₀ comes from Hermite interpolation of the inverse of T (error about 1e-7 for the
    standard law), improved by `polish` Newton steps; two reach rounding, the third is for rough β.
    NumPy in, NumPy out; JAX arrays run on their device.
    """
    if isinstance(beta, jax.Array):
        return _characteristics_jax(beta, slopes, polish)
    return np.stack([_characteristics(b, s, polish) for b, s in zip(beta, slopes, strict=True)])


@partial(jax.jit, static_argnums=2)
def _characteristics_jax(beta: Array, slopes: Array, polish: int) -> Array:
    return jax.vmap(partial(_characteristics, polish=polish))(beta, slopes)


def _characteristics(beta: AnyArray, slopes: AnyArray, polish: int) -> AnyArray:
    xp = namespace(beta)
    grid = xp.asarray(np.arange(OUTPUTS) / (OUTPUTS - 1), beta.dtype)
    arrival, travel = travel_times(beta, slopes)
    # Time left to travel back to t = 0; negative where the boundary is met first.
    back = travel[None, :] - grid[:, None]
    start = position_at(beta, slopes, arrival, xp.maximum(back, 0), polish)
    return xp.where(back <= 0, xp.sin(-np.pi / 2 * back), xp.sin(np.pi * start))


def travel_times(
    beta: Float[AnyArray, " n"], slopes: Float[AnyArray, " n"]
) -> tuple[Float[AnyArray, " n"], Float[AnyArray, " 101"]]:
    """T at the sensors and at x = i/100, for one β."""
    xp, intervals = namespace(beta), beta.shape[-1] - 1
    arrival = arrival_times(beta, slopes)
    position = np.arange(OUTPUTS) / (OUTPUTS - 1) * intervals
    left = np.minimum(position.astype(int), intervals - 1)
    remainder = xp.asarray(position - left, beta.dtype)
    return arrival, arrival[left] + time_within(beta, slopes, left, remainder)


def tabulated_characteristics(
    beta: Float[AnyArray, "count n"], slopes: Float[AnyArray, "count n"], cells: int = 128
) -> Float[AnyArray, "count 101 101"]:
    """u at t = j/100 (axis 1) and x = i/100 (axis 2), with `cells` cells to each side of the kink.

    Fourth order in 1/cells: about 1e-6 with 128. NumPy in, NumPy out; JAX arrays run on their device.
    """
    if isinstance(beta, jax.Array):
        return _tabulated_jax(beta, slopes, cells)
    return np.stack([_tabulated(b, s, cells) for b, s in zip(beta, slopes, strict=True)])


@partial(jax.jit, static_argnums=2)
def _tabulated_jax(beta: Array, slopes: Array, cells: int) -> Array:
    return jax.vmap(partial(_tabulated, cells=cells))(beta, slopes)


def _tabulated(beta: AnyArray, slopes: AnyArray, cells: int) -> AnyArray:
    xp = namespace(beta)
    real = beta.dtype
    intervals = beta.shape[-1] - 1
    arrival, travel = travel_times(beta, slopes)

    entered = xp.asarray(np.arange(cells + 1) / cells - 1, real)
    width = arrival[-1] / cells
    x = position_at(beta, slopes, arrival, xp.asarray(np.arange(cells + 1), real) * width, 2)
    left = xp.clip(xp.floor(x * intervals), 0, intervals - 1).astype(int)
    speed = hermite(beta, slopes, left, x * intervals - left)
    # Slopes are per cell; the kink is node `cells` of the table, once from each side.
    values = xp.concatenate([xp.sin(-np.pi / 2 * entered), xp.sin(np.pi * x)])
    rates = xp.concatenate(
        [-np.pi / 2 / cells * xp.cos(np.pi / 2 * entered), np.pi * xp.cos(np.pi * x) * speed * width]
    )

    grid = xp.asarray(np.arange(OUTPUTS) / (OUTPUTS - 1), real)
    s = travel[None, :] - grid[:, None]
    place = xp.where(s < 0, (s + 1) * cells, s / width)
    cell = xp.clip(xp.floor(place), 0, cells - 1).astype(np.int32)
    return hermite(values, rates, cell + xp.where(s < 0, 0, cells + 1), place - cell)


@partial(jax.jit, static_argnames=("steps", "average"))
def conjugate_gradients(
    nu: Float[Array, "*batch n n"],
    steps: int,
    start: Float[Array, "*batch n n"] | None = None,
    average: Average = "arithmetic",
) -> Float[Array, "*batch n n"]:
    """`steps` steps of conjugate gradients for the five-point scheme, preconditioned by −Δ.

    Each step cuts the error by about (√c + 1)/(√c − 1), c = max ν / min ν: by 3 for ν in {3, 12}.
    The sine transforms are products with the dense matrix of sines, which is what a GPU does
    best. A `start` (zero on the boundary) is polished; without one the steps begin at u = 0.
    """
    nodes = nu.shape[-1]
    faces = face_coefficients(nu, average)

    def inner(one: Array, other: Array) -> Array:
        return jnp.sum(one * other, axis=(-2, -1), keepdims=True)

    def step(_: Any, state: tuple[Array, ...]) -> tuple[Array, ...]:
        u, residual, direction, size = state
        image = flux_balance(faces, _pad(direction))
        length = ratio(size, inner(direction, image))
        u = u + length * direction
        residual = residual - length * image
        improved = poisson(residual)
        size, before = inner(residual, improved), size
        return u, residual, improved + ratio(size, before) * direction, size

    # The load is constant, but the compiler must not know: it would spend minutes on multiplying
    # it with the matrix of sines beforehand.
    load = 0 * nu[..., 1:-1, 1:-1] + (nodes - 1.0) ** -2
    u = jnp.zeros_like(load) if start is None else start[..., 1:-1, 1:-1]
    residual = load if start is None else load - flux_balance(faces, _pad(u))
    direction = poisson(residual)
    state = (u, residual, direction, inner(residual, direction))
    return _pad(jax.lax.fori_loop(0, steps, step, state)[0])


def _pad(interior: Array) -> Array:
    return jnp.pad(interior, [(0, 0)] * (interior.ndim - 2) + [(1, 1), (1, 1)])


@jax.jit
def box_on_jax(beta: Array) -> Array:
    """The box scheme of `pdecl.problems.convection.reference`, compiled."""

    def advance(pair: tuple[Array, Array], number: Array) -> tuple[tuple[Array, Array], Array]:
        new = next_diagonal(beta, *pair, number)
        return (pair[1], new), new

    first = first_diagonal(beta)
    numbers = jnp.arange(1, 2 * beta.shape[-1] - 1)
    _, rest = jax.lax.scan(advance, (first, first), numbers)
    return from_diagonals(jnp.concatenate([first[None], rest]))
