"""`recommend`: what functions and rows cost in time and in error, and the cheapest that will do."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..family.metrics import ErrorSummary
from ..family.trained import Trained
from ..layer.solve import solve
from ..layer.solvers import GaussNewton, LinearSolver
from ..state.problem import Problem
from .compile import Route, assemble, snapshots_from
from .core import answer
from .snapshots import Snapshots
from .solver import Compiled

_FUNCTIONS = (32, 64, 96, 128, 192, 256, 384)
_RATIOS = (0.75, 1.25, 1.5, 2.0, 3.0)
_REPEATS = 3


@dataclass(frozen=True)
class Setting:
    """One way to solve, and what it costs.

    - `route`: "subset" satisfies fewer rows than functions with the shortest weights; "chosen" fits
      chosen rows, at least as many as functions; "all" fits every row that `pdecl.solve` would.
    - `error`: relative L2 distance from the answers of the whole basis on all its rows, over held-out φ.
    - `seconds`: for one φ, in a batch, warm.
    """

    route: str
    functions: int
    rows: int
    error: ErrorSummary
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "route": self.route,
            "functions": self.functions,
            "rows": self.rows,
            "error": self.error.as_dict(),
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Recommendation:
    """The settings that were tried, and the fastest whose mean error is small enough; or None."""

    table: list[Setting]
    best: Setting | None
    solver: Compiled | None

    def __str__(self) -> str:
        lines = [
            f"{'route':8} {'functions':>9} {'rows':>6} {'mean error':>11} {'max':>9} {'µs per φ':>9}"
        ]
        for s in self.table:
            mark = "  <" if s is self.best else ""
            lines.append(
                f"{s.route:8} {s.functions:9d} {s.rows:6d} {s.error.mean:11.4%} {s.error.max:9.3%} "
                f"{1e6 * s.seconds:9.1f}{mark}"
            )
        return "\n".join(lines)


def recommend(
    problem: Problem | Trained | Snapshots,
    basis: Any = None,
    phis: Any = None,
    *,
    error: float,
    functions: Sequence[int] | None = None,
    ratios: Sequence[float] = _RATIOS,
    batch: int = 50,
    at: Any = None,
    solver: LinearSolver | GaussNewton | None = None,
    dtype: Any = jnp.float64,
) -> Recommendation:
    """Measures the trade-off between functions, rows, time and error, and picks the cheapest setting.

    Both routes for many test points are in the table: to satisfy a subset of fewer rows than
    functions, and to fit them all. Arguments are those of `compile`, and

    - `error`: the wanted mean relative error against the whole basis.
    - `functions`, `ratios`: the numbers to try, and how many rows for each function.
    - `batch`: φ solved together when time is taken.
    """
    if not 0 < error < 1:
        raise ValueError(f"`error` is relative and must lie between 0 and 1; found {error}.")
    snapshots, experiment = snapshots_from(problem, basis, phis, solver, reduce=False)
    tried: list[tuple[Setting, Compiled]] = []
    for size in _sizes(snapshots, functions):
        most = snapshots.plan.size if size is None else size * len(snapshots.problem.unknowns)
        ways: list[tuple[Route, int | None]] = [("chosen", round(ratio * most)) for ratio in ratios]
        for route, rows in [*ways, ("all", None)]:
            made = assemble(snapshots, size, points=rows, route=route, at=at, dtype=dtype)
            tried.append((_timed(snapshots, made, route, batch), made))
    good = [(setting, made) for setting, made in tried if setting.error.mean <= error]
    best, chosen = min(good, key=lambda pair: pair[0].seconds) if good else (None, None)
    if chosen is not None:
        chosen = replace(chosen, experiment=experiment)
    return Recommendation([setting for setting, _ in tried], best, chosen)


def _sizes(snapshots: Snapshots, functions: Sequence[int] | None) -> list[int | None]:
    if snapshots.sees_phi:
        return [None]
    if functions is not None:
        return list(functions)
    return [size for size in _FUNCTIONS if size < snapshots.most]


def _timed(snapshots: Snapshots, made: Compiled, route: str, batch: int) -> Setting:
    name = "subset" if route == "chosen" and made.rows < made.functions else route
    seconds = compiled_seconds(snapshots, made, batch)
    return Setting(name, made.functions, made.rows, made.error, seconds)


def compiled_seconds(snapshots: Snapshots, solver: Compiled, batch: int) -> float:
    """Seconds for one φ of a compiled solver, in a batch, warm."""
    phis = _held_out(snapshots, batch)
    return _seconds(lambda: answer(solver.core, phis, True), batch)


def layer_seconds(snapshots: Snapshots, batch: int) -> float:
    """The same of `pdecl.solve` with all functions, on points that are at hand."""
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
