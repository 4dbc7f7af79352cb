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
from .answer import Adaptive
from .sensitivity import Sensitivity


class Traced:
    """u for a φ that JAX traces, from `solve(problem, phi, tolerance=...)`. `u(points)` and
    `u.d("x")(points)` can be differentiated with respect to φ and to the points. What else an `Adaptive`
    says of itself, such as its error estimate, is known only outside of JAX's transformations."""

    def __init__(self, problem: Problem, phi: Any, solve: Callable[[Any], Any]):
        self.problem, self._solve = problem, solve
        self._flat, self._unravel = ravel_pytree(phi)
        self._last: tuple[bytes, Adaptive] | None = None
        self._slopes: Sensitivity | None = None

    def __call__(self, points: Any) -> Any:
        """u at points of shape `(n, d)`: an array `(n,)`, or a dictionary of them."""
        return self.d()(points)

    def d(self, *coordinates: str) -> Callable[[Any], Any]:
        """A derivative of u as a function of points: `u.d("x", "x")(points)`."""
        axes = tuple(self.problem.domain.axis(name) for name in coordinates)

        def at(points: Any) -> Any:
            values = self._values(axes)(self._flat, inside(self.problem, points))
            several = dict(zip(self.problem.unknowns, values, strict=True))
            return several if len(several) > 1 else values[0]

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
    def _solution(self, flat: Any) -> Adaptive:
        flat = np.asarray(flat)
        if self._last is None or self._last[0] != flat.tobytes():
            self._last = flat.tobytes(), self._solve(self._unravel(jnp.asarray(flat)))
            self._slopes = None
        return self._last[1]

    def _sensitivity(self, flat: Any) -> Sensitivity:
        solution = self._solution(flat)
        if self._slopes is None:
            self._slopes = Sensitivity(solution)
        return self._slopes

    def _at(self, axes: tuple[int, ...], flat: Any, coords: Any) -> np.ndarray:
        values = self._solution(flat).at(np.asarray(coords), axes)
        return np.stack([values[u] for u in self.problem.unknowns])

    def _push(self, axes: tuple[int, ...], flat: Any, coords: Any, dflat: Any) -> np.ndarray:
        change = self._sensitivity(flat).push(self._unravel(jnp.asarray(dflat)))
        values = change.at(np.asarray(coords), axes)
        return np.stack([values[u] for u in self.problem.unknowns])

    def _pull(self, axes: tuple[int, ...], flat: Any, coords: Any, weights: Any) -> np.ndarray:
        named = dict(zip(self.problem.unknowns, np.asarray(weights), strict=True))
        found = self._sensitivity(flat).pull(np.asarray(coords), axes, named)
        return np.asarray(ravel_pytree(found)[0])


def _on_host(f: Callable[..., np.ndarray], like: Any, *args: Any) -> Any:
    if all(map(is_concrete, args)):
        return jnp.asarray(f(*args))
    return jax.pure_callback(f, like, *args, vmap_method="sequential")


@jax.custom_jvp
def _once(x: Any) -> Any:
    return x


@_once.defjvp
def _twice(primals: Any, tangents: Any) -> Any:
    raise NotImplementedError(
        "second derivatives with respect to φ of a solve to a tolerance are not known: take differences "
        "of first ones, or solve with a basis."
    )
