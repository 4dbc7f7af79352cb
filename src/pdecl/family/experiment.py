"""An experiment: a family, a network, how it is trained. And what it stands for.

All but the family is numbers, words and tuples, so that it goes into a file's header and comes back
without running anything; of the family its name goes along, and what it stated (`family/identity.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from .. import solvers
from ..basis import networks
from ..basis.grid import ElementBasis, subsample
from ..basis.networks.products import channels_for
from ..layer.creased import Creased
from ..state.condition import Enforce, Fit
from ..state.problem import Problem
from ..train.loss import METHODS
from . import SPLITS, Family, Network, Training, named, names, stated
from .phi import joined
from .registry import resolve

if TYPE_CHECKING:
    import optax


@dataclass(frozen=True)
class Experiment:
    """A family, a method, a network and a training.

    - `constants`: of the family, instead of its defaults.
    - `statement`: arguments of the family's `problem`; `loss_statement` those that differ for the
      loss's points.
    - `grid`: for a family on a grid, the nodes a side on which it is trained.
    """

    family: Family
    method: str
    preset: str
    network: Network
    training: Training
    constants: Mapping[str, Any] = field(default_factory=dict)
    statement: Mapping[str, Any] = field(default_factory=dict)
    loss_statement: Mapping[str, Any] = field(default_factory=dict)
    grid: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _named("solver", self.training.solver, _SOLVERS)
        _named("optimiser", self.training.optimiser, _OPTIMISERS)
        if self.grid is not None and not self.family.on_grid:
            raise ValueError(
                f"grid belongs to problems whose φ is on a grid; {self.problem} is trained at points."
            )

    @property
    def problem(self) -> str:
        """The family's name."""
        return self.family.name

    def as_dict(self) -> dict[str, Any]:
        """As plain data, the family as its name."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "family"}
        plain = {"network": asdict(self.network), "training": asdict(self.training)}
        return {"problem": self.problem, **own, **plain}

    def with_overrides(self, **changes: Any) -> "Experiment":
        """Another experiment with some fields of it, of its network or of its training changed."""
        parts: dict[str, Any] = {}
        owners = {"": self, "network": self.network, "training": self.training}
        for name, value in changes.items():
            place = next((place for place, owner in owners.items() if hasattr(owner, name)), None)
            if place is None:
                raise ValueError(f"an experiment has no {name!r}.")
            parts.setdefault(place, {})[name] = value
        changed = replace(self, **parts.get("", {}))
        return replace(
            changed,
            network=replace(changed.network, **parts.get("network", {})),
            training=replace(changed.training, **parts.get("training", {})),
        )


def from_dict(plain: Mapping[str, Any], family: Family | None = None) -> Experiment:
    """The experiment that `as_dict` described; a ValueError says what does not belong.

    `family`: the one that the user names; without it an installed one of the name that is written.
    """
    given = completed(plain)
    name = given.pop("problem")
    if family is None and name not in names():
        raise ValueError(f"the problem {name!r} is not installed: name its file, --problem FILE.py.")
    family = named(name) if family is None else family
    try:
        network, training = Network(**given.pop("network")), Training(**given.pop("training"))
        return Experiment(family, network=network, training=training, **given)
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is not the description of an experiment: {error}") from error


def completed(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The description with every setting: one that came later has its default in a file from before."""
    try:
        plain = _renamed(plain, _FORMER)
        network = dict(plain["network"])
        if network.get("periodic") is not None:
            network["periodic"] = tuple(network["periodic"])
        training = _renamed(plain["training"], _FORMER_TRAINING)
        if training.get("decay") is not None:
            training["decay"] = tuple(training["decay"])
        parts = {"network": asdict(Network(**network)), "training": asdict(Training(**training))}
        defaults: dict[str, Any] = {
            "constants": {}, "statement": {}, "loss_statement": {}, "grid": None, "seed": 0
        }  # fmt: skip
        return {**defaults, **plain, **parts, "problem": str(plain["problem"])}
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is not the description of an experiment: {error}") from error


# What settings were called in files of version 0.1.
_FORMER = {"law": "constants", "judge": "loss_statement"}
_FORMER_TRAINING = {"fitted_too": "include_collocation", "watched": "metrics_phis"}


