"""What a batch decides together, and what a CPU does for it one by one."""

import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree

from ..parallel.devices import look_at_batch

_LARGE, _TOO_LARGE = 2**16, 2**22  # numbers in one array: what a cache holds, but not many of them
_SIDE_BY_SIDE = 8  # single calls in a turn of a loop, at most: each is compiled for itself


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


def whole(tree: PyTree) -> Any:
    """The arrays as NumPy's: inside `vmap` those of the whole batch, its axis first. None where their
    numbers are not known, as inside `jit`."""
    leaves, structure = jax.tree.flatten(tree)
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return jax.tree.unflatten(structure, map(np.asarray, leaves))

    def see(size: int, moves: list[bool], leaves: list[Array]) -> Any:
        full = lambda leaf, has: leaf if has else jnp.broadcast_to(leaf, (size, *jnp.shape(leaf)))
        return whole(jax.tree.unflatten(structure, map(full, leaves, moves)))

    return look_at_batch(leaves, see)


def in_parts(
    function: Callable[[Any], Any],
    batch: PyTree,
    together: int,
    progress: Callable[[int], None] = lambda more: None,
) -> Any:
    """What a function gives for a batch, as arrays of NumPy, this many of it at a time; `progress(k)`
    hears of k more. The last part is filled up, so that one compiled function does for all of them."""
    count, parts = len(jax.tree.leaves(batch)[0]), []
    together = min(together, count)
    for start in range(0, count, together):
        numbers = np.minimum(np.arange(start, start + together), count - 1)
        some = jax.tree.map(lambda leaf, numbers=numbers: leaf[numbers], batch)
        parts.append(jax.tree.map(np.asarray, function(some)))
        progress(min(together, count - start))
    return jax.tree.map(lambda *each: np.concatenate(each)[:count], *parts)


def one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of arrays; where they are large, a CPU takes a batch one after the other.

    Matrices then stay in its cache between one operation and the next: Gram products of 32 times
    1000 × 600 numbers took 230 ms so, and 340 ms each operation for all of them. A GPU takes the batch
    at once. It has no reverse-mode derivatives.
    """
    return _looped(function, lambda largest: int(_LARGE <= largest <= _TOO_LARGE), 1)


def singly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of arrays; on a CPU it is never called for a batch, however often and with
    whatever axes it is vmapped, but in a loop, in each turn of it for as many as there are cores.

    A function that calls LAPACK has to go this way. For a batch, jaxlib's LAPACK calls hand their parts
    to the pool of threads that runs them (`ParallelBatchMap` of jaxlib 0.10) and block a thread of it
    until these are done: as many batched calls side by side as there are threads never end. One for a
    single matrix runs in place. A GPU takes the batch at once. It has no reverse-mode derivatives.
    """
    return _looped(function, lambda largest: 1, _cores())


