"""`evaluate`: how far a trained basis is from references on unseen φ, and what residual it leaves."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ..basis.basis import BasisLike
from ..error import ErrorBound
from ..layer.solution import Solution
from ..support.status import Status
from ..support.types import Phi
from . import phi as phis
from .dataset import Dataset
from .metrics import relative_l2, summarise
from .nodes import values_on, without_outside
from .trained import Trained, as_fields, inside_fields, nodes_of


@dataclass(frozen=True)
class Evaluation:
    """One number per φ of everything that tables and figures show.

    - `errors`: relative L2 distance from the reference, for several unknowns the root mean square of
      theirs; `beside` from other solutions, by name. `reference`: what that is.
    - `residuals`: sum of squares of the PDE's residual over the interior nodes.
    - `statuses`: how many solves ended how.
    - `seconds`: per φ, warm, for the solve and the values at all nodes.
    - `bounds`: of the errors, proved or estimated, where they were asked for.
    """

    errors: np.ndarray
    residuals: np.ndarray
    beside: dict[str, np.ndarray]
    statuses: dict[str, int]
    seconds: float
    reference: str = ""
    bounds: ErrorBound | None = None

    @property
    def residual_loss(self) -> float:
        return float(np.mean(self.residuals))

    def as_dict(self) -> dict[str, Any]:
        plain = {
            "error": summarise(self.errors).as_dict(),
            "residual_loss": self.residual_loss,
            "beside": {name: summarise(values).as_dict() for name, values in self.beside.items()},
            "statuses": self.statuses,
            "seconds_per_phi": self.seconds,
            "reference": self.reference,
            "errors": self.errors.tolist(),
            "residuals": self.residuals.tolist(),
        }
        if self.bounds is not None:
            relative = np.asarray(self.bounds.relative).tolist()
            about = {"kind": self.bounds.kind, "norm": self.bounds.norm}
            plain["bounds"] = {**about, "relative": relative}
        return plain


def evaluate(
    trained: Trained,
    data: Dataset,
    progress: Callable[[int], None] | None = None,
    bound: bool = False,
) -> tuple[Evaluation, Any]:
    """The evaluation on a dataset, with a `bound` of each error if asked for, and the solutions on its
    grid."""
    # Two batches of one size at least: the first compiles, and what the others take is the time.
    together = min(trained.family.evaluate_batch, -(-data.count // 2))
    fields, residuals, codes, seconds, bounds = [], [], [], [], []
    for start in range(0, data.count, together):
        numbers = np.minimum(np.arange(start, start + together), data.count - 1)
        phi = phis.take(data.phi, numbers)
        solution, field, taken = _timed(trained, phi)
        seconds.append(taken)
        fields.append(field)
        codes.append(np.asarray(solution.code))
        residuals.append(trained.family.residual_on(solution, nodes_of(trained, phi)))
        if bound:
            bounds.append(trained.bound(solution, throw=False))
        if progress is not None:
            progress(min(together, data.count - start))
    warm = seconds[1:] or [_timed(trained, data.phi)[2]]
    whole = lambda parts: phis.take(phis.joined(parts), slice(0, data.count))  # without what fills it up
    answers, inside = whole(fields), inside_fields(trained, data.phi)
    evaluation = Evaluation(
        errors=_distances(answers, data.solution, inside),
        residuals=whole(residuals),
        beside={name: _distances(answers, other, inside) for name, other in data.companions.items()},
        statuses=dict(Counter(Status(int(code)).name for code in whole(codes))),
        seconds=float(np.median(warm)),
        reference=data.reference,
        bounds=whole(bounds) if bounds else None,
    )
    return evaluation, answers


def _timed(trained: Trained, phi: Phi) -> tuple[Solution, Any, float]:
    """`_answer`, and the seconds it took for one φ."""
    began = time.perf_counter()
    solution, field = _answer(trained, phi)
    return solution, field, (time.perf_counter() - began) / phis.count(phi)


def _answer(trained: Trained, phi: Phi) -> tuple[Solution, Any]:
    """The solution and its values on the standard grid."""
    # One φ whose solve fails is counted as such and does not end the evaluation.
    solution = trained.solve(phi, throw=False)
    return solution, as_fields(trained, phi, values_on(solution, nodes_of(trained, phi)))


def _distances(found: PyTree, other: PyTree, inside: np.ndarray | None) -> np.ndarray:
    """Relative distances, over several unknowns the root of their mean square; infinite where a solve
    gave no numbers."""
    within = lambda u: without_outside(u, inside)
    leaves = ([within(u) for u in jax.tree.leaves(part)] for part in (found, other))
    squares = [_distance(*pair) ** 2 for pair in zip(*leaves, strict=True)]
    return np.sqrt(np.mean(squares, axis=0))


def _distance(found: np.ndarray, other: np.ndarray) -> np.ndarray:
    usable = np.isfinite(found.reshape(len(found), -1)).all(axis=1)
    distances = np.full(len(found), np.inf)
    if usable.any():
        distances[usable] = relative_l2(found[usable], other[usable])
    return distances


def metrics_on(trained: Trained, data: Dataset) -> Callable[[Any], dict[str, float]]:
    """The metrics of `fit`: mean error and residual on a dataset of unseen φ."""

    def metrics(basis: BasisLike) -> dict[str, float]:
        found, _ = evaluate(replace(trained, basis=basis), data)
        return {"error": float(found.errors.mean()), "residual": found.residual_loss}

    return metrics
