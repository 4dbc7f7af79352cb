"""Seconds for one φ, in a batch, warm: of a compiled solver, and of the layer it stands for."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..solve import solve
from .core import answer
from .solver import Compiled
from .study import Study

_REPEATS = 3


def compiled_seconds(study: Study, solver: Compiled, batch: int) -> float:
    """What a compiled solver takes."""
    phis = _held_out(study, batch)
    return _seconds(lambda: answer(solver.core, phis, True), batch)


def layer_seconds(study: Study, batch: int) -> float:
    """What `pdecl.solve` takes with all functions, on points that are at hand."""
    phis, points = _held_out(study, batch), study.problem.draw(study.plan.size)
    run = lambda: solve(
        study.problem, study.basis, phis, batch=True, points=points, solver=study.solver, throw=False
    )
    return _seconds(lambda: run().weights, batch)


def _held_out(study: Study, batch: int) -> Any:
    return study.some(np.resize(study.held_out, batch))


def _seconds(run: Callable[[], Any], count: int) -> float:
    jax.block_until_ready(run())  # compiles
    seconds = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append((time.perf_counter() - began) / count)
    return min(seconds)
