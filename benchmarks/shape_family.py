"""A family of shapes: a channel with two pipes that φ moves and resizes, and the heat they give.

    python benchmarks/shape_family.py         two minutes on two cores

Δu = 0 in [0, 2] × [0, 1] less two discs at u = 1; the walls are cooled, u_n = −u. φ are the centres and
radii. Functions are box polynomials and, around each pipe, log r and r^−k cos kθ, r^−k sin kθ, which
move with it. Measured: errors of 50 geometries against solves to 1e-5 on each; seconds for all of them
in one compiled program; the gradient of the variance of u along the top with respect to the geometry
against differences; that variance made small by it. Results go to results/shape_family.json and .md.
"""

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.optimize import minimize

import pdecl
from pdecl import Fit, Problem
from pdecl.shapes import Disk, MovingDomain, Rectangle

RESULTS = Path(__file__).parent / "results"
GEOMETRIES, DEGREE, AROUND = 50, 14, 8
WIDTH, HEIGHT = 2.0, 1.0
REFERENCE = {"at": jnp.array([[0.55, 0.5], [1.45, 0.5]]), "r": jnp.array([0.15, 0.15])}


def channel(phi: Any) -> Any:
    shape = Rectangle((0, 0), (WIDTH, HEIGHT))
    for at, r in zip(phi["at"], phi["r"], strict=True):
        shape = shape - Disk(at, r)
    return shape


def geometry(key: Any) -> dict[str, Any]:
    where, size = jr.split(key)
    shift = jr.uniform(where, (2, 2), minval=-1.0) * jnp.array([0.2, 0.15])
    return {"at": REFERENCE["at"] + shift, "r": jr.uniform(size, (2,), minval=0.08, maxval=0.22)}


DOMAIN = MovingDomain(channel, reference=REFERENCE)
PROBLEM = Problem(
    DOMAIN,
    [
        Fit(lambda u, z, phi: u.d("x", "x") + u.d("y", "y"), on=DOMAIN.interior),
        Fit(lambda u, z, phi: u.dn() + u(), on=DOMAIN.boundary("outer")),
        Fit(lambda u, z, phi: u() - 1, on=DOMAIN.boundary("holes")),
    ],
    parameter=geometry,
)


def basis(x: Any, phi: Any) -> Any:
    lines = [_chebyshev(2 * x[i] / length - 1) for i, length in enumerate((WIDTH, HEIGHT))]
    low = np.add.outer(np.arange(DEGREE + 1), np.arange(DEGREE + 1)) <= DEGREE
    parts = [jnp.outer(*lines)[np.nonzero(low)]]
    for at, r in zip(phi["at"], phi["r"], strict=True):
        w = r / ((x[0] - at[0]) + 1j * (x[1] - at[1]))
        powers = w ** jnp.arange(1, AROUND + 1)
        parts += [jnp.log(jnp.abs(w))[None], powers.real, powers.imag]
    return jnp.concatenate(parts)


def _chebyshev(s: Any) -> Any:
    values = [jnp.ones_like(s), s]
    for _ in range(DEGREE - 1):
        values.append(2 * s * values[-1] - values[-2])
    return jnp.stack(values)


TOP = jnp.stack([jnp.linspace(0.02, WIDTH - 0.02, 50), jnp.full(50, HEIGHT)], axis=1)


def solved(phi: Any) -> Any:
    return pdecl.solve(PROBLEM, basis, phi, throw=False, residual_limit=None)


def unevenness(phi: Any) -> Any:
    """The variance of u along the top beside its mean square."""
    u = solved(phi)(TOP)
    return jnp.var(u) / jnp.mean(u) ** 2


def errors(phis: Any) -> tuple[np.ndarray, list[float]]:
    """Of each geometry, against a solve to 1e-5 on it; and that one's seconds."""
    wrong, seconds = [], []
    at = jax.jit(lambda phi, x: solved(phi)(x))
    for i in range(GEOMETRIES):
        phi = jax.tree.map(lambda a, i=i: a[i], phis)
        fine = pdecl.solve(PROBLEM, phi, tolerance=1e-5, progress=False)
        shape = fine.problem.domain.shape
        x = np.random.default_rng(i).uniform((0, 0), (WIDTH, HEIGHT), (1000, 2))
        x = np.where(shape.distance(x)[:, None] < 0, x, [0.01, 0.01])
        there = fine.at(x, ())["u"]
        wrong.append(np.linalg.norm(np.asarray(at(phi, x)) - there) / np.linalg.norm(there))
        seconds.append(fine.seconds)
    return np.array(wrong), seconds


