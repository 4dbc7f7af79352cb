"""Derivatives of the basis as conditions see them: right, and no more of them than asked for."""

from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from spectral import only

import pdecl
from pdecl.layer.system import build, make_plan
from pdecl.state.jet import derivatives

NAMES = ("x", "y", "z", "s", "t", "r")


def box_of(dim):
    return pdecl.Box(**dict.fromkeys(NAMES[:dim], (0, 1)))


def wave(x, phi=None):
    """sin(a·x) with a = (1, 2, …): each derivative multiplies by an entry of a and shifts the phase."""
    return jnp.sin(x @ jnp.arange(1.0, len(x) + 1))


def wave_derivative(coords, axes):
    phase = coords @ np.arange(1.0, coords.shape[1] + 1) + len(axes) * np.pi / 2
    return prod(axis + 1 for axis in axes) * np.sin(phase)


def seen(equation, basis, points, unknowns=("u",), weights=None, box=None):
    """What an equation evaluates to at points, for the given weights of a basis."""
    problem = pdecl.Problem(box or box_of(points.coords.shape[1]), [pdecl.Fit(equation, on=points)],
                            unknowns=unknowns)  # fmt: skip

    @jax.jit
    def values(points):
        system = build(problem, basis, None, (points,))
        ones = jnp.ones(system.plan.size)
        return system.values(0, system.fields(ones if weights is None else weights))

    return np.asarray(values(points))


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 6])
def test_derivatives_of_every_order_up_to_four(dim):
    last = dim - 1
    wanted = [(), (0,), (last,), (0, last), (0, 0, last), (0, 0, 0, 0), tuple(range(dim))[-4:]]
    coords = np.random.default_rng(dim).uniform(size=(3, dim))
    equation = lambda u, z, phi: tuple(u.d(*(NAMES[i] for i in axes)) for axes in wanted)
    found = seen(equation, only(wave), pdecl.Points(coords))
    expected = np.stack([wave_derivative(coords, axes) for axes in wanted], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_derivatives_of_several_functions_by_hand():
    # x³y², e^{2x} sin y and its weights: u_xxy = 6·2y·ω₁ + 4e^{2x} cos y · ω₂
    basis = lambda x, phi: jnp.stack([x[0] ** 3 * x[1] ** 2, jnp.exp(2 * x[0]) * jnp.sin(x[1])])
    coords = np.random.default_rng(0).uniform(size=(5, 2))
    x, y = coords.T
    equation = lambda u, z, phi: (u.d("x", "y", "x"), u.d("y"), u.d("y", "y", "x", "x"))
    found = seen(equation, basis, pdecl.Points(coords), weights=jnp.array([2.0, -1.0]))
    e = np.exp(2 * x)
    np.testing.assert_allclose(found[:, 0], 2 * 12 * x * y - 4 * e * np.cos(y), rtol=1e-12)
    np.testing.assert_allclose(found[:, 1], 4 * x**3 * y - e * np.cos(y), rtol=1e-12)
    np.testing.assert_allclose(found[:, 2], 24 * x + 4 * e * np.sin(y), rtol=1e-12)


def test_the_order_of_differentiation_makes_no_difference():
    problem = pdecl.Problem(
        box_of(2),
        [pdecl.Fit(lambda u, z, phi: u.d("x", "y") + u.d("y", "x"), on=pdecl.Points([[0.1, 0.2]]))],
    )
    plan = make_plan(problem, only(wave), None, problem.draw(1))
    assert [entry.axes for entry in plan.entries[0]] == [(0, 1)]


def test_the_point_shows_its_coordinates_data_and_number():
    points = pdecl.Points([[0.1, 0.2], [0.3, 0.4]], value=[5.0, 6.0], pair=[[1, 2], [3, 4]])
    equation = lambda u, z, phi: (u() * 0 + z.y, u() * 0 + z.value, u() * 0 + z.pair[1], z.index * 1.0)
    found = seen(equation, only(wave), points)
    np.testing.assert_allclose(found, [[0.2, 5, 2, 0], [0.4, 6, 4, 1]])


def test_the_normal_derivative():
    coords = np.random.default_rng(1).uniform(size=(4, 3))
    normal = np.random.default_rng(2).normal(size=(4, 3))
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    found = seen(lambda u, z, phi: u.dn(), only(wave), pdecl.Points(coords, normal=normal))
    expected = sum(normal[:, i] * wave_derivative(coords, (i,)) for i in range(3))
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-12)


