"""Training through the layer."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import pdecl

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
    found = pdecl.solve(decay, basis, phis, batch=True)(points)
    return float(jnp.mean(jnp.linalg.norm(found - exact, axis=1) / jnp.linalg.norm(exact, axis=1)))


def test_training_lowers_the_error_on_unseen_parameters():
    basis = pdecl.MLP(decay, size=5, width=8, depth=2, key=jr.key(0))
    unseen = decay.sample(jr.key(5), 20)
    trained, history = pdecl.fit(
        decay, basis, optax.adam(5e-3), steps=150, key=jr.key(1), progress=False
    )
    assert error(trained, unseen) < 0.3 * error(basis, unseen)
    assert len(history.loss) == len(history.seconds) == 150
    assert np.mean(history.loss[-10:]) < history.loss[0] - 2


def test_the_same_key_gives_the_same_weights():
    basis = pdecl.MLP(decay, size=4, width=8, depth=1, key=jr.key(0))
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
        net: pdecl.MLP

        def __call__(self, x, phi):
            return x[0] * self.net(x, phi)

    pinned = Pinned(pdecl.MLP(rod, size=1, width=8, depth=1, key=jr.key(0)))
    trained, _ = pdecl.fit(rod, pinned, optax.adam(1e-2), steps=150, key=jr.key(1), progress=False)
    solution = pdecl.solve(rod, trained, 1.5)
    assert solution.residual["Energy 0"] == pytest.approx(-(1.5**2) / 6, rel=2e-3)


def test_a_loss_that_is_not_finite_stops_with_the_step_and_the_cause():
    broken = lambda x, phi: jnp.where(x[0] >= 0, jnp.nan, 1.0) * jnp.ones(3)
    with pytest.raises(pdecl.SolveError, match=r"non-finite network output.*step 0"):
        pdecl.fit(decay, broken, optax.adam(1e-3), steps=2, key=jr.key(0), progress=False)


def test_a_problem_without_a_law_cannot_be_trained_on():
    lawless = pdecl.Problem(line, [pdecl.Fit(lambda u, z, phi: u() - 1, on=line.interior)])
    with pytest.raises(ValueError, match="no law"):
        pdecl.fit(lawless, lambda x, phi: x, optax.adam(1e-3), steps=1, key=jr.key(0))
