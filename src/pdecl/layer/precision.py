"""What depends on how precise the arithmetic is: ridges, tolerances, repetitions."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax.typing import DTypeLike


@dataclass(frozen=True)
class Precision:
    """The policy for one precision.

    - `tolerance`: relative size above which a solve counts as inaccurate and an equality as violated.
    - `ridge`: of solvers that factorise, relative to columns of norm one: what the arithmetic can
      resolve and gradients need. `iterative_ridge`: of those that do not.
    - `factor_ridge`: of the compiled solver's factorisations, in coordinates in which the mean Gram
      matrix is the identity.
    - `regularisation`: weight of the multipliers in the equality-constrained system, whose Schur
      complement has eigenvalues between 0 and 1: it keeps dependent or contradictory rows from making
      it singular.
    - `multiplier_iterations`: of the augmented Lagrangian. Each adds the violation that is left to the
      target, which multiplies it by about the regularisation (or the ridge) where the rows can hold, and
      leaves the smallest possible violation where they cannot.
    """

    tolerance: float
    ridge: float
    iterative_ridge: float
    factor_ridge: float
    regularisation: float
    multiplier_iterations: int


_SINGLE = Precision(1e-4, 1e-5, 1e-5, 1e-6, 1e-4, 10)
_DOUBLE = Precision(1e-6, 1e-12, 1e-8, 1e-12, 1e-8, 3)


def precision_of(dtype: DTypeLike) -> Precision:
    return _SINGLE if jnp.dtype(dtype) == jnp.float32 else _DOUBLE
