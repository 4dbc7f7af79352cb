"""Reads off a function's program whether it is affine in its argument, and whether it reads it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal

# Primitives that are linear in all the operands that may vary, taken together.
_LINEAR = {
    "add", "add_any", "sub", "neg", "reduce_sum", "cumsum", "reshape", "broadcast_in_dim", "squeeze",
    "transpose", "concatenate", "slice", "split", "rev", "copy", "pad", "convert_element_type",
    "optimization_barrier", "stack", "unstack", "tile",
}  # fmt: skip
# Linear in each operand for itself: affine while at most one of them varies.
_MULTILINEAR = {"mul", "dot_general", "conv_general_dilated"}
# Linear in the first operand; the others (divisor, indices) must not vary.
_LINEAR_IN_FIRST = {"div", "gather", "dynamic_slice"}
# Calls whose program is written out in their parameters.
_CALLS = {"jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint"}


def is_affine(f: Callable[[Any], Any], x: Any) -> bool:
    """Whether f(x) = f(0) + (constant matrix) x, judged from the operations alone.

    Errs on the side of no: an operation not known to be linear counts as nonlinear, which costs time
    and never correctness. (Asking whether the derivative reads x would miss `sign` and
    `stop_gradient`, whose derivative is constant although they are not affine.)
    """
    jaxpr = jax.make_jaxpr(f)(x)
    varying = [True] * len(jaxpr.in_avals)
    return _walk(jaxpr, varying) is not None


def _walk(closed: ClosedJaxpr, varying_in: list[bool]) -> list[bool] | None:
    """Which outputs vary, or None as soon as one depends on the inputs other than affinely."""
    jaxpr = closed.jaxpr
    varying = {var for var, varies in zip(jaxpr.invars, varying_in, strict=True) if varies}
    needed = _needed(jaxpr)

    def varies(atom: Any) -> bool:
        return not isinstance(atom, Literal) and atom in varying

    for eqn in jaxpr.eqns:
        ins = [varies(atom) for atom in eqn.invars]
        if not any(ins) or not any(out in needed for out in eqn.outvars):
            continue
        outs = _apply(eqn, ins)
        if outs is None:
            return None
        varying |= {var for var, out in zip(eqn.outvars, outs, strict=True) if out}
    return [varies(atom) for atom in jaxpr.outvars]


def _apply(eqn: Any, ins: list[bool]) -> list[bool] | None:
    name = eqn.primitive.name
    every = [True] * len(eqn.outvars)
    if name in _CALLS:
        inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
        return _walk(inner, ins) if isinstance(inner, ClosedJaxpr) else None
    if name == "cond":
        branches = [_walk(branch, ins[1:]) for branch in eqn.params["branches"]]
        return None if ins[0] or None in branches else every
    if name == "select_n":
        return None if ins[0] else every
    if name == "integer_pow":
        return every if eqn.params["y"] == 1 else None
    if name == "convert_element_type" and not jnp.issubdtype(eqn.params["new_dtype"], jnp.inexact):
        return None
    if name in _LINEAR:
        return every
    if name in _MULTILINEAR:
        return every if sum(ins) <= 1 else None
    if name in _LINEAR_IN_FIRST:
        return every if not any(ins[1:]) else None
    return None


def _needed(jaxpr: Any) -> set:
    """Variables that the outputs depend on, so that dead code does not count."""
    needed = {var for var in jaxpr.outvars if not isinstance(var, Literal)}
    for eqn in reversed(jaxpr.eqns):
        if any(out in needed for out in eqn.outvars):
            needed |= {var for var in eqn.invars if not isinstance(var, Literal)}
    return needed


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
