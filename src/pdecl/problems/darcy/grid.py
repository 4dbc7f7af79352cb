"""Darcy on a grid, as pure functions: the fluxes ν∇u, the Poisson equation, features of ν.

ν and u are values at the n × n nodes (i h, j h), h = 1/(n−1), boundary included; leading axes are
batches. NumPy arrays stay NumPy, JAX arrays can be traced and differentiated.
"""

from functools import partial
from types import ModuleType
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...basis.grid import subsample
from ...family.arrays import AnyArray, namespace

Average = Literal["arithmetic", "harmonic"]
MOST_NODES = 65  # a side, of the fields that features are learned from
_CELLS = 8
GridValues = Float[AnyArray, "*batch n n"]


def face_coefficients(nu: GridValues, average: Average = "arithmetic") -> tuple[AnyArray, AnyArray]:
    """ν on the faces that interior nodes see: (n−1) × (n−2) across x, (n−2) × (n−1) across y."""
    return (
        _mean(nu[..., 1:, 1:-1], nu[..., :-1, 1:-1], average),
        _mean(nu[..., 1:-1, 1:], nu[..., 1:-1, :-1], average),
    )


def upscaled_faces(nu: GridValues, nodes: int) -> tuple[AnyArray, AnyArray]:
    """Face coefficients of a coarser grid that remember the fine ν between its nodes.

    Across the flux the fine faces are in parallel (arithmetic mean over the width of the coarse
    face), along it the results are in series (harmonic mean). Far better than subsampling ν.
    """
    subsample(nu, nodes)
    xp = namespace(nu)
    across_x, across_y = _upscaled_x(xp, nu, nodes), _upscaled_x(xp, xp.swapaxes(nu, -1, -2), nodes)
    return across_x, xp.swapaxes(across_y, -1, -2)


def flux_balance(faces: tuple[AnyArray, AnyArray], u: GridValues) -> Float[AnyArray, "*batch n-2 n-2"]:
    """h² times −∇·(ν∇u) at the interior nodes: what flows out through a cell's four faces."""
    flux_x = faces[0] * (u[..., 1:, 1:-1] - u[..., :-1, 1:-1])
    flux_y = faces[1] * (u[..., 1:-1, 1:] - u[..., 1:-1, :-1])
    return (flux_x[..., :-1, :] - flux_x[..., 1:, :]) + (flux_y[..., :-1] - flux_y[..., 1:])


def _upscaled_x(xp: ModuleType, nu: AnyArray, nodes: int) -> AnyArray:
    stride = (nu.shape[-1] - 1) // (nodes - 1)
    faces = _mean(nu[..., 1:, :], nu[..., :-1, :], "harmonic")
    # Columns k·stride − stride/2 … k·stride + stride/2 belong to coarse node k; the outer ones of an
    # even stride are shared with the neighbours.
    half, shared = stride // 2, 0.5 if stride % 2 == 0 else 1.0
    parallel: AnyArray = 0.0
    for offset in range(-half, half + 1):
        weight = shared if abs(offset) == half and half else 1.0
        columns = faces[..., stride + offset : offset - stride or None : stride]
        parallel = parallel + weight / stride * columns
    series = (*nu.shape[:-2], nodes - 1, stride, nodes - 2)
    return stride / xp.sum(1 / parallel.reshape(series), axis=-2)


def _mean(one: AnyArray, other: AnyArray, average: Average) -> AnyArray:
    if average == "arithmetic":
        return (one + other) / 2
    if average == "harmonic":
        return 2 * one * other / (one + other)
    raise ValueError(f"average must be 'arithmetic' or 'harmonic', got {average!r}")


def poisson(load: Float[Array, "*batch m m"]) -> Float[Array, "*batch m m"]:
    """The solution on the interior nodes of the five-point −h²Δu = load, u = 0 on the boundary, by
    sines."""
    nodes = load.shape[-1] + 2
    sines = jnp.asarray(_sines(nodes), load.dtype)
    stretch = 2 - 2 * jnp.cos(jnp.pi * jnp.arange(1, nodes - 1, dtype=load.dtype) / (nodes - 1))

    def transform(values: Array) -> Array:
        # GPUs may round float32 products to TF32, which would lose the answer.
        product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
        return product(product(sines, values), sines)

    return transform(transform(load) / (stretch[:, None] + stretch))


def _sines(nodes: int) -> np.ndarray:
    """The orthonormal, symmetric matrix of discrete sines on the interior nodes."""
    numbers = np.arange(1, nodes - 1)
    angles = np.pi * (np.outer(numbers, numbers) % (2 * (nodes - 1))) / (nodes - 1)
    return np.sqrt(2 / (nodes - 1)) * np.sin(angles)


def ratio(above: Array, below: Array) -> Array:
    """above / below, and 0 where the solve is already exact and both vanish."""
    return jnp.where(below > 0, above / jnp.where(below > 0, below, 1), 0)


def features(nu: np.ndarray, low: float, high: float) -> np.ndarray:
    """Means of w and of w² over 8 × 8 cells, w = log ν less its middle, so that both where the materials
    lie and which they are count."""
    w = np.log(nu) - np.log(low * high) / 2
    return np.concatenate([_cell_means(w), _cell_means(w**2)], axis=1)


def _cell_means(values: np.ndarray) -> np.ndarray:
    """Means over cells × cells blocks of nodes, for each member of the batch."""
    nodes = values.shape[-1]
    cells = min(_CELLS, nodes)
    starts = np.arange(cells) * nodes // cells
    sizes = np.diff([*starts, nodes])
    sums = np.add.reduceat(np.add.reduceat(values, starts, axis=1), starts, axis=2)
    return (sums / np.outer(sizes, sizes)).reshape(len(values), -1)
