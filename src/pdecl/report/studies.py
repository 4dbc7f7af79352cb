"""Computations with trained models that a report shows: each returns plain numbers and arrays.

used_points     errors and residuals where the layer was fitted and where it was not
interpolation   querying the basis against cubic interpolation of its values at the collocation points
trade_off       time and error over the number of functions and of points
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from scipy.interpolate import CloughTocher2DInterpolator

from ..basis.basis import BasisLike, Wrapper, forwarded, specialise
from ..basis.grid import ElementBasis, GridBasis, subsample
from ..family import SPLITS, Family, stated
from ..family import phi as phis_of
from ..family.experiment import family_of, solver_of, training_phis
from ..family.metrics import relative_l2
from ..family.nodes import values_on, without_outside
from ..family.trained import Trained, as_fields, inside_fields, nodes_of
from ..layer.solution import Solution, each
from ..layer.solve import solve
from ..layer.system import build
from ..reduced.pod import leading_modes
from ..state.points import Points
from ..state.problem import Problem
from ..support.types import Phi
from .runs import Run


@dataclass(frozen=True)
class Effort:
    """How much the studies compute.

    - `phis`: test φ of the trade-off; `shown` those of the other two.
    - `side`, `used`: the nodes a side of the grid of `used_points`, and how many of them are fitted.
    - `grids`: nodes a side of the grids of `interpolation`.
    - `halvings`, `ratios`: of the trade-off, N/2, N/4, … functions, and points for each function.
    - `snapshots`: training φ that the functions are ordered by, within about `seconds`.
    """

    phis: int = 10
    shown: int = 3
    side: int = 100
    used: int = 1000
    grids: tuple[int, ...] = (100, 1000)
    halvings: int = 3
    ratios: tuple[int, ...] = (1, 2, 4)
    snapshots: int = 256
    seconds: float = 60.0
    repeats: int = 9


def used_points(run: Run, effort: Effort) -> dict[str, Any]:
    """Pointwise errors and residuals at grid nodes used by the layer and at the others."""
    trained = run.trained()
    family, problem = trained.family, trained.problem()
    side = effort.side
    nodes = np.asarray(problem.domain.mesh(side, side))
    used = np.zeros(len(nodes), bool)
    used[np.random.default_rng(0).choice(len(nodes), effort.used, replace=False)] = True
    points = (Points(nodes[used]), *problem.draw(trained.size)[1:])
    phis = family.sample(SPLITS["test"].seed, effort.shown)
    solution = trained.solve(phis, points=points, throw=False)
    errors = np.abs(np.asarray(solution(nodes)) - _exact(family, phis, side))
    residuals = np.abs(np.asarray(_pointwise(solution, Points(nodes))))
    return {
        "phis": effort.shown,
        "nodes": side,
        "on_faces": [len(group) for group in points[1:]],
        "used": {"error": errors[:, used].ravel(), "residual": residuals[:, used].ravel()},
        "unused": {"error": errors[:, ~used].ravel(), "residual": residuals[:, ~used].ravel()},
    }


def _exact(family: Family, phis: Phi, side: int) -> np.ndarray:
    """The exact solutions at side × side nodes of the box, in the order of `Box.mesh`, which has those
    that are inside."""
    assert family.exact is not None
    domain = stated(family).domain
    axes = [np.linspace(low, high, side) for low, high in domain.bounds]
    inside = ~domain.outside(np.asarray(domain.lattice(side, side)))
    return np.stack([family.exact(phi, axes).ravel()[inside] for phi in phis_of.members(phis)])


def _pointwise(solution: Solution, points: Points) -> Float[Array, "phi n"]:
    """The size of the residual of all conditions inside of the box, at each point."""
    whole = solution.problem
    inside = [
        replace(condition, on=points, weight=1.0)
        for condition, place in zip(whole.conditions, whole.places, strict=True)
        if getattr(whole.sets()[place], "sides", None) == ((),)
    ]
    problem = Problem(whole.domain, inside, whole.parameter, whole.unknowns)

    def one(_: object, basis: BasisLike, __: object, phi: Phi, weights: Array) -> Array:
        system = build(problem, basis, phi, (points,), materialise=False)
        fields = system.fields(weights)
        return jnp.sqrt(sum(jnp.sum(system.values(i, fields) ** 2, axis=1) for i in range(len(inside))))

    return each(solution, one)


def interpolation(run: Run, effort: Effort) -> dict[str, Any]:
    """Relative errors on finer grids of the basis itself and of cubic interpolation.

    The interpolant is the C¹ cubic one of Clough and Tocher through the basis's values at the points
    that the layer was fitted on. Both are measured at the nodes inside the convex hull of those
    points, since nothing can be interpolated outside; the basis also at all nodes.
    """
    trained = run.trained()
    family = trained.family
    phis = family.sample(SPLITS["test"].seed, effort.shown)
    solution = trained.solve(phis, throw=False)
    fitted = np.unique(np.concatenate([np.asarray(one.coords) for one in solution.points]), axis=0)
    at_fitted = np.asarray(solution(fitted))
    grids = []
    for side in effort.grids:
        mesh = solution.problem.domain.mesh(side, side)
        truth = _exact(family, phis, side)
        queried = np.asarray(solution(mesh))
        cubic = CloughTocher2DInterpolator(fitted, at_fitted.T)(np.asarray(mesh)).T
        inside = np.isfinite(cubic).all(axis=0)
        grids.append(
            {
                "side": side,
                "inside": float(inside.mean()),
                "basis": relative_l2(queried[:, inside], truth[:, inside]),
                "cubic": relative_l2(cubic[:, inside], truth[:, inside]),
                "basis_everywhere": relative_l2(queried, truth),
            }
        )
    return {"phis": effort.shown, "fitted": len(fitted), "grids": grids}


def trade_off(run: Run, effort: Effort) -> dict[str, Any]:
    """Seconds per φ to find ω, and the mean error, over numbers of functions N and of points n.

    Fewer functions are the first of those that solutions for training φ use most (`leading_modes`). On a
    grid n is the nodes of the grid that it is solved on.
    """
    trained = run.trained()
    full = trained.size
    halves = {round(full / 2**power) for power in range(1, effort.halvings + 1)}
    matrix, snapshots = _ordered(trained, effort) if halves else (np.zeros((full, 0)), 0)
    sizes = [*sorted({min(half, matrix.shape[1]) for half in halves if half >= 4}), full]
    reduced = {size: ReducedBasis(trained.basis, jnp.asarray(matrix[:, :size])) for size in sizes[:-1]}
    rows = []
    for setting, phis, targets in _settings(run, effort):
        for size in sizes:
            cut = replace(trained, basis=reduced.get(size, trained.basis))
            rows.append(_measure(cut, setting, size, phis, targets, effort))
    return {
        "phis": phis_of.count(phis),
        "snapshots": snapshots,
        "together": _together(trained, effort),
        "rows": rows,
    }


def _ordered(trained: Trained, effort: Effort) -> tuple[np.ndarray, int]:
    """The modes, and how many training φ they come from."""
    experiment, together = trained.experiment, _together(trained, effort)
    wanted = min(effort.snapshots, 2 * trained.size)
    phis = training_phis(replace(experiment, training=replace(experiment.training, phis=wanted)))
    assert phis is not None
    problem = trained.problem(phis.shape[-1] if trained.family.on_grid else None)
    call = _compiled(trained, problem, problem.draw(trained.size))
    weights: list[np.ndarray] = []
    began = time.perf_counter()
    for start in range(0, wanted, together):
        if time.perf_counter() - began > effort.seconds:
            break
        batch = jax.tree.map(jnp.asarray, phis_of.take(phis, slice(start, start + together)))
        weights.append(np.asarray(call(batch).weights))
    omega = np.concatenate(weights)
    omega = omega[np.isfinite(omega).all(axis=1)]
    plane = len(problem.domain.names) == 2
    coords = problem.domain.mesh(41, 41) if plane else problem.domain.interior.draw(None, 1681).coords
    some = [phis_of.take(phis, number) for number in range(min(8, wanted))]
    gram = gram_of(trained.basis, some, coords)
    return leading_modes(omega, omega @ gram @ omega.T), len(omega)


def _compiled(
    trained: Trained, problem: Problem, points: tuple[Points, ...]
) -> Callable[[Any], Solution]:
    """The solve as one program of φ, so that times are of computing alone."""
    solver, basis = solver_of(trained.experiment), trained.basis
    one = lambda phi: solve(problem, basis, phi, solver=solver, points=points, throw=False)
    return jax.jit(jax.vmap(one))


@dataclass(frozen=True)
class _Setting:
    """`ratio` points for each function, or a grid of `grid` nodes a side."""

    ratio: int | None = None
    grid: int | None = None


def _settings(run: Run, effort: Effort) -> list[tuple[_Setting, Any, np.ndarray]]:
    """Where the layer is solved, with test φ and their solutions there."""
    family = family_of(run.experiment)
    if family.on_grid:
        phis, targets = (np.asarray(run.fields[name], float) for name in ("phi", "target"))
        sides = [
            (phis.shape[-1] - 1) // stride + 1
            for stride in (1, 2, 4)
            if not (phis.shape[-1] - 1) % stride
        ]
        sides = [side for side in sides if side >= 9]
        return [(_Setting(grid=side), subsample(phis, side), subsample(targets, side)) for side in sides]
    phis = family.sample(SPLITS["test"].seed, effort.phis)
    targets = family.reference(phis)
    return [(_Setting(ratio=ratio), phis, targets) for ratio in effort.ratios]


def _measure(
    trained: Trained, setting: _Setting, size: int, phis: Phi, targets: np.ndarray, effort: Effort
) -> dict[str, Any]:
    together = _together(trained, effort)
    problem, points = _placed(trained, setting, size, phis)
    call = _compiled(trained, problem, points)
    fields, seconds = [], []
    for start in range(0, phis_of.count(phis), together):
        batch = phis_of.take(phis, slice(start, start + together))
        given = jax.tree.map(jnp.asarray, batch)
        solution = call(given)
        if start == 0:
            seconds = [_seconds(call, given) / phis_of.count(batch) for _ in range(effort.repeats)]
        fields.append(as_fields(trained, batch, values_on(solution, nodes_of(trained, batch))))
    inside = inside_fields(trained, phis)
    answers, targets = (without_outside(u, inside) for u in (np.concatenate(fields), targets))
    usable = np.isfinite(answers)
    error = float(relative_l2(answers, targets).mean()) if usable.all() else float("inf")
    return {
        "N": size,
        "n": int(sum(len(one) for one in points)) if setting.grid is None else setting.grid**2,
        "ratio": setting.ratio,
        "grid": setting.grid,
        "error": error,
        "seconds": float(np.median(seconds)),
    }


def _placed(
    trained: Trained, setting: _Setting, size: int, phis: Phi
) -> tuple[Problem, tuple[Points, ...]]:
    """The problem and its points: `ratio` · N inside and 4√N on each face."""
    if setting.ratio is None:
        problem = trained.problem(phis.shape[-1])
        return problem, problem.draw(size)
    problem = trained.problem()
    counts = [setting.ratio * size if problem.is_interior(place) else round(4 * size**0.5)
              for place in range(len(problem.sets()))]  # fmt: skip
    return problem, problem.redraw(problem.draw(size), counts)


def _together(trained: Trained, effort: Effort) -> int:
    return 1 if trained.family.on_grid else min(10, effort.phis)


def _seconds(call: Callable[[Any], Solution], given: Any) -> float:
    began = time.perf_counter()
    jax.block_until_ready(call(given).weights)
    return time.perf_counter() - began


class ReducedBasis(Wrapper):
    """The functions g = f M of another basis f, fewer than it has, combined at each point."""

    matrix: Float[ArrayLike, "N n"]
    offset = forwarded("offset")

    @property
    def count(self) -> int:
        return np.shape(self.matrix)[1]

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        return specialise(self.inner, phi)(x, phi) @ self.matrix

    def at(self, phi: Phi) -> Any:
        inner = specialise(self.inner, phi)
        if isinstance(inner, ElementBasis | GridBasis):
            assert not callable(inner.values), "`at` has made an array of them"
            return type(inner)(inner.box, inner.values @ self.matrix)
        return ReducedBasis(inner, self.matrix)


def gram_of(basis: BasisLike, phis: Phi, coords: Float[Any, "n d"]) -> Float[np.ndarray, "N N"]:
    """Mean products of all pairs of functions over points and φ."""
    coords = jnp.asarray(coords)
    values = [np.asarray(function_values(basis, jnp.asarray(phi), coords)) for phi in phis]
    return np.asarray(
        sum(functions.T @ functions / len(functions) for functions in values) / len(values)
    )


@eqx.filter_jit
def function_values(basis: BasisLike, phi: Phi, coords: Float[Any, "n d"]) -> Float[Array, "n N"]:
    """The values of all functions for one φ at points."""
    functions = specialise(basis, phi)
    return jax.vmap(lambda x: functions(x, phi))(coords)
