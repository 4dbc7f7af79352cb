"""Formulas that are written once and work on NumPy and JAX arrays alike."""

from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    # What comes out is of the kind that went in, which a static type cannot say beside a shape.
    AnyArray = Any
else:
    AnyArray = jax.Array | np.ndarray


def namespace(*arrays: object) -> ModuleType:
    """`jax.numpy` if one of the arrays is JAX's, else `numpy` (float64 whatever JAX is set to)."""
    return jnp if any(isinstance(array, jax.Array) for array in arrays) else np
