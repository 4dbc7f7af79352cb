"""For a PDE of one's own: an estimate of the error from residuals, calibrated where the error is known.

No stability estimate is at hand for any PDE, so none is claimed. The relative error of a solution is
modelled as

    estimate = factor · √( Σ_c share_c ρ_c² ) / ‖v‖

with ρ_c the root mean square of condition c on points that were not fitted and ‖v‖ that of the
solution. On one half of the calibrating φ the shares (none negative) are fitted to known errors; on
the other half the factor is chosen as a quantile of error over model. For further φ from the same
distribution the error is then at most the estimate with a probability of at least `quantile` (split
conformal prediction: only exchangeability of the φ is used). For φ from elsewhere nothing is promised.
"""

from collections.abc import Callable
from math import ceil
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy
from jaxtyping import Array, Float, PRNGKeyArray

from ..basis import networks
from ..basis.basis import BasisLike, as_basis
from ..basis.networks.wrappers import Beside
from ..layer.batching import in_parts
from ..layer.solution import Solution
from ..layer.solve import sizes_of, solve
from ..state.condition import Energy
from ..state.points import Points
from ..state.problem import Problem
from ..support.types import Phi
from .record import ErrorBound

Reference = Callable[[Any, Float[Array, "n d"]], Float[Array, " n"]]
# A richer solve must leave residuals smaller by this, or its distance is no measure of the error.
MARKEDLY = 3.0
# A handful of functions needs as few points to be solved for; a mean square over so few is none.
_FEWEST = 400
# φ solved for together times unknowns times functions squared: a GB for rows and what is made of them.
_HELD = 2**24
_TOGETHER = 10  # φ at a time: as many as an evaluation takes, so that its programs serve here too


class Estimator(eqx.Module):
    """Maps a solution of the problem it was calibrated for to an estimate of its relative error.

    - `shares`: how much each condition's mean square residual counts.
    - `factor`: the quantile of error over model on φ that the shares did not see.
    - `quantile`: which one; `count` is how many φ it was taken over.
    - `points`: the held-out points. `at`: where errors are measured, and ‖v‖; `where` says it in words.
    """

    shares: dict[str, float] = eqx.field(static=True)
    factor: float = eqx.field(static=True)
    quantile: float = eqx.field(static=True)
    count: int = eqx.field(static=True)
    where: str = eqx.field(static=True)
    points: tuple[Points, ...]
    at: Float[Array, "n d"]

    def __call__(self, solution: Solution) -> ErrorBound:
        """The estimate for one φ or a batch."""
        names = solution.problem.names()
        if set(names) != set(self.shares):
            raise ValueError(
                f"the solution's conditions are {', '.join(names)}; this estimator was calibrated for "
                f"{', '.join(self.shares)}."
            )
        residuals = solution.residual_at(self.points)
        parts = {
            name: self.factor * np.sqrt(share) * residuals[name] for name, share in self.shares.items()
        }
        values = _side_by_side(solution(self.at))
        size = jnp.sqrt(jnp.mean(values**2, axis=-1))
        error = jnp.sqrt(jnp.sum(jnp.stack(list(parts.values())) ** 2, axis=0))
        error = jnp.where(jnp.isfinite(error) & jnp.isfinite(size), error, jnp.inf)
        relative = jnp.where(size > 0, error / jnp.where(size > 0, size, 1.0), jnp.inf)
        return ErrorBound(
            error, relative, jnp.zeros_like(error), size, parts,
            f"root mean square over {self.where}, for {self.quantile:.0%} of φ of the distribution",
            "estimate",
        )  # fmt: skip