def _renamed(plain: Mapping[str, Any], former: Mapping[str, str]) -> dict[str, Any]:
    return {former.get(name, name): value for name, value in plain.items()}


def family_of(experiment: Experiment, grid: int | None = None) -> Family:
    """The family with the experiment's constants, on its own grid or on another one."""
    family, constants = experiment.family, dict(experiment.constants)
    if family.on_grid:
        constants["grid"] = grid or experiment.grid or full_grid(experiment)
    return family.replaced(**constants)


def problem_of(experiment: Experiment, grid: int | None = None) -> Problem:
    """The PDE as conditions that the layer solves."""
    return problem_with(family_of(experiment, grid), experiment.statement)


def loss_problem_of(experiment: Experiment) -> Problem | None:
    """The problem whose points the loss is taken on, if they are others."""
    if not experiment.loss_statement:
        return None
    return problem_with(family_of(experiment), {**experiment.statement, **experiment.loss_statement})


def problem_with(family: Family, statement: Mapping[str, Any]) -> Problem:
    """A family's problem, for arguments that are plain data: conditions are named."""
    kinds = {"Fit": Fit, "Enforce": Enforce}
    words = {
        name: kinds.get(value, value) if name == "pde" else value for name, value in statement.items()
    }
    return stated(family, **words)


@cache
def _front(family: Family) -> Problem:
    if family.front is None:
        raise ValueError(f"{family.name!r} names no front for functions to crease along.")
    return family.front()


def basis_of(experiment: Experiment, key: PRNGKeyArray) -> Any:
    """The untrained network."""
    network, problem = experiment.network, problem_of(experiment)
    if network.kind == "FNO":
        basis: Any = ElementBasis(problem.domain, _on_grid(problem, network, key))
    else:
        options = dict(network.options)
        if network.periodic is not None:
            *names, waves = network.periodic
            options["features"] = networks.Periodic(problem, *names, waves=waves)
        if experiment.family.on_grid:
            raise ValueError(
                f"{experiment.problem} is solved on a grid, with an FNO; found {network.kind!r}."
            )
        if network.kind in _NETWORKS:
            kind = _NETWORKS[network.kind]
            basis = kind(problem, network.size, network.width, network.depth, **options, key=key)
        else:
            basis = experiment.family.basis(network, key)
        if network.creased:
            along = max(1, int(network.creased * network.size))
            basis = Creased(basis, _front(family_of(experiment)), along)
    basis = networks.Mollified(basis, problem.domain.faces()) if network.wall else basis
    nodes = experiment.statement.get("nodes")
    return basis if nodes is None else networks.Thinned(basis, nodes)


def basis_like(experiment: Experiment) -> Any:
    """The network with zeros for its arrays, to be filled from a file: nothing is drawn, or compiled."""
    problem_of(experiment)  # what is made once is made of numbers, before anything is traced
    if experiment.network.creased:
        _front(family_of(experiment))
    rest = []

    def arrays(key: PRNGKeyArray) -> Any:
        traced, other = eqx.partition(basis_of(experiment, key), eqx.is_array)
        rest.append(other)
        return traced

    try:
        shapes = jax.eval_shape(arrays, jr.key(0))
    except jax.errors.ConcretizationTypeError:  # a family's own network looks at its numbers
        return basis_of(experiment, jr.key(0))
    zeros = lambda leaf: jnp.asarray(np.zeros(leaf.shape, leaf.dtype))
    return eqx.combine(jax.tree.map(zeros, shapes), rest[0])


def _on_grid(problem: Problem, network: Network, key: PRNGKeyArray) -> Any:
    """An FNO, or products of its channels with the polynomials up to the option `degree`."""
    options = dict(network.options)
    degree = options.pop("degree", 0)
    channels = channels_for(network.size, degree)
    fno = networks.FNO(problem, channels, network.width, network.depth, **options, key=key)
    return networks.Products(fno, degree) if degree else fno


def solver_of(experiment: Experiment) -> solvers.GaussNewton:
    """The solver for answers: as many steps as it takes."""
    linear = _SOLVERS[experiment.training.solver](ridge=experiment.training.ridge)
    return solvers.GaussNewton(linear)


