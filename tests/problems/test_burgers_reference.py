import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fast_solvers import cole_hopf, cole_hopf_jax
from fast_solvers import etdrk4 as etdrk4_jax
from scipy.integrate import solve_ivp

from pdecl.family.metrics import relative_l2
from pdecl.problems import Burgers
from pdecl.problems.burgers import coefficients, initial
from pdecl.problems.burgers.reference import converged, etdrk4

LAW = Burgers()
U0 = LAW.sample(2, 4)
WAVES = coefficients(U0)


@pytest.fixture(scope="module")
def reference():
    return LAW.reference(U0)


def test_reference_agrees_with_the_closed_form(reference):
    assert reference.shape == (4, 101, 101)
    assert np.abs(reference - cole_hopf(WAVES, 0.01)).max() < 1e-9
    np.testing.assert_allclose(reference[:, 0], U0, atol=1e-12)
    np.testing.assert_allclose(reference[:, :, 0], reference[:, :, -1], atol=1e-12)


def test_reference_self_converges_below_1e_9():
    two = [etdrk4(WAVES, 0.01, points, steps) for points, steps in ((256, 800), (512, 1600))]
    assert np.abs(two[0] - two[1]).max() < 1e-9


def test_etdrk4_is_fourth_order():
    exact = cole_hopf(WAVES, 0.01)
    errors = [relative_l2(etdrk4(WAVES, 0.01, 256, n), exact).mean() for n in (100, 200, 400)]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (np.abs(orders - 4) < 0.2).all()


def test_scipy_agrees(reference):
    # Fourth-order finite differences in x and adaptive steps in t: nothing in common.
    n = 400
    x = np.arange(n) / n

    def rate(_, u):
        def at(k):
            return np.roll(u, -k)

        square_slope = 8 * (at(1) ** 2 - at(-1) ** 2) - (at(2) ** 2 - at(-2) ** 2)
        second = 16 * (at(1) + at(-1)) - (at(2) + at(-2)) - 30 * u
        return -square_slope * n / 24 + 0.01 * second * n**2 / 12

    solved = solve_ivp(rate, (0, 1), initial(U0[0], x), "RK45", t_eval=[0.5, 1.0], rtol=1e-7, atol=1e-9)
    assert np.abs(solved.y[::4].T - reference[0, [50, 100], :-1]).max() < 2e-6


def test_mean_is_conserved_and_drifts(reference):
    moved = LAW.reference(U0[:1] + 0.5)
    np.testing.assert_allclose(moved[:, :, :-1].mean(axis=-1), 0.5, atol=1e-9)
    # Galilean invariance: after t = 1/2 the picture has moved by 1/4.
    np.testing.assert_allclose(moved[0, 50, :-1], 0.5 + np.roll(reference[0, 50, :-1], 25), atol=1e-9)
    assert np.abs(moved - cole_hopf(coefficients(U0[:1] + 0.5), 0.01)).max() < 1e-9


def test_few_steps_with_hermite_output_stay_accurate():
    exact = cole_hopf(WAVES, 0.01)
    single = etdrk4_jax(jnp.asarray(WAVES, jnp.complex64), 0.01, 64, 25)
    assert single.dtype == jnp.float32
    assert relative_l2(np.asarray(single), exact).mean() < 1e-4


def test_jax_forms_agree_with_numpy():
    waves = jnp.asarray(WAVES)
    found = etdrk4_jax(waves, 0.01, 128, 100)
    np.testing.assert_allclose(found, etdrk4(WAVES, 0.01, 128, 100), atol=1e-12)
    np.testing.assert_allclose(cole_hopf_jax(waves, 0.01, 256), cole_hopf(WAVES, 0.01, 256), atol=1e-10)


def test_initial_is_the_trigonometric_interpolant():
    x = np.linspace(0, 1, 101)
    np.testing.assert_allclose(initial(U0[0], x), U0[0], atol=1e-13)
    # The law's φ has 49 modes, so 101 sensors say all: a finer law evaluates to the same curve.
    finer = Burgers(sensors=501).sample(2, 1)[0]
    np.testing.assert_allclose(initial(U0[0], np.linspace(0, 1, 501)), finer, atol=1e-12)
    traced = jax.jit(jax.vmap(initial, (None, 0)))(jnp.asarray(U0[0]), jnp.asarray(x))
    np.testing.assert_allclose(traced, U0[0], atol=1e-13)
    slope = jax.grad(initial, 1)(jnp.asarray(U0[0]), 0.3)
    wanted = (initial(U0[0], 0.3 + 1e-6) - initial(U0[0], 0.3 - 1e-6)) / 2e-6
    assert slope == pytest.approx(wanted, rel=1e-7)


@pytest.mark.parametrize("points", [20, 21])
def test_other_resolutions_are_read_as_the_same_function(points):
    x = np.linspace(0, 1, points)
    wave = 0.2 * np.sin(2 * np.pi * x) + 0.1 * np.cos(4 * np.pi * x)
    fine = np.linspace(0, 1, 101)
    same = 0.2 * np.sin(2 * np.pi * fine) + 0.1 * np.cos(4 * np.pi * fine)
    np.testing.assert_allclose(LAW.reference(wave), LAW.reference(same), atol=1e-9)


def test_limits_are_said():
    with pytest.raises(ValueError, match="Cole–Hopf"):
        cole_hopf(WAVES, 1e-4)
    with pytest.raises(ValueError, match="multiple"):
        etdrk4(WAVES, 0.01, 64, 150)
    with pytest.raises(ValueError, match="raise the viscosity"):
        converged(WAVES[:1] * 1e3, 1e-6, most_steps=400)


def test_impossible_law_is_refused():
    with pytest.raises(ValueError, match="viscosity must be positive"):
        Burgers(viscosity=0.0)
    with pytest.raises(ValueError, match="at least 100 sensors"):
        Burgers(sensors=64)
