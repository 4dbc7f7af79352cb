"""A problem: a domain, the conditions on its unknowns, and the distribution of its parameter."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..support.mistakes import ask, found, in_words, require_arguments, require_key
from ..support.summary import Summarised, Summary, Table
from ..support.types import Phi
from .condition import Condition, asks_for, describe
from .domain import Box, Region
from .plots import plot_problem
from .points import Points, is_concrete
from .rules import LowDiscrepancy, require_count
from .shapes.domain import Domain

MANY = "For many φ at once: jax.vmap(lambda phi: pdecl.solve(problem, basis, phi))(phis)."


class Problem(Summarised, eqx.Module):
    """A PDE with parameters.

    Arguments:

    - `domain`: a `Box` of named coordinates.
    - `conditions`: `Fit`, `Enforce` and `Energy` conditions, in any number and mixture.
    - `parameter`: the distribution of φ, a function `key -> phi` of any pytree. Needed for training; it
      also says what shape a φ must have. Left out: the problem takes any φ, or None.
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
    # One φ as shapes; None without `parameter`. Found once: tracing it takes longer than many a solve.
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
        if not isinstance(conditions, list | tuple):
            raise TypeError(
                "Problem: `conditions` must hold Fit, Enforce and Energy, in a list; "
                f"found {found(conditions)}."
            )
        if not conditions:
            raise ValueError("Problem: `conditions` is empty; state at least one.")
        for condition in conditions:
            if not isinstance(condition, Condition):
                raise TypeError(
                    f"Problem: `conditions` must hold Fit, Enforce and Energy; found {found(condition)}."
                )
        if not _are_names(unknowns):
            raise ValueError(
                f'Problem: `unknowns` must be distinct names, ("u", "v"); found {unknowns!r}.'
            )
        self.domain, self.conditions = domain, tuple(conditions)
        self.parameter, self.unknowns = parameter, tuple(unknowns)
        _require_distinct(self.names())
        self.places = _places([condition.on for condition in conditions])
        for condition in conditions:
            self._require_place(condition)
        self.phi_like = None if parameter is None else _shapes_of(parameter)
        if parameter is not None:
            self._rehearse(self.phi_like)

    def draw(self, size: int, key: PRNGKeyArray | None = None) -> tuple[Points, ...]:
        """Points for each distinct set that conditions hold on, in the order they are named.

        Sets without a number of their own get one that suits a basis of `size` functions: see
        `default_count`. Without a key the points are always the same.
        """
        require_count("draw: `size`", size)
        if key is not None:
            require_key(key, "draw")
            return self._draw(size, key)
        with jax.ensure_compile_time_eval():  # inside `jit` too they are numbers
            return self._draw(size, None)

    def _draw(self, size: int, key: PRNGKeyArray | None) -> tuple[Points, ...]:
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
        with jax.ensure_compile_time_eval():
            return tuple(
                self._draw_set(index, seen_anew(index, on), few, key)
                for index, on in enumerate(self.sets())
            )

    def redraw(self, points: Sequence[Points], counts: Sequence[int]) -> tuple[Points, ...]:
        """That many points in each set, instead of those there are; what is given stays what it is."""
        each = zip(self.sets(), points, counts, strict=True)
        return tuple(
            replace(on, rule=None).draw(None, count) if isinstance(on, Region) else given
            for on, given, count in each
        )

    def is_interior(self, index: int) -> bool:
        """Whether a set may lie inside of the domain: all but faces."""
        on = self.sets()[index]
        return not isinstance(on, Region) or on.sides == ((),)

    def summary(self) -> Summary:
        header = ("condition", "kind", "where", "weight")
        table = [
            (name, condition.kind, condition.where(), condition.weight)
            for name, condition in zip(self.names(), self.conditions, strict=True)
        ]
        ranges = [f"{name} from {a:g} to {b:g}" for name, (a, b) in self.domain.ranges()]
        if isinstance(self.domain, Domain):
            dim = self.domain.shape.dim
            ranges = [f"{', '.join(self.domain.names[:dim])} in {self.domain.shape!r}", *ranges[dim:]]
        like = "any" if self.parameter is None else in_words(self.phi_like)
        rows = [("domain", ", ".join(ranges)), ("φ", like), ("conditions", Table(header, table))]
        return Summary(f"Problem for {', '.join(self.unknowns)}", rows)

    def plot(self, ax: Any = None, size: int = 200) -> Any:
        """A picture of the domain, the named parts of its boundary, the points for a basis of `size`
        functions, and normals; `ax`: Matplotlib axes to draw in."""
        return plot_problem(self, ax, size)

    def also(self, *conditions: Condition) -> "Problem":
        """The same problem with further conditions, such as observed data."""
        return Problem(self.domain, (*self.conditions, *conditions), self.parameter, self.unknowns)

    def sets(self) -> list[Any]:
        """The distinct sets that conditions hold on."""
        return [self.conditions[self.places.index(place)].on for place in range(max(self.places) + 1)]

    def names(self) -> tuple[str, ...]:
        """What reports call the conditions: their names, or their kind and number."""
        return tuple(c.name or f"{c.kind} {i}" for i, c in enumerate(self.conditions))

    def sample(self, key: PRNGKeyArray, count: int) -> Any:
        """`count` parameters drawn from the distribution, stacked along a first axis."""
        if self.parameter is None:
            raise ValueError(
                "this Problem has no distribution of φ: state it with `parameter=lambda key: ...`."
            )
        require_key(key, "sample")
        require_count("sample: `count`", count)
        return jax.vmap(self.parameter)(jr.split(key, count))

    def check(self, phi: Phi) -> Any:
        """φ as arrays, or a clear error: wrong structure, wrong shape, NaN."""
        return self._checked(phi, 0)

    def check_many(self, phis: Phi) -> Any:
        """The same for many φ, stacked along a first axis of every array."""
        phis = self._checked(phis, 1)
        lengths = sorted({leaf.shape[0] for leaf in jax.tree.leaves(phis)})
        if len(lengths) > 1:
            raise ValueError(f"phi: all arrays need the same first axis, one φ each; found {lengths}.")
        if lengths == [0]:
            raise ValueError("phi: the first axis, one φ each, has length 0: give at least one φ.")
        return phis

    def _checked(self, phi: Phi, axes: int) -> Any:
        phi = jax.tree.map(_number, phi)
        like = self.phi_like
        if like is not None and str(jax.tree.structure(like)) != str(jax.tree.structure(phi)):
            raise ValueError(f"phi is {in_words(phi)}; {_wanted(like, phi)}")
        for leaf in jax.tree.leaves(phi):
            if is_concrete(leaf) and not np.all(np.isfinite(leaf)):
                raise ValueError("phi has entries that are NaN or infinite.")
            if leaf.ndim < axes:
                raise ValueError("phi: every array needs a first axis, one φ each; found one number.")
        if like is None:
            return phi
        leaves = jax.tree_util.tree_leaves_with_path(like)
        for (path, want), have in zip(leaves, jax.tree.leaves(phi), strict=True):
            if have.shape[axes:] != want.shape:
                raise ValueError(
                    f"phi{jax.tree_util.keystr(path)} is {in_words(have)}, but by the problem's "
                    f"distribution it is {in_words(want)}"
                    + (", after a first axis for the batch." if axes else f". {MANY}")
                )
        return phi

    def check_points(self, points: Any, name: str = "points") -> tuple[Points, ...]:
        """Points for each of `sets()`, as `draw` returns them, or a clear error."""
        several = isinstance(points, tuple | list)
        wrong = [part for part in points if not isinstance(part, Points)] if several else [points]
        if wrong:
            raise TypeError(
                f"`{name}` must be what problem.draw(size, key) returns, a tuple with Points for each "
                f"of the {len(self.sets())} sets that conditions hold on; found {found(wrong[0])}"
                + (" in it" if several else "")
                + ". Coordinates of one's own are pdecl.Points(coords)."
            )
        if len(points) != len(self.sets()):
            raise ValueError(
                f"`{name}` holds {len(points)} sets; the problem has {len(self.sets())}: "
                "make them with problem.draw(size, key)."
            )
        for part in points:
            self._require_columns(part)
        return tuple(points)

    def _draw_set(self, index: int, on: Any, size: int, key: PRNGKeyArray | None) -> Points:
        if isinstance(on, Region):
            points = on.draw(key, default_count(self, index, size))
        elif isinstance(on, Points):
            points = on
        else:
            points = ask("a function given as `on` (a sampler: key -> Points)", on, key)
            if not isinstance(points, Points):
                raise TypeError(f"`on` is a function, so it must return Points; found {found(points)}.")
        self._require_columns(points)
        return points

    def _require_columns(self, points: Points) -> None:
        names = self.domain.names
        if points.coords.shape[1] != len(names):
            raise ValueError(
                f"points have {points.coords.shape[1]} coordinates; the domain has "
                f"{len(names)}: {', '.join(names)}."
            )
        if taken := [name for name in points.data if name in names]:
            raise ValueError(
                f"points have data called {taken[0]!r}, which is a coordinate of the domain: give it "
                "another name."
            )

    def _require_place(self, condition: Condition) -> None:
        """That a condition holds at points of this domain, as far as is known before any are drawn."""
        on, what = condition.on, f"{describe(condition)}: `on`"
        if isinstance(on, Region) and on.box.names != self.domain.names:
            raise ValueError(
                f"{what} is a part of a box of {', '.join(on.box.names)}, but the domain's coordinates "
                f"are {', '.join(self.domain.names)}."
            )
        if not isinstance(on, Points):
            return
        self._require_columns(on)
        if is_concrete(on.coords) and (outside := self.domain.outside(on.coords)).any():
            row, columns = int(np.argmax(outside)), ", ".join(self.domain.names)
            raise ValueError(
                f"{what}: {outside.sum()} of {len(on)} points are outside the domain, the first of them "
                f"row {row}: {np.asarray(on.coords)[row]}. Columns are {columns}."
            )

    def _rehearse(self, phi: Phi) -> None:
        """Calls every condition once on shapes, so that a mistake in one shows where it is stated."""
        for condition in self.conditions:
            if isinstance(condition.on, Region | Points):
                points = self._draw_set(0, condition.on, 1, jr.key(0))
                asks_for(condition, self.unknowns, self.domain.names, points, phi)


