"""Fewer functions: the combinations that answers are made of, and how rows are then whitened."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..family.arrays import AnyArray
from ..layer.system import Plan, linearise
from ..state.jet import Entry
from .crease import CREASED, Crease
from .forms import Form, Rows
from .snapshots import Snapshots

_RANK = 1e-9  # functions that add less than this to the largest direction count as dependent
_SEEN = 32  # training φ whose rows set the coordinates
# How small the variance of a whitened row may count, beside the largest; 1 does not turn the rows.
FLOORS = (1.0, 1e-2, 1e-4, 1e-6)


class TooFewDirections(ValueError):
    """More functions are asked for than the `limit` of directions that the training answers span."""

    def __init__(self, limit: int, message: str):
        super().__init__(message)
        self.limit = limit


def leading_modes(
    rows: Float[np.ndarray, "S n"], products: Float[np.ndarray, "S S"], most: int | None = None
) -> Float[np.ndarray, "n r"]:
    """Combinations of snapshots, orthonormal, those first that the snapshots use most.

    With the inner products X Xᵀ = V S² Vᵀ of the snapshots, the rows, they are Xᵀ V S⁻¹ (the method of
    snapshots of Sirovich, 1987).
    """
    squares, vectors = np.linalg.eigh(products)
    kept = np.flatnonzero(squares > 1e-14 * squares[-1])[::-1][:most]
    return rows.T @ (vectors[:, kept] / np.sqrt(squares[kept]))


def reduced_basis(snapshots: Snapshots, functions: int | None) -> tuple[np.ndarray, np.ndarray]:
    """(N, r) combinations of the functions, orthonormal in L2 over the domain, and (r,) their sizes.

    With a number: for each unknown the leading directions of the training answers, each scaled to norm
    one, and the root mean square of their coefficients. Without: all directions of the functions
    themselves.

    For functions that crease, the number is that of both parts of u together. What is creased is
    measured as it enters u: with the root mean square of its factor.
    """
    assert snapshots.values is not None
    answers = snapshots.weights[snapshots.kept]
    parts, start = [], 0
    for unknown, size in snapshots.plan.sizes:
        values = measured_values(snapshots, unknown)
        _, lengths, directions = np.linalg.svd(values, full_matrices=False)
        rank = int(np.sum(lengths > _RANK * lengths[0]))
        back = directions[:rank].T / lengths[:rank]
        seen = answers[:, start : start + size] @ (directions[:rank].T * lengths[:rank])
        parts.append((back, seen))
        start += size
    if functions is None:
        return _block_diagonal([back for back, _ in parts]), np.ones(sum(b.shape[1] for b, _ in parts))
    norms = [np.linalg.norm(seen, axis=1, keepdims=True) for _, seen in parts]
    if snapshots.front is not None:
        norms = [np.linalg.norm(answers_on(snapshots, snapshots.kept), axis=1, keepdims=True)] * 2
        norms = [norm / np.sqrt(len(snapshots.quadrature)) for norm in norms]
    found = [
        np.linalg.svd(seen / np.where(norm > 0, norm, 1.0), full_matrices=False)[1:]
        for (_, seen), norm in zip(parts, norms, strict=True)
    ]
    counts = _counts(snapshots, functions, [spread for spread, _ in found])
    blocks = [
        back @ modes[:count].T for (back, _), (_, modes), count in zip(parts, found, counts, strict=True)
    ]
    sizes = [spread[:count] for (spread, _), count in zip(found, counts, strict=True)]
    return _block_diagonal(blocks), np.concatenate(sizes) / np.sqrt(len(answers))


def _counts(snapshots: Snapshots, functions: int, spreads: list[np.ndarray]) -> list[int]:
    """How many directions of each unknown are kept: of the two parts of u the largest of both."""
    most = [int(np.sum(spread > 1e-12 * spread[0])) for spread in spreads]
    limits = [sum(most)] if snapshots.front is not None else most
    own = (
        [snapshots.plan.size]
        if snapshots.front is not None
        else [size for _, size in snapshots.plan.sizes]
    )
    for limit, size in zip(limits, own, strict=True):
        if functions > limit:
            raise TooFewDirections(
                min(limits),
                f"`functions` is {functions}, but answers for {len(snapshots.kept)} training φ span "
                f"only {limit} directions of {size} functions: give more `phis`, or ask for fewer.",
            )
    if snapshots.front is None:
        return [functions] * len(spreads)
    smooth, creased = (spread[:count] for spread, count in zip(spreads, most, strict=True))
    largest = np.argsort(-np.concatenate([smooth, creased]), kind="stable")[:functions]
    first = int(np.sum(largest < len(smooth)))
    return [first, functions - first]


def measured_values(snapshots: Snapshots, unknown: str) -> Float[np.ndarray, "q N"]:
    """An unknown's functions on the quadrature set, such that a mean square over it is a sum."""
    assert snapshots.values is not None
    values = snapshots.values[unknown] / np.sqrt(len(snapshots.quadrature))
    if snapshots.front is None or unknown != CREASED:
        return values
    factor = np.sqrt(np.mean(snapshots.front.folds[snapshots.kept] ** 2, axis=0))
    return values * factor[:, None]


