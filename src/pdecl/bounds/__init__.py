"""Error bounds from the residual: rigorous for the three problems, calibrated for any other."""

from dataclasses import replace

import jax
import numpy as np

from ..points import is_concrete
from ..problems import Burgers, Convection, Darcy, Law
from ..problems.checks import numbered
from ..solve import Solution, require_precision
from .burgers import burgers_bound
from .convection import convection_bound
from .darcy import darcy_bound
from .estimate import Estimator, calibrate
from .record import ErrorBound

__all__ = ["ErrorBound", "Estimator", "bound", "calibrate"]


def bound(law: Law, solution: Solution, *, throw: bool = True, **resolution: int) -> ErrorBound:
    """A bound of the distance between a solution and the law's exact u, for each φ of it.

    No reference is computed: the residual, the errors on the boundary and the stability of the PDE say
    it. What is proved, and in which norm, is at the head of `bounds/convection.py`, `bounds/burgers.py`
    and `bounds/darcy.py`. Integrals over x and t are taken by two nested rules, and the bound is made
    from both. Their whole difference, which is the error of the coarse rule, is added for what the fine
    one misses: that step is not proved, and a v with features smaller than the distance of the nodes
    escapes it. Darcy's sums are finite and need none.

    Arguments:

    - `law`: `Convection()`, `Burgers()` or `Darcy()`, with the constants the bound is to speak of.
    - `solution`: from `solve`, `propose` or a trained basis, with weights solved for or given.
    - `throw`: whether weights or φ that are not finite raise. If not, their bound is infinite.
    - `resolution`: `cells` (convection and Burgers), `points` and `waves` (Burgers): more of them make
      the part "quadrature" smaller.
    """
    require_precision(jax.numpy.float64)
    names = {"convection": ("x", "t"), "burgers": ("x", "t"), "darcy": ("x", "y")}
    if not isinstance(law, Convection | Burgers | Darcy):
        raise TypeError(
            "`law` must be Convection, Burgers or Darcy from pdecl.problems; found "
            f"{type(law).__name__}. For a Problem of your own use pdecl.calibrate."
        )
    found = (solution.problem.domain.names, getattr(solution.phi, "ndim", 0) - solution.batched)
    if found != (names[law.name], 2 if law.name == "darcy" else 1):
        raise ValueError(
            f"`solution` is a function of {', '.join(found[0])} with a φ of {found[1]} axes; that is no "
            f"solution of {law.name}."
        )
    batch = solution if solution.batched else _batch_of_one(solution)
    if throw and is_concrete(batch.weights):
        law.check(batch.phi)
        bad = np.flatnonzero(~np.isfinite(batch.weights).all(axis=1))
        if bad.size:
            raise ValueError(
                f"the weights are NaN or infinite ({numbered(bad)}); look at solution.status, or pass "
                "throw=False for an infinite bound there."
            )
    made = _bound(law, batch, resolution)
    return made if solution.batched else jax.tree.map(lambda leaf: leaf[0], made)


def _bound(
    law: Convection | Burgers | Darcy, solution: Solution, resolution: dict[str, int]
) -> ErrorBound:
    if isinstance(law, Convection):
        return convection_bound(solution, **resolution)
    if isinstance(law, Burgers):
        return burgers_bound(solution, law.viscosity, **resolution)
    return darcy_bound(solution, **resolution)


def _batch_of_one(solution: Solution) -> Solution:
    names = ("phi", "weights", "residual", "iterations", "optimality", "violation", "code")
    lifted = {name: jax.tree.map(lambda leaf: leaf[None], getattr(solution, name)) for name in names}
    return replace(solution, **lifted, batched=True)
