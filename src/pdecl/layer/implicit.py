"""The derivative of the solution of nonlinear conditions, by the implicit function theorem."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

Pair = tuple[Float[Array, " N"], Float[Array, " m"]]

# After how many steps of conjugate gradients rounding is taken out of what is left.
_MEASURED = 10


def attach(z: Pair, optimality: Callable[[Pair], Pair], make_inverse: Callable[[], Any]) -> Pair:
    """z, with the derivatives that it has as the root of `optimality`.

    `optimality` may close over anything; z is differentiable by all of it, to any order, in forward
    and in reverse mode. Its derivative in z must be symmetric. `make_inverse`, a pytree, returns an
    approximate inverse of that derivative; it is called only when a derivative is asked for.
    """
    z = constant(z)
    return _root(z, eqx.filter_closure_convert(optimality, z), make_inverse)


def constant(tree: PyTree) -> Any:
    """The same numbers, without derivatives."""
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_inexact_array(x) else x, tree)


@eqx.filter_custom_jvp
def _root(z: Pair, optimality: Callable[[Pair], Pair], make_inverse: Callable[[], Any]) -> Pair:
    return z


@_root.def_jvp
def _root_jvp(primals: PyTree, tangents: PyTree) -> tuple[Pair, Pair]:
    z, optimality, make_inverse = primals
    _, optimality_dot, _ = tangents
    z = _root(z, optimality, make_inverse)
    _, change = eqx.filter_jvp(lambda f: f(z), (optimality,), (optimality_dot,))
    minus = lambda a, b: jnp.zeros_like(a) if b is None else -b
    rhs = minus(z[0], change[0]), minus(z[1], change[1])
    product = lambda p, y: jax.jvp(optimality, (z,), ((p, y),))[1]
    inverse = make_inverse()
    # One vector: a transposed solve wants a right-hand side that is linear in all of its parts.
    join, split = _joined(z[0].size)

    def solve(product: Callable, f: Array) -> Array:
        pairs = lambda p, y: split(product(join((p, y))))
        x = join(symmetric_solve(pairs, split(f), inverse, rtol=1e-11, max_steps=200))
        # A derivative that could not be computed must not look like one.
        wrong = jnp.linalg.norm(f - product(x)) > 1e-4 * jnp.linalg.norm(f)
        return jnp.where(wrong, jnp.nan, x)

    matrix = lambda v: join(product(*split(v)))
    z_dot = jax.lax.custom_linear_solve(matrix, join(rhs), solve, solve, symmetric=True)
    return z, split(z_dot)


def symmetric_solve(
    product: Callable[..., Pair], f: Pair, inverse: Callable[..., Pair], rtol: float, max_steps: int
) -> Pair:
    """Conjugate gradients for an exact second derivative, preconditioned by an approximate one.

    With equality rows the system is indefinite, but the preconditioner contains the very same rows:
    started from a point that satisfies them, all iterates stay on them, where the matrix is positive.

    Both functions stand in the program once, and make most of it. So the start, M f, is a first step of
    length one, and every tenth step the residual is measured in a turn of the loop of its own.
    """
    join, split = _joined(f[0].size)
    rhs = join(f)
    times, precondition = lambda v: join(product(*split(v))), lambda v: join(inverse(*split(v)))
    limits = lambda v: rtol * (jnp.linalg.norm(rhs) + jnp.abs(v))
    least = 100 * rhs.size * float(jnp.finfo(rhs.dtype).eps)

    def goes_on(state: _Conjugate) -> Array:
        left = jnp.any(jnp.abs(state.r) > limits(rhs)) | jnp.any(jnp.abs(state.change) > limits(state.x))
        begins = state.steps < 0  # also from what is no number
        return ~state.done & (state.steps < max_steps) & (begins | state.due | left)

    def advance(state: _Conjugate) -> _Conjugate:
        z = precondition(state.r)
        fall, first = z @ state.r, state.steps < 0
        # Where nothing is left, or the preconditioner is not positive, it ends as it is.
        ends = ~state.due & ~first & ~(fall > 0)
        ahead = jnp.where(state.steps > 0, fall / state.fall, 0.0)
        p = jnp.where(state.due, state.p, z + ahead * state.p)
        image = times(jnp.where(state.due, state.x, p))
        bend = p @ image
        length = jnp.where(jnp.abs(bend) > least * jnp.abs(fall), fall / bend, jnp.nan)
        length = jnp.where(first, 1.0, jnp.where(state.due | ends, 0.0, length))
        steps = jnp.where(state.due, state.steps, state.steps + 1)
        return _Conjugate(
            x=state.x + length * p,
            r=jnp.where(state.due, rhs - image, state.r - length * image),
            p=p,
            change=jnp.where(state.due, state.change, length * p),
            fall=jnp.where(state.due, state.fall, fall),
            steps=steps,
            due=~state.due & (steps > 0) & (steps % _MEASURED == 0),
            done=ends,
        )

    nothing, never = jnp.zeros_like(rhs), jnp.asarray(False)
    far, one = jnp.full_like(rhs, jnp.inf), jnp.ones((), rhs.dtype)
    start = _Conjugate(nothing, rhs, nothing, far, one, jnp.asarray(-1), due=never, done=never)
    x = jax.lax.while_loop(goes_on, advance, start).x
    if f[1].size == 0:
        return split(x)
    # On the rows they pull at no iterate: what is left of f is theirs, and has no say in when steps end.
    return split(x + precondition(rhs - times(x)))


class _Conjugate(NamedTuple):
    x: Float[Array, " n"]
    r: Float[Array, " n"]  # what is left, by the steps' own account
    p: Float[Array, " n"]
    change: Float[Array, " n"]  # of x in the last step
    fall: Float[Array, ""]  # r·Mr before it
    steps: Int[Array, ""]  # -1 before the first, which only leads to the start
    due: Bool[Array, ""]  # whether r is to be measured
    done: Bool[Array, ""]


def _joined(size: int) -> tuple[Callable[[Pair], Array], Callable[[Array], Pair]]:
    """From a pair of vectors, the first of the given size, to one vector and back."""
    return jnp.concatenate, lambda v: (v[:size], v[size:])
