"""The relative residual: how well each condition holds, and what is said when it does not."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from spectral import chebyshev

import pdecl
from pdecl import Status
from pdecl.layer.residual import relative_residuals
from pdecl.layer.system import build

LINE = pdecl.Box(x=(0, 1))
X = np.linspace(0.05, 0.95, 10)
INSIDE = pdecl.Points(X[:, None])
one = lambda x, phi: jnp.stack([x[0] ** 2])


def measured(problem, basis, weights, phi=None):
    system = build(problem, basis, phi, problem.fresh(8), whole=True)
    return relative_residuals(system, jnp.asarray(weights))


def rms(x):
    return np.sqrt(np.mean(np.square(x)))


def test_of_an_affine_equation_it_is_the_residual_over_the_sum_of_its_terms():
    """u = 3 x² in u' + 5 u − sin x: terms 6 x, 15 x² and sin x, or their root mean squares."""
    equation = lambda u, z, phi: u.d("x") + 5 * u() - jnp.sin(z.x)
    problem = pdecl.Problem(LINE, [pdecl.Fit(equation, on=INSIDE, name="equation")])
    slope, value = 6 * X, 3 * X**2
    size = np.maximum(slope, rms(slope)) + 5 * np.maximum(value, rms(value)) + np.sin(X)
    expected = rms(slope + 5 * value - np.sin(X)) / rms(size)
    assert measured(problem, one, [3.0])["equation"] == pytest.approx(expected, rel=1e-12)


def test_of_a_nonlinear_equation_what_its_slopes_leave_is_a_term():
    """u² − 2 at u = 3 x²: the slope 2u gives 2u·u, and u² − 2 − 2u² is left."""
    problem = pdecl.Problem(LINE, [pdecl.Fit(lambda u, z, phi: u() ** 2 - 2, on=INSIDE)])
    u = 3 * X**2
    expected = rms(u**2 - 2) / rms(2 * u * np.maximum(u, rms(u)) + u**2 + 2)
    assert measured(problem, one, [3.0])["Fit 0"] == pytest.approx(expected, rel=1e-12)


def test_the_largest_of_several_rows_counts_and_their_scale_does_not():
    rows = lambda s: lambda u, z, phi: (s * (u() - z.x**2), s * (u() - 2 * z.x**2))
    problems = [pdecl.Problem(LINE, [pdecl.Fit(rows(s), on=INSIDE)]) for s in (1.0, 1e6)]
    small, large = (measured(problem, one, [1.0])["Fit 0"] for problem in problems)
    u = X**2
    assert small == pytest.approx(rms(u) / rms(np.maximum(u, rms(u)) + 2 * u))
    assert large == pytest.approx(small)


def test_zero_on_a_face_is_held_against_the_size_inside():
    """u = x² + 0.01 is one percent off at x = 0, where its own terms would say a hundred."""
    conditions = [
        pdecl.Fit(lambda u, z, phi: u.d("x", "x") - 2, on=LINE.interior, name="equation"),
        pdecl.Fit(lambda u, z, phi: u(), on=LINE.face(x=0), name="wall"),
    ]
    problem = pdecl.Problem(LINE, conditions)
    found = measured(problem, lambda x, phi: jnp.stack([x[0] ** 2 + 0.01]), [1.0])
    inside = np.asarray(problem.fresh(8)[0].coords)[:, 0]
    assert found["equation"] == pytest.approx(0, abs=1e-12)
    assert found["wall"] == pytest.approx(0.01 / rms(inside**2 + 0.01))


def test_nothing_left_of_nothing_holds():
    problem = pdecl.Problem(LINE, [pdecl.Fit(lambda u, z, phi: u(), on=INSIDE)])
    assert measured(problem, one, [0.0])["Fit 0"] == 0


def test_an_energy_has_none():
    energy = pdecl.Energy(lambda u, z, phi: u.d("x") ** 2 - u(), on=LINE.interior.gauss(4))
    wall = pdecl.Enforce(lambda u, z, phi: u(), on=LINE.faces(), name="wall")
    solution = pdecl.solve(pdecl.Problem(LINE, [energy, wall]), chebyshev(LINE, 4))
    assert list(solution.relative_residual) == ["wall"]


