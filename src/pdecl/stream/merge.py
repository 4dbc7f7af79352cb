"""`merge`: the pieces of a stream as one file."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import formats
from .formats import Arrays, Layout
from .results import (
    ResultError,
    Results,
    Shard,
    damaged_in,
    differing_parts,
    fingerprint_of,
    numbers_in_words,
    rows_of,
    shard_of,
    totals_of,
)
from .stream import pieces_of, stream_of
from .summary import StreamSummary

_HELD = 2**26  # bytes of a piece that are read at once


@dataclass(frozen=True)
class Piece:
    """One file, and what it says of itself."""

    path: Path
    shard: Shard
    question: Mapping[str, Any]
    count: int
    done: int
    complete: bool
    batch: int
    layout: Layout
    attrs: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Piece":
        try:
            arrays = formats.open_arrays(path)
        except (OSError, KeyError) as error:
            raise ResultError(f"{path} is damaged, or no piece of ours ({error}).") from error
        try:
            shard, asked = shard_of(arrays), fingerprint_of(arrays)
            asked.pop("the shard", None)
            return cls(
                path, shard, asked, arrays.samples(), arrays.number("done"),
                bool(arrays.number("complete")), int(arrays.attrs["batch"]), arrays.layout, arrays.attrs,
            )  # fmt: skip
        finally:
            arrays.close()


def merge(
    out: str | os.PathLike[str],
    pieces: Sequence[str | os.PathLike[str]] = (),
    *,
    overwrite: bool = False,
    compress: bool = False,
    progress: Callable[[int], None] | None = None,
) -> tuple[StreamSummary, int]:
    """Joins the pieces that `solve_stream(shard=…)` wrote for `out`, or those that are named, into the
    file that one call for all φ would have written. What it came to, and how many pieces there were.

    That none is missing, doubled or unfinished, and that all answer the same question, is looked at
    first; checksums on the way. The pieces stay as they are. Interrupted, it goes on when it is called
    again.
    """
    out = Path(out)
    formats.require_place(out)
    named = [Path(path) for path in pieces] or pieces_of(out)
    if not named:
        name = f"{out.stem}.1-of-16{out.suffix}"
        raise ResultError(f"there are no pieces of {out}, files such as {out.with_name(name)}.")
    read = [Piece.read(path) for path in named]
    _require_one_question(read)
    joined = _in_order(read)
    stream, first = stream_of(out, compress), joined[0]
    formats.require_fits(out, first.shard.whole or 0, max(first.layout.sizes().values()))
    with _claim(out, stream, first, overwrite) as results:
        if progress is not None:
            progress(results.done)
            results.progress = progress
        for piece in joined:
            _copy(piece, results)
        if not results.complete:
            results.finish()
    if stream != out:
        formats.convert(stream, out)
        formats.remove(stream)
    return _totals(joined), len(joined)


def _require_one_question(pieces: Sequence[Piece]) -> None:
    first = pieces[0]
    for piece in pieces:
        if piece.shard.of < 2:
            raise ResultError(f"{piece.path} is no piece: it was not written with --shard.")
        differing = differing_parts(first.question, piece.question)
        if piece.batch != first.batch:
            differing.append("--batch")
        if differing:
            raise ResultError(
                f"{piece.path} answers another question than {first.path}: {' and '.join(differing)} "
                f"{'differ' if len(differing) > 1 else 'differs'}. Nothing was written."
            )
        if piece.shard.of != first.shard.of:
            raise ResultError(
                f"{first.path} is one of {first.shard.of} pieces and {piece.path} one of "
                f"{piece.shard.of}: name those that belong together."
            )


def _in_order(pieces: Sequence[Piece]) -> list[Piece]:
    """All pieces, each once, whole, and one beginning where another ends."""
    of, by_number = pieces[0].shard.of, dict[int, Piece]()
    for piece in pieces:
        if piece.shard.number in by_number:
            raise ResultError(
                f"piece {piece.shard} is there twice: {by_number[piece.shard.number].path} and "
                f"{piece.path}."
            )
        by_number[piece.shard.number] = piece
    missing = [number for number in range(1, of + 1) if number not in by_number]
    if missing:
        shown = ", ".join(map(str, missing[:20])) + (", …" if len(missing) > 20 else "")
        raise ResultError(
            f"{len(missing)} of {of} pieces are missing: {shown}. Solve them: the same command with "
            f"--shard {missing[0]}/{of}."
        )
    ordered = [by_number[number] for number in range(1, of + 1)]
    for piece in ordered:
        if not piece.complete:
            raise ResultError(
                f"{piece.path} is not finished, {piece.done} of {piece.count} φ: give its command "
                f"again, with --shard {piece.shard}."
            )
    ends = [piece.shard.first + piece.count for piece in ordered]
    if [piece.shard.first for piece in ordered] + [ordered[0].shard.whole] != [0, *ends]:
        raise ResultError(f"these {of} pieces do not join: φ are missing or doubled.")
    return ordered


def _claim(out: Path, stream: Path, first: Piece, overwrite: bool) -> Results:
    if formats.exists(out) and stream != out and not overwrite:
        raise ResultError(f"{out} is there already; give another name, or --overwrite.")
    if formats.exists(stream):
        try:
            results = Results.resume(stream, first.question)
        except ResultError:
            if not overwrite:
                raise
        else:
            unfinished = stream != out or not results.complete
            if unfinished and results.batch == first.batch:
                return results
            results.close()
            if not overwrite:
                raise ResultError(f"{out} is complete; give another name, or --overwrite.")
    own = ("layout", "batch", "fingerprint", "shard", "drawn")
    about = {name: value for name, value in first.attrs.items() if name not in own}
    if "drawn" in first.attrs:
        about["drawn"] = json.dumps({**json.loads(first.attrs["drawn"]), "first": 0})
    return Results.create(stream, first.layout, first.shard.whole, first.batch, first.question, about)


def _copy(piece: Piece, results: Results) -> None:
    """The rows of a piece that are not in the file yet, checked."""
    start = max(0, results.done - piece.shard.first)
    if start >= piece.count:
        return
    arrays = formats.open_arrays(piece.path)
    try:
        for begin, stop in _spans(arrays, start, piece):
            damaged = damaged_in(arrays, stop, begin)
            if damaged:
                words = numbers_in_words(piece.shard.first, damaged, piece.batch, piece.count)
                raise ResultError(
                    f"{words} are damaged in {piece.path}: give its command again, with --shard "
                    f"{piece.shard}, which solves them anew; then this one."
                )
            columns, messages = rows_of(arrays, begin, stop)
            for at in range(0, stop - begin, piece.batch):
                part = slice(at, at + piece.batch)
                some = {name: values[part] for name, values in columns.items()}
                results.put(piece.shard.first + begin + at, some, messages[part])
    finally:
        arrays.close()


def _spans(arrays: Arrays, start: int, piece: Piece) -> Iterator[tuple[int, int]]:
    row = formats.MESSAGE + 8 * sum(arrays.layout.sizes().values())
    step = piece.batch * max(1, _HELD // (row * piece.batch))
    for begin in range(start, piece.count, step):
        yield begin, min(begin + step, piece.count)


def _totals(pieces: Sequence[Piece]) -> StreamSummary:
    """What all pieces came to."""
    totals = StreamSummary.begin(None)
    for piece in pieces:
        arrays = formats.open_arrays(piece.path)
        try:
            totals_of(arrays, piece.count, into=totals)
        finally:
            arrays.close()
    return totals
