"""PINNacle's two inverse problems: a coefficient a(x, y) that is unknown inside, from noisy values of u.

a is what its boundary values say (blended into the square) plus sines that vanish on the boundary, as
many as the data ask for: the one that would lower the misfit most is added, while the misfit falls by
more than ln n (the Bayesian information criterion). Each guess is a solve to a tolerance, and the
derivatives of u at the sensors come from it by the implicit function theorem.

Two things are other than published. There nothing is said of u on the boundary, and of the heat's start:
data with noise of 0.1 then leave the amplitude of a's first sine open by more than its size (PInv). So
u = 0 on the boundary is given, and the start is unknown: sines too. And f is made from the exact a and
u; the published f of PInv has 2x + 1 where they want 2x − 1.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import pdecl
from pdecl import Box, Fit, Problem

NOISE, COUNT, TOLERANCE = 0.1, 2500, 1e-3
_MODES = 4  # sines in each coordinate that may be asked for
_STEPS = 6  # of Gauss and Newton for each number of sines


@dataclass(frozen=True)
class Inverse:
    """`coefficient`, `solution`: what is to be found, and the u that data are made from, at a point.
    `sensors()`: where u is seen. `basis`: to solve with, in place of a tolerance."""

    title: str
    published: str
    box: Box
    coefficient: Callable[[Any], Any]
    solution: Callable[[Any], Any]
    sensors: Callable[[], np.ndarray]
    basis: Callable[[Any, Any], Any] | None = None


def sines(box: Box, x: Any) -> Any:
    """(4, 4) products that vanish on the boundary of the first two coordinates."""
    each = [
        jnp.sin(jnp.arange(1, _MODES + 1) * jnp.pi * (x[k] - low) / (high - low))
        for k, (low, high) in enumerate(box.bounds[:2])
    ]
    return jnp.outer(*each)


def blended(case: Inverse, x: Any) -> Any:
    """What is known of a on the sides, linear in between (Coons)."""
    (x0, x1), (y0, y1) = case.box.bounds[:2]
    a = lambda *at: case.coefficient(jnp.stack([jnp.asarray(value, float) for value in at]))
    s, t = (x[0] - x0) / (x1 - x0), (x[1] - y0) / (y1 - y0)
    sides = (1 - s) * a(x0, x[1]) + s * a(x1, x[1]) + (1 - t) * a(x[0], y0) + t * a(x[0], y1)
    corners = (1 - s) * ((1 - t) * a(x0, y0) + t * a(x0, y1)) + s * ((1 - t) * a(x1, y0) + t * a(x1, y1))
    return sides - corners


def guessed(case: Inverse, phi: Any, x: Any) -> Any:
    """a for these amplitudes."""
    return blended(case, x) + jnp.sum(phi["a"] * sines(case.box, x))


def problem_of(case: Inverse) -> Problem:
    box = case.box
    names = box.names
    at = lambda z: jnp.stack([getattr(z, name) for name in names])

    def flows(a: Callable[[Any], Any], u: Callable[[Any], Any], x: Any) -> Any:
        """∇·(a∇u) of functions of a point."""
        flux = lambda x: a(x[:2]) * jax.grad(u)(x)[:2]
        return jnp.trace(jax.jacfwd(flux)(x)[:, :2])

    def balance(u: Any, z: Any, phi: Any) -> Any:
        x = at(z)
        a = lambda p: guessed(case, phi, p)
        slope, inner = jax.grad(a)(x[:2]), slice(0, 2)
        ahead = sum(s * u.d(n) for s, n in zip(slope, names[inner], strict=True))
        spread = a(x[:2]) * sum(u.d(n, n) for n in names[inner]) + ahead
        source = -flows(case.coefficient, case.solution, x)
        if len(names) == 2:
            return spread + source
        return u.d("t") - spread - source - jax.grad(case.solution)(x)[2]

    conditions = [
        Fit(balance, on=box.interior, name="pde"),
        Fit(lambda u, z, phi: u(), on=box.faces("x", "y"), name="boundary"),
    ]
    if len(names) == 3:
        begins = lambda u, z, phi: u() - jnp.sum(phi["start"] * sines(box, at(z)))
        conditions.append(Fit(begins, on=box.face(t=0), name="start"))
    return Problem(box, conditions)


def recovered(case: Inverse, problem: Problem, points: np.ndarray, data: np.ndarray) -> Any:
    """The amplitudes that the data ask for, and their covariance."""
    names = ["a"] if len(case.box.names) == 2 else ["a", "start"]
    unravel = lambda flat: dict(zip(names, jnp.reshape(flat, (-1, _MODES, _MODES)), strict=True))

    def values(flat: Any) -> tuple[Any, Any]:
        if case.basis is None:
            u = pdecl.solve(problem, unravel(flat), tolerance=TOLERANCE, progress=False)(points)
        else:
            u = pdecl.solve(problem, case.basis, unravel(flat), throw=False)(points)
        return u, u

    slopes_of = jax.jacfwd(values, has_aux=True)
    slopes_of = slopes_of if case.basis is None else jax.jit(slopes_of)

    def linearised(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """In units of the noise: derivatives of u at the sensors, and what is left of the data."""
        slopes, u = slopes_of(jnp.asarray(flat))
        return np.asarray(slopes) / NOISE, (data - np.asarray(u)) / NOISE

    flat, chosen = np.zeros(len(names) * _MODES**2), []
    slopes, left = linearised(flat)
    while True:
        Q = np.linalg.qr(slopes[:, chosen])[0]
        new, rest = slopes - Q @ (Q.T @ slopes), left - Q @ (Q.T @ left)
        lengths = np.linalg.norm(new, axis=0)
        falls = np.where(lengths > 1e-6 * lengths.max(), new.T @ rest / np.maximum(lengths, 1e-300), 0.0)
        falls[chosen] = 0.0
        most = int(np.argmax(np.abs(falls)))
        if falls[most] ** 2 < np.log(len(data)):
            break
        chosen.append(most)
        for _ in range(_STEPS):
            step = np.linalg.lstsq(slopes[:, chosen], left)[0]
            flat[chosen] += step
            change = float(np.linalg.norm(slopes[:, chosen] @ step))
            slopes, left = linearised(flat)
            if change < 0.1:  # of the noise's own size
                break
    spread = np.zeros((flat.size, flat.size))
    spread[np.ix_(chosen, chosen)] = np.linalg.inv(slopes[:, chosen].T @ slopes[:, chosen])
    return unravel(flat), spread


def measure(case: Inverse, seed: int) -> dict[str, Any]:
    """The relative L2 error of a for a draw of the noise, and the one that is to be expected."""
    jax.clear_caches()  # the seconds include all compilation
    points, problem = case.sensors(), problem_of(case)
    exact = np.asarray(jax.vmap(case.solution)(points))
    data = exact + NOISE * np.random.default_rng(seed).standard_normal(len(points))
    began = time.perf_counter()
    phi, spread = recovered(case, problem, points, data)
    seconds = time.perf_counter() - began
    mesh = Box(**dict(zip(case.box.names[:2], case.box.bounds[:2], strict=True))).mesh(101, 101)
    truth = np.asarray(jax.vmap(case.coefficient)(mesh))
    found = np.asarray(jax.vmap(lambda x: guessed(case, phi, x))(mesh))
    waves = np.asarray(jax.vmap(lambda x: sines(case.box, x).ravel())(mesh))
    count = waves.shape[1]
    variance = np.einsum("ij,jk,ik->i", waves, spread[:count, :count], waves)
    return {
        "seed": seed,
        "error": float(np.linalg.norm(found - truth) / np.linalg.norm(truth)),
        "stated": float(np.sqrt(variance.sum()) / np.linalg.norm(truth)),
        "seconds": seconds,
        "amplitudes": {name: int(np.count_nonzero(x)) for name, x in phi.items()},
    }


def waves_of(x: Any) -> Any:
    return jnp.sin(np.pi * x[0]) * jnp.sin(np.pi * x[1])


def vanishing(x: Any, phi: Any) -> Any:
    """Polynomials in time times polynomials in space that vanish on the sides."""

    def chebyshev(s: Any, count: int) -> Any:
        found = [jnp.ones_like(s), s]
        for _ in range(count - 2):
            found.append(2 * s * found[-1] - found[-2])
        return jnp.stack(found)

    along = [(1 - x[k] ** 2) * chebyshev(x[k], 7) for k in range(2)]
    return jnp.einsum("i,j,k->ijk", *along, chebyshev(2 * x[2] - 1, 12)).ravel()


SQUARE = Box(x=(0, 1), y=(0, 1))
WITH_TIME = Box(x=(-1, 1), y=(-1, 1), t=(0, 1))
CASES = {
    "poisson_inverse": Inverse(
        "PInv (the coefficient)",
        "2.5e-2",
        SQUARE,
        lambda x: 1 / (1 + x[0] ** 2 + x[1] ** 2 + (x[0] - 1) ** 2 + (x[1] - 1) ** 2),
        waves_of,
        lambda: np.asarray(SQUARE.mesh(50, 50)),
    ),
    "heat_inverse": Inverse(
        "HInv (the coefficient)",
        "5.3e-2",
        WITH_TIME,
        lambda x: 2 + waves_of(x),
        lambda x: jnp.exp(-x[2]) * waves_of(x),
        lambda: np.random.default_rng(7).uniform([-1, -1, 0], 1, (COUNT, 3)),
        vanishing,
    ),
}
