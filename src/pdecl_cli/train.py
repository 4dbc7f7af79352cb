"""`pdecl train`: an experiment into a run's folder."""

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import Bound, Cache, Json, Stated, TestCount, explaining, print_json, print_rows, say, stop
from .evaluate import measured
from .interrupt import resumes
from .processes import start, together

if TYPE_CHECKING:
    from pdecl.report.runs import Run


def train(
    problem: Stated,
    method: Annotated[
        str,
        typer.Option(
            help="[bold]hard[/]: the layer finds the weights; [bold]soft[/]: a penalty instead."
        ),
    ] = "hard",
    name: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help="Size of the experiment; [bold]pdecl info[/] lists them. The first without it.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Of the network and of the training.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The run's folder; runs/PROBLEM-METHOD-PRESET-SEED without it, or runs/PROBLEM."
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Optimiser steps.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="End the training then, its steps done or not.")
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="φ in each step.")] = None,
    rate: Annotated[float | None, typer.Option(min=0, help="The highest learning rate.")] = None,
    optimiser: Annotated[str | None, typer.Option(help="[bold]adam[/] or [bold]muon[/].")] = None,
    network: Annotated[
        str | None,
        typer.Option(help="Its kind: MLP, DeepONet, GatedDeepONet or Modulated; FNO for a φ on a grid."),
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="N, the number of basis functions.")] = None,
    width: Annotated[int | None, typer.Option(min=1, help="Width of the network.")] = None,
    depth: Annotated[int | None, typer.Option(min=1, help="Hidden layers of the network.")] = None,
    creased: Annotated[
        float | None,
        typer.Option(help="Share of the functions that crease, for a problem that names a front."),
    ] = None,
    grid: Annotated[
        int | None, typer.Option(min=5, help="φ on a grid: nodes a side to train on.")
    ] = None,
    single: Annotated[
        bool | None, typer.Option("--single/--double", help="Network in float32, solve in float64.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(min=0, help="Without a network: the mean error that is wanted, 1e-4 by default."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, help="Without a network: seconds, 300 by default.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Train in this many processes of this machine, which share its cores and split the φ "
            "of each batch.",
        ),
    ] = None,
    distributed: Annotated[
        bool,
        typer.Option(
            "--distributed",
            help="This is one of several processes that train together, started by srun, mpirun or "
            "Kubernetes.",
        ),
    ] = False,
    count: TestCount = None,
    bound: Bound = False,
    cache: Cache = Path("runs/data"),
    as_json: Json = False,
) -> None:
    """Train without solution data, and measure what came out on φ it has never seen.

    A problem of your own is trained without a network, if no option asks for one: its equation is solved
    for some hundred φ, and the directions of these solutions are the functions of a fast solver.

    A run of a network that was interrupted goes on when the same command is given again. Its folder
    holds the configuration, the environment, a log, the history, the trained network and the evaluation.

    [bold]Examples[/]

    pdecl train my_heat.py                         a problem of your own; pdecl new writes a file

    pdecl train my_heat.py --steps 500             a network for it

    pdecl train burgers                            the quick preset, minutes on two cores

    pdecl train burgers --method soft              the same network with a soft penalty

    pdecl train convection --preset best --seed 1  ours, minutes on a GPU

    pdecl train darcy --steps 50 --grid 31 --out try    a small trial
    """
    overrides = {
        "steps": steps, "batch": batch, "rate": rate, "size": size, "width": width, "depth": depth,
        "creased": creased, "grid": grid, "single": single, "optimiser": optimiser, "kind": network,
    }  # fmt: skip
    if processes is not None and distributed:
        stop(
            "give --processes, to start them here, or --distributed, where something else has, not both"
        )
    if processes is not None:
        resumes("The same command goes on from its last checkpoint, if it has one.")
        start(sys.argv[1:], processes)
        return
    with together(distributed, lambda: {"the problem": _stated(problem)}), explaining():
        from pdecl.family import resolve
        from pdecl.family.experiment import preset
        from pdecl.parallel.processes import launched
        from pdecl.reduced.train import why_not
        from pdecl.report.runs import folder_name, train_reduced
        from pdecl.report.runs import train as train_run

        if launched() and not distributed:
            say("several processes:", "each trains by itself; with --distributed they train together.")
        family, given = resolve(problem), {k: v for k, v in overrides.items() if v is not None}
        asked = name is not None or bool(given) or bool(seed) or seconds is not None
        plain = family.reduced and method == "hard" and not asked
        if plain and distributed:
            stop(
                "several processes train a network together; without one, as this problem is trained by "
                "default, a single process does. Name --steps, say, or leave --processes out."
            )
        why = why_not(family) if plain else None
        if why is not None:
            say("a network is trained:", why)
        if plain and why is None:
            own = {"tolerance": tolerance, "budget": budget}
            run = train_reduced(
                family, out or Path("runs") / family.name, cache=cache, count=count,
                progress=not as_json, word=problem, bound=bound,
                **{key: value for key, value in own.items() if value is not None},
            )  # fmt: skip
            print_json(summary(run)) if as_json else show(summary(run))
            return
        if tolerance is not None or budget is not None:
            stop("--tolerance and --budget are for training without a network: leave its options out.")
        experiment = preset(problem, method, name, seed).with_overrides(**given)
        folder = out or Path("runs") / folder_name(experiment)
        resumes(
            f"The run is in {folder}; the same command goes on from its last checkpoint, if it has one."
        )
        run = train_run(
            experiment, folder, cache=cache, count=count, progress=not as_json, word=problem,
            seconds=seconds, bound=bound,
        )  # fmt: skip
        print_json(summary(run)) if as_json else show(summary(run))


