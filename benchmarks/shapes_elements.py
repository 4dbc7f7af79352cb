"""Finite elements that the solves on shapes stand beside: meshes, and quadratic elements on them.

Meshes are Delaunay triangulations of a lattice inside of a shape and of points on its boundary. Each
solve returns `Elements`: the values at the nodes, to be compared with the truth there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import skfem
from scipy.spatial import Delaunay, cKDTree
from skfem.helpers import ddot, div, dot, grad, sym_grad

from pdecl.shapes import Shape

Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class Elements:
    """`coords`: the nodes, and their times, (n, d); `sizes`: of each unknown the norm of such values."""

    coords: np.ndarray
    values: Values
    norms: dict[str, Callable[[np.ndarray], float]]
    unknowns: int

    def error(self, truth: Callable[[np.ndarray], Values]) -> float:
        """Relative L2, the worst of the unknowns."""
        there = truth(self.coords)
        wrong = {u: norm(self.values[u] - there[u]) / norm(there[u]) for u, norm in self.norms.items()}
        return max(wrong.values())


def norm_of(basis: skfem.Basis) -> Callable[[np.ndarray], float]:
    mass = skfem.BilinearForm(lambda u, v, w: u * v).assemble(basis)
    return lambda x: float(np.sqrt(x @ (mass @ x)))


# --- meshes
# --------------------------------------------------------------------------------------------
def mesh_of(shape: Shape, h: float) -> Any:
    """Triangles or tetrahedra about h wide."""
    d = shape.dim
    count = round(shape.boundary_measure / h ** (d - 1) * {2: 1.0, 3: 1.2}[d])
    on = np.asarray(shape.boundary(count)[0])
    if d == 2:
        on = np.concatenate([on, shape.corners[0]])
    inside = _lattice(*shape.bounding_box, h)
    inside = inside[np.asarray(shape.distance(inside)) < -0.5 * h]
    points = np.concatenate([on, inside])
    cells = Delaunay(points).simplices
    corners = points[cells]
    volume = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1]))
    middle = np.asarray(shape.distance(corners.mean(axis=1)))
    cells = cells[(middle < 0) & (volume > 1e-3 * h**d)]
    used, cells = np.unique(cells, return_inverse=True)
    kind = skfem.MeshTri if d == 2 else skfem.MeshTet
    return kind(points[used].T, cells.reshape(-1, d + 1).T)


def _lattice(low: np.ndarray, high: np.ndarray, h: float) -> np.ndarray:
    """Hexagonal in the plane, body-centred in space."""
    if len(low) == 2:
        x, y = np.meshgrid(np.arange(low[0], high[0], h), np.arange(low[1], high[1], h * 3**0.5 / 2))
        x[1::2] += h / 2
        return np.stack([x.ravel(), y.ravel()], axis=1)
    side = h * 2 / 3**0.5
    axes = [np.arange(a, b, side) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    return np.concatenate([grid, grid + side / 2])


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
    return Elements(basis.doflocs.T, {"u": u}, {"u": norm_of(basis)}, int(basis.N))


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
    size, n = norm_of(basis), basis.N
    coords = np.concatenate([np.c_[basis.doflocs.T, np.full(n, t)] for t, _, _ in kept])
    spans = np.array([dt for _, dt, _ in kept])
    whole = lambda x: float(np.sqrt(spans @ np.array([size(part) ** 2 for part in x.reshape(-1, n)])))
    return Elements(coords, {"u": np.concatenate([u for *_, u in kept])}, {"u": whole}, int(n))


def steady_flow(mesh: skfem.MeshTri, nu: float, inflow: Callable[[np.ndarray], np.ndarray]) -> Elements:
    """Navier–Stokes by Taylor–Hood elements and Newton's method: `inflow(y)` on the boundary "inlet",
    p = 0 and no more on "outlet", no slip elsewhere."""
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
    fixed = np.unique(np.r_[flow.get_dofs(walls).flatten(), inlet.flatten()])
    across = pressure.get_dofs("outlet").flatten()
    n = flow.N
    x = np.zeros(n + pressure.N)
    rows = inlet.all("u^1")
    x[rows] = inflow(flow.doflocs[1, rows])
    known = np.r_[fixed, n + across]
    for step in range(20):
        at = flow.interpolate(x[:n])
        C = jacobian.assemble(flow, at=at) if step else 0 * A
        matrix = scipy.sparse.bmat([[A + C, B.T], [B, None]], "csr")
        right = np.r_[(C @ x[:n] - carried.assemble(flow, at=at)) if step else np.zeros(n), 0 * x[n:]]
        new = skfem.solve(*skfem.condense(matrix, right, x=x, D=known))
        change, x = np.linalg.norm(new - x) / np.linalg.norm(new), new
        if change < 1e-10:
            break
    one = flow.with_element(skfem.ElementTriP2())
    low, size = flow.with_element(skfem.ElementTriP1()), norm_of(one)
    first, second = (flow.nodal_dofs[i] for i in (0, 1))
    edges = flow.facet_dofs
    u = np.zeros(one.N)
    v = np.zeros(one.N)
    u[one.nodal_dofs[0]], u[one.facet_dofs[0]] = x[first], x[edges[0]]
    v[one.nodal_dofs[0]], v[one.facet_dofs[0]] = x[second], x[edges[1]]
    p = one.project(low.interpolate(x[n:]))
    return Elements(
        one.doflocs.T, {"u": u, "v": v, "p": p}, dict.fromkeys(("u", "v", "p"), size), len(x)
    )


def neumann(shape: Shape, h: float, reaction: Callable, source: Callable) -> Elements:
    """−Δu + reaction(x) u = source(x) in space, u_n = 0: conjugate gradients."""
    basis = skfem.Basis(mesh_of(shape, h), skfem.ElementTetP2())
    matrix = skfem.BilinearForm(lambda u, v, w: dot(grad(u), grad(v)) + reaction(w.x) * u * v).assemble(
        basis
    )
    load = skfem.LinearForm(lambda v, w: source(w.x) * v).assemble(basis)
    u = _by_gradients(matrix, load)
    return Elements(basis.doflocs.T, {"u": u}, {"u": norm_of(basis)}, int(basis.N))


def elastic(
    shape: Shape, h: float, lame: tuple[float, float], fixed: Callable, load: Callable
) -> Elements:
    """Linear elasticity: held where `fixed(x)`, pulled by `load(x)` (3, …) on the boundary elsewhere."""
    mesh = mesh_of(shape, h)
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
    one = basis.with_element(skfem.ElementTetP2())
    values = {}
    for i, name in enumerate("uvw"):
        values[name] = one.zeros()
        values[name][one.nodal_dofs[0]] = x[basis.nodal_dofs[i]]
        values[name][one.edge_dofs[0]] = x[basis.edge_dofs[i]]
    return Elements(one.doflocs.T, values, dict.fromkeys("uvw", norm_of(one)), int(basis.N))


def _by_gradients(matrix: Any, right: np.ndarray) -> np.ndarray:
    """Conjugate gradients with the diagonal."""
    scale = scipy.sparse.diags(1 / matrix.diagonal())
    return np.asarray(scipy.sparse.linalg.cg(matrix, right, rtol=1e-8, maxiter=20_000, M=scale)[0])