def test_values_and_derivatives_at_partner_points():
    coords, other = np.random.default_rng(3).uniform(size=(2, 4, 2))
    points = pdecl.Points(coords, partners={"there": other})
    equation = lambda u, z, phi: (
        u(),
        u.at("there")(),
        u.at("there").d("x", "y"),
        u() * 0 + z.at("there").y,
    )
    found = seen(equation, only(wave), points)
    expected = [
        wave_derivative(coords, ()),
        wave_derivative(other, ()),
        wave_derivative(other, (0, 1)),
        other[:, 1],
    ]
    np.testing.assert_allclose(found, np.stack(expected, axis=1), rtol=1e-12)


def test_several_unknowns_have_each_their_share_of_the_weights():
    basis = lambda x, phi: {"p": jnp.stack([x[0], x[0] ** 2]), "v": jnp.stack([x[1] ** 3])}
    coords = np.random.default_rng(4).uniform(size=(4, 2))
    x, y = coords.T
    equation = lambda w, z, phi: (w.p.d("x"), w.v.d("y", "y"), w.v.d("x"), w.p() * w.v())
    weights = jnp.array([5.0, 7.0, 11.0])
    found = seen(equation, basis, pdecl.Points(coords), ("p", "v"), weights)
    expected = [5 + 14 * x, 66 * y, 0 * x, (5 * x + 7 * x**2) * 11 * y**3]
    np.testing.assert_allclose(found, np.stack(expected, axis=1), rtol=1e-12)


def test_a_derivative_brings_its_lower_orders_and_nothing_is_evaluated_twice():
    """`tanh` in the program counts how often the network is evaluated, for all N functions together."""
    network = lambda x: jnp.tanh(jnp.ones((7, 3)) @ x)

    def evaluations(wanted):
        program = jax.make_jaxpr(lambda x: derivatives(network, x, wanted))(jnp.ones(3))
        return sum(eqn.primitive.name == "tanh" for eqn in program.eqns)

    assert evaluations({()}) == 1
    assert evaluations({(), (0,), (0, 0), (0, 0, 0)}) == 1
    assert evaluations({(), (1,), (0, 1)}) == 1
    assert evaluations({(), (0, 0), (1, 1)}) == 2  # once along each direction


def test_only_derivatives_that_conditions_ask_for_are_evaluated():
    asked = []

    class Grid:
        """A basis with its own derivatives that writes down which it was asked for."""

        def jets(self, coords, phi, wanted):
            asked.append((coords.shape[0], frozenset(wanted)))
            return {axes: jnp.ones((coords.shape[0], 2)) for axes in wanted}

    box = box_of(2)
    inside, side = box.interior.grid(3), box.face(x=0).grid(4)
    problem = pdecl.Problem(
        box,
        [
            pdecl.Fit(lambda u, z, phi: u.d("x") - z.x, on=inside),
            pdecl.Fit(lambda u, z, phi: u.d("y", "y"), on=inside),
            pdecl.Fit(lambda u, z, phi: u(), on=side),
        ],
    )
    sets = problem.draw(2)
    asked.clear()
    build(problem, Grid(), None, sets)
    assert asked[1:] == [(9, {(0,), (1, 1)}), (4, {()})]  # the first asks for the shape alone
    assert asked[0][0] == 1


def test_partners_are_evaluated_only_for_what_is_asked_of_them():
    points = pdecl.Points([[0.0, 0.5]], partners={"there": [[1.0, 0.5]], "unused": [[0.5, 0.5]]})
    problem = pdecl.Problem(
        box_of(2), [pdecl.Fit(lambda u, z, phi: u.d("x") - u.at("there")(), on=points)]
    )
    plan = make_plan(problem, only(wave), None, (points,))
    assert {(entry.place, entry.axes) for entry in plan.entries[0]} == {("", (0,)), ("there", ())}
