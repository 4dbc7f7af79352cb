"""Solves to a tolerance: the true error is below the stated one, and that below the tolerance."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.hermite import hermgauss

import pdecl
from pdecl import Box, Enforce, Fit, Points, Problem, Status

PI = np.pi
SQUARE = Box(x=(0, 1), t=(0, 1))


def start(value, box=SQUARE):
    return Fit(lambda u, z, phi: u() - value(z.x), on=box.face(t=0))


def wave():
    """Second order in time, with a start for u and u_t."""
    conditions = [
        Fit(lambda u, z, phi: u.d("t", "t") - 4 * u.d("x", "x"), on=SQUARE.interior),
        start(lambda x: jnp.sin(PI * x) + 0.5 * jnp.sin(4 * PI * x)),
        Fit(lambda u, z, phi: u.d("t"), on=SQUARE.face(t=0)),
        Enforce(lambda u, z, phi: u(), on=SQUARE.faces("x")),
    ]
    exact = lambda x, t: (
        np.sin(PI * x) * np.cos(2 * PI * t) + 0.5 * np.sin(4 * PI * x) * np.cos(8 * PI * t)
    )
    return Problem(SQUARE, conditions), None, exact


def heat():
    """Neumann and Robin values that depend on time; φ is the diffusivity."""
    u = lambda x, t, np=np: np.exp(-t) * np.cos(2 * x) + x * t
    source = lambda z, k: (4 * k - 1) * jnp.exp(-z.t) * jnp.cos(2 * z.x) + z.x
    slope = lambda x, t: -2 * jnp.exp(-t) * jnp.sin(2 * x) + t
    conditions = [
        Fit(lambda v, z, k: v.d("t") - k * v.d("x", "x") - source(z, k), on=SQUARE.interior),
        start(lambda x: u(x, 0.0, jnp)),
        Fit(lambda v, z, k: v.dn() + slope(z.x, z.t), on=SQUARE.face(x=0)),
        Fit(lambda v, z, k: v.dn() + v() - slope(z.x, z.t) - u(z.x, z.t, jnp), on=SQUARE.face(x=1)),
    ]
    return Problem(SQUARE, conditions), 0.5, u


def advection():
    box = Box(x=(0, 2 * PI), t=(0, 1))
    conditions = [
        Fit(lambda u, z, speed: u.d("t") + speed["c"] * u.d("x"), on=box.interior),
        start(jnp.sin, box),
        Fit(lambda u, z, speed: u() - u.at("opposite")(), on=box.periodic("x")),
    ]
    return Problem(box, conditions), {"c": 10.0}, lambda x, t: np.sin(x - 10 * t)


def burgers():
    """Cole–Hopf: u = −∫ sin(π(x − η)) f e^{−η²/4νt} / ∫ f e^{−η²/4νt}, f = e^{−cos(π(x − η))/2πν}, by
    Gauss–Hermite quadrature."""
    box, nu = Box(x=(-1, 1), t=(0, 1)), 0.05
    conditions = [
        Fit(lambda u, z, phi: u.d("t") + u() * u.d("x") - nu * u.d("x", "x"), on=box.interior),
        start(lambda x: -jnp.sin(PI * x), box),
        Fit(lambda u, z, phi: u(), on=box.faces("x")),
    ]
    nodes, weights = hermgauss(200)

    def exact(x, t):
        y = x[:, None] - 2 * np.sqrt(nu * t)[:, None] * nodes
        f = weights * np.exp(-np.cos(PI * y) / (2 * PI * nu))
        return -(np.sin(PI * y) * f).sum(axis=1) / f.sum(axis=1)

    return Problem(box, conditions), None, exact


def bratu():
    """Δu + λ e^u + f = 0 on a square, with the source of a solution."""
    box = Box(x=(0, 1), y=(0, 1))
    u = lambda x, y, np=np: np.sin(PI * x) * np.sin(2 * PI * y) * np.exp(x)

    def source(z):
        s, c, e = jnp.sin(PI * z.x), jnp.cos(PI * z.x), jnp.exp(z.x)
        wave = jnp.sin(2 * PI * z.y)
        laplacian = ((1 - PI**2) * s + 2 * PI * c - 4 * PI**2 * s) * e * wave
        return laplacian + jnp.exp(u(z.x, z.y, jnp))

    conditions = [
        Fit(lambda v, z, phi: v.d("x", "x") + v.d("y", "y") + jnp.exp(v()) - source(z), on=box.interior),
        Fit(lambda v, z, phi: v(), on=box.faces()),
    ]
    return Problem(box, conditions), None, u


def poisson_5d():
    names = ("a", "b", "c", "d", "e")
    box = Box(**dict.fromkeys(names, (0, 1)))
    exact = lambda z: sum(jnp.sin(PI / 2 * getattr(z, name)) for name in names)
    conditions = [
        Fit(lambda u, z, phi: sum(u.d(n, n) for n in names) + PI**2 / 4 * exact(z), on=box.interior),
        Fit(lambda u, z, phi: u() - exact(z), on=box.faces()),
    ]
    return Problem(box, conditions), None, lambda *x: sum(np.sin(PI / 2 * y) for y in x)


def layer():
    """10^−2 u'' + u' + 1 = 0: a boundary layer, steady, in one coordinate."""
    box, width = Box(x=(0, 1)), 1e-2
    conditions = [
        Fit(lambda u, z, phi: width * u.d("x", "x") + u.d("x") + 1, on=box.interior),
        Fit(lambda u, z, phi: u(), on=box.faces("x")),
    ]
    exact = lambda x: (1 - np.exp(-x / width)) / (1 - np.exp(-1 / width)) - x
    return Problem(box, conditions), None, exact


