"""A trained basis together with the experiment that made it: what is saved, loaded and asked."""

import os
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np

from . import storage
from .bounds import ErrorBound, bound
from .experiment import Experiment, basis_of, from_dict, law_of, problem_of, solver_of
from .networks import Thinned
from .problem import Problem
from .problems import Law
from .solve import Solution, propose, solve
from .summary import Summarised, Summary

COMPILED = "compiled solver"  # what the header of a compiled solver's file says it is


@dataclass(frozen=True, repr=False)
class Trained(Summarised):
    """A basis for one of the three problems, hard (ω from the layer) or soft (ω from the network)."""

    experiment: Experiment
    basis: Any

    def summary(self) -> Summary:
        experiment, training = self.experiment, self.experiment.training
        rows = [
            ("experiment", f"preset {experiment.preset!r}, seed {experiment.seed}"),
            ("training", f"{training.steps:,} steps, batches of {training.batch}, {training.optimiser}"),
            ("basis", self.basis.summary() if isinstance(self.basis, Summarised) else self.basis),
        ]
        return Summary(f"Trained basis for {experiment.problem}, {experiment.method}", rows)

    @property
    def law(self) -> Law:
        return law_of(self.experiment)

    def problem(self, grid: int | None = None) -> Problem:
        """The PDE as it is solved; for Darcy on a grid of that many nodes a side."""
        return problem_of(self.experiment, grid)

    def coarser(self, nodes: int) -> "Trained":
        """For Darcy: the same functions on fewer nodes a side than φ has, for quick answers.

        What lies between the nodes still counts: a coarse face is given the ν of the fine ones, in
        parallel and in series. A bound of such an answer speaks of the solution on the grid of φ.
        """
        if self.law.name != "darcy":
            raise ValueError(
                f"only Darcy is solved on a grid; {self.law.name} has no nodes to leave out."
            )
        statement = {**self.experiment.statement, "nodes": nodes}
        whole = self.basis.inner if isinstance(self.basis, Thinned) else self.basis
        return Trained(replace(self.experiment, statement=statement), Thinned(whole, nodes))

    def solve(self, phi: Any, **options: Any) -> Solution:
        """The solution for a batch of φ. For Darcy φ may be on any square grid; it is solved there.

        `options` go to `pdecl.solve`; a soft model takes `points`, `key` and `throw`.
        """
        phi = self.law.check(phi)
        problem = self.problem(phi.shape[-1] if phi.ndim == 3 else None)
        if options.get("points") is None:
            # The number of functions is known; to find it out from the network takes long.
            key = options.pop("key", None)
            options["points"] = problem.draw(self.experiment.network.size, key)
        if self.experiment.method == "soft":
            return propose(problem, self.basis, phi, batch=True, **options)
        options = {"solver": solver_of(self.experiment), **options}
        return solve(problem, self.basis, phi, batch=True, **options)

    def bound(self, solution: Solution, **options: Any) -> ErrorBound:
        """A bound of the error of this basis' solutions, hard or soft; `options` go to `pdecl.bound`."""
        return bound(self.law, solution, **options)

    def save(self, path: str | os.PathLike[str], single: bool = False) -> None:
        """Writes one safetensors file with the experiment in its header; `pdecl.load` reads it.

        `single` rounds the arrays to float32, for half the size.
        """
        storage.save(path, self.basis, {"experiment": self.experiment.as_dict()}, single)


def load(name: str | os.PathLike[str]) -> Trained:
    """A trained basis: one that comes with the package ("burgers", …), a file, or a run's folder."""
    path = find(name)
    recipe = storage.recipe_in(path)
    if recipe.get("kind") == COMPILED:
        raise storage.ModelFileError(
            f"{path} holds a compiled solver, not a trained basis: read it with pdecl.load_compiled, or "
            "give it to `pdecl solve`. For anything else take the basis that it was compiled from."
        )
    if "experiment" not in recipe:
        raise storage.ModelFileError(
            f"{path} does not say which experiment made it; fill a network of your own with "
            "pdecl.load_into(basis, path)."
        )
    experiment = from_dict(recipe["experiment"])
    return Trained(experiment, storage.load_into(basis_of(experiment, jr.key(0)), path))


def shipped() -> list[str]:
    """The names of the trained bases that come with the package."""
    folder = resources.files("pdecl") / "models"
    if not folder.is_dir():
        return []
    files = [Path(file.name) for file in folder.iterdir()]
    return sorted(file.stem for file in files if file.suffix == ".safetensors")


def find(name: str | os.PathLike[str]) -> Path:
    """The file behind a shipped basis' name, a file, or a run's folder."""
    if str(name) in shipped():
        return Path(str(resources.files("pdecl") / "models" / f"{name}.safetensors"))
    path = Path(name)
    if path.is_dir():
        path = path / "model.safetensors"
    if not path.is_file():
        raise storage.ModelFileError(
            f"{path}: there is no such file. Trained bases that come with the package: "
            f"{', '.join(shipped()) or 'none'}."
        )
    return path


def as_fields(trained: Trained, phi: np.ndarray, values: Any) -> np.ndarray:
    """Values at the nodes of the standard grid, in the order of the references' arrays.

    Nodes come with x slowest; references are [t, x] for Burgers and convection and [x, y] for Darcy.
    """
    grid = np.asarray(values).reshape(len(phi), *nodes_of(trained, phi))
    return np.swapaxes(grid, 1, 2) if trained.law.solution_dims[0] == "t" else grid


def nodes_of(trained: Trained, phi: np.ndarray) -> tuple[int, int]:
    """How many nodes along each coordinate the standard grid has."""
    sizes = trained.law.coordinates(phi)
    return tuple(len(sizes[name]) for name in trained.problem(phi.shape[-1]).domain.names)  # type: ignore