def require_problem(problem: object, where: str) -> None:
    if not isinstance(problem, Problem):
        raise TypeError(f"{where}: the first argument must be a Problem; found {found(problem)}.")


def inside(problem: Problem, points: Any) -> Float[Array, "n d"]:
    """Points as coordinates, checked to be of the domain where their numbers are known."""
    if not isinstance(points, Points | list) and not eqx.is_array_like(points):
        raise TypeError(
            f"a solution is asked at an array of points, one in each row, or at Points; found "
            f"{found(points)}. `problem.domain.mesh(101)` makes such an array; of `problem.draw(size)` "
            "take one of the sets."
        )
    coords = points.coords if isinstance(points, Points) else jnp.asarray(points, float)
    points = coords if isinstance(points, Points) else points
    names = problem.domain.names
    if coords.ndim != 2 or coords.shape[1] != len(names):
        raise ValueError(
            f"points must have shape (n, {len(names)}), columns {', '.join(names)}; "
            f"found {coords.shape}."
        )
    if coords.shape[0] == 0:
        raise ValueError("points: there are none.")
    if all(map(is_concrete, jax.tree.leaves(points))):
        # Not with `coords`, which inside jit are not known although the points are.
        given = np.asarray(points, float)
        outside = problem.domain.outside(given)
        if outside.any():
            first = int(np.argmax(outside))
            raise ValueError(
                f"{outside.sum()} of {len(coords)} points are NaN or outside the domain, the first of "
                f"them row {first}: {given[first]}."
            )
    return coords


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


