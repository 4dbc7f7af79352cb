"""The derivative of the solution of nonlinear conditions, by the implicit function theorem."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from jaxtyping import Array, Float, PyTree

Pair = tuple[Float[Array, " N"], Float[Array, " m"]]


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
    """
    join, split = _joined(f[0].size)
    rhs = join(f)
    like = jax.ShapeDtypeStruct(rhs.shape, rhs.dtype)
    operator = lambda g: lx.FunctionLinearOperator(
        lambda v: join(g(*split(v))), like, lx.positive_semidefinite_tag
    )
    solution = lx.linear_solve(
        operator(product),
        rhs,
        lx.CG(rtol=rtol, atol=rtol * jnp.linalg.norm(rhs), max_steps=max_steps),
        options={"preconditioner": operator(inverse), "y0": join(inverse(*f))},
        throw=False,
    )
    if f[1].size == 0:
        return split(solution.value)
    # On the rows they pull at no iterate: what is left of f is theirs, and has no say in when steps end.
    left = rhs - join(product(*split(solution.value)))
    return split(solution.value + join(inverse(*split(left))))


def _joined(size: int) -> tuple[Callable[[Pair], Array], Callable[[Array], Pair]]:
    """From a pair of vectors, the first of the given size, to one vector and back."""
    return jnp.concatenate, lambda v: (v[:size], v[size:])