def calibrate(
    problem: Problem,
    basis: Any,
    phis: Phi,
    *,
    key: PRNGKeyArray,
    reference: Reference | None = None,
    richer: Any = None,
    quantile: float = 0.9,
    at: Float[Array, "n d"] | None = None,
    answer: Callable[[Any], Solution] | None = None,
    **options: Any,
) -> Estimator:
    """An estimator for solutions of a problem in a basis, from φ for which the error can be known.

    Arguments:

    - `phis`: a batch of φ from the distribution, at least 2 / (1 − quantile) of them: 20 for 0.9.
    - `key`: draws the held-out points, and random functions where they are needed.
    - `reference`: `reference(phi, coords)`, the solution for one φ at points `(n, d)`; for several
      unknowns a dictionary.
    - `richer`: without a reference, a basis to solve in instead and compare with. Left out: the basis
      together with twice as many random functions. It must leave residuals at least three times smaller.
    - `quantile`: of the φ, for which the estimate should not be exceeded.
    - `at`: the points at which errors are measured, a grid say; without it points inside.
    - `answer`: what gives the solutions for a batch of φ, if it is not `solve` in that basis.
    - `options`: of `solve`. A φ whose conditions do not hold is learned from like any other.
    """
    phis = problem.check_many(phis)
    count = jax.tree.leaves(phis)[0].shape[0]
    _require(problem, count, quantile)
    size = _functions(problem, basis, phis)
    point_key, network_key = jr.split(key)
    points = problem.draw(max(2 * size, _FEWEST), point_key)
    where = "points inside" if at is None else "the given points"
    if at is None:
        at = next(some for place, some in enumerate(points) if problem.is_interior(place)).coords
    # How well a basis does is measured here, not judged: a φ without an answer is left out.
    plain = {"throw": False, "residual_limit": None, **options}
    in_basis = lambda basis: jax.vmap(lambda phi: solve(problem, basis, phi, **plain))

    def measured(
        answer: Callable[[Any], Solution], size: int
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Values and residuals, of as many φ at a time as there is room for their rows."""
        look = lambda solution: (_side_by_side(solution(at)), solution.residual_at(points))
        room = _HELD // (len(problem.unknowns) * size**2)
        together = max(1, min(room, _TOGETHER))
        return in_parts(lambda phis: look(answer(phis)), phis, together)

    values, residuals = measured(answer or in_basis(basis), size)
    if reference is not None:
        each = [reference(jax.tree.map(lambda leaf, k=k: leaf[k], phis), at) for k in range(count)]
        together = jax.tree.map(lambda *one: np.stack(list(map(np.asarray, one))), *each)
        truth = np.asarray(_side_by_side(together))
    else:
        richer = _enriched(problem, basis, size, network_key) if richer is None else richer
        truth, better = measured(in_basis(richer), _functions(problem, richer, phis))
        _require_better(residuals, better)
    if truth.shape != values.shape:
        raise ValueError(f"`reference` must return shape {values.shape[1:]}; found {truth.shape[1:]}.")
    errors = np.sqrt(np.mean((values - truth) ** 2, axis=1))
    names = problem.names()
    squares = np.stack([residuals[name] ** 2 for name in names], axis=1)
    good = np.isfinite(errors) & np.isfinite(squares).all(axis=1) & (errors > 0)
    errors, squares = errors[good], squares[good]
    _require(problem, len(errors), quantile)
    half = len(errors) // 2
    shares = _shares(squares[:half], errors[:half])
    ratios = np.sort(errors[half:] / np.sqrt(squares[half:] @ shares))
    rank = min(ceil((len(ratios) + 1) * quantile), len(ratios))
    return Estimator(
        dict(zip(names, shares.tolist(), strict=True)),
        float(ratios[rank - 1]),
        quantile,
        len(ratios),
        where,
        points,
        jnp.asarray(at),
    )


def _functions(problem: Problem, basis: BasisLike, phis: Phi) -> int:
    return sum(sizes_of(problem, basis, jax.tree.map(lambda leaf: leaf[0], phis)).values())


def _shares(squares: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Non-negative shares with √(squares · shares) ≈ errors, each φ counting by its relative misfit."""
    scaled = squares / errors[:, None] ** 2
    scale = scaled.mean(axis=0)
    shares, _ = scipy.optimize.nnls(scaled / scale, np.ones(len(errors)))
    # A condition that explained nothing on these φ may on others: it keeps a small share.
    return np.maximum(shares, 1e-3 * shares.max()) / scale


def _side_by_side(values: Any) -> Float[Array, "*batch n"]:
    """Values of several unknowns as one array, one unknown after the other."""
    leaves = [values[name] for name in sorted(values)] if isinstance(values, dict) else [values]
    return jnp.concatenate(list(map(jnp.asarray, leaves)), axis=-1)


def _enriched(problem: Problem, basis: BasisLike, size: int, key: PRNGKeyArray) -> Any:
    if not as_basis(basis).pointwise or not callable(basis):
        raise ValueError(
            "this basis cannot be joined with random functions; pass `reference=` or `richer=`."
        )
    return Beside(basis, networks.MLP(problem, 2 * size, 2 * size, 2, key=key))


def _require(problem: Problem, count: int, quantile: float) -> None:
    if any(isinstance(c, Energy) for c in problem.conditions):
        raise ValueError(
            "calibrate is for problems whose conditions are Fit or Enforce: the value of an Energy is "
            "no residual."
        )
    if not 0 < quantile < 1:
        raise ValueError(f"quantile must lie between 0 and 1; found {quantile!r}.")
    least = ceil(2 / (1 - quantile) - 1e-9)
    if count < least:
        raise ValueError(
            f"{count} φ are too few to calibrate a quantile of {quantile:g}; give at least {least}, or "
            "lower the quantile."
        )


def _require_better(residuals: dict[str, Any], better: dict[str, Any]) -> None:
    total = lambda found: np.sqrt(sum(np.asarray(rho) ** 2 for rho in found.values()))
    gain = float(np.median(total(residuals) / total(better)))
    if not gain >= MARKEDLY:
        raise ValueError(
            f"the richer solve leaves residuals only {gain:.2g} times smaller (median); at least "
            f"{MARKEDLY:g} are needed to call it the truth. Pass `reference=`, or a `richer=` basis."
        )
