"""The three bounds: never below the true error, near it, and zero where there is none."""

import bound_cases as cases
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import pdecl
from pdecl.error import record
from pdecl.family.bound import bound
from pdecl.problems import Burgers, Convection
from pdecl.problems.burgers import bound as burgers

# Fewer nodes than the defaults: the functions are smooth, and whatever is missed must be allowed for.
RESOLUTION = {"convection": {"cells": 12}, "burgers": {"cells": 6, "points": 64}, "darcy": {}}
STATEMENT = {"convection": {}, "burgers": {"seam": False}, "darcy": {"walls": False}}
BASES = {
    "convection": [cases.polynomials(3), cases.polynomials(9)],
    "burgers": [cases.waves(3, 3), cases.waves(8, 5)],
    "darcy": [cases.bumps(2), cases.bumps(6)],
}
LAWS = {family.name: family for family in (cases.CONVECTION, cases.BURGERS, cases.DARCY)}
WORST_RATIO = {"convection": 10, "burgers": 30, "darcy": 1.25}
COUNT = 4


def fitted(name, basis):
    family = LAWS[name]
    return cases.fitted(family, basis, family.sample(7, COUNT), **STATEMENT[name])


def bounded(solution, name):
    return bound(LAWS[name], solution, **RESOLUTION[name])


@pytest.fixture(scope="module", params=list(LAWS))
def case(request):
    """A problem, a poor and a rich solution of it, and their bounds."""
    name = request.param
    solutions = [fitted(name, basis) for basis in BASES[name]]
    return name, solutions, [bounded(solution, name) for solution in solutions]


def test_the_error_is_between_the_bounds(case):
    name, solutions, bounds = case
    for solution, found in zip(solutions, bounds, strict=True):
        error = cases.true_error(LAWS[name], np.asarray(solution.phi), solution)
        assert (error <= found.bound).all()
        assert (found.lower <= error).all()
        assert (found.bound / error <= WORST_RATIO[name]).all()
        assert found.kind == "bound"


def test_the_relative_error_is_below_its_bound(case):
    name, solutions, bounds = case
    family, phi = LAWS[name], np.asarray(solutions[1].phi)
    zero = eqx.tree_at(lambda s: s.weights, solutions[1], jnp.zeros_like(solutions[1].weights))
    size = cases.true_error(family, phi, zero)
    error = cases.true_error(family, phi, solutions[1])
    assert (error / size <= bounds[1].relative).all()
    assert np.isinf(bounded(zero, name).relative).all()


def test_it_shrinks_as_functions_are_added(case):
    _, _, (poor, rich) = case
    assert (rich.bound < 0.9 * poor.bound).all()


@pytest.mark.parametrize("size", [1e-3, 1.0])
def test_it_holds_for_weights_that_are_wrong(case, size):
    name, solutions, bounds = case
    wrong = cases.perturbed(solutions[1], size * float(jnp.abs(solutions[1].weights).max()))
    found = bounded(wrong, name)
    error = cases.true_error(LAWS[name], np.asarray(wrong.phi), wrong)
    assert (error <= found.bound).all()
    assert (found.lower <= error).all()
    if size == 1.0:
        assert (found.bound > 2 * bounds[1].bound).all()


def test_a_batch_equals_a_loop(case):
    name, solutions, bounds = case
    single = cases.member(solutions[0], 2)
    found = bounded(single, name)
    assert found.bound.shape == ()
    for one, many in zip(jax.tree.leaves(found), jax.tree.leaves(bounds[0]), strict=True):
        np.testing.assert_allclose(one, many[2], rtol=1e-6, atol=1e-12)


def test_weights_that_are_not_numbers(case):
    name, solutions, bounds = case
    weights = solutions[0].weights.at[1, 0].set(jnp.nan)
    broken = eqx.tree_at(lambda s: s.weights, solutions[0], weights)
    with pytest.raises(ValueError, match="φ number 1"):
        bounded(broken, name)
    found = bound(LAWS[name], broken, throw=False, **RESOLUTION[name])
    assert np.isinf(found.bound[1])
    np.testing.assert_allclose(found.bound[jnp.array([0, 2, 3])], bounds[0].bound[jnp.array([0, 2, 3])])


