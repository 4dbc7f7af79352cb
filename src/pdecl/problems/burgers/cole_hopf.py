"""Burgers' equation in closed form: the Cole–Hopf transformation.

u = c − 2ν θ_x/θ with c the mean of u₀ and θ a solution of the heat equation in the frame moving
with c, θ(x, 0) = exp(−ψ(x)/2ν), ψ' = u₀ − c. It shares no step with the time integrator, which
makes it the independent check; and it needs no time steps, which makes it the rival to beat.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Complex, Float

from ...family.arrays import AnyArray, namespace
from ...family.fourier import irfft, rfft
from .interpolant import coefficients
from .reference import OUTPUTS, _product, _resize

# θ spans exp(range); below it rounding eats the digits of θ where θ is small.
LARGEST_RANGE = 20.0


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


def on_axes(u0: np.ndarray, viscosity: float, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """u on any grid, indexed [x, t], for one u₀ and with 2048 points for θ."""
    points = 2048
    waves = np.asarray(coefficients(u0))
    frequencies = 2 * np.pi * np.arange(points // 2 + 1)
    psi = np.zeros(len(frequencies), complex)
    psi[1 : len(waves)] = waves[1:] / (1j * frequencies[1 : len(waves)])
    exponent = np.fft.irfft(psi, n=points) * (-points / (2 * viscosity))
    span = float(np.ptp(exponent))
    if span > LARGEST_RANGE:
        raise ValueError(
            f"viscosity {viscosity:g} is too small for the Cole–Hopf formula: θ spans exp({span:.0f})."
        )
    theta = np.fft.rfft(np.exp(exponent - exponent.max())) / points
    mean = waves[0].real
    at_t = theta * np.exp(
        -viscosity * np.outer(t, frequencies**2) - 1j * mean * np.outer(t, frequencies)
    )
    # Waves that have died out to below rounding at every t > 0 and at t = 0 need not be summed.
    kept = int(np.flatnonzero(np.abs(at_t).max(axis=0) > 1e-18).max()) + 1
    at_t, frequencies = at_t[:, :kept], frequencies[:kept]
    weights = np.where(frequencies == 0, 1.0, 2.0)
    phases = weights * np.exp(1j * np.outer(x, frequencies))
    real_of: Any = lambda of: phases.real @ of.real.T - phases.imag @ of.imag.T
    return mean - 2 * viscosity * real_of(at_t * (1j * frequencies)) / real_of(at_t)


def _require_range(exponent: np.ndarray, viscosity: float) -> None:
    span = float((exponent.max(axis=-1) - exponent.min(axis=-1)).max())
    if not span <= LARGEST_RANGE:
        raise ValueError(
            f"viscosity {viscosity:g} is too small for the Cole–Hopf formula: "
            f"θ spans exp({span:.0f}); use ETDRK4 (`Burgers.reference`)"
        )
