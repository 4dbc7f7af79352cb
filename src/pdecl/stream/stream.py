"""`solve_stream`: answers for any number of φ, written as they come, resumable."""

import hashlib
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax

from ..family.trained import Trained
from ..layer.solution import RESIDUAL_LIMIT
from ..reduced import Compiled
from ..support import room
from ..support.environment import environment
from ..support.files import require_writable
from .answers import Predictor, digest_of, problem_for, trained_of
from .convert import HDF5, convert, require_fits, require_kind
from .phi import Source
from .query import Query, at_points, on_grid
from .results import Parameters, ResultError, Results
from .summary import StreamSummary
from .target import ErrorTarget, kind_of, norm_of


@dataclass(frozen=True)
class Summary:
    """What a call of `solve_stream` did.

    - `totals`: of everything in the file; `solved` of it in this call, in `seconds`, compiling included.
    - `rate`: φ per second after the first batch, which is the one that compiles; None for one batch.
    """

    out: Path
    totals: StreamSummary
    solved: int
    seconds: float
    rate: float | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            **self.totals.as_dict(),
            "solved_now": self.solved,
            "seconds": round(self.seconds, 3),
            "phi_per_second": self.rate,
        }


def ask(
    model: Trained | Compiled,
    shape: Any,
    *,
    grid: tuple[int, ...] | None = None,
    points: Any = None,
    derivatives: Sequence[str] = (),
) -> Query:
    """Where to ask for solutions: `grid` nodes along each coordinate, or points `(n, d)`.

    Without either the standard grid: `Family.coordinates`, for fields that of φ, whose `shape` decides.
    """
    if grid is not None and points is not None:
        raise ValueError("ask for a grid or for points, not for both.")
    problem, family = problem_for(model, shape), trained_of(model).family
    if points is not None:
        return at_points(problem, family, points, derivatives)
    return on_grid(problem, family, grid, shape, derivatives)


