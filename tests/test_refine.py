"""Refinement: answers of a bad basis within a tolerance, judged by the reference, or said not to be."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdecl
from pdecl.error import refine as refining
from pdecl.error.refine import NodalBasis, RefinedBy, by_nodal_values, refine
from pdecl.family.bound import bound
from pdecl.family.experiment import basis_of, keys_of, preset
from pdecl.problems import Burgers, Convection
from pdecl.problems.burgers.waves import Waves
from pdecl.problems.convection.carried import Carried


def small(problem, method="hard", **changes):
    """A network that nothing was taught."""
    few = (
        {"options": {"modes": 12, "local": 3, "slopes": True, "degree": 1}} if problem == "darcy" else {}
    )
    changes = {"size": 12, "width": 12, "depth": 1, **few, **changes}
    made = preset(problem, method, "quick").with_overrides(creased=0.0, **changes)
    return pdecl.Trained(made, basis_of(made, keys_of(made)[0]))


def energy(nu, f):
    """The energy norm of the five-point scheme, in NumPy."""
    faces = [(np.take(nu, range(1, nu.shape[a]), a) + np.delete(nu, -1, a)) / 2 for a in (1, 2)]
    inner = [np.s_[:, :, 1:-1], np.s_[:, 1:-1, :]]
    parts = [(c * np.diff(f, axis=a) ** 2)[s] for a, c, s in zip((1, 2), faces, inner, strict=True)]
    return np.sqrt(sum(part.sum((1, 2)) for part in parts))


@pytest.fixture(scope="module")
def darcy():
    model = small("darcy", grid=17)
    nu = model.family.sample(3, 3)
    nu[2] = np.where(nu[2] > 5, 300.0, 1.0)
    return model, nu, model.solve(nu, throw=False)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-7])
def test_darcy_is_refined_by_conjugate_gradients(darcy, tolerance):
    model, nu, solution = darcy
    assert not model.bound(solution).within(tolerance).any()
    refined = refine(model, solution, tolerance)
    assert refined.refined_by == [RefinedBy.CONJUGATE_GRADIENTS] * 3
    truth = model.family.reference(nu)
    values = np.asarray(refined(solution.problem.domain.mesh(17, 17))).reshape(nu.shape)
    error, size = energy(nu, values - truth), energy(nu, truth)
    assert (error <= refined.bound.bound).all()
    assert (error <= tolerance * size).all()
    assert (refined.bound.relative <= tolerance).all()
    # Not further than asked: the steps end with the first bound that holds.
    assert (refined.bound.relative > tolerance / 100).all()
    assert refined.status == [pdecl.Status.SOLVED] * 3


def test_only_what_needs_it_is_refined(darcy):
    model, _, solution = darcy
    before = np.asarray(model.bound(solution).relative)
    tolerance = float(np.sort(before)[1])
    refined = refine(model, solution, tolerance)
    assert sorted(refined.better) == [int(np.argmax(before))]
    assert refined.refined_by.count(RefinedBy.NOTHING) == 2
    points = np.random.default_rng(0).uniform(size=(30, 2))
    kept = before <= tolerance
    np.testing.assert_allclose(refined(points)[kept], solution(points)[kept], atol=1e-12)
    np.testing.assert_allclose(refined.d("x")(points)[kept], solution.d("x")(points)[kept], atol=1e-9)
    assert np.abs(refined(points)[~kept] - solution(points)[~kept]).max() > 1e-6
    np.testing.assert_array_equal(np.asarray(refined.bound.relative)[kept], before[kept])


def test_rounding_is_the_end(darcy):
    model, _, solution = darcy
    refined = refine(model, solution, 1e-15)
    assert refined.refined_by == [RefinedBy.NOT_REACHED] * 3
    assert not refined.reached.any()
    # The best there is was kept.
    assert (refined.bound.relative < 1e-9).all()
    assert (refined.bound.relative > 1e-15).all()


def test_values_at_nodes_are_the_same_function(darcy):
    solution = darcy[2]
    points = np.random.default_rng(1).uniform(size=(40, 2))
    grid = by_nodal_values(solution)
    np.testing.assert_allclose(grid(points), solution(points), atol=1e-13)
    for name, values in grid.residual_at(grid.points).items():
        np.testing.assert_allclose(values, solution.residual[name], rtol=1e-9)
    hats = np.stack([NodalBasis(solution.problem.domain, 17)(jnp.asarray(x)) for x in points])
    np.testing.assert_allclose(np.asarray(grid.weights) @ hats.T, solution(points), atol=1e-13)


def weighted(beta, f):
    """The norm of convection's bound, on the nodes of the reference."""
    return np.sqrt(np.trapezoid(np.trapezoid(f**2 / beta[:, None], dx=0.01, axis=2), dx=0.01, axis=1))


@pytest.fixture(scope="module")
def convection():
    model = small("convection")
    beta = model.family.sample(7, 1)
    return model, beta, model.solve(beta, throw=False)


