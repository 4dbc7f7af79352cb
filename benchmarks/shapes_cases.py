"""The problems of `shapes.py`, as `pdecl.solve(problem, tolerance=...)` takes them, and finite elements
for each."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gmsh
import jax.numpy as jnp
import numpy as np
import skfem
import trimesh
from shapes_elements import (
    Elements,
    curved,
    dirichlet,
    elastic,
    mesh_of,
    neumann,
    part_of,
    robin_in_time,
    steady_flow,
    surface,
    tetrahedra,
)

from pdecl import Energy, Enforce, Fit, Problem
from pdecl.shapes import Ball, Cuboid, Disk, Domain, Polygon, Rectangle, Shape, load

Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """- `elements`: those about h wide, from `first` on.
    - `exact`: the solution, if it is known; else a solve to `fine` is the truth; None: nothing finer
      can be afforded, and elements are what it is compared with.
    - `published`: the best of the eleven methods of PINNacle."""

    title: str
    problem: Callable[[], Problem]
    tolerances: tuple[float, ...]
    elements: Callable[[float], Elements] | None = None
    first: float = 0.2
    exact: Callable[[np.ndarray], Values] | None = None
    fine: float | None = 1e-7
    published: str = "–"


def laplacian(u: Any, *names: str) -> Any:
    return sum(u.d(name, name) for name in names)


# --- Laplace and Poisson in the plane
# --------------------------------------------------------------------------------------------
def perforated(half: tuple[float, float], holes: list[tuple[float, float, float]]) -> Shape:
    shape: Shape = Rectangle([-half[0], -half[1]], half)
    for x, y, r in holes:
        shape = shape - Disk([x, y], r)
    return shape


FOUR = perforated((0.5, 0.5), [(a, b, 0.1) for a in (-0.3, 0.3) for b in (-0.3, 0.3)])
UNEVEN = perforated((1.0, 1.0), [(0.5, 0.5, 0.2), (0.4, -0.4, 0.4), (-0.2, -0.7, 0.1), (-0.6, 0.5, 0.3)])
CORNER = Polygon([[0, 0], [1, 0], [1, 1], [-1, 1], [-1, -1], [0, -1]])


def waves(x: Any, y: Any, np: Any) -> Any:
    return 10 * (17 + x**2 + y**2) * np.sin(np.pi * x) * np.sin(4 * np.pi * y)


def given_on_parts(
    shape: Shape, reaction: float, source: Callable[..., Any], values: dict[str, float]
) -> Problem:
    domain = Domain(shape)
    equation = lambda u, z, phi: -laplacian(u, "x", "y") + reaction * u() - source(z.x, z.y, jnp)
    given = lambda value: lambda u, z, phi: u() - value
    boundary = [Fit(given(value), on=domain.boundary(part)) for part, value in values.items()]
    return Problem(domain, [Fit(equation, on=domain.interior), *boundary])


def given_elements(
    shape: Shape, reaction: float, source: Callable[..., Any], values: dict[str, float], h: float
) -> Elements:
    basis = curved(shape, mesh_of(shape, h))
    edge = basis.get_dofs().flatten()
    which = part_of(shape, basis.doflocs[:, edge].T, tuple(values))
    given = np.array(list(values.values()))[which]
    return dirichlet(basis, reaction, lambda x: source(x[0], x[1], np), edge, given)


def of_parts(shape: Shape, reaction: float, source: Callable[..., Any], **values: float) -> dict:
    return {
        "problem": lambda: given_on_parts(shape, reaction, source, values),
        "elements": lambda h: given_elements(shape, reaction, source, values, h),
    }


def corner(x: Any, y: Any, np: Any) -> Any:
    angle = np.arctan2(y, x)
    return np.hypot(x, y) ** (2 / 3) * np.sin(2 / 3 * np.where(angle < -1e-9, angle + 2 * np.pi, angle))


def cornered() -> Problem:
    domain = Domain(CORNER)
    conditions = [
        Fit(lambda u, z, phi: laplacian(u, "x", "y"), on=domain.interior),
        Fit(lambda u, z, phi: u() - corner(z.x, z.y, jnp), on=domain.boundary()),
    ]
    return Problem(domain, conditions)


def graded(h: float) -> Elements:
    """Triangles that are smaller near the corner."""
    mesh = skfem.MeshTri.init_lshaped().refined(2)
    mesh = skfem.MeshTri(np.stack([mesh.p[0], -mesh.p[1]]), mesh.t)
    while (size := np.sqrt(np.abs(mesh.mapping().detA))).size:
        far = np.linalg.norm(mesh.p[:, mesh.t].mean(axis=1), axis=0)
        marks = np.flatnonzero(size > h * np.maximum(far, h**3) ** (2 / 3))
        if not len(marks):
            break
        mesh = mesh.refined(marks)
    basis = skfem.Basis(mesh, skfem.ElementTriP2())
    edge = basis.get_dofs().flatten()
    return dirichlet(basis, 0.0, lambda x: 0 * x[0], edge, corner(*basis.doflocs[:, edge], np))


# --- in time
# --------------------------------------------------------------------------------------------
LARGE = [(x, y) for x in (-4, 4) for y in (-9, -3, 3, 9)] + [(0, 0), (0, -6), (0, 6)]
SMALL = [(x, y) for x in (-3.2, 3.2) for y in (-6, 0, 6)]
OUTER = {"large": 5.0, "small": 1.0, "outer": 0.1}


@cache
def exchanger() -> Shape:
    shape: Shape = Rectangle([-8, -12], [8, 12])
    for part, radius, centres in [("large", 1.0, LARGE), ("small", 0.4, SMALL)]:
        for centre in centres:
            shape = shape - Disk(centre, radius, part=part)
    return shape


def heated() -> Problem:
    domain = Domain(exchanger(), t=(0, 3))
    exchange = lambda value: lambda u, z, phi: u.dn() + u() - value
    return Problem(
        domain,
        [
            Fit(lambda u, z, phi: u.d("t") - laplacian(u, "x", "y"), on=domain.interior),
            Fit(lambda u, z, phi: u(), on=domain.face(t=0)),
            *(Fit(exchange(value), on=domain.boundary(part)) for part, value in OUTER.items()),
        ],
    )


def heated_elements(h: float) -> Elements:
    shape = exchanger()
    return robin_in_time(shape, curved(shape, mesh_of(shape, h)), OUTER, 3.0, round(3 / h))


FIVE = ("a", "b", "c", "d", "e")


def ball_of_five() -> Problem:
    domain = Domain(Ball([0] * 5, 1.0), names=FIVE, t=(0, 1))
    square = lambda z: sum(getattr(z, name) ** 2 for name in FIVE)
    exact = lambda z: jnp.exp(square(z) / 2 + z.t)
    heat = lambda u, z, phi: u.d("t") - laplacian(u, *FIVE) / 5 + square(z) * exact(z) / 5
    return Problem(
        domain,
        [
            Fit(heat, on=domain.interior),
            Fit(lambda u, z, phi: u() - exact(z), on=domain.face(t=0)),
            Fit(lambda u, z, phi: u.dn() - exact(z), on=domain.boundary()),
        ],
    )


# --- flow over a backward step
# --------------------------------------------------------------------------------------------
def step() -> Problem:
    """With v = 0 at the outlet, as in the published data: p = 0 alone, as stated, is one condition too
    few, and any v there goes with it."""
    shape = Rectangle([0, 0], [4, 2]) - Rectangle([0, 1], [2, 2])
    shape = shape.name("inlet", lambda x: x[:, 0] < 1e-9).name("outlet", lambda x: x[:, 0] > 4 - 1e-9)
    domain, nu = Domain(shape), 0.01
    walls = [part for part in shape.part_names if part not in ("inlet", "outlet")]
    moved = lambda w, q: w.u() * q.d("x") + w.v() * q.d("y") - nu * laplacian(q, "x", "y")
    flow = lambda w, z, phi: (
        moved(w, w.u) + w.p.d("x"),
        moved(w, w.v) + w.p.d("y"),
        w.u.d("x") + w.v.d("y"),
    )
    return Problem(
        domain,
        [
            Fit(flow, on=domain.interior),
            Fit(lambda w, z, phi: (w.u() - 4 * z.y * (1 - z.y), w.v()), on=domain.boundary("inlet")),
            Fit(lambda w, z, phi: (w.u(), w.v()), on=domain.boundary(*walls)),
            Fit(lambda w, z, phi: (w.p(), w.v()), on=domain.boundary("outlet")),
        ],
        unknowns=("u", "v", "p"),
    )


def step_elements(h: float) -> Elements:
    """Triangles of squares, smaller near the corner."""
    n = round(1 / h)
    mesh = skfem.MeshTri.init_tensor(np.linspace(0, 4, 4 * n + 1), np.linspace(0, 2, 2 * n + 1))
    middle = mesh.p[:, mesh.t].mean(axis=1)
    mesh = mesh.remove_elements(np.flatnonzero((middle[0] < 2) & (middle[1] > 1)))
    for width in (0.5, 0.25, 0.12, 0.06):
        middle = mesh.p[:, mesh.t].mean(axis=1)
        mesh = mesh.refined(np.flatnonzero(np.hypot(middle[0] - 2, middle[1] - 1) < width))
    ends = {"inlet": lambda x: x[0] < 1e-9, "outlet": lambda x: x[0] > 4 - 1e-9}
    return steady_flow(mesh.with_boundaries(ends), 0.01, lambda y: 4 * y * (1 - y))


# --- in space
# --------------------------------------------------------------------------------------------
BALLS = [((0.4, 0.3, 0.6), 0.2), ((0.6, 0.7, 0.6), 0.2), ((0.2, 0.8, 0.7), 0.1), ((0.6, 0.2, 0.3), 0.1)]


@cache
def cube() -> Shape:
    shape: Shape = Cuboid([0, 0, 0], [1, 1, 1])
    for centre, radius in BALLS:
        shape = shape - Ball(centre, radius)
    return shape


def loud(x: Any, y: Any, z: Any, np: Any) -> Any:
    square = x**2 + y**2 + z**2
    waves = [np.sin(np.pi * x), np.sin(10 * np.pi * y), np.sin(5 * np.pi * z)]
    return 20 * np.exp(sum(waves)) * (square - 1) / (square + 1) + 100 * waves[0] * waves[1] * waves[2]


def screening(z: Any, np: Any) -> Any:
    return np.where(z < 0.5, 64.0, 100.0)


def insulated() -> Problem:
    domain = Domain(cube())
    equation = lambda u, z, phi: (
        -laplacian(u, "x", "y", "z") + screening(z.z, jnp) * u() - loud(z.x, z.y, z.z, jnp)
    )
    boundary = Fit(lambda u, z, phi: u.dn(), on=domain.boundary())
    return Problem(domain, [Fit(equation, on=domain.interior), boundary])


def insulated_elements(h: float) -> Elements:

    def build() -> None:
        model = gmsh.model.occ
        balls = [(3, model.addSphere(*centre, radius)) for centre, radius in BALLS]
        model.cut([(3, model.addBox(0, 0, 0, 1, 1, 1))], balls)
        model.synchronize()

    mesh = tetrahedra(build, h, order=2)
    return neumann(mesh, lambda x: screening(x[2], np), lambda x: loud(x[0], x[1], x[2], np))


LAME = (0.3 / (1.3 * 0.4), 1 / 2.6)  # of Young's modulus 1 and Poisson's ratio 0.3
DEEP = 0.5


def angle(file: Path) -> None:
    """An STL file of an angle with a hole."""
    profile = Polygon([[0, 0], [2, 0], [2, 0.5], [0.5, 0.5], [0.5, 2], [0, 2]]) - Disk(
        [0.25, 0.25], 0.12
    )
    flat = mesh_of(profile, 0.1)
    edges = flat.facets[:, flat.boundary_facets()].T
    cells = flat.t.T[flat.f2t[0, flat.boundary_facets()]]
    a, b, c = flat.p.T[edges[:, 0]], flat.p.T[edges[:, 1]], flat.p.T[cells].mean(axis=1)
    turned = np.linalg.det(np.stack([b - a, c - a], axis=1)) < 0
    edges[turned] = edges[turned][:, ::-1]
    n, (i, j) = flat.p.shape[1], edges.T
    lids = np.where(flat.orientation()[:, None] > 0, flat.t.T, flat.t.T[:, ::-1])
    faces = np.r_[lids[:, ::-1], lids + n, np.c_[i, j, j + n], np.c_[i, j + n, i + n]]
    points = np.r_[np.c_[flat.p.T, np.zeros(n)], np.c_[flat.p.T, np.full(n, DEEP)]]
    trimesh.Trimesh(points, faces, process=False).export(file)


def of_angle(use: Callable[[Path], Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        angle(Path(folder) / "bracket.stl")
        return use(Path(folder) / "bracket.stl")


@cache
def bracket() -> Shape:
    solid = of_angle(load).name("wall", lambda x: x[:, 1] > 2 - 1e-6)
    return solid.name("end", lambda x: x[:, 0] > 2 - 1e-6)


def stressed() -> Problem:
    """Held at the wall, pulled down and aside at the end: the energy that is stored, less what the pull
    does."""
    domain = Domain(bracket())
    first, second = LAME
    names = ("x", "y", "z")

    def stored(w: Any, z: Any, phi: Any) -> Any:
        slopes = [[f.d(name) for name in names] for f in (w.u, w.v, w.w)]
        strain = lambda i, j: (slopes[i][j] + slopes[j][i]) / 2
        spread = sum(slopes[i][i] for i in range(3))
        return first / 2 * spread**2 + second * sum(strain(*at) ** 2 for at in np.ndindex(3, 3))

    return Problem(
        domain,
        [
            Energy(stored, on=domain.interior),
            Energy(lambda w, z, phi: w.v() - 0.5 * w.w(), on=domain.boundary("end")),
            Enforce(lambda w, z, phi: (w.u(), w.v(), w.w()), on=domain.boundary("wall")),
        ],
        unknowns=("u", "v", "w"),
    )


def stressed_elements(h: float) -> Elements:
    at_end = lambda x: (np.abs(x[0] - 2) < 1e-6).astype(float)
    pull = lambda x: np.stack([0 * x[0], -at_end(x), 0.5 * at_end(x)])
    mesh = of_angle(lambda file: tetrahedra(lambda: surface(file), h))
    return elastic(mesh, LAME, lambda x: np.abs(x[1] - 2) < 1e-6, pull)


CASES = {
    "l-shape": Case(
        "Laplace in an L, r^(2/3) sin(2θ/3)", cornered, (1e-3, 1e-5), graded,
        exact=lambda x: {"u": corner(*x.T, np)},
    ),
    "poisson-c": Case(
        "Poisson2d-C: Laplace in a square with four holes",
        **of_parts(FOUR, 0.0, lambda x, y, np: 0 * x, outer=1.0, holes=0.0),
        tolerances=(1e-3, 1e-6), published="1.2e-2",
    ),
    "poisson-cg": Case(
        "Poisson2d-CG: four holes of different sizes",
        **of_parts(UNEVEN, 64.0, waves, outer=0.2, holes=1.0),
        tolerances=(1e-3, 1e-6), published="1.4e-2",
    ),
    "heat-cg": Case(
        "Heat2d-CG: in time, 17 holes", heated, (5e-3,), heated_elements, first=0.3, fine=None,
        published="2.4e-2",
    ),
    "flow-cg": Case(
        "NS2d-CG: flow over a backward step, ν = 0.01, v = 0 at the outlet", step, (5e-3,),
        step_elements, fine=1e-3, published="8.2e-2",
    ),
    "poisson-3d": Case(
        "Poisson3d-CG: a cube less four balls", insulated, (9e-3,), insulated_elements, fine=None,
        published="9.5e-2",
    ),
    "heat-5d": Case(
        "Heat-5d: the ball of five dimensions, in time", ball_of_five, (5e-4, 1e-5),
        exact=lambda x: {"u": np.exp((x[:, :5] ** 2).sum(axis=1) / 2 + x[:, 5])}, published="1.2e-4",
    ),
    "bracket": Case(
        "Elasticity of a bracket from an STL file, stated by its energy", stressed, (1e-2,),
        stressed_elements,
        first=0.3, fine=None,
    ),
}  # fmt: skip
