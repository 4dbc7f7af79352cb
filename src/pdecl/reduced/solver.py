"""`Compiled`: a trained basis as a solver for many φ, and the answers it gives."""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float

from ..adaptive import solve_to_tolerance
from ..basis.networks import Modes
from ..family import Family
from ..family.distance import FAR
from ..family.experiment import Experiment, family_of
from ..family.metrics import ErrorSummary
from ..family.model import Model
from ..family.phi import shape_of
from ..family.trained import Trained, model_digest
from ..layer.solution import RESIDUAL_LIMIT, Given, Solution, check_residuals, raise_failed
from ..parallel.devices import mesh_of_batch, placed
from ..state.condition import require_limit
from ..state.points import Points, is_concrete
from ..state.problem import Problem, inside
from ..support.status import Status
from ..support.summary import Summary
from .core import Core, answer
from .forms import Live
from .query import CompiledQuery, query_of, whole_weights
from .save import save
from .snapshots import rows_of
from .validation import listed, messages_of

_NAMED = 5  # the most rejected φ that a warning names


class CompiledSolution(Solution):
    """A `Solution`, with what a compiled solver knows beside it.

    - `values`: u at the solver's query points (`at=`), `(q,)` or `(batch, q)`; for several unknowns a
      dictionary; None without any. Called at other points, the solution runs the network there.
    - `distance`: of φ from the training φ; above 1.5 it is outside of what the solver was made for.
    - `error_estimate`: of the relative L2 error, for a solver that `fit` made; else None.
    """

    values: Any = None
    distance: Any = None
    error_estimate: Any = None


