"""How large an error the residuals leave room for: what the equation makes of them.

Each condition j has rows A_j v for a change v of u, at u, and a root mean square residual τ_j on points
that were not fitted. Any u + v with ‖A_j v‖ ≤ τ_j for all j leaves about as little of the conditions as
u does: nothing tells which of them is the solution. The largest v,

    max ‖v‖ / ‖u‖    over v = Σ p_i f_i    with    Σ_j ‖A_j v‖² / τ_j² ≤ 1,

is the root of the largest eigenvalue of M p = λ H p, with H = Σ_j A_jᵀA_j / τ_j² and M the mass matrix:
found by a few steps of inverse iteration, which cost one factorisation. Where a disturbance of the start
grows by e⁵, or a wall has no condition, a residual of 2% comes out as an error of 100%.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from jaxtyping import Array, Float, Int

from ..basis import basis as bases
from ..support.status import Status
from .batching import anywhere
from .implicit import constant
from .layer import default_ridge
from .residual import squares
from .solvers.base import LinearSolver, unrefined
from .solvers.gauss_newton import preconditioner
from .system import QuadraticModel, System, linearise

# A condition that holds far better than the worst one counts as held to this share of it; how often the
# inverse is applied; relative residuals that are too small for a large error: it would have to be
# 30,000 times as large.
_LEAST, _STEPS, _SMALL = 0.1, 10, 1e-5


def room_for_error(
    system: System,
    fresh: System,
    weights: Float[Array, " N"],
    measured: dict[str, Float[Array, ""]],
    code: Int[Array, ""],
    linear: LinearSolver,
) -> Float[Array, ""]:
    """The largest ‖v‖/‖u‖ of the head of this file, from below; zero where it cannot be large, or where
    a solve has failed anyway: a batch that has no other is not asked.

    Of a system whose functions are held, without energies. `fresh`: on points that were not fitted, on
    which its relative residuals were `measured`.
    """
    worst = jnp.max(jnp.stack([*measured.values()]))
    if system.count("Fit") + system.count("Enforce") <= weights.size:
        return jnp.zeros_like(worst)  # rows that leave u free on purpose: the shortest ω is asked for
    asked = (code == int(Status.SOLVED)) & (worst > _SMALL)
    # Without derivatives also by what a condition closes over.
    room = lambda w: _room(system, fresh, w, linear)
    held = constant(eqx.filter_closure_convert(room, weights))
    found = jax.lax.cond(anywhere(asked), lambda w: held(w), lambda w: jnp.zeros_like(worst), weights)
    return jnp.where(asked, found, 0.0)


def _room(
    system: System, fresh: System, weights: Float[Array, " N"], linear: LinearSolver
) -> Float[Array, ""]:
    rows = _rows(system, fresh, weights)
    values, scale = _values(system, weights)
    model = QuadraticModel(rows, jnp.zeros(0), None, None, jnp.zeros_like(weights), None, jnp.zeros(0))
    columns = model.gram(jnp.zeros_like(weights)).diagonal()
    columns = default_ridge(linear, weights.dtype) * jnp.where(
        columns > 0, columns, jnp.maximum(jnp.max(columns), 1.0)
    )
    inverse = preconditioner(model, columns, 0.0, unrefined(linear))
    nothing = jnp.zeros(0, weights.dtype)
    mass = lambda p: scale * (values @ p)

    def advance(_: int, p: Array) -> Array:
        p, _ = inverse(values.T @ (scale * mass(p)), nothing)
        return p / jnp.linalg.norm(mass(p))

    start = jnp.sin(1.0 + jnp.arange(weights.size, dtype=weights.dtype) ** 2)
    p = jax.lax.fori_loop(0, _STEPS, advance, start / jnp.linalg.norm(mass(start)))
    return 1 / jnp.sqrt(jnp.sum(rows.mv(p) ** 2) + jnp.sum(columns * p**2))


def _rows(system: System, fresh: System, weights: Float[Array, " N"]) -> lx.MatrixLinearOperator:
    """The rows A_j / τ_j of all conditions around u: the mean of those at the collocation points,
    between which a change of u can hide, and at fresh ones."""
    each = squares(fresh, weights)
    worst = jnp.max(jnp.concatenate([left / whole for left, whole in each.values()]))
    names, kept = system.problem.names(), []
    for at in (system, fresh):
        model = linearise(at, weights)
        for kind, rows in (("Fit", model.A), ("Enforce", model.C)):
            if rows is None:
                continue
            shares = []
            for i in at.indices(kind):
                left, whole = each[names[i]]
                tau = jnp.sqrt(2 * jnp.maximum(left, _LEAST**2 * worst * whole))
                shares.append(jnp.tile(1 / tau, len(at.sets[at.problem.places[i]])))
            kept.append(jnp.concatenate(shares)[:, None] * rows.as_matrix())
    return lx.MatrixLinearOperator(jnp.concatenate(kept))


def _values(
    system: System, weights: Float[Array, " N"]
) -> tuple[Float[Array, "n N"], Float[Array, " n"]]:
    """The functions at the points inside of the domain, one unknown below the other, and what makes the
    norm of u one there. An unknown that is next to nothing is held against the others."""
    problem, unknowns = system.problem, system.problem.unknowns
    inside = [points for i, points in enumerate(system.sets) if problem.is_interior(i)]
    coords = jnp.concatenate([points.coords for points in inside or system.sets])
    values = bases.evaluate(system.basis, unknowns, coords, system.phi, {()})
    blocks = [values[unknown, ()] for unknown in unknowns]
    fixed = bases.offsets(system.basis, unknowns, coords, system.phi, {()}) or {}
    u = [
        block @ share + fixed.get((unknown, ()), 0.0)
        for unknown, block, share in zip(unknowns, blocks, system.split(weights).values(), strict=True)
    ]
    sizes = jnp.stack([jnp.linalg.norm(x) for x in u])
    sizes = jnp.maximum(sizes, _LEAST * jnp.max(sizes))
    scale = jnp.repeat(1 / jnp.where(sizes > 0, sizes, 1.0), len(coords))
    return jax.scipy.linalg.block_diag(*blocks), scale