def _stated(problem: str) -> str:
    """A digest of what a problem's file states, to be compared between processes."""
    from pdecl.family import resolve
    from pdecl.family.identity import identity

    stated = json.dumps(_rounded(identity(resolve(problem).problem())), sort_keys=True)
    return hashlib.sha256(stated.encode()).hexdigest()[:12]


def _rounded(value: object) -> Any:
    """Processors differ in the last digits."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return f"{value:.6g}" if isinstance(value, float) else value


def summary(run: "Run") -> dict[str, Any]:
    """What a run came to, as plain data."""
    kept = ["error", "residual_loss", "beside", "statuses", "reference", "seconds_per_phi"]
    kept += ["errors", "bounds"] if "bounds" in run.evaluation else []
    return {
        "folder": str(run.folder),
        "problem": run.experiment.problem,
        "method": run.experiment.method,
        "preset": run.experiment.preset,
        "seed": run.experiment.seed,
        **_training(run),
        **{key: run.evaluation[key] for key in kept},
        "device": run.environment["device"],
    }


def _training(run: "Run") -> dict[str, Any]:
    if not run.history.loss:
        return dict(run.evaluation.get("training", {}))
    return {
        "steps": len(run.history.loss),
        "seconds": round(run.history.seconds[-1], 2),
        "steps_per_second": round(run.history.steps_per_second, 3),
    }


def show(plain: dict[str, Any]) -> None:
    """Prints a run's summary as a table."""
    print_rows(
        (
            "run",
            f"[bold]{plain['problem']}[/], {plain['method']}, preset {plain['preset']}, "
            f"seed {plain['seed']}",
        ),
        ("training", _training_words(plain)),
        *measured(plain),
        ("folder", plain["folder"]),
    )


def _training_words(plain: dict[str, Any]) -> str:
    if "steps" in plain:
        speed = f"{plain['steps_per_second']:.3g} per second"
        return f"{plain['steps']} steps in {plain['seconds']:.1f} s, {speed}"
    tried = ", ".join(f"{one['functions']} functions {one['mean']:.1e}" for one in plain["tried"])
    return f"{plain['solutions']} solutions, {plain['seconds']:.0f} s; tried: {tried}"
