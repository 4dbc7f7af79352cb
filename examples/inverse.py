"""Recovers an unknown φ from noisy sensors: u₀(x) of Burgers, or β(x) of convection.

    python examples/inverse.py burgers
    python examples/inverse.py convection --model runs/convection-hard-quick-0

Sensors measure u at random places and times, not φ. The trained basis is compiled once; then every
guess of φ is one small solve, and its gradient one more. φ is sought as the training φ's mean plus
their principal directions, by the most probable coefficients: least squares on the sensors, in units of
their noise, plus the coefficients' own squares. The curvature at the optimum says how well each place is
known. The truth, a test φ, comes from the reference solver and is used to make the measurements, to
measure the error, and for nothing else.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.interpolate import RegularGridInterpolator
from scipy.optimize import minimize

import pdecl
from pdecl.family import SPLITS
from pdecl.family.experiment import training_phis

matplotlib.use("Agg")
import matplotlib.pyplot as plt

KEPT = 0.99999  # share of the variance of training φ that the principal directions keep


@dataclass(frozen=True)
class Prior:
    """φ = mean + directions · c, with c of mean zero and deviation one over the training φ."""

    mean: np.ndarray
    directions: np.ndarray  # (numbers of φ, coefficients)

    @classmethod
    def of(cls, phis: np.ndarray) -> "Prior":
        mean = phis.mean(axis=0)
        _, sizes, rows = np.linalg.svd(phis - mean, full_matrices=False)
        kept = 1 + int(np.searchsorted(np.cumsum(sizes**2) / np.sum(sizes**2), KEPT))
        return cls(mean, rows[:kept].T * sizes[:kept] / np.sqrt(len(phis) - 1))

    def __call__(self, c: Any) -> Any:
        return self.mean + self.directions @ c


@dataclass(frozen=True)
class Found:
    truth: np.ndarray
    guess: np.ndarray  # what the search starts from: the mean of the training φ
    phi: np.ndarray
    deviation: np.ndarray
    evaluations: int
    seconds: float

    @property
    def error(self) -> float:
        return self._distance(self.phi)

    @property
    def error_of_guess(self) -> float:
        return self._distance(self.guess)

    def _distance(self, phi: np.ndarray) -> float:
        return float(np.linalg.norm(phi - self.truth) / np.linalg.norm(self.truth))


def recover_some(
    trained: Any,
    *,
    sensors: int = 60,
    noise: float = 0.01,
    functions: int | None = None,
    phis: int = 200,
    count: int = 4,
    seed: int = 0,
) -> tuple[Any, Prior, list[Found]]:
    """The compiled solver, the prior, and what became of the first `count` test φ."""
    family = trained.family
    places = np.random.default_rng(seed).uniform(0.02, 0.98, (sensors, 2))
    solver = pdecl.compile(trained, phis=phis, functions=functions, at=places)
    prior = Prior.of(training_phis(trained.experiment))
    results = []
    for number, phi in enumerate(family.sample(SPLITS["test"].seed, count)):
        data = measured(family, phi, places, noise, number)
        results.append(recover(solver, prior, phi, data, noise))
    return solver, prior, results


def recover(solver: Any, prior: Prior, truth: np.ndarray, data: np.ndarray, noise: float) -> Found:
    """The most probable φ for the measurements, by L-BFGS with gradients through the layer."""

    def misfit(c: Any) -> Any:
        return (solver(prior(c)).values - data) / noise

    @jax.jit
    def objective(c: Any) -> Any:
        value = lambda c: 0.5 * jnp.sum(misfit(c) ** 2) + 0.5 * jnp.sum(c**2)
        return jax.value_and_grad(value)(c)

    start = np.zeros(prior.directions.shape[1])
    objective(start)  # compiles
    began = time.perf_counter()
    found = minimize(
        lambda c: [np.asarray(part, float) for part in objective(c)], start, jac=True, method="L-BFGS-B",
        options={"maxiter": 200},
    )  # fmt: skip
    seconds = time.perf_counter() - began
    slopes = np.asarray(jax.jit(jax.jacfwd(misfit))(found.x))
    spread = np.linalg.cholesky(np.linalg.inv(slopes.T @ slopes + np.eye(len(start))))
    deviation = np.linalg.norm(prior.directions @ spread, axis=1)
    return Found(truth, prior(start), np.asarray(prior(found.x)), deviation, found.nfev, seconds)


def measured(family: Any, phi: np.ndarray, places: np.ndarray, noise: float, seed: int) -> np.ndarray:
    """The true u at the sensors, with noise."""
    grids = family.coordinates(phi[None])
    u = RegularGridInterpolator((grids["t"], grids["x"]), family.reference(phi[None])[0], method="cubic")
    exact = u(places[:, ::-1])
    return exact + noise * np.random.default_rng(seed).standard_normal(len(exact))


def main() -> None:
    options = _options()
    jax.config.update("jax_enable_x64", True)
    trained = pdecl.load(options.model or options.problem)
    if trained.family.name == "darcy":
        raise SystemExit(
            "Darcy's ν is a field of two values; this example is for Burgers and convection."
        )
    solver, prior, results = recover_some(
        trained, sensors=options.sensors, noise=options.noise, functions=options.functions,
        phis=options.phis, count=options.count, seed=options.seed,
    )  # fmt: skip
    _print(results, solver, prior, options)
    _draw(results, trained.family, options)


def _print(results: list[Found], solver: Any, prior: Prior, options: argparse.Namespace) -> None:
    table = Table(
        "φ", "error of the guess", "error", "within 2 deviations", "solves with gradient", "ms each"
    )
    for number, one in enumerate(results):
        inside = np.mean(np.abs(one.phi - one.truth) <= 2 * one.deviation)
        table.add_row(
            str(number), f"{one.error_of_guess:.0%}", f"{one.error:.2%}", f"{inside:.0%}",
            str(one.evaluations), f"{1e3 * one.seconds / one.evaluations:.2g}",
        )  # fmt: skip
    console = Console()
    console.print(
        f"{options.sensors} sensors with noise {options.noise}; {solver.functions} functions, "
        f"{solver.rows} rows; {prior.directions.shape[1]} coefficients sought"
    )
    console.print(table)


def _draw(results: list[Found], family: Any, options: argparse.Namespace) -> None:
    shown = results[:4]
    figure, axes = plt.subplots(1, len(shown), figsize=(3.6 * len(shown), 3.2), layout="constrained")
    for axis, one in zip(np.atleast_1d(axes), shown, strict=True):
        x = np.linspace(0, 1, len(one.phi), endpoint=family.name == "convection")
        axis.fill_between(
            x, one.phi - 2 * one.deviation, one.phi + 2 * one.deviation, color="#56B4E9", alpha=0.4,
            linewidth=0, label="± 2 deviations",
        )  # fmt: skip
        axis.plot(x, one.truth, color="black", label="truth")
        axis.plot(x, one.phi, "--", color="#D55E00", label="recovered")
        axis.set(title=f"error {one.error:.2%}", xlabel="x", ylabel=family.phi_name)
    np.atleast_1d(axes)[0].legend(frameon=False)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"inverse-{family.name}.png"
    figure.savefig(path, dpi=130)
    Console().print(f"written {path}", soft_wrap=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("problem", choices=["burgers", "convection"])
    parser.add_argument("--model", help="a run's folder or a file, in place of the shipped basis")
    parser.add_argument("--sensors", type=int, default=60)
    parser.add_argument("--noise", type=float, default=0.01, help="deviation of a measurement")
    parser.add_argument("--functions", type=int, help="combinations to keep; all without it")
    parser.add_argument("--phis", type=int, default=200, help="training φ to compile with")
    parser.add_argument("--count", type=int, default=4, help="test φ to recover")
    parser.add_argument("--seed", type=int, default=0, help="of the sensors' places")
    parser.add_argument("--out", type=Path, default=Path("demo"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
