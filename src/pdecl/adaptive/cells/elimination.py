"""Least squares on cells by elimination, from single cells to the whole.

Each cell has unknowns of its own and traces on its faces, which it shares with its neighbours. A QR
factorisation of a cell's rows eliminates its own unknowns and leaves at most as many rows as traces. Up
a binary tree of groups of cells (nested dissection), the traces between two groups are eliminated by
Cholesky: n cells in the plane have about √n faces between halves. There the equations are the normal
ones, of which a refinement by the rows' own residual makes good the squared condition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from ..inverse import Singular

_CANDIDATES = 24
_DEPENDENT = 1e-13
_REFINEMENTS = 2
_SINGULAR = "the equations are singular: conditions are missing, or repeat or contradict each other"


@dataclass(frozen=True)
class Group:
    """Cells whose unknowns are eliminated: a single one, or two groups of which the faces between them
    are. `rest`: the faces to other cells."""

    cell: int | None
    halves: tuple[int, ...]
    own: np.ndarray
    rest: np.ndarray


def dissect(centres: np.ndarray, faces: np.ndarray) -> list[Group]:
    """Groups, each after its halves; `faces` (f, 2) are the two cells at each."""
    touching: list[list[int]] = [[] for _ in centres]
    for f, (a, b) in enumerate(faces):
        touching[a].append(f)
        touching[b].append(f)
    groups: list[Group] = []
    none = np.zeros(0, int)

    def build(cells: np.ndarray, inner: np.ndarray) -> int:
        if len(cells) == 1:
            groups.append(Group(int(cells[0]), (), none, np.array(sorted(touching[cells[0]]), int)))
            return len(groups) - 1
        side = _halved(centres, cells, faces[inner])
        at = np.zeros(len(centres), bool)
        at[cells[side]] = True
        ends = at[faces[inner]]
        first = build(cells[side], inner[ends.all(axis=1)])
        second = build(cells[~side], inner[~ends.any(axis=1)])
        one, other = groups[first].rest, groups[second].rest
        own = np.intersect1d(one, other)
        rest = np.concatenate([half[~np.isin(half, own)] for half in (one, other)])
        groups.append(Group(None, (first, second), own, rest))
        return len(groups) - 1

    build(np.arange(len(centres)), np.arange(len(faces)))
    return groups


def _halved(centres: np.ndarray, cells: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Which cells are below a plane that cuts few faces and leaves two parts of like size."""
    best, x = (np.inf, np.arange(len(cells)) < len(cells) // 2), centres[cells]
    for axis in range(centres.shape[1]):
        values = np.unique(x[:, axis])
        planes = (values[1:] + values[:-1]) / 2
        if len(planes) > _CANDIDATES:
            planes = planes[np.linspace(0, len(planes) - 1, _CANDIDATES).astype(int)]
        ends = np.sort(centres[inner, axis], axis=1)
        for plane in planes:
            below = x[:, axis] < plane
            share = min(below.mean(), 1 - below.mean())
            if share > 0:
                cut = np.sum((ends[:, 0] < plane) & (ends[:, 1] >= plane))
                best = min(best, ((cut + 0.5) / min(share, 0.4) ** 0.7, below), key=lambda pair: pair[0])
    return best[1]


class Elimination:
    """The factors of all groups. `blocks`: for each cell its rows on (own unknowns, traces of its
    faces); `traces`: the number of unknowns on each face."""

    def __init__(self, groups: Sequence[Group], blocks: Sequence[np.ndarray], traces: np.ndarray):
        self.groups, self.blocks, self.traces = groups, blocks, traces
        self._complex = any(np.iscomplexobj(block) for block in blocks)
        self._cells: dict[int, _Cell] = {}
        self._joints: dict[int, _Joint] = {}
        grams: dict[int, np.ndarray] = {}
        for i, group in enumerate(groups):
            if group.cell is not None:
                cell = self._cell(blocks[group.cell], int(traces[group.rest].sum()))
                self._cells[group.cell], grams[i] = cell, cell.left.conj().T @ cell.left
            else:
                whole, k = self._joined(group, [grams.pop(j) for j in group.halves])
                self._joints[i], grams[i] = self._joint(whole, k)

    def solve(self, sides: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """The unknowns of each cell for a right-hand side of each, and the norm of what its rows are
        left with. Refined by the rows' own residual: the traces' equations are normal equations."""
        found = self._once(sides)
        for _ in range(_REFINEMENTS):
            rests = [side - block @ x for side, block, x in zip(sides, self.blocks, found, strict=True)]
            found = [x + more for x, more in zip(found, self._once(rests), strict=True)]
        rests = [side - block @ x for side, block, x in zip(sides, self.blocks, found, strict=True)]
        left = np.array([np.linalg.norm(rest) for rest in rests])
        return [found[c][: len(cell.own)] for c, cell in sorted(self._cells.items())], left

    def _once(self, sides: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each cell its unknowns and then the traces of its faces."""
        reduced: dict[int, np.ndarray] = {}
        rest: dict[int, np.ndarray] = {}
        for i, group in enumerate(self.groups):
            if group.cell is not None:
                cell = self._cells[group.cell]
                y = cell.turned(sides[group.cell])
                k = len(cell.own)
                reduced[i], rest[i] = y[:k], cell.left.conj().T @ y[k : k + len(cell.left)]
            else:
                joint = self._joints[i]
                y, k = self._gathered(group, [rest.pop(j) for j in group.halves]), len(joint.factor)
                reduced[i] = y[:k]
                if k:
                    reduced[i] = scipy.linalg.solve_triangular(
                        joint.factor, y[:k], lower=True, check_finite=False
                    )
                rest[i] = y[k:] - joint.across.conj().T @ reduced[i]
        trace: dict[int, np.ndarray] = {}
        out: dict[int, np.ndarray] = {}
        for i in range(len(self.groups) - 1, -1, -1):
            group, y = self.groups[i], reduced[i]
            around = np.concatenate([trace[f] for f in group.rest]) if len(group.rest) else y[:0]
            if group.cell is not None:
                cell = self._cells[group.cell]
                x = scipy.linalg.solve_triangular(cell.own, y - cell.across @ around, check_finite=False)
                out[group.cell] = np.concatenate([x, around])
            elif len(y):
                joint = self._joints[i]
                x = scipy.linalg.solve_triangular(
                    joint.factor, y - joint.across @ around, lower=True, trans="C", check_finite=False
                )
                trace |= zip(group.own, np.split(x, np.cumsum(self.traces[group.own])[:-1]), strict=True)
        return [out[c] for c in range(len(out))]

    def _cell(self, block: np.ndarray, traces: int) -> "_Cell":
        M = np.array(block, complex if self._complex else float, order="F")
        if not np.isfinite(M).all():
            raise Singular("an equation is not finite")
        k = M.shape[1] - traces
        norms = np.sqrt((np.abs(M[:, :k]) ** 2).sum(axis=0))
        lapack = scipy.linalg.lapack
        geqrf = lapack.zgeqrf if self._complex else lapack.dgeqrf
        qr, scales, _, _ = geqrf(M, lwork=64 * M.shape[1], overwrite_a=1)
        R = np.triu(qr[: len(scales)])
        if len(scales) < k or np.any(np.abs(np.diag(R)[:k]) <= _DEPENDENT * norms):
            raise Singular(_SINGULAR)
        return _Cell(qr[:, : len(scales)], scales, R[:k, :k], R[:k, k:], R[k:, k:])

    def _joint(self, S: np.ndarray, k: int) -> tuple["_Joint", np.ndarray]:
        try:
            factor = scipy.linalg.cholesky(S[:k, :k], lower=True, check_finite=False) if k else S[:k, :k]
        except np.linalg.LinAlgError as error:
            raise Singular(_SINGULAR) from error
        across = S[:k, k:]
        if k:
            across = scipy.linalg.solve_triangular(factor, across, lower=True, check_finite=False)
        return _Joint(factor, across), S[k:, k:] - across.conj().T @ across

    def _joined(self, group: Group, grams: list[np.ndarray]) -> tuple[np.ndarray, int]:
        """The sum of what the halves leave: on the traces between them, on those from the first half to
        others and on those from the second."""
        k = int(self.traces[group.own].sum())
        one, other = (
            gram.take(at, 0).take(at, 1) for at, gram in zip(self._columns(group), grams, strict=True)
        )
        m = len(one)
        S = np.zeros((m + len(other) - k,) * 2, one.dtype)
        S[:m, :m] = one
        S[:k, :k] += other[:k, :k]
        S[:k, m:], S[m:, :k], S[m:, m:] = other[:k, k:], other[k:, :k], other[k:, k:]
        return S, k

    def _gathered(self, group: Group, sides: list[np.ndarray]) -> np.ndarray:
        k = int(self.traces[group.own].sum())
        one, other = (side[at] for at, side in zip(self._columns(group), sides, strict=True))
        return np.concatenate([one[:k] + other[:k], one[k:], other[k:]])

    def _columns(self, group: Group) -> list[np.ndarray]:
        """For each half the order of its traces in which those between the halves come first."""
        out = []
        for half in group.halves:
            rest = self.groups[half].rest
            sizes = self.traces[rest]
            starts = dict(zip(rest, np.cumsum(sizes) - sizes, strict=True))
            faces = [*group.own, *rest[~np.isin(rest, group.own)]]
            parts = [np.arange(starts[f], starts[f] + self.traces[f]) for f in faces]
            out.append(np.concatenate(parts) if parts else np.zeros(0, int))
        return out


@dataclass(frozen=True)
class _Cell:
    """QR of a cell's rows: R = [own across; 0 left]."""

    reflectors: np.ndarray
    scales: np.ndarray
    own: np.ndarray
    across: np.ndarray
    left: np.ndarray

    def turned(self, side: np.ndarray) -> np.ndarray:
        lapack, is_complex = scipy.linalg.lapack, np.iscomplexobj(self.reflectors)
        ormqr, turn = (lapack.zunmqr, "C") if is_complex else (lapack.dormqr, "T")
        side = np.asarray(side, self.reflectors.dtype)
        return ormqr("L", turn, self.reflectors, self.scales, side[:, None], 64)[0][:, 0]


@dataclass(frozen=True)
class _Joint:
    """Cholesky of the traces between two groups: L Lᴴ, and L⁻¹ of what joins them to others."""

    factor: np.ndarray
    across: np.ndarray
