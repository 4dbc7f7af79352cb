"""Runs the methods of `pareto.py` over batches of φ: times, errors, gradients, and what was left out."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pareto_methods import Method, Program
from timing import Timing, measure

from pdecl.family.metrics import relative_l2


@dataclass
class Row:
    """A method with what was measured of it, by batch.

    - `error`, `worst`: relative L2 on the standard grid, mean and largest over the test φ; `truth` the
      mean against a better solution, on a few φ.
    - `grid`, `ten`: the whole grid, ten points. `gradient`: mean u² with its gradient in φ.
    - `call`: what a user's call takes, with checks of φ and copies.
    """

    family: str
    name: str
    setting: str
    on: str
    main: bool
    facts: dict[str, Any]
    error: float = np.nan
    worst: float = np.nan
    truth: float | None = None
    grid: dict[int, Timing] = field(default_factory=dict)
    gradient: dict[int, Timing] = field(default_factory=dict)
    ten: dict[int, Timing] = field(default_factory=dict)
    call: dict[int, Timing] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def per_phi(self, batch: int, kind: str = "grid") -> float:
        """Seconds for one φ; NaN where it was not measured."""
        timing = getattr(self, kind).get(batch)
        return float("nan") if timing is None else timing.seconds / batch


class Clock:
    """How much of the time for a problem is used up."""

    def __init__(self, seconds: float):
        self.seconds, self.began = seconds, time.perf_counter()

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.began

    def late(self, left: float = 0.0) -> bool:
        """Whether less than this share of the time is left."""
        return self.seconds - self.elapsed < left * self.seconds


@dataclass(frozen=True)
class Trial:
    """φ, the test φ first; their solutions; and how much time one program may take."""

    phis: np.ndarray
    tests: np.ndarray
    truth: np.ndarray | None
    batches: Sequence[int]
    patience: float
    clock: Clock

    def batch(self, size: int, dtype: Any = np.float64, start: int = 0) -> np.ndarray:
        numbers = (start + np.arange(size)) % len(self.phis)
        return self.phis[numbers].astype(dtype)

    def row(self, method: Method) -> Row:
        """Times on the grid for all batches, and errors."""
        on = jax.default_backend() if method.traced else "cpu"
        row = Row(method.family, method.name, method.setting, on, method.main, dict(method.facts))
        program: Callable[..., Any] | None = None
        size, u = 0, np.zeros(0)
        for batch in self.batches:
            # What takes one φ after the other, or a few on each core, takes as long for each of many.
            if row.grid and (method.serial or (not method.traced and batch > 50)):
                row.grid[batch] = _repeated(*list(row.grid.items())[-1], batch)
                continue
            found = self._attempt(row, "grid", batch, method, method.grid, method.grid.run)
            if found is not None:
                program, u = found
                size = batch
        if program is not None:
            self._judge(row, method, program, size, u)
        return row

    def extras(self, method: Method, row: Row, small_too: bool) -> None:
        """Gradients with respect to φ, ten points, and the user's call, for the largest batch."""
        batches = sorted(row.grid, reverse=True)
        batches = batches[:1] + (batches[1:][-1:] if small_too else [])
        for batch in batches if method.main else []:
            if method.ten is not None:
                self._attempt(row, "ten", batch, method, method.ten, method.ten.run)
            if method.differentiable and method.traced:
                self._attempt(row, "gradient", batch, method, method.grid, _sensitivity(method.grid))
            if method.call is not None and not self._too_late(row, "call", batch):
                phi = self.batch(batch)
                call = lambda phi, method=method: jax.block_until_ready(method.call(phi).values)
                call(phi)  # the first one compiles
                row.call[batch] = plainly(call, phi, patience=self.patience / 4)[0]

    def _attempt(
        self, row: Row, kind: str, batch: int, method: Method, program: Program, run: Callable[..., Any]
    ) -> tuple[Callable[..., Any], np.ndarray] | None:
        """Times one program, unless the smaller ones say that it takes too long or too much memory."""
        done, quarter = getattr(row, kind), self.patience / 4
        if self._too_late(row, kind, batch) or self._too_long(row, kind, batch):
            return None
        phi: Any = self.batch(batch, method.dtype)
        if not method.traced:
            done[batch], u = plainly(lambda phi: run(program.held, phi), phi, patience=quarter)
            return run, u
        phi = jax.block_until_ready(jnp.asarray(phi))
        for chunk in _chunks(row, kind, batch):
            whole = run if chunk == batch else _in_chunks(run, chunk)
            try:
                done[batch], compiled, u = measure(whole, program.held, phi, repeats=9, patience=quarter)
            except jax.errors.JaxRuntimeError as error:
                if "RESOURCE_EXHAUSTED" not in str(error):
                    raise
                continue
            if chunk < batch:
                row.facts[f"{kind} {batch} in chunks of"] = chunk
            return compiled, (np.asarray(u[: len(self.tests)]) if kind == "grid" else np.zeros(0))
        row.left_out[f"{kind} {batch}"] = "it does not fit in the memory"
        return None

    def _too_late(self, row: Row, kind: str, batch: int) -> bool:
        if self.clock.late():
            row.left_out[f"{kind} {batch}"] = "the time for this problem was used up"
        return self.clock.late()

    def _too_long(self, row: Row, kind: str, batch: int) -> bool:
        last, timing = _smaller(row, kind, batch)
        if timing is None or timing.seconds * batch / last <= self.patience:
            return False
        row.left_out[f"{kind} {batch}"] = f"it would take about {timing.seconds * batch / last:.0f} s"
        return True

    def _judge(
        self, row: Row, method: Method, program: Callable[..., Any], size: int, u: np.ndarray
    ) -> None:
        count = len(self.tests)
        parts = [u]
        for start in range(size, count, size):
            phi: Any = self.batch(size, method.dtype, start)
            phi = jnp.asarray(phi) if method.traced else phi
            parts.append(np.asarray(program(method.grid.held, phi)))
        found = np.concatenate(parts)[:count].astype(np.float64)
        usable = np.asarray(np.isfinite(found.reshape(count, -1)).all(axis=1))
        errors = np.full(count, np.inf)
        if usable.any():
            errors[usable] = relative_l2(found[usable], self.tests[usable])
        row.error, row.worst = float(errors.mean()), float(errors.max())
        if self.truth is not None and usable[: len(self.truth)].all():
            some = found[: len(self.truth)]
            row.truth = float(relative_l2(some, self.truth).mean())


