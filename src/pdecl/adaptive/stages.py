"""Radau IIA: collocation in the marched coordinate at s points of (0, 1], the end included.

The polynomial of degree s through the start and the stages obeys the equation at the stages. Its order
is 2s − 1 at the end and s + 1 within; it is stable for stiff equations (Hairer and Wanner, II.IV.5).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.polynomial import legendre


@dataclass(frozen=True)
class Stages:
    """- `nodes`: c, (s,).
    - `derivative`: D, (s, s), of polynomials through (0, start) and the stages, on values less the
      start.
    - `rates`, `vectors`, `dual`: D = S diag(ν) S⁻¹, of each conjugate pair the one with Im ν ≥ 0; `dual`
      are the rows of S⁻¹.
    - `to_legendre`: from values at start and stages to Legendre coefficients, (s + 1, s + 1).
    - `alone`: the same from the stages without the start, (s, s).
    """

    nodes: np.ndarray
    derivative: np.ndarray
    rates: np.ndarray
    vectors: np.ndarray
    dual: np.ndarray
    to_legendre: np.ndarray
    alone: np.ndarray


@lru_cache(maxsize=64)
def radau(s: int) -> Stages:
    c = np.append((scipy.special.roots_jacobi(s - 1, 1, 0)[0] + 1) / 2, 1.0) if s > 1 else np.ones(1)
    values = legendre.legvander(2 * np.append(0.0, c) - 1, s)
    slopes = 2 * legendre.legval(2 * c - 1, legendre.legder(np.eye(s + 1))).T
    to_legendre = np.linalg.inv(values)
    D = (slopes @ to_legendre)[:, 1:]
    rates, vectors = np.linalg.eig(D)
    keep = rates.imag >= -1e-9 * np.abs(rates)
    dual = np.linalg.inv(vectors)[keep]
    alone = np.linalg.inv(legendre.legvander(2 * c - 1, s - 1))
    return Stages(c, D, rates[keep], vectors[:, keep], dual, to_legendre, alone)


def is_real(rate: complex) -> bool:
    return bool(abs(rate.imag) < 1e-9 * abs(rate))


def to_legendre(values: np.ndarray, s: int) -> np.ndarray:
    """The matrix that takes values at start and stages, or at the stages alone, to Legendre
    coefficients."""
    stages = radau(s)
    return stages.to_legendre if values.shape[-2] == s + 1 else stages.alone


def at_times(values: np.ndarray, s: int, x: np.ndarray) -> np.ndarray:
    """The polynomial through `values` at other times, x in [−1, 1] or beyond."""
    return legendre.legvander(x, values.shape[-2] - 1) @ (to_legendre(values, s) @ values)
