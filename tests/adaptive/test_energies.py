"""Energies, minimised to a tolerance on boxes and shapes, against exact solutions."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import pdecl
from pdecl import Box, Energy, Enforce, Fit, Problem
from pdecl.adaptive.cells.edges import edges
from pdecl.adaptive.cells.mesh import Mesh
from pdecl.adaptive.energies.cholesky import Cholesky, Indefinite, dissect
from pdecl.adaptive.energies.cuts import inside_of
from pdecl.adaptive.energies.splines import Hierarchy
from pdecl.shapes import Ball, Disk, Domain, Facets, Polygon, Rectangle


def steep(u):
    return u.d("x") ** 2 + u.d("y") ** 2


def held(domain, density, value, *more):
    """A plane problem with values on the whole boundary."""
    around = domain.boundary() if isinstance(domain, Domain) else domain.faces()
    hold = Enforce(lambda u, z, phi: u() - value(z.x, z.y), on=around)
    return Problem(domain, [Energy(density, on=domain.interior), hold, *more])


def error(solution, exact):
    domain = solution.problem.domain
    x = domain.interior.low_discrepancy(1000).draw(None, 1000).coords
    found, true = solution(x), exact(*jnp.asarray(x).T)
    both = [(found, true)] if not isinstance(found, dict) else [(found[u], true[u]) for u in found]
    return max(float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b)) for a, b in both)


def require(solution, exact):
    assert solution.status == pdecl.Status.SOLVED
    assert error(solution, exact) <= solution.error_estimate <= solution.tolerance


def test_poisson_on_a_disc():
    problem = held(Domain(Disk((0, 0), 1)), lambda u, z, k: steep(u) / 2 - 4 * k * u(), lambda x, y: 0.0)
    for k in (1.0, -2.0):
        solution = pdecl.solve(problem, k, tolerance=1e-3, progress=False)
        require(solution, lambda x, y, k=k: k * (1 - x**2 - y**2))


def test_poisson_on_a_square_with_a_hole():
    exact = lambda x, y: jnp.sin(3 * x) * jnp.cosh(2 * y) + x * y
    source = lambda z: 5 * jnp.sin(3 * z.x) * jnp.cosh(2 * z.y)
    domain = Domain(Rectangle((-1, -1), (1, 1)) - Disk((0.3, 0.2), 0.4))
    problem = held(domain, lambda u, z, phi: steep(u) / 2 - source(z) * u(), exact)
    solution = pdecl.solve(problem, tolerance=1e-2, progress=False)
    require(solution, exact)
    x = jnp.array([[-0.5, 0.5], [0.1, -0.7]])
    slope = 3 * jnp.cos(3 * x[:, 0]) * jnp.cosh(2 * x[:, 1]) + x[:, 1]
    assert np.allclose(solution.d("x")(x), slope, atol=0.3)


def test_a_flux_is_an_energy_of_a_part_of_the_boundary():
    box = Box(x=(0, 2))
    exact = lambda x: jnp.sinh(x)
    problem = Problem(
        box,
        [
            Energy(lambda u, z, phi: (u.d("x") ** 2 + u() ** 2) / 2, on=box.interior),
            Energy(lambda u, z, phi: -2.0 * jnp.cosh(2.0) * u(), on=box.face(x=2), weight=0.5),
            Fit(lambda u, z, phi: u(), on=box.face(x=0)),
        ],
    )
    require(pdecl.solve(problem, tolerance=1e-6, progress=False), exact)


def test_a_minimal_surface():
    exact = lambda x, y: jnp.log(jnp.cos(y) / jnp.cos(x))  # Scherk's
    box = Box(x=(-1, 1), y=(-1, 1))
    problem = held(box, lambda u, z, phi: jnp.sqrt(1 + steep(u)), exact)
    require(pdecl.solve(problem, tolerance=1e-3, progress=False), exact)


def test_an_energy_without_curvature_at_zero():
    # −div(|∇u|²∇u) = 2 on the disc.
    exact = lambda x, y: 0.75 * (1 - jnp.hypot(x, y) ** (4 / 3))
    domain = Domain(Disk((0, 0), 1))
    problem = held(domain, lambda u, z, phi: steep(u) ** 2 / 4 - 2 * u(), lambda x, y: 0.0)
    require(pdecl.solve(problem, tolerance=1e-2, progress=False), exact)


def test_a_clamped_plate_has_second_derivatives():
    domain = Domain(Disk((0, 0), 1))
    bent = lambda u, z, phi: (u.d("x", "x") + u.d("y", "y")) ** 2 / 2 - 64 * u()
    clamped = Enforce(lambda u, z, phi: (u(), u.dn()), on=domain.boundary())
    problem = Problem(domain, [Energy(bent, on=domain.interior), clamped])
    solution = pdecl.solve(problem, tolerance=1e-2, progress=False)
    require(solution, lambda x, y: (1 - x**2 - y**2) ** 2)


def test_two_materials():
    domain = Domain(Disk((0, 0), 1), inside={"core": Disk((0, 0), 0.5)})
    density = lambda u, z, phi: jnp.where(z.core > 0, 10.0, 1.0) * steep(u) / 2 - 4 * u()

    def exact(x, y):
        square = x**2 + y**2
        return jnp.where(square < 0.25, (0.25 - square) / 10 + 0.75, 1 - square)

    problem = held(domain, density, lambda x, y: 0.0)
    require(pdecl.solve(problem, tolerance=3e-2, progress=False), exact)


def test_a_beam_in_plane_stress():
    """Timoshenko's cantilever, its end sheared by a parabola."""
    length, height, nu, load = 4.0, 1.0, 0.3, 1e-2
    inertia = height**3 / 12

    def exact(x, y):
        bent, sheared = (6 * length - 3 * x) * x, (2 + nu) * (y**2 - height**2 / 4)
        down = 3 * nu * y**2 * (length - x) + (4 + 5 * nu) * height**2 * x / 4
        return {
            "u": load * y / (6 * inertia) * (bent + sheared),
            "v": -load / (6 * inertia) * (down + (3 * length - x) * x**2),
        }

    def stored(w, z, phi):
        a, b, g = w.u.d("x"), w.v.d("y"), w.u.d("y") + w.v.d("x")
        return (a**2 + b**2 + 2 * nu * a * b + (1 - nu) / 2 * g**2) / (2 * (1 - nu**2))

    box = Box(x=(0, length), y=(-height / 2, height / 2))
    pull = lambda w, z, phi: load / (2 * inertia) * (height**2 / 4 - z.y**2) * w.v()
    at = lambda w, z: (w.u() - exact(z.x, z.y)["u"], w.v() - exact(z.x, z.y)["v"])
    problem = Problem(
        box,
        [
            Energy(stored, on=box.interior),
            Energy(pull, on=box.face(x=length)),
            Enforce(lambda w, z, phi: at(w, z), on=box.face(x=0)),
        ],
        unknowns=("u", "v"),
    )
    require(pdecl.solve(problem, tolerance=1e-3, progress=False), exact)


