"""Which conditions are found to be affine in u: those, and only those, that one linear solve answers."""

import jax
import jax.numpy as jnp
import pytest

import pdecl
from pdecl.layer.system import make_plan

BOX = pdecl.Box(x=(0, 1), t=(0, 1))
PHI = {"k": jnp.asarray(0.5), "a": jnp.linspace(1.0, 2.0, 5)}
GRID = jnp.linspace(0.0, 1.0, 5)


def affine(kind, equation):
    points = pdecl.Points(
        [[0.2, 0.3], [0.6, 0.7]],
        partners={"there": [[0.0, 0.3], [0.0, 0.7]]},
        normal=[[1.0, 0.0], [0.0, 1.0]],
        value=[1.0, 2.0],
    )
    problem = pdecl.Problem(BOX, [kind(equation, on=points)])
    basis = lambda x, phi: jnp.stack([x[0], x[1], x[0] * x[1]])
    return make_plan(problem, basis, PHI, (points,)).affine == (True,)


AFFINE = {
    "value": lambda u, z, p: u(),
    "heat": lambda u, z, p: u.d("t") - p["k"] * u.d("x", "x"),
    "source": lambda u, z, p: u.d("x", "x") + jnp.exp(z.x) * jnp.sin(z.t) - z.value**2,
    "times a power of z": lambda u, z, p: z.x**3 * u.d("x") + z.t**0.5 * u(),
    "divided by phi": lambda u, z, p: u.d("x") / p["k"] + u() / (1 + z.x),
    "variable coefficient": lambda u, z, p: jnp.interp(z.x, GRID, p["a"]) * u.d("x", "x"),
    "flux": lambda u, z, p: jax.grad(jnp.exp)(z.x) * u.d("x") + jnp.exp(z.x) * u.d("x", "x"),
    "phi indexed": lambda u, z, p: p["a"][2] * u() - p["a"][0],
    "where on z": lambda u, z, p: jnp.where(z.x > 0.5, u.d("x"), 2 * u()),
    "where on phi": lambda u, z, p: jnp.where(p["k"] > 0, u(), -u()),
    "cond on z": lambda u, z, p: jax.lax.cond(z.t > 0, lambda v: 2 * v, lambda v: v - 1, u()),
    "dot product": lambda u, z, p: jnp.stack([u.d("x"), u.d("t")]) @ z.normal,
    "normal derivative": lambda u, z, p: u.dn() + p["k"] * u() - z.value,
    "partner": lambda u, z, p: u() - u.at("there")(),
    "sum": lambda u, z, p: jnp.sum(jnp.stack([u(), z.x])) + jnp.mean(jnp.stack([u(), u.d("t")])),
    "matrix": lambda u, z, p: (jnp.arange(4.0).reshape(2, 2) @ jnp.stack([u(), u.d("x")]))[1],
    "cast to double": lambda u, z, p: u().astype(jnp.float64),
    "tuple": lambda u, z, p: (u() - 1, 3 * u.d("x")),
    "power one": lambda u, z, p: u() ** 1,
    "jitted inside": lambda u, z, p: jax.jit(lambda v: 2 * v + 1)(u()),
    "sign of z": lambda u, z, p: jnp.sign(z.x) * u() + jnp.abs(z.t),
    "unused nonlinearity": lambda u, z, p: (u() ** 2, u())[1],
}  # fmt: skip
NONLINEAR = {
    "square": lambda u, z, p: u() ** 2,
    "one of two outputs": lambda u, z, p: jax.jit(lambda v: (v, 2 * v))(u() ** 2)[1],
    "power of phi": lambda u, z, p: u() ** p["k"],
    "Burgers": lambda u, z, p: u.d("t") + u() * u.d("x") - p["k"] * u.d("x", "x"),
    "product of derivatives": lambda u, z, p: u.d("x") * u.d("t"),
    "square by product": lambda u, z, p: u() * u(),
    "division by u": lambda u, z, p: 1 / u(),
    "u over u": lambda u, z, p: u.d("x") / (1 + u()),
    "sine": lambda u, z, p: jnp.sin(u()),
    "exponential": lambda u, z, p: u.d("x", "x") + jnp.exp(u()),
    "where on u": lambda u, z, p: jnp.where(u() > 0, u(), 2 * u()),
    "constants by the sign of u": lambda u, z, p: jnp.where(u() > 0, 1.0, -1.0),
    "cond on u": lambda u, z, p: jax.lax.cond(u() > 0, lambda v: v, lambda v: 2 * v, u()),
    "nonlinear branch": lambda u, z, p: jax.lax.cond(z.x > 0, lambda v: v, lambda v: v**2, u()),
    "sign": lambda u, z, p: jnp.sign(u()),
    "stop_gradient": lambda u, z, p: u.d("t") + jax.lax.stop_gradient(u()) * u.d("x"),
    "abs": lambda u, z, p: jnp.abs(u.d("x")) - 1,
    "maximum": lambda u, z, p: jnp.maximum(u(), 0.0),
    "interpolated at u": lambda u, z, p: jnp.interp(u(), GRID, p["a"]),
    "dot of u with u": lambda u, z, p: jnp.stack([u.d("x"), u.d("t")]) @ jnp.stack([u.d("x"), u()]),
    "indexed by u": lambda u, z, p: p["a"][u().astype(int)] + u(),
    "floor": lambda u, z, p: jnp.floor(u()) + u.d("x"),
    "one of a tuple": lambda u, z, p: (u(), u() ** 3),
    "norm": lambda u, z, p: jnp.sqrt(u.d("x") ** 2 + u.d("t") ** 2) - 1,
    "jitted inside": lambda u, z, p: jax.jit(lambda v: v * v)(u()),
    "at a partner": lambda u, z, p: u() * u.at("there")(),
}  # fmt: skip
QUADRATIC = {
    "Dirichlet": lambda u, z, p: 0.5 * p["k"] * (u.d("x") ** 2 + u.d("t") ** 2) - z.x * u(),
    "mass": lambda u, z, p: 0.5 * u() ** 2 - z.value * u() + 3.0,
    "product": lambda u, z, p: u() * u() + u.d("x") * u.d("x") + u.d("x") * u(),
    "jumping coefficient": lambda u, z, p: jnp.where(z.x > 0.5, 1.0, 9.0) * u.d("x") ** 2,
    "dot product": lambda u, z, p: jnp.stack([u.d("x"), u()]) @ jnp.stack([u.d("x"), u()]),
}
NOT_QUADRATIC = {
    "fourth power": lambda u, z, p: u.d("x") ** 2 + u() ** 4,
    "minimal surface": lambda u, z, p: jnp.sqrt(1 + u.d("x") ** 2 + u.d("t") ** 2),
    "u-dependent coefficient": lambda u, z, p: (1 + u() ** 2) * u.d("x") ** 2,
    "where on u": lambda u, z, p: jnp.where(u() > 0, u() ** 2, 2 * u() ** 2),
}


@pytest.mark.parametrize("name", AFFINE)
def test_affine(name):
    assert affine(pdecl.Fit, AFFINE[name])


@pytest.mark.parametrize("name", NONLINEAR)
def test_not_affine(name):
    assert not affine(pdecl.Enforce, NONLINEAR[name])


@pytest.mark.parametrize("name", QUADRATIC)
def test_quadratic_energy_has_affine_gradient(name):
    assert affine(pdecl.Energy, QUADRATIC[name])


@pytest.mark.parametrize("name", NOT_QUADRATIC)
def test_other_energies_do_not(name):
    assert not affine(pdecl.Energy, NOT_QUADRATIC[name])
