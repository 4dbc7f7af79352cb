"""What is found out once about a trained basis: full answers for training φ, and jets at many points."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..basis import basis as bases
from ..layer.batching import in_parts
from ..layer.creased import fold, front_solver
from ..layer.residual import relative_residuals
from ..layer.solve import complete, sizes_of, solve
from ..layer.solvers import GaussNewton, LinearSolver
from ..layer.system import Plan, build, make_plan
from ..state.affine import depends
from ..state.condition import Enforce, Fit
from ..state.domain import Region
from ..state.jet import Entry
from ..state.points import Points
from ..state.problem import Problem, default_count
from ..state.rules import LowDiscrepancy, Nodes, Uniform
from ..support.status import Status, usable
from . import crease as creases
from .crease import CREASED, SMOOTH, Orders
from .forms import Form, Held, Live, Rows

_CANDIDATES = 5  # times as many points to choose from as a solve would draw
_QUADRATURE = 4096  # points on which functions are compared
TOGETHER = 50  # φ solved in one batch
_HELD_OUT = 4  # one φ of this many is left out, to measure errors on


class FrontSnapshots(eqx.Module):
    """What is known of the front that functions crease along.

    - `problem`: the conditions on the two parts of u. `orders`: what is held at the points of each set.
    - `snapshots`: of the front's own problem, for the same φ.
    - `folds`: g on the quadrature set, for each φ.
    """

    problem: Problem
    orders: Orders = eqx.field(static=True)
    snapshots: "Snapshots"
    blur: Float[np.ndarray, ""]
    folds: Float[np.ndarray, "S q"]


class Snapshots(eqx.Module):
    """A basis, training φ with their answers ω, and candidate points.

    - `candidates`: for each set of the problem the points to choose from; `open` says of which sets
      points may be left out. Quadrature of an energy, equalities and points that a user placed stay
      whole.
    - `jets`: what conditions read of all functions at the candidates; None for a basis that sees φ.
    - `values`: the functions on a quadrature set over the domain, by unknown; None likewise.
    - `phis`, `weights`, `jets`, `values` are NumPy's: outside of `jit` JAX compiles for every shape.
    - `front`: for a basis that is creased along a front, and else does not see φ. There `plan`, `jets`
      and `values` are those of two unknowns, the smooth part and what is creased, and the candidates
      hold all functions.
    - `experiment`: the one that made the basis, if it is one of ours.
    - `kept`, `held_out`: numbers of the φ that are learned from, and of those that errors are measured
      on.
    """

    problem: Problem
    basis: Any
    solver: GaussNewton
    phis: Any
    weights: Float[np.ndarray, "S N"]
    plan: Plan = eqx.field(static=True)
    candidates: tuple[Points, ...]
    open: tuple[bool, ...] = eqx.field(static=True)
    jets: tuple[dict[Entry, Float[np.ndarray, "_n _N"]], ...] | None
    quadrature: Float[Array, "q d"]
    values: dict[str, Float[np.ndarray, "q _N"]] | None
    kept: np.ndarray
    held_out: np.ndarray
    front: FrontSnapshots | None = None
    experiment: Any = None

    @property
    def sees_phi(self) -> bool:
        """Whether the network has to run for every φ."""
        return self.jets is None

    @property
    def stated(self) -> Problem:
        """The problem whose unknowns have the functions."""
        return self.problem if self.front is None else self.front.problem

    @property
    def most(self) -> int:
        """How many functions can be asked for, for each unknown."""
        sizes = [size for _, size in self.plan.sizes]
        return min(min(sizes) if self.front is None else sum(sizes), len(self.kept))

    def rows(self, form: Form) -> Rows:
        """All rows, at the candidates."""
        return Rows(self.problem, self.basis, self.candidates, self.plan, self.jets, form)

    def phi(self, number: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[number], self.phis)

    def some(self, numbers: np.ndarray) -> Any:
        return jax.tree.map(lambda leaf: leaf[numbers], self.phis)


def take_snapshots(
    problem: Problem,
    basis: Any,
    phis: Any,
    solver: LinearSolver | GaussNewton | None = None,
    progress: Callable[[int], None] = lambda more: None,
    weights: Float[np.ndarray, "S N"] | None = None,
) -> Snapshots:
    """Solves for the training φ with all functions, and evaluates these at the candidate points.

    `progress(k)` hears of k more φ that are solved for. `weights`: the answers, where they are known.
    """
    phis = problem.check_many(phis)
    leaves = jax.tree.leaves(phis)
    if not leaves or len(leaves[0]) < 2 * _HELD_OUT:
        found = len(leaves[0]) if leaves else 0
        raise ValueError(
            f"`phis`: {found} φ are too few to learn from; give at least {2 * _HELD_OUT}, or hundreds."
        )
    count, complete_solver = len(leaves[0]), complete(solver)
    size = sum(sizes_of(problem, basis, jax.tree.map(lambda leaf: leaf[0], phis)).values())
    codes = np.full(count, int(Status.SOLVED))
    if weights is None:
        points = problem.draw(size)
        one = lambda phi: solve(
            problem, basis, phi, points=points, solver=complete_solver, throw=False, residual_limit=None
        )

        def answers(phis: Any) -> tuple[Array, Array]:
            found = jax.vmap(one)(phis)
            return found.weights, found.code

        weights, codes = in_parts(answers, phis, TOGETHER, progress)
    good = np.flatnonzero(usable(codes))
    if len(good) < 2 * _HELD_OUT:
        raise ValueError(
            f"only {len(good)} of {count} training φ could be solved for with the whole basis; first "
            f"failure: {Status(int(codes[np.argmax(codes > 1)]))}."
        )
    left_out = np.arange(len(good)) % _HELD_OUT == _HELD_OUT - 1
    open_sets = tuple(_is_open(problem, index) for index in range(len(problem.sets())))
    candidates = tuple(
        _candidates(problem, index, size) if free else drawn
        for index, (free, drawn) in enumerate(zip(open_sets, problem.draw(size), strict=True))
    )
    one = jax.tree.map(lambda leaf: leaf[0], phis)
    quadrature = problem.domain.interior.draw(None, _QUADRATURE).coords
    jets: Any = None
    values: Any = None
    front = None
    if phi_independent(problem, basis, one):
        inner = creases.inner_of(basis)
        plan = make_plan(problem, basis if inner is None else inner, one, candidates)
        values = eqx.filter_jit(values_of)(problem, basis if inner is None else inner, one, quadrature)
        if inner is None:
            # With what only faces read in the interior too: relative residuals ask for its size there.
            jets = eqx.filter_jit(build)(problem, basis, one, candidates, whole=True).jets
        else:
            (functions,) = values.values()
            front = _front(problem, basis, plan, phis, np.asarray(functions))
            values = dict(
                zip((SMOOTH, CREASED), np.split(functions, [size - basis.along], axis=1), strict=True)
            )
            candidates = creases.held(inner, problem, candidates, one, front.orders)
            sizes = size - basis.along, basis.along
            plan = creases.parted_plan(front.problem, front.orders, candidates, one, sizes)
            jets = creases.jets_in(candidates, plan, problem.places, front.orders)
        jets, values = jax.tree.map(np.asarray, (jets, values))
    else:
        plan = make_plan(problem, bases.specialise(basis, one), one, candidates)
    return Snapshots(
        problem, basis, complete_solver, jax.tree.map(np.asarray, phis), weights, plan, candidates,
        open_sets, jets, quadrature, values, good[~left_out], good[left_out], front,
    )  # fmt: skip


def _front(
    problem: Problem, basis: Any, plan: Plan, phis: Any, functions: Float[np.ndarray, "q N"]
) -> FrontSnapshots:
    orders = creases.orders_of(problem, plan)
    snapshots = take_snapshots(basis.front, basis.basis, phis, front_solver())
    blur = np.asarray(np.exp(basis.log_blur), float)
    folds = np.asarray(fold(jnp.asarray(snapshots.weights @ functions.T), jnp.asarray(blur)))
    return FrontSnapshots(creases.parted(problem, orders), orders, snapshots, blur, folds)


def all_fitted(problem: Problem) -> Problem:
    """The problem with equalities as rows that are fitted: combinations of solutions hold what all of
    these hold."""
    if not any(isinstance(c, Enforce) for c in problem.conditions):
        return problem
    fitted = [Fit(c.equation, c.on, c.weight, c.name, c.residual_limit) for c in problem.conditions]
    return Problem(problem.domain, fitted, problem.parameter, problem.unknowns)


def residuals_of(
    snapshots: Snapshots, phis: Any, weights: Float[Array, "batch N"]
) -> Float[np.ndarray, " batch"]:
    """What answers leave at all candidate points: for each φ the largest relative residual."""
    rows = snapshots.rows(Live(None) if snapshots.sees_phi else Held(None))
    return np.asarray(_residuals_of(rows, jax.tree.map(jnp.asarray, phis), jnp.asarray(weights)))


@eqx.filter_jit
def _residuals_of(rows: Rows, phis: Any, weights: Float[Array, "batch N"]) -> Float[Array, " batch"]:
    def one(case: Any) -> Float[Array, ""]:
        phi, own = case
        return jnp.max(jnp.stack(list(relative_residuals(rows.system(phi), own).values())))

    return jax.lax.map(one, (phis, weights), batch_size=TOGETHER)


def values_of(
    problem: Problem, basis: Any, phi: Any, coords: Float[Array, "q d"]
) -> dict[str, Float[Array, "q _N"]]:
    """The values of all functions at points, by unknown."""
    found = bases.evaluate(bases.specialise(basis, phi), problem.unknowns, coords, phi, {()})
    return {unknown: values for (unknown, _), values in found.items()}


def sees_phi(problem: Problem, basis: Any, phi: Any) -> bool:
    """Whether the functions of a basis depend on φ, read off its program; in doubt, yes."""
    coords = jnp.zeros((1, len(problem.domain.names)))
    functions = lambda phi: bases.evaluate(
        bases.specialise(basis, phi), problem.unknowns, coords, phi, {()}
    )
    return depends(functions, phi)


def phi_independent(problem: Problem, basis: Any, phi: Any) -> bool:
    """Whether all that a network computes can be held for all φ: its functions do not depend on φ, but
    for a crease along a front that is a sum of them."""
    inner = creases.inner_of(basis)
    if inner is None:
        return not sees_phi(problem, basis, phi)
    return len(problem.unknowns) == 1 and not sees_phi(problem, inner, phi)


def rows_of(problem: Problem, plan: Plan, sets: tuple[Points, ...]) -> int:
    """How many rows the conditions have on sets of points."""
    return sum(rows * len(sets[place]) for rows, place in zip(plan.rows, problem.places, strict=True))


def _is_open(problem: Problem, index: int) -> bool:
    on = problem.sets()[index]
    here = [c for c, place in zip(problem.conditions, problem.places, strict=True) if place == index]
    placed = isinstance(on, Region) and isinstance(on.rule, LowDiscrepancy | Uniform | Nodes | None)
    return placed and all(c.kind == "Fit" for c in here)


def _candidates(problem: Problem, index: int, size: int) -> Points:
    on = problem.sets()[index]
    usual = on.rule.count if on.rule is not None else default_count(problem, index, size)
    return replace(on, rule=LowDiscrepancy(_CANDIDATES * usual)).draw(None, 1)
