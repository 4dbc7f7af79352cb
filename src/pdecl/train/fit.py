"""`fit`: trains a basis through the layer, or with a soft penalty, without solution data."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, PRNGKeyArray, PyTree

from ..basis import basis as bases
from ..basis.basis import BasisLike
from ..basis.networks import InSingle
from ..basis.shared import Shared, may_share
from ..layer.layer import finite
from ..layer.solve import complete, require_precision, sizes_of
from ..layer.solvers import GaussNewton, LinearSolver
from ..parallel.devices import (
    PHI,
    Devices,
    agreed,
    averaged,
    gathered,
    gathers_soon,
    local,
    mesh_of,
    replicated,
    require_all_processes,
    require_even,
    share,
    split,
)
from ..parallel.processes import first, lost
from ..state.affine import depends
from ..state.points import Points
from ..state.problem import Problem, require_problem
from ..state.rules import require_count
from ..support.mistakes import found, require_key
from ..support.progress import progress_bar
from ..support.status import SolveError, Status
from ..support.types import Phi
from . import loss as losses
from .checkpoint import Checkpoints, NoCheckpoints
from .history import History, metric_steps

if TYPE_CHECKING:
    import optax

Metrics = Callable[[Any], Mapping[str, float]]


class TrainingError(SolveError):
    """A step was not finite. The state before it is kept.

    - `status`, `step`, `phi`: how the layer's solve ended, in which step, and for which φ.
    - `basis`, `history`: as they were before that step.
    """

    def __init__(
        self, status: Status, where: str, step: int, phi: Phi, basis: BasisLike, history: History
    ):
        super().__init__(status, where)
        self.step, self.phi, self.basis, self.history = step, phi, basis, history

    def __reduce__(self) -> Any:
        return type(self), (self.status, self.where, self.step, self.phi, self.basis, self.history)


def fit(
    problem: Problem,
    basis: Any,
    optimiser: "optax.GradientTransformation",
    *,
    steps: int,
    key: PRNGKeyArray,
    method: str = "hard",
    batch: int = 8,
    phis: Phi = None,
    mean: str = "log",
    loss_problem: Problem | None = None,
    include_collocation: bool = False,
    solver: LinearSolver | GaussNewton | None = None,
    single: bool = False,
    metrics: Metrics | None = None,
    metrics_count: int = 20,
    checkpoints: Checkpoints | None = None,
    progress: bool = True,
    seconds: float | None = None,
    devices: Devices | None = None,
) -> tuple[Any, History]:
    """Trains a basis so that its solutions obey the conditions where they were not fitted.

    Each step draws `batch` parameters and two sets of points, the same for the whole batch: the layer
    solves on the first, and the loss is what is left on the second, half the weighted mean squares of
    the rows. For problems with an energy the loss is the energy.

    Arguments:

    - `optimiser`: from Optax, with its schedule and clipping.
    - `method`: "hard" puts the layer between network and loss. "soft" takes the weights that the
      network predicts itself (`basis.weights(phi)`, or ones), and the loss on all points.
    - `phis`: the training φ, with a first axis, to draw batches from; without it each step draws new
      ones from the problem's distribution.
    - `mean`: over the batch, "log" (easy and hard φ count alike) or plain "mean".
    - `loss_problem`: the problem whose conditions and points make the loss, if it is another: fewer
      fresh points, or `problem.also(...)` with observed data.
    - `include_collocation`: takes the loss on the collocation points as well as on fresh ones.
    - `single`: evaluates the network and its derivatives in float32; the solve stays in float64.
    - `metrics`: `basis -> {name: number}` on unseen φ, taken about `metrics_count` times at steps spaced
      evenly in the logarithm. `progress` shows the one called "error".
    - `checkpoints`: where to keep the state. A run that was killed goes on from there, and ends with
      the same weights as one that was not.
    - `seconds`: ends the training after this many, compiling included and metrics not, if its steps are
      not done before. The optimiser's schedule does not know of it.
    - `devices`: over which the φ of a batch are split, as many on each: a sequence such as
      `jax.devices()`, or a `jax.sharding.Mesh`. Each holds the whole network, and gradients are
      averaged. What is drawn, and so the result, does not depend on how many there are, but for
      rounding. With several processes (`jax.distributed.initialize()`) all call `fit` alike, and all
      get the result. Without it: JAX's default device.

    Returns the trained basis and a `History`. A loss or gradient that is not finite stops the training
    with a `TrainingError` that names φ and the solver's status and holds the state before.
    """
    require_precision(jnp.float64)
    _require_arguments(problem, basis, optimiser, loss_problem, metrics, checkpoints)
    _require_settings(method, mean, steps, batch, seconds, key)
    phis = _checked(phis, problem, batch)
    if method == "soft":
        _require_sight(problem, basis)
    parameters, rest = _split(basis)
    solver = GaussNewton(restarts=0) if solver is None else complete(solver)
    mesh = None if devices is None else _mesh(devices, batch)
    step = make_step(rest, optimiser, solver, method, batch, mean, include_collocation, single, mesh)
    problems = (problem, loss_problem)

    settings = {"method": method, "batch": batch, "mean": mean, "key": jr.key_data(key).tolist()}
    kept = NoCheckpoints() if checkpoints is None else checkpoints
    state, done, history = kept.open((parameters, optimiser.init(parameters)), settings)
    moments = metric_steps(steps, metrics_count) if metrics is not None else set()
    if mesh is not None:
        state, phis, key = replicated((state, phis, key), mesh)
    whole = lambda: eqx.combine(state[0] if mesh is None else local(state[0]), rest)

    with _training_bar(steps, done, progress and first()) as tell, closing(kept):
        clock = _Clock(history)
        for number in range(done, steps):
            if seconds is not None and number and agreed(clock(), mesh) >= seconds:
                steps = number
                break
            if number in moments:
                _observe(metrics, whole(), number, history, clock)
            with _company(number, mesh, kept):
                state, report = step(state, problems, phis, key, number)
                well = bool(report.finite)
            if not well:
                kept.save(number, state, history, force=True)
                raise _failure(number, report, whole(), history)
            history.loss.append(float(report.loss))
            history.seconds.append(clock())
            history.compiling = history.compiling or history.seconds[-1]
            kept.save(number + 1, state, history)
            tell(history)
        if steps > done:
            kept.save(steps, state, history, force=True)
        if moments and not (history.metrics and history.metrics[-1]["step"] == steps):
            _observe(metrics, whole(), steps, history, clock)
    return whole(), history


def _require_arguments(
    problem: Any,
    basis: object,
    optimiser: object,
    loss_problem: Any,
    metrics: object,
    checkpoints: object,
) -> None:
    require_problem(problem, "fit")
    bases.require_basis(basis, "fit: the basis")
    parts = [getattr(optimiser, name, None) for name in ("init", "update")]
    if isinstance(optimiser, type) or not all(map(callable, parts)):
        raise TypeError(
            f"fit: `optimiser` must be one of Optax, such as optax.adam(1e-3); found {found(optimiser)}."
        )
    if loss_problem is not None and not isinstance(loss_problem, Problem):
        raise TypeError(
            "fit: `loss_problem` must be a Problem, such as problem.also(pdecl.Fit(...)); "
            f"found {found(loss_problem)}."
        )
    if loss_problem is not None and loss_problem.unknowns != problem.unknowns:
        raise ValueError(
            f"fit: `loss_problem` has the unknowns {', '.join(loss_problem.unknowns)}; the problem has "
            f"{', '.join(problem.unknowns)}."
        )
    if metrics is not None and not callable(metrics):
        raise TypeError(f"fit: `metrics` must be a function of the basis; found {found(metrics)}.")
    if checkpoints is not None and not isinstance(checkpoints, Checkpoints):
        raise TypeError(
            "fit: `checkpoints` must be pdecl.Checkpoints(folder, every=100); "
            f"found {found(checkpoints)}."
        )


def _require_settings(
    method: str, mean: str, steps: int, batch: int, seconds: float | None, key: object
) -> None:
    for name, value, known in [("method", method, losses.METHODS), ("mean", mean, losses.MEANS)]:
        if value not in known:
            raise ValueError(f"fit: {name} must be one of {', '.join(known)}; found {value!r}.")
    for name, count in [("steps", steps), ("batch", batch)]:
        require_count(f"fit: {name}", count)
    if seconds is not None and not seconds > 0:
        raise ValueError(f"fit: seconds must be positive; found {seconds!r}.")
    require_key(key, "fit")


def _checked(phis: Phi, problem: Problem, batch: int) -> Any:
    """The φ to draw from, as many as a batch; None for those of the distribution."""
    if phis is None:
        _require_law(problem, batch)
        return None
    phis = problem.check_many(phis)
    count = jax.tree.leaves(phis)[0].shape[0]
    if count < batch:
        raise ValueError(f"fit: {count} φ were given for batches of {batch}; lower batch or give more.")
    return phis


def _split(basis: BasisLike) -> tuple[Any, Any]:
    """What is trained, and the rest."""
    parameters, rest = eqx.partition(basis, eqx.is_inexact_array)
    if not jax.tree.leaves(parameters):
        raise ValueError(
            "fit: this basis has no numbers to train: its arrays must be fields of an Equinox module, "
            f"which a function hides; found {found(basis)}."
        )
    # An array of weak type becomes a strong one in the first step, and the second would compile again.
    return jax.tree.map(lambda x: jnp.asarray(x, x.dtype), parameters), rest


def _mesh(devices: Devices, batch: int) -> Mesh:
    mesh = mesh_of(devices, "fit")
    require_all_processes(mesh, "fit")
    require_even(mesh, batch, "fit")
    return mesh


@contextmanager
def _company(number: int, mesh: Mesh | None, kept: Checkpoints | NoCheckpoints) -> Iterator[None]:
    """Says of a step that several processes take together whether another one has ended."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if mesh is None or jax.process_count() == 1 or "RESOURCE_EXHAUSTED" in str(error):
            raise
        kept.abandon()
        raise lost(error, f"fit: step {number}") from error


