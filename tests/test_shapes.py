"""Shapes: measures, points, normals, parts of the boundary, and what is said of shapes that are none."""

import jax
import jax.numpy as jnp
import jax.random as jr
import meshio
import numpy as np
import pytest
import trimesh

import pdecl
from pdecl.shapes import (
    Ball,
    Cuboid,
    Disk,
    Domain,
    Ellipse,
    HalfSpace,
    MovingDomain,
    Polygon,
    Rectangle,
    ShapeError,
    Signed,
    Split,
    interface,
    load,
)
from pdecl.state.shapes.smooth import require_told_apart, smooth_distance, wanted_sides

UNIT = Rectangle((0, 0), (1, 1))
L = Polygon([(0, 0), (1, 0), (1, 0.5), (0.5, 0.5), (0.5, 1), (0, 1)])
BALLS = [((0.4, 0.3, 0.6), 0.2), ((0.6, 0.7, 0.6), 0.2), ((0.2, 0.8, 0.7), 0.1), ((0.6, 0.2, 0.3), 0.1)]
CUBE = Cuboid((0, 0, 0), (1, 1, 1))
for ball in BALLS:
    CUBE = CUBE - Ball(*ball)
PI = np.pi
SHAPES = {  # shape, measure, measure of the boundary, relative accuracy of the two
    "disc": (Disk((1, 2), 0.5), PI / 4, PI, 1e-13),
    "ellipse": (Ellipse((1, 0), (2, 1), angle=0.3), 2 * PI, 9.688448220547675, 1e-9),
    "L": (L, 0.75, 4.0, 1e-13),
    "step": (Rectangle((0, 0), (4, 2)) - Rectangle((0, 1), (2, 2)), 6.0, 12.0, 1e-7),
    "beside": (UNIT | Rectangle((1, 0), (2, 1)), 2.0, 6.0, 1e-7),
    "two discs": (
        Disk((0, 0), 1) | Disk((1, 0), 1), 4 * PI / 3 + np.sqrt(3) / 2, 8 * PI / 3, 1e-7,
    ),
    "half disc": (Disk((0, 0), 1) & HalfSpace((0, 0), (1, 1)), PI / 2, PI + 2, 1e-7),
    "thin": (UNIT | Rectangle((1, 0.495), (3, 0.505)), 1.02, 4 - 0.01 + 4.01, 1e-7),
    "function": (Signed(lambda x: np.hypot(*x.T) - 1.0, (-2, -2), (2, 2)), PI, 2 * PI, 1e-4),
    "cube with holes": (CUBE, 1 - 4 / 3 * PI * 0.018, 6 + 0.4 * PI, 1e-12),
    "lens": (Ball((0, 0, 0), 1) & Ball((0, 0, 1), 1), 5 * PI / 12, 2 * PI, 1e-3),
    "ball of 3": (
        Signed(lambda x: np.linalg.norm(x, axis=1) - 1, [-1.1] * 3, [1.1] * 3), 4 * PI / 3, 4 * PI, 5e-3,
    ),
    "ball of 5": (Ball([0] * 5, 1), 8 * PI**2 / 15, 8 * PI**2 / 3, 1e-12),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_weights_add_up_to_the_measure_and_normals_lead_out(name):
    shape, measure, around, accuracy = SHAPES[name]
    x, w = shape.interior(200)
    y, normal, v, labels = shape.boundary(150)
    assert w.sum() == pytest.approx(measure, rel=accuracy)
    assert v.sum() == pytest.approx(around, rel=accuracy)
    assert np.all(w > 0)
    assert np.all(v > 0)
    assert len(x) == 200
    assert np.all(shape.inside(x))
    step = 1e-4 * shape.size * normal
    assert np.all(shape.distance(y + step) > 0)
    assert np.all(shape.distance(y - step) < 0)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1.0)
    assert set(labels) == set(shape.part_names)


