"""How far a φ is from those that a model was trained on."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import equinox as eqx
import numpy as np
from jaxtyping import Float

from ..support.types import Phi
from .arrays import AnyArray, namespace
from .family import SPLITS, Family

# A φ farther than this, where 1 is the farthest that the distance was learned with, is worth a warning.
FAR = 1.5
_FLOOR = 1e-3


class MahalanobisDistance(eqx.Module):
    """A distance of rows of numbers, which say what φ is, from those of training φ.

    With c_k a row's principal components over the training φ, λ_k their variances and p the part of the
    row outside of them, the distance is

        sqrt( Σ c_k² / max(λ_k, λ_1/1000) + |p|² / (λ_1/1000) ),

    divided by its largest value over some φ. It says how unusual φ is, not how wrong an answer is.
    """

    mean: Float[AnyArray, " D"]
    directions: Float[AnyArray, "D k"]
    deviations: Float[AnyArray, " k"]
    scale: Float[AnyArray, ""]

    def __call__(self, rows: Float[AnyArray, "*batch D"]) -> Float[AnyArray, "*batch"]:
        xp, components = namespace(rows), self.components(rows)
        total = lambda part: xp.sum(part**2, axis=-1)
        outside = xp.maximum(total(rows - self.mean) - total(components), 0.0)
        inside = total(components / self.deviations)
        return xp.sqrt(inside + outside / (_FLOOR * self.deviations[0] ** 2)) / self.scale

    def components(self, rows: Float[AnyArray, "*batch D"]) -> Float[AnyArray, "*batch k"]:
        return (rows - self.mean) @ self.directions


def learned_distance(
    seen: Float[np.ndarray, "S D"], beside: Float[np.ndarray, "H D"], most: int | None = None
) -> MahalanobisDistance:
    """From the rows that are `seen`, in at most that many principal components, in NumPy's arrays; the
    largest distance of those `beside` is 1."""
    mean = seen.mean(axis=0)
    _, spread, directions = np.linalg.svd(seen - mean, full_matrices=False)
    number = max(1, int(np.sum(spread > 1e-10 * max(spread[0], 1e-300))))
    number = number if most is None else min(most, number)
    deviations = spread[:number] / np.sqrt(len(seen))
    floor = np.sqrt(_FLOOR) * deviations[0]
    floored = np.maximum(deviations, floor if floor > 0 else 1.0)
    distance = MahalanobisDistance(mean, directions[:number].T, floored, np.ones(()))
    largest = np.max(distance(beside))
    return replace(distance, scale=np.where(largest > 0, largest, 1.0))


@lru_cache(maxsize=8)
def distance_from(family: Family) -> Callable[[Phi], np.ndarray]:
    """The distance of each φ of a batch from a family's distribution: 1 is that of the farthest of its
    1000 training φ.

    Rows are `Family.features`: the numbers that φ is made of, each over its deviation where they are of
    several kinds, or for fields on a grid what a family says.
    """
    split, cheaper = SPLITS["train"], family.cheaper()
    starts = range(0, split.count, 50)
    seen = np.concatenate([family.features(cheaper.sample(split.seed, 50, start)) for start in starts])
    units = np.ones(seen.shape[1])
    if len(family.phi_axes) > 1:
        deviations = seen.std(axis=0)
        units = np.where(deviations > 0, deviations, 1.0)
    learned = learned_distance(seen / units, seen / units)
    return lambda phi: np.asarray(learned(family.features(phi) / units))
