"""A trained basis together with the experiment that made it: what is saved, loaded and asked."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..basis.networks import Thinned
from ..basis.networks.wrappers import Beside
from ..error import ErrorBound, Estimator, calibrate
from ..layer.solution import Given, Solution
from ..layer.solve import predict, sizes_of, solve
from ..state.points import Points
from ..state.problem import Problem
from ..support import mistakes, storage
from ..support.summary import Summarised, Summary
from ..support.types import Phi
from . import CALIBRATING, Family, describe, names, resolve
from . import phi as phis
from .bound import bound
from .distance import distance_from
from .experiment import Experiment, basis_like, family_of, from_dict, problem_of, solver_of
from .identity import differences, identity, of_run
from .model import LayerQuery, Model
from .nodes import inside_of

COMPILED = "compiled solver"  # what the header of a compiled solver's file says it is


@dataclass(frozen=True, repr=False)
class Trained(Model):
    """A basis for a family, hard (ω from the layer) or soft (ω from the network).

    `answer`: the `Compiled` that answers with this basis, for one that was trained without a network.
    """

    experiment: Experiment
    basis: Any
    answer: Any = None

    def summary(self) -> Summary:
        experiment, training = self.experiment, self.experiment.training
        rows = [
            ("experiment", f"preset {experiment.preset!r}, seed {experiment.seed}"),
            ("training", f"{training.steps:,} steps, batches of {training.batch}, {training.optimiser}"),
            ("basis", self.basis.summary() if isinstance(self.basis, Summarised) else self.basis),
        ]
        return Summary(f"Trained basis for {experiment.problem}, {experiment.method}", rows)

    @property
    def family(self) -> Family:
        """The family, with the constants and the grid of the experiment."""
        return family_of(self.experiment)

    def problem(self, grid: int | None = None) -> Problem:
        return problem_of(self.experiment, grid)

    def coarser(self, nodes: int) -> "Trained":
        """For a φ on a grid: the same functions on fewer nodes a side, for quick answers.

        What lies between the nodes still counts: a coarse face is given the ν of the fine ones, in
        parallel and in series. A bound of such an answer speaks of the solution on the grid of φ.
        """
        if not self.family.on_grid:
            raise ValueError(
                f"{self.family.name} is not solved on a grid; it has no nodes to leave out."
            )
        statement = {**self.experiment.statement, "nodes": nodes}
        whole = self.basis.inner if isinstance(self.basis, Thinned) else self.basis
        return Trained(replace(self.experiment, statement=statement), Thinned(whole, nodes))

    def solve(self, phi: Phi, **options: Any) -> Solution:
        """The solution for a batch of φ. Fields may be on any square grid; they are solved there.

        `options` go to `pdecl.solve`; a soft model takes `points`, `key` and `throw`, and is not judged.
        """
        phi = self.family.check(phi)
        if self.answer is not None:
            known = {name: options[name] for name in ("throw", "residual_limit") if name in options}
            return self.answer(phi, **{"throw": True, **known})
        problem = self.problem(self.family.grid_of(phi))
        if options.get("points") is None:
            # The number of functions is known; to find it out from the network takes long.
            key = options.pop("key", None)
            options["points"] = problem.draw(self.size, key)
        if self.experiment.method == "soft":
            options.pop("residual_limit", None)
            return jax.vmap(lambda phi: predict(problem, self.basis, phi, **options))(phi)
        options = {"solver": solver_of(self.experiment), **options}
        return jax.vmap(lambda phi: solve(problem, self.basis, phi, **options))(phi)

    def bound(self, solution: Solution, **options: Any) -> ErrorBound:
        """How wrong this basis' solutions may be, hard or soft: a bound where the family has one, whose
        `options` set its quadrature; else an estimate."""
        if self.family.bound is not None:
            return bound(self.family, solution, **options)
        return self.estimator(solution)

    @cached_property
    def estimator(self) -> Estimator:
        """For families of which nothing is proved, calibrated on φ of its own seed, once: against the
        given solution, a solve to a tolerance where the basis was trained on such, or one with untrained
        functions beside the learned ones."""
        family, problem = self.family, self.problem()
        seen = family.sample(CALIBRATING.seed, CALIBRATING.count)
        known: dict[str, Any] = {"solver": solver_of(self.experiment)}
        if family.at_points is not None:
            known["reference"] = family.at_points
        elif self.answer is not None:
            known["reference"] = self.answer.rich
        else:
            known["richer"] = Beside(self.basis, family.further(self.size)[-1])
        counts = nodes_of(self, seen)
        if inside_of(problem, seen, counts) is None:
            # Where evaluations measure errors: other points have other means, by a few percent.
            known["at"] = problem.domain.lattice(*counts)
        if self.experiment.method == "soft" or self.answer is not None:
            known["answer"] = lambda phi: self.solve(phi, throw=False)
        return calibrate(problem, self.basis, seen, key=jr.key(0), **known)

    @property
    def trained(self) -> "Trained":
        return self

    @property
    def usual_batch(self) -> int:
        """On two cores a batch takes a second or so, and more at once would not be faster; an
        interruption loses the batch at work. On a GPU what a few GB are comfortable with."""
        return self.family.solve_batch if jax.default_backend() == "cpu" else self.family.fast_batch

    @property
    def evaluated(self) -> int:  # type: ignore[override]
        return self.size

    def as_query(
        self,
        points: tuple[Points, ...],
        coords: Float[Any, "q d"],
        derivatives: tuple[str, ...],
        residual_limit: float,
        weights_alone: bool,
        grid: int | None = None,
    ) -> LayerQuery:
        return LayerQuery(
            self.problem(grid), self.basis, points, solver_of(self.experiment), jnp.asarray(coords),
            derivatives, self.experiment.method == "soft", residual_limit, weights_alone,
        )  # fmt: skip

    def weights_kept(self, phi: Phi) -> int:
        return sum(sizes_of(self.problem(self.family.grid_of(phi)), self.basis, phi).values())

    def given(self, weights: Float[Array, "batch n"], grid: int | None) -> tuple[Given, Array]:
        problem = self.problem(grid)
        return Given.of(problem, self.basis, problem.draw(weights.shape[-1])), weights

    @property
    def digest(self) -> str:
        """SHA-256 over the experiment and every array of the network."""
        return model_digest(self.experiment, self.basis)

    def distance_on(self, grid: int | None = None) -> Callable[[Any], np.ndarray]:
        return distance_from(family_of(self.experiment, grid))

    @property
    def size(self) -> int:
        """How many functions there are, for all unknowns together."""
        return self.experiment.network.size * len(self.family.unknowns)

    def save(
        self,
        path: str | os.PathLike[str],
        single: bool = False,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes one safetensors file; `pdecl.load` reads it. Its header has the experiment, the
        family of φ, what the problem states and, from `about`, what else is known: errors on unseen φ.

        `single` rounds the arrays to float32, for half the size.
        """
        if self.answer is not None:
            return self.answer.save(path, about=about)
        storage.save(path, self.basis, {**described(self.experiment), **(about or {})}, single)


