"""Sets of points with what conditions may ask of them: coordinates, weights, normals, data, partners."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Shaped

from ..support.mistakes import found
from ..support.summary import Summarised, Summary
from .rules import tensor

# What arithmetic and NumPy call on an object.
OPERATORS = [
    *(side + name for name in ("add", "sub", "mul", "truediv", "pow", "matmul") for side in ("", "r")),
    *("neg", "abs", "getitem", "iter", "float", "array", "array_ufunc"),
]
RESERVED = ("index", "at")  # what a point has of its own

Lattice = tuple[tuple[float, float, int], ...]


class Points(Summarised, eqx.Module):
    """n points of a domain, and whatever is known at each of them.

    Arguments:

    - `coords`: array of shape `(n, d)`, columns in the order of the domain's coordinates.
    - `weights`: quadrature weights of shape `(n,)`. Energies are integrated with them; residuals are
      averaged with them. All ones over n if left out.
    - `partners`: named sets of n points that belong to these one to one, for conditions that join two
      places (periodicity, a stencil): `u.at("left")()` is u at the partner called `left`.
    - `lattice`: (first, last, count) for each coordinate, if the points are evenly spaced in rows and
      columns, the last coordinate fastest. A basis on a grid then need not search for their cells.
    - any other keyword: an array whose first axis is n, seen by a condition as an attribute of the
      point: `Points(xy, normal=n, value=measured)` gives `z.normal` and `z.value`.
    """

    coords: Float[Array, "n d"]
    weights: Float[Array, " n"]
    partners: dict[str, Float[Array, "n d"]]
    data: dict[str, Shaped[Array, "n ..."]]
    lattice: Lattice | None = eqx.field(static=True)

    def __init__(
        self,
        coords: Float[ArrayLike, "n d"] | Sequence[Any],
        *,
        weights: Float[ArrayLike, " n"] | Sequence[float] | None = None,
        partners: Mapping[str, Any] | None = None,
        lattice: Lattice | None = None,
        **data: Any,
    ):
        coords = _floats("coords", coords)
        if coords.ndim != 2:
            raise ValueError(
                f"Points: coords must have shape (n, d), one row per point; found {coords.shape}."
            )
        n = len(coords)
        if n == 0:
            raise ValueError("Points: coords holds no points; a condition needs at least one.")
        self.coords = coords
        self.weights = jnp.full(n, 1.0 / n) if weights is None else _floats("weights", weights)
        self.partners = {
            name: _floats(f"partner {name!r}", other) for name, other in (partners or {}).items()
        }
        self.data = {name: _array(name, values) for name, values in data.items()}
        self.lattice = lattice
        self._check_shapes()
        self._check_numbers()

    def _check_shapes(self) -> None:
        n, d = self.coords.shape
        if self.weights.shape != (n,):
            raise ValueError(f"Points: weights must have shape ({n},); found {self.weights.shape}.")
        for name, other in self.partners.items():
            if other.shape != (n, d):
                raise ValueError(
                    f"Points: partner {name!r} must have shape {(n, d)}; found {other.shape}."
                )
        for name, values in self.data.items():
            if name in RESERVED or name.startswith("_"):
                raise ValueError(f"Points: {name!r} cannot name data: points use it themselves.")
            if values.shape[:1] != (n,):
                raise ValueError(
                    f"Points: {name!r} must have one entry for each of the {n} points; "
                    f"found shape {values.shape}."
                )

    def _check_numbers(self) -> None:
        """Those that are known: not inside `jit`."""
        lattice, partners = self.lattice, {f"partner {k!r}": v for k, v in self.partners.items()}
        given = {"coords": self.coords, "weights": self.weights, **partners, **self.data}
        if lattice and is_concrete(self.coords) and not _same(self.coords, lattice_points(lattice)):
            raise ValueError(
                "Points: coords are not the points of the lattice, last coordinate fastest."
            )
        for name, values in given.items():
            if is_concrete(values) and not np.all(np.isfinite(values)):
                raise ValueError(f"Points: {name} has entries that are NaN or infinite.")
        if not is_concrete(self.weights):
            return
        weights = np.asarray(self.weights)
        if not (np.all(weights >= 0) and np.any(weights > 0)):
            raise ValueError("Points: weights must not be negative, nor all zero.")

    def __len__(self) -> int:
        return self.coords.shape[0]

    def summary(self) -> Summary:
        n, d = self.coords.shape
        data = [f"{name} {tuple(values.shape)}" for name, values in self.data.items()]
        ranges, total = None, None
        if isinstance(self.coords, jax.Array) and is_concrete(self.coords):
            ends = zip(np.min(self.coords, axis=0), np.max(self.coords, axis=0), strict=True)
            ranges = ", ".join(f"{low:.4g} to {high:.4g}" for low, high in ends)
            total = float(np.sum(self.weights))
        rows = [
            ("coordinates", ranges),
            ("sum of weights", total),
            ("data", ", ".join(data) or None),
            ("partners", ", ".join(self.partners) or None),
            ("lattice", self.lattice and " × ".join(str(count) for *_, count in self.lattice)),
        ]
        return Summary(f"Points: {n:,} of {d} coordinates", rows)


def lattice_points(lattice: Lattice) -> Float[np.ndarray, "n d"]:
    """The points of a lattice, the last coordinate fastest."""
    return tensor([np.linspace(*row) for row in lattice], len(lattice))


class Point:
    """One point as a condition sees it: `z.x`, `z.t`, `z.normal`, any data of the set, `z.index`."""

    def __init__(self, names: tuple[str, ...], coords: Any, partners: dict, data: dict):
        self._names, self._coords, self._partners, self._data = names, coords, partners, data

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._names:
            return self._coords[self._names.index(name)]
        if name in self._data:
            return self._data[name]
        known = ", ".join((*self._names, *self._data))
        raise AttributeError(f"this point has no {name!r}; it has: {known}.")

    def at(self, partner: str) -> "Point":
        """The partner point of that name."""
        return Point(self._names, self._partners[known_partner(partner, self._partners)], {}, {})


def _no_array(point: Point, *_: object, **__: object) -> Any:
    coordinates = ", ".join(f"z.{name}" for name in point._names)
    raise TypeError(f"z stands for a point: write {coordinates} for its coordinates.")


for _operator in OPERATORS:
    setattr(Point, f"__{_operator}__", _no_array)


def known_partner(name: str, partners: Mapping[str, Any]) -> str:
    if name not in partners:
        there = ", ".join(partners) or "none"
        raise ValueError(f"unknown partner {name!r}; the points of this condition have: {there}.")
    return name


def is_concrete(x: object) -> bool:
    """Whether the numbers can be looked at now (not inside jit, vmap or grad)."""
    return not isinstance(x, jax.core.Tracer)


def _same(one: Any, other: Any) -> bool:
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-9, atol=1e-12)


def _floats(name: str, x: Any) -> Array:
    x = _array(name, x)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(f"Points: {name} must be real numbers; found {x.dtype}.")
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(float)


def _array(name: str, x: Any) -> Array:
    try:
        return jnp.asarray(x)
    except (TypeError, ValueError) as error:
        raise TypeError(f"Points: {name} must be an array of numbers; found {found(x)}.") from error
