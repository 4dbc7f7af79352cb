"""As many equality rows as functions, or more, beside something else to ask."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..batching import anywhere
from ..gram import Gram, transposed
from ..implicit import constant
from ..precision import precision_of
from ..system import QuadraticModel
from .base import DirectSolver, Effort, exact, smallest_eigenvalue
from .equalities import schur
from .triangular import Triangular


def overdetermined(
    model: QuadraticModel, ridge: Array, start: Array, solver: DirectSolver
) -> tuple[Array, Array, Effort]:
    """The least violation y, then the rest, with a weight ε.

        C p + c = y,    Cᵀy + ε (slope(p) + ridge (start + p)) = 0

    Where C sees every function, ε is zero, nothing else has a say, and the factorisation of CᵀC gives p.
    Only that factorisation tells, so that both ways are in the program and one is taken, by a whole
    batch.
    """
    assert model.C is not None
    C, hessian = model.C, model.gram(ridge)
    (rows, H, fixed), size = constant((C, hessian, ridge)), start.size
    G = Gram(((rows, None),), jnp.zeros_like(fixed))
    prepared = solver.prepare(Gram(G.blocks, fixed))
    short = anywhere(~_sees_everything(solver, prepared, jnp.sqrt(G.diagonal() + fixed), fixed))
    soft = precision_of(start.dtype).regularisation
    weight = soft / (1 + soft)
    epsilon = jnp.where(short, weight, 0.0)
    join, split = lambda p, y: jnp.concatenate([p, y]), lambda z: (z[:size], z[size:])

    def solve(fit: Callable[[Array], Array], rhs: Array) -> Array:
        f, g = split(rhs)

        def mixture() -> Array:
            inverse = schur(solver, H.plus(rows), rows, solver.refinements)
            return inverse(f / weight, g / (1 - weight))[0][0]

        p = jax.lax.cond(short, mixture, lambda: fit(f + transposed(rows, g)))
        return join(p, rows.mv(p) - g)

    def left(z: Array) -> Array:
        p, y = split(z)
        pull = model.slope(p) + ridge * (start + p)
        return -join(epsilon * pull + transposed(C, y), C.mv(p) + model.c - y)

    def product(z: Array) -> Array:
        p, y = split(z)
        return join(epsilon * hessian.mv(p) + transposed(C, y), C.mv(p) - y)

    accurately = lambda _, rhs: solve(lambda g: solver.apply(prepared, G, g)[0], rhs)
    at_zero = constant(join(epsilon * (model.slope() + ridge * start), model.c))
    z = constant(solve(partial(solver.once, prepared), -at_zero))
    z = z + jax.lax.custom_linear_solve(product, left(z), accurately, accurately, symmetric=True)
    p, y = split(z)
    # Multipliers balance the rest's pull; they tell how well the solve went, and have no derivatives.
    pull, violation = constant((model.slope(p) + ridge * (start + p), y))
    balance = lambda: rows.mv(solver.apply(prepared, G, -pull)[0])
    return p, jax.lax.cond(short, lambda: violation / weight, balance), exact()


def _sees_everything(solver: DirectSolver, prepared: Triangular, norms: Array, ridge: Array) -> Array:
    """Whether H, its columns divided by norms, is far from singular."""
    inverse = lambda f: norms * solver.once(prepared, norms * f)
    far = jnp.maximum(1e2 * precision_of(ridge.dtype).regularisation, 1e4 * jnp.max(ridge / norms**2))
    return smallest_eigenvalue(inverse, ridge) > far
