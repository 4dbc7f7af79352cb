"""What `pareto.py` compares: the layer and the soft networks, as programs from a batch of φ to u."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.interpolate import CubicSpline

import pdecl
from pdecl.basis import basis as bases
from pdecl.family.experiment import solver_of
from pdecl.family.trained import Trained
from pdecl.reduced import Compiled, Snapshots
from pdecl.reduced.compile import assemble, snapshots_of
from pdecl.reduced.core import Core, answer
from pdecl.reduced.snapshots import sees_phi, values_of

TEN = 10


@dataclass(frozen=True)
class Program:
    """`run(held, phi)`: u for a batch of φ. `held` are arrays it is given each time, not made of."""

    run: Callable[[Any, Any], Any]
    held: Any = ()


@dataclass(frozen=True)
class Method:
    """One way to solve at one setting.

    - `family`: "layer", "soft" or "numerical".
    - `grid`: u on the standard grid; `ten` at ten of its nodes.
    - `traced`: a JAX program; else NumPy on the CPU. `serial`: takes one φ after the other.
    - `differentiable`: whether gradients through it are those of the solution.
    - `main`: whether gradients and queries at ten points are timed too.
    - `call`: what a user would call, checks of φ included.
    """

    family: str
    name: str
    setting: str
    grid: Program
    ten: Program | None = None
    dtype: Any = np.float64
    traced: bool = True
    serial: bool = False
    differentiable: bool = True
    main: bool = False
    call: Callable[[Any], Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A problem's standard grid: the shape of its solutions, their nodes, and ten of these."""

    trained: Trained
    phi_shape: tuple[int, ...]

    @cached_property
    def axes(self) -> dict[str, np.ndarray]:
        along = self.trained.family.coordinates(np.zeros((1, *self.phi_shape)))
        return {name: along[name] for name in self.trained.family.solution_dims}

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(values) for values in self.axes.values())

    @cached_property
    def nodes(self) -> np.ndarray:
        """Coordinates in the order of the solution's array, columns in that of the domain."""
        mesh = dict(zip(self.axes, np.meshgrid(*self.axes.values(), indexing="ij"), strict=True))
        return np.stack([mesh[name].ravel() for name in self.trained.problem().domain.names], axis=-1)

    @cached_property
    def ten(self) -> np.ndarray:
        """Numbers of the ten nodes."""
        inside = np.zeros(self.shape, bool)
        inside[1:-1, 1:-1] = True
        return np.sort(np.random.default_rng(0).choice(np.flatnonzero(inside), TEN, replace=False))


def of_the_grid(grid: Program, case: Case) -> Program:
    """Ten nodes out of a solution on the whole grid; the compiler leaves out what it can."""
    numbers = jnp.asarray(case.ten)
    return Program(lambda held, phi: grid.run(held, phi).reshape(len(phi), -1)[:, numbers], grid.held)


def interpolation(coarse: int, fine: int) -> np.ndarray:
    """The matrix of cubic spline interpolation from one even grid of [0, 1] to another."""
    if coarse == fine:
        return np.eye(fine)
    return CubicSpline(np.linspace(0, 1, coarse), np.eye(coarse))(np.linspace(0, 1, fine))


def layers(case: Case, phis: int, sizes: Sequence[int]) -> "Layers":
    """The layer at several sizes; the compiled solvers are made one by one, as they are asked for."""
    if case.trained.family.name == "darcy":
        return Layers(case, None, sizes, 0.0)
    began = time.perf_counter()
    snapshots = snapshots_of(case.trained, phis)
    return Layers(case, snapshots, sizes, time.perf_counter() - began)


