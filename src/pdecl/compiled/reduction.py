"""Fewer functions: the combinations that answers are made of, and how rows are then weighed."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..jet import Entry
from ..points import Points
from ..problem import Problem
from ..system import Plan, linearise
from .study import Study, held_system

_RANK = 1e-9  # functions that add less than this to the largest direction count as dependent
_SEEN = 32  # training φ whose rows set the coordinates
# How small the variance of a weighed row may count, beside the largest; 1 leaves the rows as they are.
FLOORS = (1.0, 1e-2, 1e-4, 1e-6)


def combinations(study: Study, functions: int | None) -> tuple[np.ndarray, np.ndarray]:
    """(N, r) combinations of the functions, orthonormal in L2 over the domain, and (r,) their sizes.

    With a number: for each unknown the leading directions of the training answers, each scaled to norm
    one, and the root mean square of their coefficients. Without: all directions of the functions
    themselves.
    """
    assert study.values is not None
    answers = study.weights[study.kept]
    blocks, sizes, start = [], [], 0
    for unknown, size in study.plan.sizes:
        values = study.values[unknown] / np.sqrt(len(study.quadrature))
        _, lengths, directions = np.linalg.svd(values, full_matrices=False)
        rank = int(np.sum(lengths > _RANK * lengths[0]))
        back = directions[:rank].T / lengths[:rank]
        scale = np.ones(rank)
        if functions is not None:
            seen = answers[:, start : start + size] @ (directions[:rank].T * lengths[:rank])
            norms = np.linalg.norm(seen, axis=1, keepdims=True)
            _, spread, modes = np.linalg.svd(seen / np.where(norms > 0, norms, 1.0), full_matrices=False)
            most = int(np.sum(spread > 1e-12 * spread[0]))
            if functions > most:
                raise ValueError(
                    f"`functions` is {functions}, but answers for {len(answers)} training φ span only "
                    f"{most} directions of {size} functions: give more `phis`, or ask for fewer."
                )
            back = back @ modes[:functions].T
            scale = spread[:functions] / np.sqrt(len(answers))
        blocks.append(back)
        sizes.append(scale)
        start += size
    return _block_diagonal(blocks), np.concatenate(sizes)


def with_sizes(plan: Plan, expansion: np.ndarray) -> Plan:
    """The plan for combinations in the place of functions."""
    sizes, start = [], 0
    for unknown, size in plan.sizes:
        mine = np.any(expansion[start : start + size] != 0, axis=0)
        sizes.append((unknown, int(mine.sum())))
        start += size
    return Plan(plan.entries, plan.rows, plan.affine, tuple(sizes))


def reduced_jets(
    study: Study, numbers: tuple[np.ndarray, ...], expansion: np.ndarray, plan: Plan
) -> tuple[dict[Entry, Float[np.ndarray, "_n _r"]], ...]:
    """The jets of the combinations at the chosen points."""
    assert study.jets is not None
    blocks, row, column = {}, 0, 0
    for (unknown, size), (_, kept) in zip(study.plan.sizes, plan.sizes, strict=True):
        blocks[unknown] = expansion[row : row + size, column : column + kept]
        row, column = row + size, column + kept
    return tuple(
        {entry: jet[chosen] @ blocks[entry.unknown] for entry, jet in jets.items()}
        for jets, chosen in zip(study.jets, numbers, strict=True)
    )


def coordinates(
    study: Study, sets: tuple[Points, ...], plan: Plan, jets: Any, answers: Float[np.ndarray, "S r"],
    weighing: Float[np.ndarray, "m n"] | None,
) -> np.ndarray:  # fmt: skip
    """(r, r): coordinates in which the Gram matrix of the rows is the identity in the mean over φ.

    Each unknown for itself. Single precision then does for a factorisation.
    """
    numbers = study.kept[:_SEEN]
    some = study.some(numbers), answers[: len(numbers)]
    mean = np.asarray(_mean_gram(study.problem, study.basis, *some, sets, plan, jets, weighing))
    blocks, start = [], 0
    for _, size in plan.sizes:
        gram = mean[start : start + size, start : start + size]
        values, vectors = np.linalg.eigh(gram)
        blocks.append(vectors / np.sqrt(np.maximum(values, 1e-13 * values[-1])))
        start += size
    return _block_diagonal(blocks)


def left_over(
    study: Study, sets: tuple[Points, ...], plan: Plan, jets: Any, answers: Float[np.ndarray, "S r"]
) -> np.ndarray:
    """(S, n): the rows' residuals at the training answers, as far as the combinations can say these.

    What they hold is what the functions left out would have taken up.
    """
    phis = study.some(study.kept)
    return np.asarray(_residuals(study.problem, study.basis, phis, answers, sets, plan, jets))


def weighings(left: np.ndarray) -> list[np.ndarray]:
    """Matrices (n, n) for the rows, from none to the full inverse covariance of what is left over.

    By Gauss and Markov least squares are best in rows whose errors are uncorrelated and of equal size.
    The residuals of the functions left out are neither: C = mean of ρρᵀ over training φ, and C^(−1/2)
    makes them so. Variances below a floor, of which a few hundred φ know nothing, are raised to it.
    """
    variances, vectors = np.linalg.eigh(left.T @ left / len(left))
    largest = variances[-1]
    if not largest > 0:
        return [np.eye(left.shape[1])]
    return [(vectors * np.sqrt(largest / np.maximum(variances, floor * largest))).T for floor in FLOORS]


def _block_diagonal(blocks: list[np.ndarray]) -> np.ndarray:
    total = np.zeros((sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)))
    row, column = 0, 0
    for block in blocks:
        total[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return total


@eqx.filter_jit
def _mean_gram(
    problem: Problem, basis: Any, phis: Any, answers: Any, sets: tuple[Points, ...], plan: Plan,
    jets: Any, weighing: Any,
) -> Float[Array, "r r"]:  # fmt: skip
    def one(case: tuple[Any, Float[Array, " r"]]) -> Float[Array, "r r"]:
        operator = linearise(held_system(problem, basis, case[0], sets, plan, jets), case[1]).A
        assert operator is not None
        A = operator.as_matrix() if weighing is None else weighing @ operator.as_matrix()
        return A.T @ A

    return jnp.mean(jax.lax.map(one, (phis, answers)), axis=0)


@eqx.filter_jit
def _residuals(
    problem: Problem,
    basis: Any,
    phis: Any,
    answers: Any,
    sets: tuple[Points, ...],
    plan: Plan,
    jets: Any,
) -> Float[Array, "S n"]:
    def one(phi: Any, answer: Float[Array, " r"]) -> Float[Array, " n"]:
        return held_system(problem, basis, phi, sets, plan, jets).rows(answer, "Fit")

    return jax.vmap(one)(phis, answers)
