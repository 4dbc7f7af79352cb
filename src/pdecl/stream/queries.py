"""Models that are asked at given points: each a function from a batch of φ to solutions and values."""

from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..basis import basis as bases
from ..family.experiment import solver_of
from ..family.trained import Trained
from ..layer.solution import RESIDUAL_LIMIT, Given, Solution, check_residuals
from ..layer.solve import predict, sizes_of, solve
from ..layer.solvers import GaussNewton
from ..reduced.core import Core, answer_all
from ..reduced.crease import inner_of
from ..reduced.solver import Compiled
from ..state.jet import Axes
from ..state.points import Points
from ..state.problem import Problem
from ..state.shapes.moving import MovingDomain
from .query import WEIGHTS, Query, along, column

# What was found, u and its derivatives at the points, and u at the nodes of φ's grid.
Found = tuple[dict[str, Any], dict[str, Array], Any]
FOUND = ("weights", "residual", "iterations", "optimality", "violation", "code", "measured")


class LayerQuery(eqx.Module):
    """A trained basis: ω from the layer, or for a soft model from the network."""

    problem: Problem
    basis: Any
    points: tuple[Points, ...]
    solver: GaussNewton
    coords: Float[Array, "q d"]
    derivatives: tuple[str, ...] = eqx.field(static=True)
    soft: bool = eqx.field(static=True)
    residual_limit: float = eqx.field(static=True)
    weights_alone: bool = eqx.field(static=True)

    def __call__(self, phi: Any, side: int | None) -> Found:
        return jax.vmap(partial(self._one, side))(phi)

    def _one(self, side: int | None, phi: Any) -> Found:
        if self.soft:
            solution = predict(self.problem, self.basis, phi, points=self.points, throw=False)
        else:
            solution = solve(
                self.problem,
                self.basis,
                phi,
                points=self.points,
                solver=self.solver,
                throw=False,
                residual_limit=self.residual_limit,
            )
        if self.weights_alone:
            values = {WEIGHTS: solution.weights}
        else:
            values = values_at(solution, self.coords, self.derivatives)
            values = _inside(self.problem, phi, self.coords, values)
        return _numbers(solution), values, at_nodes(solution, side)


class CompiledQuery(eqx.Module):
    """A compiled solver: the network runs once, for `tables`: the r combinations of functions, and their
    derivatives, at the points; or, for functions that crease, for the core's own values there. A basis
    that sees φ, or has an offset, runs for every batch, and so do derivatives across a crease."""

    core: Core
    coords: Float[Array, "q d"]
    derivatives: tuple[str, ...] = eqx.field(static=True)
    tables: dict[str, Float[Array, "q r"]] | None
    residual_limit: float = eqx.field(static=True)
    weights_alone: bool = eqx.field(static=True)

    def __call__(self, phi: Any, side: int | None) -> Found:
        core = self.core
        # Without `modes` the weights that come out are those of the combinations.
        found = answer_all(core.without_modes(), phi)
        weights = whole_weights(core, found.weights)
        code = check_residuals(core.problem, found.code, found.measured, self.residual_limit)
        outcome = {name: getattr(found, name) for name in FOUND} | {"weights": weights, "code": code}

        def with_network(phi: Any, outcome: dict[str, Any]) -> tuple[Any, Any]:
            solution = Solution(Given.of(core.problem, core.basis, core.sets), phi, **outcome)
            known = found.values is not None or self.tables is not None or self.weights_alone
            values = None if known else values_at(solution, self.coords, self.derivatives)
            return values, at_nodes(solution, side)

        values, nodes = jax.vmap(with_network)(phi, outcome)
        if self.weights_alone:
            return outcome, {WEIGHTS: found.weights}, nodes
        if found.values is not None:
            values = {name: found.values[name] for name in core.problem.unknowns}
        elif self.tables is not None:
            values = {name: found.weights @ table.T for name, table in self.tables.items()}
        where = lambda phi, values: _inside(core.problem, phi, self.coords, values)
        values = jax.vmap(where)(phi, values)
        return outcome, values, nodes


def whole_weights(core: Core, coefficients: Any) -> Any:
    """The weights of the basis, for a φ or a batch, from what `Core.without_modes` gives."""
    return coefficients if core.modes is None else coefficients @ core.modes.T


