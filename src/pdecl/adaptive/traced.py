"""Solutions to a tolerance inside `jit`, `grad` and `vmap`: solved and evaluated on the host, with
derivatives by the implicit function theorem."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.flatten_util import ravel_pytree

from ..state.points import is_concrete
from ..state.problem import Problem, inside
from ..support.status import Status
from .answer import Adaptive
from .many import AdaptiveMany, values_of
from .sensitivity import Sensitivity


class Host:
    """What solves, outside of JAX: `solve(phis)` for a batch. The solutions of the last one are kept."""

    def __init__(self, problem: Problem, phi: Any, solve: Callable[[Any], list[Adaptive]]):
        self.problem, self._solve = problem, solve
        self.shapes = [leaf.shape for leaf in jax.tree.leaves(phi)]
        flat, self.unravel = ravel_pytree(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), phi))
        self.dtype = flat.dtype
        self._kept: dict[bytes, Adaptive] = {}
        self._slopes: dict[bytes, Sensitivity] = {}

    def solutions(self, flats: np.ndarray) -> list[Adaptive]:
        """For φ as rows of numbers (batch, all)."""
        names = [row.tobytes() for row in flats]
        new = {name: k for k, name in enumerate(names) if name not in self._kept}
        if new:
            phis = [self.unravel(jnp.asarray(flats[k], self.dtype)) for k in new.values()]
            stacked = jax.tree.map(lambda *x: np.stack(x), *phis)
            self._kept = {name: self._kept[name] for name in names if name in self._kept}
            self._kept |= zip(new, self._solve(stacked), strict=True)
            self._slopes = {}
        return [self._kept[name] for name in names]

    def sensitivity(self, flat: np.ndarray) -> Sensitivity:
        name = flat.tobytes()
        if name not in self._slopes:
            (solution,) = self.solutions(flat[None])
            self._slopes[name] = Sensitivity(solution)
        return self._slopes[name]


@jax.tree_util.register_pytree_node_class
class Traced:
    """u for a φ that JAX traces, from `solve(problem, phi, tolerance=...)`. `u(points)` and
    `u.d("x")(points)` can be differentiated with respect to φ and to the points. What else an `Adaptive`
    says of itself, such as its error estimate, is known only outside of JAX's transformations.

    Out of `vmap` comes a batch, which is solved when it is first asked: `solutions(points)` are all
    values, `solutions[k]` is the `Adaptive` of one φ, `solutions.status` and `solutions.error_estimate`
    are those of each.
    """

    def __init__(self, host: Host, phi: Any):
        self._host, self.phi = host, phi

    @classmethod
    def of(cls, problem: Problem, phi: Any, solve: Callable[[Any], list[Adaptive]]) -> "Traced":
        return cls(Host(problem, phi, solve), phi)

    def tree_flatten(self) -> tuple[tuple[Any], Host]:
        return (self.phi,), self._host

    @classmethod
    def tree_unflatten(cls, host: Host, children: tuple[Any]) -> "Traced":
        return cls(host, *children)

    @property
    def problem(self) -> Problem:
        return self._host.problem

    @property
    def each(self) -> AdaptiveMany:
        """The solutions of a batch."""
        leaves = jax.tree.leaves(self.phi)
        if self._axes != 1 or not all(map(is_concrete, leaves)):
            raise TypeError(
                "status, error estimates and the solutions themselves are those of one batch of φ, "
                "outside of jit, vmap and grad: "
                "solutions = jax.vmap(lambda phi: pdecl.solve(problem, phi, tolerance=...))(phis)."
            )
        flats = jax.vmap(lambda phi: ravel_pytree(phi)[0])(self.phi)
        return AdaptiveMany(self._host.solutions(np.asarray(flats)))

    @property
    def status(self) -> list[Status]:
        return self.each.status

    @property
    def error_estimate(self) -> np.ndarray:
        return self.each.error_estimate

    def __len__(self) -> int:
        return len(self.each)

    def __getitem__(self, k: Any) -> Any:
        return self.each[k]

    @property
    def _axes(self) -> int:
        """How many axes φ has that one φ does not have."""
        leaves = jax.tree.leaves(self.phi)
        return leaves[0].ndim - len(self._host.shapes[0]) if leaves else 0

    def __call__(self, points: Any) -> Any:
        """u at points of shape `(n, d)`: an array `(n,)`, or a dictionary of them. Of a batch with one
        more axis in front."""
        return self.d()(points)

    def d(self, *coordinates: str) -> Callable[[Any], Any]:
        """A derivative of u as a function of points: `u.d("x", "x")(points)`."""
        axes = tuple(self.problem.domain.axis(name) for name in coordinates)

        def one(phi: Any, points: Any) -> Any:
            values = self._values(axes)(ravel_pytree(phi)[0], points)
            several = dict(zip(self.problem.unknowns, values, strict=True))
            return several if len(several) > 1 else values[0]

        def at(points: Any) -> Any:
            if self._axes == 1 and all(map(is_concrete, [*jax.tree.leaves(self.phi), points])):
                return self.each.d(*coordinates)(points)
            many = one
            for _ in range(self._axes):
                many = jax.vmap(many, (0, None))
            return many(self.phi, inside(self.problem, points))

        return at

    def _values(self, axes: tuple[int, ...]) -> Callable[[Any, Any], Any]:
        """(φ, points) to a derivative of each unknown there, (unknowns, n)."""
        like = lambda coords: jax.ShapeDtypeStruct((len(self.problem.unknowns), len(coords)), float)

        @jax.custom_jvp
        def values(flat: Any, coords: Any) -> Any:
            return _on_host(lambda *x: self._at(axes, *x), like(coords), flat, coords)

        def jvp(primals: Any, tangents: Any) -> Any:
            (flat, coords), (dflat, dcoords) = primals, tangents
            total = jnp.zeros(like(coords).shape)
            if not isinstance(dcoords, SymbolicZero):
                for a in range(coords.shape[1]):
                    total += self._values((*axes, a))(flat, coords) * dcoords[:, a]
            if not isinstance(dflat, SymbolicZero):
                total += self._change(axes, like(coords), _once(flat), _once(coords), dflat)
            return values(flat, coords), total

        values.defjvp(jvp, symbolic_zeros=True)
        return values

    def _change(self, axes: tuple[int, ...], like: Any, flat: Any, coords: Any, dflat: Any) -> Any:
        """How the values change with φ: a linear map that JAX transposes and batches, as that of (dφ, 0)
        to (0, du) is the solve with a matrix whose transpose takes (0, weights) to (dφ, 0)."""
        push = lambda *x: self._push(axes, *x)
        pull = lambda *x: self._pull(axes, *x)
        nothing = jnp.zeros(like.shape) + 0.0 * jnp.sum(dflat)

        def solve(_: Any, b: Any) -> Any:
            return jnp.zeros_like(dflat), _on_host(push, like, flat, coords, b[0])

        def transposed(_: Any, b: Any) -> Any:
            found = jax.ShapeDtypeStruct(dflat.shape, dflat.dtype)
            return _on_host(pull, found, flat, coords, b[1]), jnp.zeros(like.shape)

        return jax.lax.custom_linear_solve(lambda x: x, (dflat, nothing), solve, transposed)[1]

    # --- on the host ----------------------------------------------------------------------------------
    def _at(self, axes: tuple[int, ...], flat: Any, coords: Any) -> np.ndarray:
        """(…, unknowns, n); where all points are the same, those that marched together at once."""
        flat, coords = np.asarray(flat), np.asarray(coords)
        if coords.size == np.prod(coords.shape[-2:]):
            flats = flat.reshape(-1, flat.shape[-1])
            solutions = self._host.solutions(flats)
            found = values_of(solutions, coords.reshape(coords.shape[-2:]), axes)
            values = np.stack([found[u] for u in self.problem.unknowns], axis=1)
            lead = np.broadcast_shapes(flat.shape[:-1], coords.shape[:-2])
            return values.reshape(*lead, *values.shape[1:])

        def one(flat: np.ndarray, coords: np.ndarray) -> np.ndarray:
            values = self._host.solutions(flat[None])[0].at(coords, axes)
            return np.stack([values[u] for u in self.problem.unknowns])

        return self._one_by_one(one, (1, 2), flat, coords)

    def _push(self, axes: tuple[int, ...], flat: Any, coords: Any, dflat: Any) -> np.ndarray:
        def one(flat: np.ndarray, coords: np.ndarray, dflat: np.ndarray) -> np.ndarray:
            change = self._host.sensitivity(flat).push(self._host.unravel(jnp.asarray(dflat)))
            values = change.at(coords, axes)
            return np.stack([values[u] for u in self.problem.unknowns])

        return self._one_by_one(one, (1, 2, 1), flat, coords, dflat)

    def _pull(self, axes: tuple[int, ...], flat: Any, coords: Any, weights: Any) -> np.ndarray:
        def one(flat: np.ndarray, coords: np.ndarray, weights: np.ndarray) -> np.ndarray:
            named = dict(zip(self.problem.unknowns, weights, strict=True))
            return np.asarray(ravel_pytree(self._host.sensitivity(flat).pull(coords, axes, named))[0])

        return self._one_by_one(one, (1, 2, 2), flat, coords, weights)

    def _one_by_one(
        self, one: Callable[..., np.ndarray], axes: tuple[int, ...], *args: Any
    ) -> np.ndarray:
        """Over the axes in front of these many, once all φ have been solved together."""
        arrays = [np.asarray(x) for x in args]
        parts = [
            (x.shape[: x.ndim - k], x.shape[x.ndim - k :]) for x, k in zip(arrays, axes, strict=True)
        ]
        lead = np.broadcast_shapes(*[front for front, _ in parts])
        flat = [
            np.broadcast_to(x, lead + core).reshape(-1, *core)
            for x, (_, core) in zip(arrays, parts, strict=True)
        ]
        self._host.solutions(flat[0])
        found = np.stack([one(*row) for row in zip(*flat, strict=True)])
        return found.reshape(*lead, *found.shape[1:])


def _on_host(f: Callable[..., np.ndarray], like: Any, *args: Any) -> Any:
    if all(map(is_concrete, args)):
        return jnp.asarray(f(*args))
    return jax.pure_callback(f, like, *args, vmap_method="expand_dims")


@jax.custom_jvp
def _once(x: Any) -> Any:
    return x


@_once.defjvp
def _twice(primals: Any, tangents: Any) -> Any:
    raise NotImplementedError(
        "second derivatives with respect to φ of a solve to a tolerance are not known: take differences "
        "of first ones, or solve with a basis."
    )
