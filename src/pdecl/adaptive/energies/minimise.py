"""Where an energy is least: Newton's method, and multipliers for the values that are held."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from ..effort import Effort
from ..inverse import Failed
from .cholesky import Cholesky, Front, Indefinite, dissect
from .forms import Form
from .sites import Sites

_RIDGE = 1e-12  # of the scaled diagonal: what a function with hardly anything inside may do is left open
_NOTHING = 1e-15  # of the largest diagonal: there is nothing inside
_CORRECTIONS = 2
_ROUNDS = 6  # of multipliers
_STEPS = 60
_SHORTEST = 1e-6
_DECREASE = 1e-4  # of what the slope promises
_UNHELD = 1e-12
_SAMPLES = 5000
_INVERSE_STEPS = 6

NOT_CONVEX = (
    "the energy is not convex: there is a direction in which it curves downwards, so that nothing is "
    "its least value"
)
UNBOUNDED = (
    "Newton's method finds ever lower energies and ever larger u: the energy has no least value, or "
    "only far from where it starts"
)
UNHELD = (
    "the energy does not change in some direction, such as u plus a constant or a motion of the whole: "
    "state values that are held on a part of the boundary, or a term that holds them inside"
)

Local = tuple[dict[int, np.ndarray], dict[int, np.ndarray]]  # slopes and curvatures of each condition


@dataclass
class Inverse:
    """Solves with a curvature, scaled to a diagonal of ones. Residuals are of the matrix itself, so that
    the ridge is corrected for."""

    matrix: Any
    scale: np.ndarray
    factors: Cholesky

    def __call__(self, side: np.ndarray) -> np.ndarray:
        flat, x = side.ravel(), np.zeros(side.size)
        for _ in range(1 + _CORRECTIONS):
            x += self.roughly(flat - self.matrix @ x)
        return x.reshape(side.shape)

    def roughly(self, side: np.ndarray) -> np.ndarray:
        return self.scale * self.factors.solve(self.scale * side)


class Minimiser:
    """Of one form. `inside`: the points by which changes are measured, a condition's."""

    def __init__(
        self, form: Form, inside: Sites, linear: bool, effort: Effort, target: float, least: float
    ):
        self.form, self.linear, self.effort = form, linear, effort
        self.target, self.least = target, least
        some = slice(None, None, max(1, len(inside.weights) // _SAMPLES))
        self.samples = form.functions.values(
            inside.coords[some], inside.leaf[some], (0,) * form.functions.d
        )
        self.shares = inside.weights[some] / inside.weights[some].sum()
        self._fronts: list[Front] | None = None

    def run(
        self, start: dict[int, np.ndarray], local: Local, is_flat: bool = False, check: bool = False
    ) -> np.ndarray:
        """Coefficients (functions, unknowns) from what conditions read of a start, (points, entries),
        and its slopes and curvatures. `is_flat`: the energy has no curvature there, and that of another
        is given to begin with; `check`: whether it is seen to that something holds u."""
        form = self.form
        slopes, curvatures = local
        inverse = self._first(curvatures)
        if check:
            self.require_held(inverse)
        begin = np.zeros(self._shape)
        if any(v.any() for v in start.values()):
            pulled = {i: np.einsum("nef,nf->ne", H, start[i]) for i, H in curvatures.items()}
            begin = inverse(form.slope(pulled))
        elif is_flat:
            begin = inverse(-form.slope(slopes))
        lower = (lambda C: C + inverse(-form.slope(self._at(C)[0]))) if self.linear else self._newton
        C = lower(begin)
        for _ in range(_ROUNDS if form.held else 0):
            self._correct(C)
            before, C = C, lower(C)
            if self.change(before, C) < min(self.target, self.least):
                break
        return C

    def _first(self, curvatures: dict[int, np.ndarray]) -> Inverse:
        try:
            return self._inverse(curvatures)
        except Indefinite:
            if self.linear:
                raise Failed(NOT_CONVEX) from None
        return self._inverse({i: _convex(H) for i, H in curvatures.items()})

    def change(self, C: np.ndarray, D: np.ndarray) -> float:
        """How far D is from C, relative to the size of D, by values at points inside."""
        gaps, sizes = (np.sqrt(self.shares @ (self.samples @ X) ** 2) for X in (D - C, D))
        return float((gaps / (np.maximum(sizes, 1e-3 * sizes.max()) if sizes.any() else 1.0)).max())

    @property
    def _shape(self) -> tuple[int, int]:
        return self.form.functions.size, len(self.form.unknowns)

    def require_held(self, inverse: Inverse) -> None:
        """That no u of size one has an energy of nothing: the least of uᵀKu/uᵀMu, M the mass, by inverse
        iteration."""
        M = self.samples.T @ scipy.sparse.diags(self.shares) @ self.samples
        x = np.random.default_rng(0).standard_normal(self._shape)
        for _ in range(_INVERSE_STEPS):
            x = inverse.roughly((M @ x).ravel()).reshape(self._shape)
            x /= np.sqrt((x * (M @ x)).sum())
        least = float(x.ravel() @ (inverse.matrix @ x.ravel()))
        most = inverse.matrix.diagonal().sum() / (M.diagonal().sum() * len(self.form.unknowns))
        if not least > _UNHELD * most:
            raise Failed(UNHELD)

    def _at(self, C: np.ndarray) -> Local:
        found = {i: self.form.local(i, self.form.read(C, i)) for i in self.form.sites}
        return {i: G for i, (G, _) in found.items()}, {i: H for i, (_, H) in found.items()}

    def _correct(self, C: np.ndarray) -> None:
        """λ + r/ε is the force that holds the values."""
        for i, held in self.form.held.items():
            where = self.form.sites[i].where
            r, _ = self.form.equations.rows(i, where, self.form.read(C, i))
            held.multipliers = held.multipliers + held.stiffness[:, None] * r

    def _newton(self, C: np.ndarray) -> np.ndarray:
        value, small = self.form.value(C), 0
        if not np.isfinite(value):
            C, value = 0 * C, self.form.value(0 * C)
        for _ in range(_STEPS):
            slopes, curvatures = self._at(C)
            g = self.form.slope(slopes)
            step = self._descent(curvatures, -g)
            promised = float((g * step).sum())
            if not np.isfinite(promised):
                raise Failed("the energy or a derivative of it is not finite")
            length, new, there = 1.0, C, value
            while length > _SHORTEST:
                new = C + length * step
                there = self.form.value(new)
                if np.isfinite(there) and there <= value + _DECREASE * length * promised:
                    break
                length /= 2
            flat = -promised <= 1e-13 * max(abs(value), abs(there), 1e-300)
            if length <= _SHORTEST and not flat:
                raise Failed("Newton's method finds no step that lowers the energy")
            moved = self.change(C, new)
            C, value = new, there
            small = small + 1 if moved < 0.1 * self.target and length == 1.0 else 0
            if small or flat:
                return C
        raise Failed(UNBOUNDED)

    def _descent(self, curvatures: dict[int, np.ndarray], side: np.ndarray) -> np.ndarray:
        try:
            return self._inverse(curvatures)(side)
        except Indefinite:
            return self._inverse({i: _convex(H) for i, H in curvatures.items()})(side)

    def _inverse(self, curvatures: dict[int, np.ndarray]) -> Inverse:
        form = self.form
        if not all(np.isfinite(H).all() for H in curvatures.values()):
            raise Failed("the energy or a derivative of it is not finite")
        K = form.curvature(curvatures)
        self.effort.factorisations += 1
        self.effort.steps += 1
        diagonal = K.diagonal()
        top = diagonal.max(initial=0.0)
        if not top > 0:
            raise Failed(NOT_CONVEX if (diagonal < 0).any() else UNHELD)
        if diagonal.min() < -1e-10 * top:
            raise Indefinite
        some = diagonal > _NOTHING * top
        scale = np.where(some, 1 / np.sqrt(np.where(some, diagonal, 1.0)), 0.0)
        scaled = scipy.sparse.diags(scale) @ K @ scipy.sparse.diags(scale)
        scaled = scaled + scipy.sparse.diags(np.where(some, _RIDGE, 1.0))
        if self._fronts is None:
            m = len(form.unknowns)
            pattern = _pattern(K, form.functions.size, m)
            self._fronts = dissect(pattern, form.functions.places, m)
        return Inverse(K, scale, Cholesky(scaled, self._fronts))


def _pattern(K: Any, n: int, m: int) -> Any:
    """Which functions touch, from a matrix of their unknowns."""
    coo = K.tocoo()
    ones = np.ones(len(coo.data), np.int8)
    pattern = scipy.sparse.csr_matrix((ones, (coo.row // m, coo.col // m)), (n, n))
    pattern.sum_duplicates()
    return pattern


def _convex(H: np.ndarray) -> np.ndarray:
    """Curvatures at points without their negative part."""
    values, vectors = np.linalg.eigh(H)
    return (vectors * np.maximum(values, 0.0)[:, None]) @ np.swapaxes(vectors, 1, 2)
