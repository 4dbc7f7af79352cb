"""What the conditions of a problem say about how it is solved: periodic coordinates, the marched one,
conditions at ends, orders of derivatives, whether it is linear."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..state.affine import is_affine
from ..state.condition import Condition, asks_for, describe, local, located
from ..state.domain import Region
from ..state.jet import Entry
from ..state.points import Points
from ..state.problem import Problem
from ..state.shapes.moving import MovingDomain, MovingRegion


@dataclass
class Reading:
    """- `entries`, `rows`: for each condition what it reads, and how many rows it gives at a point.
    - `linear`: whether all conditions are affine.
    - `periodic`: periodic axes. - `marched`: the axis that is marched along, if one is.
    - `start`: numbers of the conditions on the lower face of the marched axis; `rest`: of the others,
      without those of periodicity, which the functions obey by themselves.
    - `march_order`: how many derivatives by the marched coordinate each unknown starts with.
    - `ends`: (unknown, axis, side) to the number of conditions there. - `owned`: a condition on faces to
      the unknowns that it determines there, each with the number of conditions that did so before.
    - `orders`: for each unknown the highest derivative along each axis.
    - `energies`: conditions that are energies; with any, all are in `rest` and nothing is marched.
    """

    problem: Problem
    entries: list[tuple[Entry, ...]]
    rows: list[int]
    linear: bool
    periodic: tuple[int, ...]
    marched: int | None
    start: list[int]
    rest: list[int]
    march_order: dict[str, int]
    ends: dict[tuple[str, int, int], int]
    owned: dict[int, list[tuple[str, int]]]
    orders: dict[str, list[int]]
    energies: tuple[int, ...] = ()

    def conditions(self, unknown: str, axis: int) -> int:
        """How many conditions at the ends of an axis the functions of an unknown are made for: its own,
        or as many as its order, where those of all unknowns add up to all orders (a flux has none of
        its own, and the temperature both)."""
        given = {u: sum(self.ends.get((u, axis, side), 0) for side in (0, 1)) for u in self.orders}
        orders = {u: k[axis] for u, k in self.orders.items()}
        enough = sum(given.values()) == sum(orders.values())
        return orders[unknown] if enough else given[unknown]

    @property
    def shape(self) -> Any:
        """The shape of a domain that is no box, or None."""
        return getattr(self.problem.domain, "shape", None)

    @property
    def space_axes(self) -> list[int]:
        return [a for a in range(len(self.problem.domain.names)) if a != self.marched]

    def march_count(self, entry: Entry) -> int:
        """How often an entry is differentiated by the marched coordinate."""
        return 0 if self.marched is None else entry.axes.count(self.marched)


def read(problem: Problem, phi: Any) -> Reading:
    """Raises a ValueError for what is not a well-stated problem on a box."""
    for condition in problem.conditions:
        _require_kind(condition)
    names, conditions = problem.domain.names, problem.conditions
    asked = [asks_for(c, problem.unknowns, names, _sample(c), phi) for c in conditions]
    entries, rows = [tuple(sorted(e)) for e, _ in asked], [count for _, count in asked]
    if any(c.kind == "Energy" for c in conditions):
        return _read_energies(problem, entries, rows, phi)
    if getattr(problem.domain, "shape", None) is None:
        _require_pins(problem, rows)
    pairs = [i for i, c in enumerate(conditions) if _is_paired(c)]
    for i in pairs:
        _require_periodicity(problem, i, entries[i], phi)
    periodic = tuple(sorted({conditions[i].on.sides[0][0] for i in pairs}))
    kept = [i for i in range(len(rows)) if i not in pairs]
    linear = all(_is_affine(problem, i, entries[i], phi) for i in kept)

    orders = {u: [0] * len(names) for u in problem.unknowns}
    for entry in (e for i in kept for e in entries[i]):
        for a in range(len(names)):
            orders[entry.unknown][a] = max(orders[entry.unknown][a], entry.axes.count(a))
    marched, start, march_order = _march(problem, entries, rows, kept, periodic)
    rest = [i for i in kept if i not in start]
    ends, owned = _at_ends(problem, entries, rows, rest)
    found = Reading(
        problem, entries, rows, linear, periodic, marched, start, rest, march_order, ends, owned,
        orders,
    )  # fmt: skip
    if found.shape is None:
        _require_ends(found)
        _require_order(found, phi)
    else:
        _require_parts(found)
    _require_pairs(found, [e for i in pairs for e in entries[i]])
    return found


def repetition(reading: Reading) -> str | None:
    """A sentence on two conditions that give the same of an unknown on the same face of a box."""
    given: dict[tuple[Entry, int, int], int] = {}
    names, box = reading.problem.names(), reading.problem.domain
    for i in reading.owned if reading.shape is None else ():
        if len(reading.entries[i]) != 1 or reading.rows[i] != 1:
            continue
        for axis, side in reading.problem.conditions[i].on.sides:
            entry = reading.entries[i][0]
            j = given.setdefault((entry, axis, side), i)
            if j != i:
                what = " of ".join(["a derivative"] * bool(entry.axes) + [entry.unknown])
                return (
                    f"{names[j]!r} and {names[i]!r} both give {what} where {box.names[axis]} = "
                    f"{box.bounds[axis][side]:g}: they repeat or contradict each other."
                )
    return None


def fixed(problem: Problem, phi: Any) -> Problem:
    """On the shape of this φ, where φ moves it."""
    if not isinstance(problem.domain, MovingDomain):
        return problem
    domain = problem.domain.at(jax.tree.map(np.asarray, phi))
    conditions = [
        replace(c, on=c.on.still(domain)) if isinstance(c.on, MovingRegion) else c
        for c in problem.conditions
    ]
    return Problem(domain, conditions, unknowns=problem.unknowns)


# --- energies
# ------------------------------------------------------------------------------
def _read_energies(
    problem: Problem, entries: list[tuple[Entry, ...]], rows: list[int], phi: Any
) -> Reading:
    """Of a problem with energies: the other conditions hold values on parts of the boundary."""
    conditions = problem.conditions
    energies = tuple(i for i, c in enumerate(conditions) if c.kind == "Energy")
    for i, c in enumerate(conditions):
        _require_energetic(problem, c, entries[i])
    inner = [i for i in energies if conditions[i].on.sides == ((),)]
    order = {u: _highest(entries, inner, u) for u in problem.unknowns}
    if missing := [u for u in problem.unknowns if not order[u]]:
        raise ValueError(
            f"no Energy inside of the domain reads a derivative of {missing[0]}: what is minimised must "
            'be the integral of a density of derivatives, such as u.d("x")**2 / 2.'
        )
    for i in set(range(len(conditions))) - set(inner):
        for e in entries[i]:
            if len(e.axes) >= order[e.unknown]:
                raise ValueError(
                    f"{describe(conditions[i])}: it reads a derivative of {e.unknown} of order "
                    f"{len(e.axes)} on the boundary, and the Energy inside reads none above "
                    f"{order[e.unknown]}. With an Energy values are held; a flux or a traction g is an "
                    "Energy on its part of the boundary, with density -g * u()."
                )
    linear = all(_is_quadratic(problem, i, entries[i], phi) for i in range(len(conditions)))
    orders = {u: [0] * len(problem.domain.names) for u in problem.unknowns}
    rest = list(range(len(conditions)))
    return Reading(
        problem, entries, rows, linear, (), None, [], rest, dict.fromkeys(orders, 0), {}, {}, orders,
        energies,
    )  # fmt: skip


def _highest(entries: list[tuple[Entry, ...]], some: list[int], unknown: str) -> int:
    return max((len(e.axes) for i in some for e in entries[i] if e.unknown == unknown), default=0)


def _require_energetic(problem: Problem, c: Condition, entries: tuple[Entry, ...]) -> None:
    d, shape = len(problem.domain.names), getattr(problem.domain, "shape", None)
    if d > 3 or (shape is not None and d > shape.dim):
        what = f"on {d} coordinates" if d > 3 else "in time"
        raise ValueError(
            f"an Energy is not minimised to a tolerance {what}, but on one to three coordinates of "
            f"space: state the equation, as Fit, or {_BASIS}"
        )
    if not isinstance(c.on, Region) or c.on.paired or getattr(c.on, "within", None) is not None:
        raise ValueError(
            f"{describe(c)}: with an Energy a solve to a tolerance takes conditions on the interior and "
            f"on parts of the boundary, not on pairs, points or interfaces: {_BASIS}"
        )
    if any(e.place for e in entries):
        raise ValueError(f"{describe(c)}: an Energy reads u at its own point alone.")
    if c.kind != "Energy" and c.on.sides == ((),):
        raise ValueError(
            f"{describe(c)} holds inside, where the Energy is minimised: there is one or the other. A "
            "constraint inside can be a term of the Energy, such as 1e3 * div**2; or state equations "
            "alone."
        )


def _is_quadratic(problem: Problem, i: int, entries: tuple[Entry, ...], phi: Any) -> bool:
    if problem.conditions[i].kind != "Energy":
        return _is_affine(problem, i, entries, phi)
    at = _at_zero(problem, i, entries, phi)
    return is_affine(jax.grad(lambda v: at(v)[0]), jnp.zeros(len(entries)))


# --- what is not solved so
# ------------------------------------------------------------------------------
_BASIS = "pass a basis, solve(problem, basis, phi), without `tolerance`."


def _require_kind(c: Condition) -> None:
    if not isinstance(c.on, Region | Points):
        raise ValueError(
            f"{describe(c)}: a solve to a tolerance takes conditions on parts of a box, not on points "
            f"that "
            f"a function draws: {_BASIS}"
        )


def _require_pins(problem: Problem, rows: list[int]) -> None:
    """Single points may fix the constant of an unknown, such as a pressure's. More of them are data, to
    be met in least squares, or a domain that is no box."""
    given = [
        (c, len(c.on) * r)
        for c, r in zip(problem.conditions, rows, strict=True)
        if isinstance(c.on, Points)
    ]
    if sum(count for _, count in given) > len(problem.unknowns):
        raise ValueError(
            f"{describe(given[0][0])}: a solve to a tolerance takes conditions on parts of a box, and "
            f"at most "
            f"one point for each unknown, to fix a constant; scattered points want least squares: "
            f"{_BASIS}"
        )


def _require_periodicity(problem: Problem, i: int, entries: tuple[Entry, ...], phi: Any) -> None:
    """That a condition on pairs says u = u there, for derivatives along the axis."""
    c = problem.conditions[i]
    at = _at_zero(problem, i, entries, phi)
    value, slopes = (
        np.asarray(at(jnp.zeros(len(entries)))),
        np.asarray(jax.jacfwd(at)(jnp.zeros(len(entries)))),
    )
    column = {e: slopes[:, k] for k, e in enumerate(entries)}
    opposite = lambda e: Entry("" if e.place else "opposite", e.unknown, e.axes)
    none = np.zeros(len(value))
    pairs = all(np.allclose(column[e], -column.get(opposite(e), none)) for e in entries)
    single = all(np.count_nonzero(row) == 2 for row in slopes)
    if not (_is_affine(problem, i, entries, phi) and pairs and single and not value.any()):
        raise ValueError(
            f"{describe(c)}: on pairs of points a solve to a tolerance takes plain periodicity, "
            f'u() - u.at("opposite")() and the same of derivatives; for others {_BASIS}'
        )


def _require_ends(reading: Reading) -> None:
    names = reading.problem.domain.names
    for u, orders in reading.orders.items():
        for a in set(reading.space_axes) - set(reading.periodic):
            given = sum(reading.ends.get((u, a, side), 0) for side in (0, 1))
            # Of several unknowns one of order one may go without, as a pressure does.
            free = orders[a] == 1 and len(reading.orders) > 1
            if given < orders[a] and not free:
                raise ValueError(
                    f"too few conditions: {u} has derivatives of order {orders[a]} by {names[a]}, and "
                    f"{given} at its ends, {names[a]} = {_ends(reading, a)}. {orders[a]} are needed, or "
                    "periodicity; of a coordinate that is time, all at its beginning and none at its "
                    "end."
                )


def _require_order(reading: Reading, phi: Any) -> None:
    """That of several unknowns together there are as many conditions along each coordinate as the
    degree of the equations' determinant in its derivative: each of two of order one may have none of
    its own, but not both."""
    problem, unknowns = reading.problem, reading.problem.unknowns
    inner = [
        i for i in reading.rest
        if isinstance(on := problem.conditions[i].on, Region) and on.sides == ((),)
    ]  # fmt: skip
    if len(unknowns) < 2 or sum(reading.rows[i] for i in inner) != len(unknowns):
        return
    rng = np.random.default_rng(0)
    slopes = []
    for i in inner:
        at = _at_zero(problem, i, reading.entries[i], phi)
        v = 1 + rng.random(len(reading.entries[i]))
        slopes.append(np.asarray(jax.jacfwd(at)(jnp.asarray(v))))
    others = np.exp(2j * np.pi * rng.random(len(problem.domain.names)))
    for a in set(reading.space_axes) - set(reading.periodic):
        needed = _degree(reading, inner, slopes, a, others)
        given = sum(reading.ends.get((u, a, side), 0) for u in unknowns for side in (0, 1))
        if given < needed:
            name = problem.domain.names[a]
            raise ValueError(
                f"too few conditions: by {name} the equations of {', '.join(unknowns)} together are of "
                f"order {needed}, and {given} are stated at its ends, {name} = {_ends(reading, a)}. "
                f"{needed} are needed, or periodicity."
            )


def _degree(
    reading: Reading, inner: list[int], slopes: list[np.ndarray], axis: int, others: np.ndarray
) -> int:
    """Of the determinant of the linear equations in a derivative, others being numbers: from its values
    at roots of unity."""
    unknowns = reading.problem.unknowns
    count = 1 + sum(reading.orders[u][axis] for u in unknowns)
    matrices = np.zeros((count, len(unknowns), len(unknowns)), complex)
    symbols = np.tile(others, (count, 1))
    symbols[:, axis] = np.exp(2j * np.pi * np.arange(count) / count)
    first = 0
    for i, g in zip(inner, slopes, strict=True):
        for e, entry in enumerate(reading.entries[i]):
            power = symbols[:, list(entry.axes)].prod(axis=1)
            k = unknowns.index(entry.unknown)
            matrices[:, first : first + len(g), k] += power[:, None] * g[:, e]
        first += len(g)
    matrices /= np.maximum(np.abs(matrices).max(axis=(0, 2), keepdims=True), 1e-300)
    sizes = np.abs(np.fft.fft(np.linalg.det(matrices)))
    return int(np.flatnonzero(sizes > 1e-9 * sizes.max()).max(initial=0))


def _require_parts(reading: Reading) -> None:
    """That every part of a shape's boundary has a condition, where the equation needs one."""
    places = [reading.problem.conditions[i].on for i in reading.rest]
    space = set(range(reading.shape.dim))
    if any(getattr(on, "within", None) is not None or getattr(on, "paired", False) for on in places):
        raise ValueError(
            "a solve to a tolerance on a shape takes no conditions on interfaces or pairs of faces: "
            f"{_BASIS}"
        )
    if len(reading.space_axes) > reading.shape.dim:
        raise ValueError(
            "a solve to a tolerance on a shape takes the shape's coordinates and one more that can "
            "be marched along, as time can: all conditions at its beginning, none at its end. "
            f"{_BASIS}"
        )
    named = {side[0] for on in places if isinstance(on, Region) for side in on.sides if len(side) == 1}
    second = any(sum(a in space for a in e.axes) > 1 for i in reading.rest for e in reading.entries[i])
    for names in reading.shape.traced.names:
        if second and not named & set(names):
            raise ValueError(
                f"too few conditions: there is none on the part {names[0]!r} of the boundary. State one "
                f"there, or on domain.boundary() for all parts: {', '.join(reading.shape.part_names)}."
            )


