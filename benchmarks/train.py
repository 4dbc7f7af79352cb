"""Where the time of a training step goes.

    python benchmarks/train.py                              the preset "quick" of all three problems
    python benchmarks/train.py --preset best --out FILE     ours, on a GPU

Parts of a step are compiled by themselves, each containing the one before: derivatives of the
functions at the layer's points; with the rows and their Gram matrix; with the solve; with the loss on
fresh points; with the gradient. Their differences are the shares. Steps per second are those of
`pdecl.fit` itself. The rate of the whole gradient is counted in the operations of its program
(factorisations are left out), beside that of one large matrix product in the network's
precision.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from rich.console import Console
from rich.table import Table
from timing import machine, matmul_rate, measure, save

import pdecl
from pdecl.basis import basis as bases
from pdecl.basis.networks import InSingle
from pdecl.family import shipped
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
from pdecl.layer.layer import weights_of
from pdecl.layer.system import build, linearise
from pdecl.train import loss as losses

PARTS = ("derivatives", "assembly", "solve", "loss", "gradient")


def main() -> None:
    options = _options()
    console, facts = Console(), machine()
    rates = {
        name: matmul_rate(2048 if facts["platform"] == "cpu" else 8192, dtype=dtype)
        for name, dtype in [("float32", jnp.float32), ("float64", jnp.float64)]
    }
    rows = []
    for name in options.problems:
        experiment = preset(name, "hard", options.preset).with_overrides(steps=options.steps)
        rows.append(_row(experiment, rates, options.repeats))
        console.print(_table(rows[-1]))
    save(options.out, {**facts, "matmul_gflops": {k: v / 1e9 for k, v in rates.items()}, "rows": rows})


def _row(experiment: Experiment, rates: dict[str, float], repeats: int) -> dict[str, Any]:
    network_key, training_key = keys_of(experiment)
    basis, phis = basis_of(experiment, network_key), training_phis(experiment)
    plan = experiment.training
    parts, arguments = _parts(experiment, basis, phis[: plan.batch])
    seconds, flops = {}, 0.0
    for name, part in parts.items():
        with jax.default_matmul_precision("highest"):  # as `pdecl.fit` has it
            timing, program, _ = measure(part, *arguments, repeats=repeats)
        seconds[name], flops = timing.seconds, program.cost_analysis()["flops"]
    _, history = pdecl.fit(
        problem_of(experiment), basis, optimiser_of(plan), steps=plan.steps, key=training_key,
        batch=plan.batch, phis=phis, mean=plan.mean, loss_problem=loss_problem_of(experiment),
        single=plan.single, solver=training_solver_of(experiment), progress=False,
    )  # fmt: skip
    before = [0.0, *(seconds[name] for name in PARTS[:-1])]
    rate = rates["float32" if plan.single else "float64"]
    return {
        "problem": experiment.problem,
        "preset": experiment.preset,
        "size": experiment.network.size,
        "batch": plan.batch,
        "single": plan.single,
        "steps_per_second": history.steps_per_second,
        "milliseconds": {
            name: 1e3 * (seconds[name] - start) for name, start in zip(PARTS, before, strict=True)
        },
        "gflop": flops / 1e9,
        "matmul_fraction": flops / seconds["gradient"] / rate,
    }


def _parts(
    experiment: Experiment, basis: Any, phi: Any
) -> tuple[dict[str, Callable[..., Any]], tuple[Any, ...]]:
    """The parts of a step, as functions of the network's parameters and a batch of φ."""
    problem, solver = problem_of(experiment), training_solver_of(experiment)
    loss_problem = loss_problem_of(experiment) or problem
    parameters, rest = eqx.partition(basis, eqx.is_inexact_array)
    points, fresh = (
        one.draw(experiment.network.size, key)
        for one, key in zip((problem, loss_problem), jr.split(jr.key(0)), strict=True)
    )

    def network(parameters: Any) -> Any:
        whole = eqx.combine(parameters, rest)
        return InSingle(whole) if experiment.training.single else whole

    def system(parameters: Any, phi: Any) -> Any:
        return build(problem, bases.specialise(network(parameters), phi), phi, points)

    def assembled(parameters: Any, phi: Any) -> Any:
        made = system(parameters, phi)
        model = linearise(made)
        return model.gram(jnp.zeros(made.plan.size), with_equalities=True).lower()

    def loss(parameters: Any, phi: Any) -> Any:
        return losses.hard(problem, loss_problem, network(parameters), phi, points, fresh, solver)[0]

    def over_batch(one: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda parameters, phi: jax.vmap(lambda each: one(parameters, each))(phi)

    parts = {
        "derivatives": over_batch(lambda parameters, phi: system(parameters, phi).jets),
        "assembly": over_batch(assembled),
        "solve": over_batch(lambda parameters, phi: weights_of(system(parameters, phi), solver).weights),
        "loss": over_batch(loss),
        "gradient": jax.grad(lambda parameters, phi: jnp.mean(over_batch(loss)(parameters, phi))),
    }
    return parts, (parameters, jnp.asarray(phi))


def _table(row: dict[str, Any]) -> Table:
    title = (
        f"{row['problem']}, {row['preset']}, N = {row['size']}, batch {row['batch']}: "
        f"{row['steps_per_second']:.3g} steps/s, {row['gflop']:.3g} GFLOP a step at "
        f"{row['matmul_fraction']:.1%} of the rate of a matrix product"
    )
    table = Table("part", "ms", "share", title=title, title_justify="left")
    whole = sum(row["milliseconds"].values())
    for name, value in row["milliseconds"].items():
        table.add_row(name, f"{value:.3g}", f"{value / whole:.0%}")
    return table


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=shipped(), default=list(shipped()))
    parser.add_argument("--preset", choices=("quick", "paper", "best"), default="quick")
    parser.add_argument("--steps", type=int, default=40, help="steps of pdecl.fit to time")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each part")
    parser.add_argument("--out", type=Path, help="JSON; results/train-DEVICE.json without it")
    options = parser.parse_args()
    platform = jax.devices()[0].platform
    options.out = options.out or Path(__file__).parent / "results" / f"train-{platform}.json"
    return options


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