def _same(a: object, b: object) -> bool:
    return a is b or (isinstance(a, Region) and isinstance(b, Region) and a == b)


def _number(leaf: Any) -> Any:
    if not eqx.is_array_like(leaf) or getattr(leaf, "dtype", None) == np.dtype(object):
        advice = ": write np.asarray(phi)." if hasattr(leaf, "__array__") else "."
        raise TypeError(f"phi must be made of numbers and arrays; found {found(leaf)}{advice}")
    number = jnp.asarray(leaf)
    if not (jnp.issubdtype(number.dtype, np.number) or number.dtype == bool):
        raise TypeError("phi must be made of numbers and arrays; found a random key.")
    if jnp.issubdtype(number.dtype, jnp.complexfloating):
        raise TypeError(
            "phi must be real; found complex numbers: pass real and imaginary part as two arrays."
        )
    return number


def _wanted(like: PyTree, phi: Phi) -> str:
    """What the problem's φ is, and how this one differs from it."""
    words = f"by the problem it is {in_words(like)}"
    if phi is None:
        return f"{words}: pass one, solve(problem, basis, phi)."
    if isinstance(like, dict) and isinstance(phi, dict):
        parts = [f"{key!r} is missing" for key in like if key not in phi]
        parts += [f"{key!r} is not known" for key in phi if key not in like]
        return f"{words}{': ' if parts else ''}{', '.join(parts)}."
    if isinstance(phi, list | tuple) and hasattr(like, "shape"):
        return f"{words}: write jnp.asarray(phi)."
    return f"{words}."


def _shapes_of(parameter: object) -> Any:
    """One φ as shapes."""
    what = "the distribution of φ (`parameter`)"
    if not callable(parameter):
        raise TypeError(
            f"Problem: `parameter` must be a function key -> φ; found {found(parameter)}. Numbers go to "
            "`solve`, or to `fit` as `phis=`."
        )
    require_arguments(f"Problem: {what}", parameter, ("key",))
    like = ask(f"Problem: {what}", jax.eval_shape, parameter, jr.key(0))
    if any(jnp.issubdtype(leaf.dtype, jnp.complexfloating) for leaf in jax.tree.leaves(like)):
        raise TypeError(f"Problem: {what} must return real numbers; found complex ones.")
    return like


def _are_names(unknowns: object) -> bool:
    if not isinstance(unknowns, tuple | list) or not unknowns or len(set(unknowns)) != len(unknowns):
        return False
    return all(isinstance(u, str) and u.isidentifier() and u[0] != "_" for u in unknowns)


def _require_distinct(names: tuple[str, ...]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"Problem: two conditions are called {name!r}; residuals are reported by name, so give "
                "them different ones."
            )
