"""Minimises a quadratic model, with or without equality rows, differentiably.

    minimise  ½ ‖A p + r‖² + ½ (E p)ᵀ D (E p) + gᵀ p + ½ Σ ridge_j (ω_j + p_j)²   subject to  C p + c = 0

All derivatives come from `jax.lax.custom_linear_solve`: what is differentiated is the product with
the matrix, row by row, and the factorisation made for the solve serves the derivatives too. So forward
mode, reverse mode and derivatives of derivatives all work, and the residual term of the adjoint of
non-square rows (Ȧᵀr) is there because the product AᵀA p + Aᵀr is what is differentiated.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx
from jaxtyping import Array, Float

from ..batching import anywhere, one_by_one
from ..gram import Dual, Gram, Operator, lower_product, scale_columns, transposed, written_out
from ..implicit import constant
from ..system import Model
from . import nearly_square, triangular
from .base import DirectSolver, Effort, LinearSolver, exact, smallest_eigenvalue, unrefined
from .cholesky import Cholesky
from .nearly_square import NearlySquare


def regularisation(dtype: Any) -> float:
    """Weight of the multipliers in the equality-constrained system, whose Schur complement has
    eigenvalues between 0 and 1: it keeps dependent or contradictory rows from making it singular."""
    return 1e-4 if dtype == jnp.float32 else 1e-8


def multiplier_iterations(dtype: Any) -> int:
    """Iterations of the augmented Lagrangian. Each adds the violation that is left to the target, which
    multiplies it by about the regularisation (or the ridge) where the rows can hold, and leaves the
    smallest possible violation where they cannot."""
    return 10 if dtype == jnp.float32 else 3


def minimise(
    model: Model, ridge: Float[Array, " N"], start: Float[Array, " N"], solver: LinearSolver
) -> tuple[Float[Array, " N"], Float[Array, " m"], Effort]:
    """The step p, the multipliers of the equality rows, and the effort of the linear solves.

    Which algebra is used follows from which rows there are: the dual (as many unknowns as rows) for
    wide rows of one kind, the primal normal equations for tall ones, a Schur complement for mixtures.
    """
    m, n = model.c.size, model.r.size
    energies = model.E is not None
    if not energies and m == 0 and n < start.size:
        return _wide_fit(model, ridge, start, solver)
    if not energies and n == 0 and m <= start.size:
        return _wide_enforce(model, ridge, start, solver)
    if not energies and n == 0 and model.C is not None:
        # More equality rows than functions and nothing else to ask: the least violation is a fit.
        as_fit = Model(model.C, model.c, None, None, model.g, None, model.r)
        p, _, effort = _unconstrained(as_fit, ridge, start, solver)
        return p, model.C.mv(p) + model.c, effort
    if model.C is None:
        return _unconstrained(model, ridge, start, solver)
    if m >= start.size and isinstance(solver, DirectSolver):
        return _overdetermined(model, ridge, start, solver)
    return _constrained(model, ridge, start, solver)


def _unconstrained(
    model: Model, ridge: Array, start: Array, solver: LinearSolver
) -> tuple[Array, Array, Effort]:
    at_zero = -(model.slope() + ridge * start)
    minus_gradient = lambda p: -(model.slope(p) + ridge * (start + p))
    gram = model.gram(ridge)
    p, effort = _settle(solver, solver.prepare(constant(gram)), gram, at_zero, minus_gradient)
    return p, jnp.zeros_like(model.c), effort


def _wide_fit(
    model: Model, ridge: Array, start: Array, solver: LinearSolver
) -> tuple[Array, Array, Effort]:
    """ω = P Aᵀ y with P = 1/ridge and (A P Aᵀ + 1) y = A·start − r: the same minimum, n unknowns.

    Both are divided by the mean of P, so that the ridge is small beside rows of size one.
    """
    A, r = model.A, model.r
    assert A is not None
    target = A.mv(start) - r
    half = scale_columns(A, 1 / jnp.sqrt(ridge))
    size = jnp.mean(1 / ridge)
    gram = Dual(scale_columns(half, 1 / jnp.sqrt(size)), jnp.full_like(r, 1 / size))
    left = lambda y: target - gram.mv(y)
    y, effort = _settle(solver, solver.prepare(constant(gram)), gram, target, left)
    return transposed(A, y) / (ridge * size) - start, jnp.zeros_like(model.c), effort


def _wide_enforce(
    model: Model, ridge: Array, start: Array, solver: LinearSolver
) -> tuple[Array, Array, Effort]:
    """The ω of least norm (in the ridge's norm) that satisfies C ω = C·start − c."""
    assert model.C is not None
    size = jnp.mean(ridge)  # has no say in which ω is the shortest
    columns = jnp.sqrt(size / ridge)
    half = scale_columns(model.C, columns)
    target = half.mv(start / columns) - model.c
    gram = Dual(half, jnp.full_like(target, size))
    by_rounds = lambda: _augmented(gram, target, solver)
    if isinstance(solver, Cholesky) and nearly_square.pays(half):
        lu, bare = NearlySquare(), Dual(half, jnp.zeros_like(target))
        factors = lu.prepare(constant(gram))
        by_factors = lambda: _settle(lu, factors, bare, target, lambda y: target - bare.mv(y))
        y, total = jax.lax.cond(anywhere(~factors.serve), by_rounds, by_factors)
    else:
        y, total = by_rounds()
    return columns * transposed(half, y) - start, -y * size, total


def _augmented(gram: Dual, target: Array, solver: LinearSolver) -> tuple[Array, Effort]:
    """The y whose Rᵀy is the shortest x with R x = target, or as near to it as any x is."""
    prepared = solver.prepare(constant(gram))
    target = target - _out_of_reach(_inverse(solver, gram, prepared), gram, target)
    inverse = _inverse(unrefined(solver), gram, prepared)  # each round corrects the one before

    def improve(_: Any, so_far: tuple[Array, Effort]) -> tuple[Array, Effort]:
        y, total = so_far
        step, effort = inverse(target - gram.rows.mv(transposed(gram.rows, y)))
        return y + step, combine_efforts(total, effort)

    nothing = (jnp.zeros_like(target), exact())
    return jax.lax.fori_loop(
        0, multiplier_iterations(target.dtype), improve, nothing, unroll=solver.direct
    )


def _out_of_reach(inverse: Callable, gram: Dual, target: Float[Array, " m"]) -> Float[Array, " m"]:
    """The part of a target that no ω can meet: the limit of (ridge·H⁻¹)ᵏ target, for H = CCᵀ + ridge.

    Left in the target, it would make multipliers so large that their rounding is seen in ω.
    """
    once_more = lambda _, part: gram.ridge * inverse(part)[0]
    return jax.lax.fori_loop(0, multiplier_iterations(target.dtype), once_more, target)


def _overdetermined(
    model: Model, ridge: Array, start: Array, solver: DirectSolver
) -> tuple[Array, Array, Effort]:
    """As many equality rows as functions, or more, beside something else: the least violation y, then
    the rest, with a weight ε.

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
    blind = anywhere(~_sees_everything(solver, prepared, jnp.sqrt(G.diagonal() + fixed), fixed))
    weight = regularisation(start.dtype) / (1 + regularisation(start.dtype))
    epsilon = jnp.where(blind, weight, 0.0)
    join, split = lambda p, y: jnp.concatenate([p, y]), lambda z: (z[:size], z[size:])

    def solve(fit: Callable[[Array], Array], rhs: Array) -> Array:
        f, g = split(rhs)

        def mixture() -> Array:
            inverse = _schur(solver, H.plus(rows), rows, solver.refinements)
            return inverse(f / weight, g / (1 - weight))[0][0]

        p = jax.lax.cond(blind, mixture, lambda: fit(f + transposed(rows, g)))
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
    return p, jax.lax.cond(blind, lambda: violation / weight, balance), exact()


def _sees_everything(solver: DirectSolver, prepared: Any, norms: Array, ridge: Array) -> Array:
    """Whether H, its columns divided by norms, is far from singular."""
    inverse = lambda f: norms * solver.once(prepared, norms * f)
    far = jnp.maximum(1e2 * regularisation(ridge.dtype), 1e4 * jnp.max(ridge / norms**2))
    return smallest_eigenvalue(inverse, ridge) > far


def _constrained(
    model: Model, ridge: Array, start: Array, solver: LinearSolver
) -> tuple[Array, Array, Effort]:
    """Augmented-Lagrangian iterations on [H + CᵀC, Cᵀ; C, −regularisation].

    They refine by themselves, since each starts from what the rows say is left.
    """
    model = model.written_out()
    assert model.C is not None
    C = model.C
    inverse = _soft_inverse(solver, model.gram(ridge).plus(C), C, refined=False)

    def improve(_: Any, so_far: tuple[Array, Array, Array, Effort]) -> Any:
        p, multipliers, violation, total = so_far
        # CᵀC is in H₁, so it must be in the gradient too.
        slope = model.slope(p) + ridge * (start + p) + transposed(C, multipliers + violation)
        step, more, effort = inverse(-slope, -violation)
        left = C.mv(p + step) + model.c
        return p + step, multipliers + more + left, left, combine_efforts(total, effort)

    nothing = (jnp.zeros_like(start), jnp.zeros_like(model.c), model.c, exact())
    p, multipliers, _, total = jax.lax.fori_loop(0, multiplier_iterations(start.dtype), improve, nothing)
    return p, multipliers, total


def kkt_inverse(
    solver: LinearSolver, hessian: Gram, C: lx.AbstractLinearOperator
) -> Callable[[Array, Array], tuple[Array, Array, Effort]]:
    """Solves  H x + Cᵀ y = f,  C x − regularisation·(y − C x + g) = g  for many (f, g)."""
    inverse = _soft_inverse(solver, hessian.plus(C), C, refined=True)

    def solve(f: Array, g: Array) -> tuple[Array, Array, Effort]:
        x, y, effort = inverse(f + transposed(C, g), g)
        return x, y + C.mv(x) - g, effort

    return solve


def _soft_inverse(
    solver: LinearSolver, gram: Gram, C: lx.AbstractLinearOperator, refined: bool
) -> Callable[[Array, Array], tuple[Array, Array, Effort]]:
    """Solves  H₁ x + Cᵀ y = f,  C x − regularisation·y = g  for many (f, g).

    With H₁ = H + CᵀC instead of H, which changes nothing where C x = g, the Schur complement
    S = C H₁⁻¹ Cᵀ has no eigenvalue above one, and H₁ sees every direction that H or C sees.
    """
    held, rows = constant((gram, C))
    if isinstance(solver, DirectSolver):
        solve = _schur(solver, held, rows, solver.refinements if refined else 0)
    else:
        solve = _multipliers(solver, held, rows)

    # One vector: a transposed solve wants a right-hand side that is linear in all of its parts.
    split = lambda z: (z[: C.in_size()], z[C.in_size() :])

    def product(z: Array) -> Array:
        x, y = split(z)
        return jnp.concatenate([gram.mv(x) + transposed(C, y), C.mv(x) - regularisation(z.dtype) * y])

    def solve_joined(_: Any, rhs: Array) -> tuple[Array, Effort]:
        z, effort = solve(*split(rhs))
        return jnp.concatenate(z), effort

    def inverse(f: Array, g: Array) -> tuple[Array, Array, Effort]:
        z, effort = jax.lax.custom_linear_solve(
            product, jnp.concatenate([f, g]), solve_joined, solve_joined, symmetric=True, has_aux=True
        )
        return *split(z), effort

    return inverse


def _schur(
    solver: DirectSolver, gram: Gram, rows: lx.AbstractLinearOperator, refinements: int
) -> Callable:
    """(f, g) ↦ (x, y) by a factorisation of the Schur complement S = C H⁻¹ Cᵀ = WᵀW, W = K⁻ᵀCᵀ."""
    prepared = solver.prepare(gram)
    W = one_by_one(solver.down)(prepared, written_out(rows).as_matrix().T)
    soft = regularisation(W.dtype) * jnp.eye(W.shape[1], dtype=W.dtype)
    factor = triangular.factorise(lower_product(W, W) + soft)

    def solve(f: Array, g: Array) -> tuple[tuple[Array, Array], Effort]:
        h = solver.down(prepared, f)
        y = triangular.up(factor, triangular.down(factor, h @ W - g))
        return (solver.up(prepared, h - W @ y), y), exact()

    def refine(f: Array, g: Array) -> tuple[tuple[Array, Array], Effort]:
        (x, y), effort = solve(f, g)
        for _ in range(refinements):
            left = f - gram.mv(x) - transposed(rows, y), g - rows.mv(x) + regularisation(y.dtype) * y
            (dx, dy), _ = solve(*left)
            x, y = x + dx, y + dy
        return (x, y), effort

    return refine


def _multipliers(solver: LinearSolver, gram: Gram, rows: lx.AbstractLinearOperator) -> Callable:
    """(f, g) ↦ (x, y) by products alone: the equality rows as heavy least squares, and two rounds of
    the method of multipliers, which need no Schur complement."""
    weight = 1e3
    heavy = gram.plus(
        lx.FunctionLinearOperator(lambda x: jnp.sqrt(weight) * rows.mv(x), rows.in_structure())
    )
    prepared = solver.prepare(heavy)

    def solve(f: Array, g: Array) -> tuple[tuple[Array, Array], Effort]:

        def improve(_: Any, so_far: tuple[Array, Array, Effort]) -> tuple[Array, Array, Effort]:
            y, total = so_far[1:]
            x, effort = solver.apply(prepared, heavy, f + transposed(rows, weight * g - y))
            return x, y + weight * (rows.mv(x) - g), combine_efforts(total, effort)

        x, y, total = jax.lax.fori_loop(0, 2, improve, (jnp.zeros_like(f), jnp.zeros_like(g), exact()))
        return (x, y), total

    return solve


def _settle(
    solver: LinearSolver, prepared: Any, gram: Operator, f: Array, left: Callable[[Array], Array]
) -> tuple[Array, Effort]:
    """The x at which `left`, which is f − H x, is zero.

    A direct solver starts from a rough solution and corrects it against the rows themselves. The result
    does not depend on where the correction starts, so the start needs no derivative.
    """
    inverse = _inverse(solver, gram, prepared)
    if not isinstance(solver, DirectSolver):
        return inverse(f)
    start = constant(solver.once(prepared, f))
    step, effort = inverse(left(start))
    return start + step, effort


def _inverse(
    solver: LinearSolver, gram: Operator, prepared: Any
) -> Callable[[Array], tuple[Array, Effort]]:
    """f ↦ H⁻¹f with derivatives by f and by everything H is made of; one factorisation for all."""
    held = constant(gram)
    solve = lambda _, f: solver.apply(prepared, held, f)
    return lambda f: jax.lax.custom_linear_solve(gram.mv, f, solve, solve, symmetric=True, has_aux=True)


def combine_efforts(*efforts: Effort) -> Effort:
    return Effort(
        sum((e.steps for e in efforts), jnp.asarray(0)),
        jnp.all(jnp.stack([e.converged for e in efforts])),
    )