def test_a_record_adds_rounding_and_says_infinity_for_what_it_does_not_know():
    """For a v of size 2: with a bound of 2 its u may be zero, and with NaN it may be anything."""
    lower = jnp.array([0.0, 0.5, 1.0, 0.5])
    found = record.assemble(jnp.array([0, 1, 2, jnp.nan]), jnp.full(4, 2.0), {}, "L2", lower)
    more = 2 * record.ROUNDING
    np.testing.assert_allclose(found.bound, [more, 1 + more, 2 + more, np.inf], rtol=1e-15)
    relative = [more / (2 - more), (1 + more) / (1 - more), np.inf, np.inf]
    np.testing.assert_allclose(found.relative, relative, rtol=1e-15)
    np.testing.assert_allclose(found.lower, [0, 0.5 - more, 1 - more, 0], rtol=1e-15)
    assert float(found.bound[1]) > 1 > float(record.assemble(*jnp.ones((2, 1)), {}, "").lower[0])


def test_it_says_what_is_within_a_tolerance(case):
    _, _, (poor, rich) = case
    middle = float(np.median(rich.relative))
    np.testing.assert_array_equal(rich.within(middle), np.asarray(rich.relative) <= middle)
    assert not poor.within(1e-9).any()
    assert "bound in" in str(rich)
    with pytest.raises(ValueError, match="tolerance"):
        rich.within(0.0)


def test_an_untrained_network():
    family = Convection()
    network = pdecl.nn.MLP(family.problem(), 16, 16, 1, key=jr.key(1))
    solution = cases.fitted(family, network, family.sample(7, 2))
    error = cases.true_error(family, np.asarray(solution.phi), solution)
    assert (error <= bounded(solution, "convection").bound).all()


class TestExactSolutions:
    def test_convection_at_speed_two(self):
        def u(x, beta):
            late = x[1] - x[0] / 2
            return jnp.where(late > 0, jnp.sin(jnp.pi * late / 2), jnp.sin(-2 * jnp.pi * late))[None]

        solution = cases.given(Convection(), u, np.full((1, 101), 2.0))
        assert bound(Convection(), solution).bound[0] < 1e-10

    def test_burgers_by_cole_and_hopf(self):
        """θ = 1 + a exp(−4π²νt) cos 2πx solves the heat equation; u = −2ν θ_x/θ."""
        family = Burgers()

        def u(x, u0):
            wave = 0.6 * jnp.exp(-4 * jnp.pi**2 * family.viscosity * x[1])
            angle = 2 * jnp.pi * x[0]
            slope = -2 * jnp.pi * wave * jnp.sin(angle)
            return (-2 * family.viscosity * slope / (1 + wave * jnp.cos(angle)))[None]

        u0 = jax.vmap(lambda x: u(jnp.array([x, 0.0]), None)[0])(jnp.linspace(0, 1, 101))
        exact = cases.given(family, u, u0[None])
        found = bounded(exact, "burgers")
        assert found.bound[0] < 1e-6 * found.size[0]
        # 1% too much is an error of 1%.
        more = eqx.tree_at(lambda s: s.weights, exact, 1.01 * exact.weights)
        assert 0.01 <= bounded(more, "burgers").relative[0] < 0.1

    def test_darcy_by_finite_differences(self):
        family = cases.DARCY
        nu = family.sample(7, 2)
        box = family.problem().domain
        for k in range(2):
            basis = pdecl.nn.ElementBasis(box, jnp.asarray(family.reference(nu)[k])[..., None])
            assert bound(family, cases.given(family, basis, nu[k : k + 1])).relative[0] < 1e-9


def at_speed_one(x):
    s = x[1] - x[0]
    return jnp.where(s > 0, jnp.sin(jnp.pi * s / 2), -jnp.sin(jnp.pi * s))


