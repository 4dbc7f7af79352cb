"""Equality rows beside other terms: a Schur complement, or multipliers where nothing is factorised."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx
from jaxtyping import Array

from ..batching import one_by_one
from ..gram import Gram, lower_product, transposed, written_out
from ..implicit import constant
from ..precision import precision_of
from ..system import QuadraticModel
from . import triangular
from .base import DirectSolver, Effort, LinearSolver, combine_efforts, exact


def constrained(
    model: QuadraticModel, ridge: Array, start: Array, solver: LinearSolver
) -> tuple[Array, Array, Effort]:
    """Augmented-Lagrangian iterations on [H + CᵀC, Cᵀ; C, −regularisation].

    They refine by themselves, since each starts from what the rows say is left.
    """
    model = model.written_out()
    assert model.C is not None
    C = model.C
    inverse = _soft_inverse(solver, model.gram(ridge).plus(C), C, refined=False)

    def improve(_: object, so_far: tuple[Array, Array, Array, Effort]) -> Any:
        p, multipliers, violation, total = so_far
        # CᵀC is in H₁, so it must be in the gradient too.
        slope = model.slope(p) + ridge * (start + p) + transposed(C, multipliers + violation)
        step, more, effort = inverse(-slope, -violation)
        left = C.mv(p + step) + model.c
        return p + step, multipliers + more + left, left, combine_efforts(total, effort)

    nothing = (jnp.zeros_like(start), jnp.zeros_like(model.c), model.c, exact())
    iterations = precision_of(start.dtype).multiplier_iterations
    p, multipliers, _, total = jax.lax.fori_loop(0, iterations, improve, nothing)
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
    soft = precision_of(held.ridge.dtype).regularisation
    if isinstance(solver, DirectSolver):
        solve = schur(solver, held, rows, solver.refinements if refined else 0)
    else:
        solve = _multipliers(solver, held, rows)

    # One vector: a transposed solve wants a right-hand side that is linear in all of its parts.
    split = lambda z: (z[: C.in_size()], z[C.in_size() :])

    def product(z: Array) -> Array:
        x, y = split(z)
        return jnp.concatenate([gram.mv(x) + transposed(C, y), C.mv(x) - soft * y])

    def solve_joined(_: object, rhs: Array) -> tuple[Array, Effort]:
        z, effort = solve(*split(rhs))
        return jnp.concatenate(z), effort

    def inverse(f: Array, g: Array) -> tuple[Array, Array, Effort]:
        z, effort = jax.lax.custom_linear_solve(
            product, jnp.concatenate([f, g]), solve_joined, solve_joined, symmetric=True, has_aux=True
        )
        return *split(z), effort

    return inverse


def schur(
    solver: DirectSolver, gram: Gram, rows: lx.AbstractLinearOperator, refinements: int
) -> Callable:
    """(f, g) ↦ (x, y) by a factorisation of the Schur complement S = C H⁻¹ Cᵀ = WᵀW, W = K⁻ᵀCᵀ."""
    prepared = solver.prepare(gram)
    W = one_by_one(triangular.down)(prepared, written_out(rows).as_matrix().T)
    soft = precision_of(W.dtype).regularisation
    factor = triangular.factorise(lower_product(W, W) + soft * jnp.eye(W.shape[1], dtype=W.dtype))

    def solve(f: Array, g: Array) -> tuple[tuple[Array, Array], Effort]:
        h = triangular.down(prepared, f)
        y = triangular.up(factor, triangular.down(factor, h @ W - g))
        return (triangular.up(prepared, h - W @ y), y), exact()

    def refine(f: Array, g: Array) -> tuple[tuple[Array, Array], Effort]:
        (x, y), effort = solve(f, g)
        for _ in range(refinements):
            left = (
                f - gram.mv(x) - transposed(rows, y),
                g - rows.mv(x) + soft * y,
            )
            (dx, dy), _ = solve(*left)
            x, y = x + dx, y + dy
        return (x, y), effort

    return refine


def _multipliers(solver: LinearSolver, gram: Gram, rows: lx.AbstractLinearOperator) -> Callable:
    """(f, g) ↦ (x, y) by products alone: the equality rows as heavy least squares, and two iterations of
    the method of multipliers, which need no Schur complement."""
    weight = 1e3
    heavy = gram.plus(
        lx.FunctionLinearOperator(lambda x: jnp.sqrt(weight) * rows.mv(x), rows.in_structure())
    )
    prepared = solver.prepare(heavy)

    def solve(f: Array, g: Array) -> tuple[tuple[Array, Array], Effort]:

        def improve(_: object, so_far: tuple[Array, Array, Effort]) -> tuple[Array, Array, Effort]:
            y, total = so_far[1:]
            x, effort = solver.apply(prepared, heavy, f + transposed(rows, weight * g - y))
            return x, y + weight * (rows.mv(x) - g), combine_efforts(total, effort)

        x, y, total = jax.lax.fori_loop(0, 2, improve, (jnp.zeros_like(f), jnp.zeros_like(g), exact()))
        return (x, y), total

    return solve
