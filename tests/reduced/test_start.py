"""Where the steps for a φ begin."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from waves import network, stated

from pdecl.reduced import load_compiled, save
from pdecl.reduced.statistics import WarmStart, _interpolation, learned_start


def answers(phi):
    """Smooth in the logarithm of a number that runs over decades, and in another."""
    a, b = np.log(phi["over decades"]), phi["even"]
    return np.stack([a**2, np.sin(a * b), b], axis=1)


def drawn(seed, count):
    rng = default_rng(seed)
    return {"over decades": 10 ** rng.uniform(3, 5, count), "even": rng.uniform(0, 1, count)}


def test_it_is_the_answer_at_training_phi_and_near_it_between():
    phis, fresh = drawn(0, 120), drawn(1, 50)
    start = learned_start(phis, answers(phis))
    np.testing.assert_allclose(jax.vmap(start)(phis), answers(phis), rtol=0, atol=1e-4)
    np.testing.assert_allclose(jax.vmap(start)(fresh), answers(fresh), rtol=0, atol=0.3)
    # Leaves come in the order of their names.
    np.testing.assert_array_equal(np.asarray(start.least) > 0, [False, True])
    assert start.power > 1


def test_a_phi_below_all_others_has_a_start():
    phis = drawn(0, 120)
    start = learned_start(phis, answers(phis))
    assert np.isfinite(start({"over decades": -1.0, "even": 0.5})).all()


def test_the_answers_are_turned_with_their_coordinates():
    phis, turn = drawn(0, 40), default_rng(2).standard_normal((3, 3))
    start, phi = learned_start(phis, answers(phis)), {"over decades": 2e4, "even": 0.3}
    np.testing.assert_allclose(start.turned(turn)(phi), turn @ start(phi), rtol=1e-9)


@pytest.mark.parametrize("power", [1, 3, 5])
def test_what_the_others_say_of_each_is_found_without_leaving_it_out(power):
    rng = default_rng(3)
    at, values = rng.standard_normal((24, 2)), rng.standard_normal((24, 3))
    apart = []
    for left_out in range(len(at)):
        others = np.arange(len(at)) != left_out
        found = _interpolation(at[others], values[others], power)[0]
        start = WarmStart(np.zeros(2), np.zeros(2), np.eye(2), at[others], found, power)
        apart.append(np.linalg.norm(start(at[left_out]) - values[left_out]))
    assert _interpolation(at, values, power)[1] == pytest.approx(np.mean(apart), rel=1e-6)


def test_files_from_before_power_and_logarithms(reduced, tmp_path, monkeypatch):
    """Their start is in coordinates of the distance."""
    metric = reduced.core.statistics.metric
    scaled = metric.directions / jnp.sqrt(metric.deviations)
    centres, coefficients = jnp.ones((4, scaled.shape[1])), jnp.ones((5 + scaled.shape[1], 12))
    old = WarmStart(jnp.zeros(3), metric.mean, scaled, centres, coefficients)
    core = replace(reduced.core, statistics=replace(reduced.core.statistics, warm_start=old))
    monkeypatch.setattr(save, "START", {"guess centres": "centres", "guess": "coefficients"})
    replace(reduced, core=core).save(tmp_path / "old.safetensors")
    problem = stated(nonlinear=True)
    again = load_compiled(tmp_path / "old.safetensors", problem, network(problem))
    phi = jnp.array([0.6, 0.7, 0.8])
    np.testing.assert_array_equal(again.core.statistics.start(phi, 12), core.statistics.start(phi, 12))


@pytest.mark.parametrize("count", [2, 5, 18])
def test_few_phi_of_many_numbers_have_a_start_too(count):
    rng = default_rng(4)
    phis, values = rng.standard_normal((count, 40)), rng.standard_normal((count, 3))
    start = learned_start(phis, values)
    np.testing.assert_allclose(jax.vmap(start)(jnp.asarray(phis)), values, rtol=0, atol=1e-6)
