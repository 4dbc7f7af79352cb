"""Families of φ trained by `pdecl.fit(problem)` with no option, beside numerical solvers.

    python benchmarks/families.py                        all: about five minutes of training each
    python benchmarks/families.py bratu heat_3d          some, beside what the results already hold
    python benchmarks/families.py bratu --out FILE       into a file of its own, without a page
    python benchmarks/families.py --merge FILE FILE ...  such files into the results, and the page
    python benchmarks/families.py --budget 30            less training, to try it
    python benchmarks/families.py bratu --limit 520      ends after that many seconds, whatever it does
    python benchmarks/families.py bratu --solvers DIR    keeps the compiled solver there, or takes it

Each family is a file of examples/families as a user would write it. Errors are relative L2 errors over a
grid of space and time, on 50 φ that training has not seen, against a reference made here by another
method at its finest level, whose distance from the level before is kept beside it. Beside each are
numerical methods with as few points and steps as have the same mean error, in the same run. Times are
for one φ of a batch, each with u at the end (in a steady problem: everywhere) on a grid. Results go to
results/families.json after each step, and a page of them to results/families.md.
"""

import argparse
import faulthandler
import importlib.util
import json
import math
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
import scipy
from numpy.polynomial import chebyshev

import pdecl
from pdecl.reduced import Direct

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SEED, COUNT = 2, 50  # the split "test"
# Of a batch of φ, a level and whether the end of time will do: u on the case's grid, or its last slice,
# of several unknowns a dictionary.
Method = Callable[[Any, int, bool], Any]


@dataclass(frozen=True)
class Rival:
    """A numerical method. `levels`: coarse to fine. `batch`: how many φ at a time it is measured on."""

    words: str
    method: Method
    levels: tuple[int, ...]
    batch: int = COUNT


