"""Solutions for a stream of φ, one compiled batch after the other."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import ArrayLike, PyTree

from ..family import SPLITS
from ..family import phi as phis
from ..family.experiment import family_of
from ..family.model import OUTCOME, Model, values_at
from ..layer.solution import RESIDUAL_LIMIT, Given, Solution, worst_held
from ..layer.solve import sizes_of
from ..parallel.devices import mesh_of, over_devices, placed
from ..reduced.validation import Batch, checked_whole, count_of, validate
from ..state.problem import Problem
from ..support.status import Status, usable
from ..support.types import Phi
from .phi import Source
from .query import Query
from .summary import Bounds, ErrorTarget, check_bounds


@dataclass(frozen=True)
class Answers:
    """What is known of φ number `start` and those after it.

    - `values`: what the query keeps, by name; NaN for a φ that was rejected.
    - `codes`: of `Status`. `messages`: what is wrong, "" for nothing.
    - `residual`: for each condition, as in `Solution`. `distance`: how far φ is from the training φ.
    - `bounds`: of the errors, where they were asked for.
    - `phi`: the arrays of φ by name; NaN for one that was rejected.
    """

    start: int
    values: dict[str, np.ndarray]
    codes: np.ndarray
    iterations: np.ndarray
    residual: dict[str, np.ndarray]
    distance: np.ndarray
    messages: list[str]
    bounds: Bounds | None = None
    phi: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def stop(self) -> int:
        return self.start + len(self.codes)


class Predictor:
    """A trained basis, or a compiled solver, that answers batches of φ of one shape by one function.

    Short batches are filled up, and φ that the family's check refuses replaced, by a φ of the training
    distribution, whose answer is thrown away: one compilation, and no bad φ in reach of a good one.
    """

    def __init__(
        self,
        model: Model,
        shape: PyTree,
        query: Query,
        batch: int,
        target: ErrorTarget | None = None,
        residual_limit: float = RESIDUAL_LIMIT,
    ):
        if batch < 1:
            raise ValueError(f"batch must be at least 1; found {batch}.")
        _require_shape(model, shape)
        self.model, self.trained = model, model.trained
        self.shape, self.query, self.batch, self.target = shape, query, batch, target
        self.residual_limit = residual_limit
        mesh = mesh_of(jax.local_devices(), "solve")
        self.mesh = mesh if mesh.size > 1 else None
        grid = grid_of(model, shape)
        self.problem = self.trained.problem(grid)
        self.family = family_of(self.trained.experiment, grid)
        some = self.family.sample(SPLITS["train"].seed, 1)
        self.stand_in = phis.take(some, 0)
        sizes = sizes_of(self.problem, self.trained.basis, self.stand_in)
        self.points = self.problem.draw(sum(sizes.values()))
        weights_alone = query.functions is not None
        ask = model.as_query(
            self.points, query.coords, query.derivatives, residual_limit, weights_alone, grid
        )
        self._arrays, others = eqx.partition(ask, lambda leaf: isinstance(leaf, jax.Array | np.ndarray))
        leaves, structure = jax.tree.flatten(others)
        self._others = structure, tuple(leaves)
        self.distance = model.distance_on(grid)

    def __call__(self, batch: Batch, start: int = 0) -> Answers:
        return self.end(self.begin(batch, start))

    @property
    def _filled(self) -> int:
        """How many φ there are in a full batch: as many for each device."""
        each = 1 if self.mesh is None else self.mesh.size
        return -(-self.batch // each) * each

    def begin(self, batch: Batch, start: int = 0) -> "_Begun":
        """Sets the device to work on a batch, and does not wait for it."""
        phi, good, messages = self._checked(batch)
        side = self.family.grid_of(phi) if self.target is not None else None
        if self.mesh is not None:
            phi = placed(phi, self.mesh)
        found = _answer(self._arrays, phi, self._others, side, self.mesh)
        return _Begun(start, phi, good, messages, found)

    def end(self, begun: "_Begun") -> Answers:
        """What came of it."""
        found, count = jax.device_get(begun.found), len(begun.messages)
        rejected = ~begun.good
        bounds = None
        if self.target is not None:
            bounds, better = check_bounds(
                self.trained,
                self._solution(begun.phi, found),
                self.target,
                found["nodes"],
                np.flatnonzero(begun.good).tolist(),
            )
            for place, solution in better.items():
                _replace(found, place, solution, self.query)
            bounds = bounds.of(count, rejected)
        phi = {
            name: np.asarray(array[:count], float)
            for name, array in phis.columns(begun.phi, self.family.phi_name).items()
        }
        distance = self.distance(phis.take(begun.phi, slice(0, count)))
        values = self.query.keep({name: u[:count] for name, u in found["values"].items()})
        residual = {name: r[:count] for name, r in found["residual"].items()}
        codes, iterations = found["code"][:count], found["iterations"][:count]
        if rejected.any():
            blank = lambda v: np.where(rejected.reshape(-1, *[1] * (v.ndim - 1)), np.nan, v)
            kept = lambda known: {name: blank(v).astype(v.dtype) for name, v in known.items()}
            phi, values, residual = kept(phi), kept(values), kept(residual)
            distance = blank(distance)
            codes = np.where(rejected, Status.REJECTED, codes)
            iterations = np.where(rejected, 0, iterations)
        messages = list(begun.messages)
        for at in np.flatnonzero(~usable(codes) & begun.good).tolist():
            messages[at] = _words(int(codes[at]), self.problem, found["measured"], at)
        if bounds is not None and self.target is not None:
            messages = [
                message or self.target.violation(float(relative))
                for message, relative in zip(messages, bounds.relative, strict=True)
            ]
        return Answers(
            begun.start, values, codes.astype(np.int8), iterations.astype(np.int32), residual, distance,
            messages, bounds, phi,
        )  # fmt: skip

    def _checked(self, batch: Batch) -> tuple[Any, np.ndarray, list[str]]:
        """A full batch of φ, which of them are good, and what is wrong with the others."""
        count, whole = count_of(batch), checked_whole(self.family, self.shape, batch)
        if whole is not None and count == self._filled:
            return whole, np.ones(count, bool), [""] * count
        good, messages = validate(self.family, self.shape, batch)
        phi = phis.stack([good.get(place, self.stand_in) for place in range(self._filled)])
        return phi, np.array([place in good for place in range(count)]), messages

    def _solution(self, phi: Phi, found: dict[str, Any]) -> Solution:
        outcome = {name: found[name] for name in OUTCOME}
        phi, outcome = jax.tree.map(jax.numpy.asarray, (phi, outcome))
        return Solution(Given.of(self.problem, self.trained.basis, self.points), phi, **outcome)

    def stream(self, source: Source, start: int = 0) -> Iterator[Answers]:
        """Answers for φ number `start` and on, a batch at a time. Where φ need not be waited for, the
        next are drawn while a batch is solved, and the last are written."""
        begun: _Begun | None = None
        for batch in source.batches(start, self.batch):
            if begun is not None and jax.default_backend() == "cpu":
                # Programs side by side would share threads, and parts of some wait for each other.
                jax.block_until_ready(begun.found)
            ahead = self.begin(batch, start)
            start += count_of(batch)
            if begun is not None:
                yield self.end(begun)
            begun = ahead
            if source.count is None:
                yield self.end(begun)
                begun = None
        if begun is not None:
            yield self.end(begun)


class _Begun(NamedTuple):
    """A batch that the device is at work on."""

    start: int
    phi: Any
    good: np.ndarray
    messages: list[str]
    found: dict[str, Any]


@partial(jax.jit, static_argnums=(2, 3, 4))
def _answer(
    arrays: PyTree,
    phi: Phi,
    others: tuple[Any, tuple[Any, ...]],
    side: int | None,
    mesh: Mesh | None,
) -> dict[str, Any]:
    """All about a batch, which is split over the devices of a mesh. With `side` also u at the nodes of
    φ's grid, with this many nodes a side, for which the network need not run again here. It is not
    waited for, as Equinox's `filter_jit` would: hence the query's arrays and what else it is made of."""
    ask = eqx.combine(arrays, jax.tree.unflatten(*others))
    outcome, values, nodes = over_devices(lambda ask, phi: ask(phi, side), mesh, ask, phi)
    return {"values": values, "nodes": nodes, **outcome}


def _replace(found: dict[str, Any], place: int, solution: Solution, query: Query) -> None:
    """Puts the answer of a refined φ, a batch of one, instead of what was found at first."""
    new = values_at(solution, query.coords, query.derivatives)
    for group, values in (("values", new), ("residual", solution.residual)):
        found[group] = {name: _with(found[group][name], place, values[name]) for name in values}
    for name in ("code", "iterations"):
        found[name] = _with(found[name], place, getattr(solution, name))


def _with(values: np.ndarray, place: int, new: ArrayLike) -> np.ndarray:
    values = np.array(values)
    values[place] = np.asarray(new)[0]
    return values


def grid_of(model: Model, shape: PyTree) -> int | None:
    """A φ on a grid says by its shape on which one it is to be solved."""
    return shape[0] if model.trained.experiment.family.on_grid else None


def _require_shape(model: Model, shape: PyTree) -> None:
    if model.shape not in (None, shape):
        raise ValueError(
            f"this solver was compiled for φ of shape {model.shape}; found {shape}. Solve with the "
            "trained basis that it was compiled from, or compile that for another grid."
        )


def _words(code: int, problem: Problem, measured: dict[str, np.ndarray] | None, place: int) -> str:
    if code != Status.NOT_HELD or measured is None:
        return str(Status(code))
    return f"{Status(code)}: {worst_held(problem, measured, place)}"


def solutions_one_by_one(
    model: Model, source: Source, residual_limit: float = RESIDUAL_LIMIT
) -> Iterator[tuple[Solution | None, int, str]]:
    """For each φ its solution, the code of its `Status` and what is wrong, "" for nothing; None for a φ
    that was rejected."""
    family = model.trained.family
    for batch in source.batches(0, 1):
        good, messages = validate(family, source.shape, batch)
        if 0 not in good:
            yield None, int(Status.REJECTED), messages[0]
            continue
        solutions = model.solve(phis.stack([good[0]]), throw=False, residual_limit=residual_limit)
        solution = jax.tree.map(lambda leaf: leaf[0], solutions)
        code = int(solution.code)
        words = "" if usable(code) else str(Status(code))
        if code == Status.NOT_HELD and solution.measured is not None:
            words = f"{words}: {worst_held(solution.problem, solution.measured)}"
        yield solution, code, words
