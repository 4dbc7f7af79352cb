"""Each kind of condition, shown by the solution it leads to."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from spectral import chebyshev

import pdecl
from pdecl.layer import layer
from pdecl.layer.system import build, linearise

LINE = pdecl.Box(x=(0, 1))
POLYNOMIALS = chebyshev(LINE, 12)
MESH = LINE.mesh(33)
X = np.asarray(MESH[:, 0])


def on_line(*conditions, **kwargs):
    """A problem on the interval, for 13 Chebyshev polynomials."""
    return pdecl.Problem(LINE, conditions, **kwargs)


def close(solution, exact, tolerance=1e-7):
    np.testing.assert_allclose(solution(MESH), exact, atol=tolerance, rtol=0)


def algebra(*arguments, **options):
    """A solve of conditions that were never meant to hold all together."""
    return pdecl.solve(*arguments, residual_limit=None, **options)


def fit(equation, on, weight=1.0):
    return pdecl.Fit(equation, on=on, weight=weight)


INSIDE = LINE.interior.gauss(20)
# -u'' = sin: u = sin x + linear, which the boundary conditions decide
EQUATION = fit(lambda u, z, phi: u.d("x", "x") + jnp.sin(z.x), INSIDE)


class TestBoundaryConditions:
    """a u + b u_n = c at the ends, with (a, b, c) for each; one problem for all, compiled once."""

    PROBLEM = on_line(
        EQUATION,
        fit(
            lambda u, z, phi: phi[z.index, 0] * u() + phi[z.index, 1] * u.dn() - phi[z.index, 2],
            LINE.faces("x"),
            100,
        ),
    )

    def check(self, left, right, slope, shift):
        solution = pdecl.solve(self.PROBLEM, POLYNOMIALS, jnp.array([left, right]))
        close(solution, np.sin(X) + slope * X + shift)

    def test_dirichlet(self):
        self.check((1.0, 0.0, 0.0), (1.0, 0.0, 2.0), 2 - np.sin(1), 0)

    def test_neumann(self):
        self.check((1.0, 0.0, 0.0), (0.0, 1.0, 3.0), 3 - np.cos(1), 0)

    def test_neumann_on_the_lower_face_points_outwards(self):
        self.check((0.0, 1.0, 3.0), (1.0, 0.0, 0.0), -4, 4 - np.sin(1))

    def test_robin(self):
        # u_n + 2u = 0 at both ends of u = sin x + a x + b: 2b − 1 − a = 0 and 3a + 2b = −cos 1 − 2 sin 1
        a, b = np.linalg.solve([[-1, 2], [3, 2]], [1, -np.cos(1) - 2 * np.sin(1)])
        self.check((2.0, 1.0, 0.0), (2.0, 1.0, 0.0), a, b)

    def test_periodic_in_value_and_derivative(self):
        # u'' − u = −(1 + 4π²) sin 2πx + ½: periodic only with both conditions
        inside = fit(
            lambda u, z, phi: (
                u.d("x", "x") - u() + (1 + 4 * jnp.pi**2) * jnp.sin(2 * jnp.pi * z.x) + 0.5
            ),
            INSIDE,
        )
        ends = fit(
            lambda u, z, phi: (u() - u.at("opposite")(), u.d("x") - u.at("opposite").d("x")),
            LINE.periodic("x"),
            100,
        )
        basis = chebyshev(LINE, 16)
        close(pdecl.solve(on_line(inside, ends), basis), np.sin(2 * np.pi * X) + 0.5)

    def test_initial_value_and_velocity(self):
        # u'' + 4u = 0 with u(0) = 1, u'(0) = 2: cos 2x + sin 2x
        motion = fit(lambda u, z, phi: u.d("x", "x") + 4 * u(), INSIDE)
        start = fit(lambda u, z, phi: (u() - 1, u.d("x") - 2), LINE.face(x=0), 100)
        close(pdecl.solve(on_line(motion, start), POLYNOMIALS), np.cos(2 * X) + np.sin(2 * X))

    def test_observed_data_in_the_place_of_boundary_values(self):
        at = np.array([0.2, 0.5, 0.9])
        data = pdecl.Points(at[:, None], value=np.sin(at) + 3 * at - 1)
        observed = fit(lambda u, z, phi: u() - z.value, data, 100)
        close(pdecl.solve(on_line(EQUATION, observed), POLYNOMIALS), np.sin(X) + 3 * X - 1)

    def test_noisy_data_are_averaged_with_their_weights(self):
        points = pdecl.Points(np.full((2, 1), 0.5), weights=[3.0, 1.0], value=[1.0, 5.0])
        problem = on_line(fit(lambda u, z, phi: u() - z.value, points))
        solution = algebra(problem, lambda x, phi: jnp.ones(1))
        assert solution.weights[0] == pytest.approx(2.0)
        assert solution.residual["Fit 0"] == pytest.approx(np.sqrt(3.0))


class TestParameters:
    """φ of any kind. The solution is u = φ-dependent polynomial, so it is found to rounding."""

    BASIS = staticmethod(chebyshev(LINE, 6))
    SENSORS = jnp.linspace(0.0, 1.0, 3)

    def test_a_number(self):
        problem = on_line(
            fit(lambda u, z, k: u.d("x") - k, INSIDE), fit(lambda u, z, k: u() - k**2, LINE.face(x=0))
        )
        close(pdecl.solve(problem, self.BASIS, 3.0), 9 + 3 * X, 1e-9)

    def test_a_whole_number_counts_as_a_number(self):
        problem = on_line(fit(lambda u, z, k: u() - k * z.x, INSIDE))
        close(pdecl.solve(problem, self.BASIS, 3), 3 * X, 1e-9)

    def test_sensor_values_interpolated_by_the_problem(self):
        source = lambda z, a: a[0] + (a[1] - a[0]) * z.x
        problem = on_line(
            fit(lambda u, z, a: u.d("x") - source(z, a), INSIDE),
            fit(lambda u, z, a: u(), LINE.face(x=0)),
        )
        solution = pdecl.solve(problem, self.BASIS, jnp.array([2.0, 6.0]))
        close(solution, 2 * X + 2 * X**2, 1e-9)

    def test_a_pytree(self):
        problem = on_line(
            fit(lambda u, z, p: u.d("x") - p["slope"] * z.x - p["rest"][1], INSIDE),
            fit(lambda u, z, p: u() - p["rest"][0], LINE.face(x=0)),
            parameter=lambda key: {"slope": jnp.zeros(()), "rest": (jnp.zeros(()), jnp.zeros(()))},
        )
        close(
            pdecl.solve(problem, self.BASIS, {"slope": 4.0, "rest": (1.0, -1.0)}), 2 * X**2 - X + 1, 1e-9
        )

    def test_a_function_on_a_grid(self):
        # φ = 1 − |2x − 1| at three nodes; on a mesh where its pieces are met the fit is the projection
        problem = on_line(
            fit(
                lambda u, z, values: u() - jnp.interp(z.x, TestParameters.SENSORS, values),
                LINE.interior.gauss(4, cells=2),
            )
        )
        hats = lambda x, phi: jnp.maximum(0.0, 1 - jnp.abs(2 * x[0] - jnp.arange(3.0)))
        solution = pdecl.solve(problem, hats, jnp.array([1.0, -2.0, 4.0]))
        np.testing.assert_allclose(solution.weights, [1, -2, 4], atol=1e-10)

    def test_a_basis_that_depends_on_phi(self):
        # one function e^{kx}: weight 1 solves u' = k u, u(0) = 1 for every k
        problem = on_line(
            fit(lambda u, z, k: u.d("x") - k * u(), INSIDE), fit(lambda u, z, k: u() - 1, LINE.face(x=0))
        )
        solution = jax.vmap(lambda phi: pdecl.solve(problem, lambda x, k: jnp.exp(k * x), phi))(
            jnp.array([0.5, 1.5])
        )
        np.testing.assert_allclose(solution.weights, 1.0, atol=1e-10)
        np.testing.assert_allclose(solution(MESH)[1], np.exp(1.5 * X), atol=1e-9)

    def test_no_parameter(self):
        close(pdecl.solve(on_line(fit(lambda u, z, none: u() - z.x, INSIDE)), self.BASIS), X, 1e-9)


class TestWeights:
    def test_weights_decide_between_fits_that_disagree(self):
        constant = lambda x, phi: jnp.ones(1)
        ends = [
            fit(lambda u, z, phi: u() - 1, LINE.face(x=0), 3),
            fit(lambda u, z, phi: u() - 5, LINE.face(x=1)),
        ]
        solution = algebra(on_line(*ends), constant)
        assert solution.weights[0] == pytest.approx((3 * 1 + 5) / 4)

    def test_the_number_of_points_has_no_say(self):
        constant = lambda x, phi: jnp.ones(1)
        few, many = pdecl.Points([[0.1]]), pdecl.Points(np.linspace(0, 1, 50)[:, None])
        solution = algebra(
            on_line(fit(lambda u, z, phi: u() - 1, few), fit(lambda u, z, phi: u() - 5, many)), constant
        )
        assert solution.weights[0] == pytest.approx(3.0)


@eqx.filter_jit
def rows(problem, basis, phi=None):
    """C, d, A, b with C ω = d for the `Enforce` rows and A ω = b for the `Fit` rows."""
    system = build(problem, basis, phi, problem.draw(13))
    model = linearise(system)
    matrix = lambda operator: None if operator is None else operator.as_matrix()
    return matrix(model.C), -model.c, matrix(model.A), -model.r


PDE = lambda u, z, phi: u.d("x", "x") + 9 * u() - jnp.exp(z.x)
BOUNDARY = lambda u, z, phi: u() - jnp.cos(z.x)


class TestEnforce:
    def test_fewer_rows_than_functions_hold_exactly_and_the_weights_are_the_shortest(self):
        problem = on_line(
            pdecl.Enforce(PDE, on=LINE.interior.grid(6), name="pde"),
            pdecl.Enforce(BOUNDARY, on=LINE.faces("x"), name="ends"),
        )
        solution = algebra(problem, POLYNOMIALS)
        assert solution.status == pdecl.Status.SOLVED
        assert solution.violation < 1e-12
        assert solution.residual["pde"] < 1e-10
        assert solution.residual["ends"] < 1e-10
        C, d, _, _ = rows(problem, POLYNOMIALS)
        np.testing.assert_allclose(solution.weights, np.linalg.pinv(C) @ d, rtol=1e-8, atol=1e-10)

    def test_fewer_fit_rows_than_functions_give_the_shortest_weights_too(self):
        problem = on_line(fit(PDE, LINE.interior.grid(6)), fit(BOUNDARY, LINE.faces("x")))
        solution = algebra(problem, POLYNOMIALS)
        _, _, A, b = rows(problem, POLYNOMIALS)
        expected = np.linalg.lstsq(A, b)[0]
        np.testing.assert_allclose(solution.weights, expected, rtol=1e-6, atol=1e-7)

    def test_equations_that_hold_exactly_beside_a_fit(self):
        """Against NumPy: the least squares solution on the null space of the equality rows."""
        problem = on_line(
            pdecl.Enforce(PDE, on=LINE.interior.grid(8), name="pde"),
            fit(lambda u, z, phi: u() - jnp.exp(-z.x), LINE.interior.grid(15)),
        )
        # The default ridge, relative to rows of second derivatives, would be seen in the fit at 1e-6.
        solution = algebra(problem, POLYNOMIALS, solver=pdecl.solvers.Cholesky(ridge=1e-14))
        C, d, A, b = rows(problem, POLYNOMIALS)
        assert solution.residual["pde"] < 1e-10
        np.testing.assert_allclose(solution.weights, lexicographic(C, d, A, b), rtol=1e-6, atol=1e-7)

    def test_more_rows_than_functions_violation_first_then_the_fit(self):
        """20 rows of rank 5 for 7 functions: the two directions they do not see belong to the fit."""
        basis = chebyshev(LINE, 6)
        problem = on_line(
            pdecl.Enforce(
                lambda u, z, phi: u.d("x", "x") - jnp.exp(3 * z.x),
                on=LINE.interior.grid(20),
                name="pde",
            ),
            pdecl.Fit(lambda u, z, phi: u() - 100 * z.x, on=LINE.faces("x"), name="ends"),
        )  # fmt: skip
        solution = pdecl.solve(problem, basis)
        C, d, A, b = rows(problem, basis)
        assert C.shape == (20, 7)
        expected = lexicographic(C, d, A, b)
        assert solution.status == pdecl.Status.OVERDETERMINED
        assert solution.violation > 1e-6
        least = np.linalg.norm(C @ expected - d)
        assert solution.residual["pde"] == pytest.approx(least, rel=1e-6)
        assert solution.residual["ends"] < 1e-6
        np.testing.assert_allclose(solution.weights, expected, rtol=1e-5, atol=1e-6)

    def test_more_rows_than_functions_that_all_see_them(self):
        """The violation alone decides; the fit can only look on."""
        basis = chebyshev(LINE, 4)
        problem = on_line(
            pdecl.Enforce(PDE, on=LINE.interior.grid(12)),
            fit(lambda u, z, phi: u() - 50, LINE.faces("x")),
        )
        solution = algebra(problem, basis)
        C, d, _, _ = rows(problem, basis)
        assert solution.status == pdecl.Status.OVERDETERMINED
        np.testing.assert_allclose(solution.weights, np.linalg.lstsq(C, d)[0], rtol=1e-5, atol=1e-7)

    def test_more_rows_than_functions_and_nothing_else(self):
        basis = chebyshev(LINE, 4)
        problem = on_line(pdecl.Enforce(PDE, on=LINE.interior.grid(12)))
        solution = pdecl.solve(problem, basis)
        C, d, _, _ = rows(problem, basis)
        assert solution.status == pdecl.Status.OVERDETERMINED
        np.testing.assert_allclose(solution.weights, np.linalg.lstsq(C, d)[0], rtol=1e-6, atol=1e-8)

    def test_more_rows_than_functions_that_can_all_hold(self):
        problem = on_line(
            pdecl.Enforce(lambda u, z, phi: u() - z.x**3, on=LINE.interior.grid(20), name="data")
        )
        solution = pdecl.solve(problem, POLYNOMIALS)
        assert solution.residual["data"] < 1e-9
        assert solution.status == pdecl.Status.SOLVED

    @pytest.mark.parametrize("beside_a_fit", [False, True])
    def test_contradictions_are_a_failure_with_a_word_for_it(self, beside_a_fit):
        end = LINE.face(x=0)
        conditions = [
            pdecl.Enforce(lambda u, z, phi: u() - 1, on=end, name="one", weight=3.0),
            pdecl.Enforce(lambda u, z, phi: u() - 5, on=end, name="five"),
        ]
        conditions += [fit(lambda u, z, phi: u.d("x"), INSIDE)] if beside_a_fit else []
        problem = on_line(*conditions)
        with pytest.raises(pdecl.SolveError, match=r"constraints inconsistent.*contradict each other"):
            pdecl.solve(problem, POLYNOMIALS)
        solution = pdecl.solve(problem, POLYNOMIALS, throw=False)
        assert solution.status == pdecl.Status.CONSTRAINTS_INCONSISTENT
        # the least violation: the weighted mean of the two
        np.testing.assert_allclose(solution(jnp.zeros((1, 1))), 2.0, atol=1e-7)
        assert solution.residual["one"] == pytest.approx(1.0, abs=1e-7)

    def test_a_batch_of_which_some_leave_directions_to_the_fit(self):
        """12 rows for 5 functions: with φ = 1 they see all of them, with φ = 0 not the constant, which
        is the fit's then. Each of a batch gets what it gets alone."""
        basis = chebyshev(LINE, 4)
        inside = LINE.interior.grid(12)
        rest = fit(lambda u, z, phi: u() - 3 * z.x, LINE.interior.grid(9))
        either = lambda u, z, phi: phi * u() + (1 - phi) * u.d("x") - jnp.exp(z.x)
        problem = on_line(pdecl.Enforce(either, on=inside), rest)
        many = jnp.array([1.0, 0.0])
        together = jax.vmap(lambda phi: algebra(problem, basis, phi))(many)
        for i in range(2):
            C, d, A, b = rows(problem, basis, many[i])
            expected = lexicographic(C, d, A, b)
            np.testing.assert_allclose(together.weights[i], expected, rtol=1e-6, atol=1e-7)
            alone = algebra(problem, basis, many[i])
            np.testing.assert_allclose(alone.weights, expected, rtol=1e-6, atol=1e-7)

    @pytest.mark.parametrize("kind", ["fit", "energy", "nothing"])
    def test_in_single_precision(self, kind):
        """Equalities hold to the precision there is, the rest as nearly as a ridge of 1e-5 lets it."""
        beside = {
            "fit": [fit(lambda u, z, phi: u() - jnp.exp(-z.x), LINE.interior.grid(15))],
            "energy": [
                pdecl.Energy(lambda u, z, phi: 0.5 * u.d("x") ** 2 - 2 * u(), on=LINE.interior.gauss(9))
            ],
            "nothing": [],
        }
        ends = pdecl.Enforce(BOUNDARY, on=LINE.faces("x"), name="ends")
        problem, basis = on_line(ends, *beside[kind]), chebyshev(LINE, 5)
        double, single = (pdecl.solve(problem, basis, dtype=d) for d in (jnp.float64, jnp.float32))
        assert single.status == pdecl.Status.SOLVED
        assert single.residual["ends"] < 2e-6
        np.testing.assert_allclose(single(MESH), double(MESH), atol=2e-4)

    def test_rows_said_twice_do_no_harm(self):
        end = pdecl.Enforce(BOUNDARY, on=LINE.face(x=0))
        problem = on_line(end, end, pdecl.Enforce(PDE, on=LINE.interior.grid(5)))
        solution = algebra(problem, POLYNOMIALS)
        assert solution.status == pdecl.Status.SOLVED
        assert solution.violation < 1e-10