def plate():
    """Two conditions at each end, in one statement or in two."""
    box = Box(x=(0, 1), y=(0, 1))
    load = lambda z: 25 * PI**4 * jnp.sin(PI * z.x) * jnp.sin(2 * PI * z.y)
    bend = lambda u: u.d(*"xxxx") + 2 * u.d(*"xxyy") + u.d(*"yyyy")
    conditions = [
        Fit(lambda u, z, phi: bend(u) - load(z), on=box.interior),
        Fit(lambda u, z, phi: (u(), u.d("x", "x")), on=box.faces("x")),
        Fit(lambda u, z, phi: u(), on=box.faces("y")),
        Fit(lambda u, z, phi: u.d("y", "y"), on=box.faces("y")),
    ]
    return Problem(box, conditions), None, lambda x, y: np.sin(PI * x) * np.sin(2 * PI * y)


def decay():
    """Time alone."""
    box = Box(t=(0, 2))
    conditions = [
        Fit(lambda u, z, rate: u.d("t") + rate * u(), on=box.interior),
        Fit(lambda u, z, rate: u() - 1, on=box.face(t=0)),
    ]
    return Problem(box, conditions), 3.0, lambda t: np.exp(-3 * t)


CASES = {
    "wave": (wave, 1e-4),
    "heat": (heat, 1e-4),
    "advection": (advection, 1e-3),
    "burgers": (burgers, 1e-4),
    "bratu": (bratu, 1e-3),
    "poisson_5d": (poisson_5d, 1e-3),
    "layer": (layer, 1e-4),
    "plate": (plate, 1e-3),
    "decay": (decay, 1e-6),
}


def random_points(box, count=2000):
    low, high = np.asarray(box.bounds).T
    return low + (high - low) * np.random.default_rng(0).random((count, len(low)))


def relative(u, truth):
    return float(np.linalg.norm(u - truth) / np.linalg.norm(truth))


@pytest.mark.parametrize("name", CASES)
def test_the_true_error_is_below_the_stated_one(name):
    make, tolerance = CASES[name]
    problem, phi, exact = make()
    solution = pdecl.solve(problem, phi, tolerance=tolerance)
    points = random_points(problem.domain)
    assert solution.status is Status.SOLVED
    # Two solutions that are both exact to rounding say nothing of each other.
    assert relative(solution(points), exact(*points.T)) <= solution.error_estimate + 1e-12
    assert solution.error_estimate <= tolerance
    assert max(solution.relative_residual.values()) < 0.1


def test_two_unknowns_and_derivatives():
    """Schrödinger in two real functions: i h_t + h_xx / 2 = 0, h = e^{i(2x − 2t)}."""
    box = Box(x=(0, 2 * PI), t=(0, 1))
    gap = lambda jet, *by: jet.d(*by) - jet.at("opposite").d(*by)
    conditions = [
        Fit(
            lambda w, z, phi: (
                w.u.d("t") + 0.5 * w.v.d("x", "x"),
                w.v.d("t") - 0.5 * w.u.d("x", "x"),
            ),
            on=box.interior,
        ),
        Fit(lambda w, z, phi: (w.u() - jnp.cos(2 * z.x), w.v() - jnp.sin(2 * z.x)), on=box.face(t=0)),
        Fit(lambda w, z, phi: (gap(w.u), gap(w.v)), on=box.periodic("x")),
        Fit(lambda w, z, phi: (gap(w.u, "x"), gap(w.v, "x")), on=box.periodic("x")),
    ]
    solution = pdecl.solve(Problem(box, conditions, unknowns=("u", "v")), tolerance=1e-4)
    points = random_points(box)
    x, t = points.T
    found, slopes = solution(points), solution.d("t", "x")(points)
    assert set(found) == set(solution.estimates) == {"u", "v"}
    assert relative(found["u"], np.cos(2 * x - 2 * t)) <= solution.error_estimate <= 1e-4
    assert relative(found["v"], np.sin(2 * x - 2 * t)) <= solution.error_estimate
    assert relative(slopes["u"], 4 * np.cos(2 * x - 2 * t)) < 1e-3
    assert "of unknowns" in str(solution)


