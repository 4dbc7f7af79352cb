"""Error against time for the reference solvers: the table that inference is measured against.

    python benchmarks/reference.py                 all three problems, a few minutes on a CPU
    python benchmarks/reference.py burgers --quick

Times are per φ, warm, the best of a few runs, with the full output grid: by the clock, and the
CPU time of this process, which is the better figure for CPU rows on a machine that others use
too. NumPy rows use the CPU; JAX rows run on JAX's default device, which on a machine with a GPU
is the GPU. Errors are relative L2, mean over the test φ, against a solution better than any row
of the table.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from fast_solvers import (
    box_on_jax,
    characteristics,
    cole_hopf,
    cole_hopf_jax,
    conjugate_gradients,
    etdrk4,
    tabulated_characteristics,
)
from rich.console import Console
from rich.table import Table

from pdecl.family import SPLITS
from pdecl.family.metrics import relative_l2
from pdecl.problems import Burgers, Convection, Darcy
from pdecl.problems import burgers as burgers_law
from pdecl.problems import convection as convection_law
from pdecl.problems.burgers import reference
from pdecl.problems.convection.reference import box_scheme
from pdecl.problems.darcy.grid import face_coefficients, subsample, upscaled_faces
from pdecl.problems.darcy.reference import finite_differences, from_faces, pixel_elements, pixel_truth

SEED = SPLITS["test"].seed


@dataclass(frozen=True)
class Row:
    problem: str
    method: str
    resolution: str
    device: str
    batch: int
    milliseconds: float
    cpu_milliseconds: float
    error: float
    worst: float
    beside: float | None = None  # Darcy: the error against the published kind of target


def main() -> None:
    options = _options()
    jax.config.update("jax_enable_x64", True)
    for problem in options.problems or list(TABLES):
        rows = list(TABLES[problem](options))
        _print(problem, rows)
        if options.out:
            _save(Path(options.out), problem, rows)


def darcy(options: argparse.Namespace) -> Iterator[Row]:
    """Errors against the pixel truth; `beside` against 421 × 421 with arithmetic averages."""
    count = 2 if options.quick else options.darcy_count
    nu = Darcy().sample(SEED, count)
    truth, published = pixel_truth(nu), finite_differences(nu)

    def row(method: str, nodes: int, device: str, took: Took, u: np.ndarray) -> Row:
        batch = len(u)
        to_truth = relative_l2(u, subsample(truth[:batch], nodes))
        to_published = relative_l2(u, subsample(published[:batch], nodes))
        return Row(
            "darcy",
            method,
            f"{nodes}²",
            device,
            batch,
            1e3 * took.wall / batch,
            1e3 * took.cpu / batch,
            float(to_truth.mean()),
            float(to_truth.max()),
            float(to_published.mean()),
        )

    for nodes in (61, 85, 141, 211, 421):
        coarse = np.ascontiguousarray(subsample(nu, nodes))
        for average in ("arithmetic", "harmonic"):
            solve = partial(finite_differences, coarse, average, 1e-6)
            took, u = _timed(solve)
            yield row(f"five-point, {average}: DST-CG (NumPy)", nodes, "cpu", took, u)
        steps = 12
        solve = _on_jax(conjugate_gradients, coarse, steps)
        took, u = _timed(solve)
        yield row(f"five-point: {steps} steps of DST-CG (JAX)", nodes, DEVICE, took, u)
        single = _on_jax(conjugate_gradients, coarse.astype(np.float32), steps)
        took, u = _timed(single)
        yield row(f"five-point: {steps} steps, float32 (JAX)", nodes, DEVICE, took, u)
        if nodes <= 141 or options.slow:
            took, u = _timed(partial(_sparse, coarse, _superlu), runs=1)
            yield row("five-point: SuperLU (SciPy)", nodes, "cpu", took, u)
        amg = _multigrid()
        if amg is not None:
            took, u = _timed(partial(_sparse, coarse[:4], amg), runs=1)
            yield row("five-point: algebraic multigrid (pyamg)", nodes, "cpu", took, u)
        if nodes < nu.shape[-1]:
            took, u = _timed(partial(_upscaled, nu, nodes))
            yield row("five-point, upscaled ν: DST-CG (NumPy)", nodes, "cpu", took, u)
    for refine in (2, 4):
        took, u = _timed(partial(pixel_elements, nu, refine, 1e-5), runs=1)
        name = f"pixel Q1 on {420 * refine + 1}²: DST-CG (NumPy)"
        yield row(name, 421, "cpu", took, u)


def burgers(options: argparse.Namespace) -> Iterator[Row]:
    """Errors against the Cole–Hopf formula with 1024 points."""
    family = Burgers()
    count = 10 if options.quick else 50
    waves = burgers_law.coefficients(family.sample(SEED, count))
    exact = cole_hopf(waves, family.viscosity)
    many = burgers_law.coefficients(family.sample(SPLITS["train"].seed, options.batch))

    def row(method: str, resolution: str, device: str, batch: int, took: Took, u: np.ndarray) -> Row:
        error = relative_l2(u, exact)
        return Row(
            "burgers",
            method,
            resolution,
            device,
            batch,
            1e3 * took.wall / batch,
            1e3 * took.cpu / batch,
            float(error.mean()),
            float(error.max()),
        )

    grids = ((64, 10), (64, 25), (64, 50), (128, 100), (256, 200), (256, 800))
    for points, steps in grids:
        name = f"{points} points, {steps} steps"
        plan = {"viscosity": family.viscosity, "points": points, "steps": steps}
        if steps >= 100:
            took, u = _timed(partial(reference.etdrk4, waves, **plan))
            yield row("ETDRK4 (NumPy)", name, "cpu", count, took, u)
        solve = partial(etdrk4, **plan)
        for label, kind in (("float64", np.complex128), ("float32", np.complex64)):
            u = np.asarray(_on_jax(solve, waves.astype(kind))())
            took, _ = _timed(_on_jax(solve, many.astype(kind)))
            yield row(f"ETDRK4, {label} (JAX)", name, DEVICE, len(many), took, u)
    for points in (64, 128, 256):
        name = f"{points} points"
        took, u = _timed(partial(cole_hopf, waves, family.viscosity, points))
        yield row("Cole–Hopf formula (NumPy)", name, "cpu", count, took, u)
        u = np.asarray(_on_jax(cole_hopf_jax, waves, family.viscosity, points)())
        took, _ = _timed(_on_jax(cole_hopf_jax, many, family.viscosity, points))
        yield row("Cole–Hopf formula (JAX)", name, DEVICE, len(many), took, u)


def convection(options: argparse.Namespace) -> Iterator[Row]:
    """Errors against characteristics polished to rounding."""
    family = Convection()
    count = 10 if options.quick else 50
    beta = family.sample(SEED, count)
    exact = family.reference(beta)
    many = family.sample(SPLITS["train"].seed, options.batch)

    def row(method: str, resolution: str, device: str, batch: int, took: Took, u: np.ndarray) -> Row:
        stride = (u.shape[-1] - 1) // 100
        error = relative_l2(u[:, ::stride, ::stride], exact)
        return Row(
            "convection",
            method,
            resolution,
            device,
            batch,
            1e3 * took.wall / batch,
            1e3 * took.cpu / batch,
            float(error.mean()),
            float(error.max()),
        )

    for nodes in (101, 201, 401):
        at_nodes = convection_law.speed(beta, np.linspace(0, 1, nodes))
        took, u = _timed(partial(box_scheme, at_nodes))
        yield row("box scheme (NumPy)", f"{nodes}²", "cpu", count, took, u)
        took, u = _timed(_on_jax(box_on_jax, at_nodes))
        yield row("box scheme (JAX)", f"{nodes}²", DEVICE, count, took, u)
    ways = [("tabulated", f"{cells} cells", partial(_tabulated, cells=cells)) for cells in (16, 128)]
    ways += [
        ("characteristics", f"{polish} Newton steps", partial(_characteristics, polish=polish))
        for polish in (0, 2)
    ]
    for method, name, solve in ways:
        took, u = _timed(partial(solve, beta))
        yield row(f"{method} (NumPy)", name, "cpu", count, took, u)
        for label, kind in (("float64", np.float64), ("float32", np.float32)):
            u = np.asarray(_on_jax(solve, beta.astype(kind))())
            took, _ = _timed(_on_jax(solve, many.astype(kind)))
            yield row(f"{method}, {label} (JAX)", name, DEVICE, len(many), took, u)


TABLES = {"darcy": darcy, "burgers": burgers, "convection": convection}
DEVICE = jax.default_backend()


def _upscaled(nu: np.ndarray, nodes: int) -> np.ndarray:
    return np.stack([from_faces(upscaled_faces(one, nodes), 1e-6) for one in nu])


def _tabulated(beta: np.ndarray, cells: int) -> np.ndarray:
    return tabulated_characteristics(beta, convection_law.slopes(beta), cells)


def _characteristics(beta: np.ndarray, polish: int) -> np.ndarray:
    return characteristics(beta, convection_law.slopes(beta), polish)


def _on_jax(solve: Callable, values: np.ndarray, *rest: object) -> Callable[[], jax.Array]:
    """The solve on JAX's device; the input is already there, so no copy is timed."""
    there = jax.block_until_ready(jnp.asarray(values))
    return lambda: jax.block_until_ready(solve(there, *rest))