class TestEnergy:
    BASIS = staticmethod(chebyshev(LINE, 8))

    def test_energy_alone_with_natural_boundary_conditions(self):
        # ½u'² + ½u² − (1 + π²) cos(πx) u: u = cos πx, whose slope vanishes at the ends by itself
        density = lambda u, z, phi: (
            0.5 * u.d("x") ** 2 + 0.5 * u() ** 2 - (1 + jnp.pi**2) * jnp.cos(jnp.pi * z.x) * u()
        )
        problem = on_line(pdecl.Energy(density, on=LINE.interior.gauss(16), name="energy"))
        solution = pdecl.solve(problem, chebyshev(LINE, 12))
        close(solution, np.cos(np.pi * X), 1e-6)
        assert solution.residual["energy"] == pytest.approx(-(1 + np.pi**2) / 4, rel=1e-9)

    def test_energy_with_boundary_values_enforced(self):
        problem = on_line(
            pdecl.Energy(lambda u, z, phi: 0.5 * u.d("x") ** 2 - phi * u(), on=LINE.interior.gauss(10)),
            pdecl.Enforce(lambda u, z, phi: u() - z.x, on=LINE.faces("x")),
        )
        close(pdecl.solve(problem, self.BASIS, 2.0), X + X * (1 - X), 1e-8)

    def test_all_three_kinds_together(self):
        """½∫u'² + ½·w·(u(½) − 2)², u(0) = u(1) = 0: a tent of height 2w/(w + 4) in hat functions."""
        hats = lambda x, phi: jnp.maximum(0.0, 1 - jnp.abs(4 * x[0] - jnp.arange(5.0)))
        problem = on_line(
            pdecl.Energy(lambda u, z, phi: 0.5 * u.d("x") ** 2, on=LINE.interior.gauss(2, cells=4)),
            pdecl.Fit(lambda u, z, phi: u() - 2, on=pdecl.Points([[0.5]]), weight=6.0),
            pdecl.Enforce(lambda u, z, phi: u(), on=LINE.faces("x"), name="ends"),
        )
        solution = algebra(problem, hats)
        np.testing.assert_allclose(solution.weights, 1.2 * np.array([0, 0.5, 1, 0.5, 0]), atol=1e-9)
        assert solution.residual["ends"] < 1e-10

    def test_energies_that_read_different_numbers_of_derivatives(self):
        """∫ ½u'² + ½u² and ∫ ½u² − 3u: 2u = 3, with natural conditions at the ends."""
        two = pdecl.Energy(lambda u, z, phi: 0.5 * u.d("x") ** 2 + 0.5 * u() ** 2, on=INSIDE)
        one = pdecl.Energy(lambda u, z, phi: 0.5 * u() ** 2 - 3 * u(), on=INSIDE)
        close(pdecl.solve(on_line(two, one), POLYNOMIALS), 1.5 + 0 * X, 1e-9)

    def test_the_weight_of_an_energy(self):
        problem = on_line(
            pdecl.Energy(lambda u, z, phi: 0.5 * u() ** 2, on=LINE.interior.gauss(3), weight=3.0),
            pdecl.Fit(lambda u, z, phi: u() - 4, on=LINE.interior.gauss(3)),
        )
        solution = algebra(problem, lambda x, phi: jnp.ones(1))
        assert solution.weights[0] == pytest.approx(1.0)


