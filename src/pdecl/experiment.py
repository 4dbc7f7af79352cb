"""An experiment as plain data: a problem, a network, how it is trained. And what it stands for.

Everything here is numbers, words and tuples, so that it goes into a file's header and comes back without
running anything. `presets.py` has the experiments we publish.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from typing import Any

import jax.random as jr
import numpy as np
import optax
from jaxtyping import PRNGKeyArray

from . import networks, solvers
from .condition import Enforce, Fit
from .grid import ElementBasis
from .networks.products import channels_for
from .problem import Problem
from .problems import SPLITS, Law, named
from .problems.darcy_grid import subsample


@dataclass(frozen=True)
class Network:
    """Which network, how many functions, how large; `options` are its other arguments.

    - `periodic`: a coordinate, and up to which wave, that the network sees through sines and cosines.
    - `creased`: the share of the functions that crease along the law's front.
    - `wall`: functions are zero on the boundary of the box.
    """

    kind: str
    size: int
    width: int
    depth: int
    options: Mapping[str, Any] = field(default_factory=dict)
    periodic: tuple[str, int] | None = None
    wall: bool = False
    creased: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.creased < 1:
            raise ValueError(f"creased is a share, from 0 to below 1; found {self.creased}.")
        if self.creased and self.kind == "FNO":
            raise ValueError("functions on a grid, as an FNO's are, cannot be creased; leave it at 0.")


@dataclass(frozen=True)
class Training:
    """How a network is trained. The rate falls along a cosine from `rate` to `rate` · `final`.

    - `phis`: how many of the split "train" to draw from; 0 draws new φ in every step.
    - `solver`: the linear solver's name; `ridge` its ridge, None for its default.
    - `newton`: the most steps of Gauss–Newton in training, for nonlinear problems.
    - `optimiser`: "adam", or "muon", whose steps of a matrix have singular values of one size.
    - `watched`: how many of the test φ the history's metrics are taken on.
    """

    steps: int
    batch: int
    rate: float
    final: float = 0.01
    warmup: int = 50
    clip: float = 1.0
    mean: str = "log"
    phis: int = 1000
    fitted_too: bool = False
    single: bool = False
    solver: str = "Cholesky"
    ridge: float | None = None
    newton: int = 15
    watched: int = 10
    optimiser: str = "adam"

    def __post_init__(self) -> None:
        _named("solver", self.solver, _SOLVERS)
        _named("optimiser", self.optimiser, _OPTIMISERS)


@dataclass(frozen=True)
class Experiment:
    """A problem, a method, a network and a training.

    - `law`: constants of the problem's law in the place of its defaults.
    - `statement`: arguments of the law's `problem`; `judge` those that differ for the loss's points.
    - `grid`: for Darcy, the nodes a side on which it is trained.
    """

    problem: str
    method: str
    preset: str
    network: Network
    training: Training
    law: Mapping[str, Any] = field(default_factory=dict)
    statement: Mapping[str, Any] = field(default_factory=dict)
    judge: Mapping[str, Any] = field(default_factory=dict)
    grid: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.grid is not None and self.problem != "darcy":
            raise ValueError(f"grid belongs to Darcy; {self.problem} is trained at points, on no grid.")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def with_overrides(self, **changes: Any) -> "Experiment":
        """Another experiment with some fields of it, of its network or of its training changed."""
        parts: dict[str, Any] = {}
        owners = {"": self, "network": self.network, "training": self.training}
        for name, value in changes.items():
            place = next((place for place, owner in owners.items() if hasattr(owner, name)), None)
            if place is None:
                raise ValueError(f"an experiment has no {name!r}.")
            parts.setdefault(place, {})[name] = value
        made = replace(self, **parts.get("", {}))
        return replace(
            made,
            network=replace(made.network, **parts.get("network", {})),
            training=replace(made.training, **parts.get("training", {})),
        )


def from_dict(plain: Mapping[str, Any]) -> Experiment:
    """The experiment that `as_dict` described; a ValueError says what does not belong."""
    try:
        network = dict(plain["network"])
        if network.get("periodic") is not None:
            network["periodic"] = tuple(network["periodic"])
        return Experiment(
            **{**plain, "network": Network(**network), "training": Training(**plain["training"])}
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is not the description of an experiment: {error}") from error


def law_of(experiment: Experiment, grid: int | None = None) -> Law:
    """The law, for Darcy on the experiment's own grid or on another one."""
    constants = dict(experiment.law)
    if experiment.problem == "darcy":
        constants["grid"] = grid or experiment.grid or constants.get("grid", 421)
    return named(experiment.problem, **constants)


def problem_of(experiment: Experiment, grid: int | None = None) -> Problem:
    """The PDE as conditions that the layer solves."""
    return stated(law_of(experiment, grid), **experiment.statement)


def judge_of(experiment: Experiment) -> Problem | None:
    """The problem whose points the loss is taken on, if they are others."""
    if not experiment.judge:
        return None
    return stated(law_of(experiment), **{**experiment.statement, **experiment.judge})


