"""How the layer's time grows: log–log slopes in rows n, functions N, grid nodes and batch."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from pareto_measure import Row, Trial
from pareto_methods import Layers, Method, Program, of_core, on_a_grid
from timing import measure

from pdecl.basis.networks.products import channels_for
from pdecl.family.experiment import basis_of
from pdecl.reduced.core import Core
from pdecl.reduced.online import Rules
from pdecl.reduced.selection import subset

_STEPS = 3  # of Gauss–Newton, so that all programs take as many


def exponents(layers: Layers, rows: list[Row], trial: Trial, quick: bool) -> dict[str, Any]:
    """Slopes with what they were fitted to; sizes that no time was left for are missing."""
    batch = min(50, max(trial.batches))
    found = {f"batch ({row.name}, {row.setting})": _batches(row) for row in rows if row.main}
    if layers.snapshots is None:
        found |= _on_grids(layers, rows, trial, quick)
    elif layers.solvers and not layers.snapshots.sees_phi:
        found |= {
            name: _slope(series, trial, batch) for name, series in _of_cores(layers, quick).items()
        }
    return {name: series for name, series in found.items() if len(series["sizes"]) > 1}


def slope(sizes: Any, seconds: Any) -> float:
    """The exponent p of seconds ~ sizes^p in least squares; NaN for fewer than two sizes."""
    if len(sizes) < 2:
        return float("nan")
    return float(np.polyfit(np.log(np.asarray(sizes, float)), np.log(seconds), 1)[0])


def _batches(row: Row) -> dict[str, Any]:
    sizes = sorted(row.grid)
    return _series(sizes, [row.grid[size].seconds for size in sizes])


def _of_cores(layers: Layers, quick: bool) -> dict[str, Iterator[tuple[int, Program]]]:
    """Programs of the same number of steps whose rows, functions or query points differ."""
    shape = (-1,)
    solvers = {size: layers.solvers[size].core for size in sorted(layers.solvers)}
    middle = solvers[sorted(solvers)[len(solvers) // 2]]
    functions, rows = middle.plan.size, _rows(middle)
    most = 2 * max(_rows(core) for core in solvers.values())
    repeats = (1, 2) if quick else (1, 2, 4, 8)
    found: dict[str, Iterator[tuple[int, Program]]] = {
        f"n (N = {functions})": (
            (round(k * rows), of_core(_with_rows(middle, k), shape)) for k in repeats
        )
    }
    if quick:
        return found
    return found | {
        f"N (n = {most})": (
            (size, of_core(_with_rows(core, most / _rows(core)), shape))
            for size, core in solvers.items()
        ),
        f"grid nodes (N = {functions})": (
            (side**2, of_core(_with_nodes(middle, side**2), shape)) for side in (51, 101, 201)
        ),
    }


def _slope(programs: Iterator[tuple[int, Program]], trial: Trial, batch: int) -> dict[str, Any]:
    sizes, seconds = [], []
    phi = jnp.asarray(trial.batch(batch))
    for size, program in programs:
        if trial.clock.late():
            break
        timing, _, _ = measure(program.run, program.held, phi, repeats=5, patience=trial.patience / 4)
        sizes.append(size)
        seconds.append(timing.seconds)
    return {**_series(sizes, seconds), "batch": batch}


def _on_grids(layers: Layers, rows: list[Row], trial: Trial, quick: bool) -> dict[str, Any]:
    """Darcy: over the grids of the table, and over untrained networks of other sizes on one grid."""
    found = {}
    for name in ("layer", "fast-Poisson CG"):
        same = [row for row in rows if row.name == name and "nodes" in row.facts and 1 in row.grid]
        if name != "layer":
            same = [row for row in same if row.facts.get("steps") == 6]
        series = sorted((row.facts["nodes"] ** 2, row.grid[1].seconds) for row in same)
        sizes, seconds = [size for size, _ in series], [time for _, time in series]
        found[f"grid nodes ({name}, batch 1)"] = _series(sizes, seconds)
    if quick:
        return found
    nodes = min(layers.sizes)
    experiment = layers.case.trained.experiment

    degree = experiment.network.options.get("degree", 0)
    each = experiment.network.size // channels_for(experiment.network.size, degree)

    def untrained() -> Iterator[tuple[int, Program]]:
        for size in (each * round(about / each) for about in (128, 256, 512)):
            other = experiment.with_overrides(size=size)
            made = replace(layers.case.trained, experiment=other, basis=basis_of(other, jr.key(0)))
            method: Method = on_a_grid(layers.case, nodes, trained=made)
            yield size, method.grid

    found[f"N (untrained, {nodes}² nodes)"] = _slope(untrained(), trial, 1)
    return found


def _with_rows(core: Core, times: float) -> Core:
    """The same solver with its points repeated, and a fixed number of steps: the same answers, later."""
    assert core.jets is not None
    chosen = [np.arange(max(1, round(times * len(points)))) % len(points) for points in core.sets]
    sets = tuple(subset(points, some) for points, some in zip(core.sets, chosen, strict=True))
    jets = tuple(
        {entry: jet[some] for entry, jet in held.items()}
        for held, some in zip(core.jets, chosen, strict=True)
    )
    rules = Rules(core.rules.steps, jnp.zeros(()), _STEPS)
    return replace(core, sets=sets, jets=jets, whitening=None, rules=rules)


def _with_nodes(core: Core, count: int) -> Core:
    """The same solver with another number of query points; some are there more than once."""
    assert core.at is not None
    assert core.values is not None
    chosen = np.arange(count) % len(core.at)
    values = {name: held[chosen] for name, held in core.values.items()}
    return replace(_with_rows(core, 1), at=core.at[chosen], values=values)


def _rows(core: Core) -> int:
    return sum(
        rows * len(core.sets[place])
        for rows, place in zip(core.plan.rows, core.problem.places, strict=True)
    )


def _series(sizes: list[int], seconds: list[float]) -> dict[str, Any]:
    return {"exponent": slope(sizes, seconds), "sizes": sizes, "seconds": seconds}
