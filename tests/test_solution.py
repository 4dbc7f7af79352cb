"""What comes back from a solve: a function, its derivatives, its residuals and how it went."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from spectral import chebyshev

import pdecl
from pdecl import Status

BOX = pdecl.Box(x=(0, 1), t=(0, 1))
BASIS = chebyshev(BOX, 6, total=7)
# u_t + k u_x = 0 with u = sin at t = 0: u = sin(x − kt)
PROBLEM = pdecl.Problem(
    BOX,
    [
        pdecl.Fit(lambda u, z, k: u.d("t") + k * u.d("x"), on=BOX.interior, name="pde"),
        pdecl.Fit(lambda u, z, k: u() - jnp.sin(z.x), on=BOX.face(t=0), name="start"),
        pdecl.Fit(lambda u, z, k: u() + jnp.sin(k * z.t), on=BOX.face(x=0), name="inflow"),
    ],
    parameter=lambda key: jr.uniform(key),
)
MESH = BOX.mesh(9)
X, T = np.asarray(MESH).T
PHIS = jnp.array([0.2, 0.5, 0.9])


@pytest.fixture(scope="module")
def one():
    return pdecl.solve(PROBLEM, BASIS, 0.5)


@pytest.fixture(scope="module")
def many():
    return jax.vmap(lambda phi: pdecl.solve(PROBLEM, BASIS, phi))(PHIS)


def test_its_status_is_a_word_that_is_not_known_inside_jit(one):
    with pytest.raises(TypeError, match=r"solution\.code == pdecl\.Status\.SOLVED"):
        jax.jit(lambda code: eqx.tree_at(lambda s: s.code, one, code).status)(one.code)


def test_gradients_with_respect_to_phi_need_no_jit():
    value = lambda k: jnp.sum(pdecl.solve(PROBLEM, BASIS, k)(MESH) ** 2)
    slope = np.sum(-2 * T * np.sin(X - 0.5 * T) * np.cos(X - 0.5 * T))
    assert jax.grad(value)(0.5) == pytest.approx(slope, rel=1e-4)


def test_it_can_be_called_anywhere(one):
    np.testing.assert_allclose(one(MESH), np.sin(X - 0.5 * T), atol=1e-5)
    np.testing.assert_allclose(one([[0.25, 0.75]]), np.sin(0.25 - 0.375), atol=1e-5)
    assert one(pdecl.Points(MESH)).shape == (81,)


def test_it_gives_derivatives_of_any_order(one):
    np.testing.assert_allclose(one.d("x")(MESH), np.cos(X - 0.5 * T), atol=1e-3)
    np.testing.assert_allclose(one.d("t", "x")(MESH), 0.5 * np.sin(X - 0.5 * T), atol=1e-2)
    np.testing.assert_array_equal(one.d("t", "x")(MESH), one.d("x", "t")(MESH))


def test_more_points_than_are_evaluated_at_once(one):
    points = np.random.default_rng(0).uniform(size=(5000, 2))
    values = one(points)
    np.testing.assert_allclose(values, np.sin(points[:, 0] - 0.5 * points[:, 1]), atol=1e-5)


def test_a_batch_equals_a_loop(one, many):
    assert many.weights.shape == (3, len(one.weights))
    assert many(MESH).shape == (3, 81)
    for k, values, slopes, residual in zip(
        PHIS, many(MESH), many.d("x")(MESH), many.residual["pde"], strict=True
    ):
        single = pdecl.solve(PROBLEM, BASIS, k)
        np.testing.assert_allclose(values, single(MESH), atol=1e-9)
        np.testing.assert_allclose(slopes, single.d("x")(MESH), atol=1e-8)
        np.testing.assert_allclose(residual, single.residual["pde"], rtol=1e-6)


def test_residuals_are_root_mean_squares_by_name(one):
    assert set(one.residual) == {"pde", "start", "inflow"}
    inside, bottom, _ = one.points
    pde = one.d("t")(inside) + 0.5 * one.d("x")(inside)
    start = one(bottom) - jnp.sin(bottom.coords[:, 0])
    assert one.residual["pde"] == pytest.approx(np.sqrt(np.mean(pde**2)), rel=1e-6)
    assert one.residual["start"] == pytest.approx(np.sqrt(np.mean(start**2)), rel=1e-6)


def test_residuals_on_fresh_points(one, many):
    again = one.residual_at(one.points)
    assert again["pde"] == pytest.approx(float(one.residual["pde"]), rel=1e-6)
    fresh = PROBLEM.draw(28, jr.key(5))
    found = one.residual_at(fresh)
    pde = one.d("t")(fresh[0]) + 0.5 * one.d("x")(fresh[0])
    assert found["pde"] == pytest.approx(np.sqrt(np.mean(pde**2)), rel=1e-6)
    assert found["pde"] != pytest.approx(float(one.residual["pde"]), rel=1e-3)
    batched = many.residual_at(fresh)["pde"]
    assert batched.shape == (3,)
    np.testing.assert_allclose(batched[1], found["pde"], rtol=1e-5)


def test_a_key_moves_the_fitting_points_and_not_the_solution(one):
    other = pdecl.solve(PROBLEM, BASIS, 0.5, key=jr.key(3))
    assert np.abs(other.points[0].coords - one.points[0].coords).max() > 0.01
    np.testing.assert_allclose(other(MESH), one(MESH), atol=1e-5)


def test_points_can_be_given(one):
    again = pdecl.solve(PROBLEM, BASIS, 0.5, points=one.points)
    np.testing.assert_array_equal(again.weights, one.weights)


def test_a_solved_solution_says_so(one, many):
    assert one.status is Status.SOLVED
    assert str(one.status) == "solved"
    assert many.status == [Status.SOLVED] * 3
    assert one.iterations == 0
    assert one.optimality < 1e-8


def test_it_works_inside_jit_vmap_and_grad(one):
    def value(k):
        return pdecl.solve(PROBLEM, BASIS, k)(MESH[40:41])[0]

    middle = lambda k: np.sin(X[40] - k * T[40])
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(value)))(PHIS)
    np.testing.assert_allclose(values, middle(np.asarray(PHIS)), atol=1e-5)
    np.testing.assert_allclose(slopes, -T[40] * np.cos(X[40] - PHIS * T[40]), atol=1e-4)


def test_given_points_are_checked_inside_jit_too(one):
    found = eqx.filter_jit(lambda solution: solution(np.asarray(MESH)))(one)
    np.testing.assert_allclose(found, one(MESH), atol=1e-12)
    with pytest.raises(ValueError, match="outside the domain"):
        eqx.filter_jit(lambda solution: solution(np.asarray([[0.5, 2.0]])))(one)


def test_it_is_a_pytree_that_passes_through_jit(one):
    evaluate = eqx.filter_jit(lambda solution, x: solution(x))
    np.testing.assert_allclose(evaluate(one, MESH), one(MESH), atol=1e-12)


def test_a_call_is_differentiable_in_the_points(one):
    gradient = jax.grad(lambda x: one(x[None])[0])(jnp.array([0.3, 0.4]))
    point = jnp.array([[0.3, 0.4]])
    np.testing.assert_allclose(gradient, [one.d("x")(point)[0], one.d("t")(point)[0]], atol=1e-10)


def test_single_precision_when_it_is_meant():
    solution = pdecl.solve(PROBLEM, BASIS, 0.5, dtype=jnp.float32)
    assert solution.weights.dtype == jnp.float32
    np.testing.assert_allclose(solution(MESH), np.sin(X - 0.5 * T), atol=2e-2)


LINE = pdecl.Box(t=(0, 1))


@pytest.fixture(scope="module")
def pendulums():
    """u' = v, v' = −u from two starts: sines and cosines."""
    problem = pdecl.Problem(
        LINE,
        [
            pdecl.Fit(lambda w, z, phi: (w.u.d("t") - w.v(), w.v.d("t") + w.u()), on=LINE.interior),
            pdecl.Fit(lambda w, z, phi: (w.u() - phi[0], w.v() - phi[1]), on=LINE.face(t=0)),
        ],
        unknowns=("u", "v"),
    )
    first, second = chebyshev(LINE, 9), chebyshev(LINE, 10)
    basis = lambda x, phi: {"v": second(x, phi), "u": first(x, phi)}
    return jax.vmap(lambda phi: pdecl.solve(problem, basis, phi))(jnp.array([[0.0, 1.0], [1.0, 0.0]]))


def test_several_unknowns_come_by_name(pendulums):
    t = LINE.mesh(7)
    found = pendulums(t)
    assert set(found) == {"u", "v"}
    np.testing.assert_allclose(found["u"], [np.sin(t[:, 0]), np.cos(t[:, 0])], atol=1e-6)
    np.testing.assert_allclose(found["v"], [np.cos(t[:, 0]), -np.sin(t[:, 0])], atol=1e-6)
    np.testing.assert_allclose(pendulums.d("t")(t)["v"], -found["u"], atol=1e-5)
    assert pendulums.weights.shape == (2, 21)


class TestFailures:
    """1/k is infinite at k = 0, which no check of φ can see."""

    PROBLEM = pdecl.Problem(
        BOX,
        [pdecl.Fit(lambda u, z, k: u() - 1 / k, on=BOX.interior)],
        parameter=lambda key: jr.uniform(key),
    )
    PHIS = jnp.array([0.5, 0.0, 1.0])

    @staticmethod
    def basis(x, phi):
        return jnp.ones(1)

    def test_each_instance_of_a_batch_has_its_own_status(self):
        solution = jax.vmap(lambda phi: pdecl.solve(self.PROBLEM, self.basis, phi, throw=False))(
            self.PHIS
        )
        assert solution.status == [Status.SOLVED, Status.NONFINITE_EQUATION, Status.SOLVED]
        np.testing.assert_allclose(solution.weights[::2, 0], [2.0, 1.0])

    def test_the_exception_says_which_instance_failed(self):
        with pytest.raises(pdecl.SolveError, match="non-finite equation for φ number 1") as caught:
            jax.vmap(lambda phi: pdecl.solve(self.PROBLEM, self.basis, phi))(self.PHIS)
        assert caught.value.status is Status.NONFINITE_EQUATION

    def test_it_raises_inside_jit_too(self):
        @eqx.filter_jit
        def value(k):
            return pdecl.solve(self.PROBLEM, self.basis, k).weights

        np.testing.assert_allclose(value(jnp.array(0.5)), 2.0)
        with pytest.raises(Exception, match="non-finite equation"):
            value(jnp.array(0.0))

    def test_inside_jit_the_caller_may_ask_for_the_status_instead(self):
        solution = eqx.filter_jit(lambda k: pdecl.solve(self.PROBLEM, self.basis, k, throw=False))(
            jnp.array(0.0)
        )
        assert solution.status is Status.NONFINITE_EQUATION
