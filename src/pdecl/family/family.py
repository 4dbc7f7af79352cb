"""What a family is: a PDE with its parameters φ, and what is known of it.

Everything beyond the layer (training, evaluation, commands, reports, streams, compiled solvers, error
bounds, data sets) asks these questions and no others. A `Problem` answers the first; each of the others
has an answer that holds for any PDE, and a better one where somebody knows it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import cache, lru_cache
from typing import Any, ClassVar

import jax
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from ..error.record import ErrorBound
from ..layer.solution import Given, Solution
from ..state.domain import Region
from ..state.points import Points
from ..state.problem import Problem
from ..state.rules import require_count
from ..state.shapes.domain import Domain
from ..support.types import Phi
from . import checks
from . import phi as phis
from .preset import Network, Preset, Training
from .untrained import Richer, choose, further_functions


@dataclass(frozen=True)
class Split:
    """φ number 0 … count − 1 of a seed."""

    seed: int
    count: int


# Seeds are sets of independent streams, so the splits cannot overlap, however many φ are drawn.
SPLITS: Mapping[str, Split] = {"train": Split(seed=1, count=1000), "test": Split(seed=2, count=50)}
CALIBRATING = Split(seed=3, count=40)  # φ that error estimates are calibrated on
# Nodes along each coordinate of the standard grid, by the number of coordinates.
_NODES = {1: 201, 2: 101, 3: 31, 4: 13, 5: 8}


@dataclass(frozen=True)
class Reported:
    """What a paper reports: mean relative L2 error, its deviation, and the PDE's residual if given."""

    error: float
    deviation: float
    residual: float | None = None