def _require_pairs(reading: Reading, paired: list[Entry]) -> None:
    for a in reading.periodic:
        for u, orders in reading.orders.items():
            given = {e.axes.count(a) for e in paired if e.unknown == u and set(e.axes) <= {a}}
            if len(given) < orders[a] and not (orders[a] == 1 and len(reading.orders) > 1):
                name = reading.problem.domain.names[a]
                raise ValueError(
                    f"too few conditions: {u} has derivatives of order {orders[a]} by {name}, and "
                    f"periodicity "
                    f"is stated for {len(given)} of {u} and its derivatives below that order."
                )


def _ends(reading: Reading, axis: int) -> str:
    low, high = reading.problem.domain.bounds[axis]
    return f"{low:g} and {high:g}"


# --- what conditions are
# --------------------------------------------------------------------------------
def _sample(c: Condition) -> Points:
    return c.on.draw(None, 1) if isinstance(c.on, Region) else c.on


def _is_paired(c: Condition) -> bool:
    return isinstance(c.on, Region) and c.on.paired


def _at_zero(problem: Problem, i: int, entries: tuple[Entry, ...], phi: Any) -> Any:
    """A condition's rows at one of its points, as a function of what it reads."""
    c = problem.conditions[i]
    rows = local(c, problem.unknowns, problem.domain.names)
    where = jax.tree.map(lambda a: a[0], located(_sample(c)))
    return lambda v: rows(dict(zip(entries, v, strict=True)), where, phi)


