"""Darcy flow through two materials: −∇·(ν∇u) = 1 on (0, 1)², u = 0 on the boundary; φ is ν."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float64

from ...error.record import ErrorBound
from ...family import checks
from ...family.family import Reported, squares_on, stated
from ...family.fields import FieldFamily, neumann_field, normals
from ...family.preset import Network, Preset, Training
from ...layer.solution import Solution
from ...state.problem import Problem
from ...state.rules import require_count
from ...support.types import Phi
from . import reference, statement
from .bound import NORM, darcy_bound
from .conjugate_gradients import by_conjugate_gradients
from .grid import MOST_NODES, features


@dataclass(frozen=True)
class Darcy(FieldFamily):
    """ν is `high` where a Gaussian random field is ≥ 0 and `low` elsewhere, at grid × grid nodes.

    The field has covariance (−Δ + tau²)^(−power) with zero Neumann conditions and mean zero. Array
    entry [i, j] belongs to the node (x, y) = (i, j)/(grid − 1). Coarser grids are subsamples
    (`subsample`): 421 gives 211, 141, 106, 85, 71, 61, …
    """

    grid: int = 421
    low: float = 3.0
    high: float = 12.0
    tau: float = 3.0
    power: float = 2.0

    name = "darcy"
    label = "Darcy"
    equation = "-div(nu grad u) = 1 on (0,1)^2, u = 0 on the boundary"
    heading = r"Darcy:  $-\nabla\cdot(\nu\nabla u) = 1$,  $u = 0$ on the boundary"
    phi_name = "nu"
    symbol = "ν(x, y)"
    phi_dims = ("x", "y")
    solution_dims = ("x", "y")
    reference_batch = 10
    solve_batch = 1
    fast_batch = 1
    evaluate_batch = 1
    on_grid = True
    norm = NORM
    presets = ("quick", "paper", "best")
    reported: ClassVar = {
        "hard": Reported(0.0182, 0.0004, 0.0457),
        "soft": Reported(0.0386, 0.003, 1.1355),
    }
    companion_words: ClassVar = {"u_truth": "the pixel truth"}
    usual_names = (("coeff", "sol"), ("nu", "u"), ("a", "u"), ("x", "y"), ("input", "output"))

    def __post_init__(self) -> None:
        checks.require_positive_fields(self, "low", "high", "tau", "power")
        checks.require_at_least("Darcy: grid", self.grid, 5, "nodes a side")

    def problem(self, form: str = "energy", walls: bool = True, nodes: int | None = None) -> Problem:
        """The PDE on the nodes of the grid, in one of three forms.

        - "energy": ½ν|∇u|² − u, minimised; for an `ElementBasis`.
        - "conservative": the five-point fluxes at the interior nodes, in least squares.
        - "wide": the central differences of physics-informed FNO code, to reproduce published results.

        `walls=False` leaves u = 0 on the boundary to the basis. With `nodes` u is sought on a coarser
        grid, of this many nodes a side; its energy remembers the ν between them.
        """
        return statement.problem(self.grid, self.draw, form, walls, nodes)

    def sample(self, seed: int, count: int, start: int = 0) -> Float64[np.ndarray, "count grid grid"]:
        """ν number start … start + count − 1 of a seed; the same on every machine."""
        require_count("count", count)
        one = lambda k: self.from_noise(normals(seed, start + k, self.noise))
        with ThreadPoolExecutor() as threads:  # the generator and the transform let other threads run
            return np.stack(list(threads.map(one, range(count))))

    def check(self, nu: Phi) -> Float64[np.ndarray, "count n n"]:
        """ν on any square grid of nodes, boundary included, as a batch in float64."""
        nu = checks.as_batch(nu, "nu", 2, "nodes along x and y")
        if nu.shape[1] != nu.shape[2]:
            raise ValueError(
                f"nu must be given on a square grid, got {nu.shape[1]} × {nu.shape[2]} nodes; "
                "interpolate it to as many nodes along x as along y"
            )
        checks.require_at_least("nu", nu.shape[1], 5, "nodes a side")
        checks.require_positive("nu", nu)
        return nu

    def reference(self, nu: Phi) -> Float64[np.ndarray, "count n n"]:
        """The five-point solution with arithmetic face averages, on the grid of ν."""
        return reference.finite_differences(self.check(nu))

    def companions(self, nu: Phi, truth: bool = False) -> dict[str, np.ndarray]:
        """With `truth`: u_truth, the solution for ν constant on the pixel around each node."""
        return {"u_truth": reference.pixel_truth(self.check(nu))} if truth else {}

    def coordinates(self, phi: np.ndarray) -> dict[str, np.ndarray]:
        nodes = np.linspace(0.0, 1.0, phi.shape[-1])
        return {"x": nodes, "y": nodes}

    def residual_on(self, solution: Solution, nodes: Sequence[int]) -> np.ndarray:
        """Of the five-point fluxes at the interior nodes of the grid of ν."""
        family = replace(self, grid=solution.phi.shape[-1])
        problem = stated(family, form="conservative", walls=False)
        return squares_on(solution, problem, tuple(problem.sets()), problem.names())

    def bound(self, solution: Solution, **resolution: int) -> ErrorBound:
        return darcy_bound(solution, **resolution)

    def polish(self, solution: Solution, tolerance: float) -> Solution:
        """By conjugate gradients; the answer is a function on the grid of ν."""
        return by_conjugate_gradients(solution, tolerance)

    def preset(self, method: str, name: str) -> Preset:
        """A Fourier neural operator of ν proposes the functions; they vanish on the boundary.

        The sum of N functions that a last layer makes is one function of that layer, so the soft model
        is the same network with N = 1, and u's usual size as a factor. Products with polynomials are for
        the layer, which weighs each by itself; and a soft model that sees the slopes ends at 1.48%
        instead of 0.88% ("best", H200, 6000 steps).
        """
        hard = method == "hard"
        functions = lambda count: count if hard else 1
        scale: dict = {} if hard else {"gain": 0.02}
        products = lambda degree: {"slopes": True, "degree": degree} if hard else scale
        statement = {"form": "energy", "walls": False}
        if name == "quick":
            options = {"modes": 12, "local": 3, **products(5)}
            network = Network("FNO", functions(63), 24, 3, options, wall=True)
            soft = Training(1500, 2, 1e-2, phis=200, metrics_phis=3, optimiser="muon")
            training = Training(300, 2, 4e-3, phis=200, metrics_phis=3) if hard else soft
            grid = 61
        elif name == "paper":
            # With more functions than nodes the layer is the finite-difference solve, whatever the
            # network is, so a few small steps do. (At a rate of 1e-3 the error rose from 0.87% to
            # 0.94%.) A Gram matrix of functions so nearly dependent ends 2e-4 from that solve, QR of the
            # rows 4e-9.
            options = {"modes": 20, "factorised": False, "hidden": 4000 if hard else 128, **scale}
            network = Network("FNO", functions(4000), 64, 4, options, wall=True)
            exact = Training(5, 1, 1e-5, metrics_phis=1, solver="QR", ridge=1e-20)
            training = exact if hard else Training(4000, 2, 2e-3, metrics_phis=3)
            grid = 61
        else:
            options = {"modes": 24, "local": 3, **products(8)}
            network = Network("FNO", functions(270), 48, 5, options, wall=True)
            soft = Training(6000, 1, 5e-3, single=True, metrics_phis=3, optimiser="muon")
            training = Training(6000, 1, 2e-3, single=True, metrics_phis=3) if hard else soft
            grid = 421
        return Preset(network, training, statement, grid=grid)

    def features(self, nu: np.ndarray) -> np.ndarray:
        return features(nu, self.low, self.high)

    def cheaper(self) -> "Darcy":
        """Means over cells hardly depend on how fine ν is."""
        return replace(self, grid=min(self.grid, MOST_NODES))

    def adopt(self, nu: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nu, u = _without_channel(nu), _without_channel(u)
        if nu.shape != u.shape:
            raise ValueError(f"ν and u must be on one grid, got shapes {nu.shape} and {u.shape}")
        edge = max(np.abs(side).max() for side in (u[:, 0], u[:, -1], u[:, :, 0], u[:, :, -1]))
        if edge > 1e-6 * np.abs(u).max():
            raise ValueError(
                f"u is {edge:.3g} on the outermost nodes, where it should be 0; data on cell centres "
                "(without the boundary) cannot be used as nodes"
            )
        return nu, u

    @property
    def noise(self) -> tuple[int, ...]:
        return self.grid, self.grid

    def from_noise(self, noise: Any) -> Any:
        field = neumann_field(noise, self.tau, self.power)
        return self.low + (self.high - self.low) * (field >= 0)


def _without_channel(values: np.ndarray) -> np.ndarray:
    """(φ, 1, n, n) and (φ, n, n, 1) are (φ, n, n)."""
    if values.ndim == 4 and 1 in (values.shape[1], values.shape[3]):
        return values[:, 0] if values.shape[1] == 1 else values[..., 0]
    return values
