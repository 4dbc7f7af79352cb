"""Reading a compiled solver: held arrays, the network, and in the header what they are (see `save.py`).

Reading one runs no code from it: the experiment in the header names an installed problem and a network
of ours. A problem of the user's own is given to `load_compiled`.
"""

import os
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ..basis.basis import specialise
from ..basis.networks import Modes
from ..family import Family
from ..family.distance import MahalanobisDistance
from ..family.experiment import basis_of, problem_of, solver_of
from ..family.metrics import ErrorSummary
from ..family.own import own
from ..family.trained import COMPILED, experiment_in, find
from ..layer.creased import front_solver
from ..layer.solve import complete
from ..layer.solvers import GaussNewton, LinearSolver
from ..layer.system import Plan, make_plan
from ..state.jet import Entry
from ..state.points import Points
from ..state.problem import Problem
from ..support import storage
from . import crease as creases
from .core import Core
from .crease import CREASED, FRONT, SMOOTH, Crease
from .forms import Form, Held, Live
from .online import Rules
from .save import OF_FRONT, START, jet_name
from .snapshots import all_fitted
from .solver import Compiled, phi_shapes
from .statistics import PhiStatistics, WarmStart


def load_compiled(
    path: str | os.PathLike[str],
    problem: Problem | Family | str | None = None,
    basis: Any = None,
    solver: LinearSolver | GaussNewton | None = None,
) -> Compiled:
    """A solver from a file.

    One that was made from a `Trained` of an installed problem needs nothing else; for a problem of your
    own `problem` is its family or a word for it (a .py file), as in `pdecl.load`. For one that was made
    of a problem and a basis, `problem` and `basis` are those; the basis may be untrained: its arrays are
    in the file.
    """
    path = find(path)
    recipe = storage.recipe_in(path)
    if recipe.get("kind") != COMPILED:
        raise storage.ModelFileError(
            f"{path} holds a trained network, not a compiled solver: read it with pdecl.load, and "
            "pdecl.compile makes a solver of it."
        )
    try:
        named: Any = problem
        if isinstance(problem, Problem) and "experiment" in recipe:
            named = own(problem, str(recipe["experiment"].get("problem")), {})
        experiment = experiment_in(recipe, path, named) if "experiment" in recipe else None
        shapes = {name: (tuple(shape), dtype) for name, (shape, dtype) in recipe["arrays"].items()}
        held = {name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}
        kinds = [_Kind.read(recipe)]
        if "front" in recipe:
            kinds.append(_Kind.read(recipe["front"]))
        error = ErrorSummary(**recipe["error"])
    except storage.ModelFileError:
        raise
    except (KeyError, TypeError, ValueError) as wrong:
        raise storage.ModelFileError(f"{path}: its header is not that of a solver ({wrong}).") from wrong
    if experiment is not None:
        problem = problem if isinstance(problem, Problem) else problem_of(experiment)
        basis = basis_of(experiment, jr.key(0)) if basis is None else basis
        solver = solver_of(experiment) if solver is None else solver
        problem = all_fitted(problem) if isinstance(basis, Modes) else problem
    if not isinstance(problem, Problem) or basis is None:
        raise storage.ModelFileError(
            f"{path} was compiled from a problem of your own, which no file holds. Read it in Python "
            "with the same problem and basis: pdecl.load(path, problem, basis=basis)."
        )
    like = {"basis": basis, "held": jax.tree.map(jnp.asarray, held)}
    filled = storage.load_into(like, path)
    try:
        core = _core(problem, filled["basis"], filled["held"], complete(solver), *kinds)
    except KeyError as wrong:
        raise storage.ModelFileError(f"{path}: it lacks the array {wrong}.") from wrong
    known = recipe.get("calibration")
    calibration = None if known is None else (float(known[0]), float(known[1]))
    return Compiled(core, error, experiment, recipe.get("training"), calibration)


class _Kind(NamedTuple):
    """What a file's header says of a core: functions of each unknown, how steps are taken, and
    the power of a warm start."""

    sizes: tuple[tuple[str, int], ...]
    steps: str
    max_steps: int
    lean: bool
    power: int

    @classmethod
    def read(cls, recipe: dict[str, Any]) -> "_Kind":
        sizes = tuple((str(unknown), int(size)) for unknown, size in recipe["functions"])
        power = int(recipe.get("guess power", 1))
        return cls(sizes, str(recipe["steps"]), int(recipe["max_steps"]), bool(recipe["lean"]), power)


