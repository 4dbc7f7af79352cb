"""A batch of φ of which most are soon done: the others go on by themselves."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from .online import Iterate, going

if TYPE_CHECKING:
    from .core import Core

_TOGETHER = 2  # steps that all φ take
_SHARES = (4, 16)  # then one φ in this many at a time: one step more, and all those that are left
_SMALL = 128  # batches below this stay together


def in_rounds(core: "Core", phis: Any) -> Iterate:
    """The iterates of a batch.

    Every φ of a batch that is computed together takes as many steps as the slowest, three times as many
    as most need. So all take a few; those that are not done take one more, a quarter of the batch at
    a time; and the few that are left go on by themselves until each is done.
    """
    count = len(jax.tree.leaves(phis)[0])
    if count < _SMALL:
        return jax.vmap(core.iterate)(phis)
    quarter, few = (-(-count // share) for share in _SHARES)

    def turns(core: "Core", some: int, spare: int, found: Iterate) -> Iterate:
        """So many at a time, until no more than `spare` wait."""

        def turn(found: Iterate) -> Iterate:
            waiting_first = jnp.argsort(~going(found, core.rules), stable=True)
            numbers = waiting_first[:some]
            part = lambda tree: jax.tree.map(lambda leaf: leaf[numbers], tree)
            # Those that fill up a round have no step to take, and stay as they are.
            more = jax.vmap(core.iterate)(part(phis), part(found))
            return jax.tree.map(lambda old, new: old.at[numbers].set(new), found, more)

        waiting = lambda found: jnp.sum(going(found, core.rules)) > spare
        return jax.lax.while_loop(waiting, turn, found)

    found = jax.vmap(_with_steps(core, _TOGETHER).iterate)(phis)
    found = turns(_with_steps(core, _TOGETHER + 1), quarter, few, found)
    return turns(core, few, 0, found)


def _with_steps(core: "Core", most: int) -> "Core":
    return replace(core, rules=replace(core.rules, max_steps=min(most, core.rules.max_steps)))
