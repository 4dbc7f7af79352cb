"""Creased functions held once for all φ: a problem of two unknowns, with the front's factor as data.

A `Creased` basis over functions that do not see φ gives u = v + g h, with v and h sums of its
functions and g = √(s² + w²) − w, where the front s, the solution of a problem of its own, is all that φ
decides. So the conditions on u are conditions on two unknowns v and h, whose functions are the same for
every φ. The derivatives of g at each point are data of that point, made for each φ from its front.
"""

from itertools import combinations
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..basis import basis as bases
from ..layer.creased import Creased, fold
from ..layer.layer import Outcome
from ..layer.system import Plan, System, make_plan
from ..state.jet import Axes, Entry, derivatives, see
from ..state.points import Points
from ..state.problem import Problem
from ..support.status import Status
from .forms import Form, Rows, Values

SMOOTH, CREASED, FRONT = "smooth", "creased", "front"

# For each set of points and each place there ("" is the point itself), the derivatives that are held.
Orders = tuple[tuple[tuple[str, tuple[Axes, ...]], ...], ...]


class Crease(Form):
    """Held functions, the last `along` of which are creased online.

    - `problem`: the conditions on v and h, whose jets and values are held.
    - `finder`: the `Core` that finds s. `blur`: w.
    """

    problem: Problem
    finder: Any
    blur: Float[Array, ""]
    orders: Orders = eqx.field(static=True)
    along: int = eqx.field(static=True)

    def system(self, rows: Rows, phi: Any, front: Outcome | None) -> System:
        """Of the two parts of u."""
        front = self.front(phi) if front is None else front
        sets = self.folded(rows.sets, front.weights)
        return System(self.problem, None, phi, sets, rows.plan, rows.jets)

    def tables(self, functions: Values, plan: Plan) -> Values:
        """The combinations of both parts of u and of its front; the last `along` of all functions are
        creased."""
        (values,) = functions.values()
        whole, (_, kept) = self.modes, plan.sizes[0]
        assert whole is not None
        split = values.shape[-1] - self.along
        return {
            SMOOTH: values[..., :split] @ whole[:split, :kept],
            CREASED: values[..., split:] @ whole[split:, kept:],
            FRONT: values @ self.finder.form.modes,
        }

    def answers(self, core: Any, phi: Any, shares: Values, front: Outcome | None) -> Values:
        assert front is not None
        v, h = (core.values[name] @ shares[name] for name in (SMOOTH, CREASED))
        return {core.problem.unknowns[0]: v + self.factor(core.values[FRONT], front.weights) * h}

    def inner(self, basis: Any) -> Any:
        return inner_of(basis)

    @property
    def fronts(self) -> tuple[Any, ...]:
        return (self.finder,)

    def front(self, phi: Any) -> Outcome:
        return self.finder.solved(phi)[1]

    def judged(self, found: Outcome, front: Outcome | None) -> Outcome:
        assert front is not None
        code = jnp.where(front.code > Status.OVERDETERMINED, front.code, found.code)
        return eqx.tree_at(lambda f: f.code, found, code)

    def online(self, sets: tuple[Points, ...]) -> tuple[Points, ...]:
        return reduced(sets, np.asarray(self.finder.form.modes), self.orders)

    def arrays(self) -> dict[str, Any]:
        return {**super().arrays(), "blur": self.blur}

    def folded(self, sets: tuple[Points, ...], s: Float[Array, " r"]) -> tuple[Points, ...]:
        """The points with the derivatives of g as data, for a front with these coefficients."""
        found = []
        for points, here in zip(sets, self.orders, strict=True):
            data = dict(points.data)
            for place, order in here:
                data[_fold_at(place)] = _jets_of_fold(data.pop(held_at(place)) @ s, order, self.blur)
            found.append(eqx.tree_at(lambda p: p.data, points, data))  # nothing to check again
        return tuple(found)

    def factor(self, values: Float[Array, "q r"], s: Float[Array, " r"]) -> Float[Array, " q"]:
        """g where the front's combinations have these values."""
        return fold(values @ s, self.blur)


def inner_of(basis: Any) -> Any:
    """The functions that a basis creases; None if it creases none."""
    return basis.basis if isinstance(basis, Creased) else None


def orders_of(problem: Problem, plan: Plan) -> Orders:
    """What conditions read of u, with all lower derivatives: the product rule asks for them."""
    found: list[dict[str, set[Axes]]] = [{} for _ in problem.sets()]
    for entries, place in zip(plan.entries, problem.places, strict=True):
        for entry in entries:
            below = found[place].setdefault(entry.place, set())
            below |= {part for k in range(len(entry.axes) + 1) for part in combinations(entry.axes, k)}
    by_order = lambda axes: (len(axes), axes)
    return tuple(
        tuple((place, tuple(sorted(found_here[place], key=by_order))) for place in sorted(found_here))
        for found_here in found
    )


def parted(problem: Problem, orders: Orders) -> Problem:
    """The same conditions, on v and h."""
    # Points are given, never drawn: these functions only tell the sets apart.
    sets = [lambda key, number=number: number for number in range(len(orders))]
    conditions = [
        type(condition)(
            _Parted(condition.equation, problem.unknowns, orders[place]),
            sets[place], condition.weight, condition.name,
        )
        for condition, place in zip(problem.conditions, problem.places, strict=True)
    ]  # fmt: skip
    return Problem(problem.domain, conditions, problem.parameter, (SMOOTH, CREASED))


