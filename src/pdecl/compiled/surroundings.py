"""What is known of φ itself: how far one is from the training φ, and what answer to start from."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

FAR = 1.5  # a distance worth a warning, where 1 is that of the farthest held-out training φ
_COMPONENTS = 64
_FLOOR = 1e-3
_PRODUCTS = 6  # leading components whose products help to guess an answer


class Surroundings(eqx.Module):
    """A distance from the training φ, and a guess of the answer's coefficients.

    With c_k the principal components of φ over the training φ, λ_k their variances and p the part of φ
    outside of them, the distance is

        sqrt( Σ c_k² / max(λ_k, λ_1/1000) + |p|² / (λ_1/1000) ),

    divided by its largest value over held-out φ. It says how unusual φ is, not how wrong the answer
    is. The guess is a ridge regression of the answers on the c_k and on products of the first of them.
    """

    mean: Float[Array, " D"]
    directions: Float[Array, "D k"]
    deviations: Float[Array, " k"]
    scale: Float[Array, ""]
    guess: Float[Array, "features r"] | None

    def distance(self, phi: Any) -> Float[Array, ""]:
        """The distance of one φ."""
        return _distance(self, flat(phi)) / self.scale

    def start(self, phi: Any, size: int) -> Float[Array, " r"]:
        """Coefficients to start from; zeros without a guess."""
        if self.guess is None:
            return jnp.zeros(size, self.mean.dtype)
        return _features(self, flat(phi)) @ self.guess


def survey(
    phis: Any, kept: np.ndarray, held_out: np.ndarray, answers: Float[np.ndarray, "S r"] | None
) -> Surroundings:
    """Learned from the φ that are kept; scaled by those held out; a guess where there are answers."""
    seen = np.concatenate([np.reshape(x, (len(x), -1)) for x in jax.tree.leaves(phis)], axis=1)
    mean = seen[kept].mean(axis=0)
    _, spread, directions = np.linalg.svd(seen[kept] - mean, full_matrices=False)
    number = max(1, min(_COMPONENTS, int(np.sum(spread > 1e-10 * max(spread[0], 1e-300)))))
    deviations = spread[:number] / np.sqrt(len(kept))
    floor = np.sqrt(_FLOOR) * deviations[0]
    made = Surroundings(
        jnp.asarray(mean),
        jnp.asarray(directions[:number].T),
        jnp.asarray(np.maximum(deviations, floor if floor > 0 else 1.0)),
        jnp.ones(()),
        None,
    )
    largest = jnp.max(jax.vmap(lambda x: _distance(made, x))(jnp.asarray(seen[held_out])))
    made = eqx.tree_at(lambda s: s.scale, made, jnp.where(largest > 0, largest, 1.0))
    if answers is None:
        return made
    features = np.asarray(jax.vmap(lambda x: _features(made, x))(jnp.asarray(seen[kept])))
    gram = features.T @ features + np.eye(features.shape[1])
    guess = np.linalg.solve(gram, features.T @ np.asarray(answers))
    return eqx.tree_at(lambda s: s.guess, made, jnp.asarray(guess), is_leaf=lambda x: x is None)


def flat(phi: Any) -> Float[Array, " D"]:
    """All numbers of one φ."""
    leaves = [jnp.ravel(jnp.asarray(leaf, float)) for leaf in jax.tree.leaves(phi)]
    return jnp.concatenate(leaves) if leaves else jnp.zeros(1)


def _components(s: Surroundings, x: Float[Array, " D"]) -> Float[Array, " k"]:
    return (x - s.mean) @ s.directions


def _distance(s: Surroundings, x: Float[Array, " D"]) -> Float[Array, ""]:
    components = _components(s, x)
    outside = jnp.maximum(jnp.sum((x - s.mean) ** 2) - jnp.sum(components**2), 0.0)
    inside = jnp.sum((components / s.deviations) ** 2)
    return jnp.sqrt(inside + outside / (_FLOOR * s.deviations[0] ** 2))


def _features(s: Surroundings, x: Float[Array, " D"]) -> Float[Array, " features"]:
    components = _components(s, x) / s.deviations
    first = components[:_PRODUCTS]
    i, j = np.triu_indices(first.size)
    return jnp.concatenate([jnp.ones(1), components, first[i] * first[j]])
