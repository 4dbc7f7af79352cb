"""Choosing the few points whose rows stand for all of them."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import scipy
from jaxtyping import Array, Float, Int

from ..family.arrays import AnyArray
from ..layer.residual import sizes_of_terms
from ..layer.system import linearise
from ..state.points import Points
from .forms import Form, Rows
from .snapshots import Snapshots

_PHIS = 12  # training φ whose rows are looked at
_DEPENDENT = 1e-10  # beside the largest eigenvalue of the rows' Gram matrix
_SHARE = 1e-6  # of the size of an equation's terms is the least that it is taken to be uncertain by


def select_points(
    snapshots: Snapshots,
    count: int,
    modes: Float[np.ndarray, "N r"] | None,
    form: Form,
    unit: Float[np.ndarray, " n"] | None = None,
) -> tuple[Int[np.ndarray, " _n"], ...]:
    """For each set the numbers of its points that are kept, about `count` rows in all.

    `unit`: what each row at the candidates is divided by first.

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
    rows = rows if unit is None else rows / unit[:, None]
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


def units(rows: Rows, phis: Any, answers: Float[np.ndarray, "S N"]) -> Float[np.ndarray, " n"]:
    """What rows are divided by, so that no equation counts for more than another because of how it is
    written: for each equation of each condition the root mean square of what is left in its rows by
    answers that some functions are left out of. Where that is next to nothing, a small share of the
    size of its terms. The conditions' weights are left to count."""
    left, terms = (np.asarray(x) for x in _left_and_terms(rows, phis, answers))
    found, start = np.ones(left.shape[1]), 0
    for condition, place, count in zip(
        rows.problem.conditions, rows.problem.places, rows.plan.rows, strict=True
    ):
        if condition.kind != "Fit":
            continue
        end = start + count * len(rows.sets[place])
        for equation in range(start, start + count):  # a condition that returns a tuple has several
            own = slice(equation, end, count)
            size = max(_rms(left[:, own]), _SHARE * _rms(terms[:, own]))
            found[own] = size / np.sqrt(condition.weight) if size > 0 else 1.0
        start = end
    return found


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x**2)))


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


@eqx.filter_jit
def _left_and_terms(
    rows: Rows, phis: Any, answers: Float[AnyArray, "S N"]
) -> tuple[Float[Array, "S n"], Float[Array, "S n"]]:
    def one(case: tuple[Any, Float[Array, " N"]]) -> tuple[Array, Array]:
        system = rows.system(case[0])
        return system.rows(case[1], "Fit"), sizes_of_terms(system, case[1])

    return jax.lax.map(one, (phis, answers))
