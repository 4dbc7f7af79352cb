"""All that the online program is made of, and the program."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float

from ..basis import basis as bases
from ..layer.implicit import constant
from ..layer.layer import Outcome, weights_of
from ..layer.residual import relative_residuals
from ..layer.solvers import GaussNewton
from ..layer.system import Plan, System
from ..parallel.devices import over_devices
from ..state.jet import Entry
from ..state.points import Points
from ..state.problem import Problem
from ..support.status import Status
from .crease import CREASED, FRONT, SMOOTH, Crease
from .online import Iterate, Rules, first_iterate, fitted, iterated
from .rounds import in_rounds
from .snapshots import stored_system
from .statistics import PhiStatistics


class Found(Outcome):
    """What the program returns for one φ, or for a batch; `weights` are those of the whole basis.
    `left`: ‖rows‖ / ‖u‖, of the rows as they are weighed."""

    left: Float[Array, "*batch"] | None = None
    distance: Float[Array, "*batch"] | None = None
    values: dict[str, Float[Array, "*batch q"]] | None = None


class Core(eqx.Module):
    """Held arrays. Those that a basis that sees φ does not allow to be held are None.

    - `sets`: the chosen points. `jets`: what conditions read there of the r combinations of functions.
    - `modes`: ω = modes · (coefficients of the combinations).
    - `whitening`: a matrix that multiplies the rows; None leaves them as they are.
    - `norm`: ‖norm · coefficients‖ is the size of u.
    - `at`, `values`: query points, and the combinations' values there, by unknown.
    - `crease`: for functions that are creased along a front. Then `plan`, `jets` and `values` are those
      of two unknowns, the smooth part and what is creased; the points, and `values`, hold the front's
      combinations too; and the modes is the crease's.
    - `lean`: whether all rows are fitted and at least as many as functions, so that the short way of
      `online.py` does; else the layer's own.
    """

    problem: Problem
    basis: Any
    sets: tuple[Points, ...]
    plan: Plan = eqx.field(static=True)
    jets: tuple[dict[Entry, Float[Array, "_n _r"]], ...] | None
    modes: Float[Array, "N r"] | None
    whitening: Float[Array, "m n"] | None
    norm: Float[Array, "r r"] | None
    statistics: PhiStatistics
    at: Float[Array, "q d"] | None
    values: dict[str, Float[Array, "q _r"]] | None
    rules: Rules
    solver: GaussNewton
    lean: bool = eqx.field(static=True)
    crease: Crease | None = None

    @property
    def whole_modes(self) -> Float[Array, "N r"] | None:
        """ω = whole_modes · (coefficients of the combinations)."""
        return self.modes if self.crease is None else self.crease.modes

    def one(self, phi: Any, iterate: Iterate | None = None) -> Found:
        """The answer for one φ; from an iterate, where steps were taken already."""
        with _precise():
            system, found, front = self.solved(_in_double(phi), iterate)
            whole = self.whole_modes
            weights = found.weights if whole is None else whole @ found.weights
            return Found(
                weights, found.code, found.iterations, found.optimality, found.violation,
                left=self._left(system, found.weights),
                residual=system.residuals(found.weights),
                measured=relative_residuals(constant(system), constant(found.weights)),
                distance=constant(self.statistics.distance(phi)),
                values=None if self.at is None else self._at(phi, system.split(found.weights), front),
            )  # fmt: skip

    def iterate(self, phi: Any, so_far: Iterate | None = None) -> Iterate:
        """The steps for one φ, from the guess or from where others ended. For a lean core."""
        with _precise():
            phi = _in_double(phi)
            return self._iterate(self._system(phi)[0], phi, so_far)

    def solved(
        self, phi: Any, iterate: Iterate | None = None
    ) -> tuple[System, Outcome, Float[Array, " _r"] | None]:
        """The rows for one φ, the coefficients that they ask for, and those of its front."""
        system, front = self._system(phi)
        if self.lean:
            iterate = self._iterate(system, phi) if iterate is None else iterate
            found = fitted(system, self.whitening, iterate, self.rules)
        else:
            found = weights_of(system, self.solver)
        if front is None:
            return system, found, None
        code = jnp.where(front.code > Status.OVERDETERMINED, front.code, found.code)
        return system, eqx.tree_at(lambda f: f.code, found, code), front.weights

    def _system(self, phi: Any) -> tuple[System, Outcome | None]:
        front = None if self.crease is None else self.crease.front.solved(phi)[1]
        system = stored_system(
            self.problem, self.basis, phi, self.sets, self.plan, self.jets, self.crease,
            None if front is None else front.weights,
        )  # fmt: skip
        return system, front

    def _iterate(self, system: System, phi: Any, so_far: Iterate | None = None) -> Iterate:
        norm = jnp.eye(self.plan.size) if self.norm is None else self.norm
        if so_far is None:
            so_far = first_iterate(self.statistics.start(phi, self.plan.size))
        return iterated(system, self.whitening, norm, so_far, self.rules)

    def _left(self, system: System, weights: Float[Array, " r"]) -> Float[Array, ""]:
        rows, size = system.rows(weights, "Fit"), weights if self.norm is None else self.norm @ weights
        rows = rows if self.whitening is None else self.whitening @ rows
        size = jnp.linalg.norm(size)
        return constant(jnp.linalg.norm(rows) / jnp.where(size > 0, size, 1.0))

    def _at(
        self, phi: Any, shares: dict[str, Array], front: Float[Array, " _r"] | None
    ) -> dict[str, Array]:
        """u at the query points: one matrix product, where the functions' values are held."""
        assert self.at is not None
        if self.crease is not None:
            assert self.values is not None
            assert front is not None
            factor = self.crease.factor(self.values[FRONT], front)
            v, h = (self.values[name] @ shares[name] for name in (SMOOTH, CREASED))
            return {self.problem.unknowns[0]: v + factor * h}
        unknowns, basis = self.problem.unknowns, bases.specialise(self.basis, phi)
        if self.values is None:
            values = bases.combine(basis, unknowns, shares, self.at, phi, {()})
            found = {name: values[name, ()] for name in unknowns}
        else:
            found = {name: self.values[name] @ shares[name] for name in unknowns}
        fixed = bases.offsets(basis, unknowns, self.at, phi, {()}) or {}
        return {name: found[name] + fixed.get((name, ()), 0.0) for name in unknowns}


@eqx.filter_jit
def answer(core: Core, phi: Any, batch: bool, mesh: Mesh | None = None) -> Found:
    """The compiled function: one φ, or a batch of them, which a mesh may hold the parts of."""
    return over_devices(answer_all, mesh, core, phi) if batch else core.one(phi)


def answer_all(core: Core, phi: Any) -> Found:
    """The answers for a batch."""
    steps = core.lean and not all(core.plan.affine)
    if not steps:
        return jax.vmap(core.one)(phi)
    return jax.vmap(core.one)(phi, in_rounds(core, constant(phi)))


def _precise() -> Any:
    """On a GPU a product of float32 matrices may otherwise be made of 19-bit numbers."""
    return jax.default_matmul_precision("highest")


def _in_double(phi: Any) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x, float) if eqx.is_inexact_array(x) else x, phi)
