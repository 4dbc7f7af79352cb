"""What is known of φ itself: how far one is from the training φ, and what answer to start from."""

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..family.arrays import AnyArray, namespace
from ..family.distance import MahalanobisDistance, learned_distance

_COMPONENTS = 64
_LEADING = 20  # leading components
_SPREAD = 1e-8  # beside the largest, is that of a component that says something
_EXPONENTS = (0.5, 1.0)  # of deviations that components are divided by
_POWERS = (1, 3, 5)  # of distances
_PER_FEATURE = 3  # training φ at least, of a polynomial's
_COMPARED = 300  # training φ that these are compared on
_DEPENDENT = 1e-13  # beside the largest eigenvalue of an interpolation


class WarmStart(eqx.Module):
    """Coefficients to start from: the training answers, interpolated in φ.

    With z the leading principal components of φ, it is a polynomial in z plus a sum of odd powers
    |z − z_i|^p of the distances from the training φ (a polyharmonic spline).

    - `least`: where it is positive, a number of φ counts by its logarithm, if it is more than that.
    - `mean`, `directions`: z = (φ − mean) · directions.
    """

    least: Float[AnyArray, " D"]
    mean: Float[AnyArray, " D"]
    directions: Float[AnyArray, "D z"]
    centres: Float[AnyArray, "S z"]
    coefficients: Float[AnyArray, "features r"]
    power: int = eqx.field(static=True, default=1)

    def __call__(self, phi: Any) -> Float[Array, " r"]:
        z = (_counted(flat(phi), self.least) - self.mean) @ self.directions
        return _features(self.centres, self.power, z) @ self.coefficients

    def turned(self, turn: Float[np.ndarray, "r r"]) -> "WarmStart":
        """The same for answers whose coefficients are multiplied by a matrix."""
        return eqx.tree_at(lambda s: s.coefficients, self, jnp.asarray(self.coefficients @ turn.T))


class PhiStatistics(eqx.Module):
    """A distance from the training φ, and a warm start for the answer's coefficients.

    1 is the distance of the farthest of the φ that were held out.
    """

    metric: MahalanobisDistance
    warm_start: WarmStart | None = None

    def distance(self, phi: Any) -> Float[Array, ""]:
        """The distance of one φ."""
        return self.metric(flat(phi))

    def start(self, phi: Any, size: int) -> Float[Array, " r"]:
        """Coefficients to start from; zeros without a warm start."""
        if self.warm_start is None:
            return jnp.zeros(size, self.metric.mean.dtype)
        return self.warm_start(phi)


def phi_statistics(
    phis: Any, kept: np.ndarray, held_out: np.ndarray, warm_start: WarmStart | None = None
) -> PhiStatistics:
    """Learned from the φ that are kept, scaled by those held out."""
    seen = _rows(phis)
    metric = learned_distance(seen[kept], seen[held_out], _COMPONENTS)
    return PhiStatistics(jax.tree.map(jnp.asarray, metric), warm_start)


def learned_start(
    phis: Any, answers: Float[np.ndarray, "S r"], powers: tuple[int, ...] = _POWERS
) -> WarmStart:
    """A warm start from the answers for φ.

    Whether numbers count by their logarithms, how much small components count, and the power: what
    says each of the answers best from all the others.
    """
    seen = _rows(phis)
    few = np.arange(min(len(seen), _COMPARED))
    ways = []
    for least, exponent in itertools.product(_floors(seen), _EXPONENTS):
        mean, directions = _coordinates(seen, least, exponent)
        at = (_counted(seen, least) - mean) @ directions
        for power in powers:
            if power > 3 and _PER_FEATURE * _features(at[:0], power, at[0]).size > len(few):
                continue  # polynomials of too many coordinates
            error = _interpolation(at[few], answers[few], power)[1]
            ways.append((error, power, least, mean, directions))
    _, power, least, mean, directions = min(ways, key=lambda way: way[0])
    at = (_counted(seen, least) - mean) @ directions
    arrays = {
        "least": least, "mean": mean, "directions": directions, "centres": at,
        "coefficients": _interpolation(at, answers, power)[0],
    }  # fmt: skip
    return WarmStart(**jax.tree.map(jnp.asarray, arrays), power=power)


