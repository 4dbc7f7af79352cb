"""What a linear solver is: something that inverts a Gram operator."""

import abc
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..gram import Operator
from ..implicit import constant
from . import triangular
from .triangular import Triangular


class Effort(NamedTuple):
    """What an application of a solver took and whether it met its own tolerance."""

    steps: Int[Array, ""]
    converged: Bool[Array, ""]


class LinearSolver(eqx.Module):
    """Solves H x = f for a Gram operator H, as often as asked after preparing once."""

    # A direct solver factorises a matrix; an iterative one only takes products with it.
    direct: ClassVar[bool]
    # Relative to rows whose columns have norm one; None: what the precision allows.
    ridge: eqx.AbstractVar[float | None]

    @abc.abstractmethod
    def prepare(self, gram: Operator) -> Any:
        """What can be done before f is known: the factorisation."""

    @abc.abstractmethod
    def apply(self, prepared: PyTree, gram: Operator, f: Float[Array, " N"]) -> tuple[Array, Effort]:
        """x and what it took."""

    def __check_init__(self) -> None:
        if self.ridge is not None and not 0 < self.ridge < 1:
            raise ValueError(
                f"{type(self).__name__}: ridge is relative and must lie between 0 and 1; found "
                f"{self.ridge}. Without any ridge a nearly dependent basis gives wrong gradients."
            )


class DirectSolver(LinearSolver):
    """A solver with a triangular factor K, H = KᵀK, whose solutions are refined against the rows."""

    ridge: float | None = None
    refinements: int = 1
    direct = True

    @abc.abstractmethod
    def prepare(self, gram: Operator) -> Triangular: ...

    def once(self, prepared: Triangular, f: Float[Array, " N"]) -> Float[Array, " N"]:
        """H⁻¹ f from the factorisation, as accurate as that is."""
        return triangular.up(prepared, triangular.down(prepared, f))

    def apply(self, prepared: Triangular, gram: Operator, f: Float[Array, " N"]) -> tuple[Array, Effort]:
        x = self.once(prepared, f)
        for _ in range(self.refinements):
            x = x + self.once(prepared, f - gram.mv(x))
        return x, exact()


def smallest_eigenvalue(inverse: Callable[[Array], Array], like: Float[Array, " N"]) -> Float[Array, ""]:
    """That of H, from f ↦ H⁻¹f: by two steps of inverse iteration, from above."""
    x = inverse(jnp.sin(1.0 + jnp.arange(like.size, dtype=like.dtype) ** 2))  # orthogonal to nothing
    return 1 / jnp.linalg.norm(inverse(x / jnp.linalg.norm(x)))


def exact() -> Effort:
    return Effort(jnp.asarray(0), jnp.asarray(True))


def unrefined(solver: LinearSolver) -> LinearSolver:
    """The same without corrections of its solutions, for those who correct them anyway."""
    return replace(solver, refinements=0) if isinstance(solver, DirectSolver) else solver


def settle(
    solver: LinearSolver, prepared: PyTree, gram: Operator, f: Array, left: Callable[[Array], Array]
) -> tuple[Array, Effort]:
    """The x at which `left`, which is f − H x, is zero.

    A direct solver starts from a rough solution and corrects it against the rows themselves. The result
    does not depend on where the correction starts, so the start needs no derivative.
    """
    inverse = inverse_of(solver, gram, prepared)
    if not isinstance(solver, DirectSolver):
        return inverse(f)
    start = constant(solver.once(prepared, f))
    step, effort = inverse(left(start))
    return start + step, effort


def inverse_of(
    solver: LinearSolver, gram: Operator, prepared: PyTree
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
