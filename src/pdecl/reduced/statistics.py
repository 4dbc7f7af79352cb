"""What is known of φ itself: how far one is from the training φ, and what answer to start from."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..family.distance import MahalanobisDistance, learned_distance

_COMPONENTS = 64
_LEADING = 20  # leading components


class PhiStatistics(eqx.Module):
    """A distance from the training φ, and a warm start for the answer's coefficients.

    1 is the distance of the farthest of the φ that were held out. The warm start interpolates the
    training answers: with z the leading principal components of φ over the roots of their deviations, it
    is linear in z plus a sum of distances |z − z_i| from the training φ.
    """

    metric: MahalanobisDistance
    centres: Float[Array, "S z"] | None = None
    warm_start: Float[Array, "features r"] | None = None

    def distance(self, phi: Any) -> Float[Array, ""]:
        """The distance of one φ."""
        return self.metric(flat(phi))

    def start(self, phi: Any, size: int) -> Float[Array, " r"]:
        """Coefficients to start from; zeros without a warm start."""
        if self.warm_start is None:
            return jnp.zeros(size, self.metric.mean.dtype)
        return _features(self.centres, _position(self, flat(phi))) @ self.warm_start


def phi_statistics(
    phis: Any, kept: np.ndarray, held_out: np.ndarray, answers: Float[np.ndarray, "S r"] | None
) -> PhiStatistics:
    """Learned from the φ that are kept, scaled by those held out; a warm start from their answers."""
    seen = np.concatenate([np.reshape(x, (len(x), -1)) for x in jax.tree.leaves(phis)], axis=1)
    metric = learned_distance(seen[kept], seen[held_out], _COMPONENTS)
    made = PhiStatistics(jax.tree.map(jnp.asarray, metric))
    if answers is None:
        return made
    at = np.asarray(jax.vmap(lambda x: _position(made, x))(jnp.asarray(seen[kept])))
    return replace(made, centres=jnp.asarray(at), warm_start=jnp.asarray(_interpolation(at, answers)))


def _interpolation(
    at: Float[np.ndarray, "S z"], answers: Float[np.ndarray, "S r"]
) -> Float[np.ndarray, "features r"]:
    """Coefficients of the features with which the warm start is the answer at each training φ."""
    features = np.asarray(jax.vmap(lambda z: _features(jnp.asarray(at), z))(jnp.asarray(at)))
    count, linear = len(at), features[:, len(at) :]
    # The coefficients of the distances are orthogonal to all that is linear: the spline of least energy.
    system = np.block([[features], [linear.T, np.zeros((linear.shape[1],) * 2)]])
    system[range(count), range(count)] += 1e-9 * np.abs(features[:, :count]).max()
    right = np.concatenate([answers, np.zeros((linear.shape[1], answers.shape[1]))])
    return np.linalg.lstsq(system, right, rcond=1e-12)[0]


def flat(phi: Any) -> Float[Array, " D"]:
    """All numbers of one φ."""
    leaves = [jnp.ravel(jnp.asarray(leaf, float)) for leaf in jax.tree.leaves(phi)]
    return jnp.concatenate(leaves) if leaves else jnp.zeros(1)


def _position(s: PhiStatistics, x: Float[Array, " D"]) -> Float[Array, " z"]:
    """Where a φ is among others, in coordinates whose small ones count for more than their size."""
    return (s.metric.components(x) / jnp.sqrt(s.metric.deviations))[:_LEADING]


def _features(centres: Float[Array, "S z"] | None, z: Float[Array, " z"]) -> Float[Array, " features"]:
    assert centres is not None
    squares = jnp.sum((z - centres) ** 2, axis=1)
    return jnp.concatenate([-jnp.sqrt(jnp.maximum(squares, 0.0)), jnp.ones(1), z])
