"""The rows of a problem: what its conditions say about the weights ω of a basis.

For φ and points, every condition becomes rows in ω. `System` knows their values; `linearise` gives
the quadratic model around an ω that solvers work on. Nothing here knows how it is solved.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from jaxtyping import Array, Float

from ..basis import basis as bases
from ..basis.basis import BasisLike
from ..state.affine import is_affine
from ..state.condition import Condition, asks_for, local, located
from ..state.jet import Axes, Entry
from ..state.points import Lattice, Points
from ..state.problem import Problem
from ..support.types import Phi
from .gram import Gram, scale_columns, transposed, weigh, written_out


@dataclass(frozen=True)
class Plan:
    """What is known of a system from shapes alone: static, hashable, made once per trace."""

    entries: tuple[tuple[Entry, ...], ...]  # what each condition reads
    rows: tuple[int, ...]  # how many rows each gives at a point
    affine: tuple[bool, ...]  # whether rows (for energies: their gradients) are affine in u
    curved: tuple[int, ...]  # which conditions are energies that are not affine themselves
    sizes: tuple[tuple[str, int], ...]  # functions of each unknown
    beside: tuple[
        Entry, ...
    ] = ()  # what is evaluated in the interior although no condition there reads it

    @property
    def size(self) -> int:
        return sum(size for _, size in self.sizes)


class System(eqx.Module):
    """The conditions of a problem on given points for one φ and one basis."""

    problem: Problem
    basis: Any
    phi: Any
    sets: tuple[Points, ...]
    plan: Plan = eqx.field(static=True)
    # Derivatives of the N functions at the points of each set; None where they are not to be held.
    jets: tuple[dict[Entry, Float[Array, "_n _N"]], ...] | None
    # The fixed function that u is measured from, at the points of each set; None if there is none.
    offset: tuple[dict[Entry, Float[Array, " _n"]], ...] | None = None

    def split(self, weights: Float[Array, " N"]) -> dict[str, Float[Array, " _N_u"]]:
        """Each unknown's share of ω."""
        return bases.split(weights, dict(self.plan.sizes))

    def fields(self, weights: Float[Array, " N"]) -> list[dict[Entry, Float[Array, " _n"]]]:
        """The jet of u = offset + Σ ω_i f_i at the points of each set. Affine in ω."""
        combined = self.combined(weights)
        if self.offset is None:
            return combined
        return [
            {entry: jets[entry] + values for entry, values in fixed.items()}
            for jets, fixed in zip(combined, self.offset, strict=True)
        ]

    def fields_at_zero(self) -> list[dict[Entry, Float[Array, " _n"]]]:
        """The same for ω = 0, without the products. Of jets that are held."""
        assert self.jets is not None
        if self.offset is not None:
            return list(self.offset)
        nothing = lambda jet: jnp.zeros(len(jet), self.dtype)
        return [{entry: nothing(jet) for entry, jet in jets.items()} for jets in self.jets]

    def combined(self, weights: Float[Array, " N"]) -> list[dict[Entry, Float[Array, " _n"]]]:
        """The jet of Σ ω_i f_i at the points of each set. Linear in ω."""
        shares = self.split(weights)
        if self.jets is not None:
            return [
                {entry: jet @ shares[entry.unknown] for entry, jet in jets.items()} for jets in self.jets
            ]

        def jets(coords: Float[Array, "n d"], wanted: set[Axes], lattice: Lattice | None) -> dict:
            unknowns = self.problem.unknowns
            return bases.combine(self.basis, unknowns, shares, coords, self.phi, wanted, lattice)

        return each_set(self.problem, self.plan, self.sets, jets)

    def points(self, index: int) -> Points:
        """The points of a condition."""
        return self.sets[self.problem.places[index]]

    def equation(self, index: int) -> Callable[[dict[str, Any], Any], Float[Array, " rows"]]:
        """The equation of a condition as a function of a point's arrays and its stacked entries."""
        condition, entries = self.problem.conditions[index], self.plan.entries[index]
        rows = local(condition, self.problem.unknowns, self.problem.domain.names)
        return lambda where, vector: rows(dict(zip(entries, vector, strict=True)), where, self.phi)

    def stacked(self, index: int, fields: list[dict[Entry, Any]]) -> Float[Array, "n k"]:
        """The jet entries that a condition reads, at each of its points."""
        at = fields[self.problem.places[index]]
        return jnp.stack([at[entry] for entry in self.plan.entries[index]], axis=-1)

    def per_point(self, index: int, transform: Callable = lambda f: f) -> Callable:
        """The equation of a condition as a function of its stacked entries, mapped over its points.

        `transform` (`jax.jacfwd`, say) is applied to the function at one point before.
        """
        equation, where = self.equation(index), located(self.points(index))
        at_point = lambda z, v: transform(lambda w: equation(z, w))(v)
        return lambda stacked: jax.vmap(at_point)(where, stacked)

    def values(self, index: int, fields: list[dict[Entry, Any]]) -> Float[Array, "n rows"]:
        """What the equation of a condition returns at each of its points."""
        return self.per_point(index)(self.stacked(index, fields))

    def scale(self, index: int) -> Float[Array, " n"]:
        """What a row at each point is multiplied by: the root of its share in a weighted mean square,
        or for an energy its share in the integral."""
        condition = self.problem.conditions[index]
        weights = self.points(index).weights
        if condition.kind == "Energy":
            return condition.weight * weights
        return jnp.sqrt(condition.weight * weights / jnp.sum(weights))

    def rows(self, weights: Float[Array, " N"], kind: str) -> Float[Array, " n"]:
        """All scaled rows of the `Fit` or of the `Enforce` conditions, one after the other."""
        return self.rows_of(self.fields(weights), kind)

    def rows_of(self, fields: list[dict[Entry, Any]], kind: str) -> Float[Array, " n"]:
        """The same for the jet of any u."""
        parts = [(self.scale(i)[:, None] * self.values(i, fields)).ravel() for i in self.indices(kind)]
        return jnp.concatenate(parts) if parts else jnp.zeros(0, self.dtype)

    def energy(self, weights: Float[Array, " N"]) -> Float[Array, ""]:
        """The sum of the energies."""
        fields = self.fields(weights)
        return sum(
            (jnp.sum(self.scale(i) * self.values(i, fields)[:, 0]) for i in self.indices("Energy")),
            jnp.zeros((), weights.dtype),
        )

    def objective(self, weights: Float[Array, " N"]) -> Float[Array, ""]:
        """What is minimised: half the squares of the `Fit` rows, and the energies."""
        return 0.5 * jnp.sum(self.rows(weights, "Fit") ** 2) + self.energy(weights)

    def residuals(self, weights: Float[Array, " N"]) -> dict[str, Float[Array, ""]]:
        """For each condition the root mean square of its equation, or for an energy its integral."""
        fields, by_name = self.fields(weights), {}
        for i, (name, condition) in enumerate(
            zip(self.problem.names(), self.problem.conditions, strict=True)
        ):
            values, share = self.values(i, fields), self.scale(i)
            if condition.kind == "Energy":
                by_name[name] = jnp.sum(share * values[:, 0])
            else:
                mean = jnp.sum((share[:, None] * values) ** 2) / condition.weight
                by_name[name] = _root(mean / values.shape[1])
        return by_name

    def indices(self, kind: str) -> list[int]:
        return [i for i, c in enumerate(self.problem.conditions) if c.kind == kind]

    def count(self, kind: str) -> int:
        """The number of rows of a kind."""
        return sum(self.plan.rows[i] * len(self.points(i)) for i in self.indices(kind))

    @property
    def is_affine(self) -> bool:
        return all(self.plan.affine)

    @property
    def dtype(self) -> Any:
        return self.sets[0].coords.dtype