@dataclass(frozen=True, repr=False)
class Compiled(Model):
    """What `compile` makes: `solver(phi)` for one φ, `solver(batch)` for many.

    - `functions`, `rows`: how many there are online. `functions_offline`: of the basis.
    - `error`: relative L2 distance of its answers from those of the whole basis, over held-out
      training φ: the price of fewer functions and fewer points. It says nothing about the basis
      itself.
    - `at`: the query points.
    - `training`: where it was trained without a network, what that took and what was tried.
    - `calibration`: (factor, least): an `error_estimate` is the rows' residual times the factor, so that
      it is above nearly all errors on φ that were left out, and the solutions' own estimate more.

    Differentiable in φ, in forward and reverse mode, for one more factorisation and a few products.
    """

    core: Core
    error: ErrorSummary
    experiment: Experiment | None = None
    training: Mapping[str, Any] | None = None
    calibration: tuple[float, float] | None = None

    def summary(self) -> Summary:
        problem = "a problem of one's own" if self.experiment is None else self.experiment.problem
        rows = [
            ("functions", f"{self.functions:,} of the basis's {self.functions_offline:,}"),
            ("rows", self.rows),
            ("error", f"{self.error}, beside the whole basis"),
            *[(name, value) for name, value in (self.training or {}).items() if name != "tried"],
            ("query points", "none" if self.at is None else len(self.at)),
            ("distance", f"1 for the farthest held-out training φ; a warning above {FAR:g}"),
        ]
        return Summary(f"Compiled solver for {problem}", rows)

    @property
    def functions(self) -> int:
        return self.core.plan.size

    @property
    def functions_offline(self) -> int:
        modes = self.core.form.modes
        return self.functions if modes is None else len(modes)

    @property
    def rows(self) -> int:
        return rows_of(self.core.problem, self.core.plan, self.core.sets)

    @property
    def at(self) -> Float[Array, "q d"] | None:
        return self.core.at

    def __call__(
        self, phi: Any, *, throw: bool | None = None, residual_limit: float | None = RESIDUAL_LIMIT
    ) -> CompiledSolution:
        """The solution for one φ or a batch: an array, or a list of φ.

        A φ that has NaN or the wrong length, or that the family's check refuses, does not disturb the
        others: its status is "rejected" (`Status.REJECTED`), its weights are NaN, and a warning says
        why. A φ far outside the training φ is answered, with a warning. `throw=True` raises at the
        first failure, a ValueError for a φ that is rejected; the default for one φ. A condition whose
        relative residual at the chosen points exceeds `residual_limit` does not hold, as in `solve`.
        φ that are split over devices are solved for where they are.
        """
        require_limit("a compiled solver", residual_limit)
        shapes = _shapes(self.core)
        wrong: dict[int, str] = {}
        like, leaves = jax.tree.leaves(shapes), jax.tree.leaves(phi)
        known = all(is_concrete(leaf) for leaf in leaves)
        if known and isinstance(phi, list | tuple) and isinstance(shapes, jax.ShapeDtypeStruct):
            phi, wrong = listed(phi, shapes.shape)
            leaves = [phi]
        batch = bool(leaves and like) and np.ndim(leaves[0]) > len(like[0].shape)
        throw = not batch if throw is None else throw
        if not known:
            check = self.core.problem.check_many if batch else self.core.problem.check
            return self._solution(check(phi), batch, residual_limit)
        mesh = mesh_of_batch(phi) if batch else None
        phi, rejected = self._validated(phi, batch)
        phi = phi if mesh is None else placed(phi, mesh)
        rejected = dict(sorted({**rejected, **wrong}.items()))
        if throw and rejected:
            number, why = next(iter(rejected.items()))
            raise ValueError(f"{_which(number, batch)} is rejected: {why}.")
        solution = self._solution(phi, batch, residual_limit, mesh)
        if rejected:
            bad = np.isin(np.arange(np.size(solution.code)), list(rejected)).reshape(solution.code.shape)
            codes = jnp.where(bad, int(Status.REJECTED), solution.code)
            solution = eqx.tree_at(lambda s: s.code, solution, codes)
        if throw:
            raise_failed(solution)
        _warn(solution, rejected)
        return solution

    def at_points(self, points: Any) -> "Compiled":
        """The same solver with these query points `(q, d)`: its solutions bring `values` along."""
        at, core = inside(self.core.problem, points), self.core
        if isinstance(core.form, Live):
            raise ValueError("at_points: give the points to `compile`, `at=`, for functions that see φ.")
        return replace(self, core=core.at_points(at, self._some_phi()))

    def rich(self, phi: Any, coords: Any) -> Any:
        """u for one φ at points by a solve to a tolerance, a tenth of the error that is stated."""
        tolerance = float(np.clip(0.1 * self.error.mean, 1e-7, 1e-3))
        one = solve_to_tolerance(self.core.problem, phi, tolerance, 600.0, progress=False, throw=False)
        return one(coords)

    def save(self, path: str | os.PathLike[str], *, about: Mapping[str, Any] | None = None) -> None:
        """Writes one safetensors file, network included; `pdecl.load` reads it. `about`: what else its
        header says."""
        known: dict[str, Any] = {}
        if self.training is not None:
            known["training"] = dict(self.training)
        if self.calibration is not None:
            known["calibration"] = self.calibration
        save(path, self.core, self.error, self.experiment, {**known, **(about or {})})

    @property
    def family(self) -> Family | None:
        return None if self.experiment is None else family_of(self.experiment)

    @property
    def trained(self) -> Trained:
        """The trained basis that this solver was compiled from; the solver holds all of it."""
        if self.experiment is None:
            raise ValueError(
                "this solver was compiled from a problem of your own, not from a Trained: call it in "
                "Python, solver(phis)."
            )
        reduced = isinstance(self.core.basis, Modes)
        return Trained(self.experiment, self.core.basis, self if reduced else None)

    @property
    def digest(self) -> str:
        """SHA-256 over the experiment and all arrays that are held."""
        return model_digest(self.trained.experiment, self.core)

    @property
    def usual_batch(self) -> int:
        """What a few GB are comfortable with."""
        return self.trained.family.fast_batch

    @property
    def shape(self) -> Any:
        return shape_of(_shapes(self.core))

    def problem(self, grid: int | None = None) -> Problem:
        return self.core.problem

    def solve(self, phi: Any, **options: Any) -> CompiledSolution:
        return self(phi, **options)

    def coarser(self, nodes: int) -> Trained:
        raise ValueError(
            "fewer nodes are for a trained basis; a compiled solver keeps the nodes it was made for."
        )

    def as_query(
        self,
        points: tuple[Points, ...],
        coords: Float[Any, "q d"],
        derivatives: tuple[str, ...],
        residual_limit: float,
        weights_alone: bool,
        grid: int | None = None,
    ) -> CompiledQuery:
        return query_of(
            self.core, self._some_phi(), jnp.asarray(coords), derivatives, residual_limit, weights_alone
        )

    def weights_kept(self, phi: Any) -> int:
        modes, whole = self.core.modes, self.core.whole_modes
        return self.functions if modes is not None or whole is None else len(whole)

    def given(self, weights: Float[Array, "batch n"], grid: int | None) -> tuple[Given, Array]:
        core = self.core
        return Given.of(core.problem, core.basis, core.sets), whole_weights(core, weights)

    def distance_on(self, grid: int | None = None) -> Callable[[Any], np.ndarray]:
        metric = jax.tree.map(np.asarray, self.core.statistics.metric)
        rows = lambda phi: [np.reshape(leaf, (len(leaf), -1)) for leaf in jax.tree.leaves(phi)]
        return lambda phi: metric(np.concatenate(rows(phi), axis=1))

    def _some_phi(self) -> Any:
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), _shapes(self.core))

    def _solution(
        self, phi: Any, batch: bool, limit: float | None, mesh: Mesh | None = None
    ) -> CompiledSolution:
        found, core = answer(self.core, phi, batch, mesh), self.core
        values: Any = found.values
        if values is not None and len(core.problem.unknowns) == 1:
            values = values[core.problem.unknowns[0]]
        code = check_residuals(core.problem, found.code, found.measured, limit)
        outcome = vars(found) | {"code": code, "values": values}
        left = outcome.pop("left")
        if self.calibration is not None:
            usable = jnp.isfinite(left) & (found.code <= int(Status.OVERDETERMINED))
            factor, least = self.calibration
            outcome["error_estimate"] = jnp.where(usable, factor * left + least, jnp.inf)
        return CompiledSolution(Given.of(core.problem, core.basis, core.sets), phi, **outcome)

    def _validated(self, phi: Any, batch: bool) -> tuple[Any, Mapping[int, str]]:
        """φ with NaN instead of those that are rejected, and why these are."""
        family, shapes = self.family, _shapes(self.core)
        try:
            whole = jax.tree.map(lambda x: np.asarray(x, float)[None if not batch else ...], phi)
            checked = self.core.problem.check_many(jax.tree.map(np.nan_to_num, whole))
        except (TypeError, ValueError) as error:
            words = str(error).removesuffix(".")
            raise type(error)(f"{words}. This solver takes φ of shape {_words(shapes)}.") from None
        count = len(jax.tree.leaves(checked)[0])
        good = np.ones(count, bool)
        for leaf in jax.tree.leaves(whole):
            good &= np.isfinite(leaf.reshape(count, -1)).all(axis=1)
        rejected = {int(n): "it has entries that are NaN or infinite" for n in np.flatnonzero(~good)}
        if family is not None:
            messages = messages_of(family, shape_of(shapes), whole)
            rejected |= {n: why for n, why in enumerate(messages) if why and n not in rejected}
        if rejected:
            bad = np.isin(np.arange(count), list(rejected))
            blank = lambda x: np.where(bad.reshape(-1, *[1] * (x.ndim - 1)), np.nan, x)
            whole = jax.tree.map(blank, whole)
        whole = jax.tree.map(jnp.asarray, whole)
        return (whole if batch else jax.tree.map(lambda x: x[0], whole)), rejected