@pytest.fixture
def three():
    """1, 10 and a function that is zero, seen by rows of their values."""
    return lambda x, phi: jnp.array([1.0, 10.0, 0.0])


def value_rows(kind, count, weight=1.0):
    density = lambda u, z, phi: 0.5 * u() ** 2 if kind is pdecl.Energy else u() - 1 - z.x
    return kind(density, on=LINE.interior.grid(count), weight=weight)


class TestRidge:
    """Relative to the squares of the columns; to their mean for fewer rows than functions."""

    TALL, WIDE = (1, 100, 101 / 3), (101 / 3, 101 / 3, 101 / 3)

    @pytest.mark.parametrize(
        ("rows", "squares"),
        [
            ([(pdecl.Fit, 4)], TALL),
            ([(pdecl.Fit, 2)], WIDE),
            ([(pdecl.Fit, 3)], TALL),
            ([(pdecl.Fit, 1), (pdecl.Enforce, 1)], tuple(2 * s for s in WIDE)),
            ([(pdecl.Fit, 2), (pdecl.Enforce, 2)], tuple(2 * s for s in TALL)),
            ([(pdecl.Energy, 4)], TALL),
            ([(pdecl.Energy, 2)], WIDE),
            ([(pdecl.Fit, 1), (pdecl.Energy, 2)], tuple(2 * s for s in TALL)),
        ],
    )
    def test_what_each_weight_is_penalised_with(self, three, rows, squares):
        problem = on_line(*(value_rows(kind, count) for kind, count in rows))
        system = build(problem, three, None, problem.draw(3))
        ridge, columns = layer._ridge(linearise(system), system, pdecl.solvers.Cholesky(ridge=0.25))
        np.testing.assert_allclose(ridge, 0.25 * np.array(squares), rtol=1e-12)
        np.testing.assert_allclose(columns, np.sqrt(squares), rtol=1e-12)

    def test_by_default_it_is_what_precision_and_solver_allow(self):
        found = [
            layer.default_ridge(solver, dtype)
            for solver in (pdecl.solvers.Cholesky(), pdecl.solvers.CG(), pdecl.solvers.CG(ridge=0.5))
            for dtype in (jnp.float64, jnp.float32)
        ]
        assert found == [1e-12, 1e-5, 1e-8, 1e-5, 0.5, 0.5]


