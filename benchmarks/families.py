"""Families of φ trained by `pdecl.fit(problem)` with no option, beside numerical solvers.

    python benchmarks/families.py                    all of them: about five minutes of training each
    python benchmarks/families.py bratu heat_3d      some, beside what the results already hold
    python benchmarks/families.py --budget 30        less training, to try it

Each family is a file of examples/families as a user would write it. Errors are relative L2 errors over a
grid of space and time, on 50 φ that training has not seen, against a reference made here by another
method at its finest level, whose distance from the level before is kept beside it. Beside each a
numerical method with as few points and steps as have the same mean error, in the same run. Times are for
one φ of a batch. Results go to results/families.json, and a page of them to results/families.md.
"""

import argparse
import importlib.util
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import scipy.fft
import scipy.integrate
import scipy.interpolate
from numpy.polynomial import chebyshev

import pdecl

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SEED, COUNT = 2, 50  # the split "test"
Method = Callable[[Any, int], np.ndarray]  # of a batch of φ and a level: u on the case's grid


@dataclass(frozen=True)
class Case:
    """`method(phis, level)`: u at the products of `lines`, in the order of the domain, (batch, …).
    `levels`: of the method, coarse to fine. `target`: mean and worst error to be reached."""

    title: str
    words: str
    lines: tuple[np.ndarray, ...]
    method: Method
    levels: tuple[int, ...]
    target: tuple[float, float | None]