def _is_affine(problem: Problem, i: int, entries: tuple[Entry, ...], phi: Any) -> bool:
    return is_affine(_at_zero(problem, i, entries, phi), jnp.zeros(len(entries)))


def _at_ends(
    problem: Problem, entries: list[tuple[Entry, ...]], rows: list[int], rest: list[int]
) -> tuple[dict[tuple[str, int, int], int], dict[int, list[tuple[str, int]]]]:
    ends: dict[tuple[str, int, int], int] = {}
    owned: dict[int, list[tuple[str, int]]] = {}
    for i in rest:
        on = problem.conditions[i].on
        if not isinstance(on, Region) or len(on.sides[0]) != 2:
            continue
        for axis, side in on.sides:
            owned[i] = []
            for u in _owners(entries[i], axis, rows[i]):
                owned[i].append((u, ends.get((u, axis, side), 0)))
                ends[u, axis, side] = owned[i][-1][1] + 1
    return ends, owned


def _owners(entries: Iterable[Entry], axis: int, rows: int) -> list[str]:
    """The unknown that each row of a condition on a face determines: those of which it reads the highest
    normal derivative, and where rows are left over, those of which it reads a second one, and so on."""
    orders: dict[str, set[int]] = {}
    for e in entries:
        orders.setdefault(e.unknown, set()).add(e.axes.count(axis))
    read = [(rank, -k, u) for u, ks in orders.items() for rank, k in enumerate(sorted(ks, reverse=True))]
    return [u for _, _, u in sorted(read, key=lambda one: one[:2])[:rows]]


