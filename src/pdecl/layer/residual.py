"""How well conditions hold: each one's residual, relative to the terms that it is the difference of.

At a point an equation r reads the entries v of a jet. With its derivatives with respect to them, J, its
terms are J_k v_k and what is left, r − J v: the data of an affine equation. Their size is

    Σ_k |J_k| max(|v_k|, V_k) + |r − J v|,

with V_k the root mean square of that entry over the domain, so that u = 0 on a face is held against the
size of u inside. The relative residual is the root mean square of r over that of the size: zero where a
condition holds, and never more than one.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..state.condition import located
from ..state.jet import Entry
from ..state.points import Points
from .system import System

Axes = tuple[str, tuple[int, ...]]  # an unknown and the axes of a derivative, wherever they are read


def relative_residuals(system: System, weights: Float[Array, " N"]) -> dict[str, Float[Array, ""]]:
    """For each `Fit` and `Enforce` condition its relative residual, the largest of its rows."""
    each = squares(system, weights)
    return {name: jnp.sqrt(jnp.max(left / whole)) for name, (left, whole) in each.items()}


def squares(
    system: System, weights: Float[Array, " N"]
) -> dict[str, tuple[Float[Array, " rows"], Float[Array, " rows"]]]:
    """For each `Fit` and `Enforce` condition, and each of its rows, what is left and the size of its
    terms, as mean squares times the weight. Where there are no terms, and nothing left, the size is
    one: 0 = 0 holds."""
    fields = system.fields(weights)
    typical, each = _typical(fields), {}
    for i, (name, condition) in enumerate(
        zip(system.problem.names(), system.problem.conditions, strict=True)
    ):
        if condition.kind == "Energy":
            continue
        rows, sizes = _rows_and_sizes(system, i, fields, typical)
        share = system.scale(i)[:, None]
        left, whole = (jnp.sum((share * x) ** 2, axis=0) for x in (rows, sizes))
        each[name] = jnp.where(whole > 0, left, 0.0), jnp.where(whole > 0, whole, 1.0)
    return each


def sizes_of_terms(system: System, weights: Float[Array, " N"]) -> Float[Array, " n"]:
    """For each `Fit` row, in the order of `System.rows`, the size of the terms that it is made of."""
    fields = system.fields(weights)
    typical = _typical(fields)
    parts = [
        (system.scale(i)[:, None] * _rows_and_sizes(system, i, fields, typical)[1]).ravel()
        for i in system.indices("Fit")
    ]
    return jnp.concatenate(parts)


def unseen(system: System, fresh: tuple[Points, ...]) -> tuple[Points, ...]:
    """The fresh points to check a system on. A condition that reads `z.index` knows something of each of
    its points, which others do not have: its set stays."""
    bound = {place for i, place in enumerate(system.problem.places) if _reads_index(system, i)}
    both = zip(system.sets, fresh, strict=True)
    return tuple(seen if i in bound else new for i, (seen, new) in enumerate(both))


def _reads_index(system: System, index: int) -> bool:
    equation, noted = system.equation(index), set()

    class Noting(dict):
        def __getitem__(self, name: str) -> Any:
            noted.add(name)
            return super().__getitem__(name)

    def call(where: dict[str, Any], vector: Float[Array, " k"]) -> Array:
        return equation(where | {"data": Noting(where["data"])}, vector)

    point = jax.tree.map(lambda a: a[0], located(system.points(index)))
    jax.eval_shape(call, point, jnp.zeros(len(system.plan.entries[index]), system.dtype))
    return "index" in noted


def _rows_and_sizes(
    system: System, index: int, fields: list[dict[Entry, Array]], typical: dict[Axes, Array]
) -> tuple[Float[Array, "n rows"], Float[Array, "n rows"]]:
    """What an equation is at each of its points, and the size of its terms."""
    v = system.stacked(index, fields)
    rows = system.per_point(index)(v)
    slopes = system.per_point(index, jax.jacfwd)(v)
    entries = system.plan.entries[index]
    V = jnp.asarray([typical[entry.unknown, entry.axes] for entry in entries], v.dtype)
    data = rows - jnp.einsum("nrk,nk->nr", slopes, v)
    terms = jnp.einsum("nrk,nk->nr", jnp.abs(slopes), jnp.maximum(jnp.abs(v), V))
    return rows, terms + jnp.abs(data)


def _typical(fields: list[dict[Entry, Array]]) -> dict[Axes, Float[Array, ""]]:
    """The root mean square of each entry over the points where it is known: the largest of all sets."""
    sizes: dict[Axes, Array] = {}
    for at_set in fields:
        for entry, values in at_set.items():
            size = jnp.sqrt(jnp.mean(values**2))
            key = entry.unknown, entry.axes
            sizes[key] = jnp.maximum(sizes.get(key, jnp.zeros_like(size)), size)
    return sizes