def model_digest(experiment: Experiment, arrays: PyTree) -> str:
    """What tells a model from any other: SHA-256 over its experiment and arrays."""
    digest = hashlib.sha256(json.dumps(experiment.as_dict(), sort_keys=True).encode())
    for leaf in jax.tree.leaves(eqx.filter(arrays, eqx.is_array)):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def described(experiment: Experiment) -> dict[str, Any]:
    """What the header of a file says of a model."""
    family = family_of(experiment)
    return {
        "experiment": experiment.as_dict(),
        "law": json.loads(json.dumps(describe(family))),
        "stated": identity(problem_of(experiment)),
    }


def load(name: str | os.PathLike[str], problem: Family | str | None = None) -> Trained:
    """A trained basis: one that comes with the package (`shipped()`), a file, or a run's folder.

    `problem`: for a problem of your own, the family or a word for it (a .py file). A run that was
    trained here from such a file finds it by itself; a file of a model never does: reading it runs no
    code.
    """
    path = find(name)
    recipe = storage.recipe_in(path)
    if recipe.get("kind") == COMPILED:
        raise storage.ModelFileError(
            f"{path} holds a compiled solver, not a trained basis: pdecl.load reads both; or "
            "give it to `pdecl solve`. For anything else take the basis that it was compiled from."
        )
    if "experiment" not in recipe:
        raise storage.ModelFileError(
            f"{path} does not say which experiment made it; fill a network of your own with "
            "pdecl.load(path, basis=network)."
        )
    experiment = experiment_in(recipe, path, problem)
    return Trained(experiment, storage.load_into(basis_like(experiment), path))


