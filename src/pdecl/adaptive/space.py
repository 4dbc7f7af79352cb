"""Functions of the space coordinates for all unknowns, and the conditions' rows on them."""

import itertools
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

import jax
import numpy as np
import scipy

from ..state.condition import located
from ..state.domain import Region
from ..state.jet import Entry
from ..state.rules import tensor
from .inverse import Inverse
from .rows import Equations, ManyEquations

Coefficients = dict[str, np.ndarray]  # for each unknown (…, N_u)


class Space:
    """u = Σ over functions of the space coordinates; N functions for all unknowns together.

    Either a `Grid` of pieces or of a total `Degrees`; they set `size`, `shares` (each unknown's slice of
    the N functions) and `points` (where each condition of `reading.rest` has its rows), and give values
    and spectra.
    """

    def __init__(self, equations: Equations | ManyEquations):
        self.equations: Any = equations
        self.reading = equations.reading
        self.axes, self.unknowns = self.reading.space_axes, self.reading.problem.unknowns
        self.size, self.shares = 0, {u: slice(0, 0) for u in self.unknowns}
        self.points: list[dict[str, Any]] = []
        self._tables: dict[tuple, Any] = {}
        self.near: list[Any] = []  # a factorisation to start from, see `Inverse`

    def values(self, u: str, coords: np.ndarray, orders: tuple[int, ...]) -> Any:
        """(points, N_u): a derivative of each function of u, of an order for each space axis."""
        raise NotImplementedError

    def on_grid(
        self, u: str, coefficients: np.ndarray, lines: list[np.ndarray], orders: Sequence[int]
    ) -> np.ndarray:
        """Values (…, len of each line) at products of values of the space coordinates."""
        coords = np.zeros((int(np.prod([len(line) for line in lines])), len(self.reading.orders[u])))
        coords[:, self.axes] = tensor(lines, len(lines))
        values = self.values(u, coords, tuple(orders)) @ coefficients.T
        return values.T.reshape(*coefficients.shape[:-1], *(len(line) for line in lines))

    def spectrum(self, u: str, coefficients: np.ndarray) -> np.ndarray:
        """Coefficients (…, n_1, n_2, …) whose squares add up to the mean square over the space."""
        raise NotImplementedError

    def convert(self, other: Any, coefficients: Coefficients) -> Coefficients:
        """Coefficients here of functions of another space of the same kind."""
        raise NotImplementedError

    def tails(self, u: str, spectrum: np.ndarray) -> list[np.ndarray]:
        """For each axis the sizes (…, 3, pieces) of the last three coefficients in each piece, over the
        stages of the spectrum (…, stages, n_1, n_2, …) a root mean square."""
        found = []
        for pieces in self.in_pieces(u, spectrum):
            squares = (pieces[..., -3:] ** 2).sum(axis=(-4, -3)) / pieces.shape[-4]
            found.append(np.sqrt(np.swapaxes(squares, -1, -2)))
        return found

    def in_pieces(self, u: str, spectrum: np.ndarray) -> list[np.ndarray]:
        """The spectrum for each axis as (…, stages, all others, pieces, coefficients of a piece)."""
        d, found = len(self.axes), []
        lead = spectrum.shape[: spectrum.ndim - d]
        for p in range(d):
            y = np.moveaxis(spectrum, spectrum.ndim - d + p, -1)
            count = self.pieces(u, p)
            found.append(y.reshape(*lead, -1, count, y.shape[-1] // count))
        return found

    def pieces(self, u: str, p: int) -> int:
        return 1

    def allot(self, sizes: dict[str, int]) -> None:
        """Gives each unknown its slice of the functions."""
        ends = np.cumsum([0, *sizes.values()])
        self.shares = {u: slice(*pair) for u, pair in zip(sizes, itertools.pairwise(ends), strict=True)}
        self.size = int(ends[-1])

    def given_points(self, index: int) -> dict[str, Any]:
        """Where a condition on `Points` holds."""
        return jax.tree.map(np.asarray, located(self.reading.problem.conditions[index].on))

    def table(self, k: int, entry: Entry) -> Any:
        """The space part of a jet entry at the points of a condition."""
        orders = tuple(entry.axes.count(a) for a in self.axes)
        key = (k, entry.unknown, orders)
        if key not in self._tables:
            self._tables[key] = self.values(entry.unknown, self.points[k]["coords"], orders)
        return self._tables[key]

    def evaluate(
        self, jets: dict[str, list[np.ndarray]], times: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Every condition's rows, (s, all), and its slopes, (s, n, rows, entries).

        `jets[u][a]` are coefficients (s, N_u) of the derivative of order a by the marched coordinate.
        For a batch of φ every array has one more axis in front.
        """
        s, values, slopes = len(times), [], []
        for i, where, v in self.asked(jets, times):
            lead, n = v.shape[:-2], v.shape[-2] // s
            rows, g = self.equations.rows(i, where, v)
            by_row = np.swapaxes(rows.reshape(*lead, s, n, -1), -1, -2)
            values.append(by_row.reshape(*lead, s, -1))
            slopes.append(g.reshape(*lead, s, n, *g.shape[-2:]))
        return np.concatenate(values, axis=-1), slopes

    def evaluate_values(self, jets: dict[str, list[np.ndarray]], times: np.ndarray) -> np.ndarray:
        """Without the slopes, for a batch of φ."""
        s, values = len(times), []
        for i, where, v in self.asked(jets, times):
            rows = self.equations.values(i, where, v)
            by_row = np.swapaxes(rows.reshape(len(v), s, -1, rows.shape[-1]), -1, -2)
            values.append(by_row.reshape(len(v), s, -1))
        return np.concatenate(values, axis=-1)

    def asked(
        self, jets: dict[str, list[np.ndarray]], times: np.ndarray
    ) -> Iterator[tuple[int, dict[str, Any], np.ndarray]]:
        """For each condition its number, its points at all times and what it reads there."""
        for k, i in enumerate(self.reading.rest):
            n, entries = len(self.points[k]["coords"]), self.reading.entries[i]
            lead = next(iter(jets.values()))[0].shape[:-2]
            v = np.empty((*lead, len(times), n, len(entries)))
            for e, entry in enumerate(entries):
                coefficients = jets[entry.unknown][self.reading.march_count(entry)]
                v[..., e] = self.read(k, entry, coefficients)
            yield i, self._at(times, self.points[k]), v.reshape(*lead, len(times) * n, -1)

    def read(self, k: int, entry: Entry, coefficients: np.ndarray) -> np.ndarray:
        """A jet entry's space part, (…, n), at the points of a condition."""
        flat = coefficients.reshape(-1, coefficients.shape[-1])
        return (self.table(k, entry) @ flat.T).T.reshape(*coefficients.shape[:-1], -1)

    def matrices(
        self, slopes: Sequence[np.ndarray], some: Sequence[int] | None = None
    ) -> dict[int, Any]:
        """A_a = Σ over entries of diag(slope) T, for each order a of the derivative by the marched
        coordinate: (rows, N), of all conditions or of some. Slopes are (n, rows, entries)."""
        some = range(len(slopes)) if some is None else some
        counts = [len(slopes[k]) for k in some for _ in range(slopes[k].shape[1])]
        blocks: dict[int, dict[tuple[int, str], Any]] = {}
        first = 0
        for k in some:
            g = slopes[k]
            for e, entry in enumerate(self.reading.entries[self.reading.rest[k]]):
                table = scipy.sparse.csr_matrix(self.table(k, entry))
                here = blocks.setdefault(self.reading.march_count(entry), {})
                many = np.diff(table.indptr)
                for r in range(g.shape[1]):
                    if g[:, r, e].any():
                        data = table.data * np.repeat(g[:, r, e], many)
                        part = scipy.sparse.csr_matrix((data, table.indices, table.indptr), table.shape)
                        place = first + r, entry.unknown
                        here[place] = here[place] + part if place in here else part
            first += g.shape[1]
        return {a: self._stacked(parts, counts) for a, parts in blocks.items() if parts}

    def _stacked(self, blocks: dict[tuple[int, str], Any], counts: list[int]) -> Any:
        """One matrix of blocks, for each row of conditions and each unknown."""
        empty = lambda n, u: scipy.sparse.csr_matrix((n, self.shares[u].stop - self.shares[u].start))
        rows = []
        for j, n in enumerate(counts):
            row = [blocks[j, u] if (j, u) in blocks else empty(n, u) for u in self.unknowns]
            rows.append(row[0] if len(row) == 1 else scipy.sparse.hstack(row, "csr"))
        return scipy.sparse.vstack(rows, "csr")

    def inverse(self, slopes: Sequence[np.ndarray], s: int, h: float) -> Any:
        """The solve with a slab's s stages, its slopes (n, rows, entries) held."""
        sizes = None if self.reading.marched is not None else self.row_sizes(slopes)
        apart = self.separable(slopes)
        return Inverse(self.matrices(slopes) if apart is None else apart, s, h, sizes, self.near)

    def separable(self, slopes: Sequence[np.ndarray]) -> Any:
        """A solve for each shift in the marched coordinate that needs no factorisation; None without."""
        return None

    def row_sizes(self, slopes: Sequence[np.ndarray]) -> np.ndarray:
        """For each row the root mean square over its condition of Σ_e |g_e| ‖T_e row‖, the most that its
        terms could be. Where rows are more than functions they are divided by it."""
        sizes = []
        for k, i in enumerate(self.reading.rest):
            g, total = slopes[k], np.zeros(slopes[k].shape[:2])
            for e, entry in enumerate(self.reading.entries[i]):
                T = scipy.sparse.csr_matrix(self.table(k, entry))
                norms = np.sqrt(np.asarray(T.multiply(T).sum(axis=1)).ravel())
                total += np.abs(g[:, :, e]) * norms[:, None]
            sizes.append(np.repeat(np.sqrt((total**2).mean(axis=0)), len(g)))
        return np.concatenate(sizes)

    def some(self, numbers: np.ndarray) -> Any:
        """The same functions, and the equations of some φ of a batch."""
        return self.of(self.equations.some(numbers))

    def of(self, equations: Any) -> Any:
        other = copy(self)
        other.equations = equations
        return other

    def _at(self, times: np.ndarray, where: dict[str, Any]) -> dict[str, Any]:
        """The points of a condition at each of the times."""
        full = jax.tree.map(lambda x: np.concatenate([x] * len(times)), where)
        if self.reading.marched is not None:
            full["coords"][:, self.reading.marched] = np.repeat(times, len(where["coords"]))
        return full


def is_inside(on: Any) -> bool:
    return isinstance(on, Region) and on.sides == ((),)