def microseconds(phis: Any) -> float:
    """For a geometry of a batch: all weights, and u along the top."""
    batch = jax.jit(jax.vmap(lambda phi: solved(phi)(TOP)))
    jax.block_until_ready(batch(phis))
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        jax.block_until_ready(batch(phis))
        times.append(time.perf_counter() - begun)
    return 1e6 * min(times) / GEOMETRIES


def gradient_error(phi: Any) -> float:
    """Of jax.grad against central differences, relative."""
    flat, back = jax.flatten_util.ravel_pytree(phi)
    f = jax.jit(lambda x: unevenness(back(x)))
    slope, step = jax.jit(jax.grad(f))(flat), 1e-5
    differences = [(f(flat + step * e) - f(flat - step * e)) / (2 * step) for e in np.eye(len(flat))]
    return float(jnp.linalg.norm(slope - jnp.array(differences)) / jnp.linalg.norm(slope))


def optimised() -> dict[str, Any]:
    """The most even temperature along the top that the two pipes can give."""
    flat, back = jax.flatten_util.ravel_pytree(REFERENCE)
    both = jax.jit(jax.value_and_grad(lambda x: unevenness(back(x))))
    low = np.array([0.35, 0.35, 1.25, 0.35, 0.08, 0.08])
    high = np.array([0.75, 0.65, 1.65, 0.65, 0.22, 0.22])
    steps: list[float] = []
    call = lambda x: tuple(np.asarray(part, float) for part in both(x))
    begun = time.perf_counter()
    found = minimize(
        call, np.asarray(flat), jac=True, bounds=list(zip(low, high, strict=True)),
        callback=lambda x: steps.append(0.0), options={"maxiter": 40},
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    best = back(jnp.asarray(found.x))
    fine = pdecl.solve(PROBLEM, best, tolerance=1e-5, progress=False)
    u = np.asarray(fine(TOP))
    return {
        "before": float(both(flat)[0]),
        "after": float(found.fun),
        "after_by_solve_to_1e-5": float(np.var(u) / np.mean(u) ** 2),
        "steps": len(steps),
        "evaluations": int(found.nfev),
        "seconds": seconds,
        "phi": [round(float(x), 4) for x in found.x],
    }


def page(r: dict[str, Any]) -> str:
    best = r["optimum"]
    rows = {
        "relative L2 error, mean (most)": f"{r['mean_error']:.1e} ({r['max_error']:.1e})",
        "microseconds a geometry, in one compiled batch": f"{r['microseconds']:.0f}",
        "a solve to 1e-5 on one geometry, seconds": f"{r['seconds_of_one_solve']:.2f}",
        "gradient with respect to φ against differences": f"{r['gradient_error']:.1e}",
        "unevenness along the top before": f"{best['before']:.2e}",
        f"after {best['evaluations']} gradients": f"{best['after']:.2e}",
        "the same by a solve to 1e-5 on the best shape": f"{best['after_by_solve_to_1e-5']:.2e}",
        "seconds of the optimisation, with compilation": f"{best['seconds']:.1f}",
    }
    lines = [
        "# A family of shapes",
        "",
        f"`python benchmarks/shape_family.py` on {r['machine']}: a channel with two pipes that φ moves "
        f"and resizes, {GEOMETRIES} geometries, {r['functions']} functions.",
        "",
        "| measured | |",
        "| --- | --- |",
        *(f"| {name} | {value} |" for name, value in rows.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    phis = jax.vmap(geometry)(jr.split(jr.key(1), GEOMETRIES))
    wrong, seconds = errors(phis)
    results = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "load": os.getloadavg()[0],
        "functions": int(basis(jnp.ones(2), REFERENCE).size),
        "mean_error": float(wrong.mean()),
        "max_error": float(wrong.max()),
        "seconds_of_one_solve": float(np.median(seconds)),
        "microseconds": microseconds(phis),
        "gradient_error": gradient_error(jax.tree.map(lambda a: a[0], phis)),
        "optimum": optimised(),
    }
    print(json.dumps(results, indent=1))
    (RESULTS / "shape_family.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "shape_family.md").write_text(page(results))


if __name__ == "__main__":
    main()
