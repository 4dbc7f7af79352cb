"""The values at the start of the marched coordinate, which conditions on its lower face give."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..condition import local
from .grid import Grid
from .reading import Reading
from .rows import padded
from .slab import Start

_STEPS = 8  # of Newton's method; one is exact for affine conditions


class Starter:
    """`starter(space)`: for each unknown the coefficients of its value and of its derivatives by the
    marched coordinate below the highest, by interpolation at the space's samples."""

    def __init__(self, reading: Reading):
        self._reading = reading
        problem, axis = reading.problem, reading.marched
        assert axis is not None
        self._axis = axis
        self._slots = [(u, a) for u in problem.unknowns for a in range(reading.march_order[u])]
        names = problem.domain.names
        equations = [
            (local(problem.conditions[i], problem.unknowns, names), reading.entries[i])
            for i in reading.start
        ]

        def rows(v: Any, coords: Any) -> Any:
            normal = jnp.zeros(len(names)).at[axis].set(-1.0)
            data = {"normal": normal, "index": jnp.asarray(0)}
            where = {"coords": coords, "partners": {}, "data": data}
            known = dict(zip(self._slots, v, strict=True))
            read = lambda entries: {e: known[e.unknown, len(e.axes)] for e in entries}
            return jnp.concatenate([f(read(entries), where, reading.phi) for f, entries in equations])

        def at(coords: Any) -> Any:
            v = jnp.zeros(len(self._slots))
            for _ in range(_STEPS):
                v = v - jnp.linalg.solve(jax.jacfwd(rows)(v, coords), rows(v, coords))
            return v

        # Point by point: batched calls of LAPACK can stand still on a CPU.
        self._at = jax.jit(lambda coords: jax.lax.map(at, coords))

    def __call__(self, space: Grid) -> Start:
        out: Start = {}
        axis, box = self._axis, self._reading.problem.domain
        for u in space.unknowns:
            points = space.samples(u)
            coords = np.full((len(points), len(box.names)), box.bounds[axis][0])
            coords[:, space.axes] = points
            values = np.asarray(self._at(padded(coords)))[: len(coords)]
            out[u] = [
                space.interpolate(u, values[:, j]) for j, (v, _) in enumerate(self._slots) if v == u
            ]
        return out
