"""A compiled solver that is asked at given points: the network runs once, before any φ."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..basis import basis as bases
from ..family.model import (
    OUTCOME,
    WEIGHTS,
    QueryResult,
    at_nodes,
    axes_of,
    blank_outside,
    column,
    values_at,
)
from ..layer.solution import Given, Solution, check_residuals
from ..state.jet import Axes
from .core import Core, answer_all, tables
from .forms import Values


class CompiledQuery(eqx.Module):
    """A compiled solver: the network runs once, for `tables`: the r combinations of functions, and their
    derivatives, at the points; or, for functions that crease, for the core's own values there. A basis
    that sees φ, or has an offset, runs for every batch, and so do derivatives across a crease."""

    core: Core
    coords: Float[Array, "q d"]
    derivatives: tuple[str, ...] = eqx.field(static=True)
    tables: dict[Axes, Values] | None
    residual_limit: float = eqx.field(static=True)
    weights_alone: bool = eqx.field(static=True)

    def __call__(self, phi: Any, side: int | None) -> QueryResult:
        core = self.core
        # Without `modes` the weights that come out are those of the combinations.
        found = answer_all(core.without_modes(), phi)
        weights = whole_weights(core, found.weights)
        code = check_residuals(core.problem, found.code, found.measured, self.residual_limit)
        outcome = {name: getattr(found, name) for name in OUTCOME} | {"weights": weights, "code": code}

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
            ends = np.cumsum([size for _, size in core.plan.sizes])[:-1]
            shares = dict(
                zip(core.problem.unknowns, jnp.split(found.weights, ends, axis=-1), strict=True)
            )
            values = {
                column(name, derivative): shares[name] @ table.T
                for derivative in ("", *self.derivatives)
                for name, table in self.tables[axes_of(core.problem, derivative)].items()
            }
        where = lambda phi, values: blank_outside(core.problem, phi, self.coords, values)
        values = jax.vmap(where)(phi, values)
        return outcome, values, nodes


def query_of(
    core: Core,
    phi: Any,
    coords: Float[Array, "q d"],
    derivatives: tuple[str, ...],
    residual_limit: float,
    weights_alone: bool,
) -> CompiledQuery:
    """A core as a function of φ. `phi` is any: what is stored does not see it."""
    core, held = replace(core, at=None, values=None), None
    if not weights_alone and core.modes is not None and bases.as_basis(core.basis).offset is None:
        wanted = tuple(axes_of(core.problem, derivative) for derivative in ("", *derivatives))
        held = tables(core, coords, phi, wanted)
    elif not weights_alone and core.jets is not None and not derivatives:
        core = core.at_points(coords, phi)
    return CompiledQuery(core, coords, derivatives, held, residual_limit, weights_alone)


def whole_weights(core: Core, coefficients: Any) -> Any:
    """The weights of the basis, for a φ or a batch, from what `Core.without_modes` gives."""
    return coefficients if core.modes is None else coefficients @ core.modes.T
