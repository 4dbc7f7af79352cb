"""Which φ are solved for when a family is trained without a network."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

import pdecl
from pdecl.family.own import own
from pdecl.reduced.greedy import Draws, novelties


def test_novelty_is_the_distance_from_all_others():
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((5, 8)) * [[1.0], [1e3], [1e-3], [1.0], [1.0]]
    alike = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    for k, found in enumerate(novelties(weights, 1)):
        others = np.delete(alike, k, axis=0).T
        rest = alike[k] - others @ np.linalg.lstsq(others, alike[k])[0]
        np.testing.assert_allclose(found, np.linalg.norm(rest), rtol=1e-6)


def test_novelty_of_a_repeated_solution_is_rounding():
    weights = np.eye(4)[[0, 1, 1, 2]]
    np.testing.assert_allclose(novelties(weights, 1), [1, 0, 0, 1], atol=1e-6)


def test_hard_phi_come_more_often_and_every_fourth_as_it_is_drawn():
    line = pdecl.Box(x=(0, 1))
    problem = pdecl.Problem(
        line,
        [pdecl.Fit(lambda u, z, phi: u() - phi, on=line.interior)],
        parameter=lambda key: jr.uniform(key),
    )
    draws = Draws(own(problem, "problem", {}))
    first = [draws.next(k) for k in range(24)]
    # Solutions that agree below 0.7, and are new above.
    weights = np.stack([np.eye(24)[k if phi > 0.7 else 0] for k, phi in enumerate(first)])
    draws.learn(first, weights, 1)
    more = np.array([draws.next(k) for k in range(40)])
    plain = np.arange(40) % 4 == 3
    assert np.mean(more[~plain] > 0.7) > 0.9
    assert np.mean(more[plain] > 0.7) < 0.7
    assert len(np.unique(jnp.concatenate([jnp.asarray(first), more]))) == 64
