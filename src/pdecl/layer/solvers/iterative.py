"""Matrix-free solvers from lineax, for systems whose matrix does not fit.

The basis is evaluated anew in every step and no n×N array is made. Their default tolerances, relative to
the norm of f, are tight because gradients need them: a solution good to 1e-8 can have a gradient of the
wrong sign.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from jaxtyping import Array, Float, PyTree

from ..batching import singly
from ..gram import Operator
from .base import Effort, LinearSolver


class IterativeSolver(LinearSolver):
    """A solver with a tolerance and nothing to prepare.

    - `rtol`, `atol`: of the norm of what is left of the equation, relative to f and absolute.
    - `max_steps`: after which it has not converged.
    - `ridge`: relative to rows whose columns have norm one. None: 1e-8, or what float32 allows.
    """

    rtol: float = 1e-12
    atol: float = 1e-14
    max_steps: int = 10_000
    ridge: float | None = None
    direct = False

    def prepare(self, gram: Operator) -> None:
        return None


class CG(IterativeSolver):
    """Conjugate gradients on H x = f."""

    def apply(self, prepared: PyTree, gram: Operator, f: Float[Array, " N"]) -> tuple[Array, Effort]:
        solver = lx.CG(self.rtol, self.atol + self.rtol, max_steps=self.max_steps)
        return _solve(_positive(gram.mv, f), f, solver)


class GMRES(IterativeSolver):
    """Generalised minimal residuals on H x = f, restarted. A CPU takes a batch one by one (`singly`): of
    each round's basis lineax makes a QR factorisation."""

    restart: int = 100

    def apply(self, prepared: PyTree, gram: Operator, f: Float[Array, " N"]) -> tuple[Array, Effort]:
        solver = lx.GMRES(
            self.rtol,
            self.atol + self.rtol,
            max_steps=self.max_steps,
            restart=min(self.restart, f.size),
            stagnation_iters=self.restart,
        )
        product = eqx.filter_closure_convert(gram.mv, f)
        arrays, rest = eqx.partition(product, eqx.is_array)

        def solve(arrays: PyTree, f: Array) -> tuple[Array, Effort]:
            return _solve(_positive(eqx.combine(arrays, rest), f), f, solver)

        return singly(solve)(arrays, f)


class LSMR(IterativeSolver):
    """LSMR on the rows, which keeps their condition number: first Sᵀz = f, then S x = z."""

    def apply(self, prepared: PyTree, gram: Operator, f: Float[Array, " N"]) -> tuple[Array, Effort]:
        # The ridge rows make S injective, so that Sᵀz = f has a solution for any f.
        rows = gram.root()
        solver = lx.LSMR(self.rtol, self.atol, max_steps=self.max_steps, conlim=1e16)
        z, first = _solve(rows.T, f, solver)
        x, second = _solve(rows, z, solver)
        return x, Effort(first.steps + second.steps, first.converged & second.converged)


def _positive(product: Callable[[Array], Array], f: Float[Array, " N"]) -> lx.FunctionLinearOperator:
    like = jax.ShapeDtypeStruct(f.shape, f.dtype)
    return lx.FunctionLinearOperator(product, like, lx.positive_semidefinite_tag)


def _solve(
    operator: lx.AbstractLinearOperator, f: Float[Array, " n"], solver: lx.AbstractLinearSolver
) -> tuple[Array, Effort]:
    # For a right-hand side of norm one, so that absolute tolerances mean the same for all of them.
    norm = jnp.linalg.norm(f)
    solution = lx.linear_solve(operator, f / jnp.where(norm > 0, norm, 1.0), solver, throw=False)
    converged = (solution.result == lx.RESULTS.successful) | (norm == 0)
    return norm * solution.value, Effort(solution.stats["num_steps"], converged)
