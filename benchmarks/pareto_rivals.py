"""The numerical solvers that `pareto.py` puts beside the layer: the strongest, then one of each kind."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from fast_solvers import (
    box_on_jax,
    characteristics,
    cole_hopf,
    conjugate_gradients,
    etdrk4,
    tabulated_characteristics,
    travel_times,
)
from pareto_methods import Case, Method, Program, interpolation, of_the_grid
from scipy.sparse.linalg import spsolve

from pdecl.problems import burgers as burgers_law
from pdecl.problems import convection as convection_law
from pdecl.problems.convection.reference import position_at
from pdecl.problems.darcy.grid import face_coefficients, flux_balance, upscaled_faces
from pdecl.problems.darcy.reference import from_faces

SINGLE, DOUBLE = np.float32, np.float64


def rivals(case: Case, quick: bool) -> Iterator[Method]:
    """The numerical solvers of a problem; two of them if `quick`."""
    found = {"burgers": burgers, "convection": convection, "darcy": darcy}[case.trained.family.name](
        case
    )
    for place, method in enumerate(found):
        if quick and place == 2:
            return
        yield method


def burgers(case: Case) -> Iterator[Method]:
    """The Cole–Hopf formula, and Fourier modes with ETDRK4 steps."""
    viscosity = case.trained.family.viscosity  # type: ignore[attr-defined]

    def formula(points: int, dtype: Any, main: bool = False) -> Method:
        solve = lambda _, u0: cole_hopf(burgers_law.coefficients(u0), viscosity, points)
        few = partial(_cole_hopf_at, viscosity, points, *case.nodes[case.ten].T)
        setting = f"{points} points, {np.dtype(dtype).name}"
        return Method(
            "numerical", "Cole–Hopf formula", setting, Program(solve), Program(few), dtype, main=main
        )

    def steps(points: int, count: int, dtype: Any, main: bool = False) -> Method:
        def solve(_: Any, u0: Any) -> Any:
            return etdrk4(burgers_law.coefficients(u0), viscosity, points, count)

        setting = f"{points} points, {count} steps, {np.dtype(dtype).name}"
        grid = Program(solve)
        return Method(
            "numerical", "ETDRK4", setting, grid, of_the_grid(grid, case), dtype, main=main,
            facts={"points": points, "steps": count},
        )  # fmt: skip

    yield formula(64, SINGLE, main=True)
    yield steps(64, 10, SINGLE, main=True)
    yield steps(64, 25, SINGLE)
    yield formula(128, DOUBLE)
    yield formula(32, SINGLE)
    yield steps(32, 10, SINGLE)
    yield steps(24, 4, SINGLE)
    yield steps(16, 4, SINGLE)
    yield steps(128, 100, DOUBLE)
    yield steps(256, 200, DOUBLE)


def convection(case: Case) -> Iterator[Method]:
    """Characteristics, directly and through a table, and the box scheme (coarser than the standard grid
    with cubic splines between its nodes)."""

    def exact(polish: int, dtype: Any, main: bool = False) -> Method:
        solve = lambda _, beta: characteristics(beta, convection_law.slopes(beta), polish)
        rows, columns = np.unravel_index(case.ten, case.shape)
        few = partial(_characteristics_at, polish, case.axes["t"][rows], columns)
        return Method(
            "numerical", "characteristics", f"{polish} Newton steps, {np.dtype(dtype).name}",
            Program(solve), Program(few), dtype, main=main,
        )  # fmt: skip

    def tabulated(cells: int, dtype: Any, main: bool = False) -> Method:
        grid = Program(
            lambda _, beta: tabulated_characteristics(beta, convection_law.slopes(beta), cells)
        )
        return Method(
            "numerical", "tabulated characteristics", f"{cells} cells, {np.dtype(dtype).name}", grid,
            of_the_grid(grid, case), dtype, main=main,
        )  # fmt: skip

    def box(nodes: int, dtype: Any = SINGLE, main: bool = False) -> Method:
        side = case.shape[0]
        stride, spread = (nodes - 1) // (side - 1), interpolation(min(nodes, side), side)

        def solve(_: Any, beta: Any) -> Any:
            u = box_on_jax(convection_law.speed(beta, np.linspace(0, 1, nodes)).astype(dtype))
            return u[:, ::stride, ::stride] if stride else _between(spread, u)

        grid = Program(solve)
        return Method(
            "numerical", "box scheme", f"{nodes}², {np.dtype(dtype).name}", grid,
            of_the_grid(grid, case), dtype, main=main, facts={"nodes": nodes},
        )  # fmt: skip

    yield exact(0, SINGLE, main=True)
    yield box(101, main=True)
    yield tabulated(16, SINGLE, main=True)
    yield box(51)
    yield box(26)
    yield tabulated(4, SINGLE)
    yield tabulated(128, DOUBLE)
    yield exact(2, DOUBLE)
    yield box(201)
    yield box(401, DOUBLE)


def darcy(case: Case) -> Iterator[Method]:
    """Five-point schemes by conjugate gradients with a fast Poisson solve, direct and by multigrid.

    Those on coarser grids average ν over the faces of their cells (`upscaled_faces`), and are
    interpolated to the standard grid by cubic splines.
    """
    side = case.shape[0]
    coarse = [n for n in (61, 85, 141) if n < side and (side - 1) % (n - 1) == 0] or [side // 2 + 1]

    def steps_on(nodes: int, steps: int, dtype: Any, main: bool = False) -> Method:
        spread = interpolation(nodes, side)

        def solve(_: Any, nu: Any) -> Any:
            u = poisson_cg(_faces(nu, nodes), steps)
            return u if nodes == side else _between(spread, u)

        return _darcy_method(
            case, "fast-Poisson CG", f"{nodes}², {steps} steps, {np.dtype(dtype).name}", solve, dtype,
            main, facts={"nodes": nodes, "steps": steps},
        )  # fmt: skip

    def polished(nodes: int, steps: int, dtype: Any) -> Method:
        spread = interpolation(nodes, side)

        def solve(_: Any, nu: Any) -> Any:
            start = _between(spread, poisson_cg(_faces(nu, nodes), 6))
            return conjugate_gradients(nu, steps, start * _inside(side, nu.dtype))

        setting = f"{nodes}², then {steps} steps on {side}², {np.dtype(dtype).name}"
        return _darcy_method(case, "fast-Poisson CG", setting, solve, dtype, differentiable=False)

    def plain(name: str, nodes: int, setting: str, one: Callable[..., Any], **options: Any) -> Method:
        spread = interpolation(nodes, side)

        def solve(_: Any, nu: np.ndarray) -> np.ndarray:
            finish = lambda u: u if nodes == side else spread @ u @ spread.T
            each = lambda nu: finish(one(_faces(nu, nodes)))
            if options.get("serial") or len(nu) == 1:
                return np.stack([each(x) for x in nu])
            with ThreadPoolExecutor() as threads:
                return np.stack(list(threads.map(each, nu)))

        return Method(
            "numerical", name, f"{nodes}², {setting}", Program(solve), traced=False,
            differentiable=False, facts={"nodes": nodes}, **options,
        )  # fmt: skip

    yield steps_on(coarse[0], 6, SINGLE, main=True)
    yield steps_on(side, 6, SINGLE, main=True)
    name, multigrid = "fast-Poisson CG (NumPy)", _multigrid()
    for nodes in (side, coarse[0], coarse[-1]):
        yield plain("sparse direct (SuperLU)", nodes, "float64", partial(_sparse, spsolve), serial=True)
        if multigrid is not None:
            yield plain("multigrid (pyamg)", nodes, "to 1e-6", partial(_sparse, multigrid), serial=True)
    for nodes, tolerance in [(side, 1e-3), (coarse[0], 1e-3), (side, 1e-2), (side, 1e-6)]:
        yield plain(name, nodes, f"to {tolerance:.0e}", partial(from_faces, tolerance=tolerance))
    yield steps_on(coarse[-1], 8, SINGLE)
    if len(coarse) > 1:
        yield steps_on(coarse[1], 6, SINGLE)
    yield polished(coarse[0], 2, SINGLE)
    yield polished(coarse[0], 4, SINGLE)
    yield steps_on(side, 4, SINGLE)
    yield steps_on(side, 12, DOUBLE)


def poisson_cg(faces: tuple[Any, Any], steps: int) -> Any:
    """As `conjugate_gradients`, for ν on faces; differentiated by one more solve, not step by step."""
    nodes = faces[0].shape[-2] + 1
    numbers = np.arange(1, nodes - 1)
    angles = np.pi * (np.outer(numbers, numbers) % (2 * (nodes - 1))) / (nodes - 1)
    dtype = faces[0].dtype
    sines = jnp.asarray(np.sqrt(2 / (nodes - 1)) * np.sin(angles), dtype)
    stretch = 2 - 2 * np.cos(np.pi * numbers / (nodes - 1))
    symbol = jnp.asarray(stretch[:, None] + stretch, dtype)
    pad = lambda u: jnp.pad(u, [(0, 0)] * (u.ndim - 2) + [(1, 1), (1, 1)])
    apply = lambda u: flux_balance(faces, pad(u))
    inner = lambda a, b: jnp.sum(a * b, axis=(-2, -1), keepdims=True)
    ratio = lambda a, b: jnp.where(b > 0, a / jnp.where(b > 0, b, 1), 0)

    def precondition(residual: Any) -> Any:
        product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
        turn = lambda values: product(product(sines, values), sines)
        return turn(turn(residual) / symbol)

    def solve(apply: Callable[[Any], Any], load: Any) -> Any:
        def step(_: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
            u, residual, direction, size = state
            image = apply(direction)
            length = ratio(size, inner(direction, image))
            u, residual = u + length * direction, residual - length * image
            improved = precondition(residual)
            size, before = inner(residual, improved), size
            return u, residual, improved + ratio(size, before) * direction, size

        first = precondition(load)
        state = (jnp.zeros_like(load), load, first, inner(load, first))
        return jax.lax.fori_loop(0, steps, step, state)[0]

    # The load is constant, but the compiler must not know: it would multiply it out beforehand.
    load = 0 * jax.lax.stop_gradient(faces[0][..., 1:, :]) + (nodes - 1.0) ** -2
    return pad(jax.lax.custom_linear_solve(apply, load, solve, symmetric=True))


def _darcy_method(
    case: Case,
    name: str,
    setting: str,
    solve: Callable[[Any, Any], Any],
    dtype: Any,
    main: bool = False,
    differentiable: bool = True,
    facts: Any = None,
) -> Method:
    grid = Program(solve)
    return Method(
        "numerical", name, setting, grid, of_the_grid(grid, case), dtype, main=main,
        differentiable=differentiable, facts=facts or {},
    )  # fmt: skip


def _faces(nu: Any, nodes: int) -> tuple[Any, Any]:
    return face_coefficients(nu) if nodes == nu.shape[-1] else upscaled_faces(nu, nodes)


def _between(spread: np.ndarray, u: Any) -> Any:
    matrix = jnp.asarray(spread, u.dtype)
    product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    return product(product(matrix, u), matrix.T)


def _inside(side: int, dtype: Any) -> np.ndarray:
    """One at interior nodes, zero on the boundary, where rounding may have left something."""
    mask = np.zeros((side, side), dtype)
    mask[1:-1, 1:-1] = 1
    return mask


def _sparse(solver: Callable[[Any, np.ndarray], np.ndarray], faces: tuple[Any, Any]) -> np.ndarray:
    """The five-point scheme as a sparse matrix, times h², and its solution."""
    across_x, across_y = faces
    inner = across_x.shape[1]
    diagonal = across_x[1:] + across_x[:-1] + across_y[:, 1:] + across_y[:, :-1]
    beside = across_y[:, 1:].copy()
    beside[:, -1] = 0
    below, right = -across_x[1:-1].ravel(), -beside.ravel()[:-1]
    matrix = scipy.sparse.diags_array(
        [diagonal.ravel(), below, below, right, right], offsets=[0, inner, -inner, 1, -1], format="csc"
    )
    load = np.full(inner * inner, (inner + 1.0) ** -2)
    return np.pad(solver(matrix, load).reshape(inner, inner), 1)


def _multigrid() -> Callable[[Any, np.ndarray], np.ndarray] | None:
    try:
        from pyamg import ruge_stuben_solver
    except ImportError:
        return None
    return lambda matrix, load: ruge_stuben_solver(matrix.tocsr()).solve(load, tol=1e-6, accel="cg")


def _cole_hopf_at(
    viscosity: float, points: int, x: np.ndarray, t: np.ndarray, _: Any, u0: Any
) -> jax.Array:
    """The Cole–Hopf formula at a few (x, t) alone."""
    waves = burgers_law.coefficients(u0)
    real, modes = u0.dtype, points // 2 + 1
    frequencies = 2 * np.pi * np.arange(modes)
    kept = min(modes, waves.shape[-1])
    padded = jnp.pad(waves[:, :kept], ((0, 0), (0, modes - kept)))
    inverse = np.concatenate([[0.0], 1 / (1j * frequencies[1:])])
    exponent = jnp.fft.irfft(padded * jnp.asarray(inverse, waves.dtype), n=points)
    exponent = exponent * (-points / (2 * viscosity))
    theta = jnp.fft.rfft(jnp.exp(exponent - exponent.max(axis=-1, keepdims=True))) / points
    mean = waves[:, 0].real
    doubled = np.where(np.arange(modes) == 0, 1.0, 2.0)
    decay = doubled * np.exp(-viscosity * np.outer(t, frequencies**2))
    shift = jnp.asarray(x, real) - mean[:, None] * jnp.asarray(t, real)
    turned = jnp.exp(1j * shift[..., None] * jnp.asarray(frequencies, real))
    terms = theta[:, None, :] * jnp.asarray(decay, real) * turned
    slope = jnp.sum(-jnp.asarray(frequencies, real) * terms.imag, axis=-1)
    return mean[:, None] - 2 * viscosity * slope / jnp.sum(terms.real, axis=-1)


def _characteristics_at(polish: int, t: np.ndarray, columns: np.ndarray, _: Any, beta: Any) -> jax.Array:
    """Characteristics through a few nodes of the grid alone."""

    def one(beta: Any) -> Any:
        slopes = convection_law.slopes(beta)
        arrival, travel = travel_times(beta, slopes)
        back = travel[columns] - jnp.asarray(t, beta.dtype)
        start = position_at(beta, slopes, arrival, jnp.maximum(back, 0), polish)
        return jnp.where(back <= 0, jnp.sin(-np.pi / 2 * back), jnp.sin(np.pi * start))

    return jax.vmap(one)(beta)
