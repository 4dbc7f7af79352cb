"""Finite elements that the solves on shapes stand beside: meshes, and quadratic elements on them.

Triangles are of Delaunay's triangulation of a lattice inside of a shape and of points on its boundary,
tetrahedra are gmsh's. Each solve returns `Elements`: values at the points of a quadrature, to be
compared with the truth there.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gmsh
import numpy as np
import scipy
import skfem
from scipy.spatial import Delaunay, cKDTree
from skfem.helpers import ddot, div, dot, grad, sym_grad

from pdecl.shapes import Shape

Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class Elements:
    """`coords`: where they are compared, (n, d): points of a quadrature, with these `weights`. Nodes
    would not do: a pressure without bound at a corner has no value there."""

    coords: np.ndarray
    weights: np.ndarray
    values: Values
    unknowns: int

    def error(self, truth: Callable[[np.ndarray], Values]) -> float:
        """Relative L2, the worst of the unknowns."""
        there = truth(self.coords)
        norm = lambda x: float(np.sqrt(self.weights @ x**2))
        return max(norm(self.values[u] - there[u]) / norm(there[u]) for u in self.values)


Fields = list[tuple[tuple[str, ...], skfem.Basis, np.ndarray]]  # names of components, coefficients


def sampled(fields: Fields, unknowns: int) -> Elements:
    values = {}
    for names, basis, x in fields:
        basis = skfem.Basis(basis.mesh, basis.elem, intorder=3)
        at = np.asarray(basis.interpolate(x)).reshape(len(names), -1)
        values |= dict(zip(names, at, strict=True))
    coords = np.asarray(basis.global_coordinates()).reshape(basis.mesh.dim(), -1).T
    return Elements(coords, np.abs(basis.dx).ravel(), values, int(unknowns))


# --- meshes
# --------------------------------------------------------------------------------------------
def mesh_of(shape: Shape, h: float) -> skfem.MeshTri:
    """Triangles about h wide."""
    on = np.asarray(shape.boundary(round(shape.boundary_measure / h))[0])
    low, high = shape.bounding_box
    x, y = np.meshgrid(np.arange(low[0], high[0], h), np.arange(low[1], high[1], h * 3**0.5 / 2))
    x[1::2] += h / 2  # hexagonal
    inside = np.stack([x.ravel(), y.ravel()], axis=1)
    inside = inside[np.asarray(shape.distance(inside)) < -0.5 * h]
    points = np.concatenate([on, shape.corners[0], inside])
    cells = Delaunay(points).simplices
    corners = points[cells]
    area = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1]))
    middle = np.asarray(shape.distance(corners.mean(axis=1)))
    cells = cells[(middle < 0) & (area > 1e-3 * h**2)]
    used, cells = np.unique(cells, return_inverse=True)
    return skfem.MeshTri(points[used].T, cells.reshape(-1, 3).T)


def tetrahedra(build: Callable[[], None], h: float, order: int = 1) -> Any:
    """About h wide, of the body that `build` makes in gmsh's model; of second order they follow it."""
    gmsh.initialize()
    gmsh.option.setNumber("General.Verbosity", 1)
    build()
    gmsh.option.setNumber("Mesh.MeshSizeMin", h)
    gmsh.option.setNumber("Mesh.MeshSizeMax", h)
    gmsh.option.setNumber("Mesh.ElementOrder", order)
    gmsh.model.mesh.generate(3)
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/body.msh"
        gmsh.write(file)
        gmsh.finalize()
        return skfem.Mesh.load(file)


def surface(file: Path) -> None:
    """The body inside of a surface in a file, for `tetrahedra`."""
    gmsh.merge(str(file))
    gmsh.model.mesh.classifySurfaces(np.pi / 9, True, True, np.pi)
    gmsh.model.mesh.createGeometry()
    loop = gmsh.model.geo.addSurfaceLoop([tag for _, tag in gmsh.model.getEntities(2)])
    gmsh.model.geo.addVolume([loop])
    gmsh.model.geo.synchronize()


