"""The values at the start of the marched coordinate, which conditions on its lower face give."""

from typing import Any

import numpy as np

from .effort import Stop
from .grid import Grid
from .rows import Equations
from .slab import Start

_STEPS = 8  # of Newton's method; one is exact for affine conditions


class Starter:
    """`starter(space)`: for each unknown the coefficients of its value and of its derivatives by the
    marched coordinate below the highest, by interpolation at the space's samples."""

    def __init__(self, equations: Equations):
        self._equations, reading = equations, equations.reading
        assert reading.marched is not None
        self._axis = reading.marched
        self.slots = [(u, a) for u in reading.problem.unknowns for a in range(reading.march_order[u])]

    def __call__(self, space: Grid) -> Start:
        out: Start = {}
        for u in space.unknowns:
            values = self.values(space.samples(u), space.axes)
            out[u] = [
                space.interpolate(u, values[:, j]) for j, (v, _) in enumerate(self.slots) if v == u
            ]
        return out

    def values(self, points: np.ndarray, axes: list[int]) -> np.ndarray:
        """(points, slots), by Newton's method at each point."""
        v = np.zeros((len(points), len(self.slots)))
        where = self.where(points, axes)
        for _ in range(_STEPS):
            rows, slopes = self.rows(where, v)
            try:
                change = np.linalg.solve(slopes, -rows[..., None])[..., 0]
            except np.linalg.LinAlgError as error:
                raise Stop("the conditions at the start do not determine it.") from error
            v = v + change
            if not np.abs(change).max(initial=0.0) > 1e-14 * np.abs(v).max(initial=0.0):
                break
        return v

    def where(self, points: np.ndarray, axes: list[int]) -> dict[str, Any]:
        """The places of these points on the lower face of the marched coordinate."""
        box = self._equations.reading.problem.domain
        coords, normal = np.zeros((2, len(points), len(box.names)))
        coords[:, self._axis], normal[:, self._axis] = box.bounds[self._axis][0], -1.0
        coords[:, axes] = points
        data = {"normal": normal, "index": np.arange(len(points))}
        return {"coords": coords, "partners": {}, "data": data}

    def rows(self, where: dict[str, Any], v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of all start conditions, and their slopes with respect to the slots."""
        reading, values, slopes = self._equations.reading, [], []
        for i in reading.start:
            read = [self.slots.index((e.unknown, len(e.axes))) for e in reading.entries[i]]
            rows, g = self._equations.rows(i, where, v[:, read])
            full = np.zeros((*rows.shape, len(self.slots)))
            full[:, :, read] = g
            values.append(rows)
            slopes.append(full)
        return np.concatenate(values, axis=1), np.concatenate(slopes, axis=1)
