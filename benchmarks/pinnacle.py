"""PDEs on boxes that others chose as hard for physics-informed networks, solved to a tolerance.

    python benchmarks/pinnacle.py                       all of them: a few minutes on one core
    python benchmarks/pinnacle.py burgers kdv           some, beside what the results already hold
    python benchmarks/pinnacle.py --inverse             the two with an unknown coefficient

Each problem is stated as it was published and solved by `pdecl.solve(problem, tolerance=...)`, with no
other argument. True errors are relative L2 errors at random points against exact solutions, or at the
points of a reference made here: exponential time differencing (ETDRK4) in Fourier space, Q2–Q1 finite
elements for the cavity. The two inverse problems are in pinnacle_inverse.py. Results go to
results/pinnacle.json, and a page of them to results/pinnacle.md.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pinnacle_inverse

import pdecl
from pdecl import Box, Fit, Points, Problem

PI = np.pi
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Case:
    """`truth()` are points and the solution at them, an array or a dictionary for several unknowns.
    `published`: the best of the eleven methods of PINNacle, or another of the literature."""

    title: str
    problem: Callable[[], Problem]
    truth: Callable[[], tuple[np.ndarray, Any]]
    tolerances: tuple[float, ...]
    published: str
    reference: str


# --- statements
# -----------------------------------------------------------------------------------------
def problem_of(box: Box, pde: Any, *others: Any, **names: Any) -> Problem:
    return Problem(box, [Fit(pde, on=box.interior, name="pde"), *others], **names)


def starts(box: Box, value: Any) -> Fit:
    return Fit(lambda u, z, phi: u() - value(z.x), on=box.face(t=0), name="start")


def zero(box: Box, *names: str) -> Fit:
    return Fit(lambda u, z, phi: u(), on=box.faces(*names), name="boundary")


def periodic(box: Box, order: int) -> Fit:
    """u and its derivatives below the equation's order agree at the two ends of x."""
    gap = lambda u, k: u.d(*["x"] * k) - u.at("opposite").d(*["x"] * k)
    equation = lambda u, z, phi: tuple(gap(u, k) for k in range(order))
    return Fit(equation, on=box.periodic("x"), name="periodic")


def at_zero(box: Box) -> Fit:
    return Fit(lambda u, z, phi: u.d("t"), on=box.face(t=0), name="at rest")


def wave() -> Problem:
    box = Box(x=(0, 1), t=(0, 1))
    start = lambda x: jnp.sin(PI * x) + 0.5 * jnp.sin(4 * PI * x)
    pde = lambda u, z, phi: u.d("t", "t") - 4 * u.d("x", "x")
    return problem_of(box, pde, starts(box, start), at_zero(box), zero(box, "x"))


def heat_two_scales() -> Problem:
    box = Box(x=(0, 1), y=(0, 1), t=(0, 5))
    pde = lambda u, z, phi: u.d("t") - u.d("x", "x") / (500 * PI) ** 2 - u.d("y", "y") / PI**2
    start = lambda u, z, phi: u() - jnp.sin(20 * PI * z.x) * jnp.sin(PI * z.y)
    return problem_of(box, pde, Fit(start, on=box.face(t=0), name="start"), zero(box, "x", "y"))


def burgers() -> Problem:
    box = Box(x=(-1, 1), t=(0, 1))
    pde = lambda u, z, phi: u.d("t") + u() * u.d("x") - 0.01 / PI * u.d("x", "x")
    return problem_of(box, pde, starts(box, lambda x: -jnp.sin(PI * x)), zero(box, "x"))


def allen_cahn() -> Problem:
    box = Box(x=(-1, 1), t=(0, 1))
    pde = lambda u, z, phi: u.d("t") - 1e-4 * u.d("x", "x") + 5 * (u() ** 3 - u())
    return problem_of(box, pde, starts(box, lambda x: x**2 * jnp.cos(PI * x)), periodic(box, 2))


def kdv() -> Problem:
    box = Box(x=(-1, 1), t=(0, 1))
    pde = lambda u, z, phi: u.d("t") + u() * u.d("x") + 0.022**2 * u.d("x", "x", "x")
    return problem_of(box, pde, starts(box, lambda x: jnp.cos(PI * x)), periodic(box, 3))


