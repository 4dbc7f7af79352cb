"""The equations of conditions and their slopes with respect to what they read, at many points."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..state.condition import local, located
from ..state.problem import Problem
from .reading import Reading, fixed, read

_INSIDE = 500  # points that residuals are measured at
_AT_ONCE = 32768  # points of an energy
_TOGETHER, _BLOCK = 16, 512  # φ and points in one call of a program for many


class Programs:
    """What all φ of a problem share: its reading, and compiled programs in which φ is an argument."""

    def __init__(self, reading: Reading):
        self.reading = reading
        self._kept: dict[tuple[str, int], Callable[..., Any]] = {}

    def at(self, phi: Any) -> "Programs":
        """The same, and compiled only once, on the shape that φ has moved, where it moves one."""
        problem = fixed(self.reading.problem, phi)
        if problem is self.reading.problem:
            return self
        other = Programs(replace(self.reading, problem=problem))
        other._kept = self._kept
        return other

    def rows(self, index: int) -> Callable[..., Any]:
        """`(where, v, phi)` to a condition's rows and slopes at many points."""

        def both(where: Any, v: Any, phi: Any) -> Any:
            one = self._equation(index)
            at = lambda y: (one(y, where, phi),) * 2
            slopes, values = jax.jacfwd(at, has_aux=True)(v)
            return values, slopes

        return self._compiled("rows", index, jax.vmap(both, (0, 0, None)))

    def density(self, index: int) -> Callable[..., Any]:
        """`(where, v, phi)` to an energy's density at many points."""
        program = lambda where, v, phi: self._equation(index)(v, where, phi)[0]
        return self._compiled("density", index, jax.vmap(program, (0, 0, None)))

    def slope(self, index: int) -> Callable[..., Any]:
        """`(where, v, phi)` to the density's derivatives by what it reads."""
        density = lambda v, where, phi: self._equation(index)(v, where, phi)[0]
        program = lambda where, v, phi: jax.grad(density)(v, where, phi)
        return self._compiled("slope", index, jax.vmap(program, (0, 0, None)))

    def curvature(self, index: int) -> Callable[..., Any]:
        """`(where, v, phi)` to the density's first and second derivatives by what it reads."""

        def both(where: Any, v: Any, phi: Any) -> Any:
            slope = jax.grad(lambda v: self._equation(index)(v, where, phi)[0])
            return slope(v), jax.jacfwd(slope)(v)

        return self._compiled("curvature", index, jax.vmap(both, (0, 0, None)))

    def many(self, index: int) -> Callable[..., Any]:
        """The same for a batch of φ at the same points, v and φ with one more axis in front."""
        return self._compiled("many", index, jax.vmap(self.rows(index), (None, 0, 0)))

    def many_values(self, index: int) -> Callable[..., Any]:
        """Without the slopes."""
        one = lambda where, v, phi: self._all(index, where, v, phi)
        return self._compiled("values", index, jax.vmap(one, (None, 0, 0)))

    def push(self, index: int) -> Callable[..., Any]:
        """`(where, v, phi, dphi)` to the rows' derivative with respect to φ in a direction."""

        def push(where: Any, v: Any, phi: Any, dphi: Any) -> Any:
            moving, fixed = eqx.partition(phi, eqx.is_inexact_array)
            rows = lambda p: self._all(index, where, v, eqx.combine(p, fixed))
            return jax.jvp(rows, (moving,), (eqx.filter(dphi, eqx.is_inexact_array),))[1]

        return self._compiled("push", index, push)

    def pull(self, index: int) -> Callable[..., Any]:
        """`(where, v, phi, weights)` to the derivative with respect to φ of the weighted rows' sum."""

        def pull(where: Any, v: Any, phi: Any, weights: Any) -> Any:
            moving, fixed = eqx.partition(phi, eqx.is_inexact_array)
            rows = lambda p: self._all(index, where, v, eqx.combine(p, fixed))
            (slope,) = jax.vjp(rows, moving)[1](weights)
            return eqx.combine(slope, jax.tree.map(jnp.zeros_like, fixed))

        return self._compiled("pull", index, pull)

    def _compiled(self, what: str, index: int, program: Callable[..., Any]) -> Callable[..., Any]:
        if (what, index) not in self._kept:
            self._kept[what, index] = jax.jit(program)
        return self._kept[what, index]

    def _all(self, index: int, where: Any, v: Any, phi: Any) -> Any:
        return jax.vmap(self._equation(index), (0, 0, None))(v, where, phi)

    def _equation(self, index: int) -> Callable[..., Any]:
        """A condition's rows at one point, `(v, where, phi)`."""
        problem, entries = self.reading.problem, self.reading.entries[index]
        rows = local(problem.conditions[index], problem.unknowns, problem.domain.names)
        return lambda v, where, phi: rows(dict(zip(entries, v, strict=True)), where, phi)

    @cached_property
    def fresh(self) -> list[dict[str, Any]]:
        """Points of `problem.sets()` that no row is at, about 500 inside."""
        points = self.reading.problem.fresh(2 * _INSIDE)
        return [jax.tree.map(np.asarray, located(part)) for part in points]

    @cached_property
    def inner(self) -> np.ndarray:
        return np.asarray(self.reading.problem.domain.interior.draw(None, _INSIDE).coords)


