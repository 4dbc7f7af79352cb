"""The three PDEs as stated for the layer agree with their references and with closed forms."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from on_a_grid import conservative_residual, wide_residual

import pdecl
from pdecl.layer.system import build
from pdecl.problems import Burgers, Convection, Darcy
from pdecl.problems.darcy.grid import flux_balance, subsample, upscaled_faces


def residuals(problem, function, phi):
    """Root mean squares of the conditions for one given function instead of u."""
    basis = lambda x, phi: function(x)[None]
    system = build(problem, basis, jnp.asarray(phi), problem.draw(200), materialise=False)
    return {name: float(value) for name, value in system.residuals(jnp.ones(1)).items()}


def test_burgers_by_a_closed_form_of_cole_and_hopf():
    """θ = 1 + ½ exp(−4π²νt) cos 2πx solves the heat equation; u = −2ν θ_x/θ solves Burgers'."""
    nu = 0.05

    def exact(z):
        fade = 0.5 * jnp.exp(-4 * jnp.pi**2 * nu * z[1])
        angle = 2 * jnp.pi * z[0]
        return 4 * jnp.pi * nu * fade * jnp.sin(angle) / (1 + fade * jnp.cos(angle))

    sensors = jnp.stack([exact(jnp.array([x, 0.0])) for x in np.linspace(0, 1, 101)])
    family = Burgers(viscosity=nu)
    found = residuals(family.problem(), exact, sensors)
    assert max(found.values()) < 1e-10
    wrong = residuals(Burgers(viscosity=2 * nu).problem(), exact, sensors)
    assert wrong["equation"] > 0.1


@pytest.mark.parametrize("pde", [pdecl.Fit, pdecl.Enforce])
def test_convection_by_a_closed_form(pde):
    """β = 1 + x is its own spline; the characteristic through (x, t) has (1 + x)e^(−t) constant."""

    def exact(z):
        foot = (1 + z[0]) * jnp.exp(-z[1]) - 1
        entry = z[1] - jnp.log1p(z[0])
        return jnp.where(foot > 0, jnp.sin(jnp.pi * foot), jnp.sin(jnp.pi * entry / 2))

    beta = 1 + np.linspace(0, 1, 101)
    found = residuals(Convection().problem(pde), exact, beta)
    assert max(found.values()) < 1e-10
    assert residuals(Convection().problem(pde), exact, 2 * beta)["equation"] > 0.1


def test_burgers_in_the_words_of_the_paper():
    """Points are nodes of the grid of the data, and rows have the weights of the authors' sums."""
    preset = Burgers().preset("hard", "paper")
    problem = Burgers().problem(**preset.statement)
    shares = {
        c.name: c.weight * 600 / len(problem.draw(50)[i]) for i, c in enumerate(problem.conditions)
    }
    assert shares == pytest.approx({"equation": 1.0, "initial": 400.0, "periodic": 1.0})
    for points in problem.draw(50, jr.key(0)):
        np.testing.assert_allclose(points.coords * 100, np.round(points.coords * 100), atol=1e-9)
    loss_problem = Burgers().problem(**preset.statement | preset.loss_statement)
    assert [c.weight for c in loss_problem.conditions] == [1.0, 6000.0, 300.0]


LAW = Darcy(grid=15)
NU = LAW.sample(3, 1)[0]


def hats(grid):
    """All nodal functions of the grid that vanish on the boundary."""
    inside = (grid - 2) ** 2
    values = np.zeros((grid, grid, inside))
    values[1:-1, 1:-1] = np.eye(inside).reshape(grid - 2, grid - 2, inside)
    return jnp.asarray(values)


@pytest.mark.parametrize("form", ["energy", "conservative"])
def test_darcy_with_every_nodal_function_is_the_finite_difference_solution(form):
    problem = LAW.problem(form, walls=False)
    box = problem.domain
    basis = pdecl.nn.ElementBasis(box, hats(15))
    solution = pdecl.solve(problem, basis, NU)
    reference = LAW.reference(NU)[0]
    found = np.asarray(solution(box.mesh(15, 15))).reshape(15, 15)
    assert np.linalg.norm(found - reference) < 1e-6 * np.linalg.norm(reference)


def test_darcy_on_fewer_nodes_remembers_the_coefficient_between_them():
    """Fluxes balance through the upscaled faces; the answer is nearer than with ν at the nodes alone."""
    fine = Darcy(grid=57)
    nu = fine.sample(3, 1)[0]
    box = fine.problem().domain
    solution = pdecl.solve(fine.problem(walls=False, nodes=15), pdecl.nn.ElementBasis(box, hats(15)), nu)
    found = np.asarray(solution(box.mesh(15, 15))).reshape(15, 15)
    np.testing.assert_allclose(flux_balance(upscaled_faces(nu, 15), found), 14.0**-2, rtol=1e-7)
    truth = subsample(fine.reference(nu)[0], 15)
    plain = LAW.reference(subsample(nu, 15))[0]
    assert np.linalg.norm(found - truth) < 0.5 * np.linalg.norm(plain - truth)


def test_darcy_on_nodes_that_do_not_fit():
    with pytest.raises(ValueError, match="no subgrid of 6; choose one of 15, 8"):
        LAW.problem(nodes=6)
    with pytest.raises(ValueError, match="only the form 'energy'"):
        LAW.problem("conservative", nodes=8)


@pytest.mark.parametrize(
    ("form", "residual"), [("conservative", conservative_residual), ("wide", wide_residual)]
)
def test_darcy_residuals_are_those_of_the_grid(form, residual):
    u = np.random.default_rng(0).normal(size=(15, 15))
    problem = LAW.problem(form)
    basis = pdecl.nn.GridBasis(problem.domain, jnp.asarray(u)[..., None])
    system = build(problem, basis, jnp.asarray(NU), problem.draw(1))
    (values, *_) = (system.values(0, system.fields(jnp.ones(1))),)
    np.testing.assert_allclose(np.ravel(values), np.ravel(residual(NU, u)), rtol=1e-9)


def test_darcy_walls_are_enforced():
    problem = LAW.problem("energy")
    every = jnp.asarray(np.eye(15**2).reshape(15, 15, 15**2))
    solution = pdecl.solve(problem, pdecl.nn.ElementBasis(problem.domain, every), NU)
    reference = LAW.reference(NU)[0]
    found = np.asarray(solution(problem.domain.mesh(15, 15))).reshape(15, 15)
    assert np.abs(found[0]).max() < 1e-10
    assert np.linalg.norm(found - reference) < 1e-6 * np.linalg.norm(reference)


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="conservative"):
        LAW.problem("spectral")


@pytest.mark.parametrize("family", [Burgers(), Convection(), Darcy(grid=15)])
def test_parameters_for_training_have_the_shape_of_those_for_testing(family):
    problem = family.problem()
    assert problem.check(family.sample(2, 1)[0]).shape == family.sample(2, 1)[0].shape
