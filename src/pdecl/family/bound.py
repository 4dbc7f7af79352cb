"""`bound`: how far an answer is from the exact one, by what a family has proved of its PDE."""

import jax
import numpy as np

from ..error import ErrorBound
from ..layer.solution import Solution
from ..layer.solve import require_precision
from ..state.points import is_concrete
from .checks import numbered
from .family import Family, phi_like, stated


def bound(family: Family, solution: Solution, *, throw: bool = True, **resolution: int) -> ErrorBound:
    """A bound of the distance between a solution and the family's exact u, for each φ of it.

    No reference is computed: the residual, the errors on the boundary and the stability of the PDE say
    it. What is proved, and in which norm, is at the head of `bound.py` in the family's folder. Integrals
    over x and t are taken by two nested rules, and the bound is made from both. Their whole difference,
    which is the error of the coarse rule, is added for what the fine one misses: that step is not
    proved, and a v with features smaller than the distance of the nodes escapes it. Sums on a grid are
    finite and need none.

    Arguments:

    - `family`: a family that has a bound, with the constants the bound is to speak of.
    - `solution`: from `solve`, `predict` or a trained basis, with weights solved for or given.
    - `throw`: whether weights or φ that are not finite raise. If not, their bound is infinite.
    - `resolution`: of the quadrature (`cells`, `points`, `waves`): more of them make the part
      "quadrature" smaller.
    """
    require_precision(jax.numpy.float64)
    if not isinstance(family, Family) or family.bound is None:
        raise TypeError(
            f"nothing is proved of {getattr(family, 'name', type(family).__name__)}: `family` must be "
            "one with a bound. For a Problem of your own use pdecl.calibrate."
        )
    axes = lambda phi: [np.ndim(leaf) for leaf in jax.tree.leaves(phi)]
    given = solution.problem.domain.names, [n - solution.code.ndim for n in axes(solution.phi)]
    wanted = stated(family).domain.names, [leaf.ndim for leaf in jax.tree.leaves(phi_like(family))]
    if given != wanted:
        raise ValueError(
            f"`solution` is a function of {', '.join(given[0])} with a φ of "
            f"{' and '.join(map(str, given[1]))} axes; that is no solution of {family.name}."
        )
    single = solution.code.ndim == 0
    batch = jax.tree.map(lambda leaf: leaf[None], solution) if single else solution
    if throw and is_concrete(batch.weights):
        family.check(batch.phi)
        bad = np.flatnonzero(~np.isfinite(batch.weights).all(axis=1))
        if bad.size:
            raise ValueError(
                f"the weights are NaN or infinite ({numbered(bad)}); look at solution.status, or pass "
                "throw=False for an infinite bound there."
            )
    bounds = family.bound(batch, **resolution)
    return jax.tree.map(lambda leaf: leaf[0], bounds) if single else bounds