def curved(shape: Shape, mesh: Any) -> skfem.Basis:
    """Quadratic triangles whose edges follow the boundary."""
    mesh = skfem.MeshTri2.from_mesh(mesh)
    nodes = mesh.doflocs.T.copy()
    basis = skfem.Basis(mesh, skfem.ElementTriP2())
    edge = basis.get_dofs().flatten()
    place = cKDTree(nodes).query(basis.doflocs[:, edge].T)[1]
    for _ in range(4):
        nodes[place] -= _off(shape, nodes[place])
    return skfem.Basis(skfem.MeshTri2(nodes.T, mesh.t), skfem.ElementTriP2())


def _off(shape: Shape, x: np.ndarray) -> np.ndarray:
    """From the boundary to points near it."""
    step, d = 1e-6 * shape.size, np.asarray(shape.distance(x))
    slope = np.stack([(shape.distance(x + step * e) - d) / step for e in np.eye(x.shape[1])], axis=1)
    return d[:, None] * slope


def part_of(shape: Shape, x: np.ndarray, parts: tuple[str, ...]) -> np.ndarray:
    """The number of the part that each boundary point is nearest to."""
    near = [cKDTree(np.asarray(shape.boundary(4000, part)[0])).query(x)[0] for part in parts]
    return np.argmin(near, axis=0)


# --- solves
# --------------------------------------------------------------------------------------------
laplace = skfem.BilinearForm(lambda u, v, w: dot(grad(u), grad(v)))
mass = skfem.BilinearForm(lambda u, v, w: u * v)
_GAMMA = 1 - 0.5**0.5


def dirichlet(
    basis: skfem.Basis, reaction: float, source: Callable[..., Any], edge: np.ndarray, given: np.ndarray
) -> Elements:
    """−Δu + reaction u = source(x), given values at the nodes `edge`."""
    load = skfem.LinearForm(lambda v, w: source(w.x) * v).assemble(basis)
    matrix = laplace.assemble(basis) + reaction * mass.assemble(basis)
    u = basis.zeros()
    u[edge] = given
    u = skfem.solve(*skfem.condense(matrix, load, x=u, D=edge))
    return sampled([(("u",), basis, u)], basis.N)


def robin_in_time(
    shape: Shape, basis: skfem.Basis, outer: dict[str, float], end: float, steps: int
) -> Elements:
    """u_t = Δu, u_n = outer − u on each part, u = 0 at first: two-stage diagonally implicit Runge–Kutta
    (L-stable, second order), `steps` of one size, then as many of twice that size, and so on."""
    parts, facets = tuple(outer), skfem.FacetBasis(basis.mesh, basis.elem)
    x = facets.default_parameters()["x"]
    values = np.array(list(outer.values()))[part_of(shape, x.reshape(2, -1).T, parts)]
    around = values.reshape(x.shape[1:])
    load = skfem.LinearForm(lambda v, w: around * v).assemble(facets)
    K, M = laplace.assemble(basis) + mass.assemble(facets), mass.assemble(basis)
    doubled = 6
    first = end / (steps * (2**doubled - 1))
    u, t, kept = basis.zeros(), 0.0, []
    for level in range(doubled):
        dt = first * 2**level
        solve = scipy.sparse.linalg.splu((M + _GAMMA * dt * K).tocsc()).solve
        for _ in range(steps):
            one = solve(load - K @ u)
            two = solve(load - K @ (u + dt * (1 - _GAMMA) * one))
            u, t = u + dt * ((1 - _GAMMA) * one + _GAMMA * two), t + dt
            kept.append((t, dt, u))
    each = [sampled([(("u",), basis, u)], basis.N) for *_, u in kept]
    weights = each[0].weights / each[0].weights.sum()
    some = np.random.default_rng(0).choice(len(weights), 10_000, p=weights)  # as many as can be compared
    x = each[0].coords[some]
    coords = np.concatenate([np.c_[x, np.full(len(x), t)] for t, *_ in kept])
    values = np.concatenate([one.values["u"][some] for one in each])
    spans = np.repeat([dt for _, dt, _ in kept], len(x))
    return Elements(coords, spans, {"u": values}, basis.N)


