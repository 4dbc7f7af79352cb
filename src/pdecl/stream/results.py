"""The file that answers are written to as they come: HDF5, which NetCDF4 is, or Zarr.

    φ                     the arrays of φ under their names, (sample, *their own axes), NaN for a φ that
                          was rejected; not there where they can be drawn again: see "drawn"
    u, u_x, …             (sample, t, x), (sample, x, y) or (sample, point); all unknowns
    mean_u_over_t, …      functionals, instead of values
    weights               (sample, function): ω, instead of values; those of a compiled solver are of
                          its own combinations of functions
    status, message       how each solve ended: a code (its words are in the attribute "codes"), and what
                          is wrong in words
    residual_…            for each condition
    iterations, distance
    bound, relative_bound where asked for: of ‖v − u‖ and of ‖v − u‖ / ‖u‖, infinite where nothing can be
                          said, NaN for a φ that was rejected; the attribute "norm" says in which norm
    refined               by which means the bound was reached; the attribute "codes" has the words
    done, complete        how many φ are written; whether that is all of them
    checksum              CRC-32 of all that is written of each batch

The attributes are "batch", how many φ are solved together (of that the last bits of an answer can
depend); "fingerprint", what was asked of which model for which φ; "shard", which of the φ are here.

What is in a file after an interruption is whole up to `done`, which is written last. To put it on the
disk takes long beside a fast batch, and is done every two seconds.
"""

import json
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..error.refine import RefinedBy
from ..support.status import Status, usable
from . import formats
from .answers import Answers
from .formats import Arrays, Column, Layout
from .query import Query
from .summary import PENDING, Bounds, ErrorTarget, StreamSummary

_EVERY = 2.0  # seconds of work that a killed process may lose, beside the batch at work
_BOUNDS = ("bound", "relative_bound", "refined")
_MESSAGE = "message"
_TOGETHER = 2**25  # bytes that are read at once to look for damage


@dataclass(frozen=True)
class Parameters:
    """What a file says of φ: the axes of its arrays by name, values along these axes, and the units of
    everything in the file."""

    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    axes: Mapping[str, np.ndarray] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)


class ResultError(OSError):
    """Results that cannot be written, or not resumed, and why."""


