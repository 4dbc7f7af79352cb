"""Least squares on cells by elimination, from single cells to the whole.

Each cell has unknowns of its own and traces on its faces, which it shares with its neighbours. A QR
factorisation of a cell's rows on its own unknowns, M = QR, eliminates them: of its rows T on traces
Tᴴ(1 − QQᴴ)T is left. T is the same for all equations, and each face's rows are on its own traces alone.
Up a binary tree of groups of cells (nested dissection), the traces between two groups are eliminated by
Cholesky: n cells in the plane have about √n faces between halves. These are normal equations, of which a
refinement by the rows' own residual makes good the squared condition.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from ..inverse import Singular

_CANDIDATES = 24
_DEPENDENT = 1e-13
_REFINEMENTS, _REFINED = 2, 1e-10
_SINGULAR = "the equations are singular: conditions are missing, or repeat or contradict each other"


@dataclass(frozen=True)
class Group:
    """Cells whose unknowns are eliminated: a single one, or two groups of which the faces between them
    are. `rest`: the faces to other cells."""

    cell: int | None
    halves: tuple[int, ...]
    own: np.ndarray
    rest: np.ndarray


@dataclass(frozen=True, eq=False)
class Traces:
    """A cell's last rows, `height` of them, on the traces of its faces: for each face its rows, its
    columns, and what is there. Nothing is elsewhere."""

    height: int
    width: int
    faces: list[tuple[slice, slice, np.ndarray]]

    @cached_property
    def grams(self) -> list[np.ndarray]:
        return [block.T @ block for *_, block in self.faces]

    def across(self, M: np.ndarray) -> np.ndarray:
        """Mᴴ T for the last rows of M."""
        out = np.zeros((M.shape[1], self.width), M.dtype)
        last = M[len(M) - self.height :]
        for rows, columns, block in self.faces:
            out[:, columns] = last[rows].conj().T @ block
        return out

    def forth(self, t: np.ndarray) -> np.ndarray:
        out = np.zeros(self.height, t.dtype)
        for rows, columns, block in self.faces:
            out[rows] = block @ t[columns]
        return out

    def back(self, side: np.ndarray) -> np.ndarray:
        out, last = np.zeros(self.width, side.dtype), side[len(side) - self.height :]
        for rows, columns, block in self.faces:
            out[columns] = block.T @ last[rows]
        return out


class Tree:
    """Groups of cells, and for each half of a group the order of its traces in which those between the
    halves come first. `traces`: the number of unknowns on each face."""

    def __init__(self, groups: Sequence[Group], traces: np.ndarray):
        self.groups, self.traces = groups, traces
        self.between = [int(traces[group.own].sum()) for group in groups]
        self.columns = [[self._columns(group, half) for half in group.halves] for group in groups]
        self.ends = [np.cumsum(traces[group.own])[:-1] for group in groups]

    def _columns(self, group: Group, half: int) -> np.ndarray:
        rest = self.groups[half].rest
        sizes = self.traces[rest]
        starts = dict(zip(rest, np.cumsum(sizes) - sizes, strict=True))
        faces = [*group.own, *rest[~np.isin(rest, group.own)]]
        parts = [np.arange(starts[f], starts[f] + self.traces[f]) for f in faces]
        return np.concatenate(parts) if parts else np.zeros(0, int)


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
    """The factors of all groups. `blocks`: for each cell its rows on its own unknowns; the last of them
    are on `traces` of its faces as well."""

    def __init__(self, tree: Tree, blocks: Sequence[np.ndarray], traces: Sequence[Traces]):
        self.tree, self.blocks, self.traces = tree, blocks, traces
        self._complex = any(np.iscomplexobj(block) for block in blocks)
        self._cells: dict[int, _Cell] = {}
        self._joints: dict[int, _Joint] = {}
        grams: dict[int, np.ndarray] = {}
        for i, group in enumerate(tree.groups):
            if group.cell is not None:
                self._cells[group.cell], grams[i] = self._cell(group.cell)
            else:
                whole = self._joined(i, [grams.pop(j) for j in group.halves])
                self._joints[i], grams[i] = self._joint(whole, tree.between[i])

    def solve(self, sides: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """The unknowns of each cell for a right-hand side of each, and the norm of what its rows are
        left with. Refined by the rows' own residual: the traces' equations are normal equations."""
        found = self._once(sides)
        rests = self._rests(sides, found)
        for _ in range(_REFINEMENTS):
            more = self._once(rests)
            found = [(x + dx, t + dt) for (x, t), (dx, dt) in zip(found, more, strict=True)]
            rests = self._rests(sides, found)
            if _size(more) <= _REFINED * _size(found):
                break
        return [x for x, _ in found], np.array([np.linalg.norm(rest) for rest in rests])

    def _rests(
        self, sides: Sequence[np.ndarray], found: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> list[np.ndarray]:
        out = []
        for side, block, traces, (x, t) in zip(sides, self.blocks, self.traces, found, strict=True):
            rest = side - block @ x
            rest[len(rest) - traces.height :] -= traces.forth(t)
            out.append(rest)
        return out

    def _once(self, sides: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each cell its unknowns, and the traces of its faces."""
        tree, groups = self.tree, self.tree.groups
        reduced: dict[int, np.ndarray] = {}
        rest: dict[int, np.ndarray] = {}
        for i, group in enumerate(groups):
            if group.cell is not None:
                cell, side, T = self._cells[group.cell], sides[group.cell], self.traces[group.cell]
                # Qᴴ = R⁻ᴴ Mᴴ, so that Q need not be kept; what that loses refinement makes good.
                turned = self.blocks[group.cell].conj().T @ side
                reduced[i] = _triangular(cell.own, turned, adjoint=True)
                rest[i] = T.back(side) - cell.across.conj().T @ reduced[i]
            else:
                joint, k = self._joints[i], tree.between[i]
                y = self._gathered(i, [rest.pop(j) for j in group.halves])
                reduced[i] = _triangular(joint.factor, y[:k], lower=True)
                rest[i] = y[k:] - joint.across.conj().T @ reduced[i]
        trace: dict[int, np.ndarray] = {}
        out: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for i in range(len(groups) - 1, -1, -1):
            group, y = groups[i], reduced[i]
            around = np.concatenate([trace[f] for f in group.rest]) if len(group.rest) else y[:0]
            if group.cell is not None:
                cell = self._cells[group.cell]
                out[group.cell] = _triangular(cell.own, y - cell.across @ around), around
            elif len(y):
                joint = self._joints[i]
                x = _triangular(joint.factor, y - joint.across @ around, lower=True, adjoint=True)
                trace |= zip(group.own, np.split(x, tree.ends[i]), strict=True)
        return [out[c] for c in range(len(out))]

    def _cell(self, number: int) -> tuple["_Cell", np.ndarray]:
        """The factors of a cell's own unknowns, and what is left of its rows on traces."""
        traces = self.traces[number]
        M = np.array(self.blocks[number], complex if self._complex else float, order="F")
        if not np.isfinite(M).all():
            raise Singular("an equation is not finite")
        height, k = M.shape
        norms = np.sqrt((np.abs(M) ** 2).sum(axis=0))
        lapack = scipy.linalg.lapack
        geqrf, gqr = (lapack.zgeqrf, lapack.zungqr) if self._complex else (lapack.dgeqrf, lapack.dorgqr)
        if height < k:
            raise Singular(_SINGULAR)
        qr, scales, _, _ = geqrf(M, lwork=64 * k, overwrite_a=1)
        R = np.asfortranarray(np.triu(qr[:k]))
        if np.any(np.abs(np.diag(R)) <= _DEPENDENT * norms):
            raise Singular(_SINGULAR)
        Q, _, _ = gqr(qr, scales, lwork=64 * k, overwrite_a=1)
        across = traces.across(Q)
        gram = -(across.conj().T @ across)
        for (_, columns, _), own in zip(traces.faces, traces.grams, strict=True):
            gram[columns, columns] += own
        return _Cell(R, across), gram

    def _joint(self, S: np.ndarray, k: int) -> tuple["_Joint", np.ndarray]:
        if not k:
            return _Joint(S[:0, :0], S[:0]), S
        potrf = scipy.linalg.lapack.zpotrf if self._complex else scipy.linalg.lapack.dpotrf
        factor, info = potrf(S[:k, :k], lower=1, clean=1)
        if info:
            raise Singular(_SINGULAR)
        across = _triangular(factor, S[:k, k:], lower=True)
        return _Joint(factor, across), S[k:, k:] - across.conj().T @ across

    def _joined(self, number: int, grams: list[np.ndarray]) -> np.ndarray:
        """The sum of what the halves leave: on the traces between them, on those from the first half to
        others and on those from the second."""
        k = self.tree.between[number]
        one, other = (
            gram.take(at, 0).take(at, 1)
            for at, gram in zip(self.tree.columns[number], grams, strict=True)
        )
        m = len(one)
        S = np.zeros((m + len(other) - k,) * 2, one.dtype)
        S[:m, :m] = one
        S[:k, :k] += other[:k, :k]
        S[:k, m:], S[m:, :k], S[m:, m:] = other[:k, k:], other[k:, :k], other[k:, k:]
        return S

    def _gathered(self, number: int, sides: list[np.ndarray]) -> np.ndarray:
        k = self.tree.between[number]
        one, other = (side[at] for at, side in zip(self.tree.columns[number], sides, strict=True))
        return np.concatenate([one[:k] + other[:k], one[k:], other[k:]])


@dataclass(frozen=True)
class _Cell:
    """Of QR of a cell's rows on its own unknowns: R, and Qᴴ T."""

    own: np.ndarray
    across: np.ndarray


@dataclass(frozen=True)
class _Joint:
    """Cholesky of the traces between two groups: L Lᴴ, and L⁻¹ of what joins them to others."""

    factor: np.ndarray
    across: np.ndarray


def _triangular(A: np.ndarray, b: np.ndarray, lower: bool = False, adjoint: bool = False) -> np.ndarray:
    if not b.size:
        return b
    is_complex = np.iscomplexobj(A) or np.iscomplexobj(b)
    trtrs = scipy.linalg.lapack.ztrtrs if is_complex else scipy.linalg.lapack.dtrtrs
    x, _ = trtrs(A, b, lower=int(lower), trans=2 if adjoint else 0)
    return x


def _size(found: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    return float(np.sqrt(sum(np.vdot(x, x).real for x, _ in found)))
