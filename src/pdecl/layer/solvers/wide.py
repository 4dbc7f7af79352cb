"""Fewer rows than functions: the shortest ω, from a system with as many unknowns as rows (the dual)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..gram import Dual, scale_columns, transposed
from ..implicit import constant
from ..precision import precision_of
from ..system import QuadraticModel
from .base import Effort, LinearSolver, combine_efforts, exact, inverse_of, settle, unrefined


def wide_fit(
    model: QuadraticModel, ridge: Array, start: Array, solver: LinearSolver
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
    y, effort = settle(solver, solver.prepare(constant(gram)), gram, target, left)
    return transposed(A, y) / (ridge * size) - start, jnp.zeros_like(model.c), effort


def wide_enforce(
    model: QuadraticModel, ridge: Array, start: Array, solver: LinearSolver
) -> tuple[Array, Array, Effort]:
    """The ω of least norm (in the ridge's norm) that satisfies C ω = C·start − c."""
    assert model.C is not None
    size = jnp.mean(ridge)  # has no say in which ω is the shortest
    columns = jnp.sqrt(size / ridge)
    half = scale_columns(model.C, columns)
    target = half.mv(start / columns) - model.c
    gram = Dual(half, jnp.full_like(target, size))
    y, total = _by_iterations(gram, target, solver)
    return columns * transposed(half, y) - start, -y * size, total


def _by_iterations(gram: Dual, target: Array, solver: LinearSolver) -> tuple[Array, Effort]:
    """The y whose Rᵀy is the shortest x with R x = target, or as near to it as any x is."""
    prepared = solver.prepare(constant(gram))
    target = target - _out_of_reach(inverse_of(solver, gram, prepared), gram, target)
    inverse = inverse_of(unrefined(solver), gram, prepared)  # each iteration corrects the one before

    def improve(_: object, so_far: tuple[Array, Effort]) -> tuple[Array, Effort]:
        y, total = so_far
        step, effort = inverse(target - gram.rows.mv(transposed(gram.rows, y)))
        return y + step, combine_efforts(total, effort)

    nothing = (jnp.zeros_like(target), exact())
    return jax.lax.fori_loop(
        0, precision_of(target.dtype).multiplier_iterations, improve, nothing, unroll=solver.direct
    )


def _out_of_reach(inverse: Callable, gram: Dual, target: Float[Array, " m"]) -> Float[Array, " m"]:
    """The part of a target that no ω can meet: the limit of (ridge·H⁻¹)ᵏ target, for H = CCᵀ + ridge.

    Left in the target, it would make multipliers so large that their rounding is seen in ω.
    """
    once_more = lambda _, part: gram.ridge * inverse(part)[0]
    return jax.lax.fori_loop(0, precision_of(target.dtype).multiplier_iterations, once_more, target)