class TestOptimality:
    """The gradient of the Lagrangian beside its parts, and the violation beside that at u = 0."""

    RIDGE = jnp.array([0.01, 0.03])
    LINEAR = staticmethod(lambda x, phi: jnp.stack([jnp.ones(()), x[0]]))

    def judged(self, problem, weights, multipliers, basis=LINEAR, ridge=RIDGE):
        system = build(problem, basis, None, problem.draw(2))
        at_zero = linearise(system)
        code, *found = layer._status(
            system, at_zero, ridge, jnp.array(weights), jnp.array(multipliers), jnp.asarray(True)
        )
        return at_zero, [float(x) for x in found], pdecl.Status(int(code))

    def norm(self, x):
        return np.linalg.norm(x * np.sqrt(0.02 / np.asarray(self.RIDGE)))

    def test_of_a_fit_with_equalities(self):
        w, y = np.array([0.3, -0.2]), np.array([0.7])
        problem = on_line(value_rows(pdecl.Fit, 5), value_rows(pdecl.Enforce, 1, weight=4.0))
        at_zero, found, _ = self.judged(problem, w, y)
        A, C = at_zero.A.as_matrix(), at_zero.C.as_matrix()
        pull, ridge = C.T @ y, self.RIDGE * w
        slope = A.T @ (A @ w + at_zero.r) + ridge
        size = self.norm(A.T @ at_zero.r) + self.norm(ridge) + self.norm(pull)
        violation = np.linalg.norm(C @ w + at_zero.c) / np.linalg.norm(at_zero.c)
        np.testing.assert_allclose(found, [self.norm(slope + pull) / size, violation], rtol=1e-12)

    @pytest.mark.parametrize("beside", [False, True])
    def test_of_more_equalities_than_functions(self, beside):
        """Alone they are a fit, whose pull vanishes: their own slope at u = 0 is what counts."""
        w, y = np.array([0.3, -0.2]), np.array([0.7, -0.1, 0.4])
        conditions = [value_rows(pdecl.Enforce, 3)] + [value_rows(pdecl.Fit, 5)] * beside
        at_zero, found, _ = self.judged(on_line(*conditions), w, y)
        C, ridge = at_zero.C.as_matrix(), self.RIDGE * w
        pull, slope, force = C.T @ y, ridge, C.T @ at_zero.c
        if beside:
            A = at_zero.A.as_matrix()
            slope, force = slope + A.T @ (A @ w + at_zero.r), A.T @ at_zero.r
        size = self.norm(force) + self.norm(ridge) + self.norm(pull)
        assert found[0] == pytest.approx(self.norm(slope + pull) / size, rel=1e-12)

    def test_of_rows_without_a_slope_at_zero(self):
        """u² = 4: at u = 1 the slope is 2(1 − 4) and the force that of the row at zero, 2 · 4."""
        problem = on_line(fit(lambda u, z, phi: u() ** 2 - 4, INSIDE))
        constant = lambda x, phi: jnp.ones(1)
        _, found, _ = self.judged(problem, [1.0], np.zeros(0), constant, jnp.array([0.5]))
        np.testing.assert_allclose(found, [5.5 / 8.5, 0], rtol=1e-12)

    def test_weights_that_are_not_optimal(self):
        """Of one linear solve the conditioning is to blame, of many the convergence."""
        linear, square = (
            on_line(fit(equation, INSIDE))
            for equation in (lambda u, z, phi: u() - 1, lambda u, z, phi: u() ** 2 - 4)
        )
        weights, none = [0.5, 0.0], np.zeros(0)
        assert self.judged(linear, weights, none)[2] == pdecl.Status.ILL_CONDITIONED
        assert self.judged(square, weights, none)[2] == pdecl.Status.NOT_CONVERGED


