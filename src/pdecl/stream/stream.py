"""`solve_stream`: answers for any number of φ, written as they come, resumable, in pieces."""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree
from threadpoolctl import threadpool_limits

from ..family import phi as phis
from ..family.model import Model
from ..layer.solution import RESIDUAL_LIMIT
from ..support import room
from ..support.environment import environment
from . import formats
from .answers import Answers, Predictor, grid_of
from .formats import HDF5, ZARR
from .phi import FromDistribution, FromShard, Source
from .query import Query, at_points, on_grid, reducing, weights_alone
from .results import (
    Parameters,
    ResultError,
    Results,
    Shard,
    lay_out,
    numbers_in_words,
)
from .summary import ErrorTarget, StreamSummary, kind_of


@dataclass(frozen=True)
class StreamReport:
    """What a call of `solve_stream` did.

    - `totals`: of everything in the file; `solved` of it in this call, in `seconds`, compiling included.
    - `rate`: φ per second after the first batch, which is the one that compiles; None for one batch.
    - `repaired`: which φ were damaged in the file, and solved anew, in words.
    """

    out: Path
    totals: StreamSummary
    solved: int
    seconds: float
    rate: float | None
    repaired: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            **self.totals.as_dict(),
            "solved_now": self.solved,
            "seconds": round(self.seconds, 3),
            "phi_per_second": self.rate,
            **({"repaired": self.repaired} if self.repaired else {}),
        }


def ask(
    model: Model,
    shape: PyTree,
    *,
    grid: tuple[int, ...] | None = None,
    points: Any = None,
    derivatives: Sequence[str] = (),
    reduce: Sequence[str] | str = (),
    store: str = "values",
    dtype: str = "float64",
) -> Query:
    """What is asked for, in words: on a `grid`, at `points`, or on the standard grid for φ of a shape.

    - `reduce`: functionals instead of the values, "mean over t; max of u_x over x, t".
    - `store="weights"`: ω instead, from which `pdecl.open` gives u anywhere.
    """
    if grid is not None and points is not None:
        raise ValueError("ask for answers on a grid or at points, not for both.")
    problem, family = model.trained.problem(grid_of(model, shape)), model.trained.family
    if store == "weights":
        if grid is not None or points is not None or derivatives or reduce:
            raise ValueError(
                "ω is kept for u at any points: a grid, points, derivatives and functionals are asked "
                "for when it is read (pdecl.open), or of --store values."
            )
        phi = phis.take(family.sample(0, 1), 0) if shape is None else phis.zeros(shape)
        return replace(weights_alone(problem, model.weights_kept(phi)), dtype=dtype)
    if store != "values":
        raise ValueError(f"what is stored is values or weights; found {store!r}.")
    if points is not None:
        query = at_points(problem, family, points, derivatives)
    else:
        query = on_grid(problem, family, grid, shape, derivatives)
    wanted = query if reduce == () or reduce == [] else reducing(query, reduce)
    return replace(wanted, dtype=dtype)


def solve_stream(
    model: Model,
    source: Source,
    out: str | os.PathLike[str],
    query: Query,
    *,
    batch: int | None = None,
    target: ErrorTarget | None = None,
    residual_limit: float = RESIDUAL_LIMIT,
    overwrite: bool = False,
    compress: bool = False,
    shard: tuple[int, int] | None = None,
    progress: Callable[[int], None] | None = None,
) -> StreamReport:
    """Solves for every φ of a source and writes the answers, `batch` of them in memory at a time.

    - `model`: a trained basis, or a compiled solver that was made from one.
    - `batch`: without it, see `Model`; an interrupted file goes on with the one it was begun with.
    - `out`: `.h5`, `.nc` or `.zarr` is written to directly, see `results.py` for what is in it; `.npz`,
      `.mat` and with `compress` HDF5 are made at the end from OUT.partial.h5. Zarr is compressed always.
    - `target`: bounds with the answers, and what they must be within.
    - `residual_limit`: see `pdecl.solve`.
    - `shard=(3, 16)`: the third of 16 pieces of φ alone, into a file of its own, see `piece_of`.
    - `progress(k)` hears of k more that are on the disk.

    A call that was interrupted goes on where it was when it is made again, and ends with the same file
    to the last bit. φ of a file that do not match their checksum any more are solved anew. A file that
    is complete, or that answers another question, is left alone (`ResultError`) unless `overwrite`.
    """
    out = Path(out)
    _require_possible(out, query, target, compress, shard)
    formats.require_place(out)
    if source.count is not None:
        formats.require_fits(out, source.count, query.numbers)
    batch_size, place = batch or model.usual_batch, Shard(whole=source.count)
    if shard is not None:
        source, place, out = _piece(source, shard, batch_size, out)
    stream, began, clock = stream_of(out, compress), time.perf_counter(), _Clock()
    if source.count is not None:
        _require_disk(out, stream, source.count, query)
    predictor = Predictor(model, source.shape, query, batch_size, target, residual_limit)
    results, repairing = _claim(out, stream, predictor, source, place, overwrite)
    # Threads of BLAS wait for more work in a loop, for longer than a batch takes, and the solver needs
    # the cores.
    with results, threadpool_limits(1, "blas"):
        if results.done:
            results.require_batch(batch)
        predictor.batch = results.batch
        damaged = results.damaged()
        if results.complete and not damaged and (stream == out or repairing):
            raise ResultError(
                f"{out} is complete, {results.done} φ; give another --out, or --overwrite."
            )
        first = results.done
        if progress is not None:
            progress(first)
            results.progress = progress
        for answers in _outstanding(predictor, source, results, damaged):
            results.write(answers)
            clock.tick(len(answers.codes))
        if not results.complete:
            results.finish()
        totals, done = results.totals(target), results.done
        again = sum(min(predictor.batch, done - start) for start in damaged)
        repaired = numbers_in_words(place.first, damaged, predictor.batch, done) if damaged else ""
    if stream != out and not repairing:
        formats.convert(stream, out)
        formats.remove(stream)
    seconds = time.perf_counter() - began
    return StreamReport(out, totals, done - first + again, seconds, clock.rate, repaired)