def parted_plan(
    problem: Problem, orders: Orders, sets: tuple[Points, ...], phi: Any, sizes: tuple[int, int]
) -> Plan:
    """The plan of the conditions on v and h, which have this many functions."""
    blank = tuple(
        _with(points, {_fold_at(place): jnp.zeros((len(points), len(order))) for place, order in here})
        for points, here in zip(sets, orders, strict=True)
    )
    functions = lambda x, phi: {SMOOTH: jnp.zeros(sizes[0]), CREASED: jnp.zeros(sizes[1])}
    return make_plan(problem, functions, phi, blank)


def held(
    inner: Any, problem: Problem, sets: tuple[Points, ...], phi: Any, orders: Orders
) -> tuple[Points, ...]:
    """The points with all that is held of the N functions there, as data of shape (n, k, N)."""
    return tuple(
        _with(
            points,
            {
                held_at(place): _all_jets(
                    inner, problem.unknowns, points.partners[place] if place else points.coords,
                    phi, order,
                )
                for place, order in here
            },
        )
        for points, here in zip(sets, orders, strict=True)
    )  # fmt: skip


def jets_in(
    sets: tuple[Points, ...], plan: Plan, places: tuple[int, ...], orders: Orders
) -> tuple[dict[Entry, Float[np.ndarray, "_n _N"]], ...]:
    """What the conditions on v and h read, out of what is held at the points."""
    (_, smooth), _ = plan.sizes
    found: tuple[dict[Entry, np.ndarray], ...] = tuple({} for _ in sets)
    for entries, place in zip(plan.entries, places, strict=True):
        for entry in entries:
            order = dict(orders[place])[entry.place]
            jets = np.asarray(sets[place].data[held_at(entry.place)])[:, order.index(entry.axes)]
            found[place][entry] = jets[:, :smooth] if entry.unknown == SMOOTH else jets[:, smooth:]
    return found


def reduced(sets: tuple[Points, ...], modes: Any, orders: Orders) -> tuple[Points, ...]:
    """The points with what is held of the front's combinations instead of the functions."""
    return tuple(
        _with(points, {held_at(place): np.asarray(points.data[held_at(place)]) @ modes
                       for place, _ in here})
        for points, here in zip(sets, orders, strict=True)
    )  # fmt: skip


def held_at(place: str) -> str:
    """The name of the data that hold the front's combinations."""
    return f"held {place}".strip()


def _fold_at(place: str) -> str:
    return f"fold {place}".strip()


class _Parted(eqx.Module):
    """An equation for u, as one for v and h: every derivative of u = v + g h by the product rule."""

    equation: Any
    unknowns: tuple[str, ...] = eqx.field(static=True)
    orders: tuple[tuple[str, tuple[Axes, ...]], ...] = eqx.field(static=True)

    def __call__(self, parts: Any, z: Any, phi: Any) -> Any:
        names = z._names

        def read(entry: Entry) -> Any:
            v, h = (
                unknown.at(entry.place) if entry.place else unknown
                for unknown in (parts.smooth, parts.creased)
            )
            g = getattr(z, _fold_at(entry.place))
            order, axes = dict(self.orders)[entry.place], entry.axes
            total = v.d(*(names[i] for i in axes))
            for chosen in _subsets(len(axes)):
                by_g = tuple(axes[i] for i in chosen)
                by_h = (names[axis] for i, axis in enumerate(axes) if i not in chosen)
                total = total + g[order.index(by_g)] * h.d(*by_h)
            return total

        return self.equation(see(read, z, self.unknowns), z, phi)


def _subsets(count: int) -> list[tuple[int, ...]]:
    return [chosen for k in range(count + 1) for chosen in combinations(range(count), k)]


def _jets_of_fold(
    s: Float[Array, "n k"], order: tuple[Axes, ...], blur: Float[Array, ""]
) -> Float[Array, "n k"]:
    """The derivatives of g = fold(s) from those of s: of the fold of s's Taylor polynomial."""
    dim = 1 + max((axis for axes in order for axis in axes), default=0)

    def at_point(jet: Float[Array, " k"]) -> Float[Array, " k"]:
        def taylor(y: Float[Array, " d"]) -> Float[Array, ""]:
            terms = [
                term * jnp.prod(jnp.stack([y[axis] for axis in axes])) / _repeats(axes) if axes else term
                for term, axes in zip(jet, order, strict=True)
            ]
            return sum(terms[1:], terms[0])

        found = derivatives(lambda y: fold(taylor(y), blur), jnp.zeros(dim, s.dtype), set(order))
        return jnp.stack([found[axes] for axes in order])

    return jax.vmap(at_point)(s)


def _repeats(axes: Axes) -> float:
    """∏ m!, with m how often each axis occurs."""
    counts = [axes.count(axis) for axis in set(axes)]
    return float(np.prod([np.prod(np.arange(1, m + 1)) for m in counts]))


@eqx.filter_jit
def _all_jets(
    inner: Any, unknowns: tuple[str, ...], coords: Float[Array, "n d"], phi: Any, order: tuple[Axes, ...]
) -> Float[Array, "n k N"]:
    found = bases.evaluate(bases.specialise(inner, phi), unknowns, coords, phi, set(order))
    return jnp.stack([found[unknowns[0], axes] for axes in order], axis=1)


def _with(points: Points, data: dict[str, Any]) -> Points:
    return Points(
        points.coords, weights=points.weights, partners=points.partners, **{**points.data, **data}
    )
