"""A problem: a domain, the conditions on its unknowns, and the law of its parameter."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from .condition import Condition, asks_for
from .domain import Box, Region
from .points import Points, is_concrete
from .rules import LowDiscrepancy


class Problem(eqx.Module):
    """A PDE with parameters.

    Arguments:

    - `domain`: a `Box` of named coordinates.
    - `conditions`: `Fit`, `Enforce` and `Energy` conditions, in any number and mixture.
    - `parameter`: the law of φ, a function `key -> phi` of any pytree. Needed for training; it also
      says what shape a φ must have. Left out: the problem takes any φ, or None.
    - `unknowns`: the names of the unknowns. With one, conditions get its jet; with several, an object
      with a jet for each: `w.u.d("x")`.
    """

    domain: Box
    conditions: tuple[Condition, ...]
    parameter: Callable[[PRNGKeyArray], Any] | None
    unknowns: tuple[str, ...]
    # Which of `sets()` each condition holds on. Found once: inside `jit` points that are one object here
    # are several.
    places: tuple[int, ...] = eqx.field(static=True)
    # One φ as shapes; None without a law. Found once: a trace of the law takes longer than many a solve.
    phi_like: Any

    def __init__(
        self,
        domain: Box,
        conditions: Sequence[Condition],
        parameter: Callable[[PRNGKeyArray], Any] | None = None,
        unknowns: Sequence[str] = ("u",),
    ):
        if not isinstance(domain, Box):
            raise TypeError(f"Problem: `domain` must be a Box; found {type(domain).__name__}.")
        if isinstance(conditions, Condition):
            raise TypeError("Problem: `conditions` must hold Fit, Enforce and Energy, in a list.")
        if not conditions:
            raise ValueError("Problem: `conditions` is empty; state at least one.")
        for condition in conditions:
            if not isinstance(condition, Condition):
                raise TypeError(
                    "Problem: `conditions` must hold Fit, Enforce and Energy; "
                    f"found {type(condition).__name__}."
                )
        if not unknowns or len(set(unknowns)) != len(unknowns) or isinstance(unknowns, str):
            raise ValueError(f"Problem: `unknowns` must be distinct names; found {unknowns!r}.")
        self.domain, self.conditions = domain, tuple(conditions)
        self.parameter, self.unknowns = parameter, tuple(unknowns)
        self.places = _places([condition.on for condition in conditions])
        self.phi_like = None if parameter is None else jax.eval_shape(parameter, jr.key(0))
        if parameter is not None:
            self._rehearse(self.phi_like)

    def draw(self, size: int, key: PRNGKeyArray | None = None) -> tuple[Points, ...]:
        """Points for each distinct set that conditions hold on, in the order they are named.

        Sets without a number of their own get one that suits a basis of `size` functions: see
        `default_count`. Without a key the points are always the same.
        """
        sets = self.sets()
        keys = [None] * len(sets) if key is None else list(jr.split(key, len(sets)))
        return tuple(
            self._draw_set(index, on, size, key)
            for index, (on, key) in enumerate(zip(sets, keys, strict=True))
        )

    def fresh(self, size: int) -> tuple[Points, ...]:
        """Points that no solve has seen, to check on: a quarter as many as those of `draw`, always the
        same, and of low discrepancy whatever rule a region has. Given `Points` stay what they are."""
        few = max(size // 4, 16)

        def seen_anew(index: int, on: Any) -> Any:
            if not isinstance(on, Region):
                return on
            return replace(on, rule=LowDiscrepancy(default_count(self, index, few), start=0.25))

        key = jr.key(1) if any(callable(on) for on in self.sets()) else None
        return tuple(
            self._draw_set(index, seen_anew(index, on), few, key) for index, on in enumerate(self.sets())
        )

    def is_interior(self, index: int) -> bool:
        """Whether a set may lie inside of the domain: all but faces."""
        on = self.sets()[index]
        return not isinstance(on, Region) or on.sides == ((),)

    def also(self, *conditions: Condition) -> "Problem":
        """The same problem with further conditions, such as observed data."""
        return Problem(self.domain, (*self.conditions, *conditions), self.parameter, self.unknowns)

    def sets(self) -> list[Any]:
        """The distinct sets that conditions hold on."""
        return [self.conditions[self.places.index(place)].on for place in range(max(self.places) + 1)]

    def set_of(self, condition: Condition) -> int:
        """Which of `sets()` a condition holds on."""
        known = zip(self.conditions, self.places, strict=True)
        return next(place for one, place in known if one is condition)

    def names(self) -> tuple[str, ...]:
        """What reports call the conditions: their names, or their kind and number."""
        return tuple(c.name or f"{c.kind} {i}" for i, c in enumerate(self.conditions))

    def sample(self, key: PRNGKeyArray, count: int) -> Any:
        """`count` parameters drawn from the law, stacked along a first axis."""
        if self.parameter is None:
            raise ValueError("this Problem has no law: state it with `parameter=lambda key: ...`.")
        return jax.vmap(self.parameter)(jr.split(key, count))

    def check(self, phi: Any, batch: bool = False) -> Any:
        """φ as arrays, or a clear error: wrong structure, wrong shape, NaN."""
        phi = jax.tree.map(_number, phi)
        for leaf in jax.tree.leaves(phi):
            if is_concrete(leaf) and not np.all(np.isfinite(leaf)):
                raise ValueError("phi has entries that are NaN or infinite.")
            if batch and leaf.ndim == 0:
                raise ValueError("phi: with batch=True every array needs a first axis, one φ each.")
        if batch and len({leaf.shape[0] for leaf in jax.tree.leaves(phi)}) > 1:
            lengths = sorted({leaf.shape[0] for leaf in jax.tree.leaves(phi)})
            raise ValueError(
                f"phi: with batch=True all arrays need the same first axis; found {lengths}."
            )
        if self.parameter is None:
            return phi
        law = self.phi_like
        if str(jax.tree.structure(law)) != str(jax.tree.structure(phi)):
            raise ValueError(
                f"phi is built as {jax.tree.structure(phi)}, but the problem's parameter is built as "
                f"{jax.tree.structure(law)}."
            )
        for want, have in zip(jax.tree.leaves(law), jax.tree.leaves(phi), strict=True):
            if have.shape[batch:] != want.shape:
                raise ValueError(
                    f"phi has an array of shape {have.shape}, but the problem's parameter has shape "
                    f"{want.shape} there"
                    + (", after a first axis for the batch." if batch else ".")
                    + (" For many φ at once pass batch=True." if not batch else "")
                )
        return phi

    def _draw_set(self, index: int, on: Any, size: int, key: PRNGKeyArray | None) -> Points:
        if isinstance(on, Region):
            points = on.draw(key, default_count(self, index, size))
        elif isinstance(on, Points):
            points = on
        else:
            points = on(key)
            if not isinstance(points, Points):
                raise TypeError(
                    f"`on` is a function, so it must return Points; found {type(points).__name__}."
                )
        if points.coords.shape[1] != len(self.domain.names):
            raise ValueError(
                f"points have {points.coords.shape[1]} coordinates; the domain has "
                f"{len(self.domain.names)}: {', '.join(self.domain.names)}."
            )
        return points

    def _rehearse(self, phi: Any) -> None:
        """Calls every condition once on shapes, so that a mistake in one shows where it is stated."""
        for condition in self.conditions:
            if isinstance(condition.on, Region | Points):
                points = self._draw_set(0, condition.on, 1, jr.key(0))
                asks_for(condition, self.unknowns, self.domain.names, points, phi)


def default_count(problem: Problem, index: int, size: int) -> int:
    """How many points a set without a number of its own gets for a basis of `size` functions.

    The interior: twice as many rows as functions for `Fit` and `Energy`, and half as many for a set
    with `Enforce` conditions, so that they can hold exactly. A face has one dimension less:
    4 · size^((d−1)/d), at most as many as the interior.
    """
    on = problem.sets()[index]
    here = [c for c, place in zip(problem.conditions, problem.places, strict=True) if place == index]
    inside = max(1, size // 2) if any(c.kind == "Enforce" for c in here) else 2 * size
    if not isinstance(on, Region) or on.sides == ((),):
        return inside
    d = len(problem.domain.names)
    return max(len(on.sides), min(inside, round(4 * size ** ((d - 1) / d))))


def _places(wanted: list[Any]) -> tuple[int, ...]:
    """For each of the sets its number among the distinct ones, in the order they are named."""
    distinct: list[Any] = []
    for on in wanted:
        if not any(_same(on, other) for other in distinct):
            distinct.append(on)
    return tuple(
        next(place for place, other in enumerate(distinct) if _same(on, other)) for on in wanted
    )


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, Region) and isinstance(b, Region) and a == b)


def _number(leaf: Any) -> Any:
    if not eqx.is_array_like(leaf):
        raise TypeError(f"phi must be made of numbers and arrays; found {type(leaf).__name__}.")
    return jnp.asarray(leaf)