def in_cache(function: Callable[..., Any], numbers: int) -> Callable[..., Any]:
    """The same function of arrays, which makes matrices of that many numbers; a CPU takes a batch in
    pieces whose matrices stay in its cache from one operation to the next, as many pieces side by side
    as there are cores.

    Gram matrices of whitened rows, 500 times 80 × 40, took 170 µs each with every operation for the
    whole batch, and 30 in pieces of 20. A GPU takes the batch at once. It has no reverse-mode
    derivatives.
    """
    return _looped(function, lambda largest: max(1, _LARGE // numbers), _cores())


def _cores() -> int:
    return min(os.cpu_count() or 1, _SIDE_BY_SIDE)


def _looped(function: Callable[..., Any], piece: Callable[[int], int], width: int) -> Callable[..., Any]:
    """`function`, of which a CPU takes a batch in a loop, `width` pieces in each turn. `piece`: of how
    many of the batch, if the largest of their arrays has so many numbers; 0 for no loop."""

    @jax.custom_batching.custom_vmap
    def single(*arrays: Any) -> Any:
        return function(*arrays)

    @single.def_vmap
    def batch(axis_size: int, in_batched: list[Any], *arrays: Any) -> tuple[Any, Any]:
        leaves, structure = jax.tree.flatten(arrays)
        moving = tuple(jax.tree.leaves(in_batched))
        largest = max(
            math.prod(leaf.shape[1:]) for leaf, moves in zip(leaves, moving, strict=True) if moves
        )
        flat = lambda *leaves: function(*jax.tree.unflatten(structure, leaves))
        out = _for_all(flat, moving, width, piece(largest))(*leaves)
        return out, jax.tree.map(lambda _: True, out)

    return single


def _for_all(
    function: Callable[..., Any], moving: tuple[bool, ...], width: int, piece: int
) -> Callable[..., Any]:
    """A function of arrays, some of which have a leading axis to go over; further ones are merged with
    it. With pieces of none no device makes a loop of it."""
    together = jax.vmap(function, [0 if moves else None for moves in moving])
    on_cpu = partial(_loop, function, moving, width, piece) if piece else together

    @jax.custom_batching.custom_vmap
    def over(*arrays: Array) -> Any:
        return jax.lax.platform_dependent(*arrays, cpu=on_cpu, default=together)

    @over.def_vmap
    def merged(axis_size: int, in_batched: list[bool], *arrays: Array) -> tuple[Any, Any]:
        size = next(x.shape[b] for x, m, b in zip(arrays, moving, in_batched, strict=True) if m)

        def merge(x: Array, moves: bool, batched: bool) -> Array:
            if moves and not batched:
                x = jnp.broadcast_to(x, (axis_size, *x.shape))
            elif batched and not moves:
                x = jnp.broadcast_to(x[:, None], (axis_size, size, *x.shape[1:]))
            return x.reshape(axis_size * size, *x.shape[2:]) if moves or batched else x

        now = tuple(m or b for m, b in zip(moving, in_batched, strict=True))
        out = _for_all(function, now, width, piece)(*map(merge, arrays, moving, in_batched))
        apart = jax.tree.map(lambda x: x.reshape(axis_size, size, *x.shape[1:]), out)
        return apart, jax.tree.map(lambda _: True, out)

    return over


def _loop(
    function: Callable[..., Any], moving: tuple[bool, ...], width: int, piece: int, *arrays: Array
) -> Any:
    """`width` pieces in each turn, which run side by side. The last turn goes back over some of the turn
    before where they do not divide the batch."""
    size = next(len(x) for x, moves in zip(arrays, moving, strict=True) if moves)
    each = jax.vmap(function, [0 if moves else None for moves in moving])
    like = jax.eval_shape(each, *arrays)
    out = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like)
    if size == 0:
        return out
    width = min(width, size)
    turns = -(-size // (width * piece))
    # Not larger than they have to be for that many turns: less is done twice.
    piece = -(-size // (turns * width))
    width = min(width, size // piece)
    call = function if piece == 1 else each

    def turn(start: Any) -> Any:
        def pick(x: Array, moves: bool, i: int) -> Array:
            if not moves:
                return x
            begin = start + i * piece
            return x[begin] if piece == 1 else jax.lax.dynamic_slice_in_dim(x, begin, piece)

        calls = [
            call(*(pick(x, m, i) for x, m in zip(arrays, moving, strict=True))) for i in range(width)
        ]
        join = jnp.stack if piece == 1 else jnp.concatenate
        return jax.tree.map(lambda *parts: join(parts), *calls)

    step = width * piece
    if size == step:
        return turn(0)

    def advance(i: Array, out: PyTree) -> Any:
        start = jnp.minimum(i * step, size - step)
        put = lambda whole, part: jax.lax.dynamic_update_slice_in_dim(whole, part, start, 0)
        return jax.tree.map(put, out, turn(start))

    return jax.lax.fori_loop(0, -(-size // step), advance, out)
