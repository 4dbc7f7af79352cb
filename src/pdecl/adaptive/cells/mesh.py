"""Cells: a box divided into equal ones, each halved along every coordinate where it is asked for."""

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np

# Odd numbers that scatter the bits of a cell's level and place: a key of 64 bits for each cell.
_SCATTER = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64
)


@dataclass(frozen=True)
class Mesh:
    """`level` (m,) and `place` (m, d) of each cell: its side is that of the first cells / 2^level.
    Cells that share a face differ by one level at most."""

    low: np.ndarray
    high: np.ndarray
    counts: np.ndarray  # of the first cells along each coordinate
    level: np.ndarray
    place: np.ndarray

    @classmethod
    def uniform(cls, low: np.ndarray, high: np.ndarray, shortest: int) -> "Mesh":
        """Nearly cubes, `shortest` of them along the shortest side."""
        side = (high - low).min() / shortest
        counts = np.maximum(1, np.round((high - low) / side)).astype(np.int64)
        place = np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), -1).reshape(-1, len(low))
        return cls(low, high, counts, np.zeros(len(place), np.int64), place)

    def __len__(self) -> int:
        return len(self.level)

    @cached_property
    def sides(self) -> np.ndarray:
        return (self.high - self.low) / self.counts / 2.0 ** self.level[:, None]

    @cached_property
    def lows(self) -> np.ndarray:
        return self.low + self.place * self.sides

    @property
    def highs(self) -> np.ndarray:
        return self.lows + self.sides

    @property
    def middles(self) -> np.ndarray:
        return self.lows + self.sides / 2

    def find(self, level: np.ndarray, place: np.ndarray) -> np.ndarray:
        """The numbers of cells by level and place; −1 where there is none."""
        wanted, (known, order) = _keys(level, place), self._sorted
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        inside = np.all((place >= 0) & (place < self.counts << level[:, None]), axis=1)
        return np.where((known[at] == wanted) & inside, order[at], -1)

    def locate(self, coords: np.ndarray) -> np.ndarray:
        """The cell that each point is in; those of the faces count to the upper one."""
        found = np.full(len(coords), -1)
        for level in np.unique(self.level):
            left = np.flatnonzero(found < 0)
            counts = self.counts << level
            place = np.floor((coords[left] - self.low) / (self.high - self.low) * counts).astype(
                np.int64
            )
            found[left] = self.find(np.full(len(left), level), np.clip(place, 0, counts - 1))
        return found

    @cached_property
    def faces(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of every face: the cell below and above it, its axis, and the smaller of the two."""
        found = []
        own = np.arange(len(self))
        for axis, sign in itertools.product(range(len(self.low)), (1, -1)):
            there = self.place + sign * (np.arange(len(self.low)) == axis)
            same, larger = self.find(self.level, there), self.find(self.level - 1, there // 2)
            larger = np.where((same < 0) & (self.level > 0), larger, -1)
            other = larger if sign < 0 else np.where(same >= 0, same, larger)
            here = other >= 0
            a, b = (own, other) if sign > 0 else (other, own)
            found.append((a[here], b[here], np.full(here.sum(), axis), own[here]))
        below, above, axes, smaller = (np.concatenate(part) for part in zip(*found, strict=True))
        return below, above, axes, smaller

    def halved(self, marks: np.ndarray) -> "Mesh":
        """Marked cells halved along every coordinate, whatever their neighbours are."""
        ways = np.indices([2] * len(self.low)).reshape(len(self.low), -1).T
        place = (2 * self.place[marks][:, None] + ways).reshape(-1, len(self.low))
        level = np.repeat(self.level[marks] + 1, len(ways))
        return Mesh(
            self.low,
            self.high,
            self.counts,
            np.concatenate([self.level[~marks], level]),
            np.concatenate([self.place[~marks], place]),
        )

    def refined(self, marks: np.ndarray) -> "Mesh":
        """Marked cells halved along every coordinate, and those that would be two levels above a
        neighbour."""
        d = len(self.low)
        cells = {(int(k), *map(int, i)) for k, i in zip(self.level, self.place, strict=True)}
        todo = [(int(self.level[c]), *map(int, self.place[c])) for c in np.flatnonzero(marks)]
        while todo:
            cell = todo.pop()
            if cell not in cells:
                continue
            cells.remove(cell)
            level, place = cell[0], cell[1:]
            for half in itertools.product((0, 1), repeat=d):
                cells.add((level + 1, *(2 * i + s for i, s in zip(place, half, strict=True))))
            for axis, sign in itertools.product(range(d), (1, -1)):
                beside = tuple((i + sign * (a == axis)) // 2 for a, i in enumerate(place))
                todo.append((level - 1, *beside))
        table = np.array(sorted(cells), np.int64)
        return Mesh(self.low, self.high, self.counts, table[:, 0], table[:, 1:])

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        keys = _keys(self.level, self.place)
        order = np.argsort(keys)
        return keys[order], order


def _keys(level: np.ndarray, place: np.ndarray) -> np.ndarray:
    numbers = np.column_stack([level, place]).astype(np.uint64)
    keys = (numbers * _SCATTER[: numbers.shape[1]]).sum(axis=1, dtype=np.uint64)
    return (keys ^ (keys >> np.uint64(29))) * _SCATTER[0]