@pytest.mark.parametrize("seed", range(4))
def test_the_divergence_theorem_holds_on_random_shapes(seed):
    rng = np.random.default_rng(seed)
    dim = 2 + seed % 2
    shape = Cuboid([0] * dim, rng.uniform(1, 2, dim))
    for _ in range(3):
        ball = Ball(rng.uniform(0, 1.5, dim), rng.uniform(0.1, 0.5))
        shape = shape | ball if rng.uniform() < 0.5 else shape - ball
    field = lambda x: np.stack([np.sin(x[:, 0] + 2 * x[:, 1]), np.cos(x[:, 0] * x[:, 1]), x[:, 0]], 1)[
        :, :dim
    ]
    div = lambda x: np.cos(x[:, 0] + 2 * x[:, 1]) - x[:, 0] * np.sin(x[:, 0] * x[:, 1])
    x, w = shape.interior(2000)
    y, normal, v, _ = shape.boundary(2000)
    inside, through = w @ div(x), v @ np.sum(field(y) * normal, axis=1)
    assert abs(inside - through) < 2e-3 * w.sum() * (1 if dim == 2 else 5)


def test_thin_parts_are_not_left_empty():
    shape = SHAPES["thin"][0]
    x, w = shape.interior(300)
    channel = np.sort(x[x[:, 0] > 1, 0])
    assert np.diff([1, *channel, 3]).max() < 3 * np.sqrt(1.02 / 300)
    assert w[x[:, 0] > 1].sum() == pytest.approx(0.02, rel=0.2)


def test_points_are_more_even_than_random_ones():
    x, w = UNIT.interior(256)
    assert abs(w @ (x[:, 0] * x[:, 1]) - 0.25) < 1e-3
    nearest = np.sort(np.linalg.norm(x[:, None] - x, axis=2), axis=1)[:, 1]
    assert nearest.min() > 0.5 / 16


def test_parts_have_names_and_what_they_are():
    shape = UNIT - Disk((0.3, 0.3), 0.1) - Disk((0.7, 0.7), 0.2, part="pipe")
    shape = shape.name("inlet", lambda x: (x[:, 0] < 1e-9) & (x[:, 1] < 0.5))
    assert shape.part_names == ["inlet", "left", "right", "bottom", "top", "hole 1", "pipe"]
    for part, length in [
        ("inlet", 0.5),
        ("left", 0.5),
        ("outer", 3.5),
        ("pipe", 0.4 * PI),
        ("holes", 0.6 * PI),
    ]:
        assert shape.boundary(50, part)[2].sum() == pytest.approx(length, rel=1e-7)
    assert shape.boundary(50, ("top", "hole 1"))[2].sum() == pytest.approx(1 + 0.2 * PI)
    (hole,) = [part for part in shape.parts if part.name == "pipe"]
    assert (hole.kind, hole.hole, hole.size) == ("ball", True, 0.2)
    np.testing.assert_allclose(hole.centre, 0.7)


def test_corners_have_their_angles():
    places, angles = L.corners
    np.testing.assert_allclose(sorted(np.degrees(angles)), [90] * 5 + [270])
    np.testing.assert_allclose(places[np.argmax(angles)], 0.5)
    places, angles = SHAPES["two discs"][0].corners
    np.testing.assert_allclose(np.degrees(angles), 240, atol=1e-4)


@pytest.mark.parametrize("name", ["disc", "ellipse", "L", "lens"])
def test_distances_are_jax_s_where_points_are(name):
    shape = SHAPES[name][0]
    x = shape.bounding_box[0] + np.random.default_rng(0).uniform(size=(20, shape.dim)) * shape.size
    np.testing.assert_allclose(jax.jit(shape.distance)(jnp.asarray(x)), shape.distance(x), atol=1e-12)
    slope = jax.vmap(jax.grad(lambda z: shape.distance(z[None])[0]))(jnp.asarray(x))
    assert np.all(np.linalg.norm(slope, axis=1) < 1 + 1e-9)


