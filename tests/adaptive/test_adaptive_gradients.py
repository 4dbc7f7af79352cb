"""Derivatives with respect to φ of solves to a tolerance, against central differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdecl
from pdecl import Box, Fit, Problem

PI = np.pi
SQUARE, LINE = Box(x=(0, 1), t=(0, 1)), Box(x=(0, 1))
POINTS = np.random.default_rng(0).random((30, 2))


def periodic_reaction():
    """φ is in the equation and in the start."""
    gap = lambda u, *by: u.d(*by) - u.at("opposite").d(*by)
    pde = lambda u, z, phi: (
        u.d("t") + u.d("x") - phi["k"] * u.d("x", "x") + phi["r"][0] * u() ** 2 - phi["r"][1]
    )
    conditions = [
        Fit(pde, on=SQUARE.interior),
        Fit(lambda u, z, phi: u() - 1 - phi["k"] * jnp.sin(2 * PI * z.x), on=SQUARE.face(t=0)),
        Fit(lambda u, z, phi: (gap(u), gap(u, "x")), on=SQUARE.periodic("x")),
    ]
    phi = {"k": jnp.asarray(0.1), "r": jnp.array([0.5, 0.2])}
    return Problem(SQUARE, conditions), phi, lambda u: jnp.sum(u(POINTS) ** 2)


def oscillation_with_a_pressure():
    """Second order in time for u; p has no derivative by time and no start."""
    pde = lambda w, z, phi: (
        w.u.d("t", "t") - w.u.d("x", "x") + w.p() * w.u(),
        w.p.d("x", "x") - w.p() - phi["q"] * w.u() ** 2,
    )
    conditions = [
        Fit(pde, on=SQUARE.interior),
        Fit(lambda w, z, phi: w.u() - jnp.sin(PI * z.x), on=SQUARE.face(t=0)),
        Fit(lambda w, z, phi: w.u.d("t") - phi["v"] * jnp.sin(PI * z.x), on=SQUARE.face(t=0)),
        Fit(lambda w, z, phi: (w.u(), w.p.d("x")), on=SQUARE.faces("x")),
    ]
    phi = {"q": jnp.asarray(2.0), "v": jnp.asarray(1.0)}
    functional = lambda w: jnp.sum(w(POINTS)["u"] ** 2) + jnp.sum(w.d("x")(POINTS)["p"])
    return Problem(SQUARE, conditions, unknowns=("u", "p")), phi, functional


def steady_bratu():
    conditions = [
        Fit(lambda u, z, phi: u.d("x", "x") + phi[0] * jnp.exp(u()) + phi[1], on=LINE.interior),
        Fit(lambda u, z, phi: u() - phi[1], on=LINE.faces("x")),
    ]
    return Problem(LINE, conditions), jnp.array([1.0, 0.3]), lambda u: jnp.sum(u(POINTS[:, :1]) ** 2)


@pytest.mark.parametrize("case", [periodic_reaction, oscillation_with_a_pressure, steady_bratu])
def test_gradients_are_those_of_differences(case):
    problem, phi, functional = case()
    direction = jax.tree.map(lambda x: jnp.cos(jnp.arange(x.size)).reshape(x.shape), phi)
    moved = lambda step: jax.tree.map(lambda p, d: p + step * d, phi, direction)
    value = lambda phi, tolerance=1e-5: functional(pdecl.solve(problem, phi, tolerance=tolerance))
    difference = (value(moved(1e-3), 1e-7) - value(moved(-1e-3), 1e-7)) / 2e-3
    along = lambda slope: sum(map(jnp.vdot, jax.tree.leaves(slope), jax.tree.leaves(direction)))
    slope = jax.jit(jax.grad(value))(phi)
    assert float(along(slope)) == pytest.approx(float(difference), rel=1e-4)
    _, forward = jax.jvp(value, (phi,), (direction,))
    assert float(forward) == pytest.approx(float(along(slope)), rel=1e-6)


def test_jit_vmap_and_points():
    problem, phi, _ = steady_bratu()
    solve = lambda phi: pdecl.solve(problem, phi, tolerance=1e-6)
    points = jnp.array([[0.2], [0.7]])
    solution = solve(phi)
    np.testing.assert_array_equal(jax.jit(lambda p: solve(p)(points))(phi), solution(points))
    both = jax.jit(lambda p, x: jax.grad(lambda x: jnp.sum(solve(p)(x) ** 2))(x))(phi, points)
    np.testing.assert_allclose(both[:, 0], 2 * solution(points) * solution.d("x")(points), rtol=1e-9)
    slopes = jax.vmap(jax.grad(lambda p: jnp.sum(solve(p)(points))))(jnp.stack([phi, 0.5 * phi]))
    rows = jax.jacrev(lambda p: solve(p)(points))(0.5 * phi)
    np.testing.assert_allclose(slopes[1], rows.sum(axis=0), rtol=1e-9)
    with pytest.raises(NotImplementedError, match="second derivatives"):
        jax.hessian(lambda p: jnp.sum(solve(p)(points)))(phi)
