"""What a function depends on, read off its program."""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Literal


def depends(function: Callable[[Any], Any], argument: Any) -> bool:
    """Whether anything that the function returns is computed from its argument; in doubt, yes."""
    program = jax.make_jaxpr(function)(argument)
    return any(_marked(program, [True] * len(program.in_avals)))


def _marked(program: ClosedJaxpr, inputs: list[bool]) -> list[bool]:
    """Which outputs of a program are computed from the marked inputs."""
    marked = {v for v, mark in zip(program.jaxpr.invars, inputs, strict=True) if mark}
    reads = lambda atom: not isinstance(atom, Literal) and atom in marked
    for eqn in program.jaxpr.eqns:
        ins = [reads(atom) for atom in eqn.invars]
        inner = eqn.params.get("jaxpr")
        if any(ins) and eqn.primitive.name in ("jit", "pjit") and isinstance(inner, ClosedJaxpr):
            outs = _marked(inner, ins)
        else:
            outs = [any(ins)] * len(eqn.outvars)
        marked |= {v for v, mark in zip(eqn.outvars, outs, strict=True) if mark}
    return [reads(atom) for atom in program.jaxpr.outvars]
