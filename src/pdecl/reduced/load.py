"""`load`: what a model file holds, whichever it is."""

import os
from typing import Any

from ..family import Family
from ..family.trained import COMPILED, find
from ..family.trained import load as load_trained
from ..layer.solvers import GaussNewton, LinearSolver
from ..state.problem import Problem
from ..support import storage
from .file import load_compiled


def load(
    name: str | os.PathLike[str],
    problem: Problem | Family | str | None = None,
    *,
    basis: Any = None,
    solver: LinearSolver | GaussNewton | None = None,
) -> Any:
    """A `Trained` basis, a `Compiled` solver, or a network of one's own, whichever the file holds.

    Reading a file runs no code from it. `name` is a basis that comes with the package, a file, or the
    folder of a run.

    - `problem`: for a problem of your own, its family or a word for it (a .py file, or
      package.module:name). The folder of a run that was trained here knows it.
    - `basis`: a network of the build of the one that was saved, trained or not; its arrays are replaced
      by those in the file. For what `pdecl.save` wrote, and for a solver that was compiled from a
      `Problem` and a basis. Such a solver takes the `Problem` itself, and `solver` if it had one.
    """
    path = find(name)
    recipe = storage.recipe_in(path)
    if recipe.get("kind") == COMPILED:
        return load_compiled(path, problem, basis, solver)
    if basis is not None:
        return storage.load_into(basis, path)
    if isinstance(problem, Problem):
        raise TypeError(
            f"{path} holds a basis that was trained for a family: give that, or its file, not a Problem."
        )
    return load_trained(path, problem)
