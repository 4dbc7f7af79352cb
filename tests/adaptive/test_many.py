"""A batch of φ to a tolerance: solved together, each with an error of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdecl
from pdecl import Box, Budget, Fit, Problem, SolveError, Status
from pdecl.adaptive import marching
from pdecl.adaptive.bands import Bands
from pdecl.adaptive.grid import Grid
from pdecl.adaptive.pieces import uniform
from pdecl.adaptive.rows import equations_of
from pdecl.adaptive.space import Space

PI = np.pi
BOX, TIME = Box(x=(0, 1), t=(0, 1)), Box(t=(0, 1))
POINTS = np.random.default_rng(0).random((40, 2))


def reaction():
    """u_t = k u_xx + r u (1 − u), periodic, with a start that φ moves."""
    gap = lambda u, *by: u.d(*by) - u.at("opposite").d(*by)
    pde = lambda u, z, phi: u.d("t") - phi["k"] * u.d("x", "x") - phi["r"] * u() * (1 - u())
    start = lambda u, z, phi: u() - 0.5 - 0.4 * jnp.sin(2 * PI * (z.x - phi["k"]))
    conditions = [
        Fit(pde, on=BOX.interior, name="pde"),
        Fit(start, on=BOX.face(t=0), name="start"),
        Fit(lambda u, z, phi: (gap(u), gap(u, "x")), on=BOX.periodic("x"), name="periodic"),
    ]
    return Problem(BOX, conditions)


REACTION = reaction()  # what is compiled for it serves all tests


def blow_up():
    """u_t = c u², u = 1 at first: u = 1 / (1 − c t)."""
    growth = Fit(lambda u, z, c: u.d("t") - c * u() ** 2, on=TIME.interior)
    return Problem(TIME, [growth, Fit(lambda u, z, c: u() - 1, on=TIME.face(t=0))])


PHIS = {"k": jnp.array([0.01, 0.05, 0.02]), "r": jnp.array([1.0, 0.0, 3.0])}


def take(phis, k):
    return jax.tree.map(lambda leaf: leaf[k], phis)


def test_a_batch_is_as_each_by_itself():
    problem, tolerance = REACTION, 1e-5
    together = jax.vmap(lambda phi: pdecl.solve(problem, phi, tolerance=tolerance))(PHIS)
    values, slopes = together(POINTS), together.d("x")(POINTS)
    assert values.shape == (3, len(POINTS))
    assert together.status == [Status.SOLVED] * len(together)
    assert (together.error_estimate <= tolerance).all()
    for k in range(3):
        alone = pdecl.solve(problem, take(PHIS, k), tolerance=1e-7)
        size = np.linalg.norm(alone(POINTS))
        assert np.linalg.norm(values[k] - alone(POINTS)) < 2 * together.error_estimate[k] * size
        np.testing.assert_allclose(slopes[k], alone.d("x")(POINTS), atol=1e-3)
        np.testing.assert_allclose(together[k](POINTS), values[k], rtol=1e-12)
        measured, own = together[k].relative_residual, alone.relative_residual
        assert measured.keys() == own.keys()
        assert max(measured.values()) < 1e-3
    inside = jax.jit(jax.vmap(lambda phi: pdecl.solve(problem, phi, tolerance=tolerance)(POINTS)))
    np.testing.assert_allclose(inside(PHIS), values, rtol=1e-12)


def test_gradients_of_a_batch_are_those_of_each():
    problem = REACTION
    one = lambda phi: jnp.sum(pdecl.solve(problem, phi, tolerance=1e-6)(POINTS) ** 2)
    batch = lambda phis: jnp.sum(
        jax.vmap(lambda phi: pdecl.solve(problem, phi, tolerance=1e-6))(phis)(POINTS) ** 2
    )
    found = jax.grad(batch)(PHIS)
    for k in (0, 2):
        for name, slope in jax.grad(one)(take(PHIS, k)).items():
            np.testing.assert_allclose(found[name][k], slope, rtol=1e-4, atol=1e-4)


def test_a_phi_that_fails_fails_alone():
    problem, rates = blow_up(), jnp.array([0.5, 2.0, -1.0])
    solutions = jax.vmap(lambda c: pdecl.solve(problem, c, tolerance=1e-4, throw=False))(rates)
    assert solutions.status == [Status.SOLVED, Status.TOLERANCE_NOT_MET, Status.SOLVED]
    t = np.linspace(0, 1, 30)[:, None]
    for k in (0, 2):
        exact = 1 / (1 - float(rates[k]) * t[:, 0])
        wrong = np.linalg.norm(solutions[k](t) - exact) / np.linalg.norm(exact)
        assert wrong <= solutions[k].error_estimate <= 1e-4
    assert "t = 0.5" in solutions[1].message
    assert np.isnan(solutions(t)[1]).any()


def test_starts_that_are_nan_and_equations_that_are():
    """The root of φ is in the start of one problem, in the equation of the other."""
    in_start = Problem(
        TIME,
        [
            Fit(lambda u, z, c: u.d("t") + u(), on=TIME.interior),
            Fit(lambda u, z, c: u() - jnp.sqrt(c), on=TIME.face(t=0)),
        ],
    )
    in_equation = Problem(
        TIME,
        [
            Fit(lambda u, z, c: u.d("t") + jnp.sqrt(c) * u(), on=TIME.interior),
            Fit(lambda u, z, c: u() - 1, on=TIME.face(t=0)),
        ],
    )
    rates = jnp.array([1.0, -1.0, 1.0])
    batch = lambda problem, throw: jax.vmap(
        lambda c: pdecl.solve(problem, c, tolerance=1e-4, throw=throw)
    )(rates)
    for problem in (in_start, in_equation):
        solutions = batch(problem, False)
        assert [status.failed for status in solutions.status] == [False, True, False]
        np.testing.assert_allclose(solutions([[1.0]])[::2, 0], np.exp(-1), rtol=1e-4)
    with pytest.raises(SolveError, match="φ number 1: the error estimate"):
        batch(in_start, True)([[1.0]])


def test_those_that_need_much_more_march_on_by_themselves():
    """Ten that hardly move, and one that turns fast."""
    pde = lambda w, z, c: (w.u.d("t") - c * w.v(), w.v.d("t") + c * w.u())
    start = lambda w, z, c: (w.u() - 1, w.v())
    problem = Problem(
        TIME, [Fit(pde, on=TIME.interior), Fit(start, on=TIME.face(t=0))], unknowns=("u", "v")
    )
    rates = jnp.append(jnp.linspace(1.0, 2.0, 10), 100.0)
    solve = lambda c: pdecl.solve(problem, c, tolerance=1e-4)
    apart = jax.vmap(solve)(rates)
    slabs = [one.slabs for one in apart]
    assert slabs[0] == slabs[9] < slabs[10] / 3
    t = np.linspace(0, 1, 50)[:, None]
    exact = np.cos(np.asarray(rates)[:, None] * t[:, 0])
    assert np.abs(apart(t)["u"] - exact).max() < 1e-3


def test_what_is_not_marched_is_solved_one_by_one():
    line = Box(x=(0, 1))
    bend = Fit(lambda u, z, k: u.d("x", "x") + k, on=line.interior)
    problem = Problem(line, [bend, Fit(lambda u, z, k: u(), on=line.faces("x"))])
    found = jax.vmap(lambda k: pdecl.solve(problem, k, tolerance=1e-6)([[0.5]]))(jnp.array([8.0, 16.0]))
    np.testing.assert_allclose(found[:, 0], [1.0, 2.0], rtol=1e-6)


def test_one_factorisation_where_phi_is_in_the_data_alone():
    """In two coordinates and time; u = φ sin πx sin πy e^{−t}."""
    box = Box(x=(0, 1), y=(0, 1), t=(0, 1))
    shape = lambda z: jnp.sin(PI * z.x) * jnp.sin(PI * z.y)
    pde = lambda u, z, k: u.d("t") - (u.d("x", "x") + u.d("y", "y")) / (2 * PI**2) * 1.0
    conditions = [
        Fit(pde, on=box.interior),
        Fit(lambda u, z, k: u() - k * shape(z), on=box.face(t=0)),
        Fit(lambda u, z, k: u(), on=box.faces("x", "y")),
    ]
    problem, sizes = Problem(box, conditions), jnp.array([1.0, -2.0, 5.0])
    points = np.random.default_rng(1).random((30, 3))
    found = jax.vmap(lambda k: pdecl.solve(problem, k, tolerance=1e-3))(sizes)
    one = np.sin(PI * points[:, 0]) * np.sin(PI * points[:, 1]) * np.exp(-points[:, 2])
    np.testing.assert_allclose(found(points), np.outer(sizes, one), atol=5e-3)
    assert len({one.slabs for one in found}) == 1


@pytest.mark.parametrize("periodic", [True, False])
def test_banded_inverses_are_those_of_sparse_matrices(periodic):
    """And their transposes, for a batch with slopes of its own."""
    conditions = list(REACTION.conditions)
    if not periodic:
        conditions[2] = Fit(lambda u, z, phi: u.dn() + phi["k"] * u(), on=BOX.faces("x"))
    problem, rng, s, h = Problem(BOX, conditions), np.random.default_rng(0), 5, 0.1
    space = Grid(equations_of(problem, take(PHIS, 0)), [uniform(4)], 5)
    _, slopes = space.evaluate({"u": [rng.standard_normal((s, space.size))] * 2}, np.linspace(0, 1, s))
    held = [g.mean(axis=0) for g in slopes]
    batch = [np.stack([g, g * (1 + 0.1 * rng.random(g.shape))]) for g in held]
    inverse, R = space.inverse(batch, s, h), rng.standard_normal((2, s, space.size))
    assert isinstance(inverse, Bands)
    for k in range(2):
        other = Space.inverse(space, [g[k] for g in batch], s, h)
        np.testing.assert_allclose(inverse(R)[k], other(R[k]), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(inverse(R[1:], np.array([k]))[0], other(R[1]), rtol=1e-8, atol=1e-10)
        single = space.inverse([g[k] for g in batch], s, h)
        transposed = other.transposed(R[0])
        np.testing.assert_allclose(single.transposed(R[0]), transposed, rtol=1e-8, atol=1e-9)


def test_a_singular_matrix_and_one_that_is_not_finite_are_those_of_their_phi():
    space = Grid(equations_of(REACTION, take(PHIS, 0)), [uniform(4)], 5)
    _, slopes = space.evaluate({"u": [np.zeros((1, space.size))] * 2}, np.zeros(1))
    scales = (1.0, 0.0, np.nan)
    inverse = space.inverse([np.stack([c * g[0] for c in scales]) for g in slopes], 5, 0.1)
    assert "singular" in inverse.why[1]
    assert "not finite" in inverse.why[2]
    finite = np.isfinite(inverse(np.ones((3, 5, space.size)))).all(axis=(1, 2))
    assert finite.tolist() == [True, False, False]


def test_a_budget_of_functions_and_of_memory():
    problem = REACTION
    steep = {"k": jnp.array(1e-3), "r": jnp.array(3.0)}
    few = pdecl.solve(problem, steep, tolerance=1e-8, budget=Budget(functions=50), throw=False)
    assert few.status is Status.TOLERANCE_NOT_MET
    assert few.functions <= 50
    assert "budget of 50 functions" in few.message
    with pytest.raises(SolveError, match="budget of 1e-09 GB is used up at t = 0"):
        pdecl.solve(problem, take(PHIS, 0), tolerance=1e-8, budget=Budget(gigabytes=1e-9))
    with pytest.raises(ValueError, match="Budget: `seconds` must be a positive number"):
        Budget(seconds=0)
    with pytest.raises(SolveError, match="budget of 30 functions is less than the 40 needed"):
        pdecl.solve(problem, take(PHIS, 0), tolerance=1e-8, budget=Budget(functions=30))


def test_a_budget_of_seconds_is_looked_at_within_a_slab(monkeypatch):
    problem, seen = REACTION, []
    real = marching.March._require_budget

    def require(march):
        seen.append(len(march.pieces))
        real(march)

    monkeypatch.setattr(marching.March, "_require_budget", require)
    pdecl.solve(problem, take(PHIS, 0), tolerance=1e-3)
    assert max(np.bincount(seen)) > 3