def answers_on(snapshots: Snapshots, numbers: np.ndarray) -> Float[np.ndarray, "S q"]:
    """The training answers u on the quadrature set."""
    folds = None if snapshots.front is None else snapshots.front.folds[numbers]
    return combined(snapshots, snapshots.weights[numbers], folds)


def combined(
    snapshots: Snapshots,
    weights: Float[np.ndarray, "S N"],
    folds: Float[np.ndarray, "S q"] | None = None,
) -> Float[np.ndarray, "S q"]:
    """Σ ω_i f_i on the quadrature set, one unknown after the other; with `folds` the two parts' sum."""
    assert snapshots.values is not None
    ends = np.cumsum([size for _, size in snapshots.plan.sizes])[:-1]
    shares = np.split(weights, ends, axis=1)
    parts = [
        share @ snapshots.values[unknown].T
        for (unknown, _), share in zip(snapshots.plan.sizes, shares, strict=True)
    ]
    return np.concatenate(parts, axis=1) if folds is None else parts[0] + folds * parts[1]


def coefficients(
    snapshots: Snapshots, modes: Float[np.ndarray, "N r"], form: Form
) -> Float[np.ndarray, "S r"]:
    """The training answers in the combinations: those nearest to u."""
    assert snapshots.values is not None
    if isinstance(form, Crease):
        return _nearest(snapshots, modes, form)
    answers, parts, start = snapshots.weights[snapshots.kept], [], 0
    for unknown, size in snapshots.plan.sizes:
        values = snapshots.values[unknown] / np.sqrt(len(snapshots.quadrature))
        mine = modes[start : start + size]
        mine = mine[:, np.any(mine != 0, axis=0)]
        parts.append((answers[:, start : start + size] @ values.T) @ (values @ mine))
        start += size
    return np.concatenate(parts, axis=1)


def _nearest(
    snapshots: Snapshots, modes: Float[np.ndarray, "N r"], crease: Crease
) -> Float[np.ndarray, "S r"]:
    """By least squares on the quadrature set, with the front as it is found online."""
    assert snapshots.values is not None
    smooth, creased = (snapshots.values[unknown] for unknown, _ in snapshots.plan.sizes)
    split = smooth.shape[1]
    kept = np.any(modes[:split] != 0, axis=0)
    v, h = smooth @ modes[:split][:, kept], creased @ modes[split:][:, ~kept]
    fronts = np.concatenate([smooth, creased], axis=1) @ np.asarray(crease.finder.form.modes)
    g = _factors(crease, snapshots.some(snapshots.kept), jnp.asarray(fronts))
    found = []
    for u, factor in zip(answers_on(snapshots, snapshots.kept), np.asarray(g), strict=True):
        A = np.concatenate([v, factor[:, None] * h], axis=1)
        gram = A.T @ A
        gram += 1e-12 * np.trace(gram) / len(gram) * np.eye(len(gram))
        found.append(np.linalg.solve(gram, A.T @ u))
    return np.stack(found)


@eqx.filter_jit
def _factors(crease: Crease, phis: Any, values: Float[Array, "q r"]) -> Float[Array, "S q"]:
    return jax.vmap(lambda phi: crease.factor(values, crease.front(phi).weights))(phis)