@dataclass(frozen=True)
class Case:
    """`lines`: of the grid, in the order of the domain. `rivals`: the finest level of the first is the
    reference, 0 an exact solution. `target`: mean and worst error to be reached."""

    title: str
    lines: tuple[np.ndarray, ...]
    rivals: tuple[Rival, ...]
    target: tuple[float, float | None]
    steady: bool = False


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

    def method(phis: Any, level: int, last: bool) -> np.ndarray:
        low, high = bounds
        x = low + (high - low) * np.arange(level) / level
        k = 2 * np.pi / (high - low) * np.arange(level // 2 + 1)
        phase = np.exp(1j * np.outer(k, lines[0] - low)) * np.where(k > 0, 2, 1)[:, None] / level
        phase[-1] /= 2
        values = lambda v: np.real(v @ phase)
        each = -(-steps(level) // (len(lines[1]) - 1))
        v = np.fft.rfft(start(x, phis))
        count = each * (len(lines[1]) - 1)
        start_values, out = v, []
        for number, v in enumerate(etdrk4(v, linear(k), lambda v: rest(v, k), end / count, count), 1):
            if number % each == 0 and not last:
                out.append(values(v))
        return values(v) if last else np.stack([values(start_values), *out], axis=2)

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
    rival = Rival("Fourier series, dealiased, ETDRK4", method, levels)
    return Case(f"Burgers, two waves, ν = {nu:g}", lines, (rival,), target)


def allen_cahn() -> Case:
    def start(x: np.ndarray, phi: Any) -> np.ndarray:
        k = np.pi * np.arange(1, 5)[:, None] * x
        return phi[:, 0] @ np.cos(k) + phi[:, 1] @ np.sin(k)

    lines = (-1 + np.arange(200) / 100, np.linspace(0, 1, 41))
    cubic = lambda v, k: -5 * np.fft.rfft(np.fft.irfft(v, 2 * (v.shape[-1] - 1)) ** 3)
    method = in_waves(
        start, (-1, 1), 1, lambda k: 5 - 1e-3 * k**2, cubic, lines, lambda n: max(n // 2, 40)
    )
    levels = (32, 48, 64, 96, 128, 192, 256, 384, 512)
    rival = Rival("Fourier series, ETDRK4", method, levels)
    return Case("Allen–Cahn", lines, (rival,), (1e-2, 5e-2))


def fisher_kpp() -> Case:
    lines = (np.linspace(0, 1, 65), np.linspace(0, 1, 41))

    def method(phis: np.ndarray, level: int, last: bool) -> np.ndarray:
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
        march = enumerate(etdrk4(v, rates, rest, 1 / (40 * step), 40 * step), 1)
        kept = [w for number, w in march if number % step == 0 and (not last or number == 40 * step)]
        nodes = [w @ back for w in (kept if last else [v, *kept])]
        spline = scipy.interpolate.CubicSpline(x, np.stack(nodes, axis=2), axis=1)(lines[0])
        return spline[:, :, 0] if last else spline

    rival = Rival("finite differences of second order, ETDRK4", method, (1, 2, 3, 4, 6, 8, 12, 16, 32))
    return Case("Fisher–KPP", lines, (rival,), (1e-3, 1e-2))


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

    def collocated(start: float, level: int) -> np.ndarray:
        _, D_of, to = chebyshev_nodes(level)
        second, slope = D_of[2], D_of[1][-1]
        # u = 1 at 0, and u = −D u_x at 1 says what u is there.
        back = np.vstack(
            [np.zeros(level - 1), np.eye(level - 1), -D * slope[1:-1] / (1 + D * slope[-1])]
        )
        fixed = np.append(np.eye(level)[0], -D * slope[0] / (1 + D * slope[-1]))
        A, b = (second @ back)[1:-1], (second @ fixed)[1:-1]
        factor = (1 - p) / p * rho * k * n

        def parts(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            base = np.maximum(u, 0) + 1e-6
            R = 1 + factor * base ** (n - 1)
            return D / R, -D / R**2 * factor * (n - 1) * base ** (n - 2) * (u > 0)

        rate = lambda _, u: parts(u)[0] * (A @ u + b)
        jacobian = lambda _, u: (found := parts(u))[0][:, None] * A + np.diag(found[1] * (A @ u + b))
        tight = max(1e-10, 1e-3 / level**2)
        found = scipy.integrate.solve_ivp(
            rate, (0, 500), np.full(level - 1, start), "LSODA", t_eval=lines[1], rtol=tight, atol=tight,
            jac=jacobian,
        )  # fmt: skip
        to_line = chebyshev.chebvander(2 * lines[0] - 1, level) @ to
        return to_line @ (back @ found.y + fixed[:, None])

    def all_of(one: Callable[[float, int], np.ndarray]) -> Method:
        def method(phis: Any, level: int, last: bool) -> np.ndarray:
            found = np.stack([one(float(start), level) for start in np.asarray(phis)])
            return found[:, :, -1] if last else found

        return method

    words = "finite differences of second order, LSODA with banded Jacobian"
    rivals = (
        Rival(words, all_of(one), (25, 50, 100, 200, 400, 800, 1600, 3200)),
        Rival(
            "collocation at Chebyshev points, LSODA",
            all_of(collocated),
            (12, 16, 24, 32, 48, 64, 96),
        ),
    )
    return Case("diffusion–sorption", lines, rivals, (3e-3, None))


def chebyshev_nodes(n: int) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """n + 1 Chebyshev points of (0, 1), the matrices of derivatives there up to the fourth, and the
    matrix from values to Chebyshev coefficients."""
    s = (1 - np.cos(np.pi * np.arange(n + 1) / n)) / 2
    to = np.linalg.inv(chebyshev.chebvander(2 * s - 1, n))
    columns = lambda k: chebyshev.chebval(2 * s - 1, chebyshev.chebder(np.eye(n + 1), k))
    return s, [2**k * columns(k).T @ to for k in range(5)], to


def heat_3d() -> Case:
    line = np.linspace(0, 1, 11)
    lines = (line, line, line, np.linspace(0, 1, 11))
    sines = lambda m, x: np.sin(m * np.pi * x)

    def start(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        one, two = sines(1, x), sines(2, x)
        product = lambda p, q, r: np.einsum("i,j,k->ijk", p, q, r)
        shares = np.stack([np.ones_like(a), a, b], axis=1)
        modes = [product(one, one, one), product(two, one, one), product(one, one, two)]
        return np.tensordot(shares, np.stack(modes), 1)

    def exact(phis: Any) -> np.ndarray:
        shares = np.stack([np.ones(len(phis["a"])), phis["a"], phis["b"]], axis=1)
        rates = np.pi**2 * np.outer(phis["kappa"], [3, 6, 6])
        decay = shares[:, :, None] * np.exp(-rates[..., None] * lines[3])
        parts = [start(line, *np.eye(3)[None, k, 1:].T) for k in range(3)]
        parts = [parts[0], parts[1] - parts[0], parts[2] - parts[0]]
        return np.einsum("nmt,mxyz->nxyzt", decay, np.concatenate(parts))

    def in_eigenvectors(
        phis: Any, x: np.ndarray, operator: np.ndarray, to_line: np.ndarray, last: bool
    ) -> np.ndarray:
        """Exact in time: e^{κt(λ_i + λ_j + λ_k)} in the eigenvectors of the operator along a line."""
        values, vectors = (
            np.linalg.eigh(operator) if np.allclose(operator, operator.T) else (np.linalg.eig(operator))
        )
        along = lambda A, v: np.einsum("ai,bj,ck,nijk->nabc", A, A, A, v, optimize=True)
        v = along(np.linalg.inv(vectors).real, start(x, phis["a"], phis["b"]))
        rates = np.add.outer(np.add.outer(values.real, values.real), values.real)
        at = lambda t: along(
            (to_line @ vectors).real, v * np.exp(t * phis["kappa"][:, None, None, None] * rates)
        )
        return at(1.0) if last else np.stack([at(t) for t in lines[3]], axis=-1)

    def spectral(phis: Any, level: int, last: bool) -> np.ndarray:
        if level == 0:
            return exact(phis)
        s, D, to = chebyshev_nodes(level)
        to_line = (chebyshev.chebvander(2 * line - 1, level) @ to)[:, 1:-1]
        return in_eigenvectors(phis, s[1:-1], D[2][1:-1, 1:-1], to_line, last)

    def differences(phis: Any, level: int, last: bool) -> np.ndarray:
        x = np.arange(1, level) / level
        operator = level**2 * (np.eye(level - 1, k=1) + np.eye(level - 1, k=-1) - 2 * np.eye(level - 1))
        to_line = np.pad(np.eye(level - 1), ((1, 1), (0, 0)))[:: level // 10]
        return in_eigenvectors(phis, x, operator, to_line, last)

    rivals = (
        Rival("collocation at Chebyshev points, exact in time", spectral, (*range(5, 17), 0)),
        Rival("finite differences, exact in time", differences, (10, 20, 30, 40, 50, 60, 80), 10),
    )
    return Case("heat in 3D and time", lines, rivals, (1e-3, None))


def bratu() -> Case:
    line = np.linspace(0, 1, 41)

    def newton(phis: Any, x: np.ndarray, y: np.ndarray, solve: Any) -> np.ndarray:
        """All φ at once. `solve(u, growth, right)`: with the Laplacian and `growth` on its diagonal."""
        rate, (cx, cy) = phis["reaction"][:, None], phis["place"].T[..., None]
        source = phis["source"][:, None] * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / 0.04)
        u, step = np.zeros_like(source), np.ones(1)
        while np.abs(step).max() > 1e-4:  # quadratic: what is left is its square
            growth = rate * np.exp(u)
            step = solve(u, growth, growth + source)
            u = u - step
        return u

    def spectral(phis: Any, level: int, last: bool) -> np.ndarray:
        n = level
        s, D, to = chebyshev_nodes(n)
        D2, inner, eye = D[2][1:-1, 1:-1], s[1:-1], np.eye(n - 1)
        laplacian = np.kron(D2, eye) + np.kron(eye, D2)
        to_line = (chebyshev.chebvander(2 * line - 1, n) @ to)[:, 1:-1]
        x, y = (g.ravel() for g in np.meshgrid(inner, inner, indexing="ij"))

        def solve(u: np.ndarray, growth: np.ndarray, right: np.ndarray) -> np.ndarray:
            each = zip(growth, u @ laplacian.T + right, strict=True)
            return np.stack([np.linalg.solve(laplacian + np.diag(g), r) for g, r in each])

        u = newton(phis, x, y, solve).reshape(-1, n - 1, n - 1)
        return to_line @ u @ to_line.T

    def differences(phis: Any, level: int, last: bool) -> np.ndarray:
        n = level
        D2 = scipy.sparse.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(n - 1, n - 1)) * n**2
        laplacian = scipy.sparse.kronsum(D2, D2, format="csc")
        inner = np.arange(1, n) / n
        x, y = (g.ravel() for g in np.meshgrid(inner, inner, indexing="ij"))

        def solve(u: np.ndarray, growth: np.ndarray, right: np.ndarray) -> np.ndarray:
            rows = (laplacian @ u.T).T + right
            matrix = lambda g: (laplacian + scipy.sparse.diags(g)).tocsc()
            return np.stack(
                [scipy.sparse.linalg.spsolve(matrix(g), r) for g, r in zip(growth, rows, strict=True)]
            )

        u = newton(phis, x, y, solve).reshape(-1, n - 1, n - 1)
        return np.pad(u, ((0, 0), (1, 1), (1, 1)))[:, :: n // 40, :: n // 40]

    rivals = (
        Rival(
            "collocation at Chebyshev points, Newton's method",
            spectral, (6, 8, 10, 12, 14, 16, 20, 24, 28, 32),
        ),
        Rival(
            "finite differences of second order, Newton's method",
            differences, (40, 80, 120, 160, 200), 10,
        ),
    )  # fmt: skip
    return Case("Bratu in 2D", (line, line), rivals, (1e-4, None), steady=True)


def natural_convection() -> Case:
    line = np.linspace(0, 1, 41)

    def operators(n: int) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
        """Derivatives of the stream function and of the temperature at the inner nodes, from values
        there; and matrices to the grid, of the first, and of the second along x and along y."""
        s, D, to = chebyshev_nodes(n)
        inner, eye = slice(1, -1), np.eye(n - 1)
        # psi = s(1 − s)q with q = 0 at the ends: it vanishes there, and so does its slope.
        g = [s * (1 - s), 1 - 2 * s, np.full(n + 1, -2.0)]
        parts = lambda k: [math.comb(k, j) * g[j][:, None] * D[k - j] for j in range(min(k, 2) + 1)]
        C = [(sum(parts(k))[:, inner] / g[0][inner])[inner] for k in range(5)]
        ends = D[1][[0, -1]]  # whose slopes vanish
        low, high = -np.linalg.solve(ends[:, [0, -1]], ends[:, inner])
        back = np.vstack([low, eye, high])
        both = lambda i, j: np.kron(C[i], C[j])
        known = {
            "x": both(1, 0), "y": both(0, 1), "spin x": both(3, 0) + both(1, 2),
            "spin y": both(2, 1) + both(0, 3), "stiff": both(4, 0) + 2 * both(2, 2) + both(0, 4),
            "T x": np.kron(D[1][inner, inner], eye), "T y": np.kron(eye, (D[1] @ back)[inner]),
            "T": np.kron(D[2][inner, inner], eye) + np.kron(eye, (D[2] @ back)[inner]),
        }  # fmt: skip
        to_line = chebyshev.chebvander(2 * line - 1, n) @ to
        psi = to_line[:, inner] / g[0][inner] * (line * (1 - line))[:, None]
        return known, psi, to_line[:, inner], to_line @ back

    def step(A: dict[str, np.ndarray], z: np.ndarray, Ra: float, Pr: float) -> np.ndarray:
        """Of Newton's method."""
        psi, T = np.split(z, 2)
        at = {name: A[name] @ psi for name in ("x", "y", "spin x", "spin y", "stiff")}
        T_x, T_y = A["T x"] @ T - 1, A["T y"] @ T
        flow = at["stiff"] - Ra * T_x - (at["y"] * at["spin x"] - at["x"] * at["spin y"]) / Pr
        heat = A["T"] @ T - at["y"] * T_x + at["x"] * T_y
        by = lambda values, name: values[:, None] * A[name]
        carried = by(at["y"], "spin x") + by(at["spin x"], "y")
        carried -= by(at["x"], "spin y") + by(at["spin y"], "x")
        slopes = [
            [A["stiff"] - carried / Pr, -Ra * A["T x"]],
            [by(T_y, "x") - by(T_x, "y"), A["T"] - by(at["y"], "T x") + by(at["x"], "T y")],
        ]
        return np.linalg.solve(np.block(slopes), np.concatenate([flow, heat]))

    def spectral(phis: Any, level: int, last: bool) -> dict[str, np.ndarray]:
        """Each φ from the solution for the next smaller Ra."""
        A, psi, along_x, along_y = operators(level)
        z, found = np.zeros(2 * (level - 1) ** 2), np.zeros((len(phis["Ra"]), 2, level - 1, level - 1))
        for number in np.argsort(phis["Ra"]):
            phi, change = (phis["Ra"][number], phis["Pr"][number]), np.ones(1)
            while np.linalg.norm(change) > 1e-3 * np.linalg.norm(z):  # quadratic
                change = step(A, z, *phi)
                z = z - change
            found[number] = z.reshape(2, level - 1, level - 1)
        carried = 0.5 - line[:, None] + along_x @ found[:, 1] @ along_y.T
        return {"psi": psi @ found[:, 0] @ psi.T, "T": carried}

    words = "collocation at Chebyshev points, Newton's method"
    rival = Rival(words, spectral, (8, 10, 12, 14, 16, 20, 24))
    return Case("natural convection", (line, line), (rival,), (1e-4, None), steady=True)


def particle() -> Case:
    lines = (np.linspace(0, 1, 51), np.linspace(0, 1, 41))

    def marched(rate: Callable[..., np.ndarray], n: int, tight: float, **more: Any) -> Any:
        return scipy.integrate.solve_ivp(
            rate, (0, 1), np.full(n, 0.8), "LSODA", t_eval=lines[1], rtol=tight, atol=tight, **more
        ).y

    def collocated(speed: float, bend: float, current: float, level: int) -> np.ndarray:
        """Polynomials in r², so that the centre needs no condition."""
        r = np.sin(np.pi / 2 * np.arange(level + 1) / level)
        even = np.eye(2 * level + 1)[::2]
        by = lambda k, r: chebyshev.chebval(r, chebyshev.chebder(even, k, axis=1).T).T
        to = np.linalg.inv(by(0, r))
        first, second = by(1, r) @ to, by(2, r) @ to
        spread = second + 2 * np.vstack([second[:1], first[1:] / r[1:, None]])
        *inner, last = first[-1]

        def with_surface(t: float, c: np.ndarray) -> np.ndarray:
            """By Newton's method: D(c) c_r = −current at r = 1."""
            rest, out, surface = np.dot(inner, c), current * (1 - np.exp(-50 * t)) / speed, c[-1]
            for _ in range(4):
                slope, D = rest + last * surface, np.exp(-bend * surface)
                surface -= (D * slope + out) / (D * (last - bend * slope))
            return np.append(c, surface)

        def rate(t: float, c: np.ndarray) -> np.ndarray:
            c = with_surface(t, c)
            grown = spread @ c - bend * (first @ c) ** 2
            return (speed * np.exp(-bend * c) * grown)[:-1]

        found = marched(rate, level, max(1e-11, 10 ** -(2 + level / 2.5)))
        full = np.stack([with_surface(t, c) for t, c in zip(lines[1], found.T, strict=True)], axis=1)
        return by(0, lines[0]) @ to @ full

    def volumes(speed: float, bend: float, current: float, level: int) -> np.ndarray:
        faces = np.linspace(0, 1, level + 1)
        middle, sizes = (faces[1:] + faces[:-1]) / 2, np.diff(faces**3) / 3

        def surface(t: float, c: np.ndarray) -> Any:
            return c[-1] - current * (1 - np.exp(-50 * t)) * np.exp(bend * c[-1]) / speed / (2 * level)

        def rate(t: float, c: np.ndarray) -> np.ndarray:
            D = speed * np.exp(-bend * (c[1:] + c[:-1]) / 2)
            flux = faces[1:-1] ** 2 * D * np.diff(c) * level
            return np.diff(np.concatenate([[0.0], flux, [-current * (1 - np.exp(-50 * t))]])) / sizes

        found = marched(rate, level, max(1e-10, 0.01 / level**2), lband=1, uband=1)
        ends = [surface(t, c) for t, c in zip(lines[1], found.T, strict=True)]
        x = np.concatenate([-middle[:1], middle, [1.0]])
        values = np.vstack([found[:1], found, [ends]])
        return scipy.interpolate.CubicSpline(x, values)(lines[0])

    rivals = (
        Rival(
            "collocation at Chebyshev points, LSODA",
            each(collocated, "speed", "bend", "current"), (4, 5, 6, 8, 10, 12, 14, 16, 20),
        ),
        Rival(
            "finite volumes of second order, LSODA with banded Jacobian",
            each(volumes, "speed", "bend", "current"), (25, 50, 100, 200, 400, 800),
        ),
    )  # fmt: skip
    return Case("a battery's grain", lines, rivals, (1e-4, None))


def infiltration() -> Case:
    lines = (np.linspace(0, 1, 51), np.linspace(0, 1, 41))
    rain = lambda t: 0.9 - 0.8 * np.exp(-50 * t)

    def marched(rate: Callable[..., np.ndarray], n: int, tight: float, **more: Any) -> Any:
        return scipy.integrate.solve_ivp(
            rate, (0, 1), np.full(n, 0.1), "LSODA", t_eval=lines[1], rtol=tight, atol=tight, **more
        ).y

    def collocated(speed: float, bend: float, gravity: float, level: int) -> np.ndarray:
        _, D, to = chebyshev_nodes(level)
        first, second = D[1], D[2]
        below = -first[-1, :-1] / first[-1, -1]  # w_z = 0 there

        def whole(t: float, w: np.ndarray) -> np.ndarray:
            above = np.concatenate([[rain(t)], w])
            return np.append(above, below @ above)

        def rate(t: float, w: np.ndarray) -> np.ndarray:
            w = whole(t, w)
            slope = first @ w
            spread = speed * np.exp(bend * w) * (second @ w + bend * slope**2)
            return (spread - 2 * gravity * w * slope)[1:-1]

        found = marched(rate, level - 1, max(1e-11, 10 ** -(2 + level / 4)))
        full = np.stack([whole(t, w) for t, w in zip(lines[1], found.T, strict=True)], axis=1)
        return chebyshev.chebvander(2 * lines[0] - 1, level) @ to @ full

    def differences(speed: float, bend: float, gravity: float, level: int) -> np.ndarray:
        def rate(t: float, w: np.ndarray) -> np.ndarray:
            w = np.concatenate([[rain(t)], w, w[-2:-1]])
            middle = (w[1:] + w[:-1]) / 2
            flux = gravity * middle**2 - speed * np.exp(bend * middle) * np.diff(w) * level
            flux[-1] = 2 * gravity * w[-2] ** 2 - flux[-2]  # w_z = 0 there, half way between both
            return -np.diff(flux) * level

        found = marched(rate, level, max(1e-10, 0.01 / level**2), lband=1, uband=2)
        values = np.vstack([rain(lines[1]), found])
        return scipy.interpolate.CubicSpline(np.linspace(0, 1, level + 1), values)(lines[0])

    rivals = (
        Rival(
            "collocation at Chebyshev points, LSODA",
            each(collocated, "speed", "bend", "gravity"), (8, 10, 12, 14, 16, 20, 24, 28, 32, 40),
        ),
        Rival(
            "finite differences of second order, LSODA with banded Jacobian",
            each(differences, "speed", "bend", "gravity"), (25, 50, 100, 200, 400, 800),
        ),
    )  # fmt: skip
    return Case("rain in a soil", lines, rivals, (1e-4, None))


def each(one: Callable[..., np.ndarray], *names: str) -> Method:
    """A method that takes the φ of a batch one by one."""

    def method(phis: Any, level: int, last: bool) -> np.ndarray:
        batch = zip(*(phis[name] for name in names), strict=True)
        found = np.stack([one(*phi, level) for phi in batch])
        return found[:, :, -1] if last else found

    return method


CASES: dict[str, Callable[[], Case]] = {
    "fisher_kpp": fisher_kpp,
    "allen_cahn": allen_cahn,
    "diffusion_sorption": diffusion_sorption,
    "burgers_nu_1": lambda: burgers_case(0.1, (16, 24, 32, 48, 64, 96, 128, 192, 256), (2e-3, 2e-2)),
    "burgers_nu_01": lambda: burgers_case(
        0.01, (48, 64, 96, 128, 192, 256, 384, 512, 768), (1e-2, 5e-2)
    ),
    "heat_3d": heat_3d,
    "bratu": bratu,
    "natural_convection": natural_convection,
    "particle": particle,
    "infiltration": infiltration,
}


# --- measuring -------------------------------------------------------------------------------------
def errors_of(found: Any, truth: Any) -> np.ndarray:
    """For each φ; of several unknowns the largest."""
    if isinstance(truth, dict):
        return np.max([errors_of(found[u], truth[u]) for u in truth], axis=0)
    found = found.reshape(truth.shape)
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


def truth_of(case: Case, phis: Any) -> tuple[Any, int, float]:
    """The reference, its level, and its distance from the level before."""
    *_, before, finest = (first := case.rivals[0]).levels
    truth = first.method(phis, finest, False)
    change = 0.0 if finest == 0 else float(errors_of(first.method(phis, before, False), truth).mean())
    return truth, finest, change


def raced(rival: Rival, phis: Any, truth: Any, error: float) -> dict[str, Any]:
    """The coarsest level whose mean error is no larger, or the finest."""
    phis, truth = jax.tree.map(lambda leaf: leaf[: rival.batch], (phis, truth))
    for level in filter(None, rival.levels):
        with np.errstate(all="ignore"):  # coarse levels may blow up
            own = float(errors_of(rival.method(phis, level, False), truth).mean())
        if own <= error:
            break
    _, seconds = timed(lambda: rival.method(phis, level, True))
    return {
        "words": rival.words,
        "level": level,
        "mean": own,
        "microseconds": 1e6 * seconds / rival.batch,
    }


def problem_in(name: str) -> Any:
    path = HERE.parent / "examples" / "families" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.problem


def answered(solver: Any, phis: Any, mesh: np.ndarray) -> tuple[Any, Any]:
    """The solutions, and their values at the points."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution = solver(phis)
        return solution, jax.tree.map(np.asarray, solution(mesh))


def seconds_of(solver: Any, phis: Any, mesh: np.ndarray) -> tuple[float, float]:
    """Of a batch: of the solve alone, and with values at the points."""
    if isinstance(solver, Direct):
        began = time.perf_counter()
        solution = solver(phis)
        alone = time.perf_counter() - began
        jax.block_until_ready(solution(mesh))
        return alone, time.perf_counter() - began
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, alone = timed(lambda: np.asarray(solver(phis).weights))
        asked = solver.at_points(mesh)
        return alone, timed(lambda: jax.block_until_ready(asked(phis).values))[1]


def trained(name: str, problem: Any, budget: float | None, kept: Path | None) -> tuple[Any, float]:
    """The solver of a family, and the seconds of its training."""
    file = None if kept is None else kept / f"{name}.safetensors"
    if file is not None and file.is_file():
        solver = pdecl.load(file, problem)
        return solver, solver.training["seconds"]
    options: dict[str, Any] = {} if budget is None else {"budget": budget}
    began = time.perf_counter()
    solver = pdecl.fit(problem, progress=False, **options)
    seconds = time.perf_counter() - began
    if file is not None and not isinstance(solver, Direct):
        solver.save(file)
    return solver, seconds


def measure(name: str, budget: float | None, kept: Path | None) -> Iterator[dict[str, Any]]:
    """What is known of a family, step by step: the last is all of it."""
    case, problem = CASES[name](), problem_in(name)
    solver, seconds = trained(name, problem, budget, kept)
    print(name, f"trained in {seconds:.0f} s", solver, flush=True)
    draw = jax.vmap(lambda number: problem.parameter(jax.random.fold_in(jax.random.key(SEED), number)))
    phis = jax.tree.map(np.asarray, draw(np.arange(COUNT)))
    mesh = np.stack([g.ravel() for g in np.meshgrid(*case.lines, indexing="ij")], axis=1)
    solution, found = answered(solver, phis, mesh)
    truth, level, change = truth_of(case, phis)
    each = errors_of(found, truth)
    compiled = not isinstance(solver, Direct)
    statuses = [str(status) for status in solution.status]
    print(name, f"mean {each.mean():.1e}, worst {each.max():.1e}", flush=True)
    known = {
        "title": case.title,
        "target": case.target,
        "training": dict(solver.training),
        "seconds": seconds,
        "compiled": compiled,
        "functions": solver.functions if compiled else None,
        "rows": solver.rows if compiled else None,
        "stated": solver.error.as_dict() if compiled else None,
        "mean": float(each.mean()),
        "worst": float(each.max()),
        "median": float(np.median(each)),
        "errors": each.tolist(),
        "estimates": np.asarray(solution.error_estimate).tolist(),
        "statuses": {status: statuses.count(status) for status in sorted(set(statuses))},
        "reference": {"words": case.rivals[0].words, "level": level, "change": change},
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "versions": {"jax": jax.__version__, "numpy": np.__version__},
    }
    yield known
    known["microseconds"] = microseconds_of(solver, case, mesh, draw)
    known["rivals"] = []
    for rival in case.rivals:
        known["rivals"].append(raced(rival, phis, truth, float(each.mean())))
        yield known


def microseconds_of(solver: Any, case: Case, mesh: np.ndarray, draw: Any) -> dict[str, Any]:
    """For one φ: of a batch of 1000, of fewer where that takes long, and of a few that are solved by
    themselves."""
    end = mesh if case.steady else mesh[mesh[:, -1] == mesh[:, -1].max()]
    many = lambda count: jax.tree.map(np.asarray, draw(np.arange(COUNT, COUNT + count)))
    count = 10
    alone, with_values = seconds_of(solver, many(count), end)
    if not isinstance(solver, Direct):
        count = 1000 if alone < 0.05 else 100
        alone, with_values = seconds_of(solver, many(count), end)
    return {
        "alone": 1e6 * alone / count,
        "with values": 1e6 * with_values / count,
        "points": len(end),
        "batch": count,
    }


# --- results ---------------------------------------------------------------------------------------
HEAD = """\
# Families of φ, trained without a network and without an option

Written by `benchmarks/families.py`. Each family is a file of `examples/families/`, trained by
`pdecl.fit(problem)` and nothing else. Errors are relative L2 errors over a grid of space and time, on 50
φ that training has not seen, against a numerical method at its finest level (exact for heat); of several
unknowns the largest counts.

| family | to reach: mean; worst | mean | worst | estimate above the error; median ratio | functions \
| training, s |
| --- | --- | --- | --- | --- | --- | --- |
"""
BESIDE = """
Beside each a numerical method with as few points and steps as have the same mean error or less (or its
finest level, where that has more), in the same run, in NumPy and SciPy, for a batch of 50 φ (10 for
finite differences in two and three coordinates). Ours is for a batch of 1000 (100 where one φ takes
above 5 ms, 10 where each is solved by itself). Both end with u on a grid at the end of time, or
everywhere in a steady problem. "Paid back": the number of φ after which training has cost less than the
method would have.

| family | ours, µs a φ | method at the same error | its error | its µs a φ | ratio | paid back after |
| --- | --- | --- | --- | --- | --- | --- |
"""
TAIL = """
Measured on {machine}, in several runs: all but Bratu, a battery's grain and rain in a soil with solvers
that made their matrices for a whole batch at once, and started farther away; these three trained on one
core beside other work. The last three families and what they are to reach are our own: we expected few
functions to do. As first stated, with terms of 1e4 beside conditions of order one, natural convection
had no small basis; its equation was then divided by Ra, and it trained beside other work. Solvers
balance their equations since.

Three things decide. How few functions a family needs: four for diffusion and
sorption, hundreds for fronts that move. How stiff it is: an implicit method pays for each step, a
compiled solver for none. And how well a method is made for its problem: Fourier's series on a periodic
line, or Chebyshev points in a cube where heat separates, have little left to win. With hundreds of
functions the operations of a compiled solver are those that weigh its rows, n²N for n rows and N
functions in each step, and those of its Gram matrix, nN².

Published figures for orientation, with other grids, draws and references: a Fourier neural operator
trained on 9000 solutions has an nRMSE of 2.9e-3 (ν = 0.1) and 7.8e-3 (ν = 0.01) on PDEBench's Burgers
family, 1.7e-3 on its diffusion–sorption.
"""


def page(results: dict[str, Any]) -> str:
    cases = [(name, results["cases"][name]) for name in CASES if name in results["cases"]]
    out = HEAD
    for _, r in cases:
        mean, worst = r["target"]
        covered, ratio = coverage([r])
        to_reach = f"{mean:.0e}; {'–' if worst is None else f'{worst:.0e}'}"
        out += (
            f"| {r['title']} | {to_reach} | {r['mean']:.1e} | {r['worst']:.1e} | {covered:.0%}; "
            f"{ratio:.1f} | {r['functions'] or 'none: each φ by itself'} | {r['seconds']:.0f} |\n"
        )
    covered, ratio = coverage([r for _, r in cases])
    out += (
        f"\nOver all families the stated estimate is above the true error for {covered:.0%} of φ; the "
        f"median of their ratio is {ratio:.1f}.\n{BESIDE}"
    )
    for _, r in cases:
        for other in r.get("rivals", []):
            ours = r["microseconds"]["with values"]
            gain = other["microseconds"] - ours
            paid = f"{r['seconds'] / (1e-6 * gain):,.0f} φ" if gain > 0 else "–"
            out += (
                f"| {r['title']} | {plainly(ours)} | {other['words']}, level {other['level']} "
                f"| {other['mean']:.1e} | {other['microseconds']:,.0f} "
                f"| {plainly(other['microseconds'] / ours)} | {paid} |\n"
            )
    machines = sorted({r["machine"] for _, r in cases})
    return out + TAIL.format(machine="; ".join(machines))


def plainly(x: float) -> str:
    """Two digits, and no powers of ten."""
    digits = 1 - int(np.floor(np.log10(x)))
    return f"{round(x, digits):,.{max(digits, 0)}f}"


def coverage(cases: list[dict[str, Any]]) -> tuple[float, float]:
    """The share of φ whose error is below the estimate, and the median of estimate over error."""
    errors, estimates = (np.concatenate([r[key] for r in cases]) for key in ("errors", "estimates"))
    return float(np.mean(errors <= estimates)), float(np.median(estimates / errors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help=", ".join(CASES))
    parser.add_argument("--budget", type=float, help="seconds of training")
    parser.add_argument("--limit", type=float, help="seconds after which it ends, whatever it does")
    parser.add_argument("--solvers", type=Path, help="a folder of compiled solvers, kept or taken")
    parser.add_argument("--out", type=Path, help="a file for these families alone")
    parser.add_argument("--merge", type=Path, nargs="+", default=[], help="files made by --out")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(CASES):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(CASES)}")
    jax.config.update("jax_enable_x64", True)
    if arguments.limit is not None:
        faulthandler.dump_traceback_later(arguments.limit, exit=True)
    path = arguments.out or RESULTS / "families.json"
    results = json.loads(path.read_text()) if path.is_file() else {"cases": {}}
    for file in arguments.merge:
        results["cases"] |= json.loads(file.read_text())["cases"]
    names = arguments.names or ([] if arguments.merge else list(CASES))
    for name in names:
        for known in measure(name, arguments.budget, arguments.solvers):
            results["cases"][name] = known
            write(path, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    if arguments.out is None:
        write(path, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        write(RESULTS / "families.md", page(results))


def write(path: Path, text: str) -> None:
    """As a whole or not at all."""
    beside = path.with_suffix(".part")
    beside.write_text(text)
    beside.replace(path)


if __name__ == "__main__":
    main()