def _warn(solution: CompiledSolution, rejected: Mapping[int, str]) -> None:
    where = lambda n: _which(int(n), solution.code.ndim > 0)
    codes, distances = np.atleast_1d(solution.code), np.atleast_1d(solution.distance)
    lines = [f"{where(n)} is rejected: {why}." for n, why in rejected.items()]
    if len(lines) > _NAMED:
        lines[_NAMED:] = [f"… and {len(lines) - _NAMED} more."]
    failed: dict[Status, list[str]] = {}
    for n, status in enumerate(map(Status, codes.tolist())):
        if status.failed and n not in rejected:
            failed.setdefault(status, []).append(where(n))
    for status, numbers in failed.items():
        more = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
        lines.append(f"{numbers[0]}{more}: {status}. {status.advice}")
    far = np.flatnonzero(distances > FAR)
    if far.size:
        worst = int(far[np.argmax(distances[far])])
        which = f"{far.size} φ are" if solution.code.ndim else "φ is"
        number = f" (φ number {worst})" if solution.code.ndim else ""
        lines.append(
            f"{which} outside the training distribution: distance {distances[worst]:.3g}, where 1 is "
            f"the farthest of held-out training φ{number}. "
            "The stated error does not hold there; look at the residuals."
        )
    if lines:
        warnings.warn(" ".join(lines), stacklevel=3)


def _which(number: int, batched: bool) -> str:
    return f"φ number {number}" if batched else "φ"


def phi_shapes(problem: Problem, like: Float[Array, " D"]) -> Any:
    """One φ, as shapes: those of the problem, or without any an array of as many numbers."""
    if problem.parameter is not None:
        return problem.phi_like
    return jax.ShapeDtypeStruct(like.shape, like.dtype)


def _shapes(core: Core) -> Any:
    return phi_shapes(core.problem, core.statistics.metric.mean)


def _words(shapes: Any) -> str:
    return ", ".join(str(leaf.shape) for leaf in jax.tree.leaves(shapes))
