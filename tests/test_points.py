"""Where conditions hold: points, their weights, normals and partners."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdecl

BOX = pdecl.Box(x=(-1, 2), y=(0, 0.5), t=(3, 5))
RULES = {
    "uniform": lambda region: region.uniform(50),
    "low discrepancy": lambda region: region.low_discrepancy(50),
    "nodes": lambda region: region.nodes(50, 11),
    "grid": lambda region: region.grid(4),
    "gauss": lambda region: region.gauss(3),
    "gauss with cells": lambda region: region.gauss(2, cells=3),
    "none": lambda region: region,
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("region", "measure"),
    [
        (BOX.interior, 3.0),
        (BOX.face(x=2), 1.0),
        (BOX.faces("y"), 12.0),
        (BOX.faces(), 17.0),
        (BOX.periodic("t"), 1.5),
    ],
)
def test_weights_add_up_to_the_measure_and_points_lie_inside(rule, region, measure):
    points = RULES[rule](region).draw(jr.key(0) if rule == "uniform" else None, 50)
    coords, weights = np.asarray(points.coords), np.asarray(points.weights)
    low, high = np.asarray(BOX.bounds).T
    np.testing.assert_allclose(weights.sum(), measure, rtol=1e-13)
    assert coords.shape == (len(points), 3)
    assert np.all((coords >= low) & (coords <= high))
    assert np.all(weights > 0)


def test_nodes_are_different_nodes_of_the_grid_and_new_for_each_key():
    box = pdecl.Box(x=(-1, 1), t=(0, 2))
    first, second = (np.asarray(box.interior.nodes(20, 5).draw(jr.key(k), 1).coords) for k in (0, 1))
    assert len(np.unique(first, axis=0)) == 20
    assert np.isin(first[:, 0], np.linspace(-1, 1, 5)).all()
    assert np.isin(first[:, 1], np.linspace(0, 2, 5)).all()
    assert not np.array_equal(first, second)
    every = np.asarray(box.face(t=0).nodes(5, 5).draw(None, 1).coords)
    np.testing.assert_array_equal(np.sort(every[:, 0]), np.linspace(-1, 1, 5))
    with pytest.raises(ValueError, match="26 different nodes cannot be drawn from 25"):
        box.interior.nodes(26, 5).draw(None, 1)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(st.integers(0, 7), min_size=2, max_size=2),
    st.tuples(st.floats(-3, 3), st.floats(0.1, 4)),
)
def test_gauss_integrates_polynomials_up_to_degree_2n_minus_1_exactly(nodes, cells, degrees, side):
    low, high = side[0], side[0] + side[1]
    box = pdecl.Box(x=(low, high), y=(-1, 1))
    p, q = (min(degree, 2 * nodes - 1) for degree in degrees)
    points = box.interior.gauss(nodes, cells=cells).draw(None, 1)
    x, y = np.asarray(points.coords).T
    exact = (high ** (p + 1) - low ** (p + 1)) / (p + 1) * (1 - (-1) ** (q + 1)) / (q + 1)
    assert np.sum(np.asarray(points.weights) * x**p * y**q) == pytest.approx(exact, rel=1e-10, abs=1e-10)


def test_gauss_is_not_exact_beyond_its_degree():
    points = pdecl.Box(x=(-1, 1)).interior.gauss(2).draw(None, 1)
    assert np.sum(points.weights * points.coords[:, 0] ** 4) == pytest.approx(2 / 9)


def test_counts_can_differ_from_coordinate_to_coordinate():
    points = BOX.interior.gauss(1, 2, 3, cells=(1, 2, 1)).draw(None, 1)
    assert [len(np.unique(np.round(column, 12))) for column in points.coords.T] == [1, 4, 3]
    assert len(BOX.interior.grid(2, 3, 4).draw(None, 1)) == 24


def test_grid_points_are_the_midpoints_of_equal_cells():
    points = pdecl.Box(x=(0, 2)).interior.grid(4).draw(None, 1)
    np.testing.assert_allclose(points.coords[:, 0], [0.25, 0.75, 1.25, 1.75])


@pytest.mark.parametrize("rule", ["uniform", "low discrepancy", "none"])
def test_a_key_gives_the_same_points_again_and_another_key_others(rule):
    region = RULES[rule](BOX.faces("x"))
    first, again, other = (region.draw(jr.key(seed), 20).coords for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01


@pytest.mark.parametrize("rule", ["low discrepancy", "grid", "gauss", "none"])
def test_without_a_key_points_are_always_the_same(rule):
    region = RULES[rule](BOX.interior)
    np.testing.assert_array_equal(region.draw(None, 20).coords, region.draw(None, 20).coords)


def test_uniform_points_without_a_key_are_an_error():
    with pytest.raises(ValueError, match="pass `key="):
        BOX.interior.uniform(5).draw(None, 1)


def test_points_can_be_drawn_inside_jit():
    region = BOX.faces("x", "t").uniform(12)
    drawn = jax.jit(lambda key: region.draw(key, 1))(jr.key(3))
    np.testing.assert_allclose(drawn.coords, region.draw(jr.key(3), 1).coords)


def test_low_discrepancy_points_spread_more_evenly_than_uniform_ones():
    box = pdecl.Box(x=(0, 1), y=(0, 1))

    def error(region, seed):  # of the mean of x + xy, which is 3/4
        x, y = np.asarray(region.draw(jr.key(seed), 1).coords).T
        return abs(np.mean(x + x * y) - 0.75)

    even, uneven = (
        np.mean([error(region, seed) for seed in range(5)])
        for region in (box.interior.low_discrepancy(256), box.interior.uniform(256))
    )
    assert even < 0.4 * uneven


def test_counts_are_over_all_faces_together():
    box = pdecl.Box(x=(0, 1), y=(0, 1))
    points = box.faces().uniform(10).draw(jr.key(0), 1)
    assert len(points) == 10
    sides, counts = np.unique(points.data["normal"], axis=0, return_counts=True)
    assert sorted(counts) == [2, 2, 3, 3]
    assert len(sides) == 4


def test_faces_carry_outward_normals():
    points = BOX.faces().grid(2).draw(None, 1)
    normal = points.data["normal"]
    middle, half = np.mean(BOX.bounds, axis=1), np.diff(BOX.bounds)[:, 0] / 2
    outward = (points.coords - middle) / half  # ±1 in the coordinate of the face, less in the others
    np.testing.assert_allclose(np.sum(normal * outward, axis=1), 1.0)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1.0)


def test_a_face_is_where_its_coordinate_has_that_value():
    assert np.all(BOX.face(t=5).draw(None, 7).coords[:, 2] == 5)
    assert np.all(BOX.face(x=-1).draw(None, 7).coords[:, 0] == -1)


def test_the_face_of_an_interval_is_one_point_of_weight_one():
    interval = pdecl.Box(x=(2, 5))
    both = interval.faces("x").low_discrepancy(40).draw(None, 1)
    np.testing.assert_array_equal(both.coords, [[2.0], [5.0]])
    np.testing.assert_array_equal(both.weights, [1.0, 1.0])
    np.testing.assert_array_equal(both.data["normal"], [[-1.0], [1.0]])
    assert len(interval.face(x=5).gauss(3).draw(None, 1)) == 1


def test_periodic_partners_lie_opposite():
    points = BOX.periodic("x").low_discrepancy(9).draw(jr.key(0), 1)
    partner = points.partners["opposite"]
    assert np.all(points.coords[:, 0] == -1)
    assert np.all(partner[:, 0] == 2)
    np.testing.assert_array_equal(points.coords[:, 1:], partner[:, 1:])


def test_mesh_has_the_ends_and_runs_fastest_in_the_last_coordinate():
    mesh = pdecl.Box(x=(0, 1), y=(0, 2)).mesh(2, 3)
    np.testing.assert_allclose(mesh, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])


def test_own_points_keep_their_data_and_count_alike_without_weights():
    points = pdecl.Points([[0, 1], [2, 3]], normal=[[1.0, 0], [0, 1]], value=[5, 6])
    assert len(points) == 2
    assert points.coords.dtype == jnp.float64
    np.testing.assert_allclose(points.weights, 0.5)
    np.testing.assert_allclose(points.data["value"], [5, 6])


def test_a_sampler_of_ones_own_gets_the_key():
    def disc(key):
        radius, angle = jr.uniform(key, (2, 30))
        x, y = jnp.sqrt(radius) * jnp.stack([jnp.cos(7 * angle), jnp.sin(7 * angle)])
        return pdecl.Points(jnp.stack([x, y], axis=1))

    box = pdecl.Box(x=(-1, 1), y=(-1, 1))
    problem = pdecl.Problem(box, [pdecl.Fit(lambda u, z, phi: u(), on=disc)])
    (first,), (again,), (other,) = (problem.draw(4, jr.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.coords, again.coords)
    assert np.abs(first.coords - other.coords).max() > 0.01


def test_conditions_on_the_same_region_share_their_points():
    face = pdecl.Points([[0.0, 0.2, 4.0]])
    fit = lambda on: pdecl.Fit(lambda u, z, phi: u(), on=on)
    sets = [BOX.interior, BOX.faces("x"), BOX.interior, face, face, BOX.interior.grid(2)]
    problem = pdecl.Problem(BOX, [fit(on) for on in sets])
    assert len(problem.draw(10)) == 4
    assert problem.places == (0, 1, 0, 2, 2, 3)


@pytest.mark.parametrize("kind", [pdecl.Fit, pdecl.Enforce])
@pytest.mark.parametrize(("size", "dim"), [(1, 1), (1, 3), (2, 2), (90, 2)])
def test_there_are_points_on_every_side_however_small_the_basis(size, dim, kind):
    box = pdecl.Box(**{f"x{i}": (0, 1) for i in range(dim)})
    regions = [box.interior, box.faces(), box.face(x0=0), box.periodic("x0")]
    problem = pdecl.Problem(box, [kind(lambda u, z, phi: u(), on=on) for on in regions])
    inside, faces, _, _ = problem.draw(size)
    assert len(inside) == (max(1, size // 2) if kind is pdecl.Enforce else 2 * size)
    assert len(np.unique(faces.data["normal"], axis=0)) == 2 * dim
