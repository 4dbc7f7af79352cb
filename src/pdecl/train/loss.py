"""What training makes small: the residual that is left, or the energy, for one φ.

hard   ω is the layer's solution on the points it was given; the loss is taken on fresh ones
soft   ω is what the network proposes (`basis.weights(phi)`, or ones); the same loss, all points
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..basis import basis as bases
from ..layer.implicit import constant
from ..layer.layer import weights_of
from ..layer.solvers import GaussNewton
from ..layer.system import System, build
from ..state.points import Points
from ..state.problem import Problem
from ..state.rules import Gauss, Grid
from ..support.status import Status

METHODS, MEANS = ("hard", "soft"), ("log", "mean")

Sets = tuple[Points, ...]


def hard(
    problem: Problem,
    judge: Problem,
    basis: Any,
    phi: Any,
    points: Sets,
    fresh: Sets,
    solver: GaussNewton,
) -> tuple[Float[Array, ""], Int[Array, ""]]:
    """What the conditions of `judge` leave on fresh points after the layer has solved `problem`,
    and the solve's status."""
    basis = bases.specialise(basis, phi)
    if has_envelope(problem, judge):
        # ω minimises the energy that is the loss, so the loss does not change with ω.
        system = build(problem, constant(basis), phi, points, hold_jets=solver.linear.direct)
        found = weights_of(system, solver)
        return left_over(judge, basis, phi, fresh, constant(found.weights)), found.code
    found = weights_of(build(problem, basis, phi, points, hold_jets=solver.linear.direct), solver)
    return left_over(judge, basis, phi, fresh, found.weights), found.code


def soft(judge: Problem, basis: Any, phi: Any, fresh: Sets) -> tuple[Float[Array, ""], Int[Array, ""]]:
    """What the conditions leave with the weights that the network itself proposes."""
    basis = bases.specialise(basis, phi)
    sizes = bases.sizes(basis, judge.unknowns, len(judge.domain.names), phi)
    weights = bases.proposed(basis, judge.unknowns, phi, sizes)
    return left_over(judge, basis, phi, fresh, weights), jnp.asarray(int(Status.GIVEN))


def left_over(
    judge: Problem, basis: Any, phi: Any, points: Sets, weights: Float[Array, " N"]
) -> Float[Array, ""]:
    """Half the weighted mean squares of all rows, and the energies."""
    return _total(build(judge, basis, phi, points, hold_jets=False), weights)


def has_envelope(problem: Problem, judge: Problem) -> bool:
    """Whether ω minimises the loss itself: energies alone, on points that are always the same."""
    fixed = lambda on: isinstance(on, Points) or isinstance(getattr(on, "rule", None), Gauss | Grid)
    alone = all(condition.kind == "Energy" for condition in problem.conditions)
    return judge is problem and alone and all(map(fixed, problem.sets()))


def _total(system: System, weights: Float[Array, " N"]) -> Float[Array, ""]:
    return system.objective(weights) + 0.5 * jnp.sum(system.rows(weights, "Enforce") ** 2)


def mean_over_phi(losses: Float[Array, " batch"], mean: str, energy: bool) -> Float[Array, ""]:
    """The plain mean, or the mean of logarithms: easy and hard φ then count alike.

    An energy may be negative, and what is above its minimum is not known: its mean is always plain.
    """
    if energy or mean == "mean":
        return jnp.mean(losses)
    return jnp.mean(jnp.log(losses + jnp.finfo(losses.dtype).tiny))
