"""The values at the start of the marched coordinate, which conditions on its lower face give."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .effort import Stop
from .grid import Grid
from .rows import Equations, ManyEquations
from .slab import Start

_STEPS = 8  # of Newton's method; one is exact for affine conditions


class Starter:
    """`starter(space)`: for each unknown the coefficients of its value and of its derivatives by the
    marched coordinate below the highest, by interpolation at the space's samples."""

    def __init__(self, equations: Equations | ManyEquations):
        self._equations: Any = equations
        reading = equations.reading
        assert reading.marched is not None
        self._axis = reading.marched
        self.slots = [(u, a) for u in reading.problem.unknowns for a in range(reading.march_order[u])]

    def __call__(self, space: Grid) -> Start:
        out: Start = {}
        for u in space.unknowns:
            values = self.values(space.samples(u), space.axes)
            out[u] = [space.interpolate(u, values[..., j]) for j in self._slots_of(u)]
        return out

    def push(self, space: Grid, dphi: Any) -> Start:
        """The change of the start for a change of φ."""
        out: Start = {}
        for u in space.unknowns:
            asked, slopes = self._solved(space, u)
            changes = [self._equations.push(i, where, v, dphi) for i, where, v in asked]
            values = np.linalg.solve(slopes, -np.concatenate(changes, axis=1)[..., None])[..., 0]
            out[u] = [space.interpolate(u, values[:, j]) for j in self._slots_of(u)]
        return out

    def pull(self, space: Grid, weights: Start) -> Any:
        """The derivative with respect to φ of the sum of the start times weights."""
        total = jax.tree.map(jnp.zeros_like, self._equations.phi)
        for u in space.unknowns:
            asked, slopes = self._solved(space, u)
            w = np.zeros((len(slopes), len(self.slots)))
            for j, y in zip(self._slots_of(u), weights[u], strict=True):
                w[:, j] = space.interpolate_transposed(u, y)
            r, first = -np.linalg.solve(np.swapaxes(slopes, 1, 2), w[..., None])[..., 0], 0
            for i, where, v in asked:
                rows = self._equations.reading.rows[i]
                part = self._equations.pull(i, where, v, r[:, first : first + rows])
                total, first = jax.tree.map(jnp.add, total, part), first + rows
        return total

    def _slots_of(self, u: str) -> list[int]:
        return [j for j, (v, _) in enumerate(self.slots) if v == u]

    def _solved(
        self, space: Grid, u: str
    ) -> tuple[list[tuple[int, dict[str, Any], np.ndarray]], np.ndarray]:
        """For each condition its number, its points and what it reads there; and all slopes."""
        points = space.samples(u)
        v, where = self.values(points, space.axes), self.where(points, space.axes)
        reading = self._equations.reading
        asked = [(i, where, v[:, self._read(i)]) for i in reading.start]
        return asked, self.rows(where, v)[1]

    def _read(self, i: int) -> list[int]:
        entries = self._equations.reading.entries[i]
        return [self.slots.index((e.unknown, len(e.axes))) for e in entries]

    def values(self, points: np.ndarray, axes: list[int]) -> np.ndarray:
        """(points, slots), by Newton's method at each point; of a batch of φ (φ, points, slots)."""
        count = getattr(self._equations, "count", None)
        v = np.zeros((*(() if count is None else (count,)), len(points), len(self.slots)))
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
            read = self._read(i)
            rows, g = self._equations.rows(i, where, v[..., read])
            full = np.zeros((*rows.shape, len(self.slots)))
            full[..., read] = g
            values.append(rows)
            slopes.append(full)
        return np.concatenate(values, axis=-1), np.concatenate(slopes, axis=-2)
