"""What a model is; and a trained basis as a function from a batch of φ to solutions and values."""

import abc
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..layer.solution import Given, Solution
from ..layer.solve import predict, solve
from ..layer.solvers import GaussNewton
from ..state.jet import Axes
from ..state.points import Points
from ..state.problem import Problem
from ..state.shapes.moving import MovingDomain
from ..support.summary import Summarised
from ..support.types import Phi

if TYPE_CHECKING:
    from .trained import Trained

WEIGHTS = "weights"
# What was found, u and its derivatives at the points, and u at the nodes of φ's grid.
QueryResult = tuple[dict[str, Any], dict[str, Array], Any]
OUTCOME = ("weights", "residual", "iterations", "optimality", "violation", "code", "measured")
ModelQuery = Callable[[Any, int | None], QueryResult]


class Model(Summarised, abc.ABC):
    """What answers φ: a trained basis, hard or soft, or a compiled solver."""

    # The shape of one φ, where it answers no other (`phi.shape_of`).
    shape: Any = None
    # How many functions it evaluates at each point that is asked for.
    evaluated: int = 0

    @property
    @abc.abstractmethod
    def trained(self) -> "Trained":
        """The trained basis behind it: its distribution, its functions, its bounds."""

    @property
    @abc.abstractmethod
    def digest(self) -> str:
        """What tells it from any other."""

    @property
    @abc.abstractmethod
    def usual_batch(self) -> int:
        """How many φ are solved together where nothing is said."""

    @abc.abstractmethod
    def problem(self, grid: int | None = None) -> Problem:
        """The PDE as it is solved; for a φ on a grid, with that many nodes a side."""

    @abc.abstractmethod
    def solve(self, phi: Phi, **options: Any) -> Solution:
        """The solutions for a batch of φ."""

    @abc.abstractmethod
    def distance_on(self, grid: int | None = None) -> Callable[[Any], np.ndarray]:
        """How far each φ of a batch is from the training φ, on a grid with that many nodes a side; above
        1.5 it is outside of their distribution."""

    @abc.abstractmethod
    def as_query(
        self,
        points: tuple[Points, ...],
        coords: Float[Any, "q d"],
        derivatives: tuple[str, ...],
        residual_limit: float,
        weights_alone: bool,
        grid: int | None = None,
    ) -> ModelQuery:
        """Itself as a function of φ. `points`: those to solve on, if it has chosen none itself."""

    @abc.abstractmethod
    def weights_kept(self, phi: Phi) -> int:
        """How many weights are kept of a φ like this one."""

    @abc.abstractmethod
    def given(self, weights: Float[Array, "batch n"], grid: int | None) -> tuple[Given, Array]:
        """What solutions with such weights are made of, and the weights of the basis."""


class LayerQuery(eqx.Module):
    """A trained basis: ω from the layer, or for a soft model from the network."""

    problem: Problem
    basis: Any
    points: tuple[Points, ...]
    solver: GaussNewton
    coords: Float[Array, "q d"]
    derivatives: tuple[str, ...] = eqx.field(static=True)
    soft: bool = eqx.field(static=True)
    residual_limit: float = eqx.field(static=True)
    weights_alone: bool = eqx.field(static=True)

    def __call__(self, phi: Phi, side: int | None) -> QueryResult:
        return jax.vmap(partial(self._one, side))(phi)

    def _one(self, side: int | None, phi: Phi) -> QueryResult:
        if self.soft:
            solution = predict(self.problem, self.basis, phi, points=self.points, throw=False)
        else:
            solution = solve(
                self.problem,
                self.basis,
                phi,
                points=self.points,
                solver=self.solver,
                throw=False,
                residual_limit=self.residual_limit,
            )
        if self.weights_alone:
            values = {WEIGHTS: solution.weights}
        else:
            values = values_at(solution, self.coords, self.derivatives)
            values = blank_outside(self.problem, phi, self.coords, values)
        return {name: getattr(solution, name) for name in OUTCOME}, values, at_nodes(solution, side)


def blank_outside(
    problem: Problem, phi: Phi, coords: Array, values: dict[str, Array]
) -> dict[str, Array]:
    """NaN where the shape of φ does not reach. Points outside of a shape that stands still are not
    asked."""
    if not isinstance(problem.domain, MovingDomain):
        return values
    inside = problem.domain.covers(coords, phi)
    return {name: jnp.where(inside, u, jnp.nan) for name, u in values.items()}


def at_nodes(solution: Solution, side: int | None) -> Any:
    return None if side is None else solution(solution.problem.domain.mesh(side, side))


def values_at(
    solution: Solution, coords: Float[Any, "q d"], derivatives: tuple[str, ...]
) -> dict[str, Array]:
    """The unknowns and their derivatives at points, by the names that files have for them."""
    problem = solution.problem
    columns: dict[str, Array] = {}
    for derivative in ("", *derivatives):
        values = solution.d(*along(derivative, problem.domain.names))(coords)
        each = values if len(problem.unknowns) > 1 else {problem.unknowns[0]: values}
        columns |= {column(name, derivative): each[name] for name in problem.unknowns}
    return columns


def along(derivative: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The coordinates of a derivative: "xt" is along x and t, "theta.t" along theta and t."""
    if derivative in names or "." in derivative:
        return tuple(derivative.split("."))
    return tuple(derivative)


def axes_of(problem: Problem, derivative: str) -> Axes:
    """The axes of a derivative."""
    names = problem.domain.names
    return tuple(sorted(map(problem.domain.axis, along(derivative, names))))


def column(unknown: str, derivative: str = "") -> str:
    """What files call an unknown's derivative."""
    return f"{unknown}_{derivative}" if derivative else unknown