def solve_stream(
    model: Trained | Compiled,
    source: Source,
    out: str | os.PathLike[str],
    query: Query,
    *,
    batch: int | None = None,
    target: ErrorTarget | None = None,
    residual_limit: float = RESIDUAL_LIMIT,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Summary:
    """Solves for every φ of a source and writes the answers, `batch` of them in memory at a time.

    - `model`: a trained basis, or a compiled solver that was made from one.
    - `batch`: without it, see `usual_batch`; an interrupted file goes on with the one it was begun with.
    - `out`: `.h5` or `.nc` is written to directly, see `results.py` for what is in it; `.npz` and
      `.mat` are made at the end from OUT.partial.h5.
    - `target`: bounds with the answers, and what they must be within.
    - `residual_limit`: see `pdecl.solve`.
    - `progress(k)` hears of k more that are on the disk.

    A call that was interrupted goes on where it was when it is made again, and ends with the same file
    to the last bit. A file that is complete, or that answers another question, is left alone
    (`ResultError`) unless `overwrite`.
    """
    out = Path(out)
    require_kind(out)
    require_writable(out)
    if source.count is not None:
        require_fits(out, source.count, len(query.coords))
    stream, began, clock = stream_of(out), time.perf_counter(), _Clock()
    if source.count is not None:
        _require_disk(out, stream, source.count, query)
    predictor = Predictor(
        model, source.shape, query, batch or usual_batch(model), target, residual_limit
    )
    with _claim(out, stream, predictor, source, overwrite) as results:
        predictor.batch = results.agree_on(batch, predictor.batch)
        first = results.done
        if progress is not None:
            progress(first)
            results.progress = progress
        if not results.complete:
            for answers in predictor.stream(source, first):
                results.write(answers)
                clock.tick(len(answers.codes))
            results.finish()
        totals, done = results.totals(target), results.done
    if stream != out:
        convert(stream, out)
        stream.unlink()
    return Summary(out, totals, done - first, time.perf_counter() - began, clock.rate)


def require_memory(
    model: Trained | Compiled, source: Source, points: int, names: int, batch: int | None
) -> None:
    """Raises a `NoRoomError` if a batch of answers at that many points cannot be held: coordinates, all
    functions there, and `names` values of each φ twice, as they are found and as they are written."""
    together = batch or usual_batch(model)
    functions = 0 if isinstance(model, Compiled) else model.size
    phi = sum(math.prod(one) for one in _shapes(source.shape))
    room.require_memory(
        8 * (points * (4 + names * functions) + together * (phi + 2 * points * names)),
        f"an answer at {points} points for {together} φ at a time",
        "ask for fewer points (--grid, --points) or a smaller --batch",
    )


def _require_disk(out: Path, stream: Path, count: int, query: Query) -> None:
    """What the file takes beyond what an interrupted call has of it; converted, it is there twice."""
    size = 8 * count * math.prod(query.shape) * len(query.names)
    there = 512 * stream.stat().st_blocks if stream.is_file() else 0
    needed = max(0, size - there) + (size if stream != out else 0)
    room.require_disk(out, needed, "ask for fewer φ or points, or write where there is more room")


def stream_of(out: Path) -> Path:
    """The file that answers are written to as they come: `out`, if it is HDF5."""
    return out if out.suffix in HDF5 else out.with_name(f"{out.name}.partial.h5")


def usual_batch(model: Trained | Compiled) -> int:
    """How many φ are solved together where nothing is said. On two cores a batch of a trained basis
    takes a second or so, and more at once would not be faster; an interruption loses the batch at work.
    That of compiled solvers and GPUs is what a few GB are comfortable with."""
    family = trained_of(model).family
    fast = isinstance(model, Compiled) or jax.default_backend() != "cpu"
    return family.fast_batch if fast else family.solve_batch


def _claim(out: Path, stream: Path, predictor: Predictor, source: Source, overwrite: bool) -> Results:
    """A new file for the answers, or the one of an interrupted call."""
    query = predictor.query
    fingerprint = {
        "the model": digest_of(predictor.model),
        "φ": source.identity,
        "the points": {"coords": _digest(query), "axes": list(query.axes), "shape": list(query.shape)},
        "the derivatives": list(query.derivatives),
        "the residual limit": str(predictor.residual_limit),
    }
    if predictor.target is not None:
        fingerprint["what is asked of the bounds"] = asdict(predictor.target)
    if not overwrite and stream != out and out.exists():
        raise ResultError(f"{out} is there already; give another --out, or --overwrite.")
    if stream.exists():
        try:
            return _resumed(stream, out, fingerprint)
        except ResultError:
            if not overwrite:
                raise
            stream.unlink()
    about = {
        "title": f"{predictor.family.title}: solutions by pdecl",
        "problem": predictor.family.name,
        "equation": predictor.family.equation,
        "experiment": predictor.trained.experiment.as_dict(),
        "environment": environment(),
    }
    names = predictor.problem.names()
    norm = None if predictor.target is None else norm_of(predictor.trained)
    return Results.create(
        stream, query, names, source.count, predictor.batch, fingerprint, about, norm,
        kind_of(predictor.trained), _parameters(predictor),
    )  # fmt: skip


def _parameters(predictor: Predictor) -> Parameters:
    family = predictor.family
    one = jax.tree.map(lambda leaf: leaf[None], predictor.stand_in)
    known, dims = family.coordinates(one), family.phi_axes
    axes = {axis: known[axis] for name in dims for axis in dims[name]}
    return Parameters(dims, axes, family.units)


def _resumed(stream: Path, out: Path, fingerprint: dict[str, Any]) -> Results:
    results = Results.resume(stream, fingerprint)
    if results.complete and stream == out:
        results.close()
        raise ResultError(f"{out} is complete, {results.done} φ; give another --out, or --overwrite.")
    return results


def _shapes(shape: Any) -> list[tuple[int, ...]]:
    """The shapes of the arrays of φ."""
    return (
        [shape]
        if isinstance(shape, tuple)
        else [one for part in shape.values() for one in _shapes(part)]
    )


def _digest(query: Query) -> str:
    return hashlib.sha256(query.coords.tobytes()).hexdigest()


class _Clock:
    """φ per second from the end of the first batch on."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.count = 0
        self.rate: float | None = None

    def tick(self, more: int) -> None:
        now = time.perf_counter()
        if self.began is None:
            self.began = now
            return
        self.count += more
        self.rate = self.count / (now - self.began)