def experiment_in(recipe: Mapping[str, Any], path: Path, problem: Family | str | None) -> Experiment:
    """The experiment that a file's header describes, for the problem that the user named."""
    name = str(recipe["experiment"].get("problem"))
    family = resolve(problem) if isinstance(problem, str) else problem or of_run(path.parent)
    if family is None and name not in names():
        raise storage.ModelFileError(
            f"{path} was trained for the problem {name!r}, which is not installed: name its file, "
            "--problem FILE.py, or in Python pdecl.load(path, problem)."
        )
    experiment = from_dict(recipe["experiment"], family)
    differing = (
        differences(recipe["stated"], identity(problem_of(experiment))) if "stated" in recipe else []
    )
    if differing:
        raise storage.ModelFileError(
            f"{path} was trained for another problem than {experiment.problem} as it is stated now: "
            f"{', '.join(differing)}."
        )
    return experiment


def shipped() -> list[str]:
    """The names of the trained bases that come with the package."""
    folder = resources.files("pdecl") / "models"
    if not folder.is_dir():
        return []
    files = [Path(file.name) for file in folder.iterdir()]
    return sorted(file.stem for file in files if file.suffix == ".safetensors")


def find(name: str | os.PathLike[str]) -> Path:
    """The file behind a shipped basis' name, a file, or a run's folder."""
    if not isinstance(name, str | os.PathLike):
        raise TypeError(
            "a model is the name of one that comes with the package, a file, or the folder of a run; "
            f"found {mistakes.found(name)}."
        )
    if str(name) in shipped():
        return Path(str(resources.files("pdecl") / "models" / f"{name}.safetensors"))
    path = Path(name)
    if path.is_dir():
        path = path / "model.safetensors"
    if path.suffix == ".py" and path.is_file():
        raise storage.ModelFileError(
            f"{path} states a problem, which is no model yet: pdecl train {path} makes a folder of one."
        )
    if not path.is_file():
        raise storage.ModelFileError(
            f"{path}: there is no such file. Trained bases that come with the package: "
            f"{', '.join(shipped()) or 'none'}."
        )
    return path


def as_fields(trained: Trained, phi: Phi, values: PyTree) -> Any:
    """Values at the nodes of the standard grid, with the axes of the references' arrays."""
    names, nodes = trained.problem().domain.names, nodes_of(trained, phi)
    order = [1 + names.index(name) for name in trained.family.solution_dims]
    arrange = lambda u: np.transpose(np.asarray(u).reshape(phis.count(phi), *nodes), (0, *order))
    return jax.tree.map(arrange, values)


def inside_fields(trained: Trained, phi: Phi) -> np.ndarray | None:
    """Which nodes of the standard grid are inside of the shape of each φ; None where all are."""
    inside = inside_of(trained.problem(), phi, nodes_of(trained, phi))
    return None if inside is None else as_fields(trained, phi, inside)


def nodes_of(trained: Trained, phi: Phi) -> tuple[int, ...]:
    """How many nodes along each coordinate the standard grid has."""
    sizes = trained.family.coordinates(phi)
    return tuple(len(sizes[name]) for name in trained.problem().domain.names)