class Family:
    """A PDE with its parameters φ. A subclass in a file of your own says what is known of it:

        class Heat(pdecl.Family):
            name = "heat"

            def problem(self):
                return pdecl.Problem(...)

    Only `name` and `problem` are needed. Constants are fields of a frozen dataclass, and two families
    with equal fields are the same.

    Words, for files, pictures and messages:

    - `label`: the name in titles. `equation`: in plain text.
    - `phi_name`, `symbol`: of a φ that is one array, and what pictures call it; `phi_dims`: its axes.
      The arrays of any other φ are called by their keys.
    - `units`: of coordinates, unknowns and arrays of φ, by name.
    - `version`: raised whenever `sample` or `reference` would give other numbers, so that cached files
      are made anew. `source`: a digest of the file that states it, for the same end.

    What is known of it. None: nothing is.

    - `exact(phi, axes)`: u for one φ on the grid of the axes, indexed in the domain's order.
    - `bound(solution, **resolution)`: an `ErrorBound` for a batch, in the norm that `norm` names.
    - `polish(solution, tolerance)`: an answer, a batch of one, improved until its bound is within it.
    - `front()`: a problem whose solution is zero where u has a crease, for `Creased` functions.

    A φ on a grid, with the solution on its nodes:

    - `on_grid`: whether it is so. Then `grid` is a field, the nodes a side, and `problem(nodes=…)` takes
      fewer nodes for u than φ has.

    How many φ are taken together: `reference_batch`, `evaluate_batch`; in streams `solve_batch`, and
    `fast_batch` for compiled solvers and on GPUs.
    """

    name: str
    label: str = ""
    equation: str = ""
    phi_name: str = "phi"
    symbol: str = ""
    phi_dims: tuple[str, ...] | None = None
    units: Mapping[str, str] = {}
    version: int = 1
    source: str = ""
    reference_batch: int = 50
    solve_batch: int = 16
    fast_batch: int = 64
    evaluate_batch: int = 10
    on_grid: bool = False
    # Whether it is trained without a network, where none is asked for.
    reduced: bool = False
    grid: Any = None
    norm: str = "root mean square over points inside"
    presets: Sequence[str] = ("default",)
    # What the method's paper reports, for "hard" and "soft".
    reported: ClassVar[Mapping[str, Reported]] = {}
    # What other solutions beside the reference are called in tables and pictures.
    companion_words: ClassVar[Mapping[str, str]] = {}
    # (φ, solution) as others name them in their files, in the order in which they are looked for.
    usual_names: Sequence[tuple[str, str]] = (("input", "output"),)

    exact: Callable[..., Any] | None = None
    bound: Callable[..., ErrorBound] | None = None
    polish: Callable[[Solution, float], Solution] | None = None
    front: Callable[[], Problem] | None = None
    # u at points (n, d) for one φ; estimates are calibrated with it where nothing is proved.
    at_points: Callable[[Any, Any], Any] | None = None

    def problem(self, *words: Any, **statement: Any) -> Problem:
        """The PDE as conditions, for `solve` and `fit`; φ is what `draw` returns."""
        raise NotImplementedError(f"{type(self).__name__} states no problem.")

    def draw(self, key: PRNGKeyArray) -> Any:
        """One φ from a JAX key: pure, for `vmap` and `jit` (training on fresh φ)."""
        draw = stated(self).parameter
        if draw is None:
            raise ValueError(
                f"{self.name} has no distribution of φ; state it: "
                "pdecl.Problem(..., parameter=lambda key: ...)."
            )
        return draw(key)

    def sample(self, seed: int, count: int, start: int = 0) -> Any:
        """φ number start … start + count − 1 of a seed; the same on every machine."""
        require_count("count", count)
        drawn = _sampler(self)(seed, np.arange(start, start + count))
        return jax.tree.map(np.asarray, drawn)

    def check(self, phi: Phi) -> Any:
        """A user's φ as a batch in float64 (one φ: a batch of one); a ValueError says what is wrong."""
        return checks.as_batch_like(phi, phi_like(self), self.phi_name)

    def reference(self, phi: Phi) -> Any:
        """Solutions to trust on the standard grid, with the axes `solution_dims`; for several unknowns
        a dictionary of them. Without `exact`: a solve with more functions and points, see `richer`."""
        phi = self.check(phi)
        if self.exact is None:
            return self._arranged(richer(self).on_mesh(phi, self._standard_axes(phi)))
        each = [self.exact(one, self._standard_axes(phi)) for one in phis.members(phi)]
        return self._arranged(phis.stack(each))

    def reference_words(self) -> str:
        """What `reference` is, for tables and files."""
        given = self.exact is not None or type(self).reference is not Family.reference
        return "given with the problem" if given else str(richer(self))

    def companions(self, phi: Phi, truth: bool = False) -> dict[str, np.ndarray]:
        """Further solutions beside the reference, by variable name; costly ones only if `truth`."""
        return {}

    @property
    def solution_dims(self) -> tuple[str, ...]:
        """The axes of solutions on a grid."""
        return stated(self).domain.names

    @property
    def unknowns(self) -> tuple[str, ...]:
        return stated(self).unknowns

    @property
    def phi_axes(self) -> dict[str, tuple[str, ...]]:
        """The arrays of φ, and the names of their axes."""
        like = phi_like(self)
        names = phis.names_of(like, self.phi_name)
        if len(names) == 1 and self.phi_dims is not None:
            return {names[0]: self.phi_dims}
        each = zip(names, jax.tree.leaves(like), strict=True)
        return {name: tuple(f"{name}_{axis}" for axis in range(leaf.ndim)) for name, leaf in each}

    def coordinates(self, phi: Phi) -> dict[str, np.ndarray]:
        """Values along every axis of φ, a batch, and of solutions on the standard grid."""
        arrays = phis.columns(phi, self.phi_name)
        own = {
            axis: np.arange(arrays[name].shape[1 + place])
            for name, axes in self.phi_axes.items()
            for place, axis in enumerate(axes)
        }
        domain = stated(self).domain
        nodes = _NODES.get(len(domain.names), 5)
        lines = [np.linspace(low, high, nodes) for low, high in domain.bounds]
        return own | dict(zip(domain.names, lines, strict=True))

    def grid_of(self, phi: Phi) -> int | None:
        """The nodes a side of a φ, or a batch of them, on a grid; None for any other φ."""
        return phi.shape[-1] if self.on_grid else None

    def residual_on(self, solution: Solution, nodes: Sequence[int]) -> np.ndarray:
        """For each φ the sum of squares of the PDE's residual over the inner nodes of the standard grid,
        `nodes` along each coordinate, or over as many points of a shape: of all conditions that hold
        inside. NaN for a problem that is an energy alone."""
        problem, d = solution.problem, len(nodes)
        inside = [isinstance(on, Region) and on.sides == ((),) for on in problem.sets()]
        if isinstance(problem.domain, Domain):  # no rows and columns: as many points
            inner = problem.domain.interior.draw(None, math.prod(nodes))
        else:
            mesh = np.asarray(problem.domain.mesh(*nodes)).reshape(*nodes, d)
            inner = Points(mesh[(slice(1, -1),) * d].reshape(-1, d))
        sets = [inner if here else points for here, points in zip(inside, solution.points, strict=True)]
        named = zip(problem.names(), problem.conditions, problem.places, strict=True)
        counted = [name for name, c, place in named if inside[place] and c.kind != "Energy"]
        return squares_on(solution, problem, tuple(sets), counted)

    def further(self, size: int) -> Sequence[Any]:
        """Functions to put beside `size` learned ones that do not suffice, more and more of them. Each
        has a `size`; `finest`, the points on a face that it wants; and the bound's `resolution`."""
        return further_functions(stated(self), size)

    def features(self, phi: Phi) -> np.ndarray:
        """What distances between φ are measured in: a row of numbers for each of a batch."""
        leaves = jax.tree.leaves(phi)
        return np.concatenate([np.reshape(leaf, (len(leaf), -1)) for leaf in leaves], axis=1)

    def cheaper(self) -> "Family":
        """A family whose φ have alike features and are cheaper to draw."""
        return self

    def adopt(self, phi: np.ndarray, solution: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """φ and solutions of others' files in the form of ours; a ValueError says what is wrong."""
        return phi, solution

    def network(self, method: str) -> Network:
        """A network that suits any problem: functions of the coordinates alone, and for soft models a
        branch of φ that weighs them; periodic where the conditions say so."""
        problem = stated(self)
        joined = [on for on in problem.sets() if isinstance(on, Region) and on.paired]
        names = [problem.domain.names[axis] for on in joined for axis, _ in on.sides]
        periodic = (*dict.fromkeys(names), 1) if names else None
        kind = "MLP" if method == "hard" else "DeepONet"
        size = max(128 // len(problem.unknowns), 32)
        return Network(kind, size, max(128, size), 3, periodic=periodic)

    def basis(self, network: Network, key: PRNGKeyArray) -> Any:
        """A basis for a network's kind that pdecl does not know."""
        raise ValueError(f"there is no network {network.kind!r}.")

    def preset(self, method: str, name: str) -> Preset:
        """A network and how it is trained, for the method "hard" or "soft" and one of `presets`."""
        training = Training(400, 8, 1e-3) if method == "hard" else Training(2500, 8, 4e-3)
        return Preset(self.network(method), training)

    def replaced(self, **constants: Any) -> "Family":
        """The same with other constants, for families that are dataclasses."""
        if not constants:
            return self
        if not is_dataclass(self):
            raise ValueError(f"{self.name} has no constants to change: {', '.join(constants)}.")
        return replace(self, **constants)

    @property
    def heading(self) -> str:
        """What stands above pictures; it may have LaTeX between $ signs."""
        return f"{self.title}: {self.equation}" if self.equation else self.title

    @property
    def title(self) -> str:
        """What the family is called in titles."""
        return self.label or self.name

    def _standard_axes(self, phi: Phi) -> list[np.ndarray]:
        lines = self.coordinates(phi)
        return [lines[name] for name in stated(self).domain.names]

    def _arranged(self, u: PyTree) -> Any:
        """Solutions indexed in the domain's order, as (φ, *solution_dims)."""
        names = stated(self).domain.names
        order = [1 + names.index(name) for name in self.solution_dims]
        return jax.tree.map(lambda leaf: np.transpose(np.asarray(leaf), (0, *order)), u)


@cache
def stated(family: Family, **statement: Any) -> Problem:
    """A family's problem: the same object for the same words, so that what was compiled for it serves
    again."""
    return family.problem(**statement)


def squares_on(
    solution: Solution, problem: Problem, sets: tuple[Points, ...], names: Sequence[str]
) -> np.ndarray:
    """For each φ of a batch the sum of squares over points of the named conditions of a problem."""
    chosen = [index for index, name in enumerate(problem.names()) if name in names]
    if not chosen:
        return np.full(len(solution.weights), np.nan)
    # Nothing is evaluated for the others.
    alone = Problem(
        problem.domain, [problem.conditions[index] for index in chosen], None, problem.unknowns
    )
    points: dict[int, Points] = {}
    for place, index in zip(alone.places, chosen, strict=True):
        points.setdefault(place, sets[problem.places[index]])
    given = Given.of(alone, solution.basis, solution.points)
    asked = tuple(points[place] for place in sorted(points))
    residuals = replace(solution, given=given).residual_at(asked)
    named = zip(alone.names(), alone.places, strict=True)
    squares = [np.asarray(residuals[name]) ** 2 * len(points[place]) for name, place in named]
    return np.asarray(np.sum(squares, axis=0))


@lru_cache(maxsize=8)
def _sampler(family: Family) -> Callable[[int, np.ndarray], Any]:
    """Draws φ by a seed and their numbers; compiled once for each count."""
    one = lambda seed, number: family.draw(jr.fold_in(jr.key(seed), number))
    return jax.jit(jax.vmap(one, (None, 0)))


@lru_cache(maxsize=64)
def phi_like(family: Family) -> Any:
    """One φ, as shapes."""
    return jax.eval_shape(family.draw, jr.key(0))


@lru_cache(maxsize=8)
def richer(family: Family) -> Richer:
    """What stands for the truth where a family gives none."""
    return choose(stated(family), family.sample(SPLITS["train"].seed, 4))


def describe(family: Family) -> dict[str, Any]:
    """The family as plain data: what decides whether a cached file still holds."""
    constants: dict[str, Any] = asdict(family) if is_dataclass(family) else {}
    return {
        "problem": family.name,
        "equation": family.equation,
        "version": family.version,
        **({"source": family.source} if family.source else {}),
        **constants,
    }


def with_counts(
    regions: list[Region], inside: int | None, on_face: int | None, side: int | None = None
) -> list[Region]:
    """Parts of a box, the interior first, with that many points; None leaves the number to the basis.

    The points are of low discrepancy, or nodes drawn from a grid of `side` nodes a side.
    """
    counts = [inside, *[on_face] * (len(regions) - 1)]
    placed = lambda region, count: (
        region.low_discrepancy(count) if side is None else region.nodes(count, side)
    )
    return [
        region if count is None else placed(region, count)
        for region, count in zip(regions, counts, strict=True)
    ]
