"""Burgers' equation u_t + ½(u²)_x = ν u_xx, periodic on (0, 1), t in (0, 1); φ is u₀ at sensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float64

from ...error.record import ErrorBound
from ...family import checks
from ...family.family import Reported, with_counts
from ...family.fields import FieldFamily, periodic_field
from ...family.preset import Network, Preset, Training
from ...layer.solution import Solution
from ...state.condition import Fit
from ...state.domain import Box
from ...state.problem import Problem
from ...support.types import Phi
from . import reference
from .bound import NORM, burgers_bound
from .interpolant import coefficients, initial
from .waves import Waves

_PERIODIC_GAP = 1e-6


@dataclass(frozen=True)
class Burgers(FieldFamily):
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

    name = "burgers"
    label = "Burgers"
    equation = "u_t + (u^2/2)_x = viscosity u_xx, periodic on (0,1), t in (0,1)"
    phi_name = "u0"
    symbol = "u₀(x)"
    phi_dims = ("sensor",)
    solution_dims = ("t", "x")
    fast_batch = 128
    norm = NORM
    presets = ("quick", "paper", "best")
    reported: ClassVar = {"hard": Reported(0.0111, 0.0011), "soft": Reported(0.0434, 0.0033)}
    usual_names = (("input", "output"), ("a", "u"), ("u0", "u"))

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
        seam_weight: float | None = None,
        side: int | None = None,
    ) -> Problem:
        """The PDE as conditions, in least squares.

        `data_weight` is that of the initial condition, and of the periodic ones if they have no
        `seam_weight`; `seam=False` leaves periodicity to the basis. `points` inside and `face_points` on
        each face, where the default does not suit; with `side` they are nodes of a grid with this many
        nodes a side.
        """
        box = Box(x=(0, 1), t=(0, 1))
        pde = lambda u, z, u0: u.d("t") + u() * u.d("x") - self.viscosity * u.d("x", "x")
        start = lambda u, z, u0: u() - initial(u0, z.x)
        joined = lambda u, z, u0: (u() - u.at("opposite")(), u.d("x") - u.at("opposite").d("x"))
        faces = [box.face(t=0), box.periodic("x")] if seam else [box.face(t=0)]
        inside, *faces = with_counts([box.interior, *faces], points, face_points, side)
        conditions = [
            Fit(pde, on=inside, name="equation"),
            Fit(start, on=faces[0], weight=data_weight, name="initial"),
        ]
        if seam:
            weight = data_weight if seam_weight is None else seam_weight
            conditions.append(Fit(joined, on=faces[1], weight=weight, name="periodic"))
        return Problem(box, conditions, parameter=self.draw)

    @property
    def noise(self) -> tuple[int, ...]:
        return 2, self.modes

    def from_noise(self, noise: Any) -> Any:
        points = np.linspace(0.0, 1.0, self.sensors)
        return periodic_field(noise, points, self.gamma, self.tau, self.sigma)

    def check(self, u0: Phi) -> Float64[np.ndarray, "count n"]:
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

    def reference(self, u0: Phi) -> Float64[np.ndarray, "count t x"]:
        """u at t = j/100 (axis 1) and x = i/100 (axis 2), by ETDRK4, to 1e-9 of max |u|."""
        return reference.converged(coefficients(self.check(u0)), self.viscosity)

    def exact(self, u0: np.ndarray, axes: Sequence[np.ndarray]) -> Float64[np.ndarray, "x t"]:
        """By the Cole–Hopf transformation; a ValueError where viscosity is too small for it."""
        return reference.on_axes(u0, self.viscosity, *axes)

    def bound(self, solution: Solution, **resolution: int) -> ErrorBound:
        return burgers_bound(solution, self.viscosity, **resolution)

    def further(self, size: int) -> Sequence[Waves]:
        return Waves(8, 8), Waves(16, 12), Waves(32, 16)

    def preset(self, method: str, name: str) -> Preset:
        """The functions see (x, t) alone; the soft model is the same network with a branch of u₀."""
        hard = method == "hard"
        kind = "MLP" if hard else "DeepONet"
        statement: dict = {"seam": False, "data_weight": 20.0}
        loss_statement: dict = {}
        if name == "quick":
            network = Network(kind, 128, 128, 3, periodic=("x", 1))
            soft = Training(2500, 8, 4e-3, optimiser="muon")
            training = Training(400, 8, 1e-3) if hard else soft
        elif name == "paper":
            # From the authors' code. Their layer's rows are sums, ours are means: hence weights that are
            # shares of 600 points. Their loss has other weights, 300 for what the boundary leaves.
            size, options = (50, {}) if hard else (100, {"branch_depth": 5})
            network = Network(kind, size, 100, 4, options)
            statement = {"points": 600, "face_points": 101, "side": 101}
            statement |= {"data_weight": 20.0**2 * 101 / 600, "seam_weight": 101 / 600}
            loss_statement = {"points": 300, "data_weight": 300.0 * 20, "seam_weight": 300.0}
            if not hard:
                # A soft model sees all points, the two halves of 900, and the loss alone.
                statement, loss_statement = {**statement, **loss_statement, "points": 450}, {}
            plan: dict = {"decay": (0.9, 2000), "clip": None, "restarts": 0, "ridge": 1e-9}
            training = Training(100_000, 4, 1e-3, mean="mean", single=True, **plan)
        else:
            network = Network(kind, 400, 512, 4, periodic=("x", 3))
            statement |= {"points": 1200}
            # At width 64 Muon brought the soft model to a third of Adam's error.
            soft = Training(5000, 32, 2e-3, optimiser="muon")
            training = Training(3000, 32, 1e-3) if hard else soft
        return Preset(network, training, statement, loss_statement)

    def adopt(self, u0: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Data that stop one point before x = 1 get the first value there."""
        if u0.ndim != 2:
            raise ValueError(f"u0 must have the axes (φ, x), got shape {u0.shape}")
        gap = np.abs(u0[:, 0] - u0[:, -1]).max()
        if gap <= _PERIODIC_GAP * np.abs(u0).max():
            return u0, u
        step = np.abs(np.diff(u0, axis=1)).max()
        if gap > 3 * step:
            raise ValueError(
                f"u0 does not look periodic: from its last point to its first it jumps by "
                f"{gap:.3g}, while neighbours differ by {step:.3g} at most"
            )
        close = lambda values: np.concatenate([values, values[..., :1]], axis=-1)
        return close(u0), close(u)

    @property
    def heading(self) -> str:
        return rf"Burgers:  $u_t + (u^2/2)_x = {self.viscosity}\,u_{{xx}}$,  periodic"

    def coordinates(self, phi: np.ndarray) -> dict[str, np.ndarray]:
        return super().coordinates(phi) | {"sensor": np.linspace(0.0, 1.0, phi.shape[-1])}
