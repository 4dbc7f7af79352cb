"""A batch of φ of which most are soon done: the others go on by themselves."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from .online import Iterate

if TYPE_CHECKING:
    from .core import Core

_TOGETHER = 3  # steps that all φ take
_SHARE = 16  # one φ in so many goes on in a round
_SMALL = 64  # batches below this stay together


def in_rounds(core: "Core", phis: Any) -> Iterate:
    """The iterates of a batch.

    Every φ of a batch that is computed together takes as many steps as the slowest, three times as many
    as most need. So all take a few; then those that are not done yet go on, a sixteenth of the batch
    at a time, until each has had its turn.
    """
    count = len(jax.tree.leaves(phis)[0])
    if count < _SMALL:
        return jax.vmap(core.iterate)(phis)
    few = replace(core, rules=replace(core.rules, max_steps=min(_TOGETHER, core.rules.max_steps)))
    first = jax.vmap(few.iterate)(phis)
    some = -(-count // _SHARE)

    def waiting(state: tuple[Iterate, Bool[Array, " batch"]]) -> Bool[Array, ""]:
        found, had_turn = state
        return jnp.any(~found.converged & ~had_turn)

    def turn(state: tuple[Iterate, Bool[Array, " batch"]]) -> tuple[Iterate, Bool[Array, " batch"]]:
        found, had_turn = state
        settled = found.converged | had_turn
        numbers = jnp.argsort(settled, stable=True)[:some]  # those that wait come first
        part = jax.tree.map(lambda leaf: leaf[numbers], phis)
        more = jax.vmap(core.iterate)(part, found.weights[numbers])
        more = more._replace(steps=found.steps[numbers] + more.steps)
        # Those that fill up the last round are done, and stay as they are.
        keep = lambda new, old: jnp.where(
            jnp.expand_dims(settled[numbers], range(1, new.ndim)), old[numbers], new
        )
        found = Iterate(
            *(old.at[numbers].set(keep(new, old)) for new, old in zip(more, found, strict=True))
        )
        return found, had_turn.at[numbers].set(True)

    found, _ = jax.lax.while_loop(waiting, turn, (first, jnp.zeros(count, bool)))
    return found
