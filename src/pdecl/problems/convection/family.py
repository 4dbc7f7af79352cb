"""Convection u_t + β(x) u_x = 0 on (0, 1)², u(x, 0) = sin πx, u(0, t) = sin(πt/2); φ is β."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from ...error.record import ErrorBound
from ...family import checks
from ...family.family import Reported, with_counts
from ...family.fields import FieldFamily, squared_exponential_field, squared_exponential_modes
from ...family.preset import Network, Preset, Training
from ...layer.solution import Solution
from ...state.condition import Condition, Fit
from ...state.domain import Box
from ...state.problem import Problem
from ...support.types import Phi
from . import reference
from .bound import NORM, convection_bound
from .carried import Carried
from .spline import slopes, speed


@dataclass(frozen=True)
class Convection(FieldFamily):
    """β = v − min v + 1, v a Gaussian random field with covariance exp(−|x − y|²/(2 length²)).

    φ is β at x = 0, 1/(sensors − 1), …, 1, and the minimum is taken there. Between sensors β is the
    cubic spline through them (`speed`); the reference uses the same.
    """

    length: float = 0.2
    sensors: int = 101

    name = "convection"
    label = "Convection"
    equation = "u_t + beta(x) u_x = 0 on (0,1)^2, u(x,0)=sin(pi x), u(0,t)=sin(pi t/2)"
    heading = r"Convection:  $u_t + \beta(x)\,u_x = 0$"
    phi_name = "beta"
    symbol = "β(x)"
    phi_dims = ("sensor",)
    solution_dims = ("t", "x")
    solve_batch = 4
    fast_batch = 16
    evaluate_batch = 2
    norm = NORM
    presets = ("quick", "paper", "best")
    reported: ClassVar = {
        "hard": Reported(0.0132, 0.0002, 9.84),
        "soft": Reported(0.0259, 0.0015, 774.0),
    }
    companion_words: ClassVar = {"u_box": "the box scheme"}
    usual_names = (("beta", "u"), ("input", "output"), ("a", "u"))

    def __post_init__(self) -> None:
        checks.require_positive_fields(self, "length")
        checks.require_at_least("Convection: sensors", self.sensors, 4, "points")

    def problem(
        self,
        pde: type[Condition] = Fit,
        data_weight: float = 10.0,
        points: int | None = None,
        face_points: int | None = None,
        side: int | None = None,
    ) -> Problem:
        """The PDE as conditions. With `pde=Enforce` its rows hold exactly where there are fewer of them
        than functions, and initial and inflow values are fitted: an equality-constrained QP.

        `points` inside and `face_points` on each face, where the default does not suit; with `side` they
        are nodes of a grid with this many nodes a side.
        """
        box = Box(x=(0, 1), t=(0, 1))
        regions = [box.interior, box.face(t=0), box.face(x=0)]
        inside, bottom, left = with_counts(regions, points, face_points, side)
        conditions = [
            pde(_transport, on=inside, name="equation"),
            Fit(
                lambda u, z, beta: u() - jnp.sin(jnp.pi * z.x),
                on=bottom,
                weight=data_weight,
                name="initial",
            ),
            Fit(
                lambda u, z, beta: u() - jnp.sin(jnp.pi * z.t / 2),
                on=left,
                weight=data_weight,
                name="inflow",
            ),
        ]
        return Problem(box, conditions, parameter=self.draw)

    def front(self) -> Problem:
        """A problem whose solution is zero along the curve that parts what was there from what came in.

        u's slope jumps across that curve, because its initial and inflow data do not fit each other at
        (0, 0). The same equation with data that do, negative below and positive beside, has a smooth
        solution, and its zero level is that curve.
        """
        box = Box(x=(0, 1), t=(0, 1))
        conditions = [
            Fit(_transport, on=box.interior, name="equation"),
            Fit(lambda s, z, beta: s() + z.x, on=box.face(t=0), weight=10.0, name="initial"),
            Fit(lambda s, z, beta: s() - beta[0] * z.t, on=box.face(x=0), weight=10.0, name="inflow"),
        ]
        return Problem(box, conditions, parameter=self.draw)

    @property
    def noise(self) -> tuple[int, ...]:
        return 2, squared_exponential_modes(self.length)

    def from_noise(self, noise: Any) -> Any:
        v = squared_exponential_field(noise, np.linspace(0.0, 1.0, self.sensors), self.length)
        return v - v.min(axis=-1, keepdims=True) + 1

    def check(self, beta: Phi) -> Float64[np.ndarray, "count n"]:
        """β at any number of evenly spaced points with both ends, as a batch in float64."""
        beta = checks.as_batch(beta, "beta", 1, "points along x")
        checks.require_at_least("beta", beta.shape[1], 4, "points")
        checks.require_positive("beta", beta, " (the wave enters at x = 0)")
        between = speed(beta, np.linspace(0.0, 1.0, 8 * (beta.shape[1] - 1) + 1))
        bad = np.flatnonzero((between <= 0).any(axis=1))
        if bad.size:
            raise ValueError(
                f"beta is too rough for its {beta.shape[1]} points: the cubic spline through them "
                f"falls to {between.min():.3g} between points ({checks.numbered(bad)}); give more points"
            )
        return beta

    def companions(self, beta: Phi, truth: bool = False) -> dict[str, np.ndarray]:
        """u_box: the box scheme on the same grid, which published results are measured against."""
        beta = self.check(beta)
        return {"u_box": reference.box_scheme(speed(beta, np.linspace(0.0, 1.0, 101)))}

    def exact(self, beta: np.ndarray, axes: Sequence[np.ndarray]) -> Float64[np.ndarray, "x t"]:
        """By characteristics."""
        return reference.on_axes(beta, np.asarray(slopes(beta)), *axes)

    def bound(self, solution: Solution, **resolution: int) -> ErrorBound:
        return convection_bound(solution, **resolution)

    def further(self, size: int) -> Sequence[Carried]:
        return Carried(16), Carried(64), Carried(192)

    def preset(self, method: str, name: str) -> Preset:
        """Some functions crease where the solution does: along the front that starts at (0, 0), which
        the layer finds first. In "best" they see a code of β too, as those of soft models always do."""
        hard = method == "hard"
        creased = 0.25 if hard else 0.0
        statement: dict = {"data_weight": 10.0}
        loss_statement: dict = {}
        if name == "quick":
            network = Network("MLP" if hard else "Modulated", 128, 128, 3, creased=creased)
            soft = Training(800, 8, 4e-3, single=True, optimiser="muon")
            training = Training(300, 8, 3e-3) if hard else soft
        elif name == "paper":
            if hard:
                network = Network("MLP", 600, 600, 3)
                statement |= {"pde": "Enforce", "points": 500, "face_points": 125}
                loss_statement |= {"points": 166, "face_points": 42}
                # At a rate of 1e-3 it ends higher: 2.63%.
                training = Training(2000, 4, 2e-4, mean="mean")
            else:
                # Of the paper that is cited for it: its network, rate and weight. A thousand points in
                # all.
                network = Network("GatedDeepONet", 600, 100, 7)
                statement |= {"points": 375, "face_points": 62}
                training = Training(
                    100_000, 8, 1e-3, decay=(0.9, 2000), clip=None, mean="mean", single=True
                )
        else:
            # Untrained, 400 functions of which 40% are creased come to 0.27%; 300 with 25%, to 0.45%.
            # For a soft model N hardly matters: the sum of all that its last layer gives is one function
            # of it.
            size, creased = (400, 0.4) if hard else (300, 0.0)
            network = Network("Modulated", size, 512, 4, creased=creased)
            steps, rate, warmup = (3000, 3e-4, 10) if hard else (8000, 2e-3, 50)
            training = Training(steps, 8, rate, warmup=warmup, single=True, optimiser="muon")
        return Preset(network, training, statement, loss_statement)

    def coordinates(self, phi: np.ndarray) -> dict[str, np.ndarray]:
        return super().coordinates(phi) | {"sensor": np.linspace(0.0, 1.0, phi.shape[-1])}


def _transport(u: Any, z: Any, beta: Any) -> Any:
    return u.d("t") + speed(beta, z.x) * u.d("x")
