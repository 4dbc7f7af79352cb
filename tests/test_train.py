"""Training through the layer."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from jax.tree_util import Partial

import pdecl
from pdecl.family import Training
from pdecl.family.experiment import (
    basis_of,
    optimiser_of,
    preset,
    problem_of,
    solver_of,
    training_phis,
    training_solver_of,
)
from pdecl.layer.layer import weights_of
from pdecl.layer.system import build
from pdecl.train.loss import hard, has_envelope, mean_over_phi, residual_loss

line = pdecl.Box(x=(0, 1))
decay = pdecl.Problem(
    line,
    [
        pdecl.Fit(lambda u, z, k: u.d("x") + k * u(), on=line.interior),
        pdecl.Fit(lambda u, z, k: u() - 1, on=line.face(x=0)),
    ],
    parameter=lambda key: jr.uniform(key, minval=2.0, maxval=20.0),
)


def error(basis, phis):
    points = line.mesh(101)
    exact = jnp.exp(-phis[:, None] * points[:, 0])
    found = jax.vmap(lambda phi: pdecl.solve(decay, basis, phi, residual_limit=None)(points))(phis)
    return float(jnp.mean(jnp.linalg.norm(found - exact, axis=1) / jnp.linalg.norm(exact, axis=1)))


def test_training_lowers_the_error_on_unseen_parameters():
    basis = pdecl.nn.MLP(decay, size=5, width=8, depth=2, key=jr.key(0))
    unseen = decay.sample(jr.key(5), 20)
    trained, history = pdecl.fit(
        decay, basis, optax.adam(5e-3), steps=150, key=jr.key(1), progress=False
    )
    assert error(trained, unseen) < 0.3 * error(basis, unseen)
    assert len(history.loss) == len(history.seconds) == 150
    assert np.mean(history.loss[-10:]) < history.loss[0] - 2


def test_the_same_key_gives_the_same_weights():
    basis = pdecl.nn.MLP(decay, size=4, width=8, depth=1, key=jr.key(0))
    run = lambda: pdecl.fit(decay, basis, optax.sgd(1e-3), steps=3, key=jr.key(1), progress=False)[0]
    for a, b in zip(*map(jax.tree.leaves, (run(), run())), strict=True):
        assert a is b or np.array_equal(a, b)


def test_an_energy_is_its_own_loss():
    """−u'' = φ with u(0) = 0: the mean energy of the trained basis comes near the true one, −φ²/6."""
    rod = pdecl.Problem(
        line,
        [pdecl.Energy(lambda u, z, f: 0.5 * u.d("x") ** 2 - f * u(), on=line.interior.gauss(8))],
        parameter=lambda key: jr.uniform(key, minval=1.0, maxval=2.0),
    )

    class Pinned(eqx.Module):
        net: pdecl.nn.MLP

        def __call__(self, x, phi):
            return x[0] * self.net(x, phi)

    pinned = Pinned(pdecl.nn.MLP(rod, size=1, width=8, depth=1, key=jr.key(0)))
    trained, _ = pdecl.fit(rod, pinned, optax.adam(1e-2), steps=150, key=jr.key(1), progress=False)
    solution = pdecl.solve(rod, trained, 1.5)
    assert solution.residual["Energy 0"] == pytest.approx(-(1.5**2) / 6, rel=2e-3)


def test_a_loss_that_is_not_finite_stops_with_the_step_and_the_cause():
    broken = Partial(lambda ones, x, phi: jnp.where(x[0] >= 0, jnp.nan, 1.0) * ones, jnp.ones(3))
    with pytest.raises(pdecl.SolveError, match=r"non-finite network output.*step 0"):
        pdecl.fit(decay, broken, optax.adam(1e-3), steps=2, key=jr.key(0), progress=False)


def train(basis, steps=4, optimiser=None, **options):
    options = {"key": jr.key(1), "progress": False, **options}
    return pdecl.fit(decay, basis, optimiser or optax.adam(1e-3), steps=steps, **options)


def small(**options):
    return pdecl.nn.MLP(decay, size=4, width=8, depth=1, key=jr.key(0), **options)


def leaves(basis):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(basis, eqx.is_array))]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))


def test_the_last_good_state_is_kept_when_a_step_fails():
    """φ beyond 15 breaks the equation; every step before such a φ is drawn counts."""
    fragile = pdecl.Problem(
        line,
        [
            pdecl.Fit(
                lambda u, z, k: u.d("x") + k * u() + jnp.where(k > 15, jnp.nan, 0), on=line.interior
            )
        ],
        parameter=decay.parameter,
    )
    phis = jnp.concatenate([jnp.full(30, 3.0), jnp.full(2, 16.0)])
    with pytest.raises(pdecl.TrainingError, match=r"non-finite equation.*φ number") as caught:
        pdecl.fit(
            fragile,
            small(),
            optax.adam(1e-3),
            steps=200,
            key=jr.key(0),
            batch=2,
            phis=phis,
            progress=False,
        )
    error = caught.value
    assert error.status is pdecl.Status.NONFINITE_EQUATION
    assert error.phi == 16.0
    assert len(error.history.loss) == error.step
    again, _ = pdecl.fit(
        fragile, small(), optax.adam(1e-3), steps=max(error.step, 1), key=jr.key(0), batch=2, phis=phis,
        progress=False,
    )  # fmt: skip
    assert error.step > 0
    assert same(again, error.basis)


def test_seconds_end_a_training_that_has_steps_left(tmp_path):
    """It ends as one of fewer steps does, and its checkpoints can be resumed."""
    options = {"steps": 10**6, "seconds": 1e-6, "metrics": lambda basis: {"error": 0.5}}
    ended, history = train(small(), **options, checkpoints=pdecl.Checkpoints(tmp_path / "run"))
    assert len(history.loss) == 1
    assert history.metrics[-1]["step"] == 1
    assert same(ended, train(small(), 1)[0])
    resumed, history = train(small(), 3, checkpoints=pdecl.Checkpoints(tmp_path / "run"))
    assert len(history.loss) == 3
    assert same(resumed, train(small(), 3)[0])
    with pytest.raises(ValueError, match="seconds must be positive"):
        train(small(), seconds=0)


def test_a_staircase_is_the_rate_from_the_first_step_on():
    plan = Training(5, 1, 0.5, decay=(0.1, 2), clip=None)
    optimiser, state, moved = optimiser_of(plan), None, []
    state = optimiser.init(jnp.zeros(()))
    for _ in range(5):
        step, state = optimiser.update(jnp.asarray(7.0), state, jnp.zeros(()))
        moved.append(float(step))
    np.testing.assert_allclose(moved, [-0.5, -0.5, -0.05, -0.05, -0.005], rtol=1e-5)


class Wave(eqx.Module):
    """A network that proposes weights of its own: what a soft model needs."""

    trunk: pdecl.nn.MLP
    branch: eqx.nn.MLP

    def __call__(self, x, phi):
        return self.trunk(x, phi)

    def weights(self, phi):
        return self.branch(jnp.atleast_1d(phi) / 10)


def wave():
    branch = eqx.nn.MLP(1, 4, 8, 1, activation=jnp.tanh, key=jr.key(2))
    return Wave(small(), branch)


def test_soft_training_uses_the_weights_that_the_network_proposes():
    phis = decay.sample(jr.key(5), 8)
    predict = lambda basis: jax.vmap(lambda phi: pdecl.predict(decay, basis, phi))(phis)
    before = predict(wave()).residual["Fit 0"].mean()
    trained, history = train(wave(), 150, optax.adam(1e-2), method="soft", mean="mean")
    after = predict(trained)
    assert after.residual["Fit 0"].mean() < 0.5 * before
    assert history.loss[-1] < history.loss[0]
    assert all(status is pdecl.Status.PREDICTED for status in after.status)


def test_a_soft_model_has_to_see_phi():
    with pytest.raises(ValueError, match="same answer for every φ"):
        train(small(), 3, method="soft")


def test_hard_training_leaves_the_branch_alone_and_starts_far_below_soft():
    hard, hard_history = train(wave(), 3, mean="mean")
    _, soft_history = train(wave(), 3, mean="mean", method="soft")
    assert np.array_equal(hard.branch.layers[0].weight, wave().branch.layers[0].weight)
    assert hard_history.loss[0] < 0.2 * soft_history.loss[0]


@pytest.mark.parametrize(
    "options",
    [
        {"mean": "mean"},
        {"include_collocation": True},
        {"single": True},
        {"batch": 3},
        {"phis": jnp.linspace(2, 20, 16)},
        {"loss_problem": decay.also(pdecl.Fit(lambda u, z, k: u() - jnp.exp(-k), on=line.face(x=1)))},
    ],
    ids=lambda options: next(iter(options)),
)
def test_each_option_changes_the_training(options):
    plain, _ = train(small(), 2)
    other, history = train(small(), 2, **options)
    assert np.all(np.isfinite(history.loss))
    assert not same(plain, other)


def test_observed_data_pull_the_solution_towards_them():
    """Data that contradict the equation are met better when the loss holds them."""
    data = pdecl.Fit(lambda u, z, k: u() - 0.5, on=line.face(x=1), weight=100.0, name="data")
    loss_problem = decay.also(data)
    at_end = lambda basis: float(
        pdecl.solve(decay, basis, 3.0, residual_limit=None)(jnp.ones((1, 1)))[0]
    )
    told, _ = train(small(), 60, optax.adam(1e-2), loss_problem=loss_problem, mean="mean")
    untold, _ = train(small(), 60, optax.adam(1e-2), mean="mean")
    assert abs(at_end(told) - 0.5) < abs(at_end(untold) - 0.5)


def test_single_precision_networks_get_nearly_the_same_gradient():
    plain, _ = train(small(), 1, optax.sgd(1.0))
    single, _ = train(small(), 1, optax.sgd(1.0), single=True)
    for start, a, b in zip(leaves(small()), leaves(plain), leaves(single), strict=True):
        assert np.allclose(a - start, b - start, rtol=0.02, atol=2e-4)


def test_one_compilation_for_the_whole_run():
    traces = []

    class Counting(eqx.Module):
        inner: pdecl.nn.MLP
        scale: jax.Array

        def __call__(self, x, phi):
            traces.append(1)
            return self.scale * self.inner(x, phi)

    weak = jnp.exp(0.5)  # no number of its own dtype
    assert weak.weak_type
    train(Counting(small(), weak), 1)
    once = len(traces)
    traces.clear()
    train(Counting(small(), weak), 12)
    assert len(traces) == once


def test_metrics_are_taken_at_steps_spaced_in_the_logarithm(tmp_path):
    seen = decay.sample(jr.key(5), 4)
    _, history = train(small(), 40, metrics=lambda basis: {"error": error(basis, seen)}, metrics_count=6)
    steps, seconds, values = history.metric("error")
    assert steps.tolist() == [0, 1, 2, 4, 9, 19, 40]
    assert np.all(np.diff(seconds) >= 0)
    assert np.all(values > 0)
    history.save(tmp_path / "history.json")
    assert pdecl.History.load(tmp_path / "history.json") == history
    history.plot(tmp_path / "history.png")
    assert (tmp_path / "history.png").stat().st_size > 5000
    with pytest.raises(ValueError, match=r"no metric 'loss'.*error"):
        history.metric("loss")
    (tmp_path / "history.json").write_text('{"loss": [1.0')
    with pytest.raises(ValueError, match="cut short"):
        pdecl.History.load(tmp_path / "history.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "medium"}, "method must be one of hard, soft"),
        ({"mean": "median"}, "mean must be one of log, mean"),
        ({"batch": 0}, "batch must be a whole number of at least 1"),
        ({"phis": jnp.ones(3), "batch": 4}, "3 φ were given for batches of 4"),
        ({"phis": jnp.array([1.0, jnp.nan]), "batch": 1}, "NaN"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        train(small(), **options)


def test_a_problem_without_a_law_cannot_be_trained_on():
    lawless = pdecl.Problem(line, [pdecl.Fit(lambda u, z, phi: u() - 1, on=line.interior)])
    with pytest.raises(ValueError, match="no distribution"):
        pdecl.fit(lawless, lambda x, phi: x, optax.adam(1e-3), steps=1, key=jr.key(0))


def test_the_few_newton_steps_of_training_give_the_gradient_of_many():
    experiment = preset("burgers").with_overrides(size=120, width=120, depth=2)
    problem, basis = problem_of(experiment), basis_of(experiment, jr.key(0))
    parameters, rest = eqx.partition(basis, eqx.is_inexact_array)
    points, fresh = (problem.draw(120, key) for key in jr.split(jr.key(1)))

    def gradient(solver):
        def loss(parameters, phi):
            whole = eqx.combine(parameters, rest)
            system = build(problem, whole, phi, points)
            found = weights_of(system, solver)
            return residual_loss(problem, whole, phi, fresh, found.weights), found.iterations

        phis = jnp.asarray(training_phis(experiment)[:3])
        many = jax.jit(jax.vmap(jax.grad(loss, has_aux=True), (None, 0)))
        return many(parameters, phis)

    (few, fewer), (many, more) = (
        gradient(training_solver_of(experiment)),
        gradient(solver_of(experiment)),
    )
    assert np.all(fewer < more)
    norm = lambda tree: np.sqrt(sum(np.sum(leaf**2) for leaf in jax.tree.leaves(tree)))
    assert norm(jax.tree.map(lambda a, b: a - b, few, many)) < 0.005 * norm(many)


def test_the_loss_counts_every_kind_of_condition():
    """u = 2 on a line of length one: ½·4·(2 − 1)² + ½·6·(2 − 5)² + 0.5·∫u²."""
    conditions = [
        pdecl.Fit(lambda u, z, phi: u() - 1, on=line.interior, weight=4.0),
        pdecl.Enforce(lambda u, z, phi: u() - 5, on=line.faces(), weight=6.0),
        pdecl.Energy(lambda u, z, phi: u() ** 2, on=line.interior, weight=0.5),
    ]
    for chosen, wanted in [((0,), 2.0), ((1,), 27.0), ((2,), 2.0), ((0, 1, 2), 31.0)]:
        problem = pdecl.Problem(line, [conditions[i] for i in chosen])
        loss = residual_loss(
            problem, lambda x, phi: jnp.ones(1), None, problem.draw(4), jnp.array([2.0])
        )
        assert loss == pytest.approx(wanted, rel=1e-12)


def test_points_that_are_joined_count_by_their_number():
    """One point at x = 0 and three at x = 1 are together what four points are: ¾ of x, and all of 1."""
    few, many = pdecl.Points([[0.0]]), pdecl.Points(np.ones((3, 1)))
    slope = lambda u, z, k: (1 + z.x) * u()
    first, other = (
        pdecl.Problem(line, [pdecl.Energy(slope, on=on)], parameter=decay.parameter)
        for on in (few, many)
    )
    basis = Partial(lambda scale, x, k: scale * k[None], jnp.ones(()))
    _, history = pdecl.fit(
        first, basis, optax.sgd(1.0), steps=1, key=jr.key(0), batch=1,
        phis=jnp.array([4.0]), method="soft", loss_problem=other, progress=False,
    )  # fmt: skip
    assert history.loss == [pytest.approx(4.0 * 1.75, rel=1e-12)]


def test_the_mean_over_phi_is_that_of_logarithms_or_plain():
    losses = jnp.array([1.0, jnp.e**2])
    assert mean_over_phi(losses, "log", False) == pytest.approx(1, rel=1e-12)
    for mean, energy in [("mean", False), ("mean", True), ("log", True)]:
        assert mean_over_phi(losses, mean, energy) == pytest.approx((1 + np.e**2) / 2, rel=1e-12)


ENERGY = pdecl.Energy(lambda u, z, k: (u() - jnp.exp(z.x)) ** 2, on=line.interior.gauss(5))
FIT = pdecl.Fit(lambda u, z, k: u() - jnp.exp(z.x), on=line.interior)


def problem_with(*conditions):
    return pdecl.Problem(line, conditions)


def test_the_loss_is_what_the_layer_minimises_for_energies_on_fixed_points():
    moving = pdecl.Energy(ENERGY.equation, on=line.interior)
    given = pdecl.Energy(ENERGY.equation, on=pdecl.Points([[0.1], [0.7]]))
    for conditions, wanted in [
        ([ENERGY], True), ([given], True), ([moving], False), ([FIT], False), ([ENERGY, FIT], False),
        ([ENERGY, moving], False),
    ]:  # fmt: skip
        problem = problem_with(*conditions)
        assert has_envelope(problem, problem) == wanted
    assert not has_envelope(problem_with(ENERGY), problem_with(ENERGY))


@pytest.mark.parametrize("condition", [ENERGY, FIT])
def test_the_gradient_of_the_hard_loss_goes_through_the_layer_where_it_has_to(condition):
    problem = problem_with(condition)
    points, fresh = problem.draw(3), problem.draw(3, jr.key(1))

    @jax.jit
    def loss(steepness):
        basis = lambda x, phi: jnp.sin(steepness * x)
        solver = pdecl.solvers.GaussNewton(pdecl.solvers.Cholesky())
        return hard(problem, problem, basis, None, points, fresh, solver)[0]

    slope = (loss(2.0 + 1e-5) - loss(2.0 - 1e-5)) / 2e-5
    assert jax.grad(loss)(2.0) == pytest.approx(float(slope), rel=1e-6)