def field(answer):
    mesh = pdecl.Box(x=(0, 1), t=(0, 1)).mesh(101, 101)
    return np.asarray(answer(mesh)).reshape(-1, 101, 101).swapaxes(1, 2)


def test_convection_is_refined_by_more_functions(convection, monkeypatch):
    monkeypatch.setattr(Convection, "further", lambda self, size: (Carried(32),))
    model, beta, solution = convection
    before = model.bound(solution)
    assert before.relative[0] > 0.05
    refined = refine(model, solution, 5e-3, known=before)
    assert refined.refined_by == [RefinedBy.FUNCTIONS]
    truth = model.family.reference(beta)
    error, size = weighted(beta, field(refined) - truth), weighted(beta, truth)
    assert (error <= refined.bound.bound).all()
    assert (error <= 5e-3 * size).all()
    assert weighted(beta, field(solution) - truth)[0] > 5e-3 * size[0]


def test_more_points_are_tried_first_where_the_bound_is_near(convection, monkeypatch):
    model, _, solution = convection
    known = model.bound(solution)
    asked = []

    def solved(problem, basis, phi, **options):
        asked.append((basis is solution.basis, len(options["points"][0].coords)))
        return jax.tree.map(lambda leaf: leaf[0], solution)

    monkeypatch.setattr(refining, "solve", solved)
    near, far = (float(known.relative[0]) / factor for factor in (1.5, 5.0))
    assert refine(model, solution, near, known=known).refined_by == [RefinedBy.NOT_REACHED]
    inside = len(solution.points[0].coords)
    assert asked[:2] == [(True, 2 * inside), (True, 4 * inside)]
    assert not any(same for same, _ in asked[2:])
    first = len(asked)
    refine(model, solution, far, known=known)
    assert asked[first:] == asked[2:first]
    asked.clear()
    soft = replace(model, experiment=replace(model.experiment, method="soft"))
    refine(soft, solution, far, known=known)
    assert asked[0] == (True, inside)


def test_an_answer_is_kept_for_its_bound_alone(convection, monkeypatch):
    """Not because it came last; where none is better than the first, nothing counts as refined."""
    model, _, solution = convection
    known = model.bound(solution)
    tolerance = float(known.relative[0]) / 5
    two, three = (replace(solution, weights=k * solution.weights) for k in (2.0, 3.0))
    first = lambda batch: jax.tree.map(lambda leaf: leaf[0], batch)
    answers = iter([three, solution, three])
    monkeypatch.setattr(refining, "solve", lambda *_, **options: first(next(answers)))
    kept = refine(model, two, tolerance)
    assert kept.refined_by == [RefinedBy.NOT_REACHED]
    np.testing.assert_array_equal(kept.better[0].weights, solution.weights)
    np.testing.assert_array_equal(kept.bound.bound, known.bound)
    monkeypatch.setattr(refining, "solve", lambda *_, **options: first(three))
    unchanged = refine(model, solution, tolerance, known=known)
    assert unchanged.better == {}
    np.testing.assert_array_equal(unchanged.bound.bound, known.bound)


def test_functions_that_are_carried_solve_the_equation():
    family = Convection()
    beta, problem = family.sample(5, 1)[0], family.problem()
    solution = pdecl.solve(problem, Carried(40), beta, points=problem.draw(2000), throw=False)
    noise = np.random.default_rng(0).normal(size=solution.weights.shape)
    points = problem.draw(300)
    given = replace(solution, weights=jnp.asarray(noise))
    assert given.residual_at(points)["equation"] < 1e-12
    assert given.residual_at(points)["initial"] > 1e-2
    assert solution.residual_at(points)["initial"] < 1e-5


def test_families_have_the_size_they_say():
    x, beta = jnp.asarray([0.3, 1.0]), jnp.ones(101)
    for family in (Carried(16), Waves(4, 3)):
        assert jax.eval_shape(family, x, beta).shape == (family.size,)


def test_burgers_is_refined_by_more_functions(monkeypatch):
    coarse = partial(bound, cells=6, points=64)  # smooth functions; for time's sake
    monkeypatch.setattr("pdecl.family.trained.bound", coarse)
    monkeypatch.setattr(Burgers, "further", lambda self, size: (Waves(5, 6),))
    model = small("burgers")
    u0 = 0.1 * model.family.sample(4, 1)
    solution = model.solve(u0, throw=False)
    refined = refine(model, solution, 5e-2, known=coarse(model.family, solution, throw=False))
    assert refined.refined_by == [RefinedBy.FUNCTIONS]
    truth = model.family.reference(u0)
    norm = lambda f: np.sqrt(np.mean(f**2))
    assert norm(field(refined) - truth) <= 5e-2 * norm(truth)
    assert norm(field(solution) - truth) > 5e-2 * norm(truth)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, float("nan"), float("inf")])
def test_nonsense_is_refused(darcy, tolerance):
    with pytest.raises(ValueError, match="tolerance must be a positive number"):
        refine(darcy[0], darcy[2], tolerance)
