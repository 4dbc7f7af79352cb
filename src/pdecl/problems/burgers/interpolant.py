"""u₀ between its sensors: a trigonometric interpolant."""

import numpy as np
from jaxtyping import Complex, Float

from ...family.arrays import AnyArray, namespace, rfft


def coefficients(u0: Float[AnyArray, "*batch n"]) -> Complex[AnyArray, "*batch modes"]:
    """Fourier coefficients c₀ … c_K of u₀: u₀(x) = c₀ + 2 Re Σ_(k≥1) c_k exp(2πikx).

    The trigonometric interpolant of the values at x = 0, 1/(n−1), …, 1 (the last repeats the
    first).
    """
    xp = namespace(u0)
    distinct = u0.shape[-1] - 1
    waves = rfft(u0[..., :-1]) / distinct
    if distinct % 2:
        return waves
    # The highest wave is seen as a cosine only; half of it stands for each of ±K.
    return xp.concatenate([waves[..., :-1], waves[..., -1:] / 2], axis=-1)


def initial(
    u0: Float[AnyArray, " n"], x: Float[AnyArray, "*points"] | float
) -> Float[AnyArray, "*points"]:
    """u₀(x) anywhere, from its values at sensors: what the reference starts from."""
    xp = namespace(u0, x)
    waves = coefficients(u0)
    angles = 2 * np.pi * xp.asarray(x)[..., None] * np.arange(1, waves.shape[-1])
    tail = xp.cos(angles) @ waves[1:].real - xp.sin(angles) @ waves[1:].imag
    return xp.asarray(waves[0].real + 2 * tail)