def _outstanding(
    predictor: Predictor, source: Source, results: Results, damaged: Sequence[int]
) -> Iterator[Answers]:
    """Answers for the φ that are damaged, and for those whose turn has not come."""
    for start in damaged:
        stop = min(start + results.batch, results.done)
        batch = next(iter(source.batches(start, stop - start)))
        yield predictor(batch, start)
    if not results.complete:
        yield from predictor.stream(source, results.done)


def _require_possible(
    out: Path,
    query: Query,
    target: ErrorTarget | None,
    compress: bool,
    shard: tuple[int, int] | None,
) -> None:
    if query.functions is not None and target is not None and target.refine:
        raise ValueError(
            "refined answers are made of other functions than the model's, and ω does not tell them: "
            "refine with --store values."
        )
    if compress and out.suffix not in HDF5 + ZARR:
        raise ValueError(f"{out}: what is compressed is {', '.join(HDF5 + ZARR)}.")
    if shard is not None and out.suffix not in HDF5 + ZARR:
        raise ValueError(
            f"{out}: pieces are written as {', '.join(HDF5 + ZARR)}, which pdecl merge joins."
        )


def piece_of(out: str | os.PathLike[str], shard: tuple[int, int]) -> Path:
    """The file of one piece: u.h5 is made of u.1-of-16.h5, u.2-of-16.h5, …"""
    out = Path(out)
    return out.with_name(f"{out.stem}.{shard[0]}-of-{shard[1]}{out.suffix}")


def pieces_of(out: str | os.PathLike[str]) -> list[Path]:
    """The pieces that are there for a file, in order."""
    out = Path(out)
    name = re.compile(rf"{re.escape(out.stem)}\.(\d+)-of-(\d+){re.escape(out.suffix)}")
    there = [path for path in out.absolute().parent.iterdir() if name.fullmatch(path.name)]
    return sorted((out.parent / p.name for p in there), key=lambda p: _numbers(name, p))


def slurm_piece(environment: Mapping[str, str], array: bool) -> tuple[int, int] | None:
    """The piece of this process among the tasks of its `srun`, with `array` among all of a job array;
    None for one that is not of several. A batch script itself is no task of a step."""
    known = lambda name, other: int(environment.get(name, other))
    tasks = known("SLURM_STEP_NUM_TASKS", 1)
    task = known("SLURM_PROCID", 0) if tasks > 1 else 0
    if array and "SLURM_ARRAY_TASK_ID" in environment:
        step = known("SLURM_ARRAY_TASK_STEP", 1)
        place = (known("SLURM_ARRAY_TASK_ID", 0) - known("SLURM_ARRAY_TASK_MIN", 0)) // step
        task, tasks = place * tasks + task, known("SLURM_ARRAY_TASK_COUNT", 1) * tasks
    return (task + 1, tasks) if tasks > 1 else None


def _numbers(name: re.Pattern[str], path: Path) -> tuple[int, int]:
    match = name.fullmatch(path.name)
    assert match is not None
    return int(match[2]), int(match[1])