class TestTermsOfConvection:
    """Each part of the bound by hand, for speed 1 + x: the wave is at x after T = log(1 + x)."""

    def solution(self, *weights):
        def functions(x, beta):
            s = jnp.log(1 + x[0]) - x[1]
            u = jnp.where(s < 0, -jnp.sin(jnp.pi * s / 2), jnp.sin(jnp.pi * (jnp.exp(s) - 1)))
            return jnp.stack([u, 1.0 + 0 * s, x[1]])

        beta = np.tile(1 + np.linspace(0, 1, 101), (len(weights), 1))
        return cases.given(Convection(), functions, beta, jnp.array(weights))

    def test_what_starts_enters_and_acts_is_what_has_not_left(self):
        """u + 1 has errors of one in its data, u + t a residual of one; cells are taken from above."""
        solution = self.solution([1.0, 1, 0], [1.0, 0, 1], [0.0, 1, 0])
        found = bound(Convection(), solution, cells=60)
        end = np.log(2)
        # ∫ (end − t) dt, ∫ min(t, end) dt, and of what acts for a while: ∫ √(end − age).
        t = (np.arange(2000) + 0.5) / 2000
        acted = (end**1.5 - np.maximum(end - t, 0) ** 1.5) * 2 / 3
        entered = np.where(t < end, t**3, t**3 - (t - end) ** 3) / 3
        for name, number, wanted in [
            ("initial", 0, np.sqrt(end**2 / 2)),
            ("inflow", 0, np.sqrt(end - end**2 / 2)),
            ("residual", 0, 0.0),
            ("initial", 1, 0.0),
            ("inflow", 1, np.sqrt(entered.mean())),
            ("residual", 1, np.sqrt(np.mean(acted**2))),
        ]:
            part = float(found.parts[name][number])
            assert wanted - 1e-9 <= part <= 1.05 * wanted + 1e-9, (name, number)
        whole = found.bound - found.parts["quadrature"]
        together = np.sqrt(np.mean((np.sqrt(entered) + acted) ** 2))
        assert np.sqrt(end) <= whole[0] <= 1.03 * np.sqrt(end)
        assert together <= whole[1] <= 1.05 * together
        assert found.size[2] == pytest.approx(np.sqrt(end), rel=1e-9)

    def test_the_error_of_the_coarse_rule_is_added(self):
        """u + (T − t)²: integrals of T⁴ and t⁴ over one cell, of which Simpson's rule makes more."""
        beta = np.ones((1, 101))
        v = lambda x, beta: jnp.stack([at_speed_one(x), (x[0] - x[1]) ** 2])
        found = bound(Convection(), cases.given(Convection(), v, beta), cells=1)
        fine, coarse = np.sqrt(2 / 5), np.sqrt(2 * 5 / 24)
        assert found.parts["initial"][0] == pytest.approx(np.sqrt(1 / 5), rel=1e-6)
        assert found.parts["inflow"][0] == pytest.approx(np.sqrt(1 / 5), rel=1e-6)
        assert found.parts["quadrature"][0] == pytest.approx(coarse - fine, rel=1e-6)
        assert found.bound[0] == pytest.approx(coarse, rel=1e-6)

    def test_what_leaves_at_the_end_of_a_cell_has_left(self):
        """u + 1 on two cells: half of what started is there in the second of them."""
        v = lambda x, beta: jnp.stack([at_speed_one(x), jnp.ones(())])
        found = bound(Convection(), cases.given(Convection(), v, np.ones((1, 101))), cells=2)
        assert found.parts["initial"][0] == pytest.approx(np.sqrt(3 / 4), rel=1e-9)
        assert found.parts["inflow"][0] == pytest.approx(np.sqrt(3 / 4), rel=1e-9)
        assert found.bound[0] == pytest.approx(np.sqrt(3 / 2), rel=1e-9)


