"""Darcy flow through two materials: −∇·(ν∇u) = 1 on (0, 1)², u = 0 on the boundary; φ is ν."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Float64

from ..problem import Problem
from . import checks, darcy_reference, darcy_statement
from .fields import neumann_field
from .noise import normals


@dataclass(frozen=True)
class Darcy:
    """ν is `high` where a Gaussian random field is ≥ 0 and `low` elsewhere, at grid × grid nodes.

    The field has covariance (−Δ + tau²)^(−power) with zero Neumann conditions and mean zero. Array
    entry [i, j] belongs to the node (x, y) = (i, j)/(grid − 1). Coarser grids are subsamples
    (`darcy_grid.subsample`): 421 gives 211, 141, 106, 85, 71, 61, …
    """

    grid: int = 421
    low: float = 3.0
    high: float = 12.0
    tau: float = 3.0
    power: float = 2.0

    name: ClassVar[str] = "darcy"
    equation: ClassVar[str] = "-div(nu grad u) = 1 on (0,1)^2, u = 0 on the boundary"
    phi_name: ClassVar[str] = "nu"
    phi_dims: ClassVar[tuple[str, ...]] = ("x", "y")
    solution_dims: ClassVar[tuple[str, ...]] = ("x", "y")
    version: ClassVar[int] = 1
    batch: ClassVar[int] = 10

    def __post_init__(self) -> None:
        checks.require_positive_fields(self, "low", "high", "tau", "power")
        checks.require_at_least("Darcy: grid", self.grid, 5, "nodes a side")

    def problem(self, form: str = "energy", walls: bool = True, nodes: int | None = None) -> Problem:
        """The PDE on the nodes of the grid, in one of three forms.

        - "energy": ½ν|∇u|² − u, minimised; for an `ElementBasis`.
        - "conservative": the five-point fluxes at the interior nodes, in least squares.
        - "wide": the central differences of physics-informed FNO code, to reproduce published results.

        `walls=False` leaves u = 0 on the boundary to the basis. With `nodes` u is sought on a coarser
        grid, of so many nodes a side; its energy remembers the ν between them.
        """
        return darcy_statement.problem(self.grid, self.draw, form, walls, nodes)

    def sample(self, seed: int, count: int, start: int = 0) -> Float64[np.ndarray, "count grid grid"]:
        """ν number start … start + count − 1 of a seed; the same on every machine."""
        checks.require_count(count)
        shape = (self.grid, self.grid)
        one = lambda k: self._two_materials(normals(seed, start + k, shape))
        with ThreadPoolExecutor() as threads:  # the generator and the transform let other threads run
            return np.stack(list(threads.map(one, range(count))))

    def draw(self, key: jax.Array) -> Float[Array, "grid grid"]:
        """One ν from a JAX key."""
        return self._two_materials(jr.normal(key, (self.grid, self.grid)))

    def check(self, nu: Any) -> Float64[np.ndarray, "count n n"]:
        """ν on any square grid of nodes, boundary included, as a batch in float64."""
        nu = checks.as_batch(nu, "nu", 2, "nodes along x and y")
        if nu.shape[1] != nu.shape[2]:
            raise ValueError(
                f"nu must be given on a square grid, got {nu.shape[1]} × {nu.shape[2]} nodes; "
                "interpolate it to as many nodes along x as along y"
            )
        checks.require_at_least("nu", nu.shape[1], 5, "nodes a side")
        bad = np.flatnonzero((nu <= 0).any(axis=(1, 2)))
        if bad.size:
            raise ValueError(
                f"nu must be positive everywhere; its smallest value is {nu.min():.6g} "
                f"({checks.numbered(bad)})"
            )
        return nu

    def reference(self, nu: Any) -> Float64[np.ndarray, "count n n"]:
        """The five-point solution with arithmetic face averages, on the grid of ν."""
        return darcy_reference.finite_differences(self.check(nu))

    def companions(self, nu: Any, truth: bool = False) -> dict[str, np.ndarray]:
        """With `truth`: u_truth, the solution for ν constant on the pixel around each node."""
        return {"u_truth": darcy_reference.pixel_truth(self.check(nu))} if truth else {}

    def coordinates(self, phi: np.ndarray) -> dict[str, np.ndarray]:
        nodes = np.linspace(0.0, 1.0, phi.shape[-1])
        return {"x": nodes, "y": nodes}

    def _two_materials(self, noise: Any) -> Any:
        field = neumann_field(noise, self.tau, self.power)
        return self.low + (self.high - self.low) * (field >= 0)
