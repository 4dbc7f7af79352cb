"""The solutions of a batch of φ to a tolerance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..state.problem import inside
from ..support.status import Status
from .answer import Adaptive


@dataclass(frozen=True)
class AdaptiveMany(Sequence[Adaptive]):
    """`solutions(points)` are all their values, `solutions[k]` is one, `solutions.status` and
    `solutions.error_estimate` are those of each."""

    each: list[Adaptive]

    def __call__(self, points: Any) -> Any:
        """(batch, n); for several unknowns a dictionary of such arrays."""
        return self.d()(points)

    def d(self, *coordinates: str) -> Callable[[Any], Any]:
        """A derivative of u as a function of points."""
        problem = self.each[0].problem
        axes = tuple(problem.domain.axis(name) for name in coordinates)

        def at(points: Any) -> Any:
            coords = np.asarray(inside(problem, points))
            found = {u: jnp.asarray(x) for u, x in values_of(self.each, coords, axes).items()}
            return found if len(found) > 1 else next(iter(found.values()))

        return at

    def __len__(self) -> int:
        return len(self.each)

    def __getitem__(self, k: Any) -> Any:
        return AdaptiveMany(self.each[k]) if isinstance(k, slice) else self.each[k]

    @property
    def status(self) -> list[Status]:
        return [one.status for one in self.each]

    @property
    def error_estimate(self) -> np.ndarray:
        return np.array([one.error_estimate for one in self.each])


def values_of(
    solutions: Sequence[Adaptive], coords: np.ndarray, axes: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """The derivative along these axes of each unknown, (solutions, n): at once of those that marched
    together."""
    out = {u: np.empty((len(solutions), len(coords))) for u in solutions[0].problem.unknowns}
    groups: dict[int, list[int]] = {}
    for n, one in enumerate(solutions):
        groups.setdefault(id(one if one.march is None else one.march[0]), []).append(n)
    for numbers in groups.values():
        march = solutions[numbers[0]].march
        if march is None or len(numbers) < 2:
            found = solutions[numbers[0]].at(coords, axes)
            for u, x in found.items():
                out[u][numbers] = x
            continue
        places = np.array([one.march[1] for n in numbers if (one := solutions[n]).march is not None])
        for u, x in march[0].some(places).at(coords, axes).items():
            out[u][numbers] = x
    return out