class TestTermsOfBurgers:
    """Each part of the bound by hand."""

    NU, THETA = 0.01, 0.5
    X = np.linspace(0, 1, 101)

    def bound(self, function, u0=0 * X, weights=None, **resolution):
        resolution = {"cells": 2, "points": 32, "waves": 2, **resolution}
        u0 = np.tile(u0, (1 if weights is None else len(weights), 1))
        return bound(Burgers(), cases.given(Burgers(), function, u0, weights), **resolution)

    def decay(self, number):
        """What θν ∂xx makes of a wave, but for its sign."""
        return self.THETA * self.NU * (2 * np.pi * number) ** 2

    def test_a_mean_that_drifts_and_the_error_of_the_coarse_rule(self):
        """v = t², u = 0: the mean is all there is, and Simpson's rule makes 5/24 of ∫t⁴."""
        found = self.bound(lambda x, u0: x[1:] ** 2, cells=1)
        fine, coarse = np.sqrt(1 / 5), np.sqrt(5 / 24)
        assert found.parts["mean"][0] == pytest.approx(fine, rel=1e-12)
        assert found.parts["quadrature"][0] == pytest.approx(coarse - fine, rel=1e-9)
        assert found.bound[0] == pytest.approx(coarse, rel=1e-9)
        assert found.size[0] == pytest.approx(fine, rel=1e-12)
        for name in ("initial", "residual", "seam"):
            assert found.parts[name][0] < 1e-15

    def test_a_mean_changes_nothing_else(self):
        """With m in v the residual has m v_x more, which is taken off. Parts are joined as squares."""
        wave = lambda x, u0: jnp.stack([jnp.sin(2 * jnp.pi * x[0]) * (1 + x[1]), 1.0 + 0 * x[0]])
        found = self.bound(wave, np.sin(2 * np.pi * self.X), jnp.array([[1.0, 0.0], [1.0, 0.7]]))
        for name in ("initial", "residual"):
            without, with_mean = map(float, found.parts[name])
            assert with_mean == pytest.approx(without, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(found.parts["mean"], [0, 0.7], atol=1e-12)
        parts = found.parts
        joined = np.sqrt(parts["initial"] ** 2 + parts["residual"] ** 2 + parts["mean"] ** 2)
        np.testing.assert_allclose(found.bound, joined + parts["quadrature"], rtol=1e-9)

    @pytest.mark.parametrize("shape", [1, 2])
    def test_jumps_at_the_seam_are_taken_out(self, shape):
        """t times a line, or a parabola, has no part but the seam's: a third of 1/12, or 1/720."""
        line = lambda x: x - 1 / 2
        parabola = lambda x: (x**2 - x + 1 / 6) / 2
        found = self.bound(lambda x, u0: (x[1] * (line, parabola)[shape - 1](x[0]))[None])
        wanted = np.sqrt((1 / 12, 1 / 720)[shape - 1] / 3)
        assert found.parts["seam"][0] == pytest.approx(wanted, rel=1e-9)
        assert found.bound[0] == pytest.approx(wanted, rel=1e-9)

    def test_an_initial_error_grows_by_half_of_the_steepest_slope(self):
        """v = 0 and u₀ a sine of slope w: q = W/4, W = w/(1 + wt), of which a cell's largest counts."""
        w = 10.0
        found = self.bound(lambda x, u0: 0 * x[:1], w / (2 * np.pi) * np.sin(2 * np.pi * self.X))
        bend = w * (2 * np.pi / 2048) ** 2 / 8  # allowed for, although the largest slope is at a point
        steepest = w + bend
        levels = steepest / (1 + steepest * np.array([0.0, 0.5])) / 4 - self.decay(1) + 0.25
        energy = (w / (2 * np.pi) ** 2) ** 2 / 2
        wanted = np.sqrt(np.exp(2 * levels.mean()) / (2 * self.NU * (1 - self.THETA)) * energy)
        assert found.parts["initial"][0] == pytest.approx(wanted, rel=1e-9)
        assert found.bound[0] == pytest.approx(wanted, rel=1e-9)

    def test_the_slope_is_bounded_between_its_points_and_in_time(self):
        """For a sine shifted by half a point: its slope there, and an allowance of h²/8 of its bend."""
        x = np.linspace(0, 1, 9)
        u0 = np.sin(2 * np.pi * (x - 1 / 16)) / (2 * np.pi)
        w = np.cos(np.pi / 8) + (2 * np.pi / 8) ** 2 / 8
        times = np.array([0.0, 0.5, 1.0])
        found = burgers._steepest(jnp.asarray(u0), times, points=8)
        assert w > 1
        np.testing.assert_allclose(found, w / (1 + w * times), rtol=1e-12)
        assert np.all(burgers._steepest(jnp.zeros(9), times) == 0)

    @pytest.mark.parametrize("number", [1, 3])
    def test_a_residual_acts_by_the_inverse_of_what_damps_it(self, number):
        """A small wave ε sin, which the 2 waves of the matrix hold or do not; u₀ has a slope of w."""
        w, epsilon, cells, nu = 4.0, 1e-7, 12, self.NU
        u0 = w / (2 * np.pi) * np.sin(2 * np.pi * self.X)
        wave = lambda x, _: epsilon * jnp.sin(2 * jnp.pi * number * x[:1])
        found = self.bound(wave, u0, cells=cells)
        q = lambda t: w / (1 + w * t) / 4
        nodes, rule = np.polynomial.legendre.leggauss(20)
        starts = np.arange(cells) / cells
        t = starts[:, None] + (nodes + 1) / 2 / cells
        level = q(starts) - self.decay(1) + 0.25
        later = np.append(np.cumsum(level[::-1])[::-1], 0) / cells
        left = later[1:, None] + level[:, None] * (starts[:, None] + 1 / cells - t)
        p = lambda growth: np.exp(2 * growth) / (2 * nu * (1 - self.THETA))
        gap = level[:, None] - (q(t) - self.decay(1)) if number == 1 else self.decay(3) / 4
        size = (nu * 2 * np.pi * number * epsilon) ** 2 / 2
        residual = np.sum(p(left) * size / gap / 2 * rule) / 2 / cells
        start = p(later[0]) * (w / (2 * np.pi) ** 2) ** 2 / 2
        assert found.parts["initial"][0] == pytest.approx(np.sqrt(start), rel=1e-5)
        assert found.parts["residual"][0] == pytest.approx(np.sqrt(residual), rel=1e-5)

    def test_the_matrix_knows_what_the_higher_waves_do(self):
        """P(θν ∂xx + q)P + (2/d) PqQqP, with Q written out on the points."""
        n, waves, viscosity = 16, 2, 0.005
        q = np.random.default_rng(0).normal(size=n)
        values, vectors, d = burgers._linearised(jnp.asarray(q)[None], jnp.asarray(viscosity), waves)
        x, k = np.arange(n) / n, 2 * np.pi * np.array([1, 2])
        P = np.stack([f(k[i] * x) for i in range(2) for f in (np.cos, np.sin)]) * np.sqrt(2 / n)
        rest = np.eye(n) - P.T @ P - np.ones((n, n)) / n
        assert d == pytest.approx(viscosity * (6 * np.pi) ** 2 / 2)
        matrix = P @ np.diag(q) @ P.T - viscosity * np.diag(np.repeat(k, 2) ** 2)
        matrix += 2 / float(d) * P @ np.diag(q) @ rest @ np.diag(q) @ P.T
        found = vectors[0] @ np.diag(values[0]) @ vectors[0].T
        np.testing.assert_allclose(found, matrix, atol=1e-12)


def test_jumps_at_the_seam_count():
    family, basis = cases.BURGERS, cases.polynomials(7)
    solution = cases.fitted(family, basis, family.sample(7, 2))
    found = bounded(solution, "burgers")
    assert (cases.true_error(family, np.asarray(solution.phi), solution) <= found.bound).all()
    assert (found.parts["seam"] > 0.1 * found.parts["mean"]).all()


def test_walls_that_are_not_zero_count():
    family = cases.DARCY
    constant = pdecl.nn.ElementBasis(family.problem().domain, jnp.ones((family.grid, family.grid, 1)))
    solution = cases.given(family, constant, family.sample(7, 2))
    found = bound(family, solution)
    error = cases.true_error(family, np.asarray(solution.phi), solution)
    assert (found.parts["walls"] > 1).all()
    assert (error <= found.bound).all()
    assert (found.lower <= error).all()


def test_another_viscosity_is_another_bound():
    """The bound speaks of the family it is given, whatever the solution was fitted to."""
    solution = fitted("burgers", BASES["burgers"][1])
    other = Burgers(viscosity=0.02)
    found = bound(other, solution, **RESOLUTION["burgers"])
    error = cases.true_error(other, np.asarray(solution.phi), solution)
    assert (error <= found.bound).all()
    assert (found.bound > 2 * bounded(solution, "burgers").bound).all()


def test_what_it_does_not_take():
    solution = cases.given(cases.DARCY, cases.bumps(2), cases.DARCY.sample(7, 1))
    with pytest.raises(ValueError, match="no solution of burgers"):
        bound(Burgers(), solution)
    with pytest.raises(TypeError, match="family"):
        bound(solution.problem, solution)