def _core(
    problem: Problem,
    basis: Any,
    held: dict[str, Any],
    solver: GaussNewton,
    kind: _Kind,
    front: _Kind | None = None,
) -> Core:
    """The core of a solver; with `front`, of one whose functions crease."""
    sets = tuple(_points(held, number) for number in range(len(problem.sets())))
    shapes = phi_shapes(problem, held["phi mean"])
    one = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    form: Form = Live(None)
    jets, unknowns = None, problem.unknowns
    if front is not None:
        form, whole = _crease(problem, basis, held, sets, one, kind, front)
        unknowns = (SMOOTH, CREASED, FRONT)
    else:
        whole = make_plan(problem, specialise(basis, one), one, sets)
    plan = replace(whole, sizes=kind.sizes)
    if any(name.startswith("jet ") for name in held):
        form = Held(held["expansion"]) if front is None else form
        jets = tuple(
            {entry: held[jet_name(number, entry)] for entry in _entries(problem, plan, number)}
            | {
                entry: held[jet_name(number, entry)]
                for entry in set().union(*plan.entries)
                if jet_name(number, entry) in held
            }
            for number in range(len(sets))
        )
    values = {name: held[f"values {name}"] for name in unknowns if f"values {name}" in held}
    parts = ("mean", "directions", "deviations", "scale")
    metric = MahalanobisDistance(*(held[f"phi {part}"] for part in parts))
    around = PhiStatistics(metric, _warm_start(held, metric, kind.power))
    return Core(
        problem, basis, sets, plan, jets, form, held.get("weighing"), held.get("norm"), around,
        held.get("at"), values or None, Rules(kind.steps, held["rtol"], kind.max_steps), solver,
        kind.lean,
    )  # fmt: skip


def _warm_start(held: dict[str, Any], metric: MahalanobisDistance, power: int) -> WarmStart | None:
    if "guess" not in held:
        return None
    arrays = {field: held[name] for name, field in START.items() if name in held}
    if "least" not in arrays:  # of version 0.1: in coordinates of the distance
        size = arrays["centres"].shape[1]
        arrays["least"], arrays["mean"] = jnp.zeros_like(metric.mean), metric.mean
        arrays["directions"] = (metric.directions / jnp.sqrt(metric.deviations))[:, :size]
    return WarmStart(**arrays, power=power)


def _crease(
    problem: Problem,
    basis: Any,
    held: dict[str, Any],
    sets: tuple[Points, ...],
    phi: Any,
    kind: _Kind,
    front: _Kind,
) -> tuple[Crease, Plan]:
    inner = creases.inner_of(basis)
    if inner is None:
        raise storage.ModelFileError("this solver was compiled from a basis that is Creased; give one.")
    smooth, creased = (size for _, size in kind.sizes)
    orders = creases.orders_of(problem, make_plan(problem, inner, phi, sets))
    parted = creases.parted(problem, orders)
    of_front = {
        name.removeprefix(OF_FRONT): array for name, array in held.items() if name.startswith(OF_FRONT)
    }
    core = _core(basis.front, inner, of_front, front_solver(), front)
    plan = creases.parted_plan(parted, orders, sets, phi, (smooth, creased))
    return Crease(held["expansion"], parted, core, held["blur"], orders, basis.along), plan


def _points(held: dict[str, Any], number: int) -> Points:
    def named(kind: str) -> dict[str, Any]:
        start = f"set {number} {kind} "
        return {
            name.removeprefix(start): array for name, array in held.items() if name.startswith(start)
        }

    return Points(
        held[f"set {number} coords"],
        weights=held[f"set {number} weights"],
        partners=named("partner"),
        **named("data"),
    )


def _entries(problem: Problem, plan: Plan, number: int) -> set[Entry]:
    return {
        entry
        for entries, place in zip(plan.entries, problem.places, strict=True)
        if place == number
        for entry in entries
    }
