"""Large batches: the φ that need more steps than most go on without the others."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdecl
from pdecl.layer.system import build
from pdecl.reduced import core
from pdecl.reduced.core import answer, in_rounds
from pdecl.reduced.online import Rules, first_iterate, iterated


@pytest.fixture(scope="module")
def strict(reduced):
    """A solver whose steps begin at zero and go on for long, so that φ differ in how many they need."""
    rules = replace(reduced.core.rules, rtol=jnp.asarray(1e-10), max_steps=30, offset=0.0)
    anywhere = replace(reduced.core.statistics, warm_start=None)
    return replace(reduced.core, rules=rules, statistics=anywhere)


@pytest.fixture(scope="module")
def many(fresh):
    """More than are kept together; larger amplitudes need more steps."""
    stronger = [fresh * jnp.array([1.0, amplitude, amplitude]) for amplitude in (1.0, 1.25, 1.5)]
    return jnp.concatenate(stronger)


def test_it_is_what_each_would_find_alone(strict, many):
    assert len(many) >= core.SMALL
    found = jax.jit(lambda phis: in_rounds(strict, phis))(many)
    alone = jax.jit(jax.vmap(strict.iterate))(many)
    assert alone.converged.all()
    assert found.converged.all()
    assert len(np.unique(alone.steps)) > 2
    # So that one round of each kind is not enough.
    assert (np.asarray(found.steps) > 1).sum() > len(many) // core.SHARES[0]
    assert (np.asarray(found.steps) > 2).sum() > len(many) // core.SHARES[1]
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


def test_no_step_is_taken_that_changes_less_than_is_uncertain(reduced, strict, fresh):
    """Answers are off by what the functions left out would give; steps far below that are not taken."""
    begun = replace(strict, statistics=reduced.core.statistics)  # from the warm start, as solvers do
    rules = replace(strict.rules, offset=0.05)
    soon, late = (
        jax.jit(jax.vmap(replace(begun, rules=r).iterate))(fresh) for r in (rules, strict.rules)
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


def steps_of(data):
    """Steps for u² at four places, by one function from 1: for each how many factorisations there were;
    its size beside what is left of the rows, each by its degrees of freedom, one and the other three;
    and beside u, when multiplied by its ratio to the one before. One by the factorisation at hand is
    taken if that ratio is at most 0.2, and counts four times."""
    w, before, count, gram, found = 1.0, np.inf, 0, None, []
    while len(found) < 9:
        fresh = gram is None
        gram, count = (4 * w**2, count + 1) if fresh else (gram, count)
        rows, slope = (w**2 - data) / 2, np.full(4, w)
        step = -slope @ rows / gram
        size, gain = abs(step / (w + step)), -slope @ rows * step
        ratio = min(1.0, size / before) if found else 1.0
        if not fresh and ratio > 0.2:
            gram = None
            continue
        found.append(
            (count, np.sqrt(gain * 3 / (rows @ rows - gain)), ratio * size * (1 if fresh else 4))
        )
        w, before = w + step, size
    return found


def test_when_a_step_is_the_last():
    data = np.array([3.0, 4.0, 5.5, 4.5])
    system = scalar(lambda u, z, phi: u() ** 2 - z.value, data)
    counts, offsets, sizes = zip(*steps_of(data), strict=True)
    for this, factor in itertools.product(range(6), (1.05, 0.95)):
        reached = lambda left, goal: counts[np.argmax(np.asarray(left) <= goal)]
        offset, rtol = factor * offsets[this], factor * sizes[this]
        by_offset = steps_from(1.0, system, jnp.eye(4), offset=offset)
        by_size = steps_from(1.0, system, None, rtol=rtol)
        assert by_offset.converged
        assert by_size.converged
        assert by_offset.steps == reached(offsets, offset)
        assert by_size.steps == reached(sizes, rtol)


def test_a_step_that_leads_away_is_shortened():
    """Full steps for arctan(u − 1) from 4 end at infinity; with the first one quartered they do not."""
    found = steps_from(4.0, scalar(lambda u, z, phi: jnp.arctan(u() - z.value), np.ones(1)), None, 1e-9)
    assert found.converged
    assert found.weights[0] == pytest.approx(1, rel=1e-9)
    assert 2 < found.steps < 10
