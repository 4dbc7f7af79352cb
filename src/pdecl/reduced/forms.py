"""What a compiled solver holds of its functions, and so what is left to compute for each φ.

Three kinds: `Held`, functions that do not see φ; `Live`, functions that do, whose network runs for each
φ; and `Crease` (crease.py), held functions some of which crease along a front that φ decides.
"""

import abc
from typing import TYPE_CHECKING, Any

import equinox as eqx
from jaxtyping import Array, Float

from ..basis import basis as bases
from ..layer.layer import Outcome
from ..layer.system import Plan, System, build, each_set
from ..state.jet import Entry
from ..state.points import Points
from ..state.problem import Problem

if TYPE_CHECKING:
    from .core import Core

Values = dict[str, Float[Array, "..."]]


class Form(eqx.Module):
    """A kind of functions. `modes`: ω = modes · coefficients; None where the coefficients are ω."""

    modes: Float[Array, "N r"] | None

    @abc.abstractmethod
    def system(self, rows: "Rows", phi: Any, front: Outcome | None) -> System:
        """The rows for one φ. `front`: what `front` found, if that was asked for."""

    @abc.abstractmethod
    def tables(self, functions: Values, plan: Plan) -> Values | None:
        """What is stored for query points, from the values there of all functions of `inner`."""

    @abc.abstractmethod
    def answers(self, core: "Core", phi: Any, shares: Values, front: Outcome | None) -> Values:
        """u at the query points of a core, by the coefficients of each unknown."""

    def inner(self, basis: Any) -> Any:
        """The basis whose functions are stored."""
        return basis

    @property
    def fronts(self) -> tuple[Any, ...]:
        """The cores of problems that are solved first."""
        return ()

    def front(self, phi: Any) -> Outcome | None:
        """What is found first."""
        return None

    def judged(self, found: Outcome, front: Outcome | None) -> Outcome:
        """The outcome, with what that of the front says of it."""
        return found

    def online(self, sets: tuple[Points, ...]) -> tuple[Points, ...]:
        """Points as they are read online, from candidates that hold all functions."""
        return sets

    def arrays(self) -> dict[str, Any]:
        """What is written to a file, by the names that it has there."""
        return {"expansion": self.modes}


class Rows(eqx.Module):
    """Conditions on sets of points, and the `jets` of functions that they read there, if held."""

    problem: Problem
    basis: Any
    sets: tuple[Points, ...]
    plan: Plan = eqx.field(static=True)
    jets: tuple[dict[Entry, Any], ...] | None
    form: Form

    def system(self, phi: Any, front: Outcome | None = None) -> System:
        """The rows for one φ."""
        return self.form.system(self, phi, front)


class Held(Form):
    """Functions that do not see φ: their jets and values are stored, as combinations."""

    def system(self, rows: Rows, phi: Any, front: Outcome | None) -> System:
        problem, basis, offset = rows.problem, bases.specialise(rows.basis, phi), None
        if basis.offset is not None:
            fixed = lambda coords, wanted, _: (
                bases.offsets(basis, problem.unknowns, coords, phi, wanted) or {}
            )
            offset = tuple(each_set(problem, rows.plan, rows.sets, fixed))
        return System(problem, None, phi, rows.sets, rows.plan, rows.jets, offset)

    def tables(self, functions: Values, plan: Plan) -> Values:
        assert self.modes is not None
        found, row, column = {}, 0, 0
        for unknown, kept in plan.sizes:
            end = row + functions[unknown].shape[-1]
            found[unknown] = functions[unknown] @ self.modes[row:end, column : column + kept]
            row, column = end, column + kept
        return found

    def answers(self, core: "Core", phi: Any, shares: Values, front: Outcome | None) -> Values:
        assert core.values is not None
        found = {name: core.values[name] @ shares[name] for name in core.problem.unknowns}
        return _with_offset(core, bases.specialise(core.basis, phi), phi, found)


class Live(Form):
    """Functions that see φ: the network runs for each, at the chosen points and at query points."""

    def system(self, rows: Rows, phi: Any, front: Outcome | None) -> System:
        return build(rows.problem, rows.basis, phi, rows.sets)

    def tables(self, functions: Values, plan: Plan) -> None:
        return None

    def answers(self, core: "Core", phi: Any, shares: Values, front: Outcome | None) -> Values:
        assert core.at is not None
        unknowns, basis = core.problem.unknowns, bases.specialise(core.basis, phi)
        values = bases.combine(basis, unknowns, shares, core.at, phi, {()})
        return _with_offset(core, basis, phi, {name: values[name, ()] for name in unknowns})


def _with_offset(core: "Core", basis: bases.Basis, phi: Any, found: Values) -> Values:
    assert core.at is not None
    fixed = bases.offsets(basis, core.problem.unknowns, core.at, phi, {()}) or {}
    return {name: values + fixed.get((name, ()), 0.0) for name, values in found.items()}
