"""Functions given on a grid: interpolated at any points, and at points in rows and columns."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator

import pdecl
from pdecl.basis import basis as bases
from pdecl.layer.system import build, linearise
from pdecl.state.points import lattice_points

BOX = pdecl.Box(x=(-1, 1), y=(0, 3))
VALUES = jr.normal(jr.key(0), (9, 7, 4))
ELEMENTS = pdecl.nn.ElementBasis(BOX, VALUES)
WANTED = {(), (0,), (1,), (0, 1), (0, 0)}
LATTICES = {
    "nodes": ((-1, 1, 9), (0, 3, 7)),
    "inner nodes": ((-0.75, 0.75, 7), (0.5, 2.5, 5)),
    "middles": ((-0.875, 0.875, 8), (0.25, 2.75, 6)),
    "every second node": ((-1, 1, 5), (0, 3, 4)),
    "finer than the grid": ((-1, 1, 40), (0, 3, 23)),
    "coarser, not in step": ((-0.9, 0.8, 4), (0.1, 2.9, 3)),
    "one row": ((0.3, 0.3, 1), (0, 3, 7)),
}


def test_values_agree_with_scipy():
    coords = np.random.default_rng(0).uniform([-1, 0], [1, 3], (50, 2))
    axes = (np.linspace(-1, 1, 9), np.linspace(0, 3, 7))
    expected = RegularGridInterpolator(axes, np.asarray(VALUES))(coords)
    np.testing.assert_allclose(ELEMENTS.jets(jnp.asarray(coords), None, {()})[()], expected, atol=1e-12)


def test_derivatives_are_those_of_the_function_in_a_cell():
    """Against central differences, which are exact for what is linear in each coordinate."""
    coords, h = jnp.asarray([[-0.9, 0.2], [0.1, 1.1], [0.6, 2.9]]), 1e-3
    at = lambda dx, dy: ELEMENTS.jets(coords + jnp.asarray([dx, dy]), None, {()})[()]
    found = ELEMENTS.jets(coords, None, WANTED)
    np.testing.assert_allclose(found[(0,)], (at(h, 0) - at(-h, 0)) / (2 * h), atol=1e-9)
    np.testing.assert_allclose(found[(1,)], (at(0, h) - at(0, -h)) / (2 * h), atol=1e-9)
    mixed = (at(h, h) - at(-h, h) - at(h, -h) + at(-h, -h)) / (4 * h**2)
    np.testing.assert_allclose(found[(0, 1)], mixed, atol=1e-7)
    assert not np.any(found[(0, 0)])


@pytest.mark.parametrize("name", LATTICES)
def test_rows_and_columns_are_evaluated_as_points_are(name):
    # At nodes derivatives jump, and for the last node a point belongs to the cell before it.
    lattice = LATTICES[name]
    inside = {axes for axes in WANTED if name != "nodes" or axes in ((), (0, 0))}
    coords = jnp.asarray(lattice_points(lattice))
    at_points = ELEMENTS.jets(coords, None, inside)
    for axes, values in ELEMENTS.on_lattice(lattice, None, inside).items():
        np.testing.assert_allclose(values, at_points[axes], atol=1e-9, err_msg=str(axes))


def test_in_one_and_in_three_dimensions():
    for d in (1, 3):
        box = pdecl.Box(**dict.fromkeys("xyz"[:d], (0, 1)))
        basis = pdecl.nn.ElementBasis(box, jr.normal(jr.key(d), (*(5, 6, 4)[:d], 2)))
        lattice = ((0.1, 0.8, 4), (0.2, 0.95, 3), (0.05, 0.5, 5))[:d]
        wanted = set(itertools.chain([()], ((axis,) for axis in range(d))))
        at_points = basis.jets(jnp.asarray(lattice_points(lattice)), None, wanted)
        for axes, values in basis.on_lattice(lattice, None, wanted).items():
            np.testing.assert_allclose(values, at_points[axes], atol=1e-10)


def test_gradients_reach_the_values_both_ways():
    lattice = LATTICES["middles"]
    coords = jnp.asarray(lattice_points(lattice))

    def total(values, lattice):
        basis = pdecl.nn.ElementBasis(BOX, values)
        found = bases.evaluate(basis, ("u",), coords, None, {(0,), ()}, lattice)
        return sum(jnp.sum(jnp.sin(part)) for part in found.values())

    by_points, by_rows = (jax.grad(total)(VALUES, way) for way in (None, lattice))
    np.testing.assert_allclose(by_rows, by_points, atol=1e-10)


def test_two_sets_joined_are_no_lattice():
    lattice = LATTICES["middles"]
    twice = jnp.concatenate([jnp.asarray(lattice_points(lattice))] * 2)
    found = bases.evaluate(ELEMENTS, ("u",), twice, None, {()}, lattice)["u", ()]
    np.testing.assert_allclose(found, ELEMENTS.jets(twice, None, {()})[()], atol=1e-12)


def test_points_that_are_not_those_of_their_lattice_are_refused():
    lattice = LATTICES["middles"]
    coords = lattice_points(lattice)
    assert len(pdecl.Points(coords, lattice=lattice)) == 48
    for wrong in (coords[::-1], coords[:-1], coords + 1e-3):
        with pytest.raises(ValueError, match="not the points of the lattice"):
            pdecl.Points(wrong, lattice=lattice)


@pytest.mark.parametrize("materialise", [True, False])
def test_an_energy_without_curvature_adds_no_rows(materialise):
    """½ u_x² − u: the second term has a slope alone; with both terms in one it is the same problem."""
    line = pdecl.Box(x=(0, 1))
    at = line.interior.gauss(2, cells=8)
    hats = pdecl.nn.ElementBasis(line, jnp.eye(9)[:, 1:-1])
    slope, source = lambda u, z, phi: u.d("x") ** 2 / 2, lambda u, z, phi: -u()
    apart = pdecl.Problem(line, [pdecl.Energy(slope, on=at), pdecl.Energy(source, on=at)])
    joined = pdecl.Problem(line, [pdecl.Energy(lambda u, z, phi: slope(u, z, phi) - u(), on=at)])
    weights = jr.normal(jr.key(1), (7,))
    models = [
        linearise(build(problem, hats, None, problem.draw(7), materialise), weights)
        for problem in (apart, joined)
    ]
    grams = [np.asarray(jax.vmap(m.gram(jnp.zeros(7)).mv, 1, 1)(jnp.eye(7))) for m in models]
    np.testing.assert_allclose(grams[0], grams[1], atol=1e-9)
    np.testing.assert_allclose(models[0].g, models[1].g, atol=1e-9)
    assert models[0].D.shape == (16, 1, 1)  # 16 quadrature points, u_x alone
    solution = pdecl.solve(apart, hats)
    x = jnp.linspace(0, 1, 9)
    np.testing.assert_allclose(solution(x[:, None]), x * (1 - x) / 2, atol=1e-9)
