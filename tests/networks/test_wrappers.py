"""Periodic features, mollifiers, exact initial data, single precision; and what is built of them."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import pdecl
from pdecl.basis import basis as bases
from pdecl.basis.networks.wrappers import Shifted

box = pdecl.Box(x=(-1, 3), t=(1, 2))
# u_tt = u_xx, as a reason to have a problem.
PROBLEM = pdecl.Problem(
    box,
    [pdecl.Fit(lambda u, z, a: u.d("t", "t") - a * u.d("x", "x"), on=box.interior)],
    parameter=lambda key: jr.uniform(key),
)
ORDERS = frozenset({(), (0,), (0, 0), (0, 1)})
INSIDE = jr.uniform(jr.key(9), (20, 2)) * jnp.array([4, 1]) + jnp.array([-1, 1])
times = jnp.linspace(1, 2, 7)
LEFT, RIGHT = (jnp.stack([jnp.full(7, x), times], axis=-1) for x in (-1.0, 3.0))
BOTTOM = jnp.stack([jnp.linspace(-1, 3, 7), jnp.full(7, 1.0)], axis=-1)
start = lambda z, a: a * jnp.sin(z.x)


@cache
def mlp(**options):
    return pdecl.nn.MLP(PROBLEM, 6, 8, 2, key=jr.key(0), **options)


@eqx.filter_jit
def jets(basis, coords, wanted=frozenset({()}), phi=0.5):
    return bases.evaluate(bases.specialise(basis, phi), ("u",), coords, phi, wanted)


@pytest.mark.parametrize("kind", [pdecl.nn.MLP, pdecl.nn.DeepONet, pdecl.nn.Modulated])
def test_periodic_features_make_functions_and_all_derivatives_periodic(kind):
    basis = kind(PROBLEM, 6, 8, 2, features=pdecl.nn.Periodic(PROBLEM, "x", waves=3), key=jr.key(0))
    left, right = jets(basis, LEFT, ORDERS), jets(basis, RIGHT, ORDERS)
    for key in left:
        np.testing.assert_allclose(left[key], right[key], atol=1e-11)
    assert np.ptp(jets(basis, BOTTOM)["u", ()], axis=0).min() > 1e-3


def test_periodic_in_all_coordinates():
    basis = mlp(features=pdecl.nn.Periodic(PROBLEM, "x", "t"))
    top = BOTTOM + jnp.array([0, 1.0])
    np.testing.assert_allclose(jets(basis, BOTTOM)["u", ()], jets(basis, top)["u", ()], atol=1e-12)


def test_features_are_checked():
    with pytest.raises(ValueError, match="unknown coordinate 'y'"):
        pdecl.nn.Periodic(PROBLEM, "y")
    with pytest.raises(ValueError, match="name the coordinates that repeat"):
        pdecl.nn.Periodic(PROBLEM)
    with pytest.raises(ValueError, match="at least 1"):
        pdecl.nn.Periodic(PROBLEM, "x", waves=0)
    with pytest.raises(ValueError, match="must map a point"):
        mlp(features=lambda x: x[0])
    assert mlp(features=lambda x: jnp.stack([x[0] ** 2, x[1]]))(BOTTOM[0]).shape == (6,)


def test_a_mollified_basis_vanishes_on_the_faces():
    whole = pdecl.nn.Mollified(mlp(), box.faces())
    for edge in (LEFT, RIGHT, BOTTOM):
        np.testing.assert_allclose(jets(whole, edge)["u", ()], 0, atol=1e-15)
    middle = jnp.array([[1.0, 1.5]])
    np.testing.assert_allclose(jets(whole, middle)["u", ()], jets(mlp(), middle)["u", ()])
    left_alone = pdecl.nn.Mollified(mlp(), box.face(x=-1))
    np.testing.assert_allclose(jets(left_alone, LEFT)["u", ()], 0, atol=1e-15)
    assert np.abs(jets(left_alone, RIGHT)["u", ()]).min() > 1e-4
    with pytest.raises(TypeError, match="faces of a box"):
        pdecl.nn.Mollified(mlp(), box.interior)


def test_a_mollified_basis_is_differentiated_as_a_product():
    found = jets(pdecl.nn.Mollified(mlp(), box.faces("x")), INSIDE, frozenset({(0,), (0, 1)}))
    inner = jets(mlp(), INSIDE, frozenset({(), (0,), (1,), (0, 1)}))
    s = ((INSIDE[:, 0] + 1) / 4)[:, None]
    m, slope = 4 * s * (1 - s), 4 * (1 - 2 * s) / 4
    np.testing.assert_allclose(found["u", (0,)], m * inner["u", (0,)] + slope * inner["u", ()])
    np.testing.assert_allclose(found["u", (0, 1)], m * inner["u", (0, 1)] + slope * inner["u", (1,)])


@pytest.mark.parametrize("kind", [pdecl.nn.GridBasis, pdecl.nn.ElementBasis])
def test_a_basis_on_a_grid_is_multiplied_at_its_nodes(kind):
    """So that elements stay elements: in a cell u is multilinear, its second derivative zero."""
    grid = kind(box, lambda phi: phi * jr.normal(jr.key(0), (9, 5, 6)))
    basis = pdecl.nn.Mollified(grid, box.faces())
    nodes = box.mesh(9, 5)
    s, r = (nodes[:, 0] + 1) / 4, nodes[:, 1] - 1
    expected = (16 * s * (1 - s) * r * (1 - r))[:, None] * jets(grid, nodes)["u", ()]
    np.testing.assert_allclose(jets(basis, nodes)["u", ()], expected, atol=1e-12)
    if kind is pdecl.nn.ElementBasis:
        np.testing.assert_array_equal(jets(basis, INSIDE, frozenset({(0, 0)}))["u", (0, 0)], 0)


@pytest.mark.parametrize("rate", [None, 4.0])
def test_initial_data_hold_whatever_the_weights_are(rate):
    basis = pdecl.nn.ExactInitial(mlp(), box.face(t=1), start, rate)
    solution = pdecl.predict(PROBLEM, basis, 0.5)
    np.testing.assert_allclose(solution(BOTTOM), 0.5 * jnp.sin(BOTTOM[:, 0]), atol=1e-14)
    np.testing.assert_allclose(solution.d("x")(BOTTOM), 0.5 * jnp.cos(BOTTOM[:, 0]), atol=1e-14)
    assert np.abs(solution(BOTTOM + jnp.array([0, 1.0])) - 0.5 * jnp.sin(BOTTOM[:, 0])).max() > 0.01


def test_initial_data_on_a_grid_basis():
    grid = pdecl.nn.GridBasis(box, jr.normal(jr.key(0), (9, 5, 6)))
    solution = pdecl.predict(PROBLEM, pdecl.nn.ExactInitial(grid, box.face(t=1), start), 0.5)
    np.testing.assert_allclose(solution(BOTTOM), 0.5 * jnp.sin(BOTTOM[:, 0]), atol=1e-14)


def test_wrappers_compose():
    """Zero walls around initial data: m·(g + s Σ), and the other way round: g + s·m Σ."""
    data = pdecl.nn.ExactInitial(mlp(features=pdecl.nn.Periodic(PROBLEM, "x")), box.face(t=1), start)
    inside = pdecl.predict(PROBLEM, pdecl.nn.Mollified(data, box.faces("x")), 0.5)
    for edge in (LEFT, RIGHT):
        np.testing.assert_allclose(inside(edge), 0, atol=1e-15)
    s = (BOTTOM[:, 0] + 1) / 4
    expected = 4 * s * (1 - s) * 0.5 * jnp.sin(BOTTOM[:, 0])
    np.testing.assert_allclose(inside(BOTTOM), expected, atol=1e-14)
    walls = pdecl.nn.Mollified(mlp(), box.faces("x"))
    outside = pdecl.predict(PROBLEM, pdecl.nn.ExactInitial(walls, box.face(t=1), start), 0.5)
    np.testing.assert_allclose(outside(LEFT), -0.5 * jnp.sin(1.0), atol=1e-14)
    np.testing.assert_allclose(outside(BOTTOM), 0.5 * jnp.sin(BOTTOM[:, 0]), atol=1e-14)


def test_two_offsets_add_up():
    one = pdecl.nn.ExactInitial(mlp(), box.face(t=1), start)
    both = pdecl.nn.ExactInitial(one, box.face(x=-1), lambda z, a: z.t)
    here = bases.specialise(both, 0.5)
    assert isinstance(here, Shifted)
    x = jnp.array([-1.0, 1.5])
    np.testing.assert_allclose(here.offset(x, 0.5), 1.5)
    np.testing.assert_allclose(here(x, 0.5), 0, atol=1e-15)


def test_wrappers_pass_on_what_the_network_proposes():
    net = pdecl.nn.DeepONet(PROBLEM, 6, 8, 2, key=jr.key(0))
    wrapped = pdecl.nn.InSingle(
        pdecl.nn.Mollified(pdecl.nn.ExactInitial(net, box.face(t=1), start), box.faces("x"))
    )
    found = pdecl.predict(PROBLEM, wrapped, 0.5)
    np.testing.assert_allclose(found.weights, net.weights(jnp.asarray(0.5)), rtol=1e-5)
    ones = pdecl.predict(PROBLEM, pdecl.nn.Mollified(mlp(), box.faces()), 0.5)
    np.testing.assert_array_equal(ones.weights, 1)


def test_a_basis_with_ways_of_its_own_must_say_how_it_is_multiplied():
    class Own:
        def jets(self, coords, phi, wanted):
            return {axes: jnp.ones((len(coords), 3)) for axes in wanted}

    with pytest.raises(TypeError, match="times"):
        pdecl.predict(PROBLEM, pdecl.nn.Mollified(Own(), box.faces()), 0.5)


class TestInSingle:
    def test_the_network_and_its_derivatives_run_in_float32(self):
        basis = bases.specialise(pdecl.nn.InSingle(mlp(features=pdecl.nn.Periodic(PROBLEM, "x"))), 0.5)
        raw = jax.jit(jax.vmap(jax.jacfwd(lambda y: basis(y, 0.5))))(INSIDE)
        assert basis(INSIDE[0], 0.5).dtype == jnp.float32
        found = jets(basis, INSIDE, frozenset({(0,)}))["u", (0,)]
        assert found.dtype == jnp.float64
        np.testing.assert_array_equal(found, found.astype(jnp.float32))
        np.testing.assert_allclose(raw[..., 0], found, rtol=1e-5, atol=1e-6)

    def test_the_solve_stays_in_float64_and_agrees(self):
        problem = pdecl.Problem(
            box, [pdecl.Fit(lambda u, z, a: u() - a * z.x * z.t, on=box.interior)], PROBLEM.parameter
        )
        both = (mlp(), pdecl.nn.InSingle(mlp()))
        exact, single = (pdecl.solve(problem, b, 0.5, residual_limit=None) for b in both)
        assert single.weights.dtype == jnp.float64
        np.testing.assert_allclose(single(INSIDE), exact(INSIDE), atol=1e-4)

    def test_offsets_keep_their_digits(self):
        basis = pdecl.nn.InSingle(pdecl.nn.ExactInitial(mlp(), box.face(t=1), start))
        found = pdecl.predict(PROBLEM, basis, 0.5)(BOTTOM)
        np.testing.assert_allclose(found, 0.5 * jnp.sin(BOTTOM[:, 0]), atol=1e-15)

    def test_a_grid_is_interpolated_in_the_precision_of_the_points(self):
        basis = bases.specialise(
            pdecl.nn.InSingle(pdecl.nn.ElementBasis(box, jnp.ones((5, 5, 2)))), None
        )
        assert basis.values.dtype == jnp.float32
        assert jax.vmap(basis)(INSIDE).dtype == jnp.float64

    def test_gradients_come_back_in_float64(self):
        def total(weight, wrap):
            basis = eqx.tree_at(lambda net: net.layers[0].weight, mlp(), weight)
            return jnp.sum(jets(wrap(basis), INSIDE)["u", ()])

        weight = mlp().layers[0].weight
        single, double = (
            jax.jit(jax.grad(total), static_argnums=1)(weight, wrap)
            for wrap in (pdecl.nn.InSingle, lambda b: b)
        )
        assert single.dtype == jnp.float64
        np.testing.assert_allclose(single, double, rtol=1e-3, atol=1e-4)
