"""How far a φ is from those the model was trained on."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..problems import SPLITS, Darcy, Law

# A φ farther than this, where 1 is the farthest of the training φ, is worth a warning.
FAR = 1.5
_FLOOR = 1e-3
_CELLS = 8
_NODES = 65


class Novelty:
    """A distance of φ from the training law: 1 is that of the farthest of 1000 training φ.

    With c_k the principal components of φ's features and λ_k their variances over the training φ, it is

        sqrt( Σ c_k² / max(λ_k, λ_1/1000) ),    divided by its largest value over the training φ.

    Features are the values of φ at its sensors; for Darcy the means of w and of w² over 8 × 8 cells,
    w = log ν less its middle in the law, so that both where the materials lie and which they are count.
    It says how unusual φ is, not how wrong the answer is.
    """

    def __init__(self, law: Law, shape: tuple[int, ...]):
        split = SPLITS["train"]
        self.middle = 0.0
        if isinstance(law, Darcy):  # means over cells hardly depend on how fine ν is
            law = replace(law, grid=min(shape[0], _NODES))
            self.middle = np.log(law.low * law.high) / 2
        starts = range(0, split.count, 50)
        seen = np.concatenate([self._features(law.sample(split.seed, 50, start)) for start in starts])
        self.mean = seen.mean(axis=0)
        variances, directions = np.linalg.eigh(np.cov(seen, rowvar=False))
        self.scaled = directions / np.sqrt(np.maximum(variances, _FLOOR * variances[-1]))
        self.scale = 1.0
        self.scale = float(self._raw(seen).max())

    def __call__(self, phi: Any) -> np.ndarray:
        """The distance of each φ of a batch."""
        return self._raw(self._features(np.asarray(phi)))

    def _raw(self, features: np.ndarray) -> np.ndarray:
        return np.linalg.norm((features - self.mean) @ self.scaled, axis=1) / self.scale

    def _features(self, phi: np.ndarray) -> np.ndarray:
        if phi.ndim == 2:
            return phi
        w = np.log(phi) - self.middle
        return np.concatenate([_cell_means(w), _cell_means(w**2)], axis=1)


@lru_cache(maxsize=8)
def novelty_of(law: Law, shape: tuple[int, ...]) -> Novelty:
    """The distance from a law for φ of a shape, made once."""
    return Novelty(law, shape)


def _cell_means(values: np.ndarray) -> np.ndarray:
    """Means over cells × cells blocks of nodes, for each member of the batch."""
    nodes = values.shape[-1]
    cells = min(_CELLS, nodes)
    starts = np.arange(cells) * nodes // cells
    sizes = np.diff([*starts, nodes])
    sums = np.add.reduceat(np.add.reduceat(values, starts, axis=1), starts, axis=2)
    return (sums / np.outer(sizes, sizes)).reshape(len(values), -1)
