"""`fit`: the one verb of training, with a network or without."""

from typing import TYPE_CHECKING, Any, overload

import jax.numpy as jnp

from ..family import Family
from ..family.own import own
from ..layer.solve import require_precision
from ..state.problem import Problem, require_problem
from ..support.mistakes import found
from ..train.fit import fit as fit_network
from ..train.history import History
from .direct import Direct
from .solver import Compiled
from .train import NoBasis, fit_reduced

if TYPE_CHECKING:
    import optax

TOLERANCE, BUDGET = 1e-4, 300.0
_OWN, _BOTH = {"tolerance", "budget"}, {"progress"}


@overload
def fit(
    problem: Problem | Family,
    *,
    tolerance: float = TOLERANCE,
    budget: float = BUDGET,
    progress: bool = True,
) -> Compiled | Direct: ...


@overload
def fit(
    problem: Problem, basis: Any, optimiser: "optax.GradientTransformation", **options: Any
) -> tuple[Any, History]: ...


def fit(problem: Any, basis: Any = None, optimiser: Any = None, **options: Any) -> Any:
    """Trains for a family of φ, without solution data from outside.

    `fit(problem)` needs no network. It draws φ from the problem's distribution, solves them to a
    tolerance as `pdecl.solve(problem, phi, tolerance=...)` does, takes the POD modes of these solutions
    for functions and compiles them: as few as reach the tolerance on φ that were left out. Returns a
    `Compiled`.

    - `tolerance`: the mean relative L2 error that is wanted.
    - `budget`: seconds; what is reached when they are used up is returned, and says how good it is.
    - `progress`: whether a bar is shown.

    `fit(problem, basis, optimiser, steps=..., key=...)` trains a network through the layer and returns
    it with its `History`; `help(pdecl.train.fit.fit)` describes its arguments.
    """
    if basis is None and optimiser is not None:
        raise TypeError("fit: an optimiser trains a network: give one, or leave out both.")
    for name in options:
        if basis is None and name not in _OWN | _BOTH:
            raise TypeError(
                f"fit: `{name}` is for a network: give a basis and an optimiser, or leave it out."
            )
        if basis is not None and name in _OWN:
            raise TypeError(
                f"fit: `{name}` is for a fit without a network: leave out either it or the network."
            )
    if basis is not None:
        return fit_network(problem, basis, optimiser, **options)
    return _without_network(problem, **options)


def _without_network(
    problem: Problem | Family,
    *,
    tolerance: float = TOLERANCE,
    budget: float = BUDGET,
    progress: bool = True,
) -> Compiled | Direct:
    require_precision(jnp.float64)
    for name, x, below in [("tolerance", tolerance, 1.0), ("budget", budget, float("inf"))]:
        if isinstance(x, bool) or not isinstance(x, int | float) or not 0 < x < below:
            raise ValueError(f"fit: `{name}` must be a positive number; found {found(x)}.")
    if not isinstance(problem, Family):
        require_problem(problem, "fit")
        problem = own(problem, "problem", {})
    try:
        return fit_reduced(problem, tolerance, budget, progress)
    except NoBasis as none:
        return Direct(problem.problem(), tolerance, none.detail, none.training)
