"""The file that answers are written to as they come: NetCDF4, which is HDF5.

    φ                     the arrays of φ under their names, (sample, *their own axes), NaN for a φ that
                          was rejected
    u, u_x, …             (sample, t, x), (sample, x, y) or (sample, point), float64; all unknowns
    status, message       how each solve ended: a code (its words are in the attribute "codes"), and what
                          is wrong in words
    residual_…            for each condition
    iterations, distance
    bound, relative_bound where asked for: of ‖v − u‖ and of ‖v − u‖ / ‖u‖, infinite where nothing can be
                          said, NaN for a φ that was rejected; the attribute "norm" says in which norm
    refined               by which means the bound was reached; the attribute "codes" has the words
    done, complete        how many φ are written; whether that is all of them

The attribute "batch" is how many φ are solved together: of that the last bits of an answer can depend.

Where the number of φ is known, everything has its place in the file from the start. Only those places
are written to after that, and `done` last, so that a process may end at any moment and leave a file that
can be read and resumed. Where it is not known (standard input) the file grows 16 batches at a time.
To put it on the disk takes long beside a fast batch, and is done every two seconds.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..error.refine import RefinedBy
from ..support.status import Status
from .answers import Answers
from .query import Query
from .summary import PENDING, StreamSummary
from .target import Bounds, ErrorTarget

_MESSAGE = 240  # bytes
_GROWTH = 16
_EVERY = 2.0  # seconds of work that a killed process may lose, beside the batch at work
_BOUNDS = ("bound", "relative_bound", "refined")


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
            self._file = h5py.File(path, "r+")
            self.done = self.kept = int(self._file["done"][()])
            self.complete = bool(self._file["complete"][()])
            self._samples = len(self._file["status"])
            self._grows = self._file["status"].maxshape[0] is None
            self._batch = int(self._file.attrs.get("batch", 0))
        except (OSError, KeyError) as error:
            busy = "lock" in str(error)
            why = "another process is writing to it" if busy else "it is damaged, or not one of ours"
            raise ResultError(f"{path} cannot be resumed: {why} ({error})") from error
        self._synced, self._failed = time.monotonic(), False

    @classmethod
    def create(
        cls,
        path: Path,
        query: Query,
        residuals: tuple[str, ...],
        count: int | None,
        batch: int,
        fingerprint: dict[str, Any],
        about: dict[str, Any],
        norm: str | None = None,
        kind: str = "bound",
        phi: Parameters | None = None,
    ) -> "Results":
        """A new file; one with bounds of a `kind` in it if their `norm` is given."""
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with h5py.File(path, "w", track_order=True) as file:
                _lay_out(file, query, residuals, count, batch, norm, kind, phi or Parameters())
                file.attrs["batch"] = batch
                for name, value in {"fingerprint": fingerprint, **about}.items():
                    file.attrs[name] = json.dumps(value) if isinstance(value, dict) else value
        except OSError as error:
            path.unlink(missing_ok=True)
            raise ResultError(f"{path} could not be made: {error}") from error
        return cls(path)

    @classmethod
    def resume(cls, path: Path, fingerprint: dict[str, Any]) -> "Results":
        """An interrupted file, if it was begun for the same question; else a ResultError."""
        results = cls(path)
        theirs = json.loads(results._file.attrs.get("fingerprint", "{}"))
        ours = json.loads(json.dumps(fingerprint))
        differing = [name for name in {**ours, **theirs} if theirs.get(name) != ours.get(name)]
        if differing:
            results.close()
            raise ResultError(
                f"{path} holds answers to another question: {' and '.join(differing)} "
                f"{'differ' if len(differing) > 1 else 'differs'}. Nothing was changed; give the same "
                "command as before, another --out, or --overwrite."
            )
        return results

    def agree_on(self, asked: int | None, usual: int) -> int:
        """The batch to solve in: the file's, if it holds answers; then another cannot be asked for."""
        if self.done and self._batch:
            if asked not in (None, self._batch):
                self.close()
                raise ResultError(
                    f"{self.path} was begun with batches of {self._batch}, on which the last bits of "
                    f"answers can depend: to go on leave --batch out, or give --batch {self._batch}."
                )
            return self._batch
        self._file.attrs["batch"] = asked or usual
        return asked or usual

    def write(self, answers: Answers) -> None:
        """Adds a batch, and from time to time puts on the disk what there is."""
        rows = slice(answers.start, answers.stop)
        columns = {
            **answers.phi,
            **answers.values,
            "status": answers.codes,
            "iterations": answers.iterations,
            "distance": answers.distance,
            **{_residual(name): values for name, values in answers.residual.items()},
        }
        if answers.bounds is not None:
            found = answers.bounds
            columns |= dict(
                zip(_BOUNDS, (found.absolute, found.relative, found.refined_by), strict=True)
            )
        try:
            if self._grows and answers.stop > self._samples:
                self._resize(answers.stop + (_GROWTH - 1) * len(answers.codes))
            for name, values in columns.items():
                self._file[name][rows] = values
            for place, message in enumerate(answers.messages):
                if message:
                    self._file["message"][answers.start + place] = _clip(message)
            self.done = answers.stop
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
            self._file["complete"][()] = 1
            self._sync()
        except OSError as error:
            raise self._unwritable(error) from error
        self.complete = True

    def totals(self, target: ErrorTarget | None = None) -> StreamSummary:
        """What all φ written so far came to."""
        return totals_of(self._file, self.done, target)

    def close(self) -> None:
        # After a failed write HDF5 cannot flush what it could not write; what is in place stays.
        self._keep_what_can_be()
        with suppress(OSError, RuntimeError):
            self._file.close()

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
        if self.kept != self.done:
            self._failed = True  # after a failure a second try may succeed without what was lost
            self._sync()
            self._file["done"][()] = self.done
            self._sync()
            self._failed = False
            self.progress(self.done - self.kept)
            self.kept = self.done
        self._synced = time.monotonic()

    def _keep_what_can_be(self) -> None:
        if self._file and not self._failed:
            with suppress(OSError, RuntimeError):
                self._keep()

    def _resize(self, samples: int) -> None:
        for item in self._file.values():
            if item.maxshape and item.maxshape[0] is None:
                old = len(item)
                item.resize(samples, axis=0)
                if item.name == "/sample" and samples > old:
                    item[old:] = np.arange(old, samples)
        self._samples = samples
        self._file.flush()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.id.get_vfd_handle())


