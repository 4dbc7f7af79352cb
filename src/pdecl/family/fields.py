"""Gaussian random fields: white noise that is the same on every machine, and values on a grid.

Each field is a finite sum Σ_k s_k ξ_k e_k(x) with independent standard normals ξ_k, orthonormal
functions e_k and standard deviations s_k given by a formula. No matrix is factorised, so a field
depends on its noise smoothly and is the same on every machine to rounding. Noise may be a NumPy
or a JAX array, with any leading batch axes.

Random generators promise little across versions: JAX and NumPy may both change how bits become
normals. What NumPy does promise is the raw bit stream of its Philox generator (a counter-based
generator with a published definition). So we take those bits and turn them into normals
ourselves, by the Box–Muller formula:

    a, b = uniform numbers on [0, 1): the upper 53 bits of a word, divided by 2⁵³
    √(−2 log(1 − a)) · cos 2πb    and    √(−2 log(1 − a)) · sin 2πb

Only `log`, `cos` and `sin` are left to the machine, and those differ in the last digit at most.
"""

import abc
from collections.abc import Iterable
from functools import cache
from math import ceil
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import Float, Float64, PRNGKeyArray

from ..state.rules import require_count
from .arrays import AnyArray
from .family import Family


class FieldFamily(Family, abc.ABC):
    """A family whose φ are made of white noise by a formula, the same on every machine."""

    @property
    @abc.abstractmethod
    def noise(self) -> tuple[int, ...]:
        """The shape of the noise that one φ is made of."""

    @abc.abstractmethod
    def from_noise(self, noise: Float[AnyArray, "..."]) -> Any:
        """φ, or a batch of them, from NumPy's or JAX's standard normal numbers."""

    def sample(self, seed: int, count: int, start: int = 0) -> Any:
        require_count("count", count)
        return np.asarray(self.from_noise(normals_of(seed, range(start, start + count), self.noise)))

    def draw(self, key: PRNGKeyArray) -> Any:
        return self.from_noise(jr.normal(key, self.noise))


def neumann_field(
    noise: Float[AnyArray, "*batch n n"], tau: float, power: float
) -> Float[AnyArray, "*batch n n"]:
    """Field on the n × n nodes of the unit square with covariance (−Δ + τ²)^(−power).

    Δ carries zero Neumann conditions: e_k = c_k cos(πk₁x) cos(πk₂y), s_k = (π²|k|² +
    τ²)^(−power/2), k₁, k₂ < n, where c_k makes e_k orthonormal. As in the published data the
    constant mode is left out, so a field has mean zero.
    """
    modes = np.arange(noise.shape[-1])
    deviations = (np.pi**2 * (modes[:, None] ** 2 + modes**2) + tau**2) ** (-power / 2)
    deviations[0, 0] = 0.0
    cosines = _cosines(noise.shape[-1])
    return cosines @ (deviations * noise) @ cosines.T


def periodic_field(
    noise: Float[AnyArray, "*batch 2 modes"],
    points: Float64[np.ndarray, " n"],
    gamma: float,
    tau: float,
    sigma: float,
) -> Float[AnyArray, "*batch n"]:
    """Periodic field on (0, 1) with mean zero and covariance σ²(−Δ + τ²)^(−γ), at the given points.

    Σ_k √2 σ ((2πk)² + τ²)^(−γ/2) (ξ_k cos 2πkx + η_k sin 2πkx), k = 1 … modes; noise[0] is ξ and
    noise[1] is η.
    """
    frequencies = 2 * np.pi * np.arange(1, noise.shape[-1] + 1)
    deviations = np.sqrt(2.0) * sigma * (frequencies**2 + tau**2) ** (-gamma / 2)
    return _harmonics(noise, points, frequencies, deviations)


def squared_exponential_field(
    noise: Float[AnyArray, "*batch 2 modes"], points: Float64[np.ndarray, " n"], length: float
) -> Float[AnyArray, "*batch n"]:
    """Field on [0, 1] with covariance exp(−|x − y|²/(2 length²)), at the given points.

    The field is drawn on a circle of circumference P = 1 + 10·length. The circle's covariance is
    the sum of the wanted one over all turns, and on [0, 1] a turn away means at least 10 lengths:
    exp(−50) = 2e−22. On the circle the modes are known: variance √(2π) (length/P)
    exp(−(2πk·length/P)²/2), twice that for the cosine and sine of k ≥ 1. Column 0 of the noise is
    the constant (its sine is zero).
    """
    period = 1 + 10 * length
    frequencies = 2 * np.pi * np.arange(noise.shape[-1]) / period
    variances = np.sqrt(2 * np.pi) * length / period * np.exp(-((frequencies * length) ** 2) / 2)
    variances[1:] *= 2
    return _harmonics(noise, points, frequencies, np.sqrt(variances))


def squared_exponential_modes(length: float) -> int:
    """How many modes `squared_exponential_field` needs: the first left out is below 1e−17."""
    return ceil(12.6 * (1 + 10 * length) / (2 * np.pi * length)) + 1


def _harmonics(
    noise: AnyArray, points: np.ndarray, frequencies: np.ndarray, deviations: np.ndarray
) -> AnyArray:
    angles = frequencies[:, None] * points
    scaled = noise * deviations
    return scaled[..., 0, :] @ np.cos(angles) + scaled[..., 1, :] @ np.sin(angles)


@cache
def _cosines(n: int) -> np.ndarray:
    """Values of 1, √2 cos πx, √2 cos 2πx, … at the n nodes, one column for each."""
    nodes = np.arange(n)
    # The angle is reduced in whole numbers first, so that high modes lose no digits.
    angles = np.pi * (np.outer(nodes, nodes) % (2 * (n - 1))) / (n - 1)
    values = np.sqrt(2.0) * np.cos(angles)
    values[:, 0] = 1.0
    values.setflags(write=False)
    return values


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