def _require_law(problem: Problem, batch: int) -> None:
    """That there are φ to train on, and in a batch different ones."""
    if problem.parameter is None:
        raise ValueError(
            "fit: this Problem has no distribution of φ to draw from: state it with `parameter=lambda "
            "key: ...`, or give φ as `phis=`."
        )
    if batch > 1 and jax.tree.leaves(problem.phi_like) and not depends(problem.parameter, jr.key(0)):
        warnings.warn(
            f"fit: the distribution of φ gives the same φ for every key, so the {batch} φ of a batch "
            "are alike. Draw φ with jax.random from the key (numbers of NumPy are drawn once), or pass "
            "batch=1.",
            stacklevel=4,
        )


def _require_sight(problem: Problem, basis: BasisLike) -> None:
    """Without the layer only the network can tell one φ from another."""
    if problem.parameter is None:
        return
    unknowns, coords = problem.unknowns, jnp.zeros((1, len(problem.domain.names)))

    def answer(phi: Phi) -> Any:
        here = bases.specialise(basis, phi)
        sizes = bases.sizes(here, unknowns, coords.shape[1], phi)
        weights = bases.predicted(here, unknowns, phi, sizes)
        parts = (bases.evaluate, bases.offsets)
        return weights, [part(here, unknowns, coords, phi, {()}) for part in parts]

    if not depends(answer, problem.phi_like):
        raise ValueError(
            "fit: this network gives the same answer for every φ, and a soft model has no layer to tell "
            "them apart. Use one that sees φ (DeepONet, Modulated, a basis with `weights(phi)`), or "
            'method="hard".'
        )