class Took(NamedTuple):
    wall: float
    cpu: float


def _timed(solve: Callable[[], np.ndarray], runs: int = 5) -> tuple[Took, np.ndarray]:
    """The best of a few warm runs (fewer when slow), and the result in float64."""
    if runs > 1:
        solve()
    wall, cpu, began = [], [], time.perf_counter()
    while len(wall) < runs and time.perf_counter() - began < 10:
        start, start_cpu = time.perf_counter(), time.process_time()
        result = solve()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - start_cpu)
    return Took(min(wall), min(cpu)), np.asarray(result, dtype=np.float64)


def _sparse(nu: np.ndarray, solver: Callable) -> np.ndarray:
    return np.stack([np.pad(solver(_matrix(one)).reshape(len(one) - 2, -1), 1) for one in nu])


def _matrix(nu: np.ndarray) -> scipy.sparse.csr_matrix:
    """The five-point scheme with arithmetic averages as a sparse matrix, times h²."""
    across_x, across_y = face_coefficients(nu)
    diagonal = across_x[1:] + across_x[:-1] + across_y[:, 1:] + across_y[:, :-1]
    beside = across_y[:, 1:].copy()
    beside[:, -1] = 0
    below, right = -across_x[1:-1].ravel(), -beside.ravel()[:-1]
    return scipy.sparse.diags(
        [diagonal.ravel(), below, below, right, right],
        [0, len(nu) - 2, 2 - len(nu), 1, -1],
        format="csr",
    )


