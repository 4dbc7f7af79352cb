"""The three bounds: never below the true error, near it, and zero where there is none."""

import bound_cases as cases
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import pdecl
from pdecl.bounds import bound
from pdecl.problems import Burgers, Convection

# Fewer nodes than the defaults: the functions are smooth, and whatever is missed must be allowed for.
RESOLUTION = {"convection": {"cells": 12}, "burgers": {"cells": 6, "points": 64}, "darcy": {}}
STATEMENT = {"convection": {}, "burgers": {"seam": False}, "darcy": {"walls": False}}
BASES = {
    "convection": [cases.polynomials(3), cases.polynomials(9)],
    "burgers": [cases.waves(3, 3), cases.waves(8, 5)],
    "darcy": [cases.bumps(2), cases.bumps(6)],
}
LAWS = {law.name: law for law in (cases.CONVECTION, cases.BURGERS, cases.DARCY)}
WORST_RATIO = {"convection": 10, "burgers": 30, "darcy": 1.25}
COUNT = 4


def fitted(name, basis):
    law = LAWS[name]
    return cases.fitted(law, basis, law.sample(7, COUNT), **STATEMENT[name])


def bounded(solution, name):
    return bound(LAWS[name], solution, **RESOLUTION[name])


@pytest.fixture(scope="module", params=list(LAWS))
def case(request):
    """A problem, a poor and a rich solution of it, and their bounds."""
    name = request.param
    solutions = [fitted(name, basis) for basis in BASES[name]]
    return name, solutions, [bounded(solution, name) for solution in solutions]


def test_the_error_is_between_the_bounds(case):
    name, solutions, bounds = case
    for solution, found in zip(solutions, bounds, strict=True):
        error = cases.true_error(LAWS[name], np.asarray(solution.phi), solution)
        assert (error <= found.bound).all()
        assert (found.lower <= error).all()
        assert (found.bound / error <= WORST_RATIO[name]).all()
        assert found.kind == "bound"


def test_the_relative_error_is_below_its_bound(case):
    name, solutions, bounds = case
    law, phi = LAWS[name], np.asarray(solutions[1].phi)
    zero = eqx.tree_at(lambda s: s.weights, solutions[1], jnp.zeros_like(solutions[1].weights))
    size = cases.true_error(law, phi, zero)
    error = cases.true_error(law, phi, solutions[1])
    assert (error / size <= bounds[1].relative).all()
    assert np.isinf(bounded(zero, name).relative).all()


def test_it_shrinks_as_functions_are_added(case):
    _, _, (poor, rich) = case
    assert (rich.bound < 0.9 * poor.bound).all()


@pytest.mark.parametrize("size", [1e-3, 1.0])
def test_it_holds_for_weights_that_are_wrong(case, size):
    name, solutions, bounds = case
    wrong = cases.perturbed(solutions[1], size * float(jnp.abs(solutions[1].weights).max()))
    found = bounded(wrong, name)
    error = cases.true_error(LAWS[name], np.asarray(wrong.phi), wrong)
    assert (error <= found.bound).all()
    assert (found.lower <= error).all()
    if size == 1.0:
        assert (found.bound > 2 * bounds[1].bound).all()


def test_a_batch_equals_a_loop(case):
    name, solutions, bounds = case
    single = cases.member(solutions[0], 2)
    found = bounded(single, name)
    assert found.bound.shape == ()
    for one, many in zip(jax.tree.leaves(found), jax.tree.leaves(bounds[0]), strict=True):
        np.testing.assert_allclose(one, many[2], rtol=1e-6, atol=1e-12)


def test_weights_that_are_not_numbers(case):
    name, solutions, bounds = case
    weights = solutions[0].weights.at[1, 0].set(jnp.nan)
    broken = eqx.tree_at(lambda s: s.weights, solutions[0], weights)
    with pytest.raises(ValueError, match="φ number 1"):
        bounded(broken, name)
    found = bound(LAWS[name], broken, throw=False, **RESOLUTION[name])
    assert np.isinf(found.bound[1])
    np.testing.assert_allclose(found.bound[jnp.array([0, 2, 3])], bounds[0].bound[jnp.array([0, 2, 3])])


