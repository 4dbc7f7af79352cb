"""`evaluate`: how far a trained basis is from references on unseen φ, and what residual it leaves."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from .dataset import Dataset
from .experiment import law_of, stated
from .metrics import relative_l2, summarise
from .points import Points
from .problem import Problem
from .solve import Solution
from .status import Status
from .trained import Trained, as_fields, nodes_of


@dataclass(frozen=True)
class Evaluation:
    """One number per φ of everything that tables and figures show.

    - `errors`: relative L2 distance from the reference; `beside` from other solutions, by name.
    - `residuals`: sum of squares of the PDE's residual over the interior nodes.
    - `statuses`: how many solves ended how.
    - `seconds`: per φ, warm, for the solve and the values at all nodes.
    """

    errors: np.ndarray
    residuals: np.ndarray
    beside: dict[str, np.ndarray]
    statuses: dict[str, int]
    seconds: float

    @property
    def residual_loss(self) -> float:
        return float(np.mean(self.residuals))

    def as_dict(self) -> dict[str, Any]:
        return {
            "error": summarise(self.errors).as_dict(),
            "residual_loss": self.residual_loss,
            "beside": {name: summarise(values).as_dict() for name, values in self.beside.items()},
            "statuses": self.statuses,
            "seconds_per_phi": self.seconds,
            "errors": self.errors.tolist(),
            "residuals": self.residuals.tolist(),
        }


def evaluate(
    trained: Trained, data: Dataset, progress: Callable[[int], None] | None = None
) -> tuple[Evaluation, np.ndarray]:
    """The evaluation on a dataset, and the solutions on its grid."""
    together = min(_TOGETHER.get(trained.law.name, 10), data.count)
    fields, residuals, codes, seconds = [], [], [], []
    for start in range(0, data.count, together):
        phi = data.phi[start : start + together]
        solution, field, taken = _timed(trained, phi)
        seconds.append(taken)
        fields.append(field)
        codes.append(np.asarray(solution.code))
        residuals.append(residual_squares(trained, solution, phi))
        if progress is not None:
            progress(len(phi))
    # The first batch compiled, and so did a smaller last one; without others the first is solved again.
    warm = seconds[1 : data.count // together] or [_timed(trained, data.phi[:together])[2]]
    found = np.concatenate(fields)
    evaluation = Evaluation(
        errors=_distances(found, data.solution),
        residuals=np.concatenate(residuals),
        beside={name: _distances(found, other) for name, other in data.companions.items()},
        statuses=dict(Counter(Status(int(code)).name for code in np.concatenate(codes))),
        seconds=float(np.median(warm)),
    )
    return evaluation, found


def _timed(trained: Trained, phi: np.ndarray) -> tuple[Solution, np.ndarray, float]:
    """`_answer`, and the seconds it took for one φ."""
    began = time.perf_counter()
    solution, field = _answer(trained, phi)
    return solution, field, (time.perf_counter() - began) / len(phi)


def _answer(trained: Trained, phi: np.ndarray) -> tuple[Solution, np.ndarray]:
    """The solution and its values on the standard grid."""
    # One φ whose solve fails is counted as such and does not end the evaluation.
    solution = trained.solve(phi, throw=False)
    nodes = solution.problem.domain.mesh(*nodes_of(trained, phi))
    return solution, as_fields(trained, phi, solution(nodes))


def residual_squares(trained: Trained, solution: Solution, phi: np.ndarray) -> np.ndarray:
    """For each φ the sum of squares of the equation over the interior nodes of the standard grid."""
    problem = solution.problem
    if trained.law.name == "darcy":
        law = law_of(trained.experiment, phi.shape[-1])
        problem = stated(law, form="conservative", walls=False)
        sets = tuple(problem.sets())
    else:
        sets = (Points(_interior(problem, nodes_of(trained, phi))), *solution.points[1:])
    root_mean_square = replace(solution, problem=problem).residual_at(sets)["equation"]
    return np.asarray(root_mean_square) ** 2 * len(sets[0])


def _distances(found: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Relative distances; infinite where a solve gave no numbers."""
    usable = np.isfinite(found).all(axis=(1, 2))
    distances = np.full(len(found), np.inf)
    if usable.any():
        distances[usable] = relative_l2(found[usable], other[usable])
    return distances


def watcher(trained: Trained, data: Dataset) -> Callable[[Any], dict[str, float]]:
    """What `fit` watches: mean error and residual on a dataset of unseen φ."""

    def watch(basis: Any) -> dict[str, float]:
        found, _ = evaluate(replace(trained, basis=basis), data)
        return {"error": float(found.errors.mean()), "residual": found.residual_loss}

    return watch


_TOGETHER = {"darcy": 1, "burgers": 10, "convection": 2}


def _interior(problem: Problem, nodes: tuple[int, int]) -> jax.Array:
    mesh = problem.domain.mesh(*nodes).reshape(*nodes, 2)
    return mesh[1:-1, 1:-1].reshape(-1, 2)