def _superlu(matrix: scipy.sparse.csr_matrix) -> np.ndarray:
    from scipy.sparse.linalg import spsolve

    return spsolve(matrix.tocsc(), _load(matrix))


def _multigrid() -> Callable | None:
    try:
        from pyamg import ruge_stuben_solver
    except ImportError:
        return None

    def solve(matrix: scipy.sparse.csr_matrix) -> np.ndarray:
        return ruge_stuben_solver(matrix).solve(_load(matrix), tol=1e-6, accel="cg")

    return solve


def _load(matrix: scipy.sparse.csr_matrix) -> np.ndarray:
    side = round(matrix.shape[0] ** 0.5)
    return np.full(side * side, (side + 1.0) ** -2)


def _print(problem: str, rows: list[Row]) -> None:
    table = Table(title=f"{problem}: error against time for one φ", title_justify="left")
    headings = ["method", "resolution", "on", "batch", "ms / φ", "CPU ms / φ", "mean error", "max error"]
    if problem == "darcy":
        headings.append("from 421² arithmetic")
    for heading in headings:
        left = heading in ("method", "resolution", "on")
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    for row in rows:
        cells = [row.method, row.resolution, row.device, str(row.batch), f"{row.milliseconds:.3g}"]
        cells.append(f"{row.cpu_milliseconds:.3g}")
        cells += [f"{100 * row.error:.2g}%", f"{100 * row.worst:.2g}%"]
        if row.beside is not None:
            cells.append(f"{100 * row.beside:.2g}%")
        table.add_row(*cells)
    Console(width=140).print(table)


def _save(path: Path, problem: str, rows: list[Row]) -> None:
    """Put a problem's table into the file, with the machine it was measured on; keep the others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = json.loads(path.read_text()) if path.exists() else {}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = {
        "jax": jax.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        "device": jax.devices()[0].device_kind,
        "cores": cores,
    }
    tables[problem] = {"machine": machine, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(tables, indent=1, ensure_ascii=False) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", choices=[[], *TABLES], help="default: all three")
    parser.add_argument("--quick", action="store_true", help="few φ: to see that it works")
    parser.add_argument("--slow", action="store_true", help="SuperLU on the largest grids too")
    parser.add_argument("--darcy-count", type=int, default=50, help="test φ for Darcy (50)")
    parser.add_argument("--batch", type=int, default=200, help="φ at once in JAX rows (200)")
    parser.add_argument("--out", help="write the rows here as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
