"""What is known of φ itself: how far one is from the training φ, and what answer to start from."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

FAR = 1.5  # a distance worth a warning, where 1 is that of the farthest held-out training φ
_COMPONENTS = 64
_FLOOR = 1e-3
_GUESSED_FROM = 20  # leading components


class PhiStatistics(eqx.Module):
    """A distance from the training φ, and a warm start for the answer's coefficients.

    With c_k the principal components of φ over the training φ, λ_k their variances and p the part of φ
    outside of them, the distance is

        sqrt( Σ c_k² / max(λ_k, λ_1/1000) + |p|² / (λ_1/1000) ),

    divided by its largest value over held-out φ. It says how unusual φ is, not how wrong the answer
    is. The warm start interpolates the training answers: with z the leading c_k over the roots of their
    deviations, it is linear in z plus a sum of distances |z − z_i| from the training φ.
    """

    mean: Float[Array, " D"]
    directions: Float[Array, "D k"]
    deviations: Float[Array, " k"]
    scale: Float[Array, ""]
    centres: Float[Array, "S z"] | None = None
    warm_start: Float[Array, "features r"] | None = None

    def distance(self, phi: Any) -> Float[Array, ""]:
        """The distance of one φ."""
        return _distance(self, flat(phi)) / self.scale

    def start(self, phi: Any, size: int) -> Float[Array, " r"]:
        """Coefficients to start from; zeros without a warm start."""
        if self.warm_start is None:
            return jnp.zeros(size, self.mean.dtype)
        return _features(self.centres, _position(self, flat(phi))) @ self.warm_start


def phi_statistics(
    phis: Any, kept: np.ndarray, held_out: np.ndarray, answers: Float[np.ndarray, "S r"] | None
) -> PhiStatistics:
    """Learned from the φ that are kept, scaled by those held out; a warm start from their answers."""
    seen = np.concatenate([np.reshape(x, (len(x), -1)) for x in jax.tree.leaves(phis)], axis=1)
    mean = seen[kept].mean(axis=0)
    _, spread, directions = np.linalg.svd(seen[kept] - mean, full_matrices=False)
    number = max(1, min(_COMPONENTS, int(np.sum(spread > 1e-10 * max(spread[0], 1e-300)))))
    deviations = spread[:number] / np.sqrt(len(kept))
    floor = np.sqrt(_FLOOR) * deviations[0]
    made = PhiStatistics(
        jnp.asarray(mean),
        jnp.asarray(directions[:number].T),
        jnp.asarray(np.maximum(deviations, floor if floor > 0 else 1.0)),
        jnp.ones(()),
    )
    largest = jnp.max(jax.vmap(lambda x: _distance(made, x))(jnp.asarray(seen[held_out])))
    made = eqx.tree_at(lambda s: s.scale, made, jnp.where(largest > 0, largest, 1.0))
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


def _components(s: PhiStatistics, x: Float[Array, " D"]) -> Float[Array, " k"]:
    return (x - s.mean) @ s.directions


def _distance(s: PhiStatistics, x: Float[Array, " D"]) -> Float[Array, ""]:
    components = _components(s, x)
    outside = jnp.maximum(jnp.sum((x - s.mean) ** 2) - jnp.sum(components**2), 0.0)
    inside = jnp.sum((components / s.deviations) ** 2)
    return jnp.sqrt(inside + outside / (_FLOOR * s.deviations[0] ** 2))


def _position(s: PhiStatistics, x: Float[Array, " D"]) -> Float[Array, " z"]:
    """Where a φ is among others, in coordinates whose small ones count for more than their size."""
    return (_components(s, x) / jnp.sqrt(s.deviations))[:_GUESSED_FROM]


def _features(centres: Float[Array, "S z"] | None, z: Float[Array, " z"]) -> Float[Array, " features"]:
    assert centres is not None
    squares = jnp.sum((z - centres) ** 2, axis=1)
    return jnp.concatenate([-jnp.sqrt(jnp.maximum(squares, 0.0)), jnp.ones(1), z])