def steady_flow(mesh: skfem.MeshTri, nu: float, inflow: Callable[[np.ndarray], np.ndarray]) -> Elements:
    """Navier–Stokes by Taylor–Hood elements and Newton's method: `inflow(y)` on the boundary "inlet",
    p = v = 0 on "outlet", no slip elsewhere."""
    flow = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementTriP2()), intorder=5)
    pressure = flow.with_element(skfem.ElementTriP1())
    B = skfem.BilinearForm(lambda u, q, w: -div(u) * q).assemble(flow, pressure)
    A = nu * skfem.BilinearForm(lambda u, v, w: ddot(grad(u), grad(v))).assemble(flow)
    moved = lambda a, b: np.einsum("j...,ij...->i...", a, b)
    jacobian = skfem.BilinearForm(
        lambda u, v, w: dot(moved(w["at"], grad(u)) + moved(u, w["at"].grad), v)
    )
    carried = skfem.LinearForm(lambda v, w: dot(moved(w["at"], w["at"].grad), v))
    inlet = flow.get_dofs("inlet")
    walls = np.setdiff1d(
        mesh.boundary_facets(), np.r_[mesh.boundaries["inlet"], mesh.boundaries["outlet"]]
    )
    across = flow.get_dofs("outlet").all("u^2")
    fixed = np.unique(np.r_[flow.get_dofs(walls).flatten(), inlet.flatten(), across])
    n = flow.N
    x = np.zeros(n + pressure.N)
    rows = inlet.all("u^1")
    x[rows] = inflow(flow.doflocs[1, rows])
    for step in range(20):
        at = flow.interpolate(x[:n])
        C = jacobian.assemble(flow, at=at) if step else 0 * A
        matrix = scipy.sparse.bmat([[A + C, B.T], [B, None]], "csr")
        right = np.r_[(C @ x[:n] - carried.assemble(flow, at=at)) if step else np.zeros(n), 0 * x[n:]]
        new = skfem.solve(*skfem.condense(matrix, right, x=x, D=fixed))
        change, x = np.linalg.norm(new - x) / np.linalg.norm(new), new
        if change < 1e-10:
            break
    return sampled([(("u", "v"), flow, x[:n]), (("p",), pressure, x[n:])], len(x))


def neumann(mesh: Any, reaction: Callable, source: Callable) -> Elements:
    """−Δu + reaction(x) u = source(x) in space, u_n = 0: conjugate gradients."""
    basis = skfem.Basis(mesh, skfem.ElementTetP2(), intorder=4)
    matrix = skfem.BilinearForm(lambda u, v, w: dot(grad(u), grad(v)) + reaction(w.x) * u * v).assemble(
        basis
    )
    load = skfem.LinearForm(lambda v, w: source(w.x) * v).assemble(basis)
    u = _by_gradients(matrix, load)
    return sampled([(("u",), basis, u)], basis.N)


def elastic(mesh: Any, lame: tuple[float, float], fixed: Callable, load: Callable) -> Elements:
    """Linear elasticity: held where `fixed(x)`, pulled by `load(x)` (3, …) on the boundary elsewhere."""
    basis = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementTetP2()))
    first, second = lame
    matrix = skfem.BilinearForm(
        lambda u, v, w: first * div(u) * div(v) + 2 * second * ddot(sym_grad(u), sym_grad(v))
    ).assemble(basis)
    facets = skfem.FacetBasis(mesh, basis.elem)
    right = skfem.LinearForm(lambda v, w: dot(load(w.x), v)).assemble(facets)
    held = basis.get_dofs(mesh.facets_satisfying(fixed, boundaries_only=True)).flatten()
    free = np.setdiff1d(np.arange(basis.N), held)
    x = basis.zeros()
    x[free] = _by_gradients(matrix[free][:, free], right[free])
    return sampled([(("u", "v", "w"), basis, x)], basis.N)


def _by_gradients(matrix: Any, right: np.ndarray) -> np.ndarray:
    """Conjugate gradients with the diagonal."""
    scale = scipy.sparse.diags(1 / matrix.diagonal())
    return np.asarray(scipy.sparse.linalg.cg(matrix, right, rtol=1e-8, maxiter=20_000, M=scale)[0])