class Results:
    """A file of answers, open for writing. Make one with `create`, or go on with one with `resume`.

    - `done`: how many φ are written; `kept` of them are on the disk, whatever happens.
    - `progress(k)` hears of k more that are.
    """

    def __init__(self, path: Path):
        self.path = path
        self.progress: Callable[[int], None] = lambda more: None
        try:
            self._arrays = formats.open_arrays(path, write=True)
            self.done = self.kept = self._arrays.number("done")
            self.complete = bool(self._arrays.number("complete"))
            self.batch = int(self._arrays.attrs["batch"])
            self.shard = shard_of(self._arrays)
            self._samples = self._arrays.samples()
            self._grows = self.shard.whole is None
        except (OSError, KeyError) as error:
            busy = "lock" in str(error)
            why = "another process is writing to it" if busy else "it is damaged, or not one of ours"
            raise ResultError(f"{path} cannot be resumed: {why} ({error})") from error
        self._synced, self._failed = time.monotonic(), False

    @classmethod
    def create(
        cls,
        path: Path,
        layout: Layout,
        count: int | None,
        batch: int,
        fingerprint: Mapping[str, Any],
        about: Mapping[str, Any],
        shard: "Shard | None" = None,
    ) -> "Results":
        """A new file for this many φ, or for as many as come."""
        shard = shard or Shard(whole=count)
        attrs = {"batch": batch, "fingerprint": fingerprint, "shard": vars(shard), **about}
        plain = {n: v if isinstance(v, str | int) else json.dumps(v) for n, v in attrs.items()}
        try:
            formats.create(path, layout, count, batch, plain, first=shard.first,
                           compressed=path.suffix in formats.ZARR)  # fmt: skip
        except OSError as error:
            raise ResultError(f"{path} could not be made: {error}") from error
        return cls(path)

    @classmethod
    def resume(cls, path: Path, fingerprint: Mapping[str, Any]) -> "Results":
        """An interrupted file, if it was begun for the same question; else a ResultError."""
        results = cls(path)
        theirs = fingerprint_of(results._arrays)
        ours = json.loads(json.dumps(fingerprint))
        differing = differing_parts(ours, theirs)
        if differing:
            results.close()
            raise ResultError(
                f"{path} holds answers to another question: {' and '.join(differing)} "
                f"{'differ' if len(differing) > 1 else 'differs'}. Nothing was changed; give the same "
                "command as before, another --out, or --overwrite."
            )
        return results

    def require_batch(self, asked: int | None) -> None:
        """That no other batch is asked for than the file was begun with."""
        if asked not in (None, self.batch):
            self.close()
            raise ResultError(
                f"{self.path} was begun with batches of {self.batch}, on which the last bits of "
                f"answers can depend: to go on leave --batch out, or give --batch {self.batch}."
            )

    def write(self, answers: Answers) -> None:
        """Adds a batch, or puts it instead of one that was there, and from time to time puts on the
        disk what there is."""
        columns = {
            **answers.phi,
            **answers.values,
            "status": answers.codes,
            "iterations": answers.iterations,
            "distance": answers.distance,
            **{_residual(name): values for name, values in answers.residual.items()},
        }
        if answers.bounds is not None:
            known = answers.bounds
            columns |= dict(
                zip(_BOUNDS, (known.absolute, known.relative, known.refined_by), strict=True)
            )
        self.put(answers.start, columns, answers.messages)

    def put(self, start: int, columns: Mapping[str, Any], messages: Sequence[str]) -> None:
        """Rows of all columns of the file, a batch of them, from φ number `start` of the file on."""
        stop, arrays = start + len(messages), self._arrays
        ready = {
            name: np.ascontiguousarray(columns[name], column.dtype)
            for name, column in arrays.layout.columns.items()
            if name != _MESSAGE
        }
        arrays.rewrites = start < self.done
        try:
            if self._grows and stop > self._samples:
                self._resize(stop + (formats.GROWTH - 1) * self.batch)
            for name, values in ready.items():
                arrays.write(name, start, values)
            arrays.write(_MESSAGE, start, messages)
            arrays.write("checksum", start // self.batch, np.array([_checksum(ready, messages)]))
            self.done = max(self.done, stop)
            if time.monotonic() - self._synced >= _EVERY:
                self._keep()
        except OSError as error:
            raise self._unwritable(error) from error

    def finish(self) -> None:
        """Says that these were all."""
        try:
            if self._grows:
                self._resize(self.done)
            self._keep()
            self._arrays.number("complete", 1)
            self._arrays.sync()
        except OSError as error:
            raise self._unwritable(error) from error
        self.complete = True

    def damaged(self) -> list[int]:
        """The first φ of each batch that does not match its checksum, or cannot be read."""
        return damaged_in(self._arrays, self.done)

    def totals(self, target: ErrorTarget | None = None) -> StreamSummary:
        """What all φ written so far came to."""
        return totals_of(self._arrays, self.done, target)

    def close(self) -> None:
        self._keep_what_can_be()
        self._arrays.close()
        self._failed = True

    def __enter__(self) -> "Results":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _unwritable(self, error: OSError) -> ResultError:
        self._keep_what_can_be()
        return ResultError(
            f"{self.path} could not be written; is the disk full? The first {self.kept} φ in it are "
            f"whole: make room and give the same command again to go on. ({error})"
        )

    def _keep(self) -> None:
        """Puts everything on the disk, and only then the number that says so."""
        self._failed = True  # after a failure a second try may succeed without what was lost
        self._arrays.sync()
        if self.kept != self.done:
            self._arrays.number("done", self.done)
            self._arrays.sync()
        self._failed = False
        self.progress(self.done - self.kept)
        self.kept = self.done
        self._synced = time.monotonic()

    def _keep_what_can_be(self) -> None:
        if not self._failed:
            with suppress(OSError, RuntimeError):
                self._keep()

    def _resize(self, samples: int) -> None:
        self._arrays.resize(samples, -(-samples // self.batch))
        self._samples = samples


@dataclass(frozen=True)
class Shard:
    """Which φ of the `whole` are in a file: from number `first` on; piece `number` of `of`."""

    number: int = 1
    of: int = 1
    first: int = 0
    whole: int | None = None

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def shard_of(arrays: Arrays) -> Shard:
    return Shard(**json.loads(arrays.attrs["shard"]))


def fingerprint_of(arrays: Arrays) -> dict[str, Any]:
    return dict(json.loads(arrays.attrs["fingerprint"]))


def differing_parts(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """In what two questions differ."""
    return [name for name in {**ours, **theirs} if theirs.get(name) != ours.get(name)]


def numbers_in_words(first: int, starts: Sequence[int], batch: int, count: int) -> str:
    """ "φ number 128 to 383, 512 to 639": the φ of batches that begin at `starts`, of `count`."""
    spans: list[list[int]] = []
    for start in starts:
        stop = min(start + batch, count)
        if spans and spans[-1][1] == start:
            spans[-1][1] = stop
        else:
            spans.append([start, stop])
    shown = [f"{first + a} to {first + b - 1}" if b - a > 1 else f"{first + a}" for a, b in spans[:5]]
    more = f" and {len(spans) - 5} ranges more" if len(spans) > 5 else ""
    return f"φ number {', '.join(shown)}{more}"


def damaged_in(arrays: Arrays, done: int, start: int = 0) -> list[int]:
    """The first φ of each batch, from φ number `start` on, that does not match its checksum."""
    batch = int(arrays.attrs["batch"])
    row = formats.MESSAGE + 8 * sum(arrays.layout.sizes().values())
    step = batch * max(1, _TOGETHER // (row * batch))
    starts: list[int] = []
    for begin in range(start, done, step):
        stop = min(begin + step, done)
        try:
            starts += _mismatches(arrays, begin, stop, batch)
        except OSError:  # one of them cannot be read, and which one is seen alone
            for at in range(begin, stop, batch):
                try:
                    starts += _mismatches(arrays, at, min(at + batch, stop), batch)
                except OSError:
                    starts.append(at)
    return starts


def _mismatches(arrays: Arrays, start: int, stop: int, batch: int) -> list[int]:
    known = arrays.read("checksum", start // batch, -(-stop // batch))
    columns, messages = rows_of(arrays, start, stop)
    parts = [slice(at, at + batch) for at in range(0, stop - start, batch)]
    checksums = [_checksum({n: v[part] for n, v in columns.items()}, messages[part]) for part in parts]
    return (start + batch * np.flatnonzero(np.array(checksums) != known)).tolist()


def rows_of(arrays: Arrays, start: int, stop: int) -> tuple[dict[str, np.ndarray], list[str]]:
    """All columns, and the messages, of some φ."""
    names = [name for name in arrays.layout.columns if name != _MESSAGE]
    try:
        messages = arrays.texts(_MESSAGE, start, stop)
    except UnicodeDecodeError as error:
        raise OSError(f"messages are damaged ({error})") from error
    return {name: arrays.read(name, start, stop) for name in names}, messages


def _checksum(columns: Mapping[str, np.ndarray], messages: Sequence[str]) -> np.uint32:
    crc = 0
    for values in columns.values():
        flat: Any = np.ascontiguousarray(values).reshape(-1)
        crc = zlib.crc32(flat.view(np.uint8), crc)
    said = "\0".join(map(formats.clip, messages)) if any(messages) else "\0" * (len(messages) - 1)
    return np.uint32(zlib.crc32(said.encode(), crc))


def totals_of(
    arrays: Arrays,
    done: int,
    target: ErrorTarget | None = None,
    into: StreamSummary | None = None,
) -> StreamSummary:
    """The totals of an open file, read in pieces, added to others if there are any. Messages are read
    where there is something to say."""
    totals = StreamSummary.begin(target) if into is None else into
    first = shard_of(arrays).first
    for start in range(0, done, 10000):
        stop = min(start + 10000, done)
        codes = arrays.read("status", start, stop)
        well = usable(codes).all()
        messages = [""] * len(codes) if well else arrays.texts(_MESSAGE, start, stop)
        bounds = None if target is None else Bounds(*(arrays.read(n, start, stop) for n in _BOUNDS))
        totals.add(first + start, codes, arrays.read("distance", start, stop), messages, bounds)
    return totals


def lay_out(
    query: Query,
    residuals: Sequence[str],
    norm: str | None = None,
    kind: str = "bound",
    phi: Parameters | None = None,
) -> Layout:
    """What a file holds; with bounds of a `kind` if their `norm` is given."""
    phi = phi or Parameters()
    lines, own = dict(query.lines), {}
    for axis, values in phi.axes.items():
        # A grid of φ's own does not share the axis of the answers, nor the name of a column of points.
        same = axis in lines and np.array_equal(lines[axis], values)
        taken = axis in lines or axis in query.columns
        own[axis] = f"{axis}_of_phi" if taken and not same else axis
        lines[own[axis]] = values
    codes = {int(code): str(code) for code in Status} | {PENDING: "pending: its turn has not come"}
    words = lambda known: {"codes": json.dumps(known, ensure_ascii=False)}
    about = {"long_name": "parameter of the PDE"}
    kept = {"float64": "f8", "float32": "f4"}[query.dtype]
    columns = {
        **{n: Column("f8", tuple(own[a] for a in dims), None, about) for n, dims in phi.dims.items()},
        **{name: Column(kept, dims) for name, dims in query.kept.items()},
        "status": Column("i1", (), PENDING, words(codes)),
        _MESSAGE: Column("text"),
        "iterations": Column("i4"),
        "distance": Column("f8"),
        **{_residual(name): Column("f8") for name in residuals},
    }
    if norm is not None:
        columns |= {name: Column("f8", (), None, {"norm": norm, "kind": kind}) for name in _BOUNDS[:2]}
        refined = words({int(refined_by): str(refined_by) for refined_by in RefinedBy})
        columns[_BOUNDS[2]] = Column("i1", (), None, refined)
    points = "point" in lines and query.order is None
    each = zip(query.columns, query.coords.T, strict=True) if points else ()
    return Layout(lines, columns, {name: ("point", values) for name, values in each}, dict(phi.units))


def _residual(condition: str) -> str:
    return f"residual_{condition.replace('/', '|')}"  # a slash would make a group