SQUARE = UNIT - Disk((0.5, 0.5), 0.2)
TIMES = Domain(SQUARE, t=(1, 3))
AREA, AROUND = 1 - 0.04 * PI, 4 + 0.4 * PI


@pytest.mark.parametrize(
    ("region", "measure"),
    [
        (TIMES.interior, 2 * AREA),
        (TIMES.boundary(), 2 * AROUND),
        (TIMES.boundary("hole 1", "top"), 2 + 0.8 * PI),
        (TIMES.face(t=1), AREA),
        (TIMES.faces("t"), 2 * AREA),
        (TIMES.periodic("t"), AREA),
    ],
)
@pytest.mark.parametrize("key", [None, jr.key(0)])
def test_a_shape_times_an_interval_has_points_as_a_box_has(region, measure, key):
    points = region.draw(key, 80)
    again = region.draw(key, 80)
    assert float(points.weights.sum()) == pytest.approx(measure, rel=1e-9)
    assert len(points) == 80
    assert not TIMES.outside(points.coords).any()
    np.testing.assert_array_equal(points.coords, again.coords)
    if "normal" in points.data:
        ahead = points.coords + 1e-4 * points.data["normal"]
        assert TIMES.outside(ahead).all()


def test_points_can_be_drawn_inside_jit_and_seen_anew():
    region = TIMES.interior.low_discrepancy(50)
    draw = lambda key: region.draw(key, 1).coords
    np.testing.assert_array_equal(jax.jit(draw)(jr.key(3)), draw(jr.key(3)))
    problem = pdecl.Problem(TIMES, [pdecl.Fit(lambda u, z, phi: u(), on=TIMES.interior)])
    (points,), (fresh,) = problem.draw(50), problem.fresh(200)
    assert np.linalg.norm(points.coords[:, None] - fresh.coords, axis=2).min() > 1e-9