@dataclass(frozen=True, eq=False)
class Equations:
    """The conditions of a problem for one φ."""

    programs: Programs
    phi: Any

    @property
    def reading(self) -> Reading:
        return self.programs.reading

    def rows(self, index: int, where: dict[str, Any], v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (n, rows) and slopes (n, rows, entries) at n points, v of shape (n, entries)."""
        program = self.programs.rows(index)
        values, slopes = program(jax.tree.map(padded, where), padded(v), self.phi)
        return np.asarray(values)[: len(v)], np.asarray(slopes)[: len(v)]

    def density(self, index: int, where: dict[str, Any], v: np.ndarray) -> np.ndarray:
        """(n,): an energy's density."""
        (found,) = self._in_parts(lambda *at: (self.programs.density(index)(*at, self.phi),), where, v)
        return found

    def slope(self, index: int, where: dict[str, Any], v: np.ndarray) -> np.ndarray:
        """(n, entries): its derivatives by what it reads."""
        (found,) = self._in_parts(lambda *at: (self.programs.slope(index)(*at, self.phi),), where, v)
        return found

    def curvature(
        self, index: int, where: dict[str, Any], v: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(n, entries) and (n, entries, entries): its derivatives by what it reads."""
        first, second = self._in_parts(
            lambda *at: self.programs.curvature(index)(*at, self.phi), where, v
        )
        return first, second

    def _in_parts(
        self, program: Callable[..., Any], where: dict[str, Any], v: np.ndarray
    ) -> list[np.ndarray]:
        """A program at some points at a time: second derivatives of all would fill the memory."""
        found = []
        for first in range(0, len(v), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            at = jax.tree.map(lambda x: padded(x[some]), where)  # noqa: B023
            parts = program(at, padded(v[some]))
            found.append([np.asarray(part)[: len(v[some])] for part in parts])
        return [np.concatenate(part) for part in zip(*found, strict=True)]

    def some(self, numbers: Any) -> "Equations":
        return self

    def push(self, index: int, where: dict[str, Any], v: np.ndarray, dphi: Any) -> np.ndarray:
        """(n, rows): how rows change with φ in a direction."""
        program = self.programs.push(index)
        return np.asarray(program(jax.tree.map(padded, where), padded(v), self.phi, dphi))[: len(v)]

    def pull(self, index: int, where: dict[str, Any], v: np.ndarray, weights: np.ndarray) -> Any:
        """A φ: the derivative with respect to φ of the sum of rows times weights (n, rows)."""
        program, w = self.programs.pull(index), padded(weights)
        w[len(weights) :] = 0.0
        return program(jax.tree.map(padded, where), padded(v), self.phi, w)


@dataclass(frozen=True, eq=False)
class ManyEquations:
    """The conditions for a batch of φ, arrays of NumPy with one more axis in front."""

    programs: Programs
    phis: Any
    count: int

    @property
    def reading(self) -> Reading:
        return self.programs.reading

    def some(self, numbers: np.ndarray) -> "ManyEquations":
        """For some of the φ."""
        phis = jax.tree.map(lambda leaf: leaf[numbers], self.phis)
        return ManyEquations(self.programs, phis, len(numbers))

    @classmethod
    def of(cls, equations: Equations) -> "ManyEquations":
        """A batch of one."""
        return cls(equations.programs, jax.tree.map(lambda x: np.asarray(x)[None], equations.phi), 1)

    def one(self, number: int) -> Equations:
        phi = jax.tree.map(lambda leaf: jnp.asarray(leaf[number]), self.phis)
        return Equations(self.programs.at(phi), phi)

    def rows(self, index: int, where: dict[str, Any], v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (φ, n, rows) and slopes (φ, n, rows, entries), v of shape (φ, n, entries). In blocks of
        one size, so that few programs are compiled whatever the batch and the points are."""
        if self.count == 1:
            found = self.one(0).rows(index, where, v[0])
            return found[0][None], found[1][None]
        rows = self.reading.rows[index]
        found = np.empty((*v.shape[:2], rows)), np.empty((*v.shape[:2], rows, v.shape[2]))
        self._fill(found, self.programs.many(index), where, v)
        return found

    def values(self, index: int, where: dict[str, Any], v: np.ndarray) -> np.ndarray:
        """The values alone."""
        if self.count == 1:
            return self.rows(index, where, v)[0]
        found = np.empty((*v.shape[:2], self.reading.rows[index]))
        program = self.programs.many_values(index)
        self._fill((found,), lambda *args: (program(*args),), where, v)
        return found

    def _fill(
        self, found: tuple[np.ndarray, ...], program: Any, where: dict[str, Any], v: np.ndarray
    ) -> None:
        n, parts = v.shape[1], []
        cut = lambda leaf, here: _filled(leaf[here], _TOGETHER)
        blocks = [slice(k, k + _TOGETHER) for k in range(0, self.count, _TOGETHER)]
        phis = [jax.tree.map(partial(cut, here=here), self.phis) for here in blocks]
        for low in range(0, n, _BLOCK):
            points = slice(low, low + _BLOCK)
            place = jax.tree.map(lambda x, points=points: padded(x[points]), where)
            size = len(place["coords"])
            for here, phi in zip(blocks, phis, strict=True):
                part = v[here, points]
                asked = np.zeros((_TOGETHER, size, v.shape[2]))
                asked[: part.shape[0], : part.shape[1]] = part
                parts.append((here, points, part.shape[:2], program(place, asked, phi)))
        for here, points, (count, many), out in parts:
            for whole, x in zip(found, out, strict=True):
                whole[here, points] = np.asarray(x)[:count, :many]


def _filled(x: np.ndarray, count: int) -> np.ndarray:
    """The last repeated, up to a number of φ."""
    more = count - len(x)
    return np.concatenate([x, np.repeat(x[-1:], more, axis=0)]) if more else x


def equations_of(problem: Problem, phi: Any) -> Equations:
    """Programs of the last few problems are kept: another φ of the same problem compiles nothing."""
    return Equations(_programs(_Key(problem, phi)).at(phi), phi)


def equations_of_many(problem: Problem, phis: Any) -> ManyEquations:
    """`phis`: with one more axis in front of every array."""
    phis = jax.tree.map(np.asarray, phis)
    count = len(jax.tree.leaves(phis)[0])
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), phis)
    return ManyEquations(_programs(_Key(problem, first)), phis, count)


class _Key:
    """A problem, equal to itself alone since arrays cannot be hashed, and the shapes of φ."""

    def __init__(self, problem: Problem, phi: Any):
        leaves, structure = jax.tree.flatten(phi)
        self.problem, self.phi = problem, phi
        self.shapes = structure, tuple((np.shape(leaf), str(leaf.dtype)) for leaf in leaves)

    def __hash__(self) -> int:
        return hash((id(self.problem), self.shapes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.problem is self.problem and other.shapes == self.shapes


@lru_cache(maxsize=8)
def _programs(key: _Key) -> Programs:
    return Programs(read(key.problem, key.phi))


def padded(x: np.ndarray) -> np.ndarray:
    """As many rows as the next of 64, 512, 4096, …, the last repeated: few shapes, so few
    compilations."""
    more = 64 * 8 ** max(0, -(-((len(x) - 1).bit_length() - 6) // 3)) - len(x)
    return np.concatenate([x, np.repeat(x[-1:], more, axis=0)]) if more else x
