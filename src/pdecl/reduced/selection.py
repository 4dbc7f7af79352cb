"""Choosing the few points whose rows stand for all of them."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import scipy
from jaxtyping import Array, Float, Int

from ..family.arrays import AnyArray
from ..layer.system import linearise
from ..state.points import Points
from .forms import Form, Rows
from .snapshots import Snapshots

_PHIS = 12  # training φ whose rows are looked at
_DEPENDENT = 1e-10  # beside the largest eigenvalue of the rows' Gram matrix


def select_points(
    snapshots: Snapshots,
    count: int,
    modes: Float[np.ndarray, "N r"] | None,
    form: Form,
) -> tuple[Int[np.ndarray, " _n"], ...]:
    """For each set the numbers of its points that are kept, about `count` rows in all.

    A row, as a vector of its coefficients for several training φ side by side, is wanted if it is far
    from the span of those chosen before: QR with column pivoting, on a random projection of these
    vectors. Rows that are a combination of chosen ones for every φ say nothing new. Coefficients are
    taken in coordinates in which all rows together are orthonormal in the mean over φ: there the
    length of a row says how much would be lost without it, whatever its units.
    """
    owners = _owners(snapshots)
    total = len(owners)
    if count < len(snapshots.candidates):
        raise ValueError(
            f"`points` must be at least {len(snapshots.candidates)}, one for each set; found {count}."
        )
    numbers = snapshots.kept[:_PHIS]
    width = min(count + 16, total, len(numbers) * _size(snapshots, modes))
    rows = np.asarray(
        _rows(snapshots.rows(form), snapshots.some(numbers), snapshots.weights[numbers], modes)
    )
    values, vectors = np.linalg.eigh(sum(A.T @ A for A in rows) / len(rows))
    turn = vectors / np.sqrt(np.maximum(values, _DEPENDENT * values[-1]))
    rng = np.random.default_rng(0)
    sketch = np.zeros((total, width))
    for A in rows:
        sketch += A @ (turn @ rng.standard_normal((A.shape[1], width)))
    fixed = np.asarray([not snapshots.open[place] for place, _ in owners])
    if fixed.any():
        span = np.linalg.qr(sketch[fixed].T)[0]
        sketch = sketch - (sketch @ span) @ span.T
        sketch[fixed] = 0.0
    order = scipy.linalg.qr(sketch.T, mode="r", pivoting=True)[1]
    return _take(
        snapshots, owners, [int(row) for row in order if not fixed[row]], count - int(fixed.sum())
    )


def subset(points: Points, numbers: Int[np.ndarray, " n"]) -> Points:
    """Some of the points, all counting alike."""
    part = lambda tree: jax.tree.map(lambda leaf: np.asarray(leaf)[numbers], tree)
    return Points(part(points.coords), partners=part(points.partners), **part(points.data))


def _take(
    snapshots: Snapshots, owners: list[tuple[int, int]], order: list[int], count: int
) -> tuple[np.ndarray, ...]:
    chosen: list[dict[int, None]] = [{} for _ in snapshots.candidates]
    for place in (place for place, free in enumerate(snapshots.open) if free):
        first = next(row for row in order if owners[row][0] == place)
        chosen[place][owners[first][1]] = None
    per_point = _rows_per_point(snapshots)
    used = sum(per_point[place] * len(points) for place, points in enumerate(chosen))
    for row in order:
        place, number = owners[row]
        if used >= count:
            break
        if number not in chosen[place]:
            chosen[place][number] = None
            used += per_point[place]
    return tuple(
        np.sort(np.asarray(list(taken), int)) if free else np.arange(len(points))
        for taken, free, points in zip(chosen, snapshots.open, snapshots.candidates, strict=True)
    )


def _owners(snapshots: Snapshots) -> list[tuple[int, int]]:
    """The set and the point of each `Fit` row, in the order in which a system stacks them."""
    found = []
    for condition, place, rows in zip(
        snapshots.problem.conditions, snapshots.problem.places, snapshots.plan.rows, strict=True
    ):
        if condition.kind == "Fit":
            found += [(place, n) for n in range(len(snapshots.candidates[place])) for _ in range(rows)]
    return found


def _rows_per_point(snapshots: Snapshots) -> list[int]:
    totals = [0] * len(snapshots.candidates)
    for place, rows in zip(snapshots.problem.places, snapshots.plan.rows, strict=True):
        totals[place] += rows
    return totals


def _size(snapshots: Snapshots, modes: Any) -> int:
    return snapshots.plan.size if modes is None else modes.shape[1]


@eqx.filter_jit
def _rows(
    rows: Rows, phis: Any, answers: Float[AnyArray, "S N"], modes: Float[AnyArray, "N r"] | None
) -> Float[Array, "S n r"]:
    """The rows' coefficients at the answers, for one φ after the other."""

    def one(case: tuple[Any, Float[Array, " N"]]) -> Float[Array, "n r"]:
        operator = linearise(rows.system(case[0]), case[1]).A
        assert operator is not None
        A = operator.as_matrix()
        return A if modes is None else A @ modes

    return jax.lax.map(one, (phis, answers))
