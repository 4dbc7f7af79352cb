"""Points for the conditions of a problem on a shape, cell by cell."""

import jax
import numpy as np

from ...state.condition import located
from ...state.points import Points
from ..reading import Reading
from .edges import edges
from .places import Places, sorted_by
from .space import Set


def sets_of(reading: Reading, places: Places, p: int) -> list[Set]:
    """A `Set` for each condition of `reading.rest`; polynomials' boxes grow to hold boundary points."""
    within = getattr(reading.problem.domain, "within", {})
    shape, mesh, d = places.shape, places.mesh, places.d
    volume, top = np.prod(mesh.sides[places.homes], axis=1), places.weight(places.size)
    inner = places.interior(p)
    ring = edges(shape, mesh, p + 3)
    beside = places.at_boundary(ring.coords, ring.normals)
    places.widened(ring.coords, beside)
    sets = []
    for i in reading.rest:
        on = reading.problem.conditions[i].on
        if isinstance(on, Points):
            where = jax.tree.map(np.asarray, located(on))
            own = places.locate(where["coords"][:, :d])
            order = np.argsort(own, kind="stable")
            sets.append(Set(jax.tree.map(lambda x, o=order: x[o], where), own[order], np.ones(len(own))))
            continue
        if on.sides == ((),):
            own, x, weights = inner
            share, data = weights / volume[own], {}
        else:
            wanted = np.array(
                [bool({n for (n,) in on.sides} & set(names)) for names in shape.traced.names]
            )
            keep = wanted[ring.piece]
            own, x, normals, weights = sorted_by(
                beside[keep], ring.coords[keep], ring.normals[keep], ring.weights[keep]
            )
            share, data = weights / places.size[own] ** (d - 1), {"normal": _full(reading, normals)}
        for name, other in within.items():
            data[name] = (np.asarray(other.distance(x)) < 0).astype(float)
        data["index"] = np.arange(len(x))
        where = {"coords": _full(reading, x), "partners": {}, "data": data}
        sets.append(Set(where, own, share * top[own]))
    return sets


def _full(reading: Reading, x: np.ndarray) -> np.ndarray:
    """With columns for the coordinates that are not the shape's."""
    more = len(reading.problem.domain.names) - x.shape[1]
    return np.concatenate([x, np.zeros((len(x), more))], axis=1)