def flat(phi: Any) -> Float[Array, " D"]:
    """All numbers of one φ."""
    leaves = [jnp.ravel(jnp.asarray(leaf, float)) for leaf in jax.tree.leaves(phi)]
    return jnp.concatenate(leaves) if leaves else jnp.zeros(1)


def _rows(phis: Any) -> Float[np.ndarray, "S D"]:
    return np.concatenate([np.reshape(x, (len(x), -1)) for x in jax.tree.leaves(phis)], axis=1)


def _floors(seen: Float[np.ndarray, "S D"]) -> list[np.ndarray]:
    """No logarithms, and those of the positive numbers whose distribution is less skewed with it."""
    low = seen.min(axis=0)
    none, positive = np.zeros_like(low), np.where(low > 0, seen, 1.0)
    even = (low > 0) & (np.abs(_skewness(np.log(positive))) < np.abs(_skewness(positive)))
    return [none, np.where(even, low / 2, 0.0)] if even.any() else [none]


def _skewness(x: Float[np.ndarray, "S D"]) -> Float[np.ndarray, " D"]:
    off = x - x.mean(axis=0)
    deviations = off.std(axis=0)
    return np.mean(off**3, axis=0) / np.where(deviations > 0, deviations, 1.0) ** 3


def _counted(x: Float[AnyArray, "*batch D"], least: Float[AnyArray, " D"]) -> Any:
    xp = namespace(x)
    return xp.where(least > 0, xp.log(xp.maximum(x, xp.where(least > 0, least, 1.0))), x)


def _coordinates(
    seen: Float[np.ndarray, "S D"], least: Float[np.ndarray, " D"], exponent: float
) -> tuple[np.ndarray, np.ndarray]:
    """A mean and directions; small components are made as large as others if the exponent is 1."""
    rows = _counted(seen, least)
    mean = rows.mean(axis=0)
    _, spread, directions = np.linalg.svd(rows - mean, full_matrices=False)
    most = min(_LEADING, len(seen) // _PER_FEATURE - 1)  # linear polynomials have one number more
    number = max(1, int(np.sum(spread[: max(1, most)] > _SPREAD * max(spread[0], 1e-300))))
    deviations = np.maximum(spread[:number], 1e-300) / np.sqrt(len(seen))
    sizes = deviations[0] * (deviations / deviations[0]) ** exponent
    return mean, directions[:number].T / np.where(spread[0] > 0, sizes, 1.0)


def _interpolation(
    at: Float[np.ndarray, "S z"], answers: Float[np.ndarray, "S r"], power: int
) -> tuple[np.ndarray, float]:
    """Coefficients of the features that give each answer at its φ, and the mean distance of each answer
    from what the others say there.

    That is c_i / (A⁻¹)_ii, with A the matrix of the interpolation (Rippa, 1999).
    """
    features = _features(at, power, at)
    count, polynomials = len(at), features[:, len(at) :]
    # The coefficients of the distances are orthogonal to all polynomials: the spline of least energy.
    system = np.block([[features], [polynomials.T, np.zeros((polynomials.shape[1],) * 2)]])
    inverse = np.linalg.pinv(system, rcond=_DEPENDENT, hermitian=True)
    found = inverse[:, :count] @ answers
    apart = found[:count] / np.diag(inverse)[:count, None]
    return found, float(np.mean(np.linalg.norm(apart, axis=1)))


def _features(centres: Float[AnyArray, "S z"], power: int, z: Float[AnyArray, "*batch z"]) -> Any:
    """The polynomials are linear, or quadratic for the fifth power."""
    xp = namespace(z)
    total = lambda x: xp.sum(x**2, axis=-1)
    squares = total(z)[..., None] + total(centres) - 2 * z @ centres.T
    parts = [-(xp.maximum(squares, 0.0) ** (power / 2)), xp.ones_like(z[..., :1]), z]
    if power > 3:
        first, second = np.triu_indices(z.shape[-1])
        parts.append(z[..., first] * z[..., second])
    return xp.concatenate(parts, axis=-1)
