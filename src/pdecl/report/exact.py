"""Exact solutions on any grid of (x, t), for one φ: the references give them on 101 × 101 nodes only."""

from typing import Any

import numpy as np
from jaxtyping import Float64

from ..problems import Law
from ..problems.burgers import coefficients
from ..problems.cole_hopf import LARGEST_RANGE
from ..problems.convection import slopes
from ..problems.convection_reference import _time_within, position_at, travel_times

Axis = Float64[np.ndarray, " n"]


def exact(law: Law, phi: Float64[np.ndarray, " sensors"], x: Axis, t: Axis) -> np.ndarray:
    """u at the points of a grid, indexed [x, t]; a ValueError where there is no formula for it."""
    if law.name == "convection":
        return _convection(phi, x, t)
    if law.name == "burgers":
        return _burgers(phi, law.viscosity, x, t)  # type: ignore[attr-defined]
    raise ValueError(f"there is no exact solution of {law.name} on any grid.")


def _convection(beta: np.ndarray, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """By characteristics, as `convection_reference.characteristics`."""
    tilt, intervals = np.asarray(slopes(beta)), len(beta) - 1
    arrival, _ = travel_times(beta, tilt)
    left = np.minimum((x * intervals).astype(int), intervals - 1)
    travel = arrival[left] + _time_within(beta, tilt, left, x * intervals - left)
    back = travel[:, None] - t
    u = np.sin(-np.pi / 2 * back)
    later = back > 0
    u[later] = np.sin(np.pi * position_at(beta, tilt, arrival, back[later], polish=3))
    return u


def _burgers(u0: np.ndarray, viscosity: float, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """By the Cole–Hopf transformation, as `cole_hopf`, with 2048 points for θ."""
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
