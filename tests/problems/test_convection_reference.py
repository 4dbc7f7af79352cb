import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fast_solvers import box_on_jax, characteristics, tabulated_characteristics
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline

from pdecl.family.metrics import relative_l2
from pdecl.problems import Convection
from pdecl.problems.convection import slopes, speed
from pdecl.problems.convection.reference import box_scheme

LAW = Convection()
BETA = LAW.sample(2, 8)
GRID = np.linspace(0, 1, 101)


@pytest.mark.parametrize("sensors", [6, 101, 250])
def test_linear_speed_has_a_closed_form(sensors):
    beta = 1 + 0.7 * np.linspace(0, 1, sensors)
    travel = np.log1p(0.7 * GRID) / 0.7
    start = ((1 + 0.7 * GRID) * np.exp(-0.7 * GRID[:, None]) - 1) / 0.7
    wanted = np.where(
        GRID[:, None] >= travel,
        np.sin(np.pi / 2 * (GRID[:, None] - travel)),
        np.sin(np.pi * start),
    )
    assert np.abs(LAW.reference(beta)[0] - wanted).max() < 1e-13


def test_scipy_traces_the_same_characteristics():
    spline = CubicSpline(GRID, BETA[3])

    def left_edge(_, x):
        return x[0]

    left_edge.terminal = True
    u = LAW.reference(BETA[3])[0]
    for row, column in ((100, 100), (30, 90), (60, 20), (5, 50), (77, 64), (1, 100)):
        solved = solve_ivp(
            lambda _, x: -spline(x), (0, row / 100), [column / 100],
            "DOP853", rtol=1e-12, atol=1e-13, events=left_edge, max_step=0.01,
        )  # fmt: skip
        if solved.t_events[0].size:
            wanted = np.sin(np.pi / 2 * (row / 100 - solved.t_events[0][0]))
        else:
            wanted = np.sin(np.pi * solved.y[0, -1])
        assert abs(u[row, column] - wanted) < 1e-9


def test_newton_steps_polish_a_fourth_order_start():
    exact = characteristics(BETA, slopes(BETA))
    np.testing.assert_allclose(characteristics(BETA, slopes(BETA), 2), exact, atol=1e-14)
    errors = []
    for sensors in (26, 51, 101):
        beta = BETA[:, :: 100 // (sensors - 1)]
        start = characteristics(beta, slopes(beta), 0)
        errors.append(np.abs(start - characteristics(beta, slopes(beta))).mean())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (np.abs(orders - 4) < 0.5).all()


def test_box_scheme_is_off_by_0_9_percent():
    beta = LAW.sample(2, 50)
    errors = relative_l2(LAW.companions(beta)["u_box"], LAW.reference(beta))
    assert errors.mean() == pytest.approx(0.009, abs=0.0005)


def test_box_scheme_is_second_order_ahead_of_the_kink():
    errors = []
    exact = LAW.reference(BETA)
    # The characteristic from (0, 0) carries a kink, with ripples behind it: look ahead of it.
    ahead = np.s_[:, :11, 60:]
    for nodes in (101, 201, 401):
        u = box_scheme(speed(BETA, np.linspace(0, 1, nodes)))
        stride = (nodes - 1) // 100
        errors.append(np.abs(u[:, ::stride, ::stride] - exact)[ahead].max())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (np.abs(orders - 2) < 0.1).all()


def test_box_scheme_is_exact_for_unit_speed():
    beta = np.ones((1, 101))
    np.testing.assert_allclose(box_scheme(beta), LAW.reference(beta), atol=1e-13)


def test_jax_forms_agree_with_numpy():
    beta = jnp.asarray(BETA)
    np.testing.assert_allclose(
        characteristics(beta, slopes(beta)), characteristics(BETA, slopes(BETA)), atol=1e-12
    )
    np.testing.assert_allclose(box_on_jax(beta), box_scheme(BETA), atol=1e-12)


def test_speed_is_the_cubic_spline_anywhere():
    x = np.linspace(0, 1, 777)
    wanted = CubicSpline(GRID, BETA[0])(x)
    np.testing.assert_allclose(speed(BETA[0], x), wanted, atol=1e-12)
    traced = jax.jit(jax.vmap(speed, (None, 0)))(jnp.asarray(BETA[0]), jnp.asarray(x))
    np.testing.assert_allclose(traced, wanted, atol=1e-12)
    # Linear in φ, so its gradient in φ is the spline's cardinal functions, which sum to one.
    slope = jax.grad(speed)(jnp.asarray(BETA[0]), 0.377)
    assert slope.sum() == pytest.approx(1.0, abs=1e-12)


def test_solution_obeys_the_pde_in_the_smooth_part():
    # u_t + β u_x by sixth-order differences of the exact solution, behind the kink.
    u = LAW.reference(BETA)
    weights = np.array([-1, 9, -45, 0, 45, -9, 1]) / 60 * 100
    u_t = sum(w * u[:, k : k + 95, 3:-3] for k, w in enumerate(weights))
    u_x = sum(w * u[:, 3:-3, k : k + 95] for k, w in enumerate(weights))
    residual = u_t + BETA[:, None, 3:-3] * u_x
    late = np.s_[:, 92:, 5:30]
    assert np.abs(residual[late]).max() < 1e-4


def test_table_is_a_fourth_order_shortcut_to_the_same_solution():
    exact = LAW.reference(BETA)
    errors = [
        np.abs(tabulated_characteristics(BETA, slopes(BETA), cells) - exact).mean()
        for cells in (32, 64, 128)
    ]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (np.abs(orders - 4) < 0.5).all()
    beta = jnp.asarray(BETA)
    np.testing.assert_allclose(
        tabulated_characteristics(beta, slopes(beta), 64),
        tabulated_characteristics(BETA, slopes(BETA), 64),
        atol=1e-12,
    )
