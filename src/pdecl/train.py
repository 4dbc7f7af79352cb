"""`fit`: trains a basis through the layer, without solution data."""

import time
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .layer import weights_of
from .points import Points
from .problem import Problem
from .solve import complete, require_precision, sizes_of
from .solvers import GaussNewton, LinearSolver
from .status import SolveError, Status
from .system import build


@dataclass
class History:
    """What a training run did: the loss at each step, and the seconds since the start."""

    loss: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def fit(
    problem: Problem,
    basis: Any,
    optimiser: optax.GradientTransformation,
    *,
    steps: int,
    key: PRNGKeyArray,
    batch: int = 8,
    solver: LinearSolver | GaussNewton | None = None,
    progress: bool = True,
) -> tuple[Any, History]:
    """Trains a basis so that the layer's solutions obey the conditions where they were not fitted.

    Each step draws `batch` parameters and two sets of points, the same for the whole batch: the layer
    solves on the first, and the loss is what is left on the second. It is the mean over φ of the
    logarithm of the weighted mean squares, so that easy and hard φ count alike; for problems with an
    energy it is the energy.

    Returns the trained basis and a `History`. A loss or gradient that is not finite stops the training
    with an error that names the step and the solver's status.
    """
    require_precision(jnp.float64)
    solver = complete(solver)
    phi = jax.eval_shape(lambda: problem.sample(jr.key(0), 1))
    size = sum(sizes_of(problem, basis, phi, batch=True).values())
    parameters, rest = eqx.partition(basis, eqx.is_inexact_array)
    state = optimiser.init(parameters)

    @eqx.filter_jit
    def step(parameters: Any, state: Any, key: PRNGKeyArray) -> tuple[Any, Any, Array, Array, Array]:
        phi_key, points_key, fresh_key = jr.split(key, 3)
        phi = problem.sample(phi_key, batch)
        points, fresh = problem.draw(size, points_key), problem.draw(size, fresh_key)

        def loss(parameters: Any) -> tuple[Array, Array]:
            basis = eqx.combine(parameters, rest)
            losses, codes = jax.vmap(lambda p: _loss(problem, basis, p, points, fresh, solver))(phi)
            return jnp.mean(losses), codes

        (value, codes), gradient = jax.value_and_grad(loss, has_aux=True)(parameters)
        updates, state = optimiser.update(gradient, state, parameters)
        return eqx.apply_updates(parameters, updates), state, value, optax.global_norm(gradient), codes

    history, start = History(), time.perf_counter()
    with _bar(progress) as bar:
        task = bar.add_task("training", total=steps, loss="")
        for number, step_key in enumerate(jr.split(key, steps)):
            parameters, state, value, slope, codes = step(parameters, state, step_key)
            _require_finite(number, value, slope, codes)
            history.loss.append(float(value))
            history.seconds.append(time.perf_counter() - start)
            bar.update(task, advance=1, loss=f"loss {history.loss[-1]:.4g}")
    return eqx.combine(parameters, rest), history


def _loss(
    problem: Problem,
    basis: Any,
    phi: Any,
    points: tuple[Points, ...],
    fresh: tuple[Points, ...],
    solver: GaussNewton,
) -> tuple[Float[Array, ""], Int[Array, ""]]:
    """What is left on fresh points after the layer has solved, and the solve's status."""
    found = weights_of(build(problem, basis, phi, points, hold_jets=solver.linear.direct), solver)
    left = build(problem, basis, phi, fresh, hold_jets=False)
    if left.indices("Energy"):
        return left.objective(found.weights), found.code
    squares = left.objective(found.weights) + 0.5 * jnp.sum(left.rows(found.weights, "Enforce") ** 2)
    return jnp.log(squares), found.code


def _require_finite(number: int, loss: Array, slope: Array, codes: Array) -> None:
    if np.isfinite(loss) and np.isfinite(slope):
        return
    what = "gradient" if np.isfinite(loss) else "loss"
    failed = [status for status in map(Status, np.asarray(codes).tolist()) if status.failed]
    status = failed[0] if failed else Status.NOT_CONVERGED
    raise SolveError(status, f" (training step {number}: the {what} is not finite)")


def _bar(show: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
        disable=not show,
    )
