"""Standard normal numbers that are the same on every machine.

Random generators promise little across versions: JAX and NumPy may both change how bits become
normals. What NumPy does promise is the raw bit stream of its Philox generator (a counter-based
generator with a published definition). So we take those bits and turn them into normals
ourselves, by the Box–Muller formula:

    a, b = uniform numbers on [0, 1): the upper 53 bits of a word, divided by 2⁵³
    √(−2 log(1 − a)) · cos 2πb    and    √(−2 log(1 − a)) · sin 2πb

Only `log`, `cos` and `sin` are left to the machine, and those differ in the last digit at most.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Float64


def normals(seed: int, index: int, shape: tuple[int, ...]) -> Float64[np.ndarray, "..."]:
    """Independent standard normals that depend on `seed` and `index` alone.

    Each pair (seed, index) is a Philox key of its own, so streams of different pairs never
    overlap, and φ number `index` of a seed is the same however many φ are drawn with it.
    """
    return normals_of(seed, (index,), shape)[0]


def normals_of(
    seed: int, indices: Iterable[int], shape: tuple[int, ...]
) -> Float64[np.ndarray, "count ..."]:
    """The normals of several indices, one after the other. To give one generator another key takes a
    tenth of the time of making one."""
    _require_word("seed", seed)
    indices, size = list(indices), int(np.prod(shape))
    pairs = (size + 1) // 2
    bits = np.empty((len(indices), 2 * pairs), np.uint64)
    generator = np.random.Philox(key=np.array([seed, 0], dtype=np.uint64))
    state: Any = generator.state
    for row, index in zip(bits, indices, strict=True):
        _require_word("index", index)
        state["state"]["key"][1] = index
        generator.state = state
        row[:] = generator.random_raw(2 * pairs)
    uniforms = (bits >> np.uint64(11)) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log1p(-uniforms[:, 0::2]))
    angle = 2.0 * np.pi * uniforms[:, 1::2]
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return both.reshape(len(indices), -1)[:, :size].reshape(len(indices), *shape)


def _require_word(argument: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < 2**64:
        raise ValueError(f"{argument} must be a whole number from 0 to 2**64 - 1, got {value!r}")