@cache
def stated(law: Law, **statement: Any) -> Problem:
    """A law's problem: the same object for the same words, so that what was compiled for it serves
    again."""
    return law.problem(**_words(statement))


@cache
def _front(law: Law) -> Problem:
    if not hasattr(law, "front"):
        raise ValueError(f"the law of {law.name!r} names no front for functions to crease along.")
    return law.front()


def basis_of(experiment: Experiment, key: PRNGKeyArray) -> Any:
    """The untrained network."""
    network, problem = experiment.network, problem_of(experiment)
    if network.kind == "FNO":
        basis: Any = ElementBasis(problem.domain, _on_grid(problem, network, key))
    else:
        options = dict(network.options)
        if network.periodic is not None:
            name, waves = network.periodic
            options["features"] = networks.Periodic(problem, name, waves=waves)
        kind = _named("network", network.kind, _NETWORKS)
        if experiment.problem == "darcy":
            raise ValueError(f"darcy is solved on a grid, with an FNO; found {network.kind!r}.")
        basis = kind(problem, network.size, network.width, network.depth, **options, key=key)
        if network.creased:
            along = max(1, int(network.creased * network.size))
            basis = networks.Creased(basis, _front(law_of(experiment)), along)
    basis = networks.Mollified(basis, problem.domain.faces()) if network.wall else basis
    nodes = experiment.statement.get("nodes")
    return basis if nodes is None else networks.Thinned(basis, nodes)


def _on_grid(problem: Problem, network: Network, key: PRNGKeyArray) -> Any:
    """An FNO, or products of its channels with the polynomials up to the option `degree`."""
    options = dict(network.options)
    degree = options.pop("degree", 0)
    channels = channels_for(network.size, degree)
    made = networks.FNO(problem, channels, network.width, network.depth, **options, key=key)
    return networks.Products(made, degree) if degree else made


def solver_of(experiment: Experiment) -> solvers.GaussNewton:
    """The solver for answers: as many steps as it takes."""
    linear = _SOLVERS[experiment.training.solver](ridge=experiment.training.ridge)
    return solvers.GaussNewton(linear)


def training_solver_of(experiment: Experiment) -> solvers.GaussNewton:
    """The same, but a batch waits for its slowest φ: no more steps than `newton`, and none that would
    lower the objective by less than 1e-7 of it. For 32 φ of Burgers, "best", untrained, that is five
    steps for nine, and a gradient that is off by 5e-5."""
    return replace(solver_of(experiment), rtol=3e-4, max_steps=experiment.training.newton)


def optimiser_of(training: Training) -> optax.GradientTransformation:
    """Clipping, then Adam or Muon; the rate rises for `warmup` steps and falls along a cosine."""
    warmup = min(training.warmup, training.steps // 10)
    last, top = max(training.steps, warmup + 1), training.rate
    rate = optax.warmup_cosine_decay_schedule(top / 10, top, warmup, last, top * training.final)
    adaptive = _OPTIMISERS[training.optimiser](rate)
    return optax.chain(optax.clip_by_global_norm(training.clip), adaptive)


def training_phis(experiment: Experiment) -> np.ndarray | None:
    """The φ to train on: the first of the split "train", on the experiment's grid."""
    if experiment.training.phis == 0:
        return None
    split = SPLITS["train"]
    law, count = law_of(experiment, full_grid(experiment)), experiment.training.phis
    # A few at a time: a thousand fields of 421 × 421 nodes are 1.4 GB.
    parts = [
        on_grid(experiment, law.sample(split.seed, min(50, count - start), start))
        for start in range(0, count, 50)
    ]
    return np.concatenate(parts)


def on_grid(experiment: Experiment, values: np.ndarray) -> np.ndarray:
    """φ or solutions of the full grid on the grid of the experiment."""
    if experiment.grid is None or experiment.grid == values.shape[-1]:
        return values
    return subsample(values, experiment.grid)


def keys_of(experiment: Experiment) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """One key for the network's first weights, one for the training."""
    network_key, training_key = jr.split(jr.key(experiment.seed))
    return network_key, training_key


def full_grid(experiment: Experiment) -> int | None:
    return experiment.law.get("grid", 421) if experiment.problem == "darcy" else None


def _words(statement: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions are named in plain data."""
    kinds = {"Fit": Fit, "Enforce": Enforce}
    return {
        name: kinds.get(value, value) if name == "pde" else value for name, value in statement.items()
    }


def _named(what: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise ValueError(f"there is no {what} {name!r}; choose one of {', '.join(known)}.")
    return known[name]


_NETWORKS = {
    kind.__name__: kind
    for kind in (networks.MLP, networks.DeepONet, networks.GatedDeepONet, networks.Modulated)
}
# Muon's steps are as long as Adam's, so that one rate suits both; what is no matrix is left to Adam.
_OPTIMISERS = {"adam": optax.adam, "muon": partial(optax.contrib.muon, consistent_rms=0.2)}
_SOLVERS = {
    kind.__name__: kind
    for kind in (solvers.Cholesky, solvers.QR, solvers.SVD, solvers.CG, solvers.GMRES, solvers.LSMR)
}