class QuadraticModel(eqx.Module):
    """A system seen from a point ω: for a step p

        ½ ‖A p + r‖² + ½ (E p)ᵀ D (E p) + gᵀ p    subject to    C p + c = 0.

    A and r come from `Fit`, E (jets), D (local second derivatives) and g from `Energy`, C and c from
    `Enforce`. An operator is None where there are no rows.
    """

    A: lx.AbstractLinearOperator | None
    r: Float[Array, " n"]
    E: lx.AbstractLinearOperator | None
    D: Float[Array, "q k k"] | None
    g: Float[Array, " N"]
    C: lx.AbstractLinearOperator | None
    c: Float[Array, " m"]

    def slope(self, p: Float[Array, " N"] | None = None) -> Float[Array, " N"]:
        """The gradient of all but the equalities, at a step p or where no step is taken."""
        total = self.g
        if self.A is not None:
            total = total + transposed(self.A, self.r if p is None else self.A.mv(p) + self.r)
        if self.E is not None and p is not None:
            total = total + transposed(self.E, weigh(self.D, self.E.mv(p)))
        return total

    def gram(self, ridge: Float[Array, " N"], with_equalities: bool = False) -> Gram:
        """The second derivative, plus CᵀC if asked for."""
        blocks = [(self.A, None), (self.E, self.D), (self.C if with_equalities else None, None)]
        return Gram(tuple((rows, metric) for rows, metric in blocks if rows is not None), ridge)

    def scaled(self, columns: Float[Array, " N"]) -> "QuadraticModel":
        """The same model for p divided by `columns`."""
        shrink = lambda rows: scale_columns(rows, columns)
        return self._with(shrink, columns * self.g)

    def written_out(self) -> "QuadraticModel":
        """The same model, scaled matrices multiplied out: for those who take many products."""
        return self._with(written_out, self.g)

    def _with(self, change: Callable, g: Float[Array, " N"]) -> "QuadraticModel":
        A, E, C = (None if rows is None else change(rows) for rows in (self.A, self.E, self.C))
        return QuadraticModel(A, self.r, E, self.D, g, C, self.c)