# --- numerical methods -----------------------------------------------------------------------------
def etdrk4(
    v: np.ndarray, linear: np.ndarray, rest: Callable[[np.ndarray], np.ndarray], h: float, steps: int
) -> Iterator[np.ndarray]:
    """Cox and Matthews, with the contour integrals of Kassam and Trefethen: v_t = linear v + rest(v)."""
    circle = np.exp(1j * np.pi * (np.arange(1, 33) - 0.5) / 32)
    z = h * linear[:, None] + circle
    mean = lambda f: h * np.real(np.mean(f, axis=1))
    E, half = np.exp(h * linear), np.exp(h * linear / 2)
    q = mean((np.exp(z / 2) - 1) / z)
    first = mean((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3)
    second = mean((2 + z + np.exp(z) * (z - 2)) / z**3)
    third = mean((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3)
    for _ in range(steps):
        n = rest(v)
        a = half * v + q * n
        m = rest(a)
        b = half * v + q * m
        k = rest(b)
        c = half * a + q * (2 * k - n)
        v = E * v + n * first + 2 * (m + k) * second + rest(c) * third
        yield v


def in_waves(
    start: Callable[[np.ndarray, Any], np.ndarray],
    bounds: tuple[float, float],
    end: float,
    linear: Callable[[np.ndarray], np.ndarray],
    rest: Callable[[np.ndarray, np.ndarray], np.ndarray],
    lines: tuple[np.ndarray, ...],
    steps: Callable[[int], int],
) -> Method:
    """Fourier's series with `level` points in x, ETDRK4 in time."""

    def method(phis: Any, level: int) -> np.ndarray:
        low, high = bounds
        x = low + (high - low) * np.arange(level) / level
        k = 2 * np.pi / (high - low) * np.arange(level // 2 + 1)
        phase = np.exp(1j * np.outer(k, lines[0] - low)) * np.where(k > 0, 2, 1)[:, None] / level
        phase[-1] /= 2
        values = lambda v: np.real(v @ phase)
        each = -(-steps(level) // (len(lines[1]) - 1))
        v = np.fft.rfft(start(x, phis))
        out, h = [values(v)], end / (each * (len(lines[1]) - 1))
        march = etdrk4(v, linear(k), lambda v: rest(v, k), h, each * (len(lines[1]) - 1))
        out += [values(v) for number, v in enumerate(march, 1) if number % each == 0]
        return np.stack(out, axis=2)

    return method


def dealiased(v: np.ndarray, power: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    n = 2 * (v.shape[-1] - 1)
    fine = 3 * n // 2
    return np.fft.rfft(power(np.fft.irfft(v, fine) * 1.5))[..., : v.shape[-1]] / 1.5


def burgers_case(nu: float, levels: tuple[int, ...], target: tuple[float, float]) -> Case:
    def start(x: np.ndarray, phi: Any) -> np.ndarray:
        waves = np.sin(2 * np.pi * phi["number"][..., None] * x + phi["phase"][..., None])
        return np.sum(phi["height"][..., None] * waves, axis=1)

    lines = (np.arange(200) / 200, np.linspace(0, 2, 41))
    rest = lambda v, k: -0.5j * k * dealiased(v, np.square)
    method = in_waves(
        start, (0, 1), 2, lambda k: -nu / np.pi * k**2, rest, lines, lambda n: max(2 * n, 80)
    )
    words = "Fourier series, dealiased, ETDRK4"
    return Case(f"Burgers, two waves, ν = {nu:g}", words, lines, method, levels, target)


def allen_cahn() -> Case:
    def start(x: np.ndarray, phi: Any) -> np.ndarray:
        k = np.pi * np.arange(1, 5)[:, None] * x
        return phi[:, 0] @ np.cos(k) + phi[:, 1] @ np.sin(k)

    lines = (-1 + np.arange(200) / 100, np.linspace(0, 1, 41))
    cubic = lambda v, k: -5 * np.fft.rfft(np.fft.irfft(v, 2 * (v.shape[-1] - 1)) ** 3)
    method = in_waves(
        start, (-1, 1), 1, lambda k: 5 - 1e-3 * k**2, cubic, lines, lambda n: max(n // 2, 40)
    )
    words = "Fourier series, ETDRK4"
    return Case(
        "Allen–Cahn", words, lines, method, (32, 48, 64, 96, 128, 192, 256, 384, 512), (1e-2, 5e-2)
    )


def fisher_kpp() -> Case:
    lines = (np.linspace(0, 1, 65), np.linspace(0, 1, 41))

    def method(phis: np.ndarray, level: int) -> np.ndarray:
        n = 32 * level  # intervals: kinks of r are nodes
        x = np.linspace(0, 1, n + 1)
        r = np.stack([np.interp(x, np.linspace(0, 1, 33), one) for one in np.asarray(phis)])
        k = np.arange(n + 1)
        rates = -0.01 * (2 * n * np.sin(np.pi * k / (2 * n))) ** 2
        back = np.cos(np.pi * np.outer(k, k) / n)
        ahead = np.linalg.inv(back)
        step = max(1, level // 2)
        rest = lambda v: (lambda u: (r * u * (1 - u)) @ ahead)(v @ back)
        u0 = 0.6 * np.exp(-(((x - 0.3) / 0.12) ** 2))
        v = np.broadcast_to(u0 @ ahead, r.shape)
        march = etdrk4(v, rates, rest, 1 / (40 * step), 40 * step)
        nodes = np.stack(
            [v @ back, *(w @ back for number, w in enumerate(march, 1) if number % step == 0)], axis=2
        )
        return scipy.interpolate.CubicSpline(x, nodes, axis=1)(lines[0])

    words = "finite differences of second order, ETDRK4"
    return Case("Fisher–KPP", words, lines, method, (1, 2, 4, 8, 16, 24), (1e-3, 1e-2))


def diffusion_sorption() -> Case:
    D, p, rho, k, n = 5e-4, 0.29, 2880.0, 3.5e-4, 0.874
    lines = (np.linspace(0, 1, 101), np.linspace(5, 500, 100))

    def one(start: float, level: int) -> np.ndarray:
        h = 1 / level
        u = np.full(level, start)  # at h, 2h, …, 1; u = 1 at 0

        def rate(_: float, u: np.ndarray) -> np.ndarray:
            outer = u[-2] - 2 * h * u[-1] / D  # from u = −D u_x
            full = np.concatenate([[1.0], u, [outer]])
            R = 1 + (1 - p) / p * rho * k * n * (np.maximum(u, 0) + 1e-6) ** (n - 1)
            return D / R * np.diff(full, 2) / h**2

        tight = max(1e-10, 0.1 / level**2)
        found = scipy.integrate.solve_ivp(
            rate, (0, 500), u, "LSODA", t_eval=lines[1], rtol=tight, atol=tight, lband=1, uband=1
        )
        values = np.concatenate([np.ones((1, len(lines[1]))), found.y])
        return scipy.interpolate.CubicSpline(np.linspace(0, 1, level + 1), values)(lines[0])

    method = lambda phis, level: np.stack([one(float(start), level) for start in np.asarray(phis)])
    words = "finite differences of second order, LSODA with banded Jacobian"
    return Case(
        "diffusion–sorption", words, lines, method, (25, 50, 100, 200, 400, 800, 1600), (3e-3, None)
    )


def heat_3d() -> Case:
    line = np.linspace(0, 1, 11)
    lines = (line, line, line, np.linspace(0, 1, 11))
    sines = lambda m, x: np.sin(m * np.pi * x)

    def method(phis: Any, level: int) -> np.ndarray:
        """Level 0: the exact solution."""
        out = []
        for kappa, a, b in zip(phis["kappa"], phis["a"], phis["b"], strict=True):
            modes = ((1, 1, 1, 1.0), (2, 1, 1, a), (1, 1, 2, b))
            x = line if level == 0 else np.arange(1, level) / level
            u0 = [c * np.einsum("i,j,k->ijk", *(sines(m, x) for m in w)) for *w, c in modes]
            if level == 0:
                decay = [np.exp(-kappa * np.pi**2 * sum(m * m for m in w) * lines[3]) for *w, _ in modes]
                out.append(sum(u[..., None] * d for u, d in zip(u0, decay, strict=True)))
                continue
            q = (2 * level * np.sin(np.pi * np.arange(1, level) / (2 * level))) ** 2
            rates = q[:, None, None] + q[:, None] + q
            v = scipy.fft.dstn(sum(u0), type=1)
            at = [np.pad(scipy.fft.idstn(v * np.exp(-kappa * rates * t), type=1), 1) for t in lines[3]]
            out.append(np.stack(at, axis=-1)[:: level // 10, :: level // 10, :: level // 10])
        return np.stack(out)

    words = "finite differences of second order, exact in time by sine transforms"
    return Case("heat in 3D and time", words, lines, method, (10, 20, 30, 40, 60, 0), (1e-3, None))


def bratu() -> Case:
    line = np.linspace(0, 1, 41)

    def method(phis: Any, level: int) -> np.ndarray:
        """Collocation at Chebyshev points, Newton's method."""
        n = level
        s = (1 - np.cos(np.pi * np.arange(n + 1) / n)) / 2
        vander = chebyshev.chebvander(2 * s - 1, n)
        second = np.zeros_like(vander)
        for j in range(n + 1):
            second[:, j] = (
                4 * chebyshev.chebval(2 * s - 1, chebyshev.chebder(np.eye(n + 1)[j], 2)) if j > 1 else 0
            )
        D2 = (second @ np.linalg.inv(vander))[1:-1, 1:-1]
        inner, eye = s[1:-1], np.eye(n - 1)
        laplacian = np.kron(D2, eye) + np.kron(eye, D2)
        to_nodes = chebyshev.chebvander(2 * line - 1, n) @ np.linalg.inv(vander)
        x, y = (g.ravel() for g in np.meshgrid(inner, inner, indexing="ij"))
        out = []
        for k in range(len(phis["reaction"])):
            rate, (cx, cy) = phis["reaction"][k], phis["place"][k]
            source = phis["source"][k] * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / 0.04)
            u, step = np.zeros_like(x), np.ones(1)
            while np.abs(step).max() > 1e-5:  # quadratic: what is left is its square
                growth = rate * np.exp(u)
                step = np.linalg.solve(laplacian + np.diag(growth), laplacian @ u + growth + source)
                u = u - step
            whole = np.pad(u.reshape(n - 1, n - 1), 1)
            out.append(to_nodes @ whole @ to_nodes.T)
        return np.stack(out)

    levels = (6, 8, 10, 12, 14, 16, 20, 24, 28, 32)
    words = "collocation at Chebyshev points, Newton's method"
    return Case("Bratu in 2D", words, (line, line), method, levels, (1e-4, None))


CASES: dict[str, Callable[[], Case]] = {
    "fisher_kpp": fisher_kpp,
    "allen_cahn": allen_cahn,
    "diffusion_sorption": diffusion_sorption,
    "burgers_nu_1": lambda: burgers_case(0.1, (32, 48, 64, 96, 128, 192, 256, 384), (2e-3, 2e-2)),
    "burgers_nu_01": lambda: burgers_case(0.01, (128, 192, 256, 384, 512, 768, 1024), (1e-2, 5e-2)),
    "heat_3d": heat_3d,
    "bratu": bratu,
}


# --- measuring -------------------------------------------------------------------------------------
def errors_of(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    n = len(found)
    return np.linalg.norm((found - truth).reshape(n, -1), axis=1) / np.linalg.norm(
        truth.reshape(n, -1), axis=1
    )


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and the least seconds of a few warm calls."""
    found, seconds = call(), []
    while len(seconds) < 3 or (sum(seconds) < 1.0 and len(seconds) < 10):
        began = time.perf_counter()
        found = call()
        seconds.append(time.perf_counter() - began)
    return found, min(seconds)


def truth_of(case: Case, phis: Any) -> tuple[np.ndarray, int, float]:
    """The reference, its level, and its distance from the level before."""
    if case.levels[-1] == 0:
        return case.method(phis, 0), 0, 0.0
    finest = case.method(phis, case.levels[-2])
    better = case.method(phis, case.levels[-1])
    return better, case.levels[-1], float(errors_of(finest, better).mean())


def rival(case: Case, phis: Any, truth: np.ndarray, error: float) -> dict[str, Any]:
    """The coarsest level whose mean error is no larger."""
    for level in case.levels:
        own = float(errors_of(case.method(phis, level), truth).mean())
        if own <= error or level == case.levels[-1]:
            break
    _, seconds = timed(lambda: case.method(phis, level))
    return {"level": level, "mean": own, "microseconds": 1e6 * seconds / COUNT}


def problem_in(name: str) -> Any:
    path = HERE.parent / "examples" / "families" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.problem


def measure(name: str, budget: float | None) -> dict[str, Any]:
    case, problem = CASES[name](), problem_in(name)
    options: dict[str, Any] = {} if budget is None else {"budget": budget}
    began = time.perf_counter()
    solver = pdecl.fit(problem, progress=False, **options)
    seconds = time.perf_counter() - began
    draw = jax.vmap(lambda number: problem.parameter(jax.random.fold_in(jax.random.key(SEED), number)))
    phis = jax.tree.map(np.asarray, draw(np.arange(COUNT)))
    mesh = np.stack([g.ravel() for g in np.meshgrid(*case.lines, indexing="ij")], axis=1)
    many = jax.tree.map(np.asarray, draw(np.arange(COUNT, COUNT + 1000)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution = solver(phis)
        found = np.asarray(solution(mesh)).reshape(COUNT, *map(len, case.lines))
        _, batch = timed(lambda: np.asarray(solver(many).weights))
    statuses = [str(status) for status in solution.status]
    truth, level, change = truth_of(case, phis)
    each = errors_of(found, truth)
    beside = rival(case, phis, truth, float(each.mean()))
    own = 1e6 * batch / 1000
    gain = beside["microseconds"] - own
    return {
        "title": case.title,
        "method": case.words,
        "target": case.target,
        "training": dict(solver.training),
        "seconds": seconds,
        "functions": solver.functions,
        "rows": solver.rows,
        "stated": solver.error.as_dict(),
        "mean": float(each.mean()),
        "worst": float(each.max()),
        "median": float(np.median(each)),
        "statuses": {status: statuses.count(status) for status in sorted(set(statuses))},
        "reference": {"level": level, "change": change},
        "microseconds": own,
        "rival": beside,
        "ratio": beside["microseconds"] / own,
        "paid back after": float(seconds / (1e-6 * gain)) if gain > 0 else None,
    }


# --- results ---------------------------------------------------------------------------------------
def page(results: dict[str, Any]) -> str:
    head = __doc__ or ""
    lines = [
        "# Families of φ, trained without a network and without an option",
        "",
        head.partition("\n\n")[2].partition("\n\n")[2].replace("\n", " ").strip(),
        "",
        "| family | to reach: mean; worst | mean | worst | functions | training, s | µs a φ "
        "| method at the same error | its µs a φ | ratio | paid back after |",
        "|" + " --- |" * 11,
    ]
    for name in CASES:
        if name not in results["cases"]:
            continue
        r = results["cases"][name]
        mean, worst = r["target"]
        other = r["rival"]
        paid = "–" if r["paid back after"] is None else f"{r['paid back after']:,.0f} φ"
        lines.append(
            f"| {r['title']} | {mean:.0e}; {'–' if worst is None else f'{worst:.0e}'} "
            f"| {r['mean']:.1e} | {r['worst']:.1e} | {r['functions']} | {r['seconds']:.0f} "
            f"| {r['microseconds']:.0f} | {r['method']}, level {other['level']}: {other['mean']:.1e} "
            f"| {other['microseconds']:.0f} | {r['ratio']:.2g} | {paid} |"
        )
    lines += [
        "",
        f"Measured on {results['machine']}, {results['cores']} cores. µs a φ are those of the "
        "functions' weights, in a batch of 1000; u on a grid is one matrix product more. The numerical "
        "methods are NumPy's and SciPy's, for a batch of 50 φ. Published figures for orientation, with "
        "other grids, draws and references: a Fourier neural operator trained on 9000 solutions has an "
        "nRMSE of 2.9e-3 (ν = 0.1) and 7.8e-3 (ν = 0.01) on PDEBench's Burgers family, 1.7e-3 on its "
        "diffusion–sorption.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--budget", type=float, help="seconds of training")
    parser.add_argument("--out", type=Path, default=RESULTS / "families.json")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    path = arguments.out
    results = json.loads(path.read_text()) if path.is_file() else {"cases": {}}
    results |= {"machine": platform.machine(), "cores": os.cpu_count(), "jax": jax.__version__}
    for name in arguments.names:
        results["cases"][name] = measure(name, arguments.budget)
        r = results["cases"][name]
        print(
            name,
            {
                k: r[k]
                for k in ("mean", "worst", "functions", "seconds", "microseconds", "rival", "statuses")
            },
        )
        path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        path.with_suffix(".md").write_text(page(results))


if __name__ == "__main__":
    main()
