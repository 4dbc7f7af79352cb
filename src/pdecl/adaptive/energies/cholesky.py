"""Cholesky of a large sparse matrix of functions that have a place, by nested dissection.

The functions of a half that touch the other half separate the two. Halves are eliminated first, each in
the same way, and the separator last, so that all work is on dense blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

_FEW = 240  # unknowns that are eliminated at once


class Indefinite(Exception):
    """A matrix with a direction in which it is not positive."""


@dataclass(frozen=True)
class Front:
    """What is eliminated in one block: `own` unknowns, and the later ones that they touch, `rest`;
    `halves` are the numbers of the blocks of which the rest is added."""

    own: np.ndarray
    rest: np.ndarray
    halves: tuple[int, ...]


def dissect(pattern: Any, places: np.ndarray, each: int) -> list[Front]:
    """Blocks, each after its halves. `pattern` (n, n): which functions touch; `each`: how many unknowns
    each has, numbered one after the other."""
    groups: list[tuple[np.ndarray, tuple[int, ...]]] = []

    def build(some: np.ndarray) -> int:
        halves: tuple[int, ...] = ()
        if len(some) * each > _FEW:
            one, other, some = _halved(pattern, places, some)
            halves = tuple(build(half) for half in (one, other) if len(half))
        groups.append((some, halves))
        return len(groups) - 1

    build(np.arange(len(places)))
    when = np.empty(len(places), int)
    when[np.concatenate([own for own, _ in groups])] = np.arange(len(places))
    fronts: list[Front] = []
    rests: list[np.ndarray] = []
    done = 0
    for own, halves in groups:
        done += len(own)
        touched = [pattern[own].indices, *(rests[half] for half in halves)]
        rest = np.unique(np.concatenate(touched))
        rests.append(rest[when[rest] >= done])
        fronts.append(Front(_each(own, each), _each(rests[-1], each), halves))
    return fronts


def _each(functions: np.ndarray, each: int) -> np.ndarray:
    return (functions[:, None] * each + np.arange(each)).ravel()


def _halved(pattern: Any, places: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, ...]:
    """Two halves that do not touch, and what separates them: the smallest of planes across each axis."""
    best: tuple[int, tuple[np.ndarray, ...]] | None = None
    own = pattern[some][:, some]
    for x in places[some].T:
        below = x < np.median(x)
        if not below.any() or below.all():
            continue
        for near in (below, ~below):
            touched = np.zeros(len(some), bool)
            touched[own[near].indices] = True
            between = touched & ~near
            if best is None or between.sum() < best[0]:
                parts = some[near], some[~near & ~between], some[between]
                best = int(between.sum()), parts
    if best is None:  # all in one place
        return some[:0], some[:0], some
    return best[1]


class Cholesky:
    """The factors of a positive definite matrix."""

    def __init__(self, matrix: Any, fronts: Sequence[Front]):
        self.fronts = fronts
        self._factors: list[tuple[np.ndarray, np.ndarray]] = []
        matrix = scipy.sparse.csr_matrix(matrix)
        at = np.full(matrix.shape[0], -1)
        left: dict[int, np.ndarray] = {}
        for number, front in enumerate(fronts):
            k = len(front.own)
            whole = np.concatenate([front.own, front.rest])
            at[whole] = np.arange(len(whole))
            S = np.zeros((len(whole), len(whole)))
            rows = matrix[front.own]
            columns = at[rows.indices]
            row = np.repeat(np.arange(k), np.diff(rows.indptr))
            here = columns >= 0
            S[row[here], columns[here]] = rows.data[here]
            for half in front.halves:
                there = at[fronts[half].rest]
                S[np.ix_(there, there)] += left.pop(half)
            at[whole] = -1
            factor, info = scipy.linalg.lapack.dpotrf(S[:k, :k], lower=1, clean=1)
            if info:
                raise Indefinite
            across = _triangular(factor, S[:k, k:])
            left[number] = S[k:, k:] - across.T @ across
            self._factors.append((factor, across))

    def solve(self, side: np.ndarray) -> np.ndarray:
        x = np.array(side, float)
        for front, (factor, across) in zip(self.fronts, self._factors, strict=True):
            x[front.own] = _triangular(factor, x[front.own])
            x[front.rest] -= across.T @ x[front.own]
        for front, (factor, across) in zip(self.fronts[::-1], self._factors[::-1], strict=True):
            x[front.own] = _triangular(factor, x[front.own] - across @ x[front.rest], trans=1)
        return x


def _triangular(factor: np.ndarray, b: np.ndarray, trans: int = 0) -> np.ndarray:
    return scipy.linalg.lapack.dtrtrs(factor, b, lower=1, trans=trans)[0] if b.size else b
