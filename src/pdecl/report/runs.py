"""A run's folder: what was asked, where, what happened, what came out.

config.json        the experiment
run.json           which problem the user named, and what it states
environment.json   versions, device, command, when it began
log.txt            what happened, with times
checkpoints/       the training's state (removed when the run is complete)
history.json       losses, and metrics on unseen φ
model.safetensors  the trained network with the experiment in its header
evaluation.json    errors on the split "test"; fields.npz the first of its solutions
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..family import SPLITS, Family, identity
from ..family import dataset as datasets
from ..family.dataset import Dataset
from ..family.evaluate import Evaluation, evaluate, metrics_on
from ..family.experiment import (
    Experiment,
    basis_of,
    completed,
    family_of,
    from_dict,
    full_grid,
    keys_of,
    loss_problem_of,
    optimiser_of,
    problem_of,
    training_phis,
    training_solver_of,
)
from ..family.trained import Trained
from ..parallel.devices import mesh_of, require_even
from ..parallel.processes import by_first, first, first_then_all
from ..reduced.fit import BUDGET, TOLERANCE
from ..reduced.load import load
from ..reduced.train import fit_reduced
from ..support import room
from ..support.environment import device, environment
from ..support.files import write_arrays, write_json
from ..support.progress import counting_bar
from ..train.checkpoint import CheckpointError, Checkpoints
from ..train.fit import fit
from ..train.history import History

_SHOWN = 3


@dataclass(frozen=True)
class Run:
    """What a run's folder holds; `evaluation` and `fields` are empty if it was not evaluated."""

    folder: Path
    experiment: Experiment
    environment: dict[str, Any]
    history: History
    evaluation: dict[str, Any]
    fields: dict[str, np.ndarray]

    def trained(self) -> Trained:
        return load(self.folder, self.experiment.family).trained

    def fields_of(self, unknown: str) -> dict[str, np.ndarray]:
        """The first test solutions, for one of the unknowns."""
        suffix = f" {unknown}" if len(self.experiment.family.unknowns) > 1 else ""
        parts = ("target", "found", "difference")
        return {part: self.fields[part + suffix] for part in parts if part + suffix in self.fields}


def read(folder: str | os.PathLike[str], family: Family | None = None) -> Run:
    """A run that was trained; a ValueError says what is missing. `family`: for a run of a problem of its
    name that does not find it by itself."""
    folder = Path(folder)
    for name in ("config.json", "history.json", "model.safetensors"):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} is not the folder of a finished run: {name} is missing.")
    fields, plain = folder / "fields.npz", _read_json(folder / "config.json")
    return Run(
        folder,
        from_dict(
            plain, family if family and family.name == plain["problem"] else identity.of_run(folder)
        ),
        _read_json(folder / "environment.json"),
        History.load(folder / "history.json"),
        _read_json(folder / "evaluation.json") if (folder / "evaluation.json").is_file() else {},
        dict(np.load(fields)) if fields.is_file() else {},
    )


