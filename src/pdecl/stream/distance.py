"""How far a φ is from those the model was trained on."""

from functools import lru_cache
from typing import Any

import numpy as np

from ..family import SPLITS, Family

# A φ farther than this, where 1 is the farthest of the training φ, is worth a warning.
FAR = 1.5
_FLOOR = 1e-3


class MahalanobisDistance:
    """A distance of φ from the training distribution: 1 is that of the farthest of 1000 training φ.

    With c_k the principal components of φ's features and λ_k their variances over the training φ, it is

        sqrt( Σ c_k² / max(λ_k, λ_1/1000) ),    divided by its largest value over the training φ.

    Features (`Family.features`) are the numbers that φ is made of, each over its deviation where they
    are of several kinds, or for fields on a grid what a family says. It says how unusual φ is, not how
    wrong the answer is.
    """

    def __init__(self, family: Family):
        split, cheaper = SPLITS["train"], family.cheaper()
        self.family, starts = family, range(0, split.count, 50)
        seen = np.concatenate(
            [family.features(cheaper.sample(split.seed, 50, start)) for start in starts]
        )
        self.mean = seen.mean(axis=0)
        self.units = np.ones(seen.shape[1])
        if len(family.phi_axes) > 1:
            deviations = seen.std(axis=0)
            self.units = np.where(deviations > 0, deviations, 1.0)
        covariance = np.atleast_2d(np.cov((seen - self.mean) / self.units, rowvar=False))
        variances, directions = np.linalg.eigh(covariance)
        self.scaled = directions / np.sqrt(np.maximum(variances, _FLOOR * variances[-1]))
        self.scale = 1.0
        self.scale = float(self._raw(seen).max())

    def __call__(self, phi: Any) -> np.ndarray:
        """The distance of each φ of a batch."""
        return self._raw(self.family.features(phi))

    def _raw(self, features: np.ndarray) -> np.ndarray:
        moved = (features - self.mean) / self.units
        return np.linalg.norm(moved @ self.scaled, axis=1) / self.scale


@lru_cache(maxsize=8)
def distance_of(family: Family) -> MahalanobisDistance:
    """The distance from a family's training φ, made once."""
    return MahalanobisDistance(family)
