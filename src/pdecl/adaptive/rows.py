"""A condition's equation and its slopes with respect to what it reads, at many points."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..condition import local
from .reading import Reading


class Rows:
    """`rows(where, v)`: values (n, rows) and slopes (n, rows, entries) at n points, v of shape
    (n, entries)."""

    def __init__(self, reading: Reading, index: int):
        problem = reading.problem
        rows = local(problem.conditions[index], problem.unknowns, problem.domain.names)
        entries, self._phi = reading.entries[index], reading.phi

        def one(where: Any, v: Any, phi: Any) -> Any:
            at = lambda y: (rows(dict(zip(entries, y, strict=True)), where, phi),) * 2
            slope, value = jax.jacfwd(at, has_aux=True)(v)
            return value, slope

        self._all: Callable[..., Any] = jax.jit(jax.vmap(one, (0, 0, None)))

    def __call__(self, where: dict[str, Any], v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, slopes = self._all(jax.tree.map(padded, where), padded(v), self._phi)
        return np.asarray(values)[: len(v)], np.asarray(slopes)[: len(v)]


def padded(x: np.ndarray) -> np.ndarray:
    """As many rows as the next of 64, 512, 4096, …, the last repeated: few shapes, so few
    compilations."""
    more = 64 * 8 ** max(0, -(-((len(x) - 1).bit_length() - 6) // 3)) - len(x)
    return np.concatenate([x, np.repeat(x[-1:], more, axis=0)]) if more else x
