"""Where a solve of nonlinear conditions starts, and what it tries when that leads nowhere.

The first attempt starts at u = 0, or nearby where u = 0 is a stationary point. Where it does not
converge, or ends where the conditions hold badly, the nonlinear terms are taken in by degrees
(continuation): with v the jet entries that an equation r reads, and a share s from 0 to 1, the rows

    (1 − s) (r(0) + Σ_k ∂r/∂v_k(0) v_k) + s r(v),    k over the entries in which r is affine by itself,

are solved, each share from the solution of the one before. At s = 0 they are affine: u u_x is left out
there, and so is a reaction u (1 − u), whose derivative at u = 0 makes solutions grow without bounds.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...state.affine import is_affine
from ...state.condition import located
from ..residual import relative_residuals
from ..system import QuadraticModel, System
from .gauss_newton import GaussNewton, search

# How many steps a share below one may take, and how well it is solved.
_LEVEL_STEPS, _LEVEL_RTOL = 20, 0.1


class _Path(eqx.Module):
    start: Float[Array, " N"]  # what the next attempt starts from
    share: Float[Array, ""]  # of the nonlinear terms in the next attempt
    pace: Float[Array, ""]
    reached: Float[Array, ""]  # the largest share solved, and its solution; negative before there is one
    base: Float[Array, " N"]
    best: tuple[Float[Array, " N"], Float[Array, " m"]]  # of the attempts with all of the terms
    value: Float[Array, ""]  # what is minimised, there
    converged: Bool[Array, ""]
    steps: Int[Array, ""]
    restarts: Int[Array, ""]
    done: Bool[Array, ""]


def reach(
    system: System,
    ridge: Float[Array, " N"],
    at_zero: QuadraticModel,
    initial: Float[Array, " N"] | None,
    solver: GaussNewton,
) -> tuple[Float[Array, " N"], Float[Array, " m"], Int[Array, ""], Bool[Array, ""]]:
    """ω, multipliers, steps taken, and whether they converged. Not differentiable.

    Each φ of a batch ends by itself; where all end with the first attempt, no other is made.
    """
    start = _first_start(at_zero, ridge) if initial is None else initial
    soften = _softening(system)
    if solver.restarts == 0 or soften is None:
        return search(system, ridge, start, solver, free_start=initial is None)
    roughly = replace(solver, rtol=_LEVEL_RTOL, max_steps=min(_LEVEL_STEPS, solver.max_steps))

    def value(weights: Array, multipliers: Array) -> Array:
        held = 0.5 * jnp.sum(system.rows(weights, "Enforce") ** 2)
        total = system.objective(weights) + 0.5 * jnp.sum(ridge * weights**2) + held
        return jnp.where(jnp.isfinite(total), total, jnp.inf)

    def attempt(path: _Path) -> _Path:
        whole, first = path.share == 1, path.restarts == 0
        weights, multipliers, steps, converged = search(
            soften(path.share), ridge, path.start, solver, roughly=(~whole, roughly),
            free_start=first if initial is None else False, idle=path.done,
        )  # fmt: skip
        found = value(weights, multipliers)
        # Converged counts for more than a lower value: what is minimised falls on for ever elsewhere.
        better = whole & jnp.where(converged == path.converged, found < path.value, converged)
        best = jax.tree.map(
            lambda new, old: jnp.where(better, new, old), (weights, multipliers), path.best
        )
        good = whole & converged & (misfit(system, weights) <= solver.restart_above)
        climbed = converged & ~whole
        base = jnp.where(climbed, weights, path.base)
        reached = jnp.where(climbed, path.share, path.reached)
        failed = ~converged & ~first
        pace = jnp.where(
            failed, path.pace / 4, jnp.where(climbed & (steps <= 6), 2 * path.pace, path.pace)
        )
        # The first share after a failed first attempt is none, and a quarter after that.
        share = jnp.where(first, 0.0, jnp.minimum(reached + pace, 1.0))
        pace = jnp.where(path.share == 0, 0.25, pace)
        share = jnp.where(~first & (path.share == 0), 0.25, share)
        stuck = failed & ((reached < 0) | (pace < 1e-3))
        restarts = path.restarts + 1
        return _Path(
            start=jnp.where(first, jnp.zeros_like(base), base),
            share=share,
            pace=pace,
            reached=reached,
            base=base,
            best=best,
            value=jnp.where(better, found, path.value),
            converged=jnp.where(better, converged, path.converged),
            steps=path.steps + steps,
            restarts=restarts,
            done=good | (whole & converged & ~first) | stuck | (restarts > solver.restarts),
        )

    number = lambda x: jnp.asarray(x, start.dtype)
    path = _Path(
        start, number(1.0), number(0.25), number(-1.0), start,
        (start, jnp.zeros(system.count("Enforce"), start.dtype)), number(jnp.inf),
        jnp.asarray(False), jnp.asarray(0), jnp.asarray(0), jnp.asarray(False),
    )  # fmt: skip
    path = jax.lax.while_loop(lambda path: ~path.done, attempt, path)
    return *path.best, path.steps, path.converged


def misfit(system: System, weights: Float[Array, " N"]) -> Float[Array, ""]:
    """The largest relative residual at the collocation points, of the conditions for whose terms a size
    is known there: not of u_x = 0 on a face where nothing inside reads u_x."""
    problem, entries = system.problem, system.plan.entries
    known = {
        (entry.unknown, entry.axes)
        for i, reads in enumerate(entries)
        if problem.is_interior(problem.places[i])
        for entry in reads
    }
    relative = relative_residuals(system, weights)
    sized = [
        relative[name]
        for name, reads in zip(problem.names(), entries, strict=True)
        if name in relative and {(entry.unknown, entry.axes) for entry in reads} <= known
    ]
    return jnp.max(jnp.stack([jnp.zeros((), weights.dtype), *sized]))


def _first_start(at_zero: QuadraticModel, ridge: Float[Array, " N"]) -> Float[Array, " N"]:
    """ω = 0; where no row changes with ω there although something is left, an ω of size one."""
    slope = at_zero.slope()
    if at_zero.C is not None:
        slope = slope + at_zero.C.T.mv(at_zero.c)
    left = jnp.any(at_zero.r != 0) | jnp.any(at_zero.c != 0)
    away = jnp.sin(1.0 + jnp.arange(ridge.size, dtype=ridge.dtype) ** 2)
    return jnp.where(left & jnp.all(slope == 0), away / jnp.linalg.norm(away), 0.0)


class _Softened(System):
    """A system with a share of its nonlinear terms. See the head of this file."""

    share: Any = 1.0
    # For each condition that has any: its equation without them, r(0) and ∂r/∂v(0), at each point.
    straight: tuple[tuple[Float[Array, "_n _rows"], Float[Array, "_n _rows _k"]] | None, ...] = ()

    def per_point(self, index: int, transform: Callable = lambda f: f) -> Callable:
        straight = self.straight[index]
        if straight is None:
            return System.per_point(self, index, transform)
        equation, where = self.equation(index), located(self.points(index))

        def at_point(
            z: dict, left: Array, slopes: Array, v: Float[Array, " k"]
        ) -> Float[Array, " rows"]:
            own = transform(
                lambda w: (1 - self.share) * (left + slopes @ w) + self.share * equation(z, w)
            )
            return own(v)

        return lambda stacked: jax.vmap(at_point)(where, *straight, stacked)


def _softening(system: System) -> Callable[[Array], System] | None:
    """The system as a function of the share of its nonlinear terms; None where no rows have any."""
    kinds = [condition.kind for condition in system.problem.conditions]
    bent = [not a and kind != "Energy" for a, kind in zip(system.plan.affine, kinds, strict=True)]
    if not any(bent):
        return None
    straight = tuple(_straight(system, i) if b else None for i, b in enumerate(bent))
    parts = {field.name: getattr(system, field.name) for field in fields(system)}
    return lambda share: _Softened(**parts, share=share, straight=straight)


def _straight(system: System, index: int) -> tuple[Float[Array, "n rows"], Float[Array, "n rows k"]]:
    """r(0), and ∂r/∂v(0) by the entries in which the equation is affine by itself; else zero."""
    zero = jnp.zeros((len(system.points(index)), len(system.plan.entries[index])), system.dtype)
    left, slopes = system.per_point(index)(zero), system.per_point(index, jax.jacfwd)(zero)
    # What is not a number at zero (the slope of a root of u) is nothing to start from.
    return jnp.nan_to_num(left), jnp.nan_to_num(slopes) * jnp.asarray(
        _own_affine(system, index), zero.dtype
    )


def _own_affine(system: System, index: int) -> tuple[bool, ...]:
    """For each entry that a condition reads, whether the condition is affine in it, all others fixed."""
    equation = system.equation(index)
    where = jax.tree.map(lambda a: a[0], located(system.points(index)))

    def judged(k: int) -> bool:
        answer: list[bool] = []

        def probe(others: Float[Array, " k"]) -> Array:
            own = lambda x: equation(where, [x if j == k else v for j, v in enumerate(others)])
            answer.append(is_affine(own, jnp.zeros((), system.dtype)))
            return others

        like = jax.ShapeDtypeStruct((), system.dtype)
        jax.eval_shape(probe, [like] * len(system.plan.entries[index]))
        return answer[0]

    return tuple(judged(k) for k in range(len(system.plan.entries[index])))