def advection() -> Problem:
    box = Box(x=(0, 2 * PI), t=(0, 1))
    pde = lambda u, z, phi: u.d("t") + 40 * u.d("x")
    return problem_of(box, pde, starts(box, jnp.sin), periodic(box, 1))


def beam() -> Problem:
    box = Box(x=(0, PI), t=(0, 1))
    pde = lambda u, z, phi: u.d("t", "t") + u.d("x", "x", "x", "x")
    hinged = Fit(lambda u, z, phi: u.d("x", "x"), on=box.faces("x"), name="hinged")
    return problem_of(box, pde, starts(box, jnp.sin), at_zero(box), zero(box, "x"), hinged)


def kuramoto_sivashinsky(end: float) -> Problem:
    box = Box(x=(0, 2 * PI), t=(0, end))
    pde = lambda u, z, phi: (
        u.d("t")
        + 100 / 16 * u() * u.d("x")
        + 100 / 16**2 * u.d("x", "x")
        + 100 / 16**4 * u.d("x", "x", "x", "x")
    )
    return problem_of(box, pde, starts(box, lambda x: jnp.cos(x) * (1 + jnp.sin(x))), periodic(box, 4))


def cavity() -> Problem:
    box, nu = Box(x=(0, 1), y=(0, 1)), 0.01
    momentum = lambda w, jet, slope: (
        w.u() * jet.d("x") + w.v() * jet.d("y") + slope - nu * (jet.d("x", "x") + jet.d("y", "y"))
    )
    pde = lambda w, z, phi: (
        momentum(w, w.u, w.p.d("x")),
        momentum(w, w.v, w.p.d("y")),
        w.u.d("x") + w.v.d("y"),
    )
    lid = lambda w, z, phi: (w.u() - 4 * z.x * (1 - z.x), w.v())
    wall = lambda w, z, phi: (w.u(), w.v())
    return problem_of(
        box,
        pde,
        Fit(lid, on=box.face(y=1), name="lid"),
        Fit(wall, on=box.face(y=0), name="bottom"),
        Fit(wall, on=box.faces("x"), name="sides"),
        Fit(lambda w, z, phi: w.p(), on=Points([[0.0, 0.0]]), name="pressure"),
        unknowns=("u", "v", "p"),
    )


def poisson_5d() -> Problem:
    names = ("a", "b", "c", "d", "e")
    box = Box(**dict.fromkeys(names, (0, 1)))
    exact = lambda z: sum(jnp.sin(PI / 2 * getattr(z, name)) for name in names)
    pde = lambda u, z, phi: sum(u.d(n, n) for n in names) + PI**2 / 4 * exact(z)
    boundary = Fit(lambda u, z, phi: u() - exact(z), on=box.faces(), name="boundary")
    return problem_of(box, pde, boundary)


# --- references
# -----------------------------------------------------------------------------------------
def exactly(problem: Callable[[], Problem], solution: Callable[..., np.ndarray]) -> Any:
    def truth() -> tuple[np.ndarray, np.ndarray]:
        low, high = np.asarray(problem().domain.bounds).T
        points = low + (high - low) * np.random.default_rng(0).random((20_000, len(low)))
        return points, solution(*points.T)

    return truth