def test_a_pulled_block():
    """Uniaxial stress: u = x/E, v = −ν y/E."""
    box, nu = Box(x=(0, 1), y=(0, 1), z=(0, 1)), 0.25

    def stored(w, z, phi):
        slopes = [[f.d(name) for name in "xyz"] for f in (w.u, w.v, w.w)]
        squares = sum((slopes[i][j] + slopes[j][i]) ** 2 / 4 for i, j in np.ndindex(3, 3))
        spread = slopes[0][0] + slopes[1][1] + slopes[2][2]
        return (squares + nu / (1 - 2 * nu) * spread**2) / (2 * (1 + nu))

    problem = Problem(
        box,
        [
            Energy(stored, on=box.interior),
            Energy(lambda w, z, phi: -w.u(), on=box.face(x=1)),
            Enforce(lambda w, z, phi: w.u(), on=box.face(x=0)),
            Enforce(lambda w, z, phi: w.v(), on=box.face(y=0)),
            Enforce(lambda w, z, phi: w.w(), on=box.face(z=0)),
        ],
        unknowns=("u", "v", "w"),
    )
    solution = pdecl.solve(problem, tolerance=1e-2, progress=False)
    assert solution.status == pdecl.Status.SOLVED
    assert error(solution, lambda x, y, z: {"u": x, "v": -nu * y, "w": -nu * z}) < 1e-6


def test_weights_on_parts_of_a_surface_of_triangles():
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    hull = scipy.spatial.ConvexHull(corners)
    triangles = corners[hull.simplices]
    crosses = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    turned = (crosses * hull.equations[:, :3]).sum(axis=1) < 0
    triangles[turned] = triangles[turned][:, ::-1]
    block = Facets(triangles).name("pulled", lambda x: x[:, 0] > 1 - 1e-9)
    ring = edges(block, Mesh.uniform(np.zeros(3), np.ones(3), 2), 9, {"pulled"})
    assert np.allclose(ring.normals, [1, 0, 0])
    assert np.isclose(ring.weights.sum(), 1.0)
    assert np.isclose(ring.weights @ (ring.coords[:, 1] ** 2 * ring.coords[:, 2]), 1 / 6)


