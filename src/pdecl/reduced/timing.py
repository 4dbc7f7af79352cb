"""Seconds for one φ, in a batch, warm: of a compiled solver, and of the layer it stands for."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..layer.solve import solve
from .core import answer
from .snapshots import Snapshots
from .solver import Compiled

_REPEATS = 3


def compiled_seconds(snapshots: Snapshots, solver: Compiled, batch: int) -> float:
    """What a compiled solver takes."""
    phis = _held_out(snapshots, batch)
    return _seconds(lambda: answer(solver.core, phis, True), batch)


def layer_seconds(snapshots: Snapshots, batch: int) -> float:
    """What `pdecl.solve` takes with all functions, on points that are at hand."""
    phis, points = _held_out(snapshots, batch), snapshots.problem.draw(snapshots.plan.size)
    one = lambda phi: solve(
        snapshots.problem, snapshots.basis, phi, points=points, solver=snapshots.solver, throw=False
    )
    return _seconds(lambda: jax.vmap(one)(phis).weights, batch)


def _held_out(snapshots: Snapshots, batch: int) -> Any:
    return snapshots.some(np.resize(snapshots.held_out, batch))


def _seconds(run: Callable[[], Any], count: int) -> float:
    jax.block_until_ready(run())  # compiles
    seconds = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append((time.perf_counter() - began) / count)
    return min(seconds)