def _piece(source: Source, shard: tuple[int, int], batch: int, out: Path) -> tuple[Source, Shard, Path]:
    """Whole batches, so that pieces together are what one call for all would have written."""
    number, of = shard
    if not 1 <= number <= of:
        raise ValueError(f"there is no piece {number}/{of}: the pieces are 1/{of} to {of}/{of}.")
    if source.count is None:
        raise ValueError("pieces need a known number of φ: a file or a sample, not standard input.")
    batches = -(-source.count // batch)
    if of > batches:
        raise ValueError(
            f"{source.count} φ are {batches} batches of {batch}, fewer than {of} pieces: ask for fewer "
            "pieces, or give a smaller --batch."
        )
    first = batches * (number - 1) // of * batch
    stop = min(batches * number // of * batch, source.count)
    place = Shard(number, of, first, source.count)
    return FromShard(source, first, stop), place, piece_of(out, shard)


def require_memory_for(model: Model, source: Source, points: int, names: int, batch: int | None) -> None:
    """Raises a `NoRoomError` if a batch of answers at that many points cannot be held: coordinates, all
    functions there, and `names` values of each φ twice, as they are found and as they are written."""
    together = batch or model.usual_batch
    phi = sum(array.size for array in jax.tree.leaves(phis.zeros(source.shape)))
    room.require_memory(
        8 * (points * (4 + names * model.evaluated) + together * (phi + 2 * points * names)),
        f"an answer at {points} points for {together} φ at a time",
        "ask for fewer points (--grid, --points) or a smaller --batch",
    )


def _require_disk(out: Path, stream: Path, count: int, query: Query) -> None:
    """What the file takes beyond what an interrupted call has of it; converted, it is there twice."""
    size = np.dtype(query.dtype).itemsize * count * query.numbers
    there = 512 * stream.stat().st_blocks if stream.is_file() else 0
    needed = max(0, size - there) + (size if stream != out else 0)
    room.require_disk(out, needed, "ask for fewer φ or points, or write where there is more room")


def stream_of(out: Path, compress: bool = False) -> Path:
    """The file that answers are written to as they come: `out`, if it is Zarr, or HDF5 as it is."""
    direct = ZARR if compress else HDF5 + ZARR
    return out if out.suffix in direct else out.with_name(f"{out.name}.partial.h5")


def _claim(
    out: Path, stream: Path, predictor: Predictor, source: Source, shard: Shard, overwrite: bool
) -> tuple[Results, bool]:
    """A new file for the answers, or the one of an interrupted call; and whether it is one that was
    compressed already, to be looked through."""
    fingerprint = question(predictor, source, shard)
    if stream != out and formats.exists(out) and not overwrite:
        if out.suffix not in HDF5:
            raise ResultError(f"{out} is there already; give another --out, or --overwrite.")
        return Results.resume(out, fingerprint), True
    if formats.exists(stream):
        try:
            results = Results.resume(stream, fingerprint)
        except ResultError:
            if not overwrite:
                raise
        else:
            begun = results.done > 0 and not (overwrite and results.complete)
            if begun or (results.batch == predictor.batch and not results.complete):
                return results, False
            results.close()
        formats.remove(stream)
    about = {
        "title": f"{predictor.family.title}: solutions by pdecl",
        "problem": predictor.family.name,
        "equation": predictor.family.equation,
        "experiment": predictor.trained.experiment.as_dict(),
        "environment": environment(),
        "answers": {
            "unknowns": predictor.problem.unknowns,
            "coordinates": predictor.problem.domain.names,
            "phi": list(predictor.family.phi_axes),
        },
    }
    parameters, drawn = _parameters(predictor), _drawn(source)
    if predictor.query.functions is not None and drawn is not None:
        about["drawn"] = drawn
        parameters = replace(parameters, dims={}, axes={})
    norm = None if predictor.target is None else predictor.family.norm
    names = predictor.problem.names()
    layout = lay_out(predictor.query, names, norm, kind_of(predictor.trained), parameters)
    new = Results.create(stream, layout, source.count, predictor.batch, fingerprint, about, shard)
    return new, False


def question(predictor: Predictor, source: Source, shard: Shard) -> dict[str, Any]:
    """What tells the answers of a file from any others."""
    query = predictor.query
    asked: dict[str, Any] = {
        "the model": predictor.model.digest,
        "φ": source.identity,
        "the points": {"coords": _digest(query), "axes": list(query.axes), "shape": list(query.shape)},
        "the derivatives": list(query.derivatives),
        "what is stored": [
            "values" if query.functions is None else "weights",
            query.dtype,
            *map(str, query.reductions),
        ],
        "the residual limit": str(predictor.residual_limit),
    }
    if predictor.target is not None:
        asked["what is asked of the bounds"] = asdict(predictor.target)
    if shard.of > 1:
        asked["the shard"] = f"{shard}, from φ number {shard.first}"  # which depends on the batch
    return asked


def _drawn(source: Source) -> dict[str, int] | None:
    """By which seed the φ of a file can be drawn again, beginning with which of its numbers."""
    inner = source.source if isinstance(source, FromShard) else source
    first = source.first if isinstance(source, FromShard) else 0
    return {"seed": inner.seed, "first": first} if isinstance(inner, FromDistribution) else None


def _parameters(predictor: Predictor) -> Parameters:
    family = predictor.family
    alone = jax.tree.map(lambda leaf: np.asarray(leaf)[None], predictor.stand_in)
    known, dims = family.coordinates(alone), family.phi_axes
    axes = {axis: known[axis] for name in dims for axis in dims[name]}
    return Parameters(dims, axes, family.units)


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
