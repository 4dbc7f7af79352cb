"""Trains several seeds of a preset in one program, each into a run's folder of its own.

    python benchmarks/seeds.py burgers --method soft --preset paper --seeds 0 1 2 --out paper/runs

Its steps are those of `pdecl train burgers --method soft --preset paper --seed 0`, and of seeds 1 and 2.
On a GPU a step of a small network is mostly waiting: one for three seeds takes hardly longer than one
for one, and none waits for Python. `--seconds` ends the training then, metrics and compiling included.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pdecl.family.dataset import Dataset, take
from pdecl.family.evaluate import metrics_on
from pdecl.family.experiment import (
    Experiment,
    basis_of,
    keys_of,
    loss_problem_of,
    optimiser_of,
    preset,
    problem_of,
    training_phis,
    training_solver_of,
)
from pdecl.family.trained import Trained
from pdecl.report.runs import claim, folder_name, keep, standard_data
from pdecl.train.fit import make_step
from pdecl.train.history import History, metric_steps

LONGEST = 500  # steps of one call


def main() -> None:
    options = _options()
    jax.config.update("jax_enable_x64", True)
    began = time.perf_counter()
    tell = lambda text: print(f"{time.perf_counter() - began:7.1f} s  {text}", flush=True)
    first = preset(options.problem, options.method, options.preset)
    first = first.with_overrides(**dict(options.set))
    experiments = [replace(first, seed=seed) for seed in options.seeds]
    folders = [options.out / folder_name(experiment) for experiment in experiments]
    for folder, experiment in zip(folders, experiments, strict=True):
        claim(folder, experiment)
    data = standard_data(first, options.cache, options.count, progress=False)
    tell("references are there")
    left = options.seconds - (time.perf_counter() - began)
    runs = train(experiments, data, left, options.metrics_count, tell)
    for folder, experiment, (basis, history) in zip(folders, experiments, runs, strict=True):
        found = keep(Trained(experiment, basis), folder, data, progress=False, history=history)
        tell(f"{folder}: {len(history.loss)} steps, error {found.errors.mean():.3%}")


def train(
    experiments: Sequence[Experiment],
    data: Dataset,
    seconds: float = float("inf"),
    metrics_count: int = 20,
    tell: Callable[[str], None] = print,
) -> list[tuple[Any, History]]:
    """Each experiment's trained basis and history; the experiments differ by their seeds alone."""
    began, spent, done = time.perf_counter(), 0.0, 0
    state, rest, advance = _program(experiments)
    member = lambda k: eqx.combine(jax.tree.map(lambda leaf: leaf[k], state[0]), rest)
    plan, histories = experiments[0].training, [History() for _ in experiments]
    moments = sorted(metric_steps(plan.steps, metrics_count))
    data = take(data, plan.metrics_phis)
    metrics = [metrics_on(Trained(one, member(k)), data) for k, one in enumerate(experiments)]

    def observe() -> None:
        for k, history in enumerate(histories):
            history.metrics.append({"step": done, "seconds": spent, **metrics[k](member(k))})
        errors = ", ".join(f"{history.metrics[-1]['error']:.3%}" for history in histories)
        tell(f"step {done}, {spent:.1f} s of training: {errors}")

    while done < plan.steps and time.perf_counter() - began < seconds:
        if done in moments:
            observe()
        until = min(min(m for m in moments if m > done), done + LONGEST)
        before, clock = spent, time.perf_counter()
        state, losses, lost = advance(state, done, until)
        losses = np.asarray(losses)[: until - done]
        spent += time.perf_counter() - clock
        if lost.any():
            tell(f"left out, since not finite, of steps {done} to {until}: {lost.tolist()} a seed")
        for k, history in enumerate(histories):
            history.loss += losses[:, k].tolist()
            history.seconds += np.linspace(before, spent, until - done + 1)[1:].round(4).tolist()
            history.compiling = history.compiling or spent
        done = until
    observe()
    return [(member(k), history) for k, history in enumerate(histories)]


def _program(experiments: Sequence[Experiment]) -> tuple[Any, Any, Callable[..., Any]]:
    """The state of all trainings at their start, what they do not train, and a function that takes the
    steps from one number to another."""
    one, plan = experiments[0], experiments[0].training
    keys = [keys_of(experiment) for experiment in experiments]
    bases = [basis_of(experiment, key) for experiment, (key, _) in zip(experiments, keys, strict=True)]
    seeds, optimiser = jnp.stack([key for _, key in keys]), optimiser_of(plan)
    rest = eqx.partition(bases[0], eqx.is_inexact_array)[1]
    step = make_step(
        rest, optimiser, training_solver_of(one), one.method,
        plan.batch, plan.mean, plan.include_collocation, plan.single,
    )  # fmt: skip
    problems = problem_of(one), loss_problem_of(one)
    phis = jax.tree.map(jnp.asarray, training_phis(one))

    def start(basis: Any) -> Any:
        parameters = eqx.filter(basis, eqx.is_inexact_array)
        parameters = jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), parameters)
        return parameters, optimiser.init(parameters)

    @partial(jax.jit, donate_argnums=0)
    def advance(state: Any, phis: Any, begin: Any, end: Any) -> tuple[Any, Any, Any]:
        def next_step(number: Any, carry: Any) -> Any:
            state, losses, lost = carry
            every = jax.vmap(lambda state, seed: step(state, problems, phis, seed, number))
            state, report = every(state, seeds)
            return state, losses.at[number - begin].set(report.loss), lost + ~report.finite

        losses, lost = jnp.zeros((LONGEST, len(experiments))), jnp.zeros(len(experiments), int)
        return jax.lax.fori_loop(begin, end, next_step, (state, losses, lost))

    state = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(start, bases))
    return state, rest, lambda state, begin, end: advance(state, phis, begin, end)


def _setting(text: str) -> tuple[str, Any]:
    name, text = text.split("=")
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return name, text
    return name, tuple(value) if isinstance(value, list) else value


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("problem")
    parser.add_argument("--method", default="hard")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--set", type=_setting, nargs="+", default=[], metavar="NAME=VALUE", help="width=64 kind=MLP"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--metrics-count", type=int, default=20)
    parser.add_argument("--count", type=int, help="test φ, 50 without it")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--cache", type=Path, default=Path("runs/data"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