def build(
    problem: Problem,
    basis: BasisLike,
    phi: Phi,
    sets: tuple[Points, ...],
    materialise: bool = True,
    whole: bool = False,
) -> System:
    """The system for one φ. With `materialise=False` no n×N array is ever made.

    With `whole`, all that any condition reads is evaluated in the interior too.
    """
    sets = problem.domain.placed(sets, phi)
    basis = bases.specialise(basis, phi)
    plan = make_plan(problem, basis, phi, sets)
    if whole:
        read = {entry._replace(place="") for entries in plan.entries for entry in entries}
        plan = replace(plan, beside=tuple(sorted(read)))
    unknowns = problem.unknowns

    def jets(coords: Float[Array, "n d"], wanted: set[Axes], lattice: Lattice | None) -> dict:
        return bases.evaluate(basis, unknowns, coords, phi, wanted, lattice)

    def fixed(coords: Float[Array, "n d"], wanted: set[Axes], lattice: Lattice | None) -> dict:
        return bases.offsets(basis, unknowns, coords, phi, wanted) or {}

    held = tuple(each_set(problem, plan, sets, jets)) if materialise else None
    offset = tuple(each_set(problem, plan, sets, fixed)) if basis.offset is not None else None
    return System(problem, basis, phi, sets, plan, held, offset)


def make_plan(problem: Problem, basis: BasisLike, phi: Phi, sets: tuple[Points, ...]) -> Plan:
    names = problem.domain.names
    placed = [(c, sets[place]) for c, place in zip(problem.conditions, problem.places, strict=True)]
    asked = [asks_for(c, problem.unknowns, names, points, phi) for c, points in placed]
    entries = tuple(tuple(sorted(entries)) for entries, _ in asked)
    sizes = bases.sizes(basis, problem.unknowns, len(names), phi)
    natures = [
        _is_affine(problem, c, reads, points, phi)
        for (c, points), reads in zip(placed, entries, strict=True)
    ]
    affine = tuple(affine for affine, _ in natures)
    curved = tuple(i for i, (_, curved) in enumerate(natures) if curved)
    return Plan(entries, tuple(rows for _, rows in asked), affine, curved, tuple(sizes.items()))


def linearise(system: System, around: Float[Array, " N"] | None = None) -> QuadraticModel:
    """The quadratic model of the system around an ω; without one, around ω = 0."""
    nothing = jnp.zeros(system.plan.size, system.dtype)
    weights = nothing if around is None else around
    if system.jets is None:
        return _linearise_free(system, weights)
    fields = system.fields_at_zero() if around is None else system.fields(weights)
    A, r = _dense_rows(system, fields, "Fit")
    C, c = _dense_rows(system, fields, "Enforce")
    E, D, most = None, None, _most_entries(system)
    if curved := system.plan.curved:
        jets = [_pad(_jets_of(system, i), most, axes=(1,)) for i in curved]
        E = lx.MatrixLinearOperator(jnp.concatenate(jets).reshape(-1, system.plan.size))
        D = _curvature(system, fields, most)
    return QuadraticModel(A, r, E, D, _pull(system, weights), C, c)


def _dense_rows(
    system: System, fields: list, kind: str
) -> tuple[lx.AbstractLinearOperator | None, Float[Array, " n"]]:
    matrices = []
    for i in system.indices(kind):
        slopes = system.per_point(i, jax.jacfwd)(system.stacked(i, fields))
        slopes = system.scale(i)[:, None, None] * slopes
        matrices.append(_weigh(system, i, slopes).reshape(-1, system.plan.size))
    operator = lx.MatrixLinearOperator(jnp.concatenate(matrices)) if matrices else None
    return operator, system.rows_of(fields, kind)


def _weigh(system: System, index: int, slopes: Float[Array, "n rows k"]) -> Float[Array, "n rows N"]:
    """Rows of the Jacobian in ω: the derivatives by jet entries times the jets of the functions."""
    assert system.jets is not None
    jets = system.jets[system.problem.places[index]]
    blocks = []
    for unknown, size in system.plan.sizes:
        terms = [
            slopes[:, :, k, None] * jets[entry][:, None, :]
            for k, entry in enumerate(system.plan.entries[index])
            if entry.unknown == unknown
        ]
        blocks.append(sum(terms) if terms else jnp.zeros((*slopes.shape[:2], size), slopes.dtype))
    return jnp.concatenate(blocks, axis=-1)