def test_it_says_what_is_within_a_tolerance(case):
    _, _, (poor, rich) = case
    middle = float(np.median(rich.relative))
    np.testing.assert_array_equal(rich.within(middle), np.asarray(rich.relative) <= middle)
    assert not poor.within(1e-9).any()
    assert "bound in" in str(rich)
    with pytest.raises(ValueError, match="tolerance"):
        rich.within(0.0)


def test_an_untrained_network():
    law = Convection()
    network = pdecl.MLP(law.problem(), 16, 16, 1, key=jr.key(1))
    solution = cases.fitted(law, network, law.sample(7, 2))
    error = cases.true_error(law, np.asarray(solution.phi), solution)
    assert (error <= bounded(solution, "convection").bound).all()


class TestExactSolutions:
    def test_convection_at_speed_two(self):
        def u(x, beta):
            late = x[1] - x[0] / 2
            return jnp.where(late > 0, jnp.sin(jnp.pi * late / 2), jnp.sin(-2 * jnp.pi * late))[None]

        solution = cases.given(Convection(), u, np.full((1, 101), 2.0))
        assert bound(Convection(), solution).bound[0] < 1e-10

    def test_burgers_by_cole_and_hopf(self):
        """θ = 1 + a exp(−4π²νt) cos 2πx solves the heat equation; u = −2ν θ_x/θ."""
        law = Burgers()

        def u(x, u0):
            wave = 0.6 * jnp.exp(-4 * jnp.pi**2 * law.viscosity * x[1])
            angle = 2 * jnp.pi * x[0]
            slope = -2 * jnp.pi * wave * jnp.sin(angle)
            return (-2 * law.viscosity * slope / (1 + wave * jnp.cos(angle)))[None]

        u0 = jax.vmap(lambda x: u(jnp.array([x, 0.0]), None)[0])(jnp.linspace(0, 1, 101))
        exact = cases.given(law, u, u0[None])
        found = bounded(exact, "burgers")
        assert found.bound[0] < 1e-6 * found.size[0]
        # 1% too much is an error of 1%.
        more = eqx.tree_at(lambda s: s.weights, exact, 1.01 * exact.weights)
        assert 0.01 <= bounded(more, "burgers").relative[0] < 0.1

    def test_darcy_by_finite_differences(self):
        law = cases.DARCY
        nu = law.sample(7, 2)
        box = law.problem().domain
        for k in range(2):
            basis = pdecl.ElementBasis(box, jnp.asarray(law.reference(nu)[k])[..., None])
            assert bound(law, cases.given(law, basis, nu[k : k + 1])).relative[0] < 1e-9


def test_jumps_at_the_seam_count():
    law, basis = cases.BURGERS, cases.polynomials(7)
    solution = cases.fitted(law, basis, law.sample(7, 2))
    found = bounded(solution, "burgers")
    assert (cases.true_error(law, np.asarray(solution.phi), solution) <= found.bound).all()
    assert (found.parts["seam"] > 0.1 * found.parts["mean"]).all()


def test_walls_that_are_not_zero_count():
    law = cases.DARCY
    constant = pdecl.ElementBasis(law.problem().domain, jnp.ones((law.grid, law.grid, 1)))
    solution = cases.given(law, constant, law.sample(7, 2))
    found = bound(law, solution)
    error = cases.true_error(law, np.asarray(solution.phi), solution)
    assert (found.parts["walls"] > 1).all()
    assert (error <= found.bound).all()
    assert (found.lower <= error).all()


def test_another_viscosity_is_another_bound():
    """The bound speaks of the law it is given, whatever the solution was fitted to."""
    solution = fitted("burgers", BASES["burgers"][1])
    other = Burgers(viscosity=0.02)
    found = bound(other, solution, **RESOLUTION["burgers"])
    error = cases.true_error(other, np.asarray(solution.phi), solution)
    assert (error <= found.bound).all()
    assert (found.bound > 2 * bounded(solution, "burgers").bound).all()


def test_what_it_does_not_take():
    solution = cases.given(cases.DARCY, cases.bumps(2), cases.DARCY.sample(7, 1))
    with pytest.raises(ValueError, match="no solution of burgers"):
        bound(Burgers(), solution)
    with pytest.raises(TypeError, match="law"):
        bound(solution.problem, solution)
