"""An energy on levels of cells, each halved where a richer space would lower it most.

What half as wide splines would lower the energy by is about the sum over them of slope²/curvature, one
by one. Errors are estimated from how much values changed with the last level, and how much that sum
fell.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy

from ..answer import Piece
from ..cells.mesh import Mesh
from ..effort import Effort, Stop
from ..inverse import Failed
from ..rows import Equations
from .forms import Form, Held
from .minimise import Local, Minimiser
from .sites import Inside, Sites, on_boundary
from .space import Splines
from .splines import Hierarchy

_MOST = {1: 20_000, 2: 150_000, 3: 90_000}  # unknowns
_MOST_LEVELS = 40
_FIRST = {1: 8, 2: 4, 3: 2}  # cells along the shortest side
_BULK = 0.8  # of what could be gained: so much of it the next level has
# Each level holds the last one, so that energies fall steadily, and with them errors.
_CAUTION = 2.0
_TRIES = 60  # of least squares for the forces that hold values
_STIFF = 10.0  # times the degree squared: how values are held, beside the energy of a cell


class Levels:
    """`C` are the coefficients in `space`; `estimates` the relative error of each unknown."""

    def __init__(self, equations: Equations, tolerance: float, effort: Effort):
        self.equations, self.tolerance, self.effort = equations, tolerance, effort
        self.reading = reading = equations.reading
        low, high = np.asarray(reading.problem.domain.bounds, float).T
        self.d = len(low)
        self.order = max(len(e.axes) for i in reading.energies for e in reading.entries[i])
        self.p = max(self.order + 1, _degree(tolerance, self.d))
        self.mesh = Mesh.uniform(low, high, _FIRST[self.d])
        # An edge of the boundary in a part of this side is missed by a share of its volume, of which
        # there are the fewer the smaller they are: errors go with the square of both.
        finest = 0.2 * np.sqrt(tolerance) * float(np.linalg.norm(high - low))
        self.inside = Inside(reading, self.p + 1, 0.3 * tolerance**0.25, finest)
        self.space: Splines | None = None
        self.C = np.zeros((0, 0))
        self.gain, self.change, self.count, self.last = np.inf, np.inf, 0, 0.0
        self.estimates = dict.fromkeys(reading.problem.unknowns, np.inf)

    @property
    def pieces(self) -> list[Piece]:
        if self.space is None:
            return []
        values = {u: self.C[:, k][None] for k, u in enumerate(self.space.unknowns)}
        return [Piece(0.0, 1.0, self.space, 1, values)]

    def run(self) -> None:
        """Raises `Stop` where it ends above the tolerance."""
        while not max(self.estimates.values()) <= self.tolerance:
            if self.space is not None and self.space.size > _MOST[self.d]:
                raise Stop(f"{self.space.size} functions are the most there may be.")
            if self.count >= _MOST_LEVELS:
                raise Stop(f"{self.count} levels of cells are the most there may be.")
            self.effort.require()
            try:
                self._next_level()
            except Failed as failure:
                raise Stop(f"level {self.count + 1} was not solved: {failure}.") from failure

    def _next_level(self) -> None:
        began = self.effort.seconds
        inside, has = self.inside.on(self.mesh)
        functions = Hierarchy(self.mesh, has, self.p)
        space = Splines(self.equations, functions)
        longer = 1.0 if self.space is None else (space.size / self.space.size) ** 1.3
        self.effort.allow(space.size)
        self.effort.foresee(self.last, self.effort.memory, longer)
        form = self._form(functions, inside)
        start, local, is_flat = self._started(form)
        target = max(0.01 * self.tolerance, 0.01 * min(self.change, 1.0))
        minimiser = Minimiser(
            form, inside, self.reading.linear, self.effort, target, 0.01 * self.tolerance
        )
        C = minimiser.run(start, local, is_flat, check=self.space is None)
        richer, gains = self._gains(form, C)
        self._measure(space, C, inside, float(gains.sum()))
        self.space, self.C = space, C
        wanted = richer.on_leaves(_most(gains, _BULK))
        marks = np.zeros(len(self.mesh), bool)
        marks[self.mesh.locate(richer.mesh.middles[wanted])] = True
        self.mesh = self.mesh.refined(marks)
        self.last = self.effort.seconds - began

    def _form(self, functions: Hierarchy, inside: Sites) -> Form:
        sites = self._sites(functions, inside, self.reading.rest)
        held = {
            i: Held(
                np.zeros((len(sites[i].weights), self.reading.rows[i])), np.ones(len(sites[i].weights))
            )
            for i in self.reading.rest
            if i not in self.reading.energies
        }
        return Form(self.equations, functions, sites, held)

    def _sites(self, functions: Hierarchy, inside: Sites, some: Iterable[int]) -> dict[int, Sites]:
        is_inside = lambda i: self.reading.problem.conditions[i].on.sides == ((),)
        around = lambda i: on_boundary(self.reading, i, functions, self.p + 1)
        return {i: inside if is_inside(i) else around(i) for i in some}

    def _started(self, form: Form) -> tuple[dict[int, np.ndarray], Local, bool]:
        """What conditions read of the last level, their slopes and curvatures there, and whether there
        was no curvature, as of |∇u|⁴ at zero: then that of the squares of all that is read is taken."""
        start = {i: self._read(form.sites[i], i) for i in form.sites}
        energies = {i: form.local(i, start[i]) for i in self.reading.energies}
        is_flat = not self.reading.linear and not any(H.any() for _, H in energies.values())
        if is_flat:
            energies = {
                i: (G, form.sites[i].weights[:, None, None] * np.eye(G.shape[1]))
                for i, (G, _) in energies.items()
            }
        for i, held in form.held.items():
            held.stiffness = self._stiffness(form, i, {j: H for j, (_, H) in energies.items()})
        local = {i: energies.get(i) or form.local(i, start[i]) for i in form.sites}
        slopes, curvatures = ({i: both[k] for i, both in local.items()} for k in (0, 1))
        return start, (slopes, curvatures), is_flat

    def _read(self, sites: Sites, index: int) -> np.ndarray:
        entries = self.reading.entries[index]
        v = np.zeros((len(sites.weights), len(entries)))
        if self.space is not None and not self.reading.linear:
            for e, entry in enumerate(entries):
                orders = tuple(entry.axes.count(a) for a in range(self.d))
                u = self.space.unknowns.index(entry.unknown)
                v[:, e] = self.space.values(entry.unknown, sites.coords, orders) @ self.C[:, u]
        return v

    def _stiffness(self, form: Form, index: int, curvatures: dict[int, np.ndarray]) -> np.ndarray:
        """1/ε: some times the energy of a cell per area and u², in the cell of each point."""
        mesh = form.functions.mesh
        rows = self.reading.entries[index]
        read = {e.unknown for e in rows}
        total, volume = np.zeros(len(mesh)), np.zeros(len(mesh))
        for i, H in curvatures.items():
            sites, entries = form.sites[i], self.reading.entries[i]
            if self.reading.problem.conditions[i].on.sides != ((),):
                continue
            mine = [e for e, f in enumerate(entries) if f.unknown in read and len(f.axes) == self.order]
            most = np.max([np.abs(H[:, e, e]) for e in mine], axis=0) if mine else 0 * sites.weights
            total += np.bincount(sites.leaf, most, len(mesh))
            volume = np.maximum(volume, np.bincount(sites.leaf, sites.weights, len(mesh)))
        mean = total / np.where(volume > 0, volume, 1.0)
        typical = total.sum() / volume.sum() or 1.0
        leaf = form.sites[index].leaf
        side = mesh.sides[leaf].min(axis=1)
        steep = 2 * self.order - 1 - 2 * max(len(e.axes) for e in rows)
        return _STIFF * self.p**2 * np.maximum(mean[leaf], 1e-3 * typical) / side**steep

    def _gains(self, form: Form, C: np.ndarray) -> tuple[Hierarchy, np.ndarray]:
        """Splines of cells half as wide, and what each of them would lower the energy by, about."""
        finer = self.mesh.halved(form.functions.inside)
        inside, has = self.inside.on(finer)
        functions = Hierarchy(finer, has, self.p)
        same = Hierarchy(finer, has, self.p, form.functions.active)
        sites = self._sites(functions, inside, self.reading.energies)
        now = Form(self.equations, same, sites, {}, keep=False)
        richer = Form(self.equations, functions, sites, {}, keep=False)
        slope = richer.slope({i: now.slopes(i, now.read(C, i)) for i in sites})
        around = {i: form.sites[i] for i in sites}
        moved = {i: at.moved(functions.locate(at.coords)) for i, at in around.items()}
        rough = Form(self.equations, functions, moved, {}, keep=False)
        diagonal = rough.diagonal({i: form.local(i, form.read(C, i))[1] for i in sites})
        least = 1e-8 * diagonal.max(axis=0)
        scale = np.where(diagonal > least, 1 / np.sqrt(np.maximum(diagonal, least)), 0.0)
        gaps, forces = np.zeros(functions.size), []
        for i, held in form.held.items():
            at = form.sites[i]
            v = form.read(C, i)
            r, J = self.equations.rows(i, at.where, v)
            gap = at.weights * held.stiffness * (r**2).sum(axis=1) / (2 * _STIFF * self.p**2)
            near = functions.values(at.coords, functions.locate(at.coords), (0,) * self.d)
            gaps += near.T @ gap
            forces += self._forces(functions, i, at, J)
        left = scale * slope
        if forces:
            left = _without(left, scipy.sparse.vstack(forces, "csr"), scale)
        return functions, gaps + (left**2).sum(axis=1) / 2

    def _forces(self, functions: Hierarchy, index: int, at: Sites, J: np.ndarray) -> list[Any]:
        """For each row of a condition that holds values how a force at each point works on functions,
        (points, unknowns × functions)."""
        unknowns, found = self.reading.problem.unknowns, []
        leaf = functions.locate(at.coords)
        for k in range(J.shape[1]):
            blocks = [scipy.sparse.csr_matrix((len(leaf), functions.size)) for _ in unknowns]
            for e, entry in enumerate(self.reading.entries[index]):
                orders = tuple(entry.axes.count(a) for a in range(self.d))
                weights = scipy.sparse.diags(np.sqrt(at.weights) * J[:, k, e])
                u = unknowns.index(entry.unknown)
                blocks[u] = blocks[u] + weights @ functions.values(at.coords, leaf, orders)
            found.append(scipy.sparse.hstack(blocks, "csr"))
        return found

    def _measure(self, space: Splines, C: np.ndarray, inside: Sites, gain: float) -> None:
        """Estimates, from the values of this level and the one before at points inside."""
        shares, orders = inside.weights / inside.weights.sum(), (0,) * self.d
        now = space.functions.values(inside.coords, inside.leaf, orders) @ C
        sizes = np.sqrt(shares @ now**2)
        if self.space is not None:
            before = self.space.values(space.unknowns[0], inside.coords, orders) @ self.C
            gaps = np.sqrt(shares @ (now - before) ** 2)
            changes = gaps / (np.maximum(sizes, 1e-3 * sizes.max()) if sizes.any() else 1.0)
            # Errors of values fall like those of the energy: like the square of those of slopes.
            change, fall = float(changes.max()), gain / self.gain if self.gain else 0.0
            rate = float(np.clip(max(fall, change / self.change), 0.25, 0.9))
            share, self.change = _CAUTION * rate / (1 - rate), change
            self.estimates = {u: share * float(x) for u, x in zip(space.unknowns, changes, strict=True)}
        self.gain, self.count = gain, self.count + 1
        self.effort.tell(None, f"{space.size} functions, error {max(self.estimates.values()):.1e}")


def _without(left: np.ndarray, forces: Any, scale: np.ndarray) -> np.ndarray:
    """Scaled slopes less what forces that hold values can take: those forces are not known better than
    this level's functions feel them."""
    A = (forces @ scipy.sparse.diags(scale.T.ravel())).T.tocsr()
    side = left.T.ravel()
    mu = scipy.sparse.linalg.lsqr(A, side, iter_lim=_TRIES)[0]
    return (side - A @ mu).reshape(left.T.shape).T


def _most(gains: np.ndarray, bulk: float) -> np.ndarray:
    """The fewest functions that hold this share of the whole."""
    order = np.argsort(-gains)
    ahead = np.cumsum(gains[order]) - gains[order]
    marks = np.zeros(len(gains), bool)
    marks[order] = ahead < bulk * gains.sum()
    return marks


def _degree(tolerance: float, d: int) -> int:
    digits = -np.log10(tolerance)
    return int(np.clip(round(1.0 + digits / 2), 2, 5 if d < 3 else 3))