def test_laplace_in_a_ring_by_functions_that_solve_it():
    ring = Disk((0, 0), 2) - Disk((0, 0), 1)
    domain = Domain(ring)
    problem = pdecl.Problem(
        domain,
        [
            pdecl.Fit(lambda u, z, phi: u.d("x", "x") + u.d("y", "y"), on=domain.interior),
            pdecl.Fit(lambda u, z, phi: u.dn() - 0.5, on=domain.boundary("outer")),
            pdecl.Fit(lambda u, z, phi: u(), on=domain.boundary("hole 1")),
        ],
    )
    basis = lambda x, phi: jnp.stack([jnp.ones(()), 0.5 * jnp.log(x @ x), x[0] ** 2])
    solution = pdecl.solve(problem, basis)
    np.testing.assert_allclose(solution.weights, [0, 1, 0], atol=1e-8)
    with pytest.raises(ValueError, match="outside the domain"):
        solution([[0.5, 0.0]])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Ball((0, 0), -1), "radius must be positive"),
        (lambda: Ball((0, np.nan), 1), "NaN"),
        (lambda: Disk((0, 0, 0), 1), "in 3 dimensions write Ball"),
        (lambda: Disk((0, 0), "1"), "Disk: radius must be a number; found '1'"),
        (lambda: Disk((0, 0), [1, 2]), "Disk: radius must be a number"),
        (lambda: Rectangle((0, 0, 0), (1, 1, 1)), "in 3 dimensions write Cuboid"),
        (lambda: Cuboid((0, 0), (1, 0)), "empty"),
        (lambda: Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]), "intersects itself: side 1 crosses side 3"),
        (lambda: Domain(Disk((0, 0), 1) & Disk((3, 0), 1)), "empty"),
        (lambda: Domain(Disk((0, 0), 1) - Disk((0, 0), 2)), "empty"),
        (lambda: Domain(HalfSpace((0, 0), (1, 0))), "not bounded"),
        (lambda: HalfSpace((0, 0), (1, 0)).measure, "not bounded"),
        (lambda: Domain(UNIT - Disk((0.5, 0.5), 1e-7)), "units"),
        (lambda: Domain(Disk((1e9, 0), 1)), "move it to the origin"),
        (lambda: Domain(Signed(lambda x: x[:, 0], (-1, -1), (1, 1))), "open"),
        (
            lambda: Domain(UNIT).boundary("hole 1"),
            "no part 'hole 1'; the parts are left, right, bottom, top",
        ),
        (
            lambda: Domain(UNIT.name("inlet", lambda x: x[:, 0] < -1)).boundary("inlet"),
            "'inlet' holds nowhere on the boundary; the parts are left",
        ),
        (lambda: TIMES.face(x=0), "boundary is domain.boundary"),
        (lambda: TIMES.interior.grid(3).draw(None, 9), "no rows and columns"),
        (lambda: UNIT | Ball((0, 0, 0), 1), "2 and 3 dimensions"),
        (lambda: UNIT - 3, "shapes combine with shapes"),
        (lambda: Domain(UNIT.name("a", lambda x: x[0] > 0)), "must return"),
    ],
)
def test_what_is_no_shape_is_said_so(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def saved(tmp_path, name, mesh):
    mesh.export(tmp_path / name)
    return tmp_path / name


@pytest.mark.parametrize("ending", ["stl", "ply", "obj"])
def test_closed_surfaces_come_from_files(tmp_path, ending):
    box = trimesh.creation.box((2, 1, 1))
    solid = load(saved(tmp_path, f"box.{ending}", box), scale=10)
    assert solid.traced.whole
    assert solid.boundary_measure == pytest.approx(1000)
    if ending != "stl":
        return
    named = solid.name("end", lambda x: x[:, 0] > 10 - 1e-6)
    assert named.measure == pytest.approx(2000, rel=1e-12)  # a name cuts nothing
    drilled = solid - Ball((0, 0, 0), 3)
    _, w = drilled.interior(200)
    y, _, v, labels = drilled.boundary(300)
    assert w.sum() == pytest.approx(2000 - 36 * PI, rel=1e-6)
    assert v.sum() == pytest.approx(1000 + 36 * PI, rel=1e-6)
    assert set(labels) == {"outer", "hole 1"}
    assert np.all(np.abs(solid.distance(y[np.asarray(labels) == "outer"])) < 1e-9)
    exact = Cuboid((-10, -5, -5), (10, 5, 5))
    z = np.random.default_rng(0).uniform(-12, 12, (300, 3))
    np.testing.assert_allclose(solid.distance(z), exact.distance(z), atol=1e-9)
    slope = jax.vmap(jax.grad(lambda p: solid.distance(p[None])[0]))(jnp.asarray(z))
    np.testing.assert_allclose(np.linalg.norm(slope, axis=1), 1.0, atol=1e-6)


def test_what_is_wrong_with_a_surface_is_said(tmp_path):
    box = trimesh.creation.box((1, 1, 1))
    turned = trimesh.Trimesh(box.vertices, box.faces[:, ::-1], process=False)
    one = trimesh.Trimesh(box.vertices, np.vstack([box.faces[:1, ::-1], box.faces[1:]]), process=False)
    open_ = trimesh.Trimesh(box.vertices, box.faces[1:], process=False)
    for mesh, words in [(turned, "inside out"), (one, "inside out"), (open_, "open: 3 edges")]:
        path = saved(tmp_path, "wrong.stl", mesh)
        with pytest.raises(ShapeError, match=words):
            load(path)
        assert load(path, repair=True).exact == pytest.approx(1.0)
    with pytest.raises(FileNotFoundError, match="no file"):
        load(tmp_path / "none.stl")
    ball = trimesh.creation.icosphere(subdivisions=2, radius=0.3)
    hollow = trimesh.Trimesh(ball.vertices, ball.faces[:, ::-1], process=False)
    twice = trimesh.util.concatenate([box, box.copy().apply_translation((0.4, 0.3, 0.2))])
    for mesh in (twice, trimesh.util.concatenate([box, ball])):
        with pytest.raises(ShapeError, match=r"go round the point .* 2 times"):
            load(saved(tmp_path, "wrong.stl", mesh))
    path = saved(tmp_path, "right.stl", trimesh.util.concatenate([box, hollow]))
    assert load(path).exact == pytest.approx(1 - ball.volume)
    for scale in (0, -1, np.nan):
        with pytest.raises(ValueError, match="`scale` must be a positive number"):
            load(path, scale=scale)
    for name, words in [
        ("part.step", "no STL, PLY, OBJ or gmsh"),
        ("part.msh", "no mesh of gmsh"),
        ("part.ply", "part.ply: it cannot be read"),
    ]:
        (tmp_path / name).write_text("nothing")
        with pytest.raises(ValueError, match=words):
            load(tmp_path / name)


def test_meshes_of_gmsh_keep_their_groups(tmp_path):
    points = np.asarray([[0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.5]], float)
    cells = [("line", [[0, 1], [2, 3]]), ("triangle", [[0, 1, 4], [1, 2, 4], [3, 2, 4], [3, 0, 4]])]
    data = {name: [np.asarray([1, 2]), np.full(4, 3)] for name in ("gmsh:physical", "gmsh:geometrical")}
    names = {"floor": np.asarray([1, 1]), "lid": np.asarray([2, 1]), "fluid": np.asarray([3, 2])}
    mesh = meshio.Mesh(np.c_[points, np.zeros(5)], cells, cell_data=data, field_data=names)
    meshio.write(tmp_path / "square.msh", mesh, file_format="gmsh22")
    square = load(tmp_path / "square.msh", part="walls")
    assert sorted(square.part_names) == ["floor", "lid", "walls"]
    assert square.measure == pytest.approx(1.0)
    assert np.all(square.boundary(9, "lid")[0][:, 1] == 1)
    np.testing.assert_allclose(square.boundary(9, "floor")[1], [[0, -1]] * 9)
    assert square.boundary(9, "walls")[2].sum() == pytest.approx(2.0)


def test_meshes_of_second_order_are_read_by_their_corners(tmp_path):
    points = np.asarray([[0, 0], [2, 0], [0, 2], [1, 0], [1, 1], [0, 1]], float)
    mesh = meshio.Mesh(np.c_[points, np.zeros(6)], [("triangle6", [[0, 1, 2, 3, 4, 5]])])
    meshio.write(tmp_path / "one.msh", mesh, file_format="gmsh22")
    assert load(tmp_path / "one.msh").measure == pytest.approx(2.0)


def ring_solution():
    ring = Disk((0, 0), 2) - Disk((0, 0), 1)
    domain = Domain(ring, inside={"core": Disk((0, 0), 1.5)})
    laplace = lambda u, z, phi: u.d("x", "x") + u.d("y", "y") + 0 * z.core
    conditions = [
        pdecl.Fit(laplace, on=domain.interior, name="pde"),
        pdecl.Fit(lambda u, z, phi: u.dn() - 0.5, on=domain.boundary("outer")),
        pdecl.Fit(lambda u, z, phi: u(), on=domain.boundary("hole 1")),
    ]
    problem = pdecl.Problem(domain, conditions)
    basis = lambda x, phi: jnp.stack([jnp.ones(()), 0.5 * jnp.log(x @ x), x[0] ** 2])
    return pdecl.solve(problem, basis)


def test_a_solution_can_be_looked_at():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    solution = ring_solution()
    _, ax = pyplot.subplots()
    axes = solution.plot(ax)
    assert axes.shape == (1, 1)
    assert ax.collections[0].get_clip_path() is not None
    low, high = ax.collections[0].get_clim()
    assert low == pytest.approx(0, abs=0.02)
    assert high == pytest.approx(np.log(2), abs=0.02)
    assert "data:image/png" in solution._repr_html_()
    (line,) = solution.plot(at={"y": 1.5})[0, 0].lines
    assert np.nanmin(line.get_ydata()) == pytest.approx(np.log(1.5), abs=1e-3)
    ax = solution.problem.plot(pyplot.figure().add_subplot())
    assert {"outer", "hole 1"} <= {text.get_text() for text in ax.get_legend().get_texts()}
    pyplot.close("all")
    with pytest.raises(ValueError, match="no unknown 'v'"):
        solution.plot(unknown="v")
    with pytest.raises(ValueError, match="y = 9 is outside"):
        solution.plot(at={"y": 9})


def test_a_solution_goes_to_paraview_and_xarray(tmp_path):
    solution = ring_solution()
    solution.to_vtu(tmp_path / "u.vtu", cells=40)
    mesh = meshio.read(tmp_path / "u.vtu")
    radius = np.linalg.norm(mesh.points, axis=1)
    a, b, c = (mesh.points[mesh.cells_dict["triangle"][:, i], :2] for i in range(3))
    area = np.abs(np.linalg.det(np.stack([b - a, c - a], axis=1))).sum() / 2
    assert area == pytest.approx(3 * PI, rel=0.01)
    np.testing.assert_allclose(mesh.point_data["u"], np.log(radius), atol=1e-6)
    np.testing.assert_allclose(mesh.point_data["u_x"], mesh.points[:, 0] / radius**2, atol=1e-6)
    assert mesh.point_data["residual pde"].max() < 1e-6
    data = solution.to_xarray(21)
    assert np.isnan(data.u.sel(x=0, y=0, method="nearest"))
    assert float(data.u.sel(x=0, y=-2)) == pytest.approx(np.log(2))


def channel(phi):
    return Rectangle((0, 0), (2, 1)) - Disk(phi["at"], phi["r"]) - Ellipse((1.5, 0.5), (0.1, 0.2))


REFERENCE = {"at": jnp.asarray([0.5, 0.5]), "r": jnp.asarray(0.15)}


def test_phi_moves_the_boundary_and_points_follow():
    domain = MovingDomain(channel, REFERENCE)
    phi = {"at": jnp.asarray([0.6, 0.55]), "r": jnp.asarray(0.2)}
    shape = channel(phi)
    drawn = (domain.interior.draw(None, 300), domain.boundary().draw(None, 120))
    inside, around = domain.placed(drawn, phi)
    assert np.all(shape.distance(np.asarray(inside.coords)) < 0)
    assert np.max(np.abs(shape.distance(np.asarray(around.coords)))) < 1e-12
    assert float(inside.weights.sum()) == pytest.approx(shape.measure, rel=2e-3)
    assert float(around.weights.sum()) == pytest.approx(shape.boundary_measure, rel=1e-3)
    ahead = np.asarray(around.coords + 1e-4 * around.data["normal"])
    assert np.all(shape.distance(ahead) > 0)
    area = lambda phi: jnp.sum(domain.placed(drawn[:1], phi)[0].weights)
    slope = jax.grad(area)(phi)
    assert float(slope["r"]) == pytest.approx(-2 * PI * 0.2, rel=0.03)
    np.testing.assert_allclose(slope["at"], 0, atol=0.03)
    assert domain.placed((inside,), phi)[0] is inside
    with pytest.raises(ShapeError, match=r"intersect itself: '(hole 1|hole 2)'"):
        domain.placed(drawn[:1], {"at": jnp.asarray([1.4, 0.5]), "r": jnp.asarray(0.2)})


@pytest.mark.parametrize("at", [(0.3, 0.3), (0.75, 0.65), (1.0, 0.4)])
def test_points_inside_do_not_fold_where_the_boundary_moves_far(at):
    domain = MovingDomain(channel, REFERENCE)
    phi = {"at": jnp.asarray(at), "r": jnp.asarray(0.08)}
    (inside,) = domain.placed((domain.interior.draw(None, 400),), phi)
    assert np.all(channel(phi).inside(np.asarray(inside.coords)))
    assert np.all(inside.weights > 0)
    assert float(inside.weights.sum()) == pytest.approx(channel(phi).measure, rel=1e-2)


def test_a_solution_is_differentiated_with_respect_to_its_shape():
    ring = lambda phi: Disk((0, 0), 2) - Disk((0, 0), phi)
    domain = MovingDomain(ring, jnp.asarray(1.0))
    laplace = lambda u, z, phi: u.d("x", "x") + u.d("y", "y")
    problem = pdecl.Problem(
        domain,
        [
            pdecl.Fit(laplace, on=domain.interior),
            pdecl.Fit(lambda u, z, phi: u() - 1, on=domain.boundary("outer")),
            pdecl.Fit(lambda u, z, phi: u(), on=domain.boundary("hole 1")),
        ],
    )
    basis = lambda x, phi: jnp.stack([jnp.ones(()), 0.5 * jnp.log(x @ x), x[0] ** 2])
    solve = lambda r: pdecl.solve(problem, basis, r, throw=False).weights[1]
    value, slope = jax.jit(jax.value_and_grad(solve))(jnp.asarray(0.8))
    assert float(value) == pytest.approx(1 / np.log(2.5), rel=1e-6)
    assert float(slope) == pytest.approx(1 / (0.8 * np.log(2.5) ** 2), rel=1e-6)


def test_between_materials_values_and_fluxes_agree():
    core = Disk((0, 0), 1.0)
    domain = Domain(Disk((0, 0), 2) - Disk((0, 0), 0.5), inside={"core": core})
    a = lambda z: jnp.where(z.core > 0, 10.0, 1.0)
    heat = lambda u, z, phi: a(z) * (u.d("x", "x") + u.d("y", "y"))
    conditions = [
        pdecl.Fit(heat, on=domain.interior),
        pdecl.Fit(lambda u, z, phi: u() - 1, on=domain.boundary("outer")),
        pdecl.Fit(lambda u, z, phi: u(), on=domain.boundary("hole 1")),
        *interface(domain, "core", within=10.0, beyond=1.0),
    ]
    basis = lambda x, phi: jnp.stack([jnp.ones(()), 0.5 * jnp.log(x @ x), x[0] ** 2])
    u = pdecl.solve(pdecl.Problem(domain, conditions), Split(basis, core))
    # u = c log(r / 0.5) within and 1 + 10 c log(r / 2) beyond, so c (1 + 10) log 2 = 1.
    c = 1 / (11 * np.log(2))
    np.testing.assert_allclose(
        u([[0.75, 0.0], [0.0, 1.5]]), [c * np.log(1.5), 1 + 10 * c * np.log(0.75)], rtol=1e-6
    )
    with pytest.raises(ValueError, match="no shape 'shell' inside; there are: core"):
        domain.interface("shell")


@pytest.mark.parametrize(
    ("shape", "parts"),
    [
        (UNIT - Disk((0.3, 0.3), 0.1) - Ellipse((0.7, 0.7), (0.1, 0.2), 0.3), ("outer", "hole 1")),
        (UNIT - Disk((0.3, 0.3), 0.1), ("left", "top")),
        (L, ("side 3", "side 4")),
        (Rectangle((0, 0), (4, 2)) - Rectangle((0, 1), (2, 2)), ("outer", "holes")),
        (Disk((0, 0), 1) | Disk((1, 0), 1), ("outer 1", "outer 2")),
    ],
)
def test_a_smooth_distance_is_zero_on_its_parts_and_falls_with_slope_one(shape, parts):
    require_told_apart(shape, parts)
    one = smooth_distance(shape, wanted_sides(shape, parts))
    x, normals, *_ = shape.boundary(40, parts)
    np.testing.assert_allclose(one(x), 0, atol=1e-12)
    step = 1e-6 * normals
    slope = (np.asarray(one(x - 2 * step)) - np.asarray(one(x - step))) / 1e-6
    np.testing.assert_allclose(slope, 1, rtol=1e-3)
    assert np.all(np.asarray(one(shape.interior(100)[0])) > 0)


def test_boundary_values_can_hold_exactly():
    domain = Domain(UNIT - Disk((0.5, 0.5), 0.2))
    laplace = pdecl.Fit(lambda u, z, phi: u.d("x", "x") + u.d("y", "y") + phi, on=domain.interior)
    outer = lambda z, phi: phi * z.x
    given = [(domain.boundary("outer"), outer), (domain.boundary("hole 1"), 0.5)]
    rows = [
        pdecl.Fit(lambda u, z, phi: u() - outer(z, phi), on=given[0][0]),
        pdecl.Fit(lambda u, z, phi: u() - 0.5, on=given[1][0]),
    ]
    powers = jnp.array([(i, j) for i in range(9) for j in range(9 - i)])
    plain = lambda x, phi: jnp.prod((2 * x - 1) ** powers, axis=1)
    basis = pdecl.nn.ExactBoundary(plain, *given)
    solution = pdecl.solve(pdecl.Problem(domain, [laplace]), basis, 1.0, throw=False)
    for on, value in (("outer", None), ("hole 1", 0.5)):
        x = domain.shape.boundary(30, on)[0]
        wanted = x[:, 0] if value is None else value
        np.testing.assert_allclose(solution(x), wanted, atol=1e-10)
    fine = pdecl.solve(pdecl.Problem(domain, [laplace, *rows]), 1.0, tolerance=1e-3)
    x = domain.shape.interior(200)[0]
    assert np.linalg.norm(solution(x) - fine(x)) < 0.1 * np.linalg.norm(fine(x))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda d: (d.interior, 0.0), TypeError, "a part of a shape's boundary"),
        (lambda d: (d.boundary("half"), 0.0), ShapeError, "none of these parts is a primitive's"),
        (lambda d: (d.boundary("left"), 0.0), ShapeError, "none of these parts is a primitive's"),
        (lambda d: (d.boundary("right"), lambda z: 0.0), TypeError, "z, phi"),
    ],
)
def test_what_cannot_hold_exactly_is_said(make, error, words):
    domain = Domain(UNIT.name("half", lambda x: (x[:, 0] < 1e-9) & (x[:, 1] < 0.5)))
    with pytest.raises(error, match=words):
        pdecl.nn.ExactBoundary(lambda x, phi: x, make(domain))


def test_a_surface_where_u_has_a_value_is_drawn():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    domain = Domain(Ball((0, 0, 0), 1.0))
    square = lambda z: z.x**2 + z.y**2 + z.z**2
    on = domain.interior.low_discrepancy(100)
    problem = pdecl.Problem(domain, [pdecl.Fit(lambda u, z, phi: u() - square(z), on=on)])
    solution = pdecl.solve(problem, lambda x, phi: jnp.append(x**2, 1.0))
    ((ax,),) = solution.plot(level=0.25)
    corners = np.asarray(ax.collections[0]._faces).reshape(-1, 3)
    np.testing.assert_allclose(np.linalg.norm(corners, axis=1), 0.5, atol=0.01)
    with pytest.raises(ValueError, match="u is 4 nowhere; it is from"):
        solution.plot(level=4)
    with pytest.raises(ValueError, match="three coordinates; free are x, y"):
        solution.plot(level=0.25, at={"z": 0.0})
    with pytest.raises(ValueError, match='projection="3d"'):
        solution.plot(pyplot.figure().add_subplot(), level=0.25)
    pyplot.close("all")