class TestStatus:
    """u'' = −(5π)² sin 5πx is not held by five polynomials, and is by thirty."""

    PROBLEM = pdecl.Problem(
        LINE,
        [
            pdecl.Fit(
                lambda u, z, k: u.d("x", "x") + (k * jnp.pi) ** 2 * jnp.sin(k * jnp.pi * z.x),
                on=LINE.interior,
                name="equation",
            ),
            pdecl.Fit(lambda u, z, k: u(), on=LINE.faces(), name="walls"),
        ],
        parameter=lambda key: jax.random.uniform(key),
    )

    def test_a_pde_that_does_not_hold_raises_and_says_which_condition_and_how_far(self):
        with pytest.raises(pdecl.SolveError, match=r"'equation' has a relative residual of 0\.\d"):
            pdecl.solve(self.PROBLEM, chebyshev(LINE, 5), 5.0)

    def test_the_error_passes_between_processes(self):
        error = pdecl.SolveError(Status.NOT_HELD, " here", "By 0.4.")
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.status) == (str(error), Status.NOT_HELD)

    def test_in_a_batch_each_phi_has_its_own(self):
        phis = jnp.asarray([0.5, 5.0])
        solution = jax.vmap(lambda phi: pdecl.solve(self.PROBLEM, chebyshev(LINE, 5), phi, throw=False))(
            phis
        )
        assert solution.status == [Status.SOLVED, Status.NOT_HELD]
        small, large = solution.relative_residual["equation"]
        assert small < 1e-2 < 0.3 < large

    def test_inside_jit(self):
        code = lambda k: pdecl.solve(self.PROBLEM, chebyshev(LINE, 5), k, throw=False).code
        assert jax.jit(code)(5.0) == Status.NOT_HELD

    def test_enough_functions_hold_it(self):
        solution = pdecl.solve(self.PROBLEM, chebyshev(LINE, 30), 5.0)
        assert solution.status is Status.SOLVED
        assert max(solution.relative_residual.values()) < 1e-8

    def test_it_is_measured_on_points_that_were_not_fitted(self):
        """Two points are met exactly by two functions, between them they are far off."""
        few = pdecl.Fit(lambda u, z, phi: u() - jnp.sin(20 * z.x), on=LINE.interior.gauss(2))
        problem = pdecl.Problem(LINE, [few])
        solution = pdecl.solve(problem, chebyshev(LINE, 1), throw=False)
        assert solution.residual["Fit 0"] < 1e-9
        assert solution.status is Status.NOT_HELD

    def test_a_limit_of_the_solve_and_of_a_condition(self):
        noise = np.random.default_rng(0).normal(size=40)
        where = pdecl.Points(np.linspace(0, 1, 40)[:, None], value=1 + 0.2 * noise)
        data = lambda limit: pdecl.Fit(lambda u, z, phi: u() - z.value, on=where, residual_limit=limit)
        solve = lambda limit, **options: pdecl.solve(
            pdecl.Problem(LINE, [data(limit)]), chebyshev(LINE, 2), throw=False, **options
        )
        assert solve(None).status is Status.NOT_HELD
        assert solve(0.3).status is Status.SOLVED
        assert solve(None, residual_limit=0.3).status is Status.SOLVED
        unmeasured = solve(None, residual_limit=None)
        assert unmeasured.status is Status.SOLVED
        assert unmeasured.relative_residual["Fit 0"] == pytest.approx(
            solve(None).relative_residual["Fit 0"]
        )

    @pytest.mark.parametrize("limit", [0, -1.0, "small"])
    def test_a_limit_that_is_none(self, limit):
        with pytest.raises((TypeError, ValueError), match="residual_limit"):
            pdecl.Fit(lambda u, z, phi: u(), on=LINE.interior, residual_limit=limit)
        with pytest.raises((TypeError, ValueError), match="residual_limit"):
            pdecl.solve(self.PROBLEM, chebyshev(LINE, 5), 1.0, residual_limit=limit)