def weights_of(model: Trained | Compiled, problem: Problem, phi: Any) -> int:
    """How many weights are kept of each φ like this one."""
    if not isinstance(model, Compiled):
        return sum(sizes_of(problem, model.basis, phi).values())
    core = model.core
    if core.modes is not None:
        return int(core.modes.shape[1])
    return core.plan.size if core.whole_modes is None else len(core.whole_modes)


def asked(
    model: Trained | Compiled,
    problem: Problem,
    points: tuple[Points, ...],
    query: Query,
    residual_limit: float = RESIDUAL_LIMIT,
) -> LayerQuery | CompiledQuery:
    """A model that answers a query. `problem` and `points` are those a trained basis is solved with."""
    coords = jnp.asarray(query.coords)
    if isinstance(model, Compiled):
        core, tables = replace(model.core, at=None, values=None), None
        if query.functions is not None:
            return CompiledQuery(core, coords, (), None, residual_limit, True)
        if core.crease is not None and not query.derivatives:
            core = replace(core, at=coords, values=_creased(core, _zeros(model.phi_like), coords))
        elif _has_tables(core):
            phi = _zeros(model.phi_like)  # which the functions do not see
            tables = _tables(core, phi, coords, query.derivatives)
        return CompiledQuery(core, coords, query.derivatives, tables, residual_limit, False)
    soft = model.experiment.method == "soft"
    solver = solver_of(model.experiment)
    return LayerQuery(
        problem, model.basis, points, solver, coords, query.derivatives, soft, residual_limit,
        query.functions is not None,
    )  # fmt: skip


def _numbers(solution: Solution) -> dict[str, Any]:
    return {name: getattr(solution, name) for name in FOUND}


def _inside(problem: Problem, phi: Any, coords: Array, values: dict[str, Array]) -> dict[str, Array]:
    """NaN where the shape of φ does not reach. Points outside of a shape that stands still are not
    asked."""
    if not isinstance(problem.domain, MovingDomain):
        return values
    inside = problem.domain.covers(coords, phi)
    return {name: jnp.where(inside, u, jnp.nan) for name, u in values.items()}


def at_nodes(solution: Solution, side: int | None) -> Any:
    return None if side is None else solution(solution.problem.domain.mesh(side, side))


def values_at(solution: Solution, coords: Any, derivatives: tuple[str, ...]) -> dict[str, Array]:
    """The unknowns and their derivatives at points, by the names that files have for them."""
    problem = solution.problem
    found: dict[str, Array] = {}
    for derivative in ("", *derivatives):
        values = solution.d(*along(derivative, problem.domain.names))(coords)
        each = values if len(problem.unknowns) > 1 else {problem.unknowns[0]: values}
        found |= {column(name, derivative): each[name] for name in problem.unknowns}
    return found


def _has_tables(core: Core) -> bool:
    return (
        core.modes is not None
        and bases.as_basis(core.basis).offset is None
        and len(core.problem.unknowns) == 1
    )


def _zeros(like: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)


@eqx.filter_jit
def _creased(core: Core, phi: Any, coords: Float[Array, "q d"]) -> dict[str, Array]:
    """The combinations of both parts of u and of its front at the points."""
    crease, inner = core.crease, bases.specialise(inner_of(core.basis), phi)
    assert crease is not None

    def at_point(x: Float[Array, " d"]) -> dict[str, Array]:
        found = bases.evaluate(inner, core.problem.unknowns, x[None], phi, {()})
        return crease.parts(found[core.problem.unknowns[0], ()][0], core.basis.along, core.plan)

    return jax.lax.map(at_point, coords, batch_size=2048)


@eqx.filter_jit
def _tables(
    core: Core, phi: Any, coords: Float[Array, "q d"], derivatives: tuple[str, ...]
) -> dict[str, Array]:
    """The combinations of functions at the points, a chunk of them at a time."""
    modes = core.modes
    assert modes is not None
    domain, unknowns = core.problem.domain, core.problem.unknowns
    axes: dict[str, Axes] = {
        column(unknowns[0], d): tuple(sorted(map(domain.axis, along(d, domain.names))))
        for d in ("", *derivatives)
    }
    basis = bases.specialise(core.basis, phi)

    def at_point(x: Float[Array, " d"]) -> dict[str, Array]:
        found = bases.evaluate(basis, unknowns, x[None], phi, set(axes.values()))
        return {name: found[unknowns[0], way][0] @ modes for name, way in axes.items()}

    return jax.lax.map(at_point, coords, batch_size=2048)