def _jets_of(system: System, index: int) -> Float[Array, "n k N"]:
    """The jets of all functions that a condition reads: its Jacobian if it returned the entries."""
    n, k = len(system.points(index)), len(system.plan.entries[index])
    same = jnp.eye(k, dtype=system.dtype)
    return _weigh(system, index, jnp.broadcast_to(same, (n, k, k)))


def _pull(system: System, weights: Float[Array, " N"]) -> Float[Array, " N"]:
    """The gradient of the energies."""
    if not system.indices("Energy"):
        return jnp.zeros_like(weights)
    return jax.grad(system.energy)(weights)


def _most_entries(system: System) -> int:
    """How many jet entries a curved energy reads at most; the others are padded to as many."""
    return max((len(system.plan.entries[i]) for i in system.plan.curved), default=0)


def _curvature(system: System, fields: list, most: int) -> Float[Array, "q k k"]:
    """Second derivatives of the curved energies by the jet entries at each quadrature point."""
    parts = []
    for i in system.plan.curved:
        curvature = system.per_point(i, jax.hessian)(system.stacked(i, fields))[:, 0]
        parts.append(_pad(system.scale(i)[:, None, None] * curvature, most, axes=(1, 2)))
    return jnp.concatenate(parts)


def _pad(x: Array, length: int, axes: tuple[int, ...]) -> Array:
    widths = [(0, length - n) if axis in axes else (0, 0) for axis, n in enumerate(x.shape)]
    return jnp.pad(x, widths)


def _linearise_free(system: System, weights: Float[Array, " N"]) -> QuadraticModel:
    """The same model with operators that recompute the basis for every product."""
    like = jax.ShapeDtypeStruct(weights.shape, weights.dtype)

    def operator(kind: str) -> tuple[lx.AbstractLinearOperator | None, Float[Array, " n"]]:
        def rows(w: Float[Array, " N"]) -> Float[Array, " n"]:
            return system.rows(w, kind)

        if not system.indices(kind):
            return None, jnp.zeros(0, weights.dtype)
        push = lambda p: jax.jvp(rows, (weights,), (p,))[1]
        return lx.FunctionLinearOperator(push, like), rows(weights)

    A, r = operator("Fit")
    C, c = operator("Enforce")
    E, D, most = None, None, _most_entries(system)
    if curved := system.plan.curved:

        def entries(w: Float[Array, " N"]) -> Float[Array, " qk"]:
            fields = system.combined(w)
            parts = [_pad(system.stacked(i, fields), most, axes=(1,)) for i in curved]
            return jnp.concatenate(parts).ravel()

        E = lx.FunctionLinearOperator(entries, like)
        D = _curvature(system, system.fields(weights), most)
    return QuadraticModel(A, r, E, D, _pull(system, weights), C, c)


def each_set(
    problem: Problem, plan: Plan, sets: tuple[Points, ...], jets: Callable[[Any, Any, Any], dict]
) -> list[dict[Entry, Any]]:
    """What the conditions ask for, evaluated once for each set of points and each of its partners:
    `jets(coords, wanted, lattice)`."""
    at_sets: list[dict[Entry, Any]] = []
    for index, points in enumerate(sets):
        asked = {
            entry
            for place, entries in zip(problem.places, plan.entries, strict=True)
            if place == index
            for entry in entries
        }
        if problem.is_interior(index):
            asked |= set(plan.beside)
        at_set: dict[Entry, Any] = {}
        for place in sorted({entry.place for entry in asked}):
            coords = points.partners[place] if place else points.coords
            here = {entry for entry in asked if entry.place == place}
            values = jets(coords, {entry.axes for entry in here}, None if place else points.lattice)
            at_set |= {entry: values[entry.unknown, entry.axes] for entry in here}
        at_sets.append(at_set)
    return at_sets


def _is_affine(
    problem: Problem, condition: Condition, entries: tuple[Entry, ...], points: Points, phi: Phi
) -> tuple[bool, bool]:
    """Whether a condition's rows, or an energy's gradient, are affine in u; whether it is a curved
    energy."""
    rows = local(condition, problem.unknowns, problem.domain.names)
    where = jax.tree.map(lambda a: a[0], located(points))
    at_zero = jnp.zeros(len(entries))

    def of(vector: Float[Array, " k"]) -> Array:
        out = rows(dict(zip(entries, vector, strict=True)), where, phi)
        return out if condition.kind != "Energy" else out[0]

    straight = is_affine(of, at_zero)
    if condition.kind != "Energy":
        return straight, False
    return straight or is_affine(jax.grad(of), at_zero), not straight


def _root(x: Float[Array, ""]) -> Float[Array, ""]:
    """Square root with derivative zero, not infinite, at zero."""
    return jnp.where(x == 0, 0.0, jnp.sqrt(jnp.where(x == 0, 1.0, x)))
