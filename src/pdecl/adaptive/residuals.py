"""How well conditions hold between the points of their rows, as `residual.py` defines it."""

from typing import Any

import numpy as np

from ..state.jet import Entry
from .answer import Adaptive


def relative_residuals(solution: Adaptive, equations: Any) -> dict[str, Any]:
    """The root mean square of each condition over that of the size of its terms, the largest of its
    rows: Σ_k |J_k| max(|v_k|, V_k) + |r − J v|, V_k the root mean square of an entry over the domain,
    also of one that only a face reads. Of a derivative that vanishes V_k is what the tolerance cannot
    see: that much of u over the lengths. Of φ that have marched together one number for each."""
    reading, sets = equations.reading, equations.programs.fresh
    problem, inner = reading.problem, equations.programs.inner
    entries = {(e.unknown, e.axes) for entries in reading.entries for e in entries}
    typical = {(u, axes): _typical(solution, inner, u, axes) for u, axes in entries}
    read: list[np.ndarray] = []
    for i, place in enumerate(problem.places):
        read.append(np.stack([_entry(solution, sets[place], e) for e in reading.entries[i]], axis=-1))
    out = {}
    for i, name in enumerate(problem.names()):
        if i in reading.energies:  # it is minimised: nothing should be zero
            continue
        values, slopes = equations.rows(i, sets[problem.places[i]], read[i])
        v, V = read[i], np.stack([typical[e.unknown, e.axes] for e in reading.entries[i]], axis=-1)
        data = values - np.einsum("...nrk,...nk->...nr", slopes, v)
        sizes = np.maximum(np.abs(v), V[..., None, :])
        sizes = np.einsum("...nrk,...nk->...nr", np.abs(slopes), sizes) + np.abs(data)
        left, whole = (values**2).sum(axis=-2), (sizes**2).sum(axis=-2)
        out[name] = np.sqrt(np.max(left / np.where(whole > 0, whole, 1.0), axis=-1))
    return out


def _typical(solution: Adaptive, coords: np.ndarray, u: str, axes: tuple[int, ...]) -> np.ndarray:
    rms = lambda axes: np.sqrt(np.mean(solution.at(coords, axes)[u] ** 2, axis=-1))
    low, high = np.asarray(solution.problem.domain.bounds).T
    least = solution.tolerance * rms(()) / float(np.prod((high - low)[list(axes)]))
    return np.asarray(np.maximum(rms(axes), least))


def _entry(solution: Adaptive, where: dict[str, Any], entry: Entry) -> np.ndarray:
    coords = where["partners"][entry.place] if entry.place else where["coords"]
    return solution.at(coords, entry.axes)[entry.unknown]
