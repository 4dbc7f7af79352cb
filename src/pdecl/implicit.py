"""The derivative of the solution of nonlinear conditions, by the implicit function theorem."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from jaxtyping import Array, Float

Pair = tuple[Float[Array, " N"], Float[Array, " m"]]


def attach(z: Pair, optimality: Callable[[Pair], Pair], make_inverse: Callable[[], Any]) -> Pair:
    """z, with the derivatives that it has as the root of `optimality`.

    `optimality` may close over anything; z is differentiable by all of it, to any order, in forward
    and in reverse mode. Its derivative in z must be symmetric. `make_inverse`, a pytree, returns an
    approximate inverse of that derivative; it is called only when a derivative is asked for.
    """
    z = constant(z)
    return _root(z, eqx.filter_closure_convert(optimality, z), make_inverse)


def constant(tree: Any) -> Any:
    """The same numbers, without derivatives."""
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_inexact_array(x) else x, tree)


@eqx.filter_custom_jvp
def _root(z: Pair, optimality: Callable[[Pair], Pair], make_inverse: Callable[[], Any]) -> Pair:
    return z


@_root.def_jvp
def _root_jvp(primals: Any, tangents: Any) -> tuple[Pair, Pair]:
    z, optimality, make_inverse = primals
    _, optimality_dot, _ = tangents
    z = _root(z, optimality, make_inverse)
    _, change = eqx.filter_jvp(lambda f: f(z), (optimality,), (optimality_dot,))
    rhs = tuple(jnp.zeros_like(a) if b is None else -b for a, b in zip(z, change, strict=True))
    # One vector: a transposed solve wants a right-hand side that is linear in all of its parts.
    join, split = jnp.concatenate, lambda v: (v[: z[0].size], v[z[0].size :])
    product = lambda v: join(jax.jvp(optimality, (z,), (split(v),))[1])
    inverse = make_inverse()
    solve = lambda product, f: _conjugate_gradients(product, f, lambda v: join(inverse(*split(v))))
    z_dot = jax.lax.custom_linear_solve(product, join(rhs), solve, solve, symmetric=True)
    return z, split(z_dot)


def _conjugate_gradients(
    product: Callable, f: Float[Array, " k"], inverse: Callable
) -> Float[Array, " k"]:
    """Conjugate gradients for the exact second derivative, preconditioned by the approximate one.

    With equality rows the system is indefinite, but the preconditioner contains the very same rows:
    started from a point that satisfies them, all iterates stay on them, where the matrix is positive.
    """
    like = jax.ShapeDtypeStruct(f.shape, f.dtype)
    operator = lambda g: lx.FunctionLinearOperator(g, like, lx.positive_semidefinite_tag)
    size = jnp.linalg.norm(f)
    found = lx.linear_solve(
        operator(product),
        f,
        lx.CG(rtol=1e-11, atol=1e-11 * size, max_steps=200),
        options={"preconditioner": operator(inverse), "y0": inverse(f)},
        throw=False,
    )
    # A derivative that could not be computed must not look like one.
    wrong = jnp.linalg.norm(f - product(found.value)) > 1e-4 * size
    return jnp.where(wrong, jnp.nan, found.value)
