"""Solutions for a stream of φ, one compiled batch after the other."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh

from ..family import SPLITS
from ..family import phi as phis
from ..family.experiment import family_of
from ..family.trained import Trained
from ..layer.solution import RESIDUAL_LIMIT, Given, Solution, worst_held
from ..layer.solve import sizes_of
from ..parallel.devices import mesh_of, over_devices, placed
from ..reduced import Compiled
from ..reduced.validation import Batch, count_of, validate
from ..state.problem import Problem
from ..support.status import Status
from .distance import distance_of
from .phi import Source
from .queries import FOUND, CompiledQuery, LayerQuery, asked, values_at
from .query import Query
from .summary import usable
from .target import Bounds, ErrorTarget, check_bounds


@dataclass(frozen=True)
class Answers:
    """What is known of φ number `start` and those after it.

    - `values`: by name ("u", "u_x", …), `(count, *query.shape)`; NaN for a φ that was rejected.
    - `codes`: of `Status`. `messages`: what is wrong, "" for nothing.
    - `residual`: for each condition, as in `Solution`. `distance`: see `MahalanobisDistance`.
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
        model: Trained | Compiled,
        shape: Any,
        query: Query,
        batch: int,
        target: ErrorTarget | None = None,
        residual_limit: float = RESIDUAL_LIMIT,
    ):
        if batch < 1:
            raise ValueError(f"batch must be at least 1; found {batch}.")
        _require_grid(model, shape)
        self.model, self.trained = model, trained_of(model)
        self.shape, self.query, self.batch, self.target = shape, query, batch, target
        self.residual_limit = residual_limit
        self.problem = problem_for(model, shape)
        self.family = family_of(self.trained.experiment, _grid(self.trained, shape))
        some = self.family.sample(SPLITS["train"].seed, 1)
        self.stand_in = phis.take(some, 0)
        sizes = sizes_of(self.problem, self.trained.basis, self.stand_in)
        self.points = self.problem.draw(sum(sizes.values()))
        self.ask = asked(model, self.problem, self.points, query, residual_limit)
        self.distance = distance_of(self.family)

    def __call__(self, batch: Batch, start: int = 0) -> Answers:
        good, messages = validate(self.family, self.shape, batch)
        mesh = mesh_of(jax.local_devices(), "solve")
        together = -(-self.batch // mesh.size) * mesh.size
        phi = phis.stack([good.get(place, self.stand_in) for place in range(together)])
        side = self.family.grid_of(phi) if self.target is not None else None
        if mesh.size > 1:
            phi = placed(phi, mesh)
        found = jax.device_get(_answer(self.ask, phi, side, mesh if mesh.size > 1 else None))
        count = count_of(batch)
        rejected = np.asarray([place not in good for place in range(count)])
        bounds = None
        if self.target is not None:
            bounds, better = check_bounds(
                self.trained, self._solution(phi, found), self.target, found["nodes"], list(good)
            )
            for place, solution in better.items():
                _replace(found, place, solution, self.query)
            bounds = bounds.of(count, rejected)
        blank = lambda values: np.where(rejected.reshape(-1, *[1] * (values.ndim - 1)), np.nan, values)
        codes = np.where(rejected, Status.REJECTED, found["code"][:count])
        messages = [
            message or _words(int(code), self.problem, found["measured"], place)
            for place, (message, code) in enumerate(zip(messages, codes, strict=True))
        ]
        if bounds is not None and self.target is not None:
            messages = [
                message or self.target.violation(float(relative))
                for message, relative in zip(messages, bounds.relative, strict=True)
            ]
        return Answers(
            start=start,
            values={name: blank(self.query.arrange(u[:count])) for name, u in found["values"].items()},
            codes=codes.astype(np.int8),
            iterations=np.where(rejected, 0, found["iterations"][:count]).astype(np.int32),
            residual={name: blank(r[:count]) for name, r in found["residual"].items()},
            distance=blank(self.distance(phis.take(phi, slice(0, count)))),
            messages=messages,
            bounds=bounds,
            phi={
                name: blank(np.asarray(array[:count], float))
                for name, array in phis.columns(phi, self.family.phi_name).items()
            },
        )

    def _solution(self, phi: Any, found: dict[str, Any]) -> Solution:
        outcome = {name: found[name] for name in FOUND}
        phi, outcome = jax.tree.map(jax.numpy.asarray, (phi, outcome))
        return Solution(Given.of(self.problem, self.trained.basis, self.points), phi, **outcome)

    def stream(self, source: Source, start: int = 0) -> Iterator[Answers]:
        """Answers for φ number `start` and on, a batch at a time."""
        for batch in source.batches(start, self.batch):
            yield self(batch, start)
            start += count_of(batch)


@eqx.filter_jit
def _answer(
    ask: LayerQuery | CompiledQuery, phi: Any, side: int | None, mesh: Mesh | None = None
) -> dict[str, Any]:
    """All about a batch, which is split over the devices of a mesh. With `side` also u at the nodes of
    φ's grid, with this many nodes a side, for which the network need not run again here."""
    outcome, values, nodes = over_devices(lambda ask, phi: ask(phi, side), mesh, ask, phi)
    return {"values": values, "nodes": nodes, **outcome}


def _replace(found: dict[str, Any], place: int, solution: Solution, query: Query) -> None:
    """Puts the answer of a refined φ, a batch of one, instead of what was found at first."""
    new = values_at(solution, query.coords, query.derivatives)
    for group, values in (("values", new), ("residual", solution.residual)):
        found[group] = {name: _with(found[group][name], place, values[name]) for name in values}
    for name in ("code", "iterations"):
        found[name] = _with(found[name], place, getattr(solution, name))


def _with(values: np.ndarray, place: int, new: Any) -> np.ndarray:
    values = np.array(values)
    values[place] = np.asarray(new)[0]
    return values


def trained_of(model: Trained | Compiled) -> Trained:
    """The trained basis behind a model: its distribution, its functions, its bounds."""
    return model.trained if isinstance(model, Compiled) else model


def problem_for(model: Trained | Compiled, shape: Any) -> Problem:
    """The problem for φ of a shape."""
    trained = trained_of(model)
    return trained.problem(_grid(trained, shape))


def digest_of(model: Trained | Compiled) -> str:
    """SHA-256 over the experiment and every array: of the network, or of all that a solver holds."""
    experiment = trained_of(model).experiment
    digest = hashlib.sha256(json.dumps(experiment.as_dict(), sort_keys=True).encode())
    arrays = model.core if isinstance(model, Compiled) else model.basis
    for leaf in jax.tree.leaves(eqx.filter(arrays, eqx.is_array)):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def _grid(trained: Trained, shape: Any) -> int | None:
    """A φ on a grid says by its shape on which one it is to be solved."""
    return shape[0] if trained.experiment.family.on_grid else None


def _require_grid(model: Trained | Compiled, shape: Any) -> None:
    """A trained basis on a grid solves on any; its compiled solver on the one it was made for."""
    if isinstance(model, Compiled) and shape != phis.shape_of(model.phi_like):
        known = phis.shape_of(model.phi_like)
        raise ValueError(
            f"this solver was compiled for φ of shape {known}; found {shape}. Solve with the "
            "trained basis that it was compiled from, or compile that for another grid."
        )


def _words(code: int, problem: Problem, measured: dict[str, np.ndarray] | None, place: int) -> str:
    if usable(code):
        return ""
    if code != Status.NOT_HELD or measured is None:
        return str(Status(code))
    return f"{Status(code)}: {worst_held(problem, measured, place)}"
