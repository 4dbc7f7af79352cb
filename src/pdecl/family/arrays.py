"""Formulas that are written once and work on NumPy and JAX arrays alike; among them Fourier transforms
of real functions along the last axis, with the conventions of `numpy.fft`.

On a CPU those of JAX arrays are products of matrices: XLA's own transform (`FftThunk` of jaxlib 0.10)
hands its parts to the pool of threads that runs it and blocks a thread of it until these are done, so
that as many of them side by side as there are threads never end.
"""

from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Complex, Float

if TYPE_CHECKING:
    # What comes out is of the kind that went in, which a static type cannot say beside a shape.
    AnyArray = Any
else:
    AnyArray = jax.Array | np.ndarray


def namespace(*arrays: object) -> ModuleType:
    """`jax.numpy` if one of the arrays is JAX's, else `numpy` (float64 whatever JAX is set to)."""
    return jnp if any(isinstance(array, jax.Array) for array in arrays) else np


def rfft(f: Float[AnyArray, "*batch n"]) -> Complex[AnyArray, "*batch n//2+1"]:
    """c_k = Σ_j f_j exp(−2πijk/n) for k = 0 … n/2."""
    if not isinstance(f, jax.Array):
        return np.fft.rfft(f)
    return jax.lax.platform_dependent(f, cpu=_rfft, default=jnp.fft.rfft)


def irfft(c: Complex[AnyArray, "*batch m"], n: int) -> Float[AnyArray, "*batch n"]:
    """The n values of the real function with these coefficients; those that are not there are zero."""
    if not isinstance(c, jax.Array):
        return np.fft.irfft(c, n=n)
    return jax.lax.platform_dependent(c, cpu=partial(_irfft, n=n), default=partial(jnp.fft.irfft, n=n))


def _rfft(f: Float[Array, "*batch n"]) -> Complex[Array, "*batch n//2+1"]:
    return _transform(f)[..., : f.shape[-1] // 2 + 1]


def _irfft(c: Complex[Array, "*batch m"], n: int) -> Float[Array, "*batch n"]:
    """The real part of a sum over k ≥ 0 in which each k stands for −k too, but for 0 and n/2."""
    k = np.arange(min(c.shape[-1], n // 2 + 1))
    c = jnp.conj(c[..., : len(k)]) * np.where((k == 0) | (2 * k == n), 1, 2).astype(c.real.dtype)
    return _transform(jnp.pad(c, [(0, 0)] * (c.ndim - 1) + [(0, n - len(k))])).real / n


def _transform(x: Array) -> Array:
    """All n = a·b coefficients in two products (Gentleman and Sande, 1966). With j = b j₁ + j₂ and
    k = k₁ + a k₂,  exp(−2πijk/n) = exp(−2πi j₁k₁/a) exp(−2πi j₂k₁/n) exp(−2πi j₂k₂/b)."""
    n = x.shape[-1]
    a = max(a for a in range(1, n + 1) if n % a == 0 and a * a <= n)
    b = n // a
    to = jnp.result_type(x, jnp.complex64)
    parts = jnp.einsum("kj,...jl->...kl", _roots(a, a, a, to), x.reshape(*x.shape[:-1], a, b))
    parts = (_roots(a, b, n, to) * parts) @ _roots(b, b, b, to)
    return jnp.swapaxes(parts, -1, -2).reshape(*x.shape[:-1], n)


def _roots(rows: int, columns: int, period: int, dtype: DTypeLike) -> np.ndarray:
    """exp(−2πi jk/period); the exponent is reduced first, which keeps all digits."""
    exponents = np.outer(np.arange(rows), np.arange(columns)) % period
    return np.exp(-2j * np.pi / period * exponents).astype(dtype)