def with_sizes(plan: Plan, modes: np.ndarray) -> Plan:
    """The plan for combinations instead of functions."""
    sizes, start = [], 0
    for unknown, size in plan.sizes:
        mine = np.any(modes[start : start + size] != 0, axis=0)
        sizes.append((unknown, int(mine.sum())))
        start += size
    return replace(plan, sizes=tuple(sizes))


def reduced_jets(
    snapshots: Snapshots, numbers: tuple[np.ndarray, ...], modes: np.ndarray, plan: Plan
) -> tuple[dict[Entry, Float[np.ndarray, "_n _r"]], ...]:
    """The jets of the combinations at the chosen points."""
    assert snapshots.jets is not None
    blocks, row, column = {}, 0, 0
    for (unknown, size), (_, kept) in zip(snapshots.plan.sizes, plan.sizes, strict=True):
        blocks[unknown] = modes[row : row + size, column : column + kept]
        row, column = row + size, column + kept
    return tuple(
        {entry: jet[chosen] @ blocks[entry.unknown] for entry, jet in jets.items()}
        for jets, chosen in zip(snapshots.jets, numbers, strict=True)
    )


def coordinates(
    snapshots: Snapshots,
    rows: Rows,
    answers: Float[np.ndarray, "S r"],
    whitening: Float[np.ndarray, "m n"] | None,
) -> np.ndarray:
    """(r, r): coordinates in which the Gram matrix of the rows is the identity in the mean over φ.

    Each unknown for itself. Single precision then does for a factorisation.
    """
    numbers = snapshots.kept[:_SEEN]
    mean = np.asarray(_mean_gram(rows, snapshots.some(numbers), answers[: len(numbers)], whitening))
    blocks, start = [], 0
    for _, size in rows.plan.sizes:
        gram = mean[start : start + size, start : start + size]
        values, vectors = np.linalg.eigh(gram)
        blocks.append(vectors / np.sqrt(np.maximum(values, 1e-13 * values[-1])))
        start += size
    return _block_diagonal(blocks)


def truncation_residuals(
    snapshots: Snapshots, rows: Rows, answers: Float[np.ndarray, "S r"]
) -> Float[np.ndarray, "S n"]:
    """The rows' residuals at the training answers, as far as the combinations can say these.

    What they hold is what the functions left out would have taken up.
    """
    return np.asarray(_residuals(rows, snapshots.some(snapshots.kept), answers))


def whitenings(left: np.ndarray, unit: np.ndarray) -> list[np.ndarray]:
    """Matrices (n, n) for the rows, from `unit` alone, by which each is divided, to the full inverse
    covariance of what is left over.

    By Gauss and Markov least squares are best in rows whose errors are uncorrelated and of equal size.
    The residuals of the functions left out are neither: C = mean of ρρᵀ over training φ, and C^(−1/2)
    makes them so. Variances below a floor, of which a few hundred φ know nothing, are raised to it.
    """
    left = left / unit
    variances, vectors = np.linalg.eigh(left.T @ left / len(left))
    largest = variances[-1]
    if not largest > 0:
        return [np.diag(1 / unit)]
    scales = [np.sqrt(largest / np.maximum(variances, floor * largest)) for floor in FLOORS]
    return [(vectors * scale).T / unit for scale in scales]


def _block_diagonal(blocks: list[np.ndarray]) -> np.ndarray:
    total = np.zeros((sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)))
    row, column = 0, 0
    for block in blocks:
        total[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return total


@eqx.filter_jit
def _mean_gram(
    rows: Rows, phis: Any, answers: Float[AnyArray, "S r"], whitening: Float[AnyArray, "m n"] | None
) -> Float[Array, "r r"]:
    def one(case: tuple[Any, Float[Array, " r"]]) -> Float[Array, "r r"]:
        operator = linearise(rows.system(case[0]), case[1]).A
        assert operator is not None
        A = operator.as_matrix() if whitening is None else whitening @ operator.as_matrix()
        return A.T @ A

    return jnp.mean(jax.lax.map(one, (phis, answers)), axis=0)


@eqx.filter_jit
def _residuals(rows: Rows, phis: Any, answers: Float[AnyArray, "S r"]) -> Float[Array, "S n"]:
    return jax.vmap(lambda phi, answer: rows.system(phi).rows(answer, "Fit"))(phis, answers)
