"""All that the online program is made of, and the program."""

from dataclasses import replace
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
from ..layer.system import System
from ..parallel.devices import over_devices
from ..state.jet import Axes
from .forms import Held, Rows, Values
from .online import Iterate, Rules, first_iterate, fitted, going, iterated
from .statistics import PhiStatistics

# Of a batch in which some φ take more steps than others:
_TOGETHER = 1  # steps that all φ take
SHARES = (8, 32)  # then one φ in this many at a time: one step more, and all those that are left
SMALL = 128  # batches below this stay together


class Found(Outcome):
    """What the program returns for one φ, or for a batch; `weights` are those of the whole basis.
    `left`: ‖rows‖ / ‖u‖, of the whitened rows."""

    left: Float[Array, "*batch"] | None = None
    distance: Float[Array, "*batch"] | None = None
    values: dict[str, Float[Array, "*batch q"]] | None = None


class Core(Rows):
    """Held arrays, and the program that they serve.

    - `sets`: the chosen points. `jets`: what conditions read there of the r combinations of functions;
      None for functions that see φ.
    - `form`: what is held of the functions. For those that crease, `plan`, `jets` and `values` are of
      two unknowns, the smooth part and what is creased; the points, and `values`, hold the front's
      combinations too.
    - `whitening`: a matrix that multiplies the rows; None leaves them as they are.
    - `norm`: ‖norm · coefficients‖ is the size of u.
    - `at`, `values`: query points, and the combinations' values there, by unknown.
    - `lean`: whether all rows are fitted and at least as many as functions, so that the short way of
      `online.py` does; else the layer's own.
    """

    whitening: Float[Array, "m n"] | None
    norm: Float[Array, "r r"] | None
    statistics: PhiStatistics
    at: Float[Array, "q d"] | None
    values: Values | None
    rules: Rules
    solver: GaussNewton
    lean: bool = eqx.field(static=True)

    @property
    def modes(self) -> Float[Array, "N r"] | None:
        """The combinations of functions that neither see φ nor crease; None for others."""
        return self.form.modes if isinstance(self.form, Held) else None

    @property
    def whole_modes(self) -> Float[Array, "N r"] | None:
        """ω = whole_modes · (coefficients of the combinations); None where these are ω."""
        return self.form.modes

    def without_modes(self) -> "Core":
        """The same, whose weights are the coefficients of combinations; a crease keeps its modes."""
        return replace(self, form=Held(None)) if isinstance(self.form, Held) else self

    def at_points(self, at: Float[Array, "q d"], phi: Any) -> "Core":
        """The same with these query points."""
        return replace(self, at=at, values=tables(self, at, phi, ((),))[()])

    def one(self, phi: Any, iterate: Iterate | None = None) -> Found:
        """The answer for one φ; from an iterate, where steps were taken already."""
        with _precise():
            system, found, front = self.solved(_in_double(phi), iterate)
            modes = self.form.modes
            weights = found.weights if modes is None else modes @ found.weights
            shares, values = system.split(found.weights), None
            if self.at is not None:
                values = self.form.answers(self, phi, shares, front)
            return Found(
                weights, found.code, found.iterations, found.optimality, found.violation,
                left=self._left(system, found.weights),
                residual=system.residuals(found.weights),
                measured=relative_residuals(constant(system), constant(found.weights)),
                distance=constant(self.statistics.distance(phi)),
                values=values,
            )  # fmt: skip

    def iterate(self, phi: Any, so_far: Iterate | None = None) -> Iterate:
        """The steps for one φ, from the warm start or from where others ended. For a lean core."""
        with _precise():
            phi = _in_double(phi)
            return self._iterate(self.system(phi), phi, so_far)

    def solved(self, phi: Any, iterate: Iterate | None = None) -> tuple[System, Outcome, Outcome | None]:
        """The rows for one φ, the coefficients that they ask for, and those of its front."""
        front = self.form.front(phi)
        system = self.system(phi, front)
        if self.lean:
            iterate = self._iterate(system, phi) if iterate is None else iterate
            found = fitted(system, self.whitening, iterate, self.rules)
        else:
            found = weights_of(system, self.solver)
        return system, self.form.judged(found, front), front

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


@eqx.filter_jit
def tables(
    core: Core, at: Float[Array, "q d"], phi: Any, wanted: tuple[Axes, ...]
) -> dict[Axes, Values]:
    """What is stored for query points, of u and of its derivatives, some points at a time. `phi` is any:
    stored functions do not see it."""
    basis, unknowns = bases.specialise(core.form.inner(core.basis), phi), core.problem.unknowns

    def at_point(x: Float[Array, " d"]) -> dict[Axes, Any]:
        found = bases.evaluate(basis, unknowns, x[None], phi, set(wanted))
        of = lambda axes: {name: found[name, axes][0] for name in unknowns}
        return {axes: core.form.tables(of(axes), core.plan) for axes in wanted}

    return bases.in_chunks(at_point, at, 2048)


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


def in_rounds(core: Core, phis: Any) -> Iterate:
    """The iterates of a batch.

    Every φ of a batch that is computed together takes as many steps as the slowest, three times as many
    as most need. So all take a few; those that are not done take one more, an eighth of the batch at
    a time; and the few that are left go on by themselves until each is done.
    """
    count = len(jax.tree.leaves(phis)[0])
    if count < SMALL:
        return jax.vmap(core.iterate)(phis)
    eighth, few = (-(-count // share) for share in SHARES)

    def turns(core: Core, some: int, spare: int, found: Iterate) -> Iterate:
        """So many at a time, until no more than `spare` wait."""

        def turn(found: Iterate) -> Iterate:
            waiting_first = jnp.argsort(~going(found, core.rules), stable=True)
            numbers = waiting_first[:some]
            part = lambda tree: jax.tree.map(lambda leaf: leaf[numbers], tree)
            # Those that fill up a round have no step to take, and stay as they are.
            more = jax.vmap(core.iterate)(part(phis), part(found))
            return jax.tree.map(lambda old, new: old.at[numbers].set(new), found, more)

        waiting = lambda found: jnp.sum(going(found, core.rules)) > spare
        return jax.lax.while_loop(waiting, turn, found)

    found = jax.vmap(_with_steps(core, _TOGETHER).iterate)(phis)
    found = turns(_with_steps(core, _TOGETHER + 1), eighth, few, found)
    return turns(core, few, 0, found)


def _with_steps(core: Core, most: int) -> Core:
    return replace(core, rules=replace(core.rules, max_steps=min(most, core.rules.max_steps)))


def _precise() -> Any:
    """On a GPU a product of float32 matrices may otherwise be made of 19-bit numbers."""
    return jax.default_matmul_precision("highest")


def _in_double(phi: Any) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x, float) if eqx.is_inexact_array(x) else x, phi)