def totals_of(file: h5py.File, done: int, target: ErrorTarget | None = None) -> StreamSummary:
    """The totals of an open file, read in pieces."""
    totals = StreamSummary.begin(target)
    for start in range(0, done, 10000):
        rows = slice(start, min(start + 10000, done))
        messages = [m.decode() for m in file["message"][rows]]
        bounds = None if target is None else Bounds(*(file[name][rows] for name in _BOUNDS))
        totals.add(start, file["status"][rows], file["distance"][rows], messages, bounds)
    return totals


def _lay_out(
    file: h5py.File,
    query: Query,
    residuals: tuple[str, ...],
    count: int | None,
    batch: int,
    norm: str | None,
    kind: str,
    phi: Parameters,
) -> None:
    samples = batch * _GROWTH if count is None else count
    lines, own = dict(query.axes), {}
    for axis, values in phi.axes.items():
        # A grid of φ's own does not share the axis of the answers, nor the name of a column of points.
        same = axis in query.axes and np.array_equal(query.axes[axis], values)
        taken = axis in query.axes or axis in query.columns
        own[axis] = f"{axis}_of_phi" if taken and not same else axis
        lines[own[axis]] = values

    def column(name: str, kind: Any, axes: tuple[str, ...] = (), fill: Any = None) -> None:
        shape = (samples, *(len(lines[axis]) for axis in axes))
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        if fill is None:
            layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        growing = (
            {"maxshape": (None, *shape[1:]), "chunks": (batch, *shape[1:])} if count is None else {}
        )
        item = file.create_dataset(name, shape, kind, dcpl=layout, fillvalue=fill, **growing)
        for place, axis in enumerate(axes, 1):
            item.dims[place].attach_scale(file[axis])
        if name == "sample":
            item[:] = np.arange(samples)
            item.make_scale("sample")
        else:
            item.dims[0].attach_scale(file["sample"])

    for axis, values in lines.items():
        file[axis] = values
        file[axis].make_scale(axis)
    column("sample", "i8", fill=0)
    for name, dims in phi.dims.items():
        column(name, "f8", tuple(own[axis] for axis in dims))
        file[name].attrs["long_name"] = "parameter of the PDE"
    for name in query.names:
        column(name, "f8", tuple(query.axes))
    column("status", "i1", fill=PENDING)
    words = {int(code): str(code) for code in Status} | {PENDING: "pending: its turn has not come"}
    file["status"].attrs["codes"] = json.dumps(words, ensure_ascii=False)
    column("message", h5py.string_dtype("utf-8", _MESSAGE))
    column("iterations", "i4")
    column("distance", "f8")
    for name in residuals:
        column(_residual(name), "f8")
    if norm is not None:
        for name, stored in zip(_BOUNDS, ("f8", "f8", "i1"), strict=True):
            column(name, stored)
        for name in _BOUNDS[:2]:
            file[name].attrs["norm"] = norm
            file[name].attrs["kind"] = kind
        words = {int(refined_by): str(refined_by) for refined_by in RefinedBy}
        file["refined"].attrs["codes"] = json.dumps(words, ensure_ascii=False)
    if query.order is None:
        for name, values in zip(query.columns, query.coords.T, strict=True):
            file[name] = values
            file[name].dims[0].attach_scale(file["point"])
    for name, unit in phi.units.items():
        if name in file:
            file[name].attrs["units"] = unit
    file["done"], file["complete"] = np.int64(0), np.int8(0)


def _residual(condition: str) -> str:
    return f"residual_{condition.replace('/', '|')}"  # a slash would make a group


def _clip(message: str) -> bytes:
    return message.encode()[:_MESSAGE].decode(errors="ignore").encode()
