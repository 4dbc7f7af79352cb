"""`Solution`: u for one φ or a batch, as a function that can be called, and how well conditions hold."""

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from ..basis import basis as bases
from ..basis.basis import BasisLike
from ..state.plots import Shown
from ..state.points import Points, is_concrete
from ..state.problem import Problem, inside
from ..support.status import SolveError, Status
from ..support.summary import Summary, Table
from ..support.types import Phi
from .batching import whole
from .residual import relative_residuals, unseen
from .system import build

# The relative residual above which a condition does not hold, and how many times as large an error the
# residuals may leave room for.
RESIDUAL_LIMIT, ROOM = 0.03, 10


class _Shared:
    """A pytree that counts as the same only where its leaves are the same objects."""

    def __init__(self, tree: PyTree):
        self.tree: Any = tree
        leaves, structure = jax.tree.flatten(tree)
        self._leaves: list[Any] = leaves
        self._structure: Any = structure

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Shared) or self._structure != other._structure:
            return False
        return all(a is b for a, b in zip(self._leaves, other._leaves, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(map(id, self._leaves)))


class Given(eqx.Module):
    """What a solution is made of: the problem, the basis and the points.

    - `traced`: arrays that a transformation (`jit`, `grad`, `vmap`) is tracing where the solution is
      made. They are leaves of the solution, and have an axis for each batch like all other leaves.
    - `shared`: all else, held by reference: `vmap` makes no copy for each φ.
    - `opened`: arrays of `shared` that are arguments of a program just now: see `jit`.
    """

    traced: Any
    opened: Any
    shared: _Shared = eqx.field(static=True)

    @classmethod
    def of(cls, problem: Problem, basis: BasisLike, points: tuple[Points, ...]) -> "Given":
        is_traced = lambda leaf: isinstance(leaf, jax.core.Tracer)
        given = problem, basis, points
        traced, shared = eqx.partition(given, is_traced)
        return cls(traced, None, _Shared(shared if jax.tree.leaves(traced) else given))

    def open(self) -> "Given":
        arrays, shared = eqx.partition(self.shared.tree, eqx.is_array)
        opened = arrays if self.opened is None else eqx.combine(arrays, self.opened)
        return Given(self.traced, opened, _Shared(shared))

    @property
    def parts(self) -> tuple[Problem, Any, tuple[Points, ...]]:
        if not jax.tree.leaves((self.traced, self.opened)):
            return self.shared.tree  # the very objects
        opened = () if self.opened is None else (self.opened,)
        return eqx.combine(self.traced, *opened, self.shared.tree)


class Solution(Shown, eqx.Module):
    """u = Σ ω_i f_i (and the basis's offset) for one φ, or for a batch of them, and how the solve went.

    A solution is a pytree. `jax.vmap` over `solve` returns a batch: each array has a first axis more,
    and the status is a list. `jax.tree.map(lambda leaf: leaf[0], solutions)` is the first of a batch.

    - `weights`: ω, of shape `(N,)`, or `(batch, N)`.
    - `status`: a `Status`, or a list of them for a batch.
    - `residual`: for each condition the root mean square of its equation on the collocation points
      (for an energy: its value). `residual_at` gives it on other points.
    - `iterations`: steps of an iterative solver; zero for a direct one.
    - `optimality`: size of the gradient of the Lagrangian relative to the terms it is the sum of.
    - `violation`: size of the `Enforce` rows relative to their size at u = 0.
    - `problem`, `basis`, `points`: what it was solved with; `points` are the collocation points.
    - `relative_residual`: for each `Fit` and `Enforce` condition the root mean square of its equation
      over that of the size of its terms, on other points than those: 1e-3 says that the condition
      holds to three digits. An energy has none.
    - `room`: the relative error that these residuals leave room for: the largest change of u within its
      functions that changes no condition by more than what is left of it. Zero where that cannot be
      large, None where it was not asked.
    """

    given: Given
    phi: Any
    weights: Float[Array, "*batch N"]
    code: Int[Array, "*batch"]
    iterations: Int[Array, "*batch"]
    optimality: Float[Array, "*batch"]
    violation: Float[Array, "*batch"]
    residual: dict[str, Float[Array, "*batch"]]
    # What `solve` has measured; other solutions measure it when they are asked.
    measured: dict[str, Float[Array, "*batch"]] | None = None
    room: Float[Array, "*batch"] | None = None
    seconds: Float[Array, "*batch"] | None = eqx.field(default=None, kw_only=True)

    def __call__(self, points: Any) -> Any:
        """u at points of shape `(n, d)`: an array `(n,)`, or `(batch, n)`; for several unknowns a
        dictionary of such arrays."""
        return self.d()(points)

    def d(self, *coordinates: str) -> Any:
        """A derivative of u as a function of points: `solution.d("x", "x")(points)`."""
        axes = tuple(sorted(self.problem.domain.axis(name) for name in coordinates))
        return lambda points: each(self, _values, inside(self.problem, points), axes)

    @property
    def problem(self) -> Problem:
        return self.given.parts[0]

    @property
    def basis(self) -> Any:
        return self.given.parts[1]

    @property
    def points(self) -> tuple[Points, ...]:
        return self.given.parts[2]

    @property
    def status(self) -> Any:
        """How each solve ended."""
        if not is_concrete(self.code):
            raise TypeError(
                "`solution.status` is a word, which is not known inside jit, vmap or grad: there "
                "solution.code is a number to compare, solution.code == pdecl.Status.SOLVED."
            )
        return _statuses(np.asarray(self.code))

    @property
    def relative_residual(self) -> dict[str, Float[Array, "*batch"]]:
        """How well each condition holds; see above."""
        if self.measured is not None:
            return self.measured
        return each(self, _relative_residuals, self.problem.fresh(self.weights.shape[-1]))

    def residual_at(self, points: tuple[Points, ...]) -> dict[str, Float[Array, "*batch"]]:
        """`residual` on other points, such as fresh ones: `problem.draw(size, key)`."""
        return each(self, _residuals, self.problem.check_points(points))

    def summary(self) -> Summary:
        """What is printed of it."""
        batch = " × ".join(map(str, self.code.shape))
        enforces = any(condition.kind == "Enforce" for condition in self.problem.conditions)
        seconds: Any = self.seconds
        if seconds is not None and is_concrete(seconds):
            seconds = np.max(seconds)
        return Summary(
            f"Solution for a batch of {batch} φ" if batch else "Solution",
            [
                ("status", _counted(self.code)),
                ("functions", self.weights.shape[-1]),
                ("points", " + ".join(str(points.coords.shape[-2]) for points in self.points) or None),
                ("iterations", self.iterations),
                ("optimality", self.optimality),
                ("violation", self.violation if enforces else None),
                ("room for error", _known_room(self.room)),
                ("seconds", seconds),
                ("conditions", Table(("", "relative residual", "residual"), _held(self))),
            ],
        )


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """`eqx.filter_jit` of a function of a solution first: what the solution shares are arguments of the
    program, not constants of it, so that one program serves all bases of the same shape."""
    compiled = eqx.filter_jit(function)

    @wraps(function)
    def call(solution: Solution, *rest: Any, **options: Any) -> Any:
        return compiled(replace(solution, given=solution.given.open()), *rest, **options)

    return call


@jit
def each(solution: Solution, function: Callable[..., Any], *rest: Any) -> Any:
    """`function(problem, basis, points, phi, weights, *rest)` for each φ."""
    given = solution.given

    def one(traced: PyTree, phi: Phi, weights: Array) -> Any:
        return function(*replace(given, traced=traced).parts, phi, weights, *rest)

    for _ in range(solution.code.ndim):
        one = jax.vmap(one)
    return one(given.traced, solution.phi, solution.weights)


def _values(
    problem: Problem,
    basis: BasisLike,
    points: tuple[Points, ...],
    phi: Phi,
    weights: Float[Array, " N"],
    coords: Float[Array, "n d"],
    axes: tuple[int, ...],
) -> Any:
    values = bases.derivatives_of(basis, problem.unknowns, weights, coords, phi, {axes})
    by_name = {name: values[name, axes] for name in problem.unknowns}
    return by_name[problem.unknowns[0]] if len(by_name) == 1 else by_name


def _residuals(
    problem: Problem,
    basis: BasisLike,
    points: tuple[Points, ...],
    phi: Phi,
    weights: Array,
    sets: tuple[Points, ...],
) -> dict[str, Array]:
    return build(problem, basis, phi, sets, materialise=False).residuals(weights)


def _relative_residuals(
    problem: Problem,
    basis: BasisLike,
    points: tuple[Points, ...],
    phi: Phi,
    weights: Array,
    fresh: tuple[Points, ...],
) -> dict[str, Array]:
    sets = unseen(build(problem, basis, phi, points, materialise=False), fresh)
    return relative_residuals(build(problem, basis, phi, sets, False, whole=True), weights)


def check_residuals(
    problem: Problem, code: Array, measured: dict[str, Array] | None, limit: float | Array | None
) -> Array:
    """The status, where a condition does not hold although the solve went well. NaN does not hold."""
    if limit is None or measured is None:
        return code
    well = (code == int(Status.SOLVED)) | (code == int(Status.OVERDETERMINED))
    for name, most in _limits(problem, limit).items():
        code = jnp.where(well & ~(measured[name] <= most), int(Status.NOT_HELD), code)
    return code


def check_room(problem: Problem, code: Array, room: Array, limit: float | Array | None) -> Array:
    """The status, where residuals within the limits leave room for a large error."""
    if limit is None:
        return code
    most = ROOM * jnp.max(jnp.asarray([*_limits(problem, limit).values()]))
    return jnp.where((code == int(Status.SOLVED)) & (room > most), int(Status.AMPLIFIED), code)


def _limits(problem: Problem, limit: float | Array) -> dict[str, Any]:
    """The relative residual up to which each condition holds."""
    named = zip(problem.names(), problem.conditions, strict=True)
    own = {name: c.residual_limit for name, c in named if c.kind != "Energy"}
    return {name: limit if given is None else given for name, given in own.items()}


def raise_failed(solution: Solution) -> Solution:
    """Raises for a failed solve: at once where the numbers are known, also inside `vmap`; at run time
    inside `jit`. Warns, where they are known, of residuals that leave room for a large error."""
    known = whole((solution.code, solution.measured, solution.room))
    if known is None:
        weights = solution.weights
        for status in filter(lambda status: status.failed, Status):
            happened = solution.code == int(status)
            weights = eqx.error_if(weights, happened, f"{status}. {status.advice}")
        return eqx.tree_at(lambda s: s.weights, solution, weights)
    codes, measured, room = known
    for index, code in np.ndenumerate(codes):
        status = Status(int(code))
        if status.failed:
            number = index[0] if len(index) == 1 else index
            where = f" for φ number {number} of the batch" if index else ""
            told = status is Status.NOT_HELD and measured is not None
            detail = worst_held(solution.problem, measured, index) + "." if told else ""
            raise SolveError(status, where, detail)
    amplified = codes == int(Status.AMPLIFIED)
    if amplified.any():
        count = f" ({amplified.sum()} of {codes.size} φ)" if codes.ndim else ""
        most = max(np.max(residual[amplified]) for residual in measured.values())
        warnings.warn(
            f"{Status.AMPLIFIED}{count}. Relative residuals of up to {most:.2g} leave room for an error "
            f"of {np.max(room[amplified]):.0%}. {Status.AMPLIFIED.advice}",
            stacklevel=3,
        )
    return solution


def worst_held(problem: Problem, measured: dict[str, Any], index: int | tuple[int, ...] = ()) -> str:
    """Which condition holds least for φ number `index` of a batch, and how far."""
    far = {name: float(np.asarray(r)[index]) for name, r in measured.items()}
    allowed = _limits(problem, RESIDUAL_LIMIT)
    worst = max(far, key=lambda name: far[name] / allowed[name])
    return f"{worst!r} has a relative residual of {far[worst]:.2g}"


def _statuses(codes: Any) -> Any:
    return Status(int(codes)) if codes.ndim == 0 else [_statuses(code) for code in codes]


def _counted(code: Array) -> str:
    """The status, or for a batch how often each occurs."""
    if not is_concrete(code):
        return "not computed yet"
    counts = Counter(Status(int(one)) for one in np.asarray(code).ravel())
    if code.ndim == 0:
        return str(*counts)
    return ", ".join(f"{count} {status}" for status, count in counts.most_common())


def _held(solution: Solution) -> list[tuple[str, Any, Any]]:
    """For each condition its name, and how well it holds where that has been measured."""
    measured = solution.measured or {}
    return [(name, measured.get(name, ""), size) for name, size in solution.residual.items()]


def _known_room(room: Array | None) -> Array | None:
    """For the summary: nothing where it was zero throughout."""
    return room if room is not None and is_concrete(room) and np.any(np.asarray(room) > 0) else None
