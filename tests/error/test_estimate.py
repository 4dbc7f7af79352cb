"""The estimator for a PDE of one's own: calibrated, honest about it, and of the right size."""

import bound_cases as cases
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import pdecl
from pdecl.error import calibrate, estimate

BOX = pdecl.Box(x=(0, 1), t=(0, 1))
# u_t + k u_x = 0 with u = sin 3x at t = 0
PROBLEM = pdecl.Problem(
    BOX,
    [
        pdecl.Fit(lambda u, z, k: u.d("t") + k * u.d("x"), on=BOX.interior, name="equation"),
        pdecl.Fit(lambda u, z, k: u() - jnp.sin(3 * z.x), on=BOX.face(t=0), name="start"),
        pdecl.Fit(lambda u, z, k: u() + jnp.sin(3 * k * z.t), on=BOX.face(x=0), name="inflow"),
    ],
    parameter=lambda key: jr.uniform(key, minval=0.2, maxval=2.0),
)
BASIS = cases.polynomials(3)
PHIS = PROBLEM.sample(jr.key(1), 30)
exact = lambda k, coords: jnp.sin(3 * (coords[:, 0] - k * coords[:, 1]))


@pytest.fixture(scope="module")
def estimator():
    return calibrate(PROBLEM, BASIS, PHIS, key=jr.key(0), reference=exact)


@pytest.fixture(scope="module")
def unseen():
    """A batch of other φ and their true relative errors."""
    phis = PROBLEM.sample(jr.key(2), 30)
    solution = jax.vmap(lambda phi: pdecl.solve(PROBLEM, BASIS, phi, residual_limit=None))(phis)
    mesh = BOX.mesh(30, 30)
    truth = np.stack([exact(k, mesh) for k in phis])
    off = np.linalg.norm(solution(mesh) - truth, axis=1)
    return solution, off / np.linalg.norm(truth, axis=1)


def test_it_covers_as_many_as_it_says_and_is_near(estimator, unseen):
    solution, errors = unseen
    found = estimator(solution)
    assert found.kind == "estimate"
    assert "90%" in found.norm
    assert np.mean(errors <= 1.02 * found.relative) >= 0.8
    assert np.median(found.relative / errors) < 3


def test_the_factor_is_the_quantile_of_the_other_half(estimator):
    """Of 15 φ the 15th, the ⌈16 · 0.9⌉-th, and for a quantile of 0.6 the tenth is met exactly."""
    looser = calibrate(PROBLEM, BASIS, PHIS, key=jr.key(0), reference=exact, quantile=0.6)
    solution = jax.vmap(lambda phi: pdecl.solve(PROBLEM, BASIS, phi, residual_limit=None))(PHIS[15:])
    coords = estimator.points[0].coords
    truth = np.stack([exact(k, coords) for k in PHIS[15:]])
    errors = np.sqrt(np.mean((np.asarray(solution(coords)) - truth) ** 2, axis=1))
    for found, met in [(estimator, 15), (looser, 10)]:
        ratios = np.sort(errors / np.asarray(found(solution).bound))
        assert ratios[met - 1] == pytest.approx(1, rel=1e-9)
        assert found.count == 15


def test_it_tells_good_from_bad(estimator, unseen):
    wrong = cases.perturbed(unseen[0], 0.1)
    assert (estimator(wrong).relative > estimator(unseen[0]).relative).all()


def test_without_a_reference_random_functions_are_added(estimator, unseen):
    joined = calibrate(PROBLEM, BASIS, PHIS, key=jr.key(0))
    np.testing.assert_allclose(joined(unseen[0]).relative, estimator(unseen[0]).relative, rtol=0.2)


def test_large_systems_are_solved_for_a_few_phi_at_a_time(estimator, monkeypatch):
    monkeypatch.setattr(estimate, "_HELD", 7 * BASIS(jnp.zeros(2), 0.5).size ** 2)  # 30 φ: 7, 7, 7, 7, 2
    again = calibrate(PROBLEM, BASIS, PHIS, key=jr.key(0), reference=exact)
    assert again.factor == pytest.approx(estimator.factor, rel=1e-9)
    assert again.shares == pytest.approx(estimator.shares, rel=1e-9)


def test_a_richer_basis_must_be_richer():
    with pytest.raises(ValueError, match="times smaller"):
        calibrate(PROBLEM, BASIS, PHIS, key=jr.key(0), richer=BASIS)


def test_too_few_phi():
    with pytest.raises(ValueError, match="at least 20"):
        calibrate(PROBLEM, BASIS, PHIS[:10], key=jr.key(0), reference=exact)


def test_an_energy_is_no_residual():
    family = cases.DARCY
    with pytest.raises(ValueError, match="Energy"):
        calibrate(family.problem(), cases.bumps(2), family.sample(1, 20), key=jr.key(0))


def test_another_problem_is_noticed(estimator):
    other = pdecl.Problem(BOX, PROBLEM.conditions[:2], PROBLEM.parameter)
    with pytest.raises(ValueError, match="calibrated for"):
        estimator(pdecl.solve(other, BASIS, 0.5, residual_limit=None))


def test_shares_explain_the_errors_and_none_is_lost():
    """Errors made of two mean squares give back what each counts; a third keeps a little."""
    squares = np.random.default_rng(0).uniform(0.1, 2, (12, 3)) * np.array([1.0, 100.0, 5.0])
    true = np.array([2.0, 0.05, 0.0])
    errors = np.sqrt(squares @ true)
    scale = np.mean(squares / errors[:, None] ** 2, axis=0)
    wanted = [2.0, 0.05, 1e-3 * np.max(true * scale) / scale[2]]
    np.testing.assert_allclose(estimate._shares(squares, errors), wanted, rtol=1e-9)
