"""A compiled solver answers like the layer, and says what it costs."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from programs import blocking, calls
from waves import WIDTH, network, stated

import pdecl
from pdecl.family.metrics import relative_l2
from pdecl.reduced import compile, recommend
from pdecl.reduced.compile import assemble, measured
from pdecl.reduced.core import answer


def full_answers(problem, basis, phis, at):
    return np.asarray(
        jax.vmap(lambda phi: pdecl.solve(problem, basis, phi, residual_limit=None))(phis)(at)
    )


def test_with_all_functions_on_all_points_it_is_the_layer(snapshots, fresh):
    at = snapshots.problem.domain.mesh(7, 5)
    whole = assemble(snapshots, route="all")
    full = full_answers(snapshots.problem, snapshots.basis, fresh, at)[:15]
    assert relative_l2(np.asarray(whole(fresh[:15])(at)), full).max() < 1e-6
    assert whole.functions_offline == 30


def test_fewer_functions_cost_what_is_stated(reduced, snapshots, fresh):
    assert (reduced.functions, reduced.functions_offline) == (12, 30)
    assert 12 < reduced.rows <= 20
    full = full_answers(snapshots.problem, snapshots.basis, fresh, reduced.at)
    errors = relative_l2(np.asarray(reduced(fresh).values), full)
    assert 1e-9 < reduced.error.mean < 0.02
    assert errors.mean() < 3 * reduced.error.mean


def test_rows_are_weighed_for_the_better(reduced, snapshots):
    plain = measured(
        snapshots, replace(reduced.core, whitening=jnp.eye(reduced.rows), at=None, values=None)
    )
    assert reduced.error.mean < plain.mean


def test_a_batch_is_its_members(reduced, fresh):
    together, alone = (reduced(phi, residual_limit=None) for phi in (fresh, fresh[3]))
    assert together.status == [pdecl.Status.SOLVED] * len(fresh)
    assert alone.status is pdecl.Status.SOLVED
    assert np.allclose(alone.values, together.values[3], rtol=0, atol=1e-5)
    assert alone.residual.keys() == {"equation", "initial", "walls"}


def test_values_are_those_of_the_solution(reduced, fresh):
    found = reduced(fresh)
    assert np.allclose(found.values, found(reduced.at), atol=1e-9)
    step, here = np.asarray([[1e-5, 0.0]]), np.asarray([[0.4, 0.3]])
    slope = (found(here + step) - found(here - step)) / 2e-5
    assert np.allclose(found.d("x")(here), slope, atol=1e-6)


def test_gradients_by_phi(reduced, fresh):
    # Differences see how far the iteration got.
    rules = replace(reduced.core.rules, rtol=jnp.asarray(0.0), offset=0.0)
    exact = replace(reduced, core=replace(reduced.core, rules=rules))
    total = lambda phi: jnp.sum(exact(phi).values ** 2)
    way, step = jr.normal(jr.key(5), fresh.shape), 1e-4
    difference = (total(fresh + step * way) - total(fresh - step * way)) / (2 * step)
    assert np.isclose(jnp.sum(jax.grad(total)(fresh) * way), difference, rtol=1e-5)


def test_single_precision_steps_give_the_same_answers(reduced, snapshots, fresh):
    single = replace(reduced.core, rules=replace(reduced.core.rules, steps="float32"))
    a, b = (np.asarray(answer(core, fresh, True).values["u"]) for core in (single, reduced.core))
    assert relative_l2(a, b).max() < 0.1 * reduced.error.mean
    assert not np.array_equal(a, b)


def test_the_network_is_not_in_the_online_program(reduced, fresh):
    assert not widths(lambda phi: reduced.core.one(phi).values, fresh[0])
    assert widths(lambda phi, at: reduced(phi)(at), fresh[0], reduced.at)


def widths(f, *x):
    """Products in a program with a dimension of the network's own size."""
    found = []

    def walk(jaxpr):
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "dot_general":
                found.extend(v.aval.shape for v in eqn.invars if WIDTH in v.aval.shape)
            for sub in jaxprs_in_params(eqn.params):
                walk(sub)

    walk(jax.make_jaxpr(f)(*x).jaxpr)
    return found


