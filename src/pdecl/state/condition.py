"""Conditions: what must hold, stated as plain mathematics at one point, and what they ask for."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..support.mistakes import ask, found, require_arguments
from ..support.summary import number
from ..support.types import Phi
from .domain import Box, Region
from .jet import Entry, Jet, not_called, see
from .points import Point, Points, is_concrete

_ALWAYS = " A problem without a parameter passes phi = None."


class Condition(eqx.Module):
    """A condition on u at points.

    Arguments:

    - `equation`: `equation(u, z, phi)` at one point. `u()` is the value, `u.d("x", "t")` a derivative,
      `z.x` a coordinate, `phi` the problem's parameter. `Fit` and `Enforce` return what should be
      zero: one number, or a tuple of them. `Energy` returns one number, to be integrated.
    - `on`: where it holds: a part of a box (`box.interior`, `box.face(t=0)`, `box.periodic("x")`),
      `Points`, or a function `key -> Points`. Conditions on the same set share its points.
    - `weight`: how much it counts beside the others.
    - `name`: what reports call it.
    - `residual_limit`: the relative residual above which it counts as not held; None: that of `solve`.
      For noisy data their noise, or `jnp.inf`.
    """

    equation: Any
    on: Any
    weight: Any = 1.0
    name: str | None = None
    residual_limit: float | None = None
    kind: ClassVar[str]

    def __repr__(self) -> str:
        return f"{describe(self)} on {self.where()}, weight {number(self.weight)}"

    def where(self) -> str:
        """Where it holds, in words."""
        if isinstance(self.on, Points):
            return f"{len(self.on):,} given points"
        return str(self.on) if isinstance(self.on, Region) else found(self.on)

    def __check_init__(self) -> None:
        if not (self.name is None or isinstance(self.name, str)):
            raise TypeError(f"{self.kind}: `name` must be a string; found {found(self.name)}.")
        if not callable(self.equation) or isinstance(self.equation, type):
            raise TypeError(
                f"{describe(self)}: `equation` must be a function of (u, z, phi); "
                f"found {found(self.equation)}."
            )
        require_arguments(f"{describe(self)}: `equation`", self.equation, ("u", "z", "phi"), _ALWAYS)
        _require_place(self)
        weight = self.weight
        if is_concrete(weight) and not _is_positive(weight):
            raise ValueError(f"{describe(self)}: `weight` must be a positive number; found {weight!r}.")
        require_limit(describe(self), self.residual_limit)


class Fit(Condition):
    """Least squares: adds ½ · weight · mean of equation² over the points to what is minimised."""

    kind = "Fit"


class Enforce(Condition):
    """Equality: equation = 0 at every point.

    Where that is impossible, the mean square violation is made as small as it can be before anything
    else is looked at. `weight` counts among `Enforce` conditions that contradict each other.
    """

    kind = "Enforce"


class Energy(Condition):
    """Adds weight · ∫ equation, by the quadrature weights of the points, to what is minimised.

    The equation must be convex in u and its derivatives, as ½ν|∇u|² − fu is.
    """

    kind = "Energy"


def local(condition: Condition, unknowns: tuple[str, ...], names: tuple[str, ...]) -> Callable:
    """The condition as a function of numbers: `(entries, point's arrays, phi) -> (rows,)`."""

    def rows(entries: dict[Entry, Any], where: dict[str, Any], phi: Phi) -> Float[Array, " rows"]:
        point = _point(names, where)
        return jnp.stack(_rows_at(condition, see(entries.__getitem__, point, unknowns), point, phi))

    return rows


def asks_for(
    condition: Condition,
    unknowns: tuple[str, ...],
    names: tuple[str, ...],
    points: Points,
    phi: Phi,
) -> tuple[frozenset[Entry], int]:
    """The jet entries that the condition reads and the number of rows it gives at each point.

    Calls it once with a jet that writes down what is asked, on shapes alone.
    """
    asked: set[Entry] = set()

    def read(entry: Entry) -> Array:
        asked.add(entry)
        return jnp.zeros(())

    def call(where: dict[str, Any], phi: Phi) -> Array:
        point = _point(names, where)
        return jnp.stack(_rows_at(condition, see(read, point, unknowns), point, phi))

    where = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), located(points))
    rows = eqx.filter_eval_shape(call, where, phi)
    if not asked:
        raise ValueError(f"{describe(condition)}: the equation never asks for u.")
    return frozenset(asked), rows.shape[0]


def located(points: Points) -> dict[str, Any]:
    """The arrays of a set of points, to be mapped over point by point."""
    data = {**points.data, "index": jnp.arange(len(points))}
    return {"coords": points.coords, "partners": points.partners, "data": data}


def require_limit(where: str, limit: object) -> None:
    """A relative residual that is allowed: a positive number, or None."""
    if not (limit is None or (isinstance(limit, int | float) and limit > 0)):
        raise ValueError(
            f"{where}: `residual_limit` must be a positive number (jnp.inf: never judged), or None; "
            f"found {limit!r}."
        )


def describe(condition: Condition) -> str:
    return f"{condition.kind} {condition.name!r}" if condition.name else condition.kind


def _require_place(condition: Condition) -> None:
    on, what = condition.on, f"{describe(condition)}: `on`"
    if isinstance(on, Region | Points):
        return
    if not callable(on) or isinstance(on, type) or isinstance(getattr(on, "__self__", None), Box):
        raise TypeError(
            f"{what} must be a part of a box (box.interior, box.face(t=0)), Points, or a function of a "
            f"key that returns Points; found {found(on)}."
        )
    require_arguments(f"{what}, if it is not a part of a box such as box.face(t=0),", on, ("key",))


def _rows_at(condition: Condition, u: Any, point: Point, phi: Phi) -> list[Array]:
    """What the equation gives at one point: the only place where one is called."""
    return _components(condition, ask(describe(condition), condition.equation, u, point, phi, phi=phi))


def _point(names: tuple[str, ...], where: dict[str, Any]) -> Point:
    return Point(names, where["coords"], where["partners"], where["data"])


def _is_positive(x: Any) -> bool:
    return np.ndim(x) == 0 and np.issubdtype(np.asarray(x).dtype, np.number) and 0 < x < np.inf


def _components(condition: Condition, out: Any) -> list[Array]:
    several = isinstance(out, tuple | list)
    for row in out if several else [out]:
        if isinstance(row, Jet):
            not_called(row)
        if not eqx.is_array_like(row):
            raise ValueError(
                f"{describe(condition)}: the equation must return one number per point (or a tuple of "
                f"numbers); found {found(row)}." + (" Does it say `return`?" if row is None else "")
            )
    rows = [jnp.asarray(row) for row in (out if several else [out])]
    if not rows or (several and condition.kind == "Energy"):
        raise ValueError(
            f"{describe(condition)}: the equation must return one number"
            + (f"; found {len(rows)} of them." if rows else "; found none.")
        )
    for row in rows:
        if row.shape != ():
            raise ValueError(
                f"{describe(condition)}: the equation must return one number per point (or a tuple of "
                f"numbers); found an array of shape {row.shape}. Equations are written for one point: "
                "a parameter given as an array has to be indexed or interpolated there; many φ at once "
                "are solved for by jax.vmap over solve."
            )
        if not jnp.issubdtype(row.dtype, jnp.floating):
            raise ValueError(
                f"{describe(condition)}: the equation must return a real number; found {row.dtype}."
                + (" Return what should be zero: u() - 1, not u() == 1." if row.dtype == bool else "")
            )
    return rows
