"""The online solve: rows that are fitted, from jets that are held, without any network."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int

from ..layer.batching import in_cache
from ..layer.gram import lower_product
from ..layer.implicit import attach, constant
from ..layer.layer import Outcome, finite, judged
from ..layer.precision import precision_of
from ..layer.solve import cast
from ..layer.solvers import triangular
from ..layer.system import System, linearise
from ..support.status import Status

_RIDGE = 1e-12  # of the objective, in coordinates in which the mean Gram matrix is the identity
_SAME = 0.2  # times the last step at most is one that is taken by the same factorisation


class Rules(eqx.Module):
    """How the steps are taken.

    - `steps`: the precision of rows' derivatives and factorisations. Residuals and gradients are always
      in float64, so that it decides how many steps are needed more than how good they end.
    - `rtol`: a φ is done when what is left of u, judged from how fast steps shrink, is below this.
    - `max_steps`: of Gauss–Newton.
    - `offset`: where rows are whitened, a φ is done too when a step is smaller than this, beside what
      the functions left out leave uncertain.
    """

    steps: str = eqx.field(static=True)
    rtol: Float[Array, ""]
    max_steps: int = eqx.field(static=True)
    offset: float = eqx.field(static=True, default=0.05)


class Iterate(NamedTuple):
    """Where the steps for a φ have come to: the best weights so far, and the step to take from there."""

    best: Float[Array, " N"]
    value: Float[Array, ""]  # the objective at `best`
    step: Float[Array, " N"]
    size: Float[Array, ""]  # of the last full step, relative to u
    shrink: Float[Array, ""]  # its ratio to the one before
    steps: Int[Array, ""]
    converged: Bool[Array, ""]
    failed: Bool[Array, ""]

    @property
    def weights(self) -> Float[Array, "*batch N"]:
        """The answer; NaN where there was no objective to lower."""
        found = jnp.where(self.converged[..., None], self.best + self.step, self.best)
        return jnp.where(self.failed[..., None], jnp.nan, found)


def first_iterate(start: Float[Array, " N"]) -> Iterate:
    """Before any step."""
    infinite, no = jnp.full((), jnp.inf, start.dtype), jnp.asarray(False)
    one = jnp.ones_like(infinite)
    return Iterate(start, infinite, jnp.zeros_like(start), infinite, one, jnp.asarray(0), no, no)


def iterated(
    system: System,
    whitening: Float[Array, "m n"] | None,
    norm: Float[Array, "N N"],
    so_far: Iterate,
    rules: Rules,
) -> Iterate:
    """The weights of a system of `Fit` rows alone, as numbers without derivatives.

    `whitening` multiplies the rows; ‖norm ω‖ is the size of u that steps are measured by.
    """
    held, so_far = constant(system), constant(so_far)
    if system.is_affine:
        return _direct(held, whitening, so_far, rules)
    return _gauss_newton(held, whitening, norm, so_far, rules)


def fitted(
    system: System, whitening: Float[Array, "m n"] | None, found: Iterate, rules: Rules
) -> Outcome:
    """These weights, differentiable in all that the system is made of, and how good they are."""
    held = constant(system)
    inverse = Partial(_make_inverse, held, whitening, found.weights)
    optimality = lambda z: (jax.grad(partial(_objective, system, whitening))(z[0]), z[1])
    none = jnp.zeros(0, found.weights.dtype)
    weights, _ = attach((found.weights, none), optimality, inverse)

    seen = constant(weights)
    measure = jax.value_and_grad(partial(_objective, held, whitening))
    (value_at_zero, slope_at_zero), (_, slope) = measure(jnp.zeros_like(seen)), measure(seen)
    distance = _ratio(jnp.linalg.norm(slope), jnp.linalg.norm(slope_at_zero))
    inaccurate = system.is_affine & (distance > precision_of(rules.steps).tolerance)
    verdicts = [  # the later, the more it matters
        (~found.converged, Status.NOT_CONVERGED),
        (inaccurate, Status.ILL_CONDITIONED),
        (~finite(seen), Status.ILL_CONDITIONED),
        (~jnp.isfinite(value_at_zero), Status.NONFINITE_EQUATION),
        (~finite(held.phi), Status.NONFINITE_INPUT),
    ]
    return Outcome(weights, judged(verdicts), found.steps, distance, jnp.zeros_like(distance))


def _objective(
    system: System, whitening: Float[Array, "m n"] | None, weights: Float[Array, " N"]
) -> Float[Array, ""]:
    rows = system.rows(weights, "Fit")
    rows = rows if whitening is None else whitening @ rows
    return 0.5 * jnp.sum(rows**2) + 0.5 * _RIDGE * jnp.sum(weights**2)


def _factor(
    system: System, whitening: Float[Array, "m n"] | None, weights: Float[Array, " N"], dtype: Any
) -> triangular.Triangular:
    """The factor of the Gauss–Newton matrix, in a precision. Of all that is done online this takes most
    of the time."""
    arrays, rest = eqx.partition((system, whitening, weights), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    def made(*leaves: Array) -> triangular.Triangular:
        system, whitening, weights = eqx.combine(jax.tree.unflatten(structure, leaves), rest)
        return triangular.factorise(_gram(system, whitening, weights, dtype))

    numbers = system.count("Fit") * weights.size
    return in_cache(made, numbers)(*leaves)


def _gram(
    system: System, whitening: Float[Array, "m n"] | None, weights: Float[Array, " N"], dtype: Any
) -> Float[Array, "N N"]:
    """The Gauss–Newton matrix, of which nothing above the diagonal is to be read."""
    dtype = jnp.dtype(dtype)
    low = cast(system, dtype) if dtype != weights.dtype else system
    operator = linearise(low, weights.astype(dtype)).A
    assert operator is not None
    A = operator.as_matrix().astype(dtype)  # an equation may hold numbers of its own in float64
    if whitening is not None:
        # As one product of all Aᵀ of a batch, one below the other, with a matrix.
        A = (A.T @ whitening.astype(dtype).T).T
    return lower_product(A, A) + precision_of(dtype).factor_ridge * jnp.eye(A.shape[1], dtype=dtype)


def _divide(factor: triangular.Triangular, f: Float[Array, " N"]) -> Float[Array, " N"]:
    low = f.astype(factor.inverses[0].dtype)
    return triangular.up(factor, triangular.down(factor, low)).astype(f.dtype)


def _make_inverse(
    system: System, whitening: Float[Array, "m n"] | None, weights: Float[Array, " N"]
) -> Any:
    """In float64 whatever the steps' precision: from a factor in float32, conjugate gradients took 15 to
    27 iterations for creased functions."""
    factor = _factor(system, whitening, weights, weights.dtype)
    return lambda f, g: (_divide(factor, f), g)


def _direct(
    system: System, whitening: Float[Array, "m n"] | None, so_far: Iterate, rules: Rules
) -> Iterate:
    """One factorisation, and corrections against the rows in float64."""
    weights = so_far.best
    factor = _factor(system, whitening, weights, rules.steps)
    slope = jax.grad(partial(_objective, system, whitening))
    # Of nearly dependent functions a correction in single precision leaves up to 0.4.
    for _ in range(2 if rules.steps == "float64" else 8):
        weights = weights - _divide(factor, slope(weights))
    return so_far._replace(best=weights, converged=jnp.asarray(True))


def _gauss_newton(
    system: System,
    whitening: Float[Array, "m n"] | None,
    norm: Float[Array, "N N"],
    so_far: Iterate,
    rules: Rules,
) -> Iterate:
    """Full steps, and a quarter of the last one where it did not lower the objective. A factorisation
    serves for more steps as long as these shrink fast: most of the time goes into making it.

    With θ the ratio of two steps' sizes, θ times the last of them is about what is left: a φ is done
    when that is below rtol. By a factorisation that is one step old it may be four times that: rows'
    derivatives have changed by 2θ, and their Gram matrix by twice as much. Every φ of a batch takes part
    until the last is done: see `in_rounds`.

    Where functions are left out, rows are whitened such that what these would have taken up is noise,
    which the objective at its least tells the size of. A φ that the functions kept can hardly say
    converges slowly, to an answer that is uncertain by far more than rtol; it is done when a step is
    small beside that (the relative offset of Bates and Watts, 1981).
    """
    measure = jax.value_and_grad(partial(_objective, system, whitening))
    tiny = 1e-15 * _objective(system, whitening, jnp.zeros_like(so_far.best))  # there rounding decides

    def negligible(value: Array, slope: Array, full: Array) -> Array:
        if whitening is None:
            return jnp.asarray(False)
        rows, functions = len(whitening), full.size
        gain = -slope @ full  # the sum of squares of what the step changes in the rows
        left = jnp.maximum(2 * value - gain, 0.0)  # that of the rows after it
        return gain / functions <= rules.offset**2 * left / max(rows - functions, 1)

    def taken(state: Iterate, factor: triangular.Triangular, caution: float = 1.0) -> Iterate:
        trial = state.best + state.step
        value, slope = measure(trial)
        lower = jnp.isfinite(value) & (value <= state.value * (1 + 1e-6) + tiny)
        full = -_divide(factor, slope)
        size = _ratio(jnp.linalg.norm(norm @ full), jnp.linalg.norm(norm @ (trial + full)))
        first = jnp.isinf(state.value)
        shrink = jnp.where(first, 1.0, jnp.minimum(1.0, size / state.size))
        last = (caution * shrink * size <= rules.rtol) | negligible(value, slope, full)
        return Iterate(
            best=jnp.where(lower, trial, state.best),
            value=jnp.where(lower, value, state.value),
            step=jnp.where(lower, full, state.step / 4),
            size=jnp.where(lower, size, state.size),
            shrink=jnp.where(lower, shrink, jnp.inf),
            steps=state.steps,
            converged=lower & last,
            failed=first & ~lower,
        )

    def advance(state: Iterate) -> Iterate:
        factor = _factor(system, whitening, state.best + state.step, rules.steps)
        same = lambda state: taken(state, factor, 4.0)
        state = taken(state._replace(steps=state.steps + 1), factor)
        ahead = lambda found: (found[1], same(found[1]))
        good = lambda found: ~found[0].converged & (found[1].shrink <= _SAME)
        return jax.lax.while_loop(good, ahead, (state, same(state)))[0]

    return jax.lax.while_loop(lambda state: going(state, rules), advance, so_far)


def going(state: Iterate, rules: Rules) -> Bool[Array, "*batch"]:
    """Whether there are steps to take, and steps left."""
    return ~state.converged & ~state.failed & (state.steps < rules.max_steps)


def _ratio(x: Float[Array, ""], y: Float[Array, ""]) -> Float[Array, ""]:
    return x / jnp.where(y > 0, y, 1.0)