def etdrk4(v: np.ndarray, L: np.ndarray, N: Any, h: float, steps: int, keep: int) -> np.ndarray:
    """v' = L v + N(v) for Fourier coefficients, every `keep`-th step (Kassam and Trefethen, 2005)."""
    E, half = np.exp(h * L), np.exp(h * L / 2)
    z = h * L[:, None] + np.exp(2j * PI * (np.arange(1, 65) - 0.5) / 64)
    mean = lambda f: h * np.mean(f, axis=1)
    Q = mean((np.exp(z / 2) - 1) / z)
    a = mean((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3)
    b = 2 * mean((2 + z + np.exp(z) * (z - 2)) / z**3)
    c = mean((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3)
    kept = [v]
    for step in range(1, steps + 1):
        Nv = N(v)
        first = half * v + Q * Nv
        N1 = N(first)
        N2 = N(half * v + Q * N1)
        N3 = N(half * first + Q * (2 * N2 - Nv))
        v = E * v + a * Nv + b * (N1 + N2) + c * N3
        if step % keep == 0:
            kept.append(v)
    return np.array(kept)


def spectral(
    bounds: tuple[float, float], end: float, start: Any, linear: Any, square: float, cube: float,
    count: int, steps: int,
) -> Any:  # fmt: skip
    """u_t = linear(ik) u − square (u²)_x / 2 − cube u³, periodic; at 403 × 21 points."""

    def truth() -> tuple[np.ndarray, np.ndarray]:
        low, length = bounds[0], bounds[1] - bounds[0]
        x = low + length * np.arange(count) / count
        ik = 2j * PI / length * np.arange(count // 2 + 1)
        mask = np.arange(count // 2 + 1) < count / 3 if square else 1.0

        def N(v: np.ndarray) -> np.ndarray:
            u = np.fft.irfft(v * mask, count)
            if square:
                return -0.5 * square * ik * np.fft.rfft(u**2) * mask
            return -cube * np.fft.rfft(u**3)

        v0 = np.fft.rfft(start(x))
        kept = etdrk4(v0, linear(ik) + 0j, N, end / steps, steps, steps // 20)
        y, t = low + length * (np.arange(403) + 0.37) / 403, np.linspace(0, end, 21)
        twice = np.where(np.isin(np.arange(len(ik)), (0, len(ik) - 1)), 1.0, 2.0)
        u = ((np.exp(np.outer(y - low, ik)) * twice) @ kept.T).real / count
        return np.stack(np.meshgrid(y, t, indexing="ij"), -1).reshape(-1, 2), u.ravel()

    return truth


def ks_reference(end: float, steps: int) -> Any:
    linear = lambda ik: -100 / 16**2 * ik**2 - 100 / 16**4 * ik**4
    start = lambda x: np.cos(x) * (1 + np.sin(x))
    return spectral((0, 2 * PI), end, start, linear, 100 / 16, 0.0, 768, steps)


def cavity_reference(cells: int = 84) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Q2–Q1 elements on a mesh that is finer towards the walls, by Newton's method."""
    import skfem as fem
    from skfem.helpers import ddot, div, dot, grad

    edges = (1 - np.cos(PI * np.linspace(0, 1, cells + 1))) / 2
    mesh = fem.MeshQuad.init_tensor(edges, edges)
    V = fem.Basis(mesh, fem.ElementVector(fem.ElementQuad2()), intorder=5)
    Q = V.with_element(fem.ElementQuad1())
    along = lambda w, u: np.einsum("j...,ij...->i...", w, grad(u))
    A = fem.BilinearForm(lambda u, v, w: 0.01 * ddot(grad(u), grad(v))).assemble(V)
    B = fem.BilinearForm(lambda u, q, w: -div(u) * q).assemble(V, Q)
    C = fem.BilinearForm(lambda u, v, w: dot(along(w["w"], u) + along(u, w["w"]), v))
    F = fem.LinearForm(lambda v, w: dot(along(w["w"], w["w"]), v))
    state, x = np.zeros(V.N + Q.N), V.doflocs
    walls, lids = V.get_dofs().all(), set(V.get_dofs().all(["u^1"]))
    on_lid = np.array([d in lids for d in walls]) & (np.abs(x[1, walls] - 1) < 1e-12)
    state[walls] = np.where(on_lid, 4 * x[0, walls] * (1 - x[0, walls]), 0.0)
    fixed = np.append(walls, V.N + np.argmin((Q.doflocs**2).sum(axis=0)))
    for _ in range(12):
        w, velocity, pressure = V.interpolate(state[: V.N]), state[: V.N], state[V.N :]
        K = fem.bmat([[A + C.assemble(V, w=w), B.T], [B, None]], "csr")
        momentum = A @ velocity + B.T @ pressure + F.assemble(V, w=w)
        change = fem.solve(*fem.condense(K, -np.append(momentum, B @ velocity), D=fixed))
        state = state + change
        if np.abs(change).max() < 1e-11:
            break
    g = (np.arange(50) + 0.5) / 50
    points = np.stack(np.meshgrid(g, g, indexing="ij"), -1).reshape(-1, 2)
    u, v = np.split(V.probes(points.T) @ state[: V.N], 2)
    return points, {"u": u, "v": v, "p": Q.probes(points.T) @ state[V.N :]}


def wave_exact(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    low, high = np.sin(PI * x) * np.cos(2 * PI * t), np.sin(4 * PI * x) * np.cos(8 * PI * t)
    return low + 0.5 * high


def heat_exact(x: np.ndarray, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    return np.sin(20 * PI * x) * np.sin(PI * y) * np.exp(-(0.04**2 + 1) * t)


EXACT = "exact solution"
FOURIER = "ETDRK4 in Fourier space"
CASES = {
    "wave": Case("Wave1d-C", wave, exactly(wave, wave_exact), (1e-6, 1e-9), "9.8e-2", EXACT),
    "heat": Case(
        "Heat2d-MS",
        heat_two_scales,
        exactly(heat_two_scales, heat_exact),
        (1e-6, 1e-9),
        "6.2e-2",
        EXACT,
    ),
    "burgers": Case(
        "Burgers1d, ν = 0.01/π",
        burgers,
        spectral(
            (-1, 1), 1.0, lambda x: -np.sin(PI * x), lambda k: 0.01 / PI * k**2, 1.0, 0.0, 4096, 5000
        ),
        (1e-4, 1e-6),
        "1.5e-2 (others: 1e-3)",
        FOURIER,
    ),
    "allen_cahn": Case(
        "Allen–Cahn, 1e-4",
        allen_cahn,
        spectral(
            (-1, 1),
            1.0,
            lambda x: x**2 * np.cos(PI * x),
            lambda k: 1e-4 * k**2 + 5,
            0.0,
            5.0,
            16384,
            1000,
        ),
        (1e-5,),
        "others: 1.9e-6",
        FOURIER,
    ),
    "kdv": Case(
        "KdV, 0.022²",
        kdv,
        spectral(
            (-1, 1), 1.0, lambda x: np.cos(PI * x), lambda k: -(0.022**2) * k**3, 1.0, 0.0, 1024, 10_000
        ),
        (1e-5, 1e-8),
        "others: 2.2e-6",
        FOURIER,
    ),
    "advection": Case(
        "advection, β = 40",
        advection,
        exactly(advection, lambda x, t: np.sin(x - 40 * t)),
        (1e-8,),
        "others: 8.4e-9",
        EXACT,
    ),
    "beam": Case(
        "Euler–Bernoulli beam",
        beam,
        exactly(beam, lambda x, t: np.sin(x) * np.cos(t)),
        (1e-8,),
        "others: 9e-9",
        EXACT,
    ),
    "ks": Case(
        "Kuramoto–Sivashinsky, t ≤ 0.4",
        lambda: kuramoto_sivashinsky(0.4),
        ks_reference(0.4, 8000),
        (1e-5, 1e-8),
        "–",
        FOURIER,
    ),
    "ks_long": Case(
        "Kuramoto–Sivashinsky, t ≤ 1",
        lambda: kuramoto_sivashinsky(1.0),
        ks_reference(1.0, 20_000),
        (1e-4, 1e-6),
        "9.6e-1",
        FOURIER,
    ),
    "cavity": Case(
        "NS2d-C (cavity)",
        cavity,
        cavity_reference,
        (2e-2, 3e-3),
        "3.6e-2",
        "Q2–Q1 elements, 84² graded; from 56² u and v differ by 4e-5, p by 1e-3",
    ),
    "poisson": Case(
        "Poisson-5d",
        poisson_5d,
        exactly(poisson_5d, lambda *x: sum(np.sin(PI / 2 * y) for y in x)),
        (1e-5, 1e-7),
        "4.7e-4",
        EXACT,
    ),
}


# --- measuring
# ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Row:
    tolerance: float
    error: dict[str, float]
    stated: float
    seconds: float
    functions: int
    slabs: int | None


def measure(case: Case, tolerance: float, points: np.ndarray, truth: Any) -> Row:
    jax.clear_caches()  # the seconds include all compilation
    solution = pdecl.solve(case.problem(), tolerance=tolerance)
    found = solution(points)
    truth = truth if isinstance(truth, dict) else {"u": truth}
    found = found if isinstance(found, dict) else {"u": found}
    error = {u: float(np.linalg.norm(found[u] - x) / np.linalg.norm(x)) for u, x in truth.items()}
    return Row(
        tolerance, error, solution.error_estimate, solution.seconds, solution.functions, solution.slabs
    )


HEAD = """\
# PDEs on boxes that are hard for physics-informed networks

Written by `benchmarks/pinnacle.py`. Problems of PINNacle (Hao et al., NeurIPS 2024) and of other papers
on physics-informed networks, stated as published and solved by `pdecl.solve(problem, tolerance=...)`
with nothing else set. **This is a comparison with physics-informed networks, not with numerical
solvers.** Our method here is itself a numerical one, collocation with B-splines in space and Radau IIA
in time; nothing is trained. Published figures are the best of eleven methods of PINNacle, each trained
for 20,000 steps on a GPU; "others" are the lowest of the literature on networks and random features.

Errors are relative L2 errors. "Stated" is the solution's own `error_estimate`, made without the
reference. Seconds are of the whole call with compilation, on a machine that was busy with other work at
the same time (its load is beside each row in the JSON file): {machine}.

| problem | published | asked | true error | stated | seconds | functions | slabs | reference |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


INVERSE = """
## An unknown coefficient

PInv and HInv of PINNacle: a(x, y) is known on the boundary and unknown inside, u is seen at 2500 points
with noise of 0.1. `benchmarks/pinnacle_inverse.py` says how a is found, and in what the statement is
other than published: u = 0 on the boundary is given here (without it the data say very little of a, for
any method), f is consistent with the exact solution, and HInv's points are drawn with a seed. The sines
that a is made of suit both: the exact a of HInv is one of them, that of PInv is one but for 7e-4. Errors
are relative L2 errors of a, for three draws of the noise; "stated" is one standard deviation, from the
curvature of the misfit.

| problem | published | error of a | stated | sines | seconds |
| --- | --- | --- | --- | --- | --- |
"""


def page(results: dict[str, Any]) -> str:
    lines = HEAD.format(machine=results["machine"]).splitlines()
    for name, case in CASES.items():
        for row in results["problems"].get(name, []):
            errors = row["error"]
            true = ", ".join(
                f"{u} {e:.1e}" if len(errors) > 1 else f"{e:.1e}" for u, e in errors.items()
            )
            cells = [
                case.title,
                case.published,
                f"{row['tolerance']:.0e}",
                true,
                f"{row['stated']:.1e}",
                f"{row['seconds']:.1f}",
                f"{row['functions']:,}",
                row["slabs"] or "–",
                case.reference,
            ]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    inverse = results.get("inverse", {})
    if inverse:
        lines += INVERSE.splitlines()
    for name, case in pinnacle_inverse.CASES.items():
        for row in inverse.get(name, []):
            cells = [
                case.title,
                case.published,
                f"{row['error']:.1e}",
                f"{row['stated']:.1e}",
                ", ".join(f"{count} in {unknown}" for unknown, count in row["amplitudes"].items()),
                f"{row['seconds']:.0f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", help="some of the problems")
    parser.add_argument("--inverse", action="store_true", help="the inverse problems alone")
    arguments = parser.parse_args()
    names = arguments.problems or ([] if arguments.inverse else list(CASES))
    if unknown := set(names) - set(CASES):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(CASES)}")
    jax.config.update("jax_enable_x64", True)
    file = RESULTS / "pinnacle.json"
    results = json.loads(file.read_text()) if file.exists() else {"problems": {}}
    results["machine"] = f"{os.cpu_count()} cores, {platform.machine()}"
    for name in names:
        case, begun = CASES[name], time.perf_counter()
        points, truth = case.truth()
        print(f"{case.title}: reference in {time.perf_counter() - begun:.1f} s", flush=True)
        rows = []
        for tolerance in case.tolerances:
            row = asdict(measure(case, tolerance, points, truth)) | {"load": os.getloadavg()[0]}
            print("  ", row, flush=True)
            rows.append(row)
        results["problems"][name] = rows
        write(file, results)
    if arguments.inverse or not arguments.problems:
        for name, case in pinnacle_inverse.CASES.items():
            found = [pinnacle_inverse.measure(case, seed) for seed in range(3)]
            print(f"{case.title}:", *found, sep="\n   ", flush=True)
            results.setdefault("inverse", {})[name] = found
            write(file, results)


def write(file: Path, results: dict[str, Any]) -> None:
    file.write_text(json.dumps(results, indent=1) + "\n")
    file.with_suffix(".md").write_text(page(results))


if __name__ == "__main__":
    main()
