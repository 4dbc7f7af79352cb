"""Minimises a quadratic model, with or without equality rows, differentiably.

    minimise  ½ ‖A p + r‖² + ½ (E p)ᵀ D (E p) + gᵀ p + ½ Σ ridge_j (ω_j + p_j)²   subject to  C p + c = 0

All derivatives come from `jax.lax.custom_linear_solve`: what is differentiated is the product with
the matrix, row by row, and the factorisation made for the solve serves the derivatives too. So forward
mode, reverse mode and derivatives of derivatives all work, and the residual term of the adjoint of
non-square rows (Ȧᵀr) is there because the product AᵀA p + Aᵀr is what is differentiated.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..implicit import constant
from ..system import QuadraticModel
from .base import DirectSolver, Effort, LinearSolver, settle
from .equalities import constrained
from .overdetermined import overdetermined
from .wide import wide_enforce, wide_fit


def minimise(
    model: QuadraticModel, ridge: Float[Array, " N"], start: Float[Array, " N"], solver: LinearSolver
) -> tuple[Float[Array, " N"], Float[Array, " m"], Effort]:
    """The step p, the multipliers of the equality rows, and the effort of the linear solves.

    Which algebra is used follows from which rows there are: the dual (as many unknowns as rows) for
    wide rows of one kind, the primal normal equations for tall ones, a Schur complement for mixtures.
    """
    m, n = model.c.size, model.r.size
    energies = model.E is not None
    if not energies and m == 0 and n < start.size:
        return wide_fit(model, ridge, start, solver)
    if not energies and n == 0 and m <= start.size:
        return wide_enforce(model, ridge, start, solver)
    if not energies and n == 0 and model.C is not None:
        # More equality rows than functions and nothing else to ask: the least violation is a fit.
        as_fit = QuadraticModel(model.C, model.c, None, None, model.g, None, model.r)
        p, _, effort = _unconstrained(as_fit, ridge, start, solver)
        return p, model.C.mv(p) + model.c, effort
    if model.C is None:
        return _unconstrained(model, ridge, start, solver)
    if m >= start.size and isinstance(solver, DirectSolver):
        return overdetermined(model, ridge, start, solver)
    return constrained(model, ridge, start, solver)


def _unconstrained(
    model: QuadraticModel, ridge: Array, start: Array, solver: LinearSolver
) -> tuple[Array, Array, Effort]:
    at_zero = -(model.slope() + ridge * start)
    minus_gradient = lambda p: -(model.slope(p) + ridge * (start + p))
    gram = model.gram(ridge)
    p, effort = settle(solver, solver.prepare(constant(gram)), gram, at_zero, minus_gradient)
    return p, jnp.zeros_like(model.c), effort
