"""Solves to a tolerance on shapes, each beside finite elements on a mesh of the same shape.

    python benchmarks/shapes.py                 all of them: a few minutes on one core
    python benchmarks/shapes.py poisson-c       some, beside what the results already hold

Problems are stated as `pdecl.solve(problem, tolerance=...)` takes them, with no other argument. True
errors are relative L2 errors at random points, against an exact solution or a solve to 1e-7. Elements
are isoparametric quadratic triangles, refined until they are as accurate as our solution; their
seconds are those of the last mesh: mesh, assembly and solve. Results go to results/shapes.json, and
a page of them to results/shapes.md.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import skfem
from scipy.spatial import Delaunay
from skfem.helpers import dot, grad

import pdecl
from pdecl import Fit, Problem
from pdecl.shapes import Disk, Domain, Polygon, Rectangle

RESULTS = Path(__file__).parent / "results"
Truth = Callable[[np.ndarray], np.ndarray]  # of points (n, 2)


@dataclass(frozen=True)
class Case:
    """−Δu + reaction u = source with given values on parts of the boundary. `exact`: the solution, if it
    is known; `graded`: a point that meshes are refined towards. `published`: the best of the eleven
    methods of PINNacle."""

    title: str
    domain: Callable[[], Domain]
    reaction: float
    source: Callable[[Any, Any, Any], Any]  # of x, y and numpy or jax.numpy
    values: dict[str, Callable[[Any, Any, Any], Any]]
    tolerances: tuple[float, ...]
    published: str = "–"
    exact: Callable[[Any, Any, Any], Any] | None = None
    graded: tuple[float, float] | None = None


@dataclass(frozen=True)
class Row:
    asked: float
    error: float
    stated: float
    seconds: float
    functions: int
    fem_error: float
    fem_seconds: float
    fem_functions: int


def perforated(half: float, holes: list[tuple[float, float, float]]) -> Domain:
    shape = Rectangle([-half, -half], [half, half])
    for x, y, r in holes:
        shape = shape - Disk([x, y], r)
    return Domain(shape)


def corner(x: Any, y: Any, np: Any) -> Any:
    angle = np.arctan2(y, x)
    return np.hypot(x, y) ** (2 / 3) * np.sin(2 / 3 * np.where(angle < -1e-9, angle + 2 * np.pi, angle))


constant = lambda value: lambda x, y, np: value + 0 * x
CASES = {
    "poisson-c": Case(
        "Poisson2d-C: Laplace in a square with four holes",
        lambda: perforated(0.5, [(a, b, 0.1) for a in (-0.3, 0.3) for b in (-0.3, 0.3)]),
        0.0,
        constant(0.0),
        {"outer": constant(1.0), "holes": constant(0.0)},
        (1e-3, 1e-6),
        "1.2e-2",
    ),
    "poisson-cg": Case(
        "Poisson2d-CG: four holes of different sizes",
        lambda: perforated(
            1.0, [(0.5, 0.5, 0.2), (0.4, -0.4, 0.4), (-0.2, -0.7, 0.1), (-0.6, 0.5, 0.3)]
        ),
        64.0,
        lambda x, y, np: 10 * (17 + x**2 + y**2) * np.sin(np.pi * x) * np.sin(4 * np.pi * y),
        {"outer": constant(0.2), "holes": constant(1.0)},
        (1e-3, 1e-6),
        "1.4e-2",
    ),
    "l-shape": Case(
        "Laplace in an L, r^(2/3) sin(2θ/3)",
        lambda: Domain(Polygon([[0, 0], [1, 0], [1, 1], [-1, 1], [-1, -1], [0, -1]])),
        0.0,
        constant(0.0),
        {"outer": corner},
        (1e-3, 1e-5),
        exact=corner,
        graded=(0.0, 0.0),
    ),
}


def problem_of(case: Case) -> Problem:
    domain = case.domain()
    equation = lambda u, z, phi: (
        -u.d("x", "x") - u.d("y", "y") + case.reaction * u() - case.source(z.x, z.y, jnp)
    )
    given = lambda value: lambda u, z, phi: u() - value(z.x, z.y, jnp)
    boundary = [Fit(given(value), on=domain.boundary(part)) for part, value in case.values.items()]
    return Problem(domain, [Fit(equation, on=domain.interior), *boundary])


# --- finite elements
# --------------------------------------------------------------------------------------------
def triangles(case: Case, h: float) -> skfem.MeshTri:
    """Delaunay triangles of a hexagonal lattice inside and points on the boundary, about h apart."""
    shape = case.domain().shape
    count = round(shape.boundary_measure / h)
    on = np.concatenate([np.asarray(shape.boundary(count)[0]), shape.corners[0]])
    low, high = shape.bounding_box
    x, y = np.meshgrid(np.arange(low[0], high[0], h), np.arange(low[1], high[1], h * 3**0.5 / 2))
    x[1::2] += h / 2
    lattice = np.stack([x.ravel(), y.ravel()], axis=1)
    points = np.concatenate([on, lattice[shape.distance(lattice) < -0.5 * h]])
    cells = Delaunay(points).simplices
    a, b, c = (points[cells[:, i]] for i in range(3))
    area = np.abs((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]) / 2
    keep = (shape.distance((a + b + c) / 3) < 0) & (area > 1e-3 * h**2)
    used, cells = np.unique(cells[keep], return_inverse=True)
    return skfem.MeshTri(points[used].T, cells.reshape(-1, 3).T)


def mesh_of(case: Case, h: float) -> skfem.MeshTri:
    if case.graded is None:
        return triangles(case, h)
    mesh = skfem.MeshTri.init_lshaped().refined(2)
    mesh = skfem.MeshTri(np.stack([mesh.p[0], -mesh.p[1]]), mesh.t)
    while (size := np.sqrt(np.abs(mesh.mapping().detA))).size:
        far = np.linalg.norm(mesh.p[:, mesh.t].mean(axis=1), axis=0)
        marks = np.flatnonzero(size > h * np.maximum(far, h**3) ** (2 / 3))
        if not len(marks):
            return mesh
        mesh = mesh.refined(marks)
    return mesh


def elements(case: Case, h: float) -> tuple[np.ndarray, skfem.Basis]:
    """Values at the nodes of a basis."""
    shape, mesh = case.domain().shape, skfem.MeshTri2.from_mesh(mesh_of(case, h))
    nodes = mesh.doflocs.T.copy()
    basis = skfem.Basis(mesh, skfem.ElementTriP2())
    edge = basis.get_dofs().flatten()
    if case.graded is None:  # nodes between corners go to the curved boundary
        place = np.array([np.argmin(((nodes - x) ** 2).sum(axis=1)) for x in basis.doflocs[:, edge].T])
        for _ in range(4):
            x, step = nodes[place], 1e-6
            d = np.asarray(shape.distance(x))
            slope = np.stack([(shape.distance(x + step * e) - d) / step for e in np.eye(2)], axis=1)
            nodes[place] = x - d[:, None] * slope
        mesh = skfem.MeshTri2(nodes.T, mesh.t)
        basis = skfem.Basis(mesh, skfem.ElementTriP2())
    stiffness = skfem.BilinearForm(lambda u, v, w: dot(grad(u), grad(v)) + case.reaction * u * v)
    load = skfem.LinearForm(lambda v, w: case.source(w.x[0], w.x[1], np) * v)
    edge = basis.get_dofs().flatten()
    x, y = basis.doflocs[:, edge]
    value = case.values["outer"](x, y, np)
    if "holes" in case.values:
        low, high = shape.bounding_box
        outer = np.min(np.minimum(np.stack([x, y], 1) - low, high - np.stack([x, y], 1)), axis=1) < 1e-9
        value = np.where(outer, value, case.values["holes"](x, y, np))
    u = basis.zeros()
    u[edge] = value
    u = skfem.solve(*skfem.condense(stiffness.assemble(basis), load.assemble(basis), x=u, D=edge))
    return u, basis


def as_accurate(case: Case, error: float, truth: Truth) -> tuple[float, float, int]:
    """Relative L2 error, seconds and unknowns of the first mesh that is as accurate, or of the last
    affordable one."""
    h, best = 0.2, (np.inf, 0.0, 0)
    while best[0] > error and best[1] < 20 and best[2] < 400_000:
        begun = time.perf_counter()
        u, basis = elements(case, h)
        seconds = time.perf_counter() - begun
        mass = skfem.BilinearForm(lambda u, v, w: u * v).assemble(basis)
        size = lambda x, M=mass: float(np.sqrt(x @ (M @ x)))
        there = truth(basis.doflocs.T)
        best = size(u - there) / size(there), seconds, int(basis.N)
        h /= 1.6
    return best


def measure(case: Case, tolerance: float, points: np.ndarray, truth: Truth) -> Row:
    begun = time.perf_counter()
    solution = pdecl.solve(problem_of(case), tolerance=tolerance, progress=False)
    seconds = time.perf_counter() - begun
    there = truth(points)
    error = float(np.linalg.norm(np.asarray(solution(points)) - there) / np.linalg.norm(there))
    fem = as_accurate(case, error, truth)
    return Row(tolerance, error, solution.error_estimate, seconds, solution.functions, *fem)


def exactly(case: Case) -> Truth:
    if (exact := case.exact) is not None:
        return lambda points: exact(*points.T, np)
    fine = pdecl.solve(problem_of(case), tolerance=1e-7, progress=False)
    return lambda points: fine.at(points, ())["u"]


def page(results: dict[str, Any]) -> str:
    lines = [
        "# Shapes, to a tolerance",
        "",
        f"`python benchmarks/shapes.py` on {results['machine']}. Seconds with compilation; load is that "
        "of the machine. Finite elements: quadratic triangles as accurate as our solution, where 20 s "
        "suffice.",
        "",
        "| problem | asked | true error | stated | seconds | functions | elements: error | seconds | "
        "unknowns | best of PINNacle | load |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, rows in results["problems"].items():
        for r in rows:
            lines.append(
                f"| {CASES[name].title} | {r['asked']:.0e} | {r['error']:.1e} | {r['stated']:.1e} | "
                f"{r['seconds']:.1f} | {r['functions']} | {r['fem_error']:.1e} | "
                f"{r['fem_seconds']:.1f} | {r['fem_functions']} | {CASES[name].published} | "
                f"{r['load']:.1f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", help="some of the problems")
    names = parser.parse_args().problems or list(CASES)
    if unknown := set(names) - set(CASES):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(CASES)}")
    jax.config.update("jax_enable_x64", True)
    file = RESULTS / "shapes.json"
    results = json.loads(file.read_text()) if file.exists() else {"problems": {}}
    results["machine"] = f"{os.cpu_count()} cores, {platform.machine()}"
    for name in names:
        case = CASES[name]
        domain = case.domain()
        low, high = np.array(domain.bounds).T
        points = np.random.default_rng(0).uniform(low, high, (5000, 2))
        points = points[domain.shape.distance(points) < 0]
        truth = exactly(case)
        rows = []
        for tolerance in case.tolerances:
            row = asdict(measure(case, tolerance, points, truth)) | {"load": os.getloadavg()[0]}
            print(name, row, flush=True)
            rows.append(row)
        results["problems"][name] = rows
        file.write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "shapes.md").write_text(page(results))


if __name__ == "__main__":
    main()
