"""Burgers' equation in closed form: the Cole–Hopf transformation.

u = c − 2ν θ_x/θ with c the mean of u₀ and θ a solution of the heat equation in the frame moving
with c, θ(x, 0) = exp(−ψ(x)/2ν), ψ' = u₀ − c. It shares no step with the time integrator, which
makes it the independent check, and it needs no time steps.
"""

from typing import Any

import numpy as np

from .interpolant import coefficients

# θ spans exp(range); below it rounding eats the digits of θ where θ is small.
LARGEST_RANGE = 20.0


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
