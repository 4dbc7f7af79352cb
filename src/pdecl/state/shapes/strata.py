"""Few points of many: groups of like mass that lie together, one point of each."""

from dataclasses import dataclass
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from .patches import space


@dataclass(frozen=True)
class Strata:
    """Groups of rows: `order[starts[g]:starts[g + 1]]` are those of group g; `middle` the one amidst."""

    order: np.ndarray
    starts: np.ndarray
    middle: np.ndarray
    masses: np.ndarray  # weight of each group

    def middles(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows that are always the same, and weights: a midpoint rule."""
        return self.middle, self.masses

    def means(self, coords: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The centre of mass of each group."""
        sums = np.add.reduceat((weights[:, None] * coords)[self.order], self.starts[:-1])
        return sums / self.masses[:, None]

    def picked(self, u: Any) -> tuple[Any, np.ndarray]:
        """A row of each group, by numbers in [0, 1)."""
        counts = np.diff(self.starts)
        xp = space(u)
        return xp.asarray(self.order)[self.starts[:-1] + xp.floor(u * counts).astype(int)], self.masses

    def drawn(self, key: PRNGKeyArray) -> tuple[Any, np.ndarray]:
        return self.picked(jr.uniform(key, (len(self.masses),), float))


def strata(
    coords: np.ndarray,
    weights: np.ndarray,
    density: np.ndarray,
    count: int,
    classes: np.ndarray | None = None,
) -> Strata:
    """About `count` groups of like mass, weights × density, made by halving along the longest side.

    No group has rows of two classes, and every class has a group.
    """
    mass = weights * density
    classes = np.zeros(len(mass), int) if classes is None else classes
    groups: list[np.ndarray] = []
    kinds = np.unique(classes)
    shares = np.asarray([mass[classes == kind].sum() for kind in kinds])
    for kind, number in zip(kinds, apportion(shares, count), strict=True):
        rows = np.flatnonzero(classes == kind)
        _halve(coords, mass, rows, min(number, len(rows)), groups)
    middle = np.asarray([_amidst(coords, rows, weights) for rows in groups])
    starts = np.cumsum([0, *map(len, groups)])
    order = np.concatenate(groups)
    return Strata(order, starts, middle, np.add.reduceat(weights[order], starts[:-1]))


def apportion(shares: np.ndarray, count: int) -> list[int]:
    """Whole numbers in proportion, at least one each, that sum to `count` where that is possible."""
    exact = shares / shares.sum() * count
    numbers = np.maximum(1, np.floor(exact)).astype(int)
    for _ in range(abs(count - numbers.sum())):
        short = numbers.sum() < count
        if not short and numbers.max() == 1:
            break
        gap = np.where(numbers > 1, exact - numbers, np.inf) if not short else exact - numbers
        numbers[np.argmax(gap) if short else np.argmin(gap)] += 1 if short else -1
    return numbers.tolist()


def _halve(coords: np.ndarray, mass: np.ndarray, rows: np.ndarray, count: int, groups: list) -> None:
    if count == 1:
        groups.append(rows)
        return
    here = coords[rows]
    order = rows[np.argsort(here[:, np.argmax(np.ptp(here, axis=0))], kind="stable")]
    sums, first = np.cumsum(mass[order]), count // 2
    cut = int(np.searchsorted(sums, sums[-1] * first / count - 1e-12 * sums[-1])) + 1
    cut = min(max(cut, first), len(order) - (count - first))
    _halve(coords, mass, order[:cut], first, groups)
    _halve(coords, mass, order[cut:], count - first, groups)


def _amidst(coords: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> int:
    here = coords[rows]
    centre = np.average(here, axis=0, weights=weights[rows])
    return int(rows[np.argmin(((here - centre) ** 2).sum(axis=1))])