@pytest.mark.parametrize(
    ("density", "words"),
    [
        (lambda u, z, phi: -steep(u) / 2, "not convex"),
        (lambda u, z, phi: steep(u) / 2 - 20 * u() ** 2, "not convex"),
        (lambda u, z, phi: u.d("x"), "does not change in some direction"),
    ],
)
def test_energies_without_a_least_value_are_said_to_have_none(density, words):
    problem = held(Domain(Disk((0, 0), 1)), density, lambda x, y: 0.0)
    solution = pdecl.solve(problem, tolerance=1e-2, progress=False, throw=False)
    assert solution.status == pdecl.Status.TOLERANCE_NOT_MET
    assert words in solution.message


def test_nothing_that_holds_u_is_seen():
    box = Box(x=(0, 1), y=(0, 1))
    free = Problem(box, [Energy(lambda u, z, phi: steep(u) / 2 - u(), on=box.interior)])
    with pytest.raises(pdecl.SolveError, match="does not change in some direction"):
        pdecl.solve(free, tolerance=1e-2, progress=False)


def test_what_is_not_taken_is_said():
    box = Box(x=(0, 1), y=(0, 1))
    stretched = Energy(lambda u, z, phi: steep(u) / 2, on=box.interior)
    solve = lambda *conditions: pdecl.solve(Problem(box, conditions), tolerance=1e-2, progress=False)
    with pytest.raises(ValueError, match="a flux or a traction g is an Energy"):
        solve(stretched, Fit(lambda u, z, phi: u.dn() - 1, on=box.face(x=0)))
    with pytest.raises(ValueError, match="holds inside"):
        solve(stretched, Fit(lambda u, z, phi: u(), on=box.interior))
    with pytest.raises(ValueError, match="no Energy inside of the domain reads a derivative of u"):
        solve(Energy(lambda u, z, phi: u() ** 2, on=box.interior))
    in_time = Domain(Disk((0, 0), 1), t=(0, 1))
    problem = Problem(in_time, [Energy(lambda u, z, phi: steep(u), on=in_time.interior)])
    with pytest.raises(ValueError, match="not minimised to a tolerance in time"):
        pdecl.solve(problem, tolerance=1e-2, progress=False)
    problem = Problem(box, [stretched])
    with pytest.raises(TypeError, match="not differentiated"):
        jax.grad(lambda k: pdecl.solve(problem, k, tolerance=1e-2)(jnp.ones((1, 2)))[0])(1.0)


# --- the parts
# --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shape", "measure"),
    [
        (Disk((0, 0), 1), np.pi),
        (Ball((0, 0, 0), 1), 4 * np.pi / 3),
        (Rectangle((-1, -1), (1, 1)) - Disk((0.3, 0.2), 0.4), 4 - 0.16 * np.pi),
        (Polygon([[0, 0], [1, 0.3], [0.7, 1.1]]), 0.445),
    ],
)
def test_weights_of_cut_cells_add_up_to_the_measure(shape, measure):
    low, high = map(np.asarray, shape.bounding_box)
    mesh = Mesh.uniform(low, high, 4)
    sides = np.broadcast_to(mesh.sides, mesh.lows.shape)
    x, weights, _ = inside_of(shape.distance, mesh.lows, sides, 4, 0.03, 1e-3, 1e-12)
    assert abs(weights.sum() / measure - 1) < 1e-6
    assert np.all(shape.distance(x) < 1e-9)


def test_splines_of_several_sizes_are_independent_and_hold_polynomials():
    mesh = Mesh.uniform(np.zeros(2), np.ones(2), 4)
    for _ in range(2):
        mesh = mesh.refined(np.hypot(*(mesh.middles - 0.3).T) < 0.25)
    functions = Hierarchy(mesh, np.ones(len(mesh), bool), 2)
    x = np.random.default_rng(0).uniform(size=(4000, 2))
    table = lambda orders: functions.values(x, functions.locate(x), orders).toarray()
    values = table((0, 0))
    assert np.linalg.matrix_rank(values) == functions.size
    c = np.linalg.lstsq(values, x[:, 0] ** 2 * x[:, 1])[0]
    assert np.allclose(values @ c, x[:, 0] ** 2 * x[:, 1])
    assert np.allclose(table((1, 0)) @ c, 2 * x[:, 0] * x[:, 1])
    halved = mesh.halved(np.ones(len(mesh), bool))
    same = Hierarchy(halved, np.ones(len(halved), bool), 2, functions.active)
    assert np.allclose(same.values(x, same.locate(x), (0, 0)).toarray(), values)


def test_nested_dissection():
    n = 24
    line = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], (n, n))
    K = scipy.sparse.csr_matrix(scipy.sparse.kronsum(line, line))
    places = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), -1).reshape(-1, 2)
    fronts = dissect(K, places, 1)
    assert len(fronts) > 1
    b = np.arange(n * n, dtype=float)
    assert np.allclose(K @ Cholesky(K, fronts).solve(b), b)
    with pytest.raises(Indefinite):
        Cholesky(K - 0.1 * scipy.sparse.eye(n * n), fronts)
