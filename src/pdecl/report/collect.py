"""`collect`: what is worth keeping of a run, as plain data."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..family.experiment import problem_of
from .runs import Run

FORMAT = 1
_SHORT = (
    "error",
    "residual_loss",
    "beside",
    "bounds",
    "statuses",
    "seconds_per_phi",
    "count",
    "origin",
    "device",
)


def collect(run: Run) -> dict[str, Any]:
    """A run as plain data: experiment, environment, evaluation and the metrics in its history.

    Of the numbers for each φ only the errors are kept, to four digits.
    """
    experiment, history, evaluation = run.experiment, run.history, run.evaluation
    kept: dict[str, Any] = {name: evaluation[name] for name in _SHORT if name in evaluation}
    if "errors" in evaluation:
        kept["errors"] = [float(f"{error:.4g}") for error in evaluation["errors"]]
    return plain(
        {
            "format": FORMAT,
            "experiment": experiment.as_dict(),
            "environment": {**run.environment, "command": _command(run)},
            "points": _points(run),
            "evaluation": kept,
            "history": {
                "steps": len(history.loss),
                "seconds": history.seconds[-1] if history.seconds else None,
                "compiling": history.compiling,
                "steps_per_second": history.steps_per_second,
                "metrics": history.metrics,
            },
        }
    )


def _command(run: Run) -> str:
    """The command, without where it wrote to, which is of no use to others."""
    words = iter(run.environment.get("command", "unknown").split())
    kept = []
    for word in words:
        if word in ("--out", "--cache"):
            next(words, None)
        elif word != "--json":
            kept.append(word)
    return " ".join(kept)


def _points(run: Run) -> dict[str, int]:
    """How many points each condition is solved on."""
    problem = problem_of(run.experiment)
    size = run.experiment.network.size * len(problem.unknowns)
    sets = problem.draw(size)
    return {
        name: len(sets[problem.set_of(condition)])
        for name, condition in zip(problem.names(), problem.conditions, strict=True)
    }


def plain(value: Any) -> Any:
    """Lists, dictionaries, numbers, words. JSON has no word for what is not finite: it becomes null."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
