"""How a solution to a tolerance changes with φ: by the implicit function theorem on its own functions.

In each slab rows F(Z, start, φ) vanish, so dZ = −(P⁻¹J)⁻¹ P⁻¹ (F_φ dφ + F_start dstart), J = ∂F/∂Z and P
the inverse that the slab is solved with. Forward the change is marched along; backward, its transpose
goes from the last slab to the first. What is not marched is one slab. Meshes and lengths are held: it is
the derivative of the discrete solution, whose error is of the size of the tolerance.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from .answer import Adaptive, Piece, pulled
from .inverse import Failed
from .marching import moved
from .slab import Slab, Start
from .space import Coefficients
from .start import Starter

_ACCURACY, _WORST = 1e-9, 1e-5


class Sensitivity:
    """The linear map from a change of φ to the change of a solution, and its transpose."""

    def __init__(self, solution: Adaptive):
        if not solution.pieces:
            raise Failed("there is no solution to differentiate")
        self.solution = solution
        equations = solution.pieces[0].space.equations
        if equations.reading.shape is not None:
            raise NotImplementedError(
                "derivatives with respect to φ of a solve to a tolerance are known on boxes, not on "
                "shapes: take differences, or solve with a basis."
            )
        self.phi = equations.phi
        self.starter = None if solution.marched is None else Starter(equations)
        self.slabs: list[Linear] = []
        space: Any = solution.pieces[0].space
        start = {} if self.starter is None else self.starter(space)
        for piece in solution.pieces:
            start = moved(start, space, piece.space)
            space = piece.space
            # What is kept of a start is its value; its derivatives follow from slab to slab.
            start = {u: [piece.values[u][0], *ys[1:]] if ys else [] for u, ys in start.items()}
            self.slabs.append(Linear(piece, start))
            start = self.slabs[-1].end

    def push(self, dphi: Any) -> Adaptive:
        """The change of the solution for a change of φ."""
        space: Any = self.solution.pieces[0].space
        pieces = []
        start = {} if self.starter is None else self.starter.push(space, dphi)
        for slab in self.slabs:
            start = moved(start, space, slab.slab.space)
            space = slab.slab.space
            Z = slab.solve(-slab.by_phi(dphi) - slab.rows(np.zeros_like(slab.Z), start))
            pieces.append(slab.piece_of(Z, start))
            start = slab.moved_end(Z, start)
        kept = self.solution
        return Adaptive(kept.problem, kept.phi, kept.tolerance, pieces, kept.marched, kept.estimates)

    def pull(self, coords: np.ndarray, axes: tuple[int, ...], weights: dict[str, np.ndarray]) -> Any:
        """The derivative with respect to φ of the sum of a derivative of u at points times weights."""
        total = jax.tree.map(jnp.zeros_like, self.phi)
        seeds = pulled(self.solution, coords, axes, weights)
        after: Start | None = None
        for k in reversed(range(len(self.slabs))):
            slab = self.slabs[k]
            Z, start = slab.seeds(seeds[k], after)
            r = -slab.solve_transposed(Z)
            total = jax.tree.map(jnp.add, total, slab.by_phi_transposed(r))
            start = _sum(start, slab.rows_transposed(r)[1])
            before = self.slabs[max(k - 1, 0)].slab.space
            after = moved_transposed(start, before, slab.slab.space)
        if self.starter is not None and after is not None:
            space: Any = self.solution.pieces[0].space
            total = jax.tree.map(jnp.add, total, self.starter.pull(space, after))
        return total


class Linear:
    """A slab's rows at its solution as a linear map of changes of Z, of the start and of φ."""

    def __init__(self, piece: Piece, start: Start):
        space, s = piece.space, piece.s
        ones = dict.fromkeys(space.unknowns, 1.0)
        self.piece, self.start = piece, start
        self.slab = Slab(space, s, piece.low, piece.h, start, ones)
        self.Z = np.concatenate([piece.values[u][-s:] for u in space.unknowns], axis=1)
        self.jets = self.slab.jets(self.Z)
        self.end = self.slab.end(self.Z)
        _, self.slopes = self.slab.rows(self.Z)
        self.inverse = self.slab.inverse(self.slopes)

    def rows(self, Z: np.ndarray, start: Start) -> np.ndarray:
        space, jets, values = self.slab.space, self._with(start).jets(Z), []
        for k, i in enumerate(space.reading.rest):
            total: Any = 0.0
            for e, entry in enumerate(space.reading.entries[i]):
                y = jets[entry.unknown][space.reading.march_count(entry)]
                change = (space.table(k, entry) @ y.T).T
                total = total + self.slopes[k][..., e] * change[:, :, None]
            values.append(np.moveaxis(total, 2, 1).reshape(len(Z), -1))
        return np.concatenate(values, axis=1)

    def rows_transposed(self, r: np.ndarray) -> tuple[np.ndarray, Start]:
        space, jets = self.slab.space, {u: [np.zeros_like(y) for y in ys] for u, ys in self.jets.items()}
        for k, part in enumerate(self._by_condition(r)):
            for e, entry in enumerate(space.reading.entries[space.reading.rest[k]]):
                weights = (self.slopes[k][..., e] * part).sum(axis=2)
                y = jets[entry.unknown][space.reading.march_count(entry)]
                y += (space.table(k, entry).T @ weights.T).T
        return self.slab.jets_transposed(jets)

    def solve(self, r: np.ndarray) -> np.ndarray:
        """Z with rows r, or the least squares."""
        nothing = {u: [0.0 * y for y in ys] for u, ys in self.start.items()}
        return _gmres(lambda Z: self.inverse(self.rows(Z, nothing)), self.inverse(r))

    def solve_transposed(self, Z: np.ndarray) -> np.ndarray:
        transposed = lambda y: self.rows_transposed(self.inverse.transposed(y))[0]
        return self.inverse.transposed(_gmres(transposed, Z))

    def by_phi(self, dphi: Any) -> np.ndarray:
        """How rows change with φ in a direction."""
        space, parts = self.slab.space, []
        for i, where, v in space.asked(self.jets, self.slab.times):
            rows = space.equations.push(i, where, v, dphi).reshape(
                self.slab.s, -1, space.reading.rows[i]
            )
            parts.append(np.moveaxis(rows, 2, 1).reshape(self.slab.s, -1))
        return np.concatenate(parts, axis=1)

    def by_phi_transposed(self, r: np.ndarray) -> Any:
        space, parts = self.slab.space, self._by_condition(r)
        asked = zip(space.asked(self.jets, self.slab.times), parts, strict=True)
        pulls = [
            space.equations.pull(i, where, v, part.reshape(len(v), -1)) for (i, where, v), part in asked
        ]
        return jax.tree.map(lambda *x: sum(x), *pulls)

    def piece_of(self, Z: np.ndarray, start: Start) -> Piece:
        shares = {u: Z[:, share] for u, share in self.slab.space.shares.items()}
        values = {
            u: np.concatenate([start[u][0][None], x]) if start.get(u) else x for u, x in shares.items()
        }
        return Piece(self.piece.low, self.piece.h, self.piece.space, self.piece.s, values)

    def moved_end(self, Z: np.ndarray, start: Start) -> Start:
        return self._with(start).end(Z)

    def seeds(self, values: Coefficients, after: Start | None) -> tuple[np.ndarray, Start]:
        """What Z and the start count, from what values in the slab do and what its end does."""
        s = self.slab.s
        jets = {u: [np.zeros_like(y) for y in ys] for u, ys in self.jets.items()}
        for u in jets:
            jets[u][0] += values[u][-s:]
            for y, end in zip(jets[u], (after or {}).get(u, []), strict=False):
                y[-1] += end
        Z, start = self.slab.jets_transposed(jets)
        for u, ys in start.items():
            if ys and len(values[u]) > s:
                ys[0] = ys[0] + values[u][0]
        return Z, start

    def _with(self, start: Start) -> Slab:
        slab = self.slab
        return Slab(slab.space, slab.s, slab.low, slab.h, start, slab.scale)

    def _by_condition(self, r: np.ndarray) -> list[np.ndarray]:
        """Rows (s, all) as (s, points, rows of a point) for each condition."""
        space, first, out = self.slab.space, 0, []
        for k, i in enumerate(space.reading.rest):
            n, rows = len(space.points[k]["coords"]), space.reading.rows[i]
            part = r[:, first : first + n * rows].reshape(len(r), rows, n)
            out.append(np.moveaxis(part, 1, 2))
            first += n * rows
        return out


def moved_transposed(start: Start, old: Any, new: Any) -> Start:
    return {u: [new.convert_transposed(old, u, y) for y in ys] for u, ys in start.items()}


def _sum(a: Start, b: Start) -> Start:
    return {u: [x + y for x, y in zip(a[u], b[u], strict=True)] for u in a}


def _gmres(matrix: Callable[[np.ndarray], np.ndarray], b: np.ndarray) -> np.ndarray:
    """The solve with a matrix near to one."""
    size = float(np.linalg.norm(b))
    if size == 0.0:
        return b
    flat = scipy.sparse.linalg.LinearOperator(
        (b.size,) * 2, lambda x: matrix(x.reshape(b.shape)).ravel(), dtype=float
    )
    x, _ = scipy.sparse.linalg.gmres(flat, b.ravel(), rtol=_ACCURACY, restart=60, maxiter=3)
    if not np.linalg.norm(flat @ x - b.ravel()) < _WORST * size:
        raise Failed("the derivative with respect to φ is not found: its equations are nearly singular")
    return x.reshape(b.shape)
