"""Burgers' equation u_t + ½(u²)_x = ν u_xx, periodic on (0, 1), t in (0, 1); φ is u₀ at sensors."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Array, Complex, Float, Float64

from ..condition import Fit
from ..domain import Box
from ..problem import Problem
from . import burgers_reference, checks
from .arrays import AnyArray, namespace
from .fields import periodic_field
from .fourier import rfft
from .law import with_counts
from .noise import normals


@dataclass(frozen=True)
class Burgers:
    """u₀ is a periodic Gaussian random field of mean 0 and covariance sigma²(−Δ + tau²)^(−gamma).

    The field has `modes` cosines and as many sines (standard deviations in
    `fields.periodic_field`). φ is u₀ at x = 0, 1/(sensors − 1), …, 1, both ends included. With
    sensors ≥ 2·modes + 2 the values and the Fourier coefficients say the same (`coefficients`,
    `initial`).
    """

    gamma: float = 4.0
    tau: float = 5.0
    sigma: float = 625.0
    viscosity: float = 0.01
    sensors: int = 101
    modes: int = 49

    name: ClassVar[str] = "burgers"
    equation: ClassVar[str] = "u_t + (u^2/2)_x = viscosity u_xx, periodic on (0,1), t in (0,1)"
    phi_name: ClassVar[str] = "u0"
    phi_dims: ClassVar[tuple[str, ...]] = ("sensor",)
    solution_dims: ClassVar[tuple[str, ...]] = ("t", "x")
    version: ClassVar[int] = 1
    batch: ClassVar[int] = 50

    def __post_init__(self) -> None:
        checks.require_positive_fields(self, "gamma", "tau", "sigma", "viscosity", "modes")
        if self.sensors < 2 * self.modes + 2:
            raise ValueError(
                f"Burgers: {self.sensors} sensors cannot tell {self.modes} modes apart; "
                f"use at least {2 * self.modes + 2} sensors or fewer modes"
            )

    def problem(
        self,
        data_weight: float = 20.0,
        seam: bool = True,
        points: int | None = None,
        face_points: int | None = None,
    ) -> Problem:
        """The PDE as conditions, in least squares.

        `data_weight` is that of the initial and periodic conditions; `seam=False` leaves periodicity to
        the basis. `points` inside and `face_points` on each face, where the default does not suit.
        """
        box = Box(x=(0, 1), t=(0, 1))
        pde = lambda u, z, u0: u.d("t") + u() * u.d("x") - self.viscosity * u.d("x", "x")
        start = lambda u, z, u0: u() - initial(u0, z.x)
        joined = lambda u, z, u0: (
            u() - u.at("opposite")(),
            u.d("x") - u.at("opposite").d("x"),
        )
        faces = [box.face(t=0), box.periodic("x")] if seam else [box.face(t=0)]
        inside, *faces = with_counts([box.interior, *faces], points, face_points)
        conditions = [
            Fit(pde, on=inside, name="equation"),
            Fit(start, on=faces[0], weight=data_weight, name="initial"),
        ]
        if seam:
            conditions.append(Fit(joined, on=faces[1], weight=data_weight, name="periodic"))
        return Problem(box, conditions, parameter=self.draw)

    def sample(self, seed: int, count: int, start: int = 0) -> Float64[np.ndarray, "count sensors"]:
        """u₀ number start … start + count − 1 of a seed; the same on every machine."""
        checks.require_count(count)
        noise = [normals(seed, start + k, (2, self.modes)) for k in range(count)]
        return np.asarray(self._initial_values(np.stack(noise)))

    def draw(self, key: jax.Array) -> Float[Array, " sensors"]:
        """One u₀ from a JAX key."""
        return self._initial_values(jr.normal(key, (2, self.modes)))

    def check(self, u0: Any) -> Float64[np.ndarray, "count n"]:
        """u₀ at any number of evenly spaced points with both ends, as a batch in float64."""
        u0 = checks.as_batch(u0, "u0", 1, "points along x")
        checks.require_at_least("u0", u0.shape[1], 5, "points")
        gap = np.abs(u0[:, 0] - u0[:, -1])
        bad = np.flatnonzero(gap > 1e-6 * np.abs(u0).max(axis=1))
        if bad.size:
            raise ValueError(
                f"u0 must be periodic: its first and last values (x = 0 and x = 1) differ by up to "
                f"{gap.max():.3g} ({checks.numbered(bad)}); if your points stop before x = 1, "
                "append the first value at the end"
            )
        return u0

    def reference(self, u0: Any) -> Float64[np.ndarray, "count t x"]:
        """u at t = j/100 (axis 1) and x = i/100 (axis 2), by ETDRK4, to 1e-9 of max |u|."""
        return burgers_reference.converged(coefficients(self.check(u0)), self.viscosity)

    def companions(self, u0: Any, truth: bool = False) -> dict[str, np.ndarray]:
        return {}

    def coordinates(self, phi: np.ndarray) -> dict[str, np.ndarray]:
        grid = np.linspace(0.0, 1.0, 101)
        return {"sensor": np.linspace(0.0, 1.0, phi.shape[-1]), "t": grid, "x": grid}

    def _initial_values(self, noise: Any) -> Any:
        points = np.linspace(0.0, 1.0, self.sensors)
        return periodic_field(noise, points, self.gamma, self.tau, self.sigma)


def coefficients(u0: Float[AnyArray, "*batch n"]) -> Complex[AnyArray, "*batch modes"]:
    """Fourier coefficients c₀ … c_K of u₀: u₀(x) = c₀ + 2 Re Σ_(k≥1) c_k exp(2πikx).

    The trigonometric interpolant of the values at x = 0, 1/(n−1), …, 1 (the last repeats the
    first).
    """
    xp = namespace(u0)
    distinct = u0.shape[-1] - 1
    waves = rfft(u0[..., :-1]) / distinct
    if distinct % 2:
        return waves
    # The highest wave is seen as a cosine only; half of it stands for each of ±K.
    return xp.concatenate([waves[..., :-1], waves[..., -1:] / 2], axis=-1)


def initial(
    u0: Float[AnyArray, " n"], x: Float[AnyArray, "*points"] | float
) -> Float[AnyArray, "*points"]:
    """u₀(x) anywhere, from its values at sensors: what the reference starts from."""
    xp = namespace(u0, x)
    waves = coefficients(u0)
    angles = 2 * np.pi * xp.asarray(x)[..., None] * np.arange(1, waves.shape[-1])
    tail = xp.cos(angles) @ waves[1:].real - xp.sin(angles) @ waves[1:].imag
    return xp.asarray(waves[0].real + 2 * tail)