def test_points_that_a_condition_tells_apart_stay():
    """What stands at `z.index` belongs to the points that were fitted."""
    values = jnp.sin(3 * jnp.asarray((np.arange(20) + 0.5) / 20))
    data = pdecl.Fit(lambda u, z, v: u() - v[z.index], on=LINE.interior.grid(20), name="data")
    problem = pdecl.Problem(LINE, [data])
    solution = pdecl.solve(problem, chebyshev(LINE, 12), values)
    assert solution.relative_residual["data"] < 1e-6


def test_zero_that_solves_the_pde_but_not_its_data_is_told():
    """u = 0 is a solution of u' = u², far from the data u(0) = 1."""
    conditions = [
        pdecl.Fit(lambda u, z, phi: u.d("x") - u() ** 2, on=LINE.interior, name="equation"),
        pdecl.Fit(lambda u, z, phi: u() - 1, on=LINE.face(x=0), weight=1e-6, name="start"),
    ]
    solver = pdecl.solvers.GaussNewton(max_steps=200)
    solution = pdecl.solve(
        pdecl.Problem(LINE, conditions), chebyshev(LINE, 3), solver=solver, throw=False
    )
    assert solution.status.failed
    assert solution.relative_residual["start"] > 0.1


class TestAmplified:
    """u' = 8 u from u(0) = 1: an error in the start grows by e⁸. Ten polynomials leave less than 0.1% of
    each condition, and are 20% off."""

    TIME = pdecl.Box(t=(0, 1))
    PROBLEM = pdecl.Problem(
        TIME,
        [
            pdecl.Fit(lambda u, z, g: u.d("t") - g * u(), on=TIME.interior, name="growth"),
            pdecl.Fit(lambda u, z, g: u() - 1, on=TIME.face(t=0), name="start", weight=3.0),
        ],
        parameter=lambda key: jax.random.uniform(key),
    )
    BASIS = staticmethod(lambda x, phi: jnp.stack([(2 * x[0] - 1) ** k for k in range(10)]))

    def solve(self, phi=8.0, **options):
        return pdecl.solve(self.PROBLEM, self.BASIS, phi, **{"throw": False} | options)

    def test_a_warning_says_how_large_the_error_may_be(self):
        words = r"may be large\. .* up to \S+ leave room for an error of \d\d%"
        with pytest.warns(UserWarning, match=words):
            assert self.solve(throw=True).status is Status.AMPLIFIED

    def test_the_room_is_the_largest_change_that_the_residuals_do_not_see(self):
        """By NumPy and a generalised eigenvalue problem."""
        solution = self.solve()
        fresh, power = self.PROBLEM.fresh(10), np.arange(10)
        left = solution.residual_at(fresh)
        relative = {name: float(r) for name, r in solution.relative_residual.items()}
        least = 0.1 * max(relative.values())
        tau = {name: float(left[name]) * max(1, least / relative[name]) for name in left}
        start = (-1.0) ** power[None] / tau["start"]
        metric = start.T @ start
        for inside, _ in (fresh, solution.points):
            s = 2 * np.asarray(inside.coords) - 1
            values, slopes = s**power, 2 * power * s ** np.maximum(power - 1, 0)
            growth = (slopes - 8 * values) / tau["growth"]
            metric = metric + 0.5 * growth.T @ growth / len(s)
        u = values @ np.asarray(solution.weights)
        largest = scipy.linalg.eigh(values.T @ values, metric, eigvals_only=True)[-1]
        assert solution.room == pytest.approx(np.sqrt(largest) / np.linalg.norm(u), rel=1e-3)
        t = np.linspace(0, 1, 101)
        exact = np.exp(8 * t)
        error = np.linalg.norm(solution(t[:, None]) - exact) / np.linalg.norm(exact)
        assert 0.2 < error < solution.room

    def test_in_a_batch_inside_jit_each_phi_has_its_own(self):
        codes = jax.jit(jax.vmap(lambda phi: self.solve(phi).code))(jnp.asarray([0.5, 8.0]))
        assert codes.tolist() == [Status.SOLVED, Status.AMPLIFIED]

    def test_a_higher_limit_lets_it_pass(self):
        assert self.solve(residual_limit=0.1).status is Status.SOLVED

    def test_where_no_limit_is_asked_for_nothing_is_measured(self):
        solution = self.solve(residual_limit=None)
        assert (solution.status, solution.room) == (Status.SOLVED, None)
