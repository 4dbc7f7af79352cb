"""Known solutions, recovered with fixed bases. Each also gives zero when put into the conditions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from spectral import chebyshev, only

import pdecl
from pdecl.layer.system import build


def recovers(problem, basis, exact, phi=None, tolerance=1e-6, at=None, key=None):
    """Checks both: the solver finds `exact(x, phi)`, and `exact` itself leaves no residual."""
    solution = pdecl.solve(problem, basis, phi, key=key)
    mesh = problem.domain.mesh(13 if len(problem.domain.names) < 3 else 3) if at is None else at
    expected = jax.vmap(exact, (0, None))(mesh, phi)
    found = solution(mesh)
    for name in problem.unknowns:
        u, v = (found[name], expected[name]) if len(problem.unknowns) > 1 else (found, expected)
        np.testing.assert_allclose(u, v, atol=tolerance * np.abs(v).max(), rtol=0, err_msg=name)
    for name, residual in residual_of(problem, exact, phi, solution.points).items():
        assert residual < 1e-11, f"the exact solution leaves {residual} in {name}"
    return solution


@eqx.filter_jit
def residual_of(problem, exact, phi, points):
    system = build(problem, only(exact), phi, points)
    found = system.residuals(jnp.ones(system.plan.size))
    return {
        name: found[name]
        for c, name in zip(problem.conditions, problem.names(), strict=True)
        if c.kind != "Energy"
    }


def fits(box, *conditions, **kwargs):
    """A problem of least squares conditions, given as (equation, on, weight)."""
    return pdecl.Problem(box, [pdecl.Fit(f, on=on, weight=w) for f, on, w in conditions], **kwargs)


SQUARE = pdecl.Box(x=(0, 1), y=(-1, 1))
TUBE = pdecl.Box(x=(0, 1), t=(0, 0.8))


def test_poisson():
    exact = lambda x, phi: jnp.sin(x[0] + 2 * x[1])
    u_of = lambda z: jnp.sin(z.x + 2 * z.y)
    problem = fits(
        SQUARE,
        (lambda u, z, phi: u.d("x", "x") + u.d("y", "y") + 5 * u_of(z), SQUARE.interior.grid(13), 1),
        (lambda u, z, phi: u() - u_of(z), SQUARE.faces().gauss(12), 1e3),
    )
    recovers(problem, chebyshev(SQUARE, 12, total=12), exact)


def test_heat():
    exact = lambda x, k: jnp.exp(-(jnp.pi**2) * k * x[1]) * jnp.sin(jnp.pi * x[0])
    problem = fits(
        TUBE,
        (lambda u, z, k: u.d("t") - k * u.d("x", "x"), TUBE.interior.low_discrepancy(200), 1),
        (lambda u, z, k: u() - jnp.sin(jnp.pi * z.x), TUBE.face(t=0).gauss(14), 1e2),
        (lambda u, z, k: u(), TUBE.faces("x").gauss(12), 1e2),
    )
    recovers(problem, chebyshev(TUBE, 11, 8, total=13), exact, 0.2)


def test_wave():
    exact = lambda x, c: jnp.sin(2 * x[0]) * jnp.cos(2 * c * x[1])
    problem = fits(
        TUBE,
        (lambda u, z, c: u.d("t", "t") - c**2 * u.d("x", "x"), TUBE.interior.grid(13), 1),
        (lambda u, z, c: (u() - jnp.sin(2 * z.x), u.d("t")), TUBE.face(t=0).gauss(12), 1e2),
        (lambda u, z, c: u() - jnp.sin(2 * z.x) * jnp.cos(2 * c * z.t), TUBE.faces("x").gauss(12), 1e2),
    )
    recovers(problem, chebyshev(TUBE, 10, total=11), exact, 1.5)


def test_helmholtz_with_a_variable_coefficient():
    exact = lambda x, phi: jnp.cos(3 * x[0]) * jnp.exp(x[1] / 2)
    u_of = lambda z: jnp.cos(3 * z.x) * jnp.exp(z.y / 2)
    k = lambda z, phi: phi * (1 + z.x * z.y)
    equation = lambda u, z, phi: (
        u.d("x", "x") + u.d("y", "y") + k(z, phi) ** 2 * u() - (k(z, phi) ** 2 - 9 + 0.25) * u_of(z)
    )
    problem = fits(
        SQUARE,
        (equation, SQUARE.interior.grid(13), 1),
        (lambda u, z, phi: u() - u_of(z), SQUARE.faces().gauss(12), 1e3),
    )
    recovers(problem, chebyshev(SQUARE, 11, total=12), exact, 4.0)


def test_biharmonic():
    exact = lambda x, phi: jnp.sin(x[0] + 2 * x[1])
    phase = lambda z: z.x + 2 * z.y
    equation = lambda u, z, phi: (
        u.d("x", "x", "x", "x")
        + 2 * u.d("x", "x", "y", "y")
        + u.d("y", "y", "y", "y")
        - 25 * jnp.sin(phase(z))
    )
    clamped = lambda u, z, phi: (
        u() - jnp.sin(phase(z)),
        u.dn() - (z.normal[0] + 2 * z.normal[1]) * jnp.cos(phase(z)),
    )
    problem = fits(
        SQUARE, (equation, SQUARE.interior.grid(13), 1), (clamped, SQUARE.faces().gauss(12), 1e5)
    )
    recovers(problem, chebyshev(SQUARE, 12, total=12), exact)


def test_stokes():
    """−Δ(u, v) + ∇p = f, div (u, v) = 0, with a velocity that is the curl of sin x sin y."""
    box = pdecl.Box(x=(0, 1), y=(0, 1))
    u_of, v_of = lambda x, y: jnp.sin(x) * jnp.cos(y), lambda x, y: -jnp.cos(x) * jnp.sin(y)

    def exact(x, phi):
        return {"u": u_of(*x), "v": v_of(*x), "p": x[0] * x[1] ** 2}

    def momentum_and_mass(w, z, phi):
        laplacian = lambda u: u.d("x", "x") + u.d("y", "y")
        return (
            -laplacian(w.u) + w.p.d("x") - (2 * u_of(z.x, z.y) + z.y**2),
            -laplacian(w.v) + w.p.d("y") - (2 * v_of(z.x, z.y) + 2 * z.x * z.y),
            w.u.d("x") + w.v.d("y"),
        )

    problem = fits(
        box,
        (momentum_and_mass, box.interior.grid(11), 1),
        (lambda w, z, phi: (w.u() - u_of(z.x, z.y), w.v() - v_of(z.x, z.y)), box.faces().gauss(9), 1e2),
        (lambda w, z, phi: w.p(), pdecl.Points([[0.0, 0.0]]), 1),
        unknowns=("u", "v", "p"),
    )
    velocity, pressure = chebyshev(box, 8, total=8), chebyshev(box, 4, total=5)
    basis = lambda x, phi: {"u": velocity(x, phi), "v": velocity(x, phi), "p": pressure(x, phi)}
    recovers(problem, basis, exact)


def test_nonlinear_poisson():
    """Δu = u³ + f."""
    exact = lambda x, phi: phi * jnp.cos(x[0]) * jnp.sin(x[1])
    u_of = lambda z, phi: phi * jnp.cos(z.x) * jnp.sin(z.y)
    equation = lambda u, z, phi: (
        u.d("x", "x") + u.d("y", "y") - u() ** 3 + 2 * u_of(z, phi) + u_of(z, phi) ** 3
    )
    problem = fits(
        SQUARE,
        (equation, SQUARE.interior.grid(11), 1),
        (lambda u, z, phi: u() - u_of(z, phi), SQUARE.faces().gauss(9), 1e3),
    )
    solution = recovers(problem, chebyshev(SQUARE, 9, total=9), exact, 2.0)
    assert 0 < solution.iterations < 15


def test_burgers():
    """The travelling front u = ½ − ½ tanh((x − t/2)/(4ν))."""
    front = lambda x, t, nu: 0.5 - 0.5 * jnp.tanh((x - 0.5 * t) / (4 * nu))
    equation = lambda u, z, nu: u.d("t") + u() * u.d("x") - nu * u.d("x", "x")
    value = lambda u, z, nu: u() - front(z.x, z.t, nu)
    problem = fits(
        TUBE,
        (equation, TUBE.interior.grid(13), 1),
        (value, TUBE.face(t=0).gauss(14), 1e2),
        (value, TUBE.faces("x").gauss(12), 1e2),
    )
    solution = recovers(problem, chebyshev(TUBE, 11, total=12), lambda x, nu: front(*x, nu), 0.2)
    assert 0 < solution.iterations < 15


def test_four_dimensions():
    """u_t = (u_xx + u_yy + u_zz)/3 with u = e^{−t} sin(x + y + z), in products of sines and cosines."""
    box = pdecl.Box(x=(0, 1), y=(0, 1), z=(0, 1), t=(0, 1))
    exact = lambda x, phi: jnp.exp(-x[3]) * jnp.sin(x[0] + x[1] + x[2])

    def basis(x, phi):
        out = jnp.stack([jnp.ones(()), x[3], jnp.exp(-x[3])])
        for i in range(3):
            out = jnp.concatenate([out * jnp.sin(x[i]), out * jnp.cos(x[i])])
        return out

    heat = lambda u, z, phi: u.d("t") - (u.d("x", "x") + u.d("y", "y") + u.d("z", "z")) / 3
    problem = fits(
        box,
        (heat, box.interior.low_discrepancy(150), 1),
        (lambda u, z, phi: u() - jnp.sin(z.x + z.y + z.z), box.face(t=0).low_discrepancy(60), 1),
        (
            lambda u, z, phi: u() - jnp.exp(-z.t) * jnp.sin(z.x + z.y + z.z),
            box.faces("x", "y", "z").low_discrepancy(90),
            1,
        ),
    )
    recovers(problem, basis, exact)


def test_six_dimensions():
    """Δu + u_ab − u = f for a cubic polynomial in six coordinates, from uniform points."""
    box = pdecl.Box(a=(-1, 1), b=(-1, 1), c=(-1, 1), d=(-1, 1), e=(-1, 1), f=(-1, 1))
    exact = lambda x, phi: x[0] * x[1] * x[2] + phi * jnp.sum(x**2) + x[4] * x[5]
    here = lambda z: jnp.stack([z.a, z.b, z.c, z.d, z.e, z.f])
    equation = lambda u, z, phi: (
        sum(u.d(name, name) for name in "abcdef")
        + u.d("a", "b")
        - u()
        - (12 * phi + z.c - exact(here(z), phi))
    )
    problem = fits(
        box,
        (equation, box.interior.uniform(200), 1),
        (lambda u, z, phi: u() - exact(here(z), phi), box.faces().uniform(120), 1),
    )
    recovers(problem, chebyshev(box, 3, total=3), exact, 0.7, key=jax.random.key(0))


def disc(count):
    """Points inside the unit disc and on its edge, with normals."""
    n = np.arange(count) + 0.5
    radius, angle = np.sqrt(n / count), np.pi * (1 + np.sqrt(5)) * n
    around = 2 * np.pi * np.arange(48) / 48
    edge = np.stack([np.cos(around), np.sin(around)], axis=1)
    inside = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return inside, edge, edge


def corner(count):
    """Points inside an L, [−1, 1]² without its quarter x, y > 0, and on its six edges, with normals."""
    side = int(np.sqrt(count * 4 / 3))
    s = (np.arange(side) + 0.5) / side * 2 - 1
    grid = np.stack(np.meshgrid(s, s), axis=-1).reshape(-1, 2)
    inside = grid[~np.all(grid > 0, axis=1)]
    t = (np.arange(12) + 0.5) / 12
    legs = [((-1, -1), (2, 0)), ((1, -1), (0, 1)), ((1, 0), (-1, 0)),
            ((0, 0), (0, 1)), ((0, 1), (-1, 0)), ((-1, 1), (0, -2))]  # fmt: skip
    edge = np.concatenate([np.add(start, t[:, None] * np.asarray(leg)) for start, leg in legs])
    outward = [np.array([dy, -dx]) / np.hypot(dx, dy) for _, (dx, dy) in legs]
    return inside, edge, np.repeat(outward, 12, axis=0)


@pytest.mark.parametrize("shape", [disc, corner])
def test_neumann_conditions_on_an_irregular_domain(shape):
    """−Δu + u = f with the flux given all around: u = e^{x/2} sin y."""
    box = pdecl.Box(x=(-1, 1), y=(-1, 1))
    inside, edge, normal = shape(160)
    u_of = lambda z: jnp.exp(z.x / 2) * jnp.sin(z.y)
    flux = lambda z: z.normal[0] * u_of(z) / 2 + z.normal[1] * jnp.exp(z.x / 2) * jnp.cos(z.y)
    problem = fits(
        box,
        (
            lambda u, z, phi: u() - u.d("x", "x") - u.d("y", "y") - 1.75 * u_of(z),
            pdecl.Points(inside),
            1,
        ),
        (lambda u, z, phi: u.dn() - flux(z), pdecl.Points(edge, normal=normal), 10),
    )
    exact = lambda x, phi: jnp.exp(x[0] / 2) * jnp.sin(x[1])
    recovers(problem, chebyshev(box, 9, total=10), exact, at=jnp.asarray(inside))


def test_galerkin_with_a_jumping_coefficient():
    """∫ ½ν|∇u|² − fu with ν = 1 left of x = ½ and φ right of it.

    u = (s + s³)/ν · sin πy with s = x − ½ has a kink where ν jumps, and a continuous flux.
    """
    box = pdecl.Box(x=(0, 1), y=(0, 1))
    nu = lambda x, phi: jnp.where(x < 0.5, 1.0, phi)
    scaled = lambda x, y: ((x - 0.5) + (x - 0.5) ** 3) * jnp.sin(jnp.pi * y)
    exact = lambda x, phi: scaled(x[0], x[1]) / nu(x[0], phi)

    def density(u, z, phi):
        f = jnp.pi**2 * scaled(z.x, z.y) - 6 * (z.x - 0.5) * jnp.sin(jnp.pi * z.y)
        return 0.5 * nu(z.x, phi) * (u.d("x") ** 2 + u.d("y") ** 2) - f * u()

    problem = pdecl.Problem(
        box,
        [
            pdecl.Energy(density, on=box.interior.gauss(8, cells=2), name="energy"),
            pdecl.Enforce(
                lambda u, z, phi: u() - scaled(z.x, z.y) / nu(z.x, phi), on=box.faces("x").gauss(2)
            ),
        ],
    )

    def basis(x, phi):
        smooth = (x[0] - 0.5) ** jnp.arange(5)
        across = jnp.concatenate([smooth, jnp.abs(x[0] - 0.5) * smooth])
        along = jnp.stack([jnp.sin(jnp.pi * x[1]), jnp.sin(2 * jnp.pi * x[1])])
        return jnp.outer(across, along).ravel()

    solution = recovers(problem, basis, exact, 7.0)
    least = pdecl.solve(problem, only(exact), 7.0).residual["energy"]
    assert solution.residual["energy"] == pytest.approx(float(least), rel=1e-9)