@dataclass
class Layers:
    """Settings of the layer.

    - `sizes`: numbers of functions; for Darcy, whose functions depend on φ and whose answers nothing can
      be prepared for, numbers of nodes a side that it solves on.
    - `seconds`: what its snapshots took. `solvers`: those made so far, by number of functions.
    """

    case: Case
    snapshots: Snapshots | None
    sizes: Sequence[int]
    seconds: float
    solvers: dict[int, Compiled] = field(default_factory=dict)

    def methods(self) -> Iterator[Method]:
        if self.snapshots is None:
            for place, nodes in enumerate(self.sizes):
                yield on_a_grid(self.case, nodes, main=place < 2)
        elif self.snapshots.sees_phi:
            size = self.snapshots.plan.size
            for place, ratio in enumerate((1.5, 2.0, 3.0)):
                yield self._compiled(None, round(ratio * size), jnp.float64, main=place == 0)
        else:
            for place, size in enumerate(self._reduced):
                yield self._compiled(size, None, jnp.float32, main=place < 2)

    def further(self) -> Iterator[Method]:
        """Less important ones: steps in float64, and all functions."""
        if self.snapshots is not None and not self.snapshots.sees_phi:
            yield self._compiled(self._reduced[0], None, jnp.float64, main=False)
            yield self._compiled(None, None, jnp.float32, main=False)

    def too_many(self) -> list[int]:
        """Numbers of functions that the basis or the training φ are too few for."""
        if self.snapshots is None or self.snapshots.sees_phi:
            return []
        return [size for size in self.sizes if size >= self._most]

    @property
    def _most(self) -> int:
        assert self.snapshots is not None
        return min(self.snapshots.plan.size, len(self.snapshots.kept))

    @property
    def _reduced(self) -> list[int]:
        return [size for size in self.sizes if size < self._most] or [max(1, self._most // 2)]

    def _compiled(self, size: int | None, rows: int | None, steps: Any, main: bool) -> Method:
        assert self.snapshots is not None
        began = time.perf_counter()
        at = jnp.asarray(self.case.nodes)
        made = replace(
            assemble(self.snapshots, size, points=rows, at=at, dtype=steps),
            experiment=self.snapshots.experiment,
        )
        seconds = time.perf_counter() - began
        self.solvers.setdefault(made.functions, made)
        setting = f"N = {made.functions}, n = {made.rows}, {jnp.dtype(steps).name} steps"
        return Method(
            "layer", "compiled layer", setting, of_core(made.core, self.case.shape),
            of_core(at_few(made.core, self.case.ten), (TEN,)), main=main, call=made,
            facts={
                "functions": made.functions, "rows": made.rows, "steps": jnp.dtype(steps).name,
                "error_of_reduction": made.error.mean, "offline_seconds": self.seconds + seconds,
            },
        )  # fmt: skip


def of_core(core: Core, shape: tuple[int, ...]) -> Program:
    """The bare compiled program, everything but checks of φ and copies to and from the device."""
    held, rest = eqx.partition(core, eqx.is_array)
    unknown = core.problem.unknowns[0]

    def run(held: Any, phi: Any) -> Any:
        values = answer(eqx.combine(held, rest), phi, True).values
        assert values is not None
        return values[unknown].reshape(len(phi), *shape)

    return Program(run, held)


def at_few(core: Core, numbers: np.ndarray) -> Core:
    """The same solver with some of its query points."""
    assert core.at is not None
    held = None if core.values is None else {name: v[numbers] for name, v in core.values.items()}
    return replace(core, at=core.at[numbers], values=held)


def on_a_grid(case: Case, nodes: int, main: bool = False, trained: Trained | None = None) -> Method:
    """Darcy: the layer on so many nodes a side, asked at those of the standard grid."""
    trained, side = trained or case.trained, case.shape[0]
    trained = trained if nodes == side else trained.coarser(nodes)
    problem, size = trained.problem(side), trained.experiment.network.size
    points, solver = problem.draw(size), solver_of(trained.experiment)
    held, rest = eqx.partition(trained.basis, eqx.is_array)

    def asked(at: Any) -> Program:
        def run(held: Any, phi: Any) -> Any:
            basis, options = eqx.combine(held, rest), {"points": points, "solver": solver}
            one = lambda phi: pdecl.solve(problem, basis, phi, throw=False, **options)(at)
            return jax.vmap(one)(phi)

        return Program(run, held)

    whole = asked(jnp.asarray(case.nodes))
    on_grid = lambda held, phi: whole.run(held, phi).reshape(len(phi), side, side)
    return Method(
        "layer", "layer", f"{nodes}² nodes, N = {size}", Program(on_grid, held),
        asked(jnp.asarray(case.nodes[case.ten])), main=main,
        facts={"functions": size, "nodes": nodes},
    )  # fmt: skip


def soft(case: Case, trained: Trained) -> Method:
    """A soft network's forward pass; functions that do not see φ are held as values at the nodes."""
    side = case.shape[0] if case.trained.family.name == "darcy" else None
    own_side = trained.experiment.grid
    if side is not None and own_side is not None and own_side < side:
        trained = trained.coarser(own_side)  # where it was trained
    problem, basis = trained.problem(side), trained.basis
    held, rest = eqx.partition(basis, eqx.is_array)
    one = jnp.zeros(case.phi_shape) + 1
    size = trained.experiment.network.size
    points = problem.draw(size)

    def forward(at: Any) -> Program:
        if not sees_phi(problem, basis, one):
            values = eqx.filter_jit(values_of)(problem, basis, one, at)[problem.unknowns[0]]

            def weights(basis: Any, phi: Any) -> Any:
                own = bases.specialise(basis, phi)
                return bases.predicted(own, problem.unknowns, phi, {problem.unknowns[0]: size})

            return Program(
                lambda held, phi: (
                    jax.vmap(lambda phi: weights(eqx.combine(held[0], rest), phi))(phi) @ held[1].T
                ),
                (held, values),
            )
        return Program(
            lambda held, phi: jax.vmap(
                lambda phi: pdecl.predict(
                    problem, eqx.combine(held, rest), phi, points=points, throw=False
                )(at)
            )(phi),
            held,
        )

    whole = forward(jnp.asarray(case.nodes))
    on_grid = lambda held, phi: whole.run(held, phi).reshape(len(phi), *case.shape)
    return Method(
        "soft", "soft network", f"N = {size}", Program(on_grid, whole.held),
        forward(jnp.asarray(case.nodes[case.ten])), main=True,
        facts={"functions": size, "kind": trained.experiment.network.kind},
    )  # fmt: skip
