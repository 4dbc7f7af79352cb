"""Jets: a function's value and derivatives at a point, as conditions read them and bases give them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..support.mistakes import found
from .points import OPERATORS, Point, known_partner

Axes = tuple[int, ...]


class Entry(NamedTuple):
    """One number of a jet: a derivative of an unknown, at the point itself ("") or at a partner."""

    place: str
    unknown: str
    axes: Axes


class Jet:
    """An unknown at a point: `u()` is its value, `u.d("x", "x")` its second derivative in x."""

    def __init__(self, read: Callable[[Entry], Any], point: Point, unknown: str, place: str = ""):
        self._read, self._point, self._unknown, self._place = read, point, unknown, place

    def __call__(self, *elsewhere: object) -> Any:
        if elsewhere:
            name = self._unknown
            raise TypeError(
                f"{name}() is the value at the condition's own point and takes no arguments; at a "
                f'partner point it is {name}.at("opposite")(). Derivatives are {name}.d("x").'
            )
        return self.d()

    def d(self, *coordinates: str) -> Any:
        """The derivative by each named coordinate in turn, of any order, mixed as one likes."""
        names = self._point._names
        for name in coordinates:
            if not isinstance(name, str):
                raise TypeError(
                    f'.d() takes names of coordinates, .d("{names[0]}", "{names[0]}") for the second '
                    f"derivative; found {found(name)}."
                )
            if name not in names:
                raise ValueError(
                    f"unknown coordinate {name!r} in .d(); the domain's coordinates are "
                    f"{', '.join(names)}."
                    + (
                        f" A second derivative is .d({name[0]!r}, {name[1]!r})."
                        if len(name) == 2
                        else " The derivative along the normal is .dn()."
                        if name[:1] == "n"
                        else ""
                    )
                )
        # Derivatives commute, so one order of the axes stands for all of them.
        axes = tuple(sorted(names.index(name) for name in coordinates))
        return self._read(Entry(self._place, self._unknown, axes))

    def dn(self) -> Any:
        """The derivative along the normal of the point."""
        normal = self._point.normal
        return sum(normal[i] * self.d(name) for i, name in enumerate(self._point._names))

    def at(self, partner: str) -> "Jet":
        """The same unknown at the partner point of that name."""
        known_partner(partner, self._point._partners)
        return Jet(self._read, self._point.at(partner), self._unknown, partner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        here = self._unknown
        raise AttributeError(
            f'{here} has no {name!r}: write {here}() for its value, {here}.d("x") for a derivative, '
            f"{here}.dn() for the one along the normal."
        )


def not_called(jet: Jet, *_: object, **__: object) -> Any:
    name = jet._unknown
    raise TypeError(
        f'{name} stands for a function: write {name}() for its value, {name}.d("x") for a derivative.'
    )


for _operator in (*OPERATORS, "eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Jet, f"__{_operator}__", not_called)


class Fields:
    """The unknowns of a system, each a `Jet`: `w.u.d("x") + w.v.d("y")`."""

    def __init__(self, jets: Mapping[str, Jet]):
        self._jets = dict(jets)

    def __call__(self, *_: object) -> Any:
        self._several()

    def __getitem__(self, _: object) -> Any:
        self._several()

    def __iter__(self) -> Any:
        self._several()

    def _several(self) -> None:
        first, *others = self._jets
        raise TypeError(
            f"the unknowns are {', '.join(self._jets)}, so the first argument holds a function for "
            f'each: write w.{first}() for a value, w.{others[0]}.d("x") for a derivative.'
        )

    def __getattr__(self, name: str) -> Jet:
        if name.startswith("__") or name not in self._jets:
            raise AttributeError(f"no unknown {name!r}; there are: {', '.join(self._jets)}.")
        return self._jets[name]


def see(read: Callable[[Entry], Any], point: Point, unknowns: tuple[str, ...]) -> Jet | Fields:
    """What a condition gets as its first argument: a jet, or one for each of several unknowns."""
    jets = {name: Jet(read, point, name) for name in unknowns}
    return jets[unknowns[0]] if len(unknowns) == 1 else Fields(jets)


def derivatives(
    f: Callable[[Float[Array, " d"]], Any], x: Float[Array, " d"], wanted: Iterable[Axes]
) -> dict[Axes, Any]:
    """The wanted derivatives of f at x by nested forward mode.

    Derivatives that begin alike are nested once, and every level hands out its lower orders, so the
    second derivative in x brings f and f_x with it.
    """
    wanted = set(wanted)
    found: dict[Axes, Any] = {}
    for axis in sorted({axes[0] for axes in wanted if axes}):
        inner = {axes[1:] for axes in wanted - found.keys() if axes and axes[0] == axis}
        if not inner:
            continue
        inner |= wanted & {()} - found.keys()
        direction = jnp.zeros_like(x).at[axis].set(1)
        lower, higher = jax.jvp(lambda y, w=inner: derivatives(f, y, w), (x,), (direction,))
        found |= {axes: lower[axes] for axes in inner & wanted}
        found |= {(axis, *axes): higher[axes] for axes in inner if (axis, *axes) in wanted}
    if () in wanted and () not in found:
        found[()] = f(x)
    return found
