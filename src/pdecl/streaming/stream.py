"""`solve_stream`: answers for any number of φ, written as they come, resumable."""

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..compiled import Compiled
from ..environment import environment
from ..trained import Trained
from .answers import Answering, digest_of, problem_for, trained_of
from .convert import HDF5, convert, require_fits, require_kind
from .demand import Demand, norm_of
from .phi import Source
from .query import Query, at_points, on_grid
from .results import ResultError, Results
from .tally import Tally

# φ solved together where nothing is said: what two cores and a few GB are comfortable with.
BATCH = {"burgers": 128, "convection": 16, "darcy": 1}


@dataclass(frozen=True)
class Summary:
    """What a call of `solve_stream` did.

    - `tally`: of everything in the file; `solved` of it in this call, in `seconds`, compiling included.
    - `rate`: φ per second after the first batch, which is the one that compiles; None for one batch.
    - `complete`: whether these are all; if not, the same call goes on.
    """

    out: Path
    stream: Path
    tally: Tally
    solved: int
    seconds: float
    rate: float | None
    complete: bool

    def as_dict(self) -> dict[str, Any]:
        return {
            "out": str(self.out if self.complete else self.stream),
            "complete": self.complete,
            **self.tally.as_dict(),
            "solved_now": self.solved,
            "seconds": round(self.seconds, 3),
            "phi_per_second": self.rate,
        }


def ask(
    model: Trained | Compiled,
    shape: tuple[int, ...],
    *,
    grid: tuple[int, ...] | None = None,
    points: Any = None,
    derivatives: Sequence[str] = (),
) -> Query:
    """Where to ask for solutions: `grid` nodes along x and t (x and y), or points `(n, 2)`.

    Without either the standard grid: 101 × 101, for Darcy that of φ, whose `shape` decides.
    """
    if grid is not None and points is not None:
        raise ValueError("ask for a grid or for points, not for both.")
    problem, law = problem_for(model, shape), trained_of(model).law
    if points is not None:
        return at_points(problem, law, points, derivatives)
    return on_grid(problem, law, grid, shape, derivatives)


def solve_stream(
    model: Trained | Compiled,
    source: Source,
    out: str | os.PathLike[str],
    query: Query,
    *,
    batch: int | None = None,
    demand: Demand | None = None,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> Summary:
    """Solves for every φ of a source and writes the answers, `batch` of them in memory at a time.

    - `model`: a trained basis, or a compiled solver that was made from one.
    - `out`: `.h5` or `.nc` is written to directly, see `results.py` for what is in it; `.npz` and
      `.mat` are made at the end from OUT.partial.h5.
    - `demand`: bounds with the answers, and what they must be within.
    - `progress(k)` hears of k more. `stopping()` is asked after each batch.

    A call that was interrupted goes on where it was when it is made again. A file that is complete, or
    that answers another question, is left alone (`ResultError`) unless `overwrite`.
    """
    out = Path(out)
    require_kind(out)
    if source.count is not None:
        require_fits(out, source.count, len(query.coords))
    batch = batch or BATCH.get(trained_of(model).law.name, 16)
    stream = out if out.suffix in HDF5 else out.with_name(f"{out.name}.partial.h5")
    began, clock = time.perf_counter(), _Clock()
    answering = Answering(model, source.shape, query, batch, demand)
    with _claim(out, stream, answering, source, overwrite) as results:
        first = results.done
        tell = progress or (lambda more: None)
        tell(first)
        stopped = False
        if not results.complete:
            for answers in answering.stream(source, first):
                results.write(answers)
                clock.tick(len(answers.codes))
                tell(len(answers.codes))
                if stopped := stopping() and results.done != source.count:
                    break
            if not stopped:
                results.finish()
        tally, done = results.tally(demand), results.done
    if not stopped and stream != out:
        convert(stream, out)
        stream.unlink()
    seconds = time.perf_counter() - began
    return Summary(out, stream, tally, done - first, seconds, clock.rate, not stopped)


def _claim(out: Path, stream: Path, answering: Answering, source: Source, overwrite: bool) -> Results:
    """A new file for the answers, or the one of an interrupted call."""
    query = answering.query
    fingerprint = {
        "the model": digest_of(answering.model),
        "φ": source.identity,
        "the points": {"coords": _digest(query), "axes": list(query.axes), "shape": list(query.shape)},
        "the derivatives": list(query.derivatives),
    }
    if answering.demand is not None:
        fingerprint["what is asked of the bounds"] = asdict(answering.demand)
    if overwrite:
        stream.unlink(missing_ok=True)
    if not overwrite and stream != out and out.exists():
        raise ResultError(f"{out} is there already; give another --out, or --overwrite.")
    if stream.exists():
        results = Results.resume(stream, fingerprint)
        if results.complete and stream == out:
            results.close()
            raise ResultError(
                f"{out} is complete, {results.done} φ; give another --out, or --overwrite."
            )
        return results
    about = {
        "title": f"{answering.law.name}: solutions by pdecl",
        "problem": answering.law.name,
        "equation": answering.law.equation,
        "experiment": answering.trained.experiment.as_dict(),
        "environment": environment(),
    }
    names = answering.problem.names()
    norm = None if answering.demand is None else norm_of(answering.trained)
    return Results.create(stream, query, names, source.count, answering.batch, fingerprint, about, norm)


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