class TestNonlinear:
    @pytest.mark.parametrize("scale", [1e-4, 1e4])
    def test_the_scale_of_an_equation_has_no_say(self, scale):
        """Neither in when steps end nor in how they are damped: full steps from 3 lead away for ever."""
        problem = lambda scale: on_line(fit(lambda u, z, phi: scale * jnp.arctan(3 * u() - z.x), INSIDE))
        solver, basis = pdecl.solvers.GaussNewton(rtol=1e-4), chebyshev(LINE, 1)
        start = jnp.array([3.0, 0.0])
        one, other = (pdecl.solve(problem(k), basis, initial=start, solver=solver) for k in (1.0, scale))
        assert one.iterations == other.iterations
        np.testing.assert_allclose(one.weights, [1 / 6, 1 / 6], rtol=1e-6)
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-6)

    def test_nonlinear_equalities_alone(self):
        """u² + u = 5 in one place: by Newton's steps, which end when it holds."""
        problem = on_line(pdecl.Enforce(lambda u, z, phi: u() ** 2 + u() - 5, on=LINE.face(x=0)))
        solution = pdecl.solve(problem, lambda x, phi: jnp.ones(1), initial=jnp.array([1.0]))
        assert solution.status == pdecl.Status.SOLVED
        assert solution.weights[0] == pytest.approx((np.sqrt(21) - 1) / 2, rel=1e-9)
        assert solution.iterations < 10

    def test_starting_near_the_solution_takes_fewer_steps(self):
        problem = on_line(
            fit(lambda u, z, k: u.d("x") - k * u() ** 2, INSIDE),
            fit(lambda u, z, k: u() - 1, LINE.face(x=0), 10),
        )  # u = 1 / (1 − kx)
        basis = chebyshev(LINE, 14)
        cold = pdecl.solve(problem, basis, 0.5)
        close(cold, 1 / (1 - 0.5 * X), 1e-6)
        warm = pdecl.solve(problem, basis, 0.5, initial=cold.weights)
        assert warm.iterations < cold.iterations
        np.testing.assert_allclose(warm(MESH), cold(MESH), atol=1e-9)

    def test_the_start_chooses_between_two_solutions(self):
        problem = on_line(fit(lambda u, z, phi: u() ** 2 - 4, INSIDE))
        constant = lambda x, phi: jnp.ones(1)
        found = [pdecl.solve(problem, constant, initial=jnp.array([s])).weights[0] for s in (1.0, -1.0)]
        np.testing.assert_allclose(found, [2.0, -2.0], atol=1e-8)

    def test_no_step_is_taken_that_would_change_nothing(self):
        """Newton's steps for w² = 4 from 1 are 2.5, 2.05, 2.0006, 2 + 9e-8: each squares the error of
        the one before, so that after the fourth a fifth can be left out."""
        problem = on_line(fit(lambda u, z, phi: u() ** 2 - 4, INSIDE))
        solver, start = pdecl.solvers.GaussNewton(atol=1e-5), jnp.array([1.0])
        solution = pdecl.solve(problem, lambda x, phi: jnp.ones(1), initial=start, solver=solver)
        assert solution.iterations == 4
        assert solution.weights[0] == pytest.approx(2.0, abs=1e-6)

    CIRCLE = on_line(
        pdecl.Enforce(lambda u, z, phi: u() ** 2 + u.d("x") ** 2 - 4, on=LINE.face(x=0), name="circle"),
        pdecl.Fit(lambda u, z, phi: (u() - phi[0], u.d("x") - phi[1]), on=LINE.face(x=0)),
    )

    @pytest.mark.parametrize("target", [(1.5, 2.0), (3.0, 4.0), (0.3, 0.4), (-3.0, 4.0)])
    def test_nonlinear_equalities_hold_and_the_fit_gives_way(self, target):
        """Nearest point of the circle a² + b² = 4 to one near it, far outside, far inside, and on the
        other side. The farther away, the more the circle's curvature counts beside the fit's own."""
        basis = lambda x, phi: jnp.stack([jnp.ones(()), x[0]])
        start = jnp.array([1.0, 1.0])
        solution = algebra(self.CIRCLE, basis, jnp.array(target), initial=start)
        nearest = 2 * np.array(target) / np.linalg.norm(target)
        np.testing.assert_allclose(solution.weights, nearest, atol=1e-9)
        assert solution.residual["circle"] < 1e-10
        assert solution.iterations < 20

    def test_a_convex_energy_that_is_not_quadratic(self):
        """∫ ¼u⁴ − 2u: u³ = 2."""
        problem = on_line(
            pdecl.Energy(lambda u, z, phi: 0.25 * u() ** 4 - 2 * u(), on=LINE.interior.gauss(3))
        )
        solution = pdecl.solve(problem, lambda x, phi: jnp.ones(1), initial=jnp.array([1.0]))
        assert solution.weights[0] == pytest.approx(2 ** (1 / 3), rel=1e-7)