def plainly(
    function: Callable[[Any], Any], phi: Any, repeats: int = 9, patience: float = 5.0
) -> tuple[Timing, Any]:
    """As `timing.measure`, for what is not a JAX program."""
    times: list[float] = []
    began = time.perf_counter()
    output = function(phi)
    first = time.perf_counter() - began
    while first + sum(times) < patience and len(times) < repeats:
        began = time.perf_counter()
        output = function(phi)
        times.append(time.perf_counter() - began)
    times = times or [first]
    return Timing(statistics.median(times), min(times), len(times), 0.0, None), output


def room() -> float:
    """Megabytes that a program may use: most of the device's memory, a quarter of a shared host's."""
    stats = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return 0.9 * stats["bytes_limit"] / 1e6
    return 0.25 * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6


def _smaller(row: Row, kind: str, batch: int) -> tuple[int, Timing | None]:
    """The largest batch up to this one that is known, of the same kind or else on the grid."""
    known = getattr(row, kind) or row.grid
    last = max((size for size in known if size <= batch), default=0)
    return last, known.get(last)


def _chunks(row: Row, kind: str, batch: int) -> list[int]:
    """How many φ at a time to try, judged by the memory of a smaller batch; best all at once."""
    last, timing = _smaller(row, kind, batch)
    if timing is None or not timing.megabytes:
        return [batch]
    known = kind if getattr(row, kind) else "grid"
    at_once = row.facts.get(f"{known} {last} in chunks of", last)
    # Going back through a program takes a few times the memory of going forward.
    share = (3.0 if (kind, known) == ("gradient", "grid") else 1.0) * timing.megabytes / at_once
    if share * batch <= room():
        return [batch]
    if batch == 1:
        # A GPU says when memory is short; on a CPU the whole process would be ended.
        return [] if jax.default_backend() == "cpu" else [1]
    sizes = [size for size in range(1, batch) if batch % size == 0]
    return [max(s for s in sizes if s <= max(1, part * room() / share)) for part in (0.6, 0.15)]


def _in_chunks(run: Callable[..., Any], chunk: int) -> Callable[..., Any]:
    """The same for a few φ at a time, one few after the other."""

    def whole(held: Any, phi: Any) -> Any:
        parts = phi.reshape(-1, chunk, *phi.shape[1:])
        found = jax.lax.map(lambda part: run(held, part), parts)
        return jax.tree.map(lambda x: x.reshape(len(phi), *x.shape[2:]) if x.ndim > 1 else x, found)

    return whole


def _repeated(batch: int, timing: Timing, wanted: int) -> Timing:
    """One φ after the other takes as many times as long."""
    share = wanted / batch
    return Timing(share * timing.seconds, share * timing.fastest, timing.runs, 0.0, None)


def _sensitivity(program: Program) -> Callable[[Any, Any], Any]:
    """The mean of u² and its derivative with respect to every φ of the batch."""
    scalar = lambda phi, held: jnp.sum(jnp.mean(program.run(held, phi) ** 2, axis=(1, 2)))
    return lambda held, phi: jax.value_and_grad(scalar)(phi, held)