class _Report(eqx.Module):
    loss: Any
    finite: Any
    losses: Any
    codes: Any
    phi: Any


def make_step(
    rest: PyTree,
    optimiser: "optax.GradientTransformation",
    solver: GaussNewton,
    method: str,
    batch: int,
    mean: str,
    include_collocation: bool,
    single: bool,
    mesh: Mesh | None = None,
) -> Callable[..., tuple[Any, _Report]]:
    """One optimiser step, compiled: of the state, the problems, φ to draw from, a key and a number.

    With a mesh each device draws, solves and differentiates for its share of the batch. A φ is drawn by
    a key of its number in the whole batch, and points by one key for all.
    """

    def advance(
        state: PyTree,
        problems: tuple[Problem, Problem | None],
        phis: Phi,
        key: PRNGKeyArray,
        number: Array,
    ) -> tuple[Any, _Report]:
        parameters, memory = state
        problem, loss_problem = problems[0], problems[1] or problems[0]
        energy = any(condition.kind == "Energy" for condition in loss_problem.conditions)
        phi_key, points_key, fresh_key = jr.split(jr.fold_in(key, number), 3)
        if phis is None:
            assert problem.parameter is not None
            phi = jax.vmap(problem.parameter)(share(jr.split(phi_key, batch), mesh))
        else:
            phi = _pick(phis, phi_key, batch, mesh)
        first = jax.tree.map(lambda leaf: leaf[0], phi)
        size = sum(sizes_of(problem, eqx.combine(parameters, rest), first).values())
        points, fresh = problem.draw(size, points_key), loss_problem.draw(size, fresh_key)
        # Of a direct solver's loops none evaluates functions: each device takes its own number of turns.
        shared = None
        if mesh is not None and gathers_soon(mesh) and (method == "soft" or solver.linear.direct):
            shared = mesh if may_share(problem, eqx.combine(parameters, rest), first) else None
        if include_collocation or method == "soft":
            fresh = (*map(_join, points, fresh), *fresh[len(points) :])

        def loss(parameters: PyTree) -> tuple[Array, tuple[Array, Array]]:
            basis = eqx.combine(parameters, rest)
            basis = InSingle(basis) if single else basis
            basis = basis if shared is None else Shared(basis, shared)

            def of_phi(phi: Phi) -> tuple[Array, Array]:
                if method == "soft":
                    return losses.soft(loss_problem, basis, phi, fresh)
                return losses.hard(problem, loss_problem, basis, phi, points, fresh, solver)

            each, codes = jax.vmap(of_phi)(phi)
            return losses.mean_over_phi(each, mean, energy), (each, codes)

        # On a GPU a product of float32 matrices may otherwise be made of 19-bit numbers.
        with jax.default_matmul_precision("highest"):
            (value, (each, codes)), gradient = jax.value_and_grad(loss, has_aux=True)(parameters)
        value, gradient = averaged((value, gradient), mesh)
        updates, new_memory = optimiser.update(gradient, memory, parameters)
        new = (eqx.apply_updates(parameters, updates), new_memory)
        well = finite((value, gradient))
        state = jax.tree.map(lambda new, old: jnp.where(well, new, old), new, state)
        return state, _Report(value, well, each, codes, phi)

    # The problems are arguments: points that they hold would be constants of the program otherwise.
    @eqx.filter_jit
    def step(*given: Any) -> tuple[Any, _Report]:
        arrays, static = eqx.partition(given, eqx.is_array)
        of_arrays = lambda arrays: advance(*eqx.combine(arrays, static))
        outputs = "state", _Report("loss", "finite", PHI, PHI, PHI)
        return split(of_arrays, mesh, ["all"], outputs)(arrays)

    return lambda state, problems, phis, key, number: step(
        state, problems, phis, key, jnp.asarray(number)
    )