def training_solver_of(experiment: Experiment) -> solvers.GaussNewton:
    """The same, but a batch waits for its slowest φ: no more steps than `newton`, and none that would
    lower the objective by less than 1e-7 of it. For 32 φ of an untrained basis that is five
    steps for nine, and a gradient that is off by 5e-5."""
    training = experiment.training
    return replace(
        solver_of(experiment), rtol=3e-4, max_steps=training.newton, restarts=training.restarts
    )


def optimiser_of(training: Training) -> "optax.GradientTransformation":
    """Clipping, then Adam or Muon; the rate rises for `warmup` steps and falls along a cosine, or goes
    down a staircase from the first step on."""
    import optax  # only training needs it

    top, steps = training.rate, training.steps
    if training.decay is not None:
        factor, every = training.decay
        rate = optax.exponential_decay(top, every, factor, staircase=True)
    else:
        warmup = min(training.warmup, steps // 10)
        last = max(steps, warmup + 1)
        rate = optax.warmup_cosine_decay_schedule(top / 10, top, warmup, last, top * training.final)
    adaptive = _OPTIMISERS[training.optimiser](rate)
    if training.clip is None:
        return adaptive
    return optax.chain(optax.clip_by_global_norm(training.clip), adaptive)


def _adam(rate: "optax.Schedule") -> "optax.GradientTransformation":
    import optax

    return optax.adam(rate)


def _muon(rate: "optax.Schedule") -> "optax.GradientTransformation":
    """With steps as long as Adam's, so that one rate suits both; what is no matrix is left to Adam."""
    import optax

    return optax.contrib.muon(rate, consistent_rms=0.2)


def training_phis(experiment: Experiment) -> Any:
    """The φ to train on: the first of the split "train", on the experiment's grid; None for new ones."""
    if experiment.training.phis == 0:
        return None
    split = SPLITS["train"]
    family, count = family_of(experiment, full_grid(experiment)), experiment.training.phis
    # A few at a time: a thousand fields of 421 × 421 nodes are 1.4 GB.
    parts = [
        on_own_grid(experiment, family.sample(split.seed, min(50, count - start), start))
        for start in range(0, count, 50)
    ]
    return joined(parts)


def on_own_grid(experiment: Experiment, values: Any) -> Any:
    """φ or solutions of the full grid on the grid of the experiment."""
    if experiment.grid is None or experiment.grid == values.shape[-1]:
        return values
    return subsample(values, experiment.grid)


def keys_of(experiment: Experiment) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """One key for the network's first weights, one for the training."""
    network_key, training_key = jr.split(jr.key(experiment.seed))
    return network_key, training_key


def full_grid(experiment: Experiment) -> int | None:
    """The nodes a side of a family on a grid, before the experiment thins them."""
    family = experiment.family
    return experiment.constants.get("grid", family.grid) if family.on_grid else None


def _named(what: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise ValueError(f"there is no {what} {name!r}; choose one of {', '.join(known)}.")
    return known[name]


_NETWORKS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (networks.MLP, networks.DeepONet, networks.GatedDeepONet, networks.Modulated)
}
_NETWORKS["Modes"] = networks.Modes.zeros
_OPTIMISERS: dict[str, Callable[["optax.Schedule"], "optax.GradientTransformation"]] = {
    "adam": _adam,
    "muon": _muon,
}
_SOLVERS = {
    kind.__name__: kind
    for kind in (solvers.Cholesky, solvers.QR, solvers.CG, solvers.GMRES, solvers.LSMR)
}


def preset(
    problem: str | Family, method: str = "hard", name: str | None = None, seed: int = 0
) -> Experiment:
    """The experiment of a family (or a word for one), a method and a preset's name, the family's first
    one if it is left out."""
    family = problem if isinstance(problem, Family) else resolve(problem)
    name = family.presets[0] if name is None else name
    for what, value, known in [("method", method, METHODS), ("preset", name, family.presets)]:
        if value not in known:
            raise ValueError(f"there is no {what} {value!r}; choose one of {', '.join(known)}.")
    chosen = family.preset(method, name)
    return Experiment(
        family, method, name, chosen.network, chosen.training,
        statement=chosen.statement, loss_statement=chosen.loss_statement, grid=chosen.grid, seed=seed,
    )  # fmt: skip
