"""Solutions to a tolerance, each on pieces of its own, as vectors in one space."""

import itertools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import scipy
from numpy.polynomial import legendre

from ..adaptive import Adaptive
from ..adaptive.grid import Grid
from ..basis.networks.modes import Modes

_WHOLE = 2**30  # of a dyadic mesh, as in `adaptive.pieces`


class Common:
    """Products of Legendre polynomials in each of the pieces, orthonormal in the mean over the box.

    - `breaks`: for each coordinate the ends of its pieces. `counts`: how many polynomials in each.

    Pieces of a coordinate of space are the union of the solutions' own; those of a marched coordinate
    are dyadic, and no longer than the slabs there.
    """

    def __init__(self, solutions: Sequence[Adaptive]):
        first = solutions[0]
        self.domain, self.marched = first.problem.domain, first.marched
        space = first.pieces[0].space.axes
        self.breaks: list[np.ndarray] = []
        self.counts: list[int] = []
        for axis, (low, high) in enumerate(self.domain.bounds):
            if axis == self.marched:
                ends, count = _marched_breaks(solutions), 3 + max(s.pieces[0].s for s in solutions)
            else:
                ends, count = _space_breaks(solutions, space.index(axis))
            self.breaks.append(low + (high - low) * np.asarray(ends) / _WHOLE)
            self.counts.append(count)
        self.nodes = [_nodes(b, q) for b, q in zip(self.breaks, self.counts, strict=True)]

    @property
    def size(self) -> int:
        """How many products there are."""
        return int(np.prod([(len(b) - 1) * q for b, q in zip(self.breaks, self.counts, strict=True)]))

    def vector(self, solution: Adaptive) -> dict[str, np.ndarray]:
        """Orthonormal coefficients of each unknown, by interpolation at Gauss nodes."""
        out = {}
        found = solution.on_grid(*self.nodes)
        found = found if isinstance(found, dict) else {solution.problem.unknowns[0]: found}
        for u, values in found.items():
            for axis, (ends, count) in enumerate(zip(self.breaks, self.counts, strict=True)):
                values = np.moveaxis(values, axis, -1)
                pieces = values.reshape(*values.shape[:-1], -1, count) @ _to_orthonormal(count).T
                pieces *= np.sqrt(np.diff(ends) / (ends[-1] - ends[0]))[:, None]
                values = np.moveaxis(pieces.reshape(values.shape), -1, axis)
            out[u] = values.ravel()
        return out

    def functions(self, vectors: dict[str, np.ndarray]) -> Modes:
        """The functions with these orthonormal coefficients, (all, N) for each unknown."""
        d, found = len(self.breaks), {}
        for u, rows in vectors.items():
            split = [n for b, q in zip(self.breaks, self.counts, strict=True) for n in (len(b) - 1, q)]
            blocks = rows.reshape(*split, -1)
            for axis, (ends, count) in enumerate(zip(self.breaks, self.counts, strict=True)):
                sizes = np.sqrt(
                    (2 * np.arange(count) + 1) * (ends[-1] - ends[0]) / np.diff(ends)[:, None]
                )
                shape = [1] * blocks.ndim
                shape[2 * axis : 2 * axis + 2] = sizes.shape
                blocks = blocks * sizes.reshape(shape)
            order = [*range(0, 2 * d, 2), *range(1, 2 * d, 2), 2 * d]
            found[u] = jnp.asarray(np.transpose(blocks, order))
        return Modes(tuple(jnp.asarray(b) for b in self.breaks), found)


def _space_breaks(solutions: Sequence[Adaptive], p: int) -> tuple[list[int], int]:
    each = {id(piece.space): piece.space for one in solutions for piece in one.pieces}.values()
    spaces = [space for space in each if isinstance(space, Grid)]
    ends = sorted(set(itertools.chain.from_iterable(space.breaks[p] for space in spaces)))
    return ends, 1 + max(lines[p].degree for space in spaces for lines in space.lines.values())


def _marched_breaks(solutions: Sequence[Adaptive]) -> list[int]:
    """Halved while longer than twice the shortest slab that they meet, as a share of the whole."""
    slabs = []
    for one in solutions:
        assert one.marched is not None
        low, high = one.problem.domain.bounds[one.marched]
        slabs += [((piece.low - low) / (high - low), piece.h / (high - low)) for piece in one.pieces]
    starts, lengths = np.asarray(slabs).T

    def ends(low: int, high: int) -> list[int]:
        a, b = low / _WHOLE, high / _WHOLE
        meets = (starts < b - 0.1 * (b - a)) & (starts + lengths > a + 0.1 * (b - a))
        shortest = lengths[meets].min() if meets.any() else 1.0
        if b - a <= 2 * shortest or high - low < 2:
            return [high]
        middle = (low + high) // 2
        return ends(low, middle) + ends(middle, high)

    return [0, *ends(0, _WHOLE)]


def _nodes(breaks: np.ndarray, count: int) -> np.ndarray:
    x = (scipy.special.roots_legendre(count)[0] + 1) / 2
    return (breaks[:-1, None] + np.diff(breaks)[:, None] * x).ravel()


def _to_orthonormal(count: int) -> np.ndarray:
    """From values at Gauss nodes to coefficients whose squares add up to the mean square."""
    x = scipy.special.roots_legendre(count)[0]
    return np.linalg.inv(legendre.legvander(x, count - 1)) / np.sqrt(2 * np.arange(count) + 1)[:, None]