def _pick(phis: Phi, key: PRNGKeyArray, batch: int, mesh: Mesh | None) -> Any:
    """Different φ of those given."""
    count = jax.tree.leaves(phis)[0].shape[0]
    chosen = share(jr.choice(key, count, (batch,), replace=False), mesh)
    return jax.tree.map(lambda leaf: leaf[chosen], phis)


def _join(one: Points, other: Points) -> Points:
    """Two draws of the same set as one, with weights that still add up to its measure."""
    if one is other:
        return one
    joined = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), one, other)
    share = len(one) / (len(one) + len(other))
    weights = jnp.concatenate([share * one.weights, (1 - share) * other.weights])
    return eqx.tree_at(lambda points: points.weights, joined, weights)


@contextmanager
def _training_bar(steps: int, done: int, show: bool) -> Iterator[Callable[[History], None]]:
    """A bar with the loss, the error on unseen φ, the speed and the time left."""
    with progress_bar(show, count=True, note=True, transient=False) as bar:
        task = bar.add_task("training", total=steps, completed=done, note="")

        def tell(history: History) -> None:
            parts = [f"loss {history.loss[-1]:.4g}"]
            if history.metrics and "error" in history.metrics[-1]:
                parts.append(f"unseen error {history.metrics[-1]['error']:.3%}")
            if len(history.loss) > 1:
                parts.append(f"{history.steps_per_second:.3g} steps/s")
            bar.update(task, completed=len(history.loss), note=", ".join(parts))

        yield tell


class _Clock:
    """Seconds of training, which go on from the history's and stand still while metrics are taken."""

    def __init__(self, history: History):
        self.origin = time.perf_counter() - (history.seconds[-1] if history.seconds else 0.0)

    def __call__(self) -> float:
        return time.perf_counter() - self.origin

    def skip(self, seconds: float) -> None:
        self.origin += seconds


def _observe(
    metrics: Metrics | None, basis: BasisLike, number: int, history: History, clock: _Clock
) -> None:
    assert metrics is not None
    before = clock()
    row = _metrics(metrics(basis))
    history.metrics.append({"step": number, "seconds": before, **row})
    clock.skip(clock() - before)


def _metrics(metrics: object) -> dict[str, float]:
    if not isinstance(metrics, Mapping) or any(np.ndim(value) for value in metrics.values()):
        raise TypeError(
            f'fit: `metrics` must return numbers by name, {{"error": 0.1}}; found {found(metrics)}.'
        )
    return {name: float(value) for name, value in metrics.items()}


def _failure(number: int, report: _Report, basis: BasisLike, history: History) -> TrainingError:
    what = "gradient" if np.isfinite(report.loss) else "loss"
    each_code, losses, phis = gathered((report.codes, report.losses, report.phi))
    codes, bad = np.asarray(each_code), ~np.isfinite(losses)
    failed = [Status(int(code)).failed for code in codes]
    index = int(np.argmax(bad if bad.any() else failed))
    status = Status(int(codes[index]))
    phi = jax.tree.map(lambda leaf: np.asarray(leaf[index]), phis)
    at = f" (training step {number}: the {what} is not finite, for φ number {index} of the batch)"
    return TrainingError(
        status if status.failed else Status.NOT_CONVERGED, at, number, phi, basis, history
    )