def test_what_is_not_converged_is_said(reduced, fresh):
    rules = replace(reduced.core.rules, max_steps=1, rtol=jnp.asarray(0.0), offset=0.0)
    core = replace(reduced.core, rules=rules)
    hasty = replace(reduced, core=core)
    with pytest.raises(pdecl.SolveError, match="not converged for φ number 0"):
        hasty(fresh, throw=True)
    with pytest.warns(UserWarning, match="φ number 0 and 49 more: not converged"):
        found = hasty(fresh)
    assert found.status == [pdecl.Status.NOT_CONVERGED] * len(fresh)


def test_a_basis_that_sees_phi():
    problem = stated(nonlinear=False)
    basis = pdecl.nn.Modulated(problem, size=14, width=WIDTH, depth=1, key=jr.key(4))
    phis = problem.sample(jr.key(2), 8)
    solver = compile(problem, basis, phis, points=40, at=problem.domain.mesh(5, 4))
    assert 38 <= solver.rows <= 42
    fitted = jax.vmap(
        lambda phi: pdecl.solve(problem, basis, phi, residual_limit=None, points=solver.core.sets)
    )(phis[:2])
    found = solver(phis[:2])
    assert relative_l2(np.asarray(found.values), np.asarray(fitted(solver.at))).max() < 1e-5
    assert widths(lambda phi: solver.core.one(phi).weights, phis[0])
    with pytest.raises(ValueError, match="sees φ"):
        compile(problem, basis, phis, functions=5)


def test_an_energy_keeps_its_quadrature():
    box = pdecl.Box(x=(0, 1))
    energy = lambda u, z, k: 0.5 * k[0] * u.d("x") ** 2 - u() * jnp.exp(k[1] * z.x)
    problem = pdecl.Problem(
        box,
        [pdecl.Energy(energy, on=box.interior.gauss(30))],
        parameter=lambda key: jr.uniform(key, (2,), minval=0.5, maxval=1.5),
    )
    basis = pdecl.nn.Mollified(network(problem, 12), box.faces())
    solver = compile(problem, basis, problem.sample(jr.key(0), 24), functions=6)
    assert solver.core.jets is not None
    assert len(solver.core.sets[0]) == 30
    assert solver.error.mean < 1e-4


def test_a_basis_with_exact_initial_data():
    problem = stated(nonlinear=False)
    start = lambda z, phi: phi[1] * jnp.sin(jnp.pi * z.x) + phi[2] * jnp.sin(2 * jnp.pi * z.x)
    basis = pdecl.nn.ExactInitial(network(problem, 20), problem.domain.face(t=0), start)
    phis, at = problem.sample(jr.key(2), 8), problem.domain.mesh(5, 4)
    solver = compile(problem, basis, phis, route="all", at=at)
    full = full_answers(problem, basis, phis, at)[:2]
    assert relative_l2(np.asarray(solver(phis[:2]).values), full).max() < 1e-6


def test_settings_are_recommended(snapshots):
    advice = recommend(snapshots, error=0.02, functions=(8,), ratios=(0.75, 1.5), batch=15)
    assert [s.route for s in advice.table] == ["subset", "chosen", "all"]
    good = [s for s in advice.table if s.error.mean <= 0.02]
    assert advice.best in good
    assert advice.best.seconds == min(s.seconds for s in good)
    assert advice.solver.rows == advice.best.rows
    assert "<" in str(advice)
    with pytest.raises(ValueError, match="between 0 and 1"):
        recommend(snapshots, error=2.0)


def test_an_error_asks_for_functions(snapshots, reduced):
    wanted = 1.01 * reduced.error.mean
    made = compile(snapshots, error=wanted, points=18)
    assert made.error.mean <= wanted
    assert made.functions <= 12


def test_no_program_of_it_can_stand_still(reduced, fresh):
    """Nor one with its derivative: see tests/test_programs.py."""
    value = lambda phi: jnp.sum(reduced(phi, throw=False).weights)
    text = jax.jit(jax.vmap(jax.value_and_grad(value))).lower(fresh[:3]).as_text()
    assert calls(text)
    assert not blocking(text)
