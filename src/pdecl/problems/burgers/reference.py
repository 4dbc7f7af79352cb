"""Burgers' equation by Fourier modes in x and exponential Runge–Kutta steps (ETDRK4) in t; and in
closed form, by the Cole–Hopf transformation.

In Fourier space u_t = L u + N(u) with L = −ν(2πk)² and N(u) = −πik (u²)^. ETDRK4 (Cox and
Matthews; coefficients by the contour integrals of Kassam and Trefethen) treats L exactly and N to
fourth order. Of `points` grid points only the lower two thirds of the modes are kept, so products
do not alias.

A solution is a set of Fourier coefficients c_k, k ≥ 0: u(x) = c₀ + 2 Re Σ_(k≥1) c_k exp(2πikx).
"""

from typing import Any

import numpy as np
from jaxtyping import Complex128, Float64

from .interpolant import coefficients

OUTPUTS = 101
# θ spans exp(range); below it rounding eats the digits of θ where θ is small.
LARGEST_RANGE = 20.0


def etdrk4(
    waves: Complex128[np.ndarray, "count k"], viscosity: float, points: int, steps: int
) -> Float64[np.ndarray, "count 101 101"]:
    """u at t = j/100 (axis 1) and x = i/100 (axis 2), from the Fourier coefficients of u₀; `steps` is a
    multiple of 100."""
    if steps % (OUTPUTS - 1):
        raise ValueError(f"steps must be a multiple of {OUTPUTS - 1}, got {steps}")
    kept = points // 3 + 1
    v = np.pad(waves[:, :kept], ((0, 0), (0, max(0, kept - waves.shape[1]))))
    frequencies = 2 * np.pi * np.arange(kept)
    full, half, quarter, f1, f2, f3 = etdrk4_weights(-viscosity * frequencies**2 / steps, 1 / steps)

    def nonlinear(v: np.ndarray) -> np.ndarray:
        values = np.fft.irfft(v, n=points) * points
        return -0.5j * frequencies * (np.fft.rfft(values * values)[:, :kept] / points)

    states = [v]
    # Steps too large blow up to infinity or NaN: that is the answer, and `converged` acts on it.
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(OUTPUTS - 1):
            for _ in range(steps // (OUTPUTS - 1)):
                slope = nonlinear(v)
                a = half * v + quarter * slope
                slope_a = nonlinear(a)
                slope_b = nonlinear(half * v + quarter * slope_a)
                slope_c = nonlinear(half * a + quarter * (2 * slope_b - slope))
                v = full * v + f1 * slope + 2 * f2 * (slope_a + slope_b) + f3 * slope_c
            states.append(v)
        angles = np.outer(frequencies[1:], np.arange(OUTPUTS) / (OUTPUTS - 1))
        waves_at = np.stack(states, axis=1)
        tail = waves_at[..., 1:].real @ np.cos(angles) - waves_at[..., 1:].imag @ np.sin(angles)
        return np.asarray(waves_at[..., :1].real + 2 * tail)


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


def etdrk4_weights(z: np.ndarray, step_size: float) -> tuple[np.ndarray, ...]:
    """e^z, e^(z/2) and the weights of ETDRK4 for z = (step size) · L.

    The weights have removable singularities at z = 0, where their formulas lose all digits. As
    entire functions they equal their mean over a circle around z; they are real, so half a circle
    will do.
    """
    circle = z[:, None] + np.exp(1j * np.pi * (np.arange(32) + 0.5) / 32)
    grown = np.exp(circle)
    mean = lambda values: step_size * values.mean(axis=1).real
    quarter = mean((np.exp(circle / 2) - 1) / circle)
    f1 = mean((-4 - circle + grown * (4 - 3 * circle + circle**2)) / circle**3)
    f2 = mean((2 + circle + grown * (circle - 2)) / circle**3)
    f3 = mean((-4 - 3 * circle - circle**2 + grown * (4 - circle)) / circle**3)
    return np.exp(z), np.exp(z / 2), quarter, f1, f2, f3


def on_axes(u0: np.ndarray, viscosity: float, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """u on any grid, indexed [x, t], for one u₀, by the Cole–Hopf transformation, with 2048 points for
    θ.

    u = c − 2ν θ_x/θ with c the mean of u₀ and θ a solution of the heat equation in the frame moving
    with c, θ(x, 0) = exp(−ψ(x)/2ν), ψ' = u₀ − c. It shares no step with the time integrator, which
    makes it the independent check, and it needs no time steps.
    """
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