# --- the marched coordinate
# -----------------------------------------------------------------------------
def _march(
    problem: Problem,
    entries: list[tuple[Entry, ...]],
    rows: list[int],
    kept: list[int],
    periodic: tuple[int, ...],
) -> tuple[int | None, list[int], dict[str, int]]:
    """The last coordinate that can be marched along, the conditions that start it, and orders."""
    for a in reversed(range(len(problem.domain.names))):
        if a not in periodic and (found := _march_along(problem, entries, rows, kept, a)) is not None:
            return a, *found
    return None, [], {}


def _march_along(
    problem: Problem, entries: list[tuple[Entry, ...]], rows: list[int], kept: list[int], a: int
) -> tuple[list[int], dict[str, int]] | None:
    """Conditions on the lower face alone, none on the upper, that give every unknown's value and
    derivatives below the highest that the other conditions read."""
    places = {i: problem.conditions[i].on for i in kept}
    if any(isinstance(on, Points) or (a, 1) in on.sides for on in places.values()):
        return None
    start = [i for i, on in places.items() if (a, 0) in on.sides]
    if not start or any(places[i].sides != ((a, 0),) for i in start):
        return None
    orders = dict.fromkeys(problem.unknowns, 0)
    for e in (e for i in kept if i not in start for e in entries[i]):
        orders[e.unknown] = max(orders[e.unknown], e.axes.count(a))
    below = all(
        set(e.axes) <= {a} and len(e.axes) < orders[e.unknown] for i in start for e in entries[i]
    )
    return (start, orders) if below and sum(rows[i] for i in start) == sum(orders.values()) else None
