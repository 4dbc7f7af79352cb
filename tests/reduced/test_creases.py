"""Functions that crease along a front: the network is held for all φ, although they depend on φ."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from test_answers import widths
from typer.testing import CliRunner
from waves import WIDTH

import pdecl
from pdecl.family.experiment import basis_of, preset
from pdecl.family.metrics import relative_l2
from pdecl.nn import Creased
from pdecl.reduced import compile, load_compiled, recommend
from pdecl.reduced.compile import assemble, snapshots_of
from pdecl.reduced.crease import CREASED, SMOOTH
from pdecl.reduced.pod import reduced_basis
from pdecl_cli import app


@pytest.fixture(scope="module")
def trained():
    """Not trained: enough that its functions crease, widely enough for differences to see."""
    experiment = preset("convection", "hard", "quick").with_overrides(
        size=24, width=WIDTH, depth=1, creased=0.25
    )
    basis = basis_of(experiment, jr.key(3))
    wide = eqx.tree_at(lambda basis: basis.log_blur, basis, jnp.log(0.1))
    return pdecl.Trained(experiment, wide)


@pytest.fixture(scope="module")
def snapshots(trained):
    return snapshots_of(trained, 48, reduce=True)


@pytest.fixture(scope="module")
def solver(snapshots):
    made = assemble(snapshots, 16, at=snapshots.problem.domain.mesh(6, 5))
    return replace(made, experiment=snapshots.experiment)


@pytest.fixture(scope="module")
def fresh(trained):
    return trained.family.sample(5, 8)


def test_with_all_functions_on_all_points_it_is_the_layer(snapshots, trained, fresh, solver):
    whole = assemble(snapshots, route="all", at=solver.at)
    full = trained.solve(fresh, throw=False)
    found, expected = whole(fresh), np.asarray(full(solver.at))
    # The front's own solve has a ridge of 1e-10 in the layer, of 1e-12 online.
    assert relative_l2(np.asarray(found.values), expected).max() < 1e-5
    assert relative_l2(np.asarray(found(solver.at)), expected).max() < 1e-5
    assert found.residual.keys() == full.residual.keys()
    assert whole.functions_offline == 24


def test_fewer_functions_cost_what_is_stated(solver, trained, fresh):
    assert (solver.functions, solver.functions_offline, solver.rows) == (16, 24, 32)
    assert solver.core.form.finder.plan.size == 12
    full = np.asarray(trained.solve(fresh, throw=False)(solver.at))
    errors = relative_l2(np.asarray(solver(fresh).values), full)
    assert 1e-9 < solver.error.mean < 0.2
    assert errors.mean() < 3 * solver.error.mean


def test_what_is_creased_is_measured_with_its_factor(snapshots):
    """The combinations g h are orthonormal in the mean over φ, with the g of each φ."""
    modes, _ = reduced_basis(snapshots, 16)
    split = snapshots.values[SMOOTH].shape[1]
    g, count = snapshots.front.folds[snapshots.kept], len(snapshots.quadrature)
    for part, factor, unknown in [
        (modes[:split], np.ones_like(g), SMOOTH),
        (modes[split:], g, CREASED),
    ]:
        h = snapshots.values[unknown] @ part[:, np.any(part != 0, axis=0)]
        gram = np.einsum("q,qi,qj->ij", np.mean(factor**2, axis=0) / count, h, h)
        np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-6)


def test_a_batch_is_its_members(solver, fresh):
    together, alone = (solver(phi, residual_limit=None) for phi in (fresh, fresh[3]))
    assert together.status == [pdecl.Status.SOLVED] * len(fresh)
    assert np.allclose(alone.values, together.values[3], rtol=0, atol=1e-9)
    assert np.allclose(alone.weights, together.weights[3], rtol=0, atol=1e-6)
    assert together.weights.shape == (8, 24)


def test_gradients_go_through_the_front(solver, fresh):
    phi = jnp.asarray(fresh[0])
    total = lambda phi: jnp.sum(solver(phi, residual_limit=None).values ** 2)
    way, step = 1 + jnp.sin(jnp.arange(101.0)), 1e-5
    difference = (total(phi + step * way) - total(phi - step * way)) / (2 * step)
    assert np.isclose(jnp.sum(jax.grad(total)(phi) * way), difference, rtol=1e-5)


def test_single_precision_steps_give_the_same_answers(solver, fresh):
    low = lambda core: replace(core, rules=replace(core.rules, steps="float32"))
    crease = solver.core.form
    core = replace(low(solver.core), form=replace(crease, finder=low(crease.finder)))
    found = replace(solver, core=core)(fresh, residual_limit=None)
    expected = np.asarray(solver(fresh).values)
    assert found.status == [pdecl.Status.SOLVED] * len(fresh)
    assert 0 < relative_l2(np.asarray(found.values), expected).max() < 1e-4


def test_the_network_is_not_in_the_online_program(solver, fresh):
    assert not widths(lambda phi: solver.core.one(phi).values, fresh[0])
    assert widths(lambda phi, at: solver(phi)(at), fresh[0], solver.at)


def test_a_file_brings_back_the_same_solver(solver, fresh, tmp_path):
    solver.save(tmp_path / "solver.safetensors")
    again = load_compiled(tmp_path / "solver.safetensors")
    a, b = solver(fresh), again(fresh)
    assert np.array_equal(a.weights, b.weights)
    assert np.array_equal(a.values, b.values)
    assert np.array_equal(a(solver.at[:2]), b(solver.at[:2]))
    assert (again.error, again.functions_offline) == (solver.error, 24)


def test_the_command_answers_with_it(solver, fresh, tmp_path):
    solver.save(tmp_path / "solver.safetensors")
    np.savez(tmp_path / "phi.npz", beta=fresh)
    words = ["solve", "solver.safetensors", "--phi", "phi.npz", "--residual-limit", "inf"]
    words += ["--grid", "6,5", "--out"]
    for out, more in [("u.npz", []), ("slopes.npz", ["--derivatives", "x"])]:
        paths = [tmp_path / word if "." in word else word for word in [*words, out]]
        result = CliRunner().invoke(app, [*map(str, paths), *more])
        assert result.exit_code == 0, result.output
    u, slopes = (np.load(tmp_path / name) for name in ("u.npz", "slopes.npz"))
    on_grid = lambda values: np.asarray(values).reshape(-1, 6, 5).swapaxes(1, 2)
    np.testing.assert_allclose(u["u"], on_grid(solver(fresh).values), rtol=1e-6, atol=1e-9)
    by_x = solver(fresh).d("x")(solver.at)
    np.testing.assert_allclose(slopes["u_x"], on_grid(by_x), rtol=1e-6, atol=1e-9)


def test_settings_are_recommended(snapshots):
    advice = recommend(snapshots, error=0.9, functions=(16,), ratios=(2.0,), batch=12)
    assert [(s.route, s.functions) for s in advice.table] == [("chosen", 16), ("all", 16)]
    assert advice.best is not None
    with pytest.raises(ValueError, match="between 1 and the basis's own number; found 25"):
        assemble(snapshots, 25)


def test_what_is_creased_sees_phi(trained, fresh):
    problem = trained.problem()
    inner = pdecl.nn.Modulated(problem, size=8, width=8, depth=1, key=jr.key(0))
    basis = Creased(inner, trained.family.front(), 3)
    with pytest.raises(ValueError, match="this basis sees φ"):
        compile(problem, basis, fresh, functions=5)


def test_second_derivatives_and_partners():
    """The product rule, as the layer's own differentiation has it."""
    box = pdecl.Box(x=(0, 1), t=(0, 1))
    start = lambda u, z, phi: u() - phi[1] * jnp.sin(2 * jnp.pi * z.x)
    heat = lambda u, z, phi: u.d("t") + phi[0] * u.d("x") - 0.1 * u.d("x", "x") + 0.1 * u.d("x", "t")
    seam = lambda u, z, phi: (u() - u.at("opposite")(), u.d("x") - u.at("opposite").d("x"))
    parameter = lambda key: jr.uniform(key, (2,), minval=0.5, maxval=1.0)
    inside, bottom, sides = box.interior, box.face(t=0), box.periodic("x")
    problem = pdecl.Problem(
        box,
        [pdecl.Fit(heat, on=inside), pdecl.Fit(start, on=bottom), pdecl.Fit(seam, on=sides)],
        parameter,
    )
    front = pdecl.Problem(
        box,
        [
            pdecl.Fit(lambda s, z, phi: s.d("t") + phi[0] * s.d("x"), on=inside),
            pdecl.Fit(lambda s, z, phi: s() + z.x - 0.2, on=bottom),
        ],
        parameter,
    )
    inner = pdecl.nn.MLP(problem, size=20, width=WIDTH, depth=1, frequency=2.0, key=jr.key(1))
    basis = Creased(inner, front, 5, blur=0.2)
    phis, at = problem.sample(jr.key(2), 8), box.mesh(5, 4)
    found = compile(problem, basis, phis, route="all", at=at)(phis[:2])
    full = np.asarray(
        jax.vmap(lambda phi: pdecl.solve(problem, basis, phi, residual_limit=None))(phis[:2])(at)
    )
    assert relative_l2(np.asarray(found.values), full).max() < 1e-6
