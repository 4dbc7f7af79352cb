"""Large batches: the φ that need more steps than most go on without the others."""

from dataclasses import replace
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdecl
from pdecl.layer.system import build
from pdecl.reduced.core import answer, in_rounds
from pdecl.reduced.online import Rules, first_iterate, iterated


@pytest.fixture(scope="module")
def strict(reduced):
    """A solver whose steps go on for long enough that φ differ in how many they need."""
    rules = replace(reduced.core.rules, rtol=jnp.asarray(1e-10), max_steps=30, offset=0.0)
    return replace(reduced.core, rules=rules)


@pytest.fixture(scope="module")
def many(fresh):
    """Larger amplitudes need more steps."""
    return jnp.concatenate([fresh, fresh * jnp.array([1.0, 1.5, 1.5])])


def test_it_is_what_each_would_find_alone(strict, many):
    found = jax.jit(lambda phis: in_rounds(strict, phis))(many)
    alone = jax.jit(jax.vmap(strict.iterate))(many)
    assert alone.converged.all()
    assert found.converged.all()
    assert len(np.unique(alone.steps)) > 2
    assert (np.asarray(found.steps) > 3).sum() > len(many) // 16  # so that one round is not enough
    np.testing.assert_allclose(found.weights, alone.weights, rtol=0, atol=1e-8)


def test_who_fails_disturbs_nobody(strict, many):
    bad = many.at[7].set(jnp.nan)
    found, expected = answer(strict, bad, True), answer(strict, many, True)
    others = np.arange(len(many)) != 7
    assert found.code[7] != expected.code[7]
    np.testing.assert_array_equal(found.code[others], expected.code[others])
    np.testing.assert_allclose(found.weights[others], expected.weights[others], rtol=0, atol=1e-8)


def test_gradients_go_through_the_rounds(strict, many):
    total = lambda phis: jnp.sum(answer(strict, phis, True).weights ** 2)
    way, step = jnp.cos(jnp.arange(many.size)).reshape(many.shape), 1e-4
    difference = (total(many + step * way) - total(many - step * way)) / (2 * step)
    assert np.isclose(jnp.sum(jax.grad(total)(many) * way), difference, rtol=1e-5)


def test_no_step_is_taken_that_changes_less_than_is_uncertain(reduced, strict, many):
    """Answers are off by what the functions left out would give; steps far below that are not taken."""
    rules = replace(strict.rules, offset=0.05)
    soon, late = (
        jax.jit(jax.vmap(replace(strict, rules=r).iterate))(many) for r in (rules, strict.rules)
    )
    assert soon.converged.all()
    assert (np.asarray(soon.steps) <= np.asarray(late.steps)).all()
    assert np.mean(soon.steps) < 0.7 * np.mean(late.steps)
    size = lambda weights: np.linalg.norm(weights @ np.asarray(strict.norm).T, axis=1)
    moved = size(np.asarray(soon.weights - late.weights)) / size(np.asarray(late.weights))
    assert np.median(moved) < 0.05 * reduced.error.mean


def scalar(equation, data):
    """A system for one number: the equation at as many places as there are data."""
    points = pdecl.Points(np.arange(float(len(data)))[:, None], value=data)
    problem = pdecl.Problem(pdecl.Box(x=(0, 9)), [pdecl.Fit(equation, on=points)])
    return build(problem, lambda x, phi: jnp.ones(1), None, (points,))


def steps_from(start, system, whitening, rtol=0.0, offset=0.0):
    rules = Rules("float64", jnp.asarray(float(rtol)), 30, float(offset))
    return iterated(system, whitening, jnp.eye(1), first_iterate(jnp.array([start])), rules)


def test_when_a_step_is_the_last():
    """For u² at four places, by one function: small beside what is left of the rows, each by its degrees
    of freedom, one and the other three; or beside u, when multiplied by its ratio to the one before."""
    data = np.array([3.0, 4.0, 5.5, 4.5])
    system = scalar(lambda u, z, phi: u() ** 2 - z.value, data)
    w, offsets, sizes = 1.0, [], []
    for _ in range(4):
        rows, slope = (w**2 - data) / 2, np.full(4, w)
        gain = (slope @ rows) ** 2 / (slope @ slope)
        offsets.append(np.sqrt(gain * 3 / (rows @ rows - gain)))
        step = -slope @ rows / (slope @ slope)
        w += step
        sizes.append(abs(step / w))
    left = [sizes[0], *(b * min(1, b / a) for a, b in pairwise(sizes))]
    for count in (1, 2, 3):
        for factor, more in [(1.05, 0), (0.95, 1)]:
            by_offset = steps_from(1.0, system, jnp.eye(4), offset=factor * offsets[count - 1])
            by_size = steps_from(1.0, system, None, rtol=factor * left[count - 1])
            for found in (by_offset, by_size):
                assert found.converged
                assert found.steps == count + more


def test_a_step_that_leads_away_is_shortened():
    """Full steps for arctan(u − 1) from 4 end at infinity; with the first one quartered they do not."""
    found = steps_from(4.0, scalar(lambda u, z, phi: jnp.arctan(u() - z.value), np.ones(1)), None, 1e-9)
    assert found.converged
    assert found.weights[0] == pytest.approx(1, rel=1e-9)
    assert 3 < found.steps < 10