def lexicographic(C, d, A, b):
    """Of all ω with the least ‖Cω − d‖ the one with the least ‖Aω − b‖, and of those the shortest."""
    _, values, directions = np.linalg.svd(C)
    rank = np.sum(values > 1e-9 * values[0])
    particular = np.linalg.pinv(C, rcond=1e-9) @ d
    free = directions[rank:].T
    along = np.linalg.lstsq(A @ free, b - A @ particular, rcond=1e-9)[0]
    return particular + free @ along


def test_conditions_on_the_same_points_share_them():
    """Inside `jit` one set of points of one's own would be two, were it told by identity there."""
    box = pdecl.Box(x=(0, 1))
    points = pdecl.Points(jnp.linspace(0.1, 0.9, 20)[:, None])
    problem = pdecl.Problem(
        box,
        [
            pdecl.Fit(lambda u, z, k: u.d("x") + k * u(), on=points),
            pdecl.Fit(lambda u, z, k: u.d("x", "x") - k**2 * u(), on=points),
            pdecl.Fit(lambda u, z, k: u() - 1, on=box.face(x=0)),
        ],
        parameter=lambda key: jr.uniform(key, minval=1.0, maxval=2.0),
    )
    powers = lambda x, phi: x[0] ** jnp.arange(8.0)
    solution = pdecl.solve(problem, powers, 1.5)
    assert len(solution.points) == 2
    x = jnp.linspace(0, 1, 11)[:, None]
    assert jnp.allclose(solution(x), jnp.exp(-1.5 * x[:, 0]), atol=1e-4)
