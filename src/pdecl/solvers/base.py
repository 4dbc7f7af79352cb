"""What a linear solver is: something that inverts a Gram operator."""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..gram import Gram


class Effort(NamedTuple):
    """What an application of a solver took and whether it met its own tolerance."""

    steps: Int[Array, ""]
    converged: Bool[Array, ""]


class LinearSolver(eqx.Module):
    """Solves H x = f for a Gram operator H, as often as asked after preparing once.

    To add one: a file beside this with a class that has these two methods, and a line in the list of
    solvers in the tests.
    """

    # A direct solver factorises a matrix; an iterative one only takes products with it.
    direct: ClassVar[bool]
    ridge: eqx.AbstractVar[float | None]

    @abc.abstractmethod
    def prepare(self, gram: Gram) -> Any:
        """What can be done before f is known: the factorisation."""

    @abc.abstractmethod
    def apply(self, prepared: Any, gram: Gram, f: Float[Array, " N"]) -> tuple[Array, Effort]:
        """x and what it took."""


def exact() -> Effort:
    return Effort(jnp.asarray(0), jnp.asarray(True))


def check_ridge(name: str, ridge: float | None) -> None:
    if ridge is not None and not 0 < ridge < 1:
        raise ValueError(
            f"{name}: ridge is relative and must lie between 0 and 1; found {ridge}. Without any ridge "
            "a nearly dependent basis gives wrong gradients."
        )
