"""What a batch decides together, and what a CPU does for it one by one, or one after the other."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

_LARGE, _TOO_LARGE = 2**16, 2**22  # numbers in one array: what a cache holds, but not many of them


@jax.custom_batching.custom_vmap
def anywhere(happened: Bool[Array, ""]) -> Bool[Array, ""]:
    """The same truth; for a batch, whether it holds for any of it: one value, so that a `cond` on it
    stays one, where with a value for each of the batch it would go both ways."""
    return happened


@anywhere.def_vmap
def _anywhere_in_batch(
    axis_size: int, in_batched: list[bool], happened: Bool[Array, " batch"]
) -> tuple[Array, bool]:
    return anywhere(jnp.any(happened)), False


def after(known: Float[Array, " k"], tree: Any) -> Any:
    """The same numbers, to be used once `known` is.

    Of two batched factorisations that nothing puts in an order, each can wait for the other's threads
    for ever (jaxlib 0.10 on two cores). XLA drops its own barriers before a CPU runs a program, so that
    the order has to be one of numbers.
    """
    endless = jnp.abs(jax.lax.stop_gradient(known[0])) == jnp.inf
    return jax.tree.map(lambda x: jnp.where(endless, jnp.nan, x), tree)


def one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of arrays; where they are large, a CPU takes a batch one after the other.

    Matrices then stay in its cache between one operation and the next: Gram products of 32 times
    1000 × 600 numbers took 230 ms so, and 340 ms each operation for all of them. A GPU takes the batch
    at once. It has no reverse-mode derivatives.
    """

    @jax.custom_batching.custom_vmap
    def single(*arrays: Any) -> Any:
        return function(*arrays)

    @single.def_vmap
    def batch(axis_size: int, in_batched: list[Any], *arrays: Any) -> tuple[Any, Any]:
        leaves, structure = jax.tree.flatten(arrays)
        batched = jax.tree.leaves(in_batched)
        largest = max(leaf[0].size for leaf, moves in zip(leaves, batched, strict=True) if moves)

        def each(*leaves: Array) -> Any:
            moving = [leaf for leaf, moves in zip(leaves, batched, strict=True) if moves]

            def one(moving: list[Array]) -> Any:
                left = iter(moving)
                both = zip(leaves, batched, strict=True)
                here = [next(left) if moves else leaf for leaf, moves in both]
                return single(*jax.tree.unflatten(structure, here))

            return jax.lax.map(one, moving)

        def together(*leaves: Array) -> Any:
            flat = lambda *leaves: function(*jax.tree.unflatten(structure, leaves))
            return jax.vmap(flat, [0 if moves else None for moves in batched])(*leaves)

        on_cpu = each if _LARGE <= largest <= _TOO_LARGE else together
        out = jax.lax.platform_dependent(*leaves, cpu=on_cpu, default=together)
        return out, jax.tree.map(lambda _: True, out)

    return single
