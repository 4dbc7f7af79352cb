"""Rows that are nearly as many as functions, on a CPU: LU instead of CCᵀ and its Cholesky factor.

For rows C of m × n numbers, n a little above m, Cᵀ = PᵀLU takes half of the operations, and does not
square the condition number (Peters and Wilkinson, 1970). L is tall: with its square part L₁, the rest
L₂, W = L₁⁻ᵀL₂ᵀ and S = (1 + WᵀW)⁻¹,

    C⁺ = Pᵀ [1 − W S Wᵀ; S Wᵀ] L₁⁻ᵀ U⁻ᵀ.

3721 × 4000 numbers with a gradient take two cores 1.0 s so and 1.6 s by QR.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import lineax as lx
from jaxtyping import Array, Bool, Float, Int

from .. import lapack
from ..batching import anywhere
from ..gram import Dual, held, lower_product, written_out
from . import triangular
from .base import DirectSolver, smallest_eigenvalue

_LARGE = 1500  # rows from which on the parts fill a CPU
_RATIO = 1.25  # functions to rows up to which it takes fewer operations
_PART = 8  # of the rows one in this many is looked at before
_FAR = 1e2  # times the ridge: eigenvalues of CCᵀ that need none


class Factors(NamedTuple):
    upper: triangular.Triangular  # Uᵀ
    lower: triangular.Triangular  # L₁
    rest: Float[Array, "m k"]  # W
    small: Float[Array, "k k"]  # S
    order: Int[Array, " n"]  # P
    serve: Bool[Array, ""]


class NearlySquare(DirectSolver):
    """H = CCᵀ + ridge for rows C that are far from dependent, without the ridge: H⁻¹ = (C⁺)ᵀC⁺.

    Whether they are is known once they are factorised, and said by `serve`. A part of the rows, which is
    no more dependent than all of them, is looked at before; the functions of the FNO of the paper end
    there. Elsewhere than on a CPU nothing is factorised.
    """

    ridge: float | None = None
    refinements: int = 0

    def prepare(self, gram: Dual) -> Factors:  # type: ignore[override]
        given = written_out(gram.rows).as_matrix(), gram.ridge
        like = jax.eval_shape(_factorise, *given)
        nothing = lambda *_: jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)

        def on_cpu(rows: Array, ridge: Array) -> Factors:
            return jax.lax.cond(anywhere(_depend(rows, ridge)), nothing, _factorise, rows, ridge)

        return jax.lax.platform_dependent(*given, cpu=on_cpu, default=nothing)

    def down(self, prepared: Any, f: Float[Array, " m"]) -> Float[Array, " n"]:
        return _inverse(prepared, f)

    def up(self, prepared: Any, f: Float[Array, " n"]) -> Float[Array, " m"]:
        return _inverse_transposed(prepared, f)


def pays(rows: lx.AbstractLinearOperator) -> bool:
    m, n = rows.out_size(), rows.in_size()
    return held(rows) is not None and _LARGE <= m <= n <= _RATIO * m


def _depend(rows: Float[Array, "m n"], ridge: Float[Array, " m"]) -> Bool[Array, ""]:
    """Whether a part of the rows depends on the others of it. Neighbours do so first."""
    some = len(rows) // _PART
    columns = rows[:some].T
    factor = triangular.factorise(lower_product(columns, columns) + jnp.diag(ridge[:some]))
    inverse = lambda f: triangular.up(factor, triangular.down(factor, f))
    return ~(smallest_eigenvalue(inverse, ridge[:some]) > _FAR * jnp.max(ridge))


def _factorise(rows: Float[Array, "m n"], ridge: Float[Array, " m"]) -> Factors:
    m, n = rows.shape
    lu, _, order = lapack.lu(rows.T)
    square = lu[:m]
    upper, lower = triangular.split(square.T, jnp.where(jnp.eye(m, dtype=bool), 1.0, square))
    rest = triangular.up(lower, lu[m:].T)
    small = lapack.inverse(jnp.eye(n - m, dtype=lu.dtype) + rest.T @ rest)
    factors = Factors(upper, lower, rest, small, order, jnp.asarray(True))
    smallest = smallest_eigenvalue(partial(NearlySquare().once, factors), ridge)
    return factors._replace(serve=smallest > _FAR * jnp.max(ridge))


def _inverse(factors: Factors, g: Float[Array, " m"]) -> Float[Array, " n"]:
    """C⁺ g."""
    v = triangular.up(factors.lower, triangular.down(factors.upper, g))
    below = factors.small @ (v @ factors.rest)
    ordered = jnp.concatenate([v - factors.rest @ below, below])
    return jnp.zeros_like(ordered).at[factors.order].set(ordered)


def _inverse_transposed(factors: Factors, x: Float[Array, " n"]) -> Float[Array, " m"]:
    """(C⁺)ᵀ x."""
    first, below = jnp.split(x[factors.order], [factors.rest.shape[0]])
    v = first + factors.rest @ (factors.small @ (below - first @ factors.rest))
    return triangular.up(factors.upper, triangular.down(factors.lower, v))