def test_a_flux_has_no_conditions_of_its_own_and_a_coefficient_jumps():
    """q = a u', q' = −1, a = 10 up to 0.3 and 1 beyond: both conditions are the temperature's."""
    box = Box(x=(0, 1))
    a = lambda x: jnp.where(x < 0.3, 10.0, 1.0)
    conditions = [
        Fit(lambda w, z, phi: (w.q() / a(z.x) - w.u.d("x"), w.q.d("x") + 1), on=box.interior),
        Fit(lambda w, z, phi: w.u(), on=box.faces()),
    ]
    solution = pdecl.solve(Problem(box, conditions, unknowns=("u", "q")), tolerance=1e-4)
    x = random_points(box)
    c = (0.045 / 10 + 0.455) / (0.3 / 10 + 0.7)  # q = c − x, from u(0) = u(1) = 0
    left = lambda x: (c * x - x**2 / 2) / 10
    right = lambda x: left(0.3) + c * (x - 0.3) - (x**2 - 0.09) / 2
    exact = np.where(x < 0.3, left(x), right(x))[:, 0]
    assert relative(solution(x)["u"], exact) <= solution.error_estimate <= 1e-4
    assert relative(solution(x)["q"], c - x[:, 0]) <= 1e-4


def test_a_point_fixes_the_constant_of_a_pressure():
    """Stokes with u = sin πx cos πy, v = −cos πx sin πy, p = xy: p has a free constant without it."""
    box = Box(x=(0, 1), y=(0, 1))
    u = lambda z: jnp.sin(PI * z.x) * jnp.cos(PI * z.y)
    v = lambda z: -jnp.cos(PI * z.x) * jnp.sin(PI * z.y)
    laplacian = lambda jet: jet.d("x", "x") + jet.d("y", "y")
    conditions = [
        Fit(
            lambda w, z, phi: (
                w.p.d("x") - laplacian(w.u) - z.y - 2 * PI**2 * u(z),
                w.p.d("y") - laplacian(w.v) - z.x - 2 * PI**2 * v(z),
                w.u.d("x") + w.v.d("y"),
            ),
            on=box.interior,
        ),
        Fit(lambda w, z, phi: (w.u() - u(z), w.v() - v(z)), on=box.faces()),
        Fit(lambda w, z, phi: w.p(), on=Points([[0.0, 0.0]])),
    ]
    solution = pdecl.solve(Problem(box, conditions, unknowns=("u", "v", "p")), tolerance=1e-2)
    points = random_points(box)
    x, y = points.T
    found = solution(points)
    assert relative(found["u"], np.sin(PI * x) * np.cos(PI * y)) <= solution.error_estimate <= 1e-2
    assert relative(found["p"], x * y) <= solution.error_estimate


def test_it_prints_what_matters():
    problem, phi, _ = decay()
    text = str(pdecl.solve(problem, phi, tolerance=1e-4))
    for word in ("solved", "error estimate", "asked: 0.0001", "slabs", "along t", "relative residual"):
        assert word in text


def test_phi_may_be_a_keyword_and_progress_off():
    problem, phi, _ = decay()
    given = pdecl.solve(problem, phi=phi, tolerance=1e-4, progress=False)
    assert float(given([[1.0]])[0]) == pytest.approx(np.exp(-3.0), rel=1e-3)


def test_another_phi_traces_nothing_again_and_says_where_it_blows_up():
    """u_t = c u², u = 1 at first: u = 1 / (1 − c t), which blows up at t = 1 / c."""
    box, traced = Box(t=(0, 1)), []

    def growth(u, z, c):
        traced.append(c)
        return u.d("t") - c * u() ** 2

    conditions = [
        Fit(growth, on=box.interior),
        Fit(lambda u, z, c: u() - 1, on=box.face(t=0)),
    ]
    problem, rates = Problem(box, conditions), np.array([0.5, 2.0, -1.0])
    pdecl.solve(problem, 0.1, tolerance=1e-3)
    count = len(traced)
    solutions = [pdecl.solve(problem, rate, tolerance=1e-3, throw=False) for rate in rates]
    assert len(traced) == count
    solved, met = Status.SOLVED, [solution.status for solution in solutions]
    assert met == [solved, Status.TOLERANCE_NOT_MET, solved]
    t = np.linspace(0, 1, 50)[:, None]
    for c, solution in zip(rates[::2], solutions[::2], strict=True):
        assert relative(solution(t), 1 / (1 - c * t[:, 0])) <= solution.error_estimate <= 1e-3
    assert "stopped at t = 0.5" in solutions[1].message
    before, after = np.asarray(solutions[1]([[0.25], [0.7]]))
    assert before == pytest.approx(2.0, rel=1e-2)
    assert np.isnan(after)


@pytest.mark.parametrize("name", ["heat", "poisson_5d"])
def test_values_on_a_grid_are_those_at_its_points(name):
    problem, phi, _ = CASES[name][0]()
    solution = pdecl.solve(problem, phi, tolerance=1e-1)
    lines = [np.linspace(a, b, 4) for a, b in problem.domain.bounds]
    axis = problem.domain.names[0]
    for by in ((), (axis,)):
        values = solution.on_grid(*lines, by=by)
        assert values.shape == (4,) * len(lines)
        there = solution.d(*by)(problem.domain.mesh(4))
        np.testing.assert_allclose(values.ravel(), there, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="from 0 to 1 in the domain"):
        solution.on_grid(*(2 * line for line in lines))
    with pytest.raises(ValueError, match="values of each of"):
        solution.on_grid(*lines[1:])
