"""Corners of a box at which two faces give an unknown different values: u jumps there."""

from itertools import combinations

import numpy as np

from .answer import Adaptive
from .reading import Reading
from .rows import Equations

_ALONG = (0.25, 0.5, 0.75)  # of the edge where two faces meet


def disagreement(solution: Adaptive, equations: Equations) -> str:
    """A sentence on the corner where values on faces differ most, if they differ by more than the
    tolerance times the size of u; else nothing."""
    reading = equations.reading
    problem, faces = reading.problem, _faces(reading)
    pairs = [(a, b) for a, b in combinations(faces, 2) if a[1] == b[1] and a[2] != b[2]]
    if not pairs:
        return ""
    coords = np.concatenate([_edge(reading, a[2:], b[2:]) for a, b in pairs])
    given = {i: _given(equations, i, coords).reshape(len(pairs), -1) for i in {f[0] for f in faces}}
    values = np.stack([[given[a[0]][k], given[b[0]][k]] for k, (a, b) in enumerate(pairs)])
    gaps = np.nan_to_num(np.abs(values[:, 0] - values[:, 1]))
    k, at = np.unravel_index(np.argmax(gaps), gaps.shape)
    (i, u, *first), (j, _, *second) = pairs[k]
    size = np.nanmax(np.abs(solution.at(equations.programs.inner, ())[u]))
    if not gaps[k, at] > solution.tolerance * size:
        return ""
    name, bounds = problem.domain.names, problem.domain.bounds
    place = " and ".join(f"{name[axis]} = {bounds[axis][side]:g}" for axis, side in (first, second))
    (one, other), names = values[k, :, at] + 0.0, problem.names()
    both = f"both of {names[i]!r}" if i == j else f"of {names[i]!r} and {names[j]!r}"
    return (
        f"Conditions disagree where {place} meet: {u} is {one:.3g} and {other:.3g} there, {both}. "
        f"{u} jumps in that corner, and is least accurate beside it."
    )


def _faces(reading: Reading) -> list[tuple[int, str, int, int]]:
    """Conditions on faces of a box that give the value of one unknown: their number, the unknown, and
    the axis and side of each face."""
    found = []
    for i in reading.owned if reading.shape is None else ():
        entries, on = reading.entries[i], reading.problem.conditions[i].on
        if len(entries) == 1 and entries[0].axes == () and not entries[0].place and reading.rows[i] == 1:
            found += [(i, entries[0].unknown, axis, side) for axis, side in on.sides]
    return found


def _edge(reading: Reading, *faces: tuple[int, int]) -> np.ndarray:
    low, high = np.asarray(reading.problem.domain.bounds).T
    coords = low + np.asarray(_ALONG)[:, None] * (high - low)
    for axis, side in faces:
        coords[:, axis] = (low, high)[side][axis]
    return coords


def _given(equations: Equations, i: int, coords: np.ndarray) -> np.ndarray:
    """The value that makes a condition hold, as far as it is affine."""
    like = equations.programs.fresh[equations.reading.problem.places[i]]
    data = {name: np.resize(x, (len(coords), *np.shape(x)[1:])) for name, x in like["data"].items()}
    where = {"coords": coords, "partners": {}, "data": data}
    values, slopes = equations.rows(i, where, np.zeros((len(coords), 1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = -values[:, 0] / slopes[:, 0, 0]
    return np.where(np.isfinite(found), found, np.nan)
