"""What training makes small: the residual that is left, or the energy, for one φ.

hard   ω is the layer's solution on the points it was given; the loss is taken on fresh ones
soft   ω is what the network predicts (`basis.weights(phi)`, or ones); the same loss, all points
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..basis import basis as bases
from ..basis.basis import BasisLike
from ..layer.implicit import constant
from ..layer.layer import weights_of
from ..layer.solvers import GaussNewton
from ..layer.system import build
from ..state.points import Points
from ..state.problem import Problem
from ..state.rules import Gauss, Grid
from ..support.status import Status
from ..support.types import Phi

METHODS, MEANS = ("hard", "soft"), ("log", "mean")

Sets = tuple[Points, ...]


def hard(
    problem: Problem,
    loss_problem: Problem,
    basis: BasisLike,
    phi: Phi,
    points: Sets,
    fresh: Sets,
    solver: GaussNewton,
) -> tuple[Float[Array, ""], Int[Array, ""]]:
    """What the conditions of `loss_problem` leave on fresh points after the layer has solved `problem`,
    and the solve's status."""
    basis = bases.specialise(basis, phi)
    if has_envelope(problem, loss_problem):
        # ω minimises the energy that is the loss, so the loss does not change with ω.
        system = build(problem, constant(basis), phi, points, materialise=solver.linear.direct)
        outcome = weights_of(system, solver)
        return residual_loss(loss_problem, basis, phi, fresh, constant(outcome.weights)), outcome.code
    outcome = weights_of(build(problem, basis, phi, points, materialise=solver.linear.direct), solver)
    return residual_loss(loss_problem, basis, phi, fresh, outcome.weights), outcome.code


def soft(
    loss_problem: Problem, basis: BasisLike, phi: Phi, fresh: Sets
) -> tuple[Float[Array, ""], Int[Array, ""]]:
    """What the conditions leave with the weights that the network itself predicts."""
    basis = bases.specialise(basis, phi)
    sizes = bases.sizes(basis, loss_problem.unknowns, len(loss_problem.domain.names), phi)
    weights = bases.predicted(basis, loss_problem.unknowns, phi, sizes)
    return residual_loss(loss_problem, basis, phi, fresh, weights), jnp.asarray(int(Status.PREDICTED))


def residual_loss(
    loss_problem: Problem, basis: BasisLike, phi: Phi, points: Sets, weights: Float[Array, " N"]
) -> Float[Array, ""]:
    """Half the weighted mean squares of all rows, and the energies."""
    system = build(loss_problem, basis, phi, points, materialise=False)
    return system.objective(weights) + 0.5 * jnp.sum(system.rows(weights, "Enforce") ** 2)


def has_envelope(problem: Problem, loss_problem: Problem) -> bool:
    """Whether ω minimises the loss itself: energies alone, on points that are always the same."""
    fixed = lambda on: isinstance(on, Points) or isinstance(getattr(on, "rule", None), Gauss | Grid)
    alone = all(condition.kind == "Energy" for condition in problem.conditions)
    return loss_problem is problem and alone and all(map(fixed, problem.sets()))


def mean_over_phi(losses: Float[Array, " batch"], mean: str, energy: bool) -> Float[Array, ""]:
    """The plain mean, or the mean of logarithms: easy and hard φ then count alike.

    An energy may be negative, and what is above its minimum is not known: its mean is always plain.
    """
    if energy or mean == "mean":
        return jnp.mean(losses)
    return jnp.mean(jnp.log(losses + jnp.finfo(losses.dtype).tiny))