def find(folders: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The finished runs among folders and inside them; a ValueError if there is none."""
    runs = []
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise ValueError(f"{folder}: there is no such folder.")
        inside = [folder] if (folder / "config.json").is_file() else sorted(folder.iterdir())
        runs += [one for one in inside if (one / "evaluation.json").is_file()]
    if not runs:
        raise ValueError(
            f"no finished run in {', '.join(map(str, folders))}; make one: pdecl train PROBLEM"
        )
    return runs


def train(
    experiment: Experiment,
    folder: str | os.PathLike[str],
    *,
    cache: str | os.PathLike[str] | None = None,
    count: int | None = None,
    metrics_count: int = 20,
    checkpoint_every: int = 0,
    progress: bool = True,
    word: str | None = None,
    seconds: float | None = None,
    bound: bool = False,
) -> Run:
    """Trains an experiment into a folder and evaluates it there; goes on where it was interrupted.

    - `cache`: keeps test data for the next run. `count`: how many test φ, all 50 without it.
    - `seconds`: ends the training after this many, if its steps are not done before.
    - `checkpoint_every`: steps; without it there are about twenty checkpoints.
    - `word`: what the user called the problem, a file say, so that the run finds it again.
    - `bound`: whether the evaluation says too what is known of each error without a reference.

    The φ of a batch are split over all devices. Where several processes train together all of them call
    this, and the first one writes.
    """
    folder, devices = Path(folder), jax.devices()
    require_even(mesh_of(devices, "train"), experiment.training.batch, "train")
    _require_memory(experiment)
    by_first(lambda: claim(folder, experiment, word), "looks at the run's folder")
    log, progress = _Log(folder / "log.txt"), progress and first()
    every = checkpoint_every or max(1, experiment.training.steps // 20)
    data = first_then_all(
        lambda: standard_data(experiment, cache, count, progress), "makes reference solutions"
    )
    network_key, training_key = keys_of(experiment)
    start = Trained(experiment, basis_of(experiment, network_key))
    log(f"training {experiment.problem}, {experiment.method}, {experiment.training.steps} steps")
    basis, history = fit(
        problem_of(experiment),
        start.basis,
        optimiser_of(experiment.training),
        steps=experiment.training.steps,
        key=training_key,
        method=experiment.method,
        batch=experiment.training.batch,
        phis=training_phis(experiment),
        mean=experiment.training.mean,
        loss_problem=loss_problem_of(experiment),
        include_collocation=experiment.training.include_collocation,
        solver=training_solver_of(experiment),
        single=experiment.training.single,
        metrics=metrics_on(start, datasets.take(data, experiment.training.metrics_phis)),
        metrics_count=metrics_count,
        checkpoints=Checkpoints(folder / "checkpoints", every),
        progress=progress,
        seconds=seconds,
        devices=devices if len(devices) > 1 else None,
    )
    trained = Trained(experiment, basis)
    by_first(
        lambda: _finish(trained, history, folder, data, log, progress, bound), "evaluates the network"
    )
    return read(folder, experiment.family)


def _finish(
    trained: Trained,
    history: History,
    folder: Path,
    data: Dataset,
    log: "_Log",
    progress: bool,
    bound: bool,
) -> None:
    log(
        f"trained {len(history.loss)} steps in {history.seconds[-1]:.1f} s, "
        f"{history.steps_per_second:.3g} steps per second"
    )
    trained.save(folder / "model.safetensors")
    history.save(folder / "history.json")
    evaluation = assess(trained, folder, data, progress, bound)
    log("evaluated")
    trained.save(folder / "model.safetensors", about=errors_of(evaluation))
    shutil.rmtree(folder / "checkpoints")


def _require_memory(experiment: Experiment) -> None:
    """Weights of the network, their gradient and two moments; a matrix of rows for each φ of a batch,
    except on a grid, where an energy has none."""
    network, size = experiment.network, experiment.network.size
    weights = network.width * (size + network.width * (network.depth - 1))
    rows = 0 if experiment.family.on_grid else experiment.training.batch * size**2
    room.require_memory(
        8 * (4 * weights + rows),
        f"training {size} functions, width {network.width}, in batches of {experiment.training.batch}",
        "lower --size, --width or --batch",
    )


def train_reduced(
    family: Family,
    folder: str | os.PathLike[str],
    *,
    tolerance: float = TOLERANCE,
    budget: float = BUDGET,
    cache: str | os.PathLike[str] | None = None,
    count: int | None = None,
    progress: bool = True,
    word: str | None = None,
    bound: bool = False,
) -> Run:
    """Trains a family without a network into a folder, and evaluates it there."""
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise CheckpointError(f"{folder} is not empty; choose another folder.")
    reduced = fit_reduced(family, tolerance, budget, progress).trained
    data = standard_data(reduced.experiment, cache, count, progress)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:  # no half of a run is in the way
        keep(reduced, Path(temporary) / folder.name, data, progress, word, bound=bound)
        os.replace(Path(temporary) / folder.name, folder)
    return read(folder, family)


def keep(
    trained: Trained,
    folder: str | os.PathLike[str],
    data: Dataset,
    progress: bool = True,
    word: str | None = None,
    history: History | None = None,
    bound: bool = False,
) -> Evaluation:
    """Evaluates a basis that was trained elsewhere into a run's folder of its own."""
    folder = Path(folder)
    claim(folder, trained.experiment, word)
    (history or History()).save(folder / "history.json")
    trained.save(folder / "model.safetensors")
    evaluation = assess(trained, folder, data, progress, bound)
    trained.save(folder / "model.safetensors", about=errors_of(evaluation))
    return evaluation


def errors_of(found: Evaluation) -> dict[str, Any]:
    """What a model file says of its errors on φ that no training has seen."""
    about = found.as_dict()
    return {
        "errors": {name: about[name] for name in ("error", "residual_loss", "statuses", "reference")}
    }


def folder_name(experiment: Experiment) -> str:
    """What a run's folder is called: problem, method, preset and seed; of a problem with a single preset
    only what is unusual."""
    method, seed = experiment.method, experiment.seed
    if len(experiment.family.presets) > 1:
        return f"{experiment.problem}-{method}-{experiment.preset}-{seed}"
    return "-".join([experiment.problem, *["soft"] * (method == "soft"), *[str(seed)] * (seed > 0)])


def assess(
    trained: Trained, folder: Path, data: Dataset, progress: bool = True, bound: bool = False
) -> Evaluation:
    """Evaluates on test data and writes it beside the model."""
    with counting_bar(f"evaluating {trained.family.name}", data.count, progress) as tell:
        evaluation, fields = evaluate(trained, data, tell, bound)
    about: dict[str, Any] = {"count": data.count, "origin": data.origin, "device": device()}
    if trained.answer is not None:
        about["training"] = trained.answer.training
    write_json(folder / "evaluation.json", {**evaluation.as_dict(), **about})
    shown: dict[str, Any] = {}
    for unknown, target in data.solutions.items():
        field = fields[unknown] if isinstance(fields, dict) else fields
        suffix = f" {unknown}" if isinstance(fields, dict) else ""
        shown[f"target{suffix}"] = target[:_SHOWN].astype(np.float32)
        shown[f"found{suffix}"] = field[:_SHOWN].astype(np.float64)
        shown[f"difference{suffix}"] = (field - target)[:_SHOWN].astype(np.float32)
    alone = len(data.parameters) == 1
    shown |= {
        "phi" if alone else f"phi {name}": values[:_SHOWN].astype(np.float32)
        for name, values in data.parameters.items()
    }
    write_arrays(folder / "fields.npz", shown)
    return evaluation


def standard_data(
    experiment: Experiment,
    cache: str | os.PathLike[str] | None,
    count: int | None = None,
    progress: bool = True,
    truth: bool = False,
    grid: int | None = None,
) -> Dataset:
    """The split "test" with its references; for a φ on a grid, on the experiment's by default."""
    family = family_of(experiment, full_grid(experiment))
    split = SPLITS["test"]
    count = split.count if count is None else count
    with counting_bar(f"reference solutions of {family.name}", count, progress) as tell:
        if cache is None:
            data = datasets.build(family, split.seed, count, truth, tell)
        else:
            data = datasets.cached(family, split.seed, count, cache, truth, tell)
    grid = grid or experiment.grid
    return data if grid in (None, family.grid_of(data.phi)) else datasets.on_grid(data, grid)


def claim(folder: Path, experiment: Experiment, word: str | None = None) -> None:
    """Writes the configuration, or checks that the folder is of the same experiment and unfinished."""
    config, problem = folder / "config.json", problem_of(experiment)
    if config.is_file():
        same = completed(_read_json(config)) == completed(json.loads(json.dumps(experiment.as_dict())))
        if not same:
            raise CheckpointError(
                f"{folder} holds another experiment (see its config.json); choose another folder."
            )
        if found := identity.changes(folder, problem):
            raise CheckpointError(
                f"{folder} was begun with another problem: {', '.join(found)}; choose another folder."
            )
        if (folder / "evaluation.json").is_file():
            raise CheckpointError(
                f"{folder} holds a finished run of this experiment; look at it with "
                f"`pdecl evaluate {folder}`, or choose another folder."
            )
        return
    if folder.exists() and any(folder.iterdir()):
        raise CheckpointError(f"{folder} is not empty and no run of pdecl; choose another folder.")
    write_json(config, experiment.as_dict())
    identity.keep_record(folder, word, problem)
    write_json(folder / "environment.json", environment())


class _Log:
    def __init__(self, path: Path):
        self.path = path

    def __call__(self, message: str) -> None:
        if not first():
            return
        with self.path.open("a") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {message}\n")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is missing or was cut short: {error}") from error
