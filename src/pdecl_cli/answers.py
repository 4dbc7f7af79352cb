"""What `pdecl solve` does once pdecl is imported: a stream of answers into a file, or printed."""

import itertools
import json
import math
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console

from pdecl import RefinedBy, Trained, load
from pdecl import stream as streaming
from pdecl.family.model import Model
from pdecl.layer.solve import RESIDUAL_LIMIT
from pdecl.support.progress import counting_bar
from pdecl.support.status import Status

from .common import UNANSWERED, print_json, print_rows, say, stop
from .interrupt import resumes

_PRINTED = 5000  # the most numbers of one φ that go to standard output


def answer(
    model: str,
    problem: str | None,
    *,
    phi: str | None,
    sample: str | None,
    name: str | None,
    grid: str | None,
    points: Path | None,
    nodes: int | None,
    derivatives: list[str],
    reduce: list[str],
    store: str,
    dtype: str,
    out: Path | None,
    compress: bool,
    shard: str | None,
    batch: int | None,
    bound: bool,
    tolerance: float | None,
    refine: bool,
    residual_limit: float | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    asked = load(model, problem)
    if nodes is not None:
        asked = asked.coarser(nodes)
    trained = asked.trained
    limit = RESIDUAL_LIMIT if residual_limit is None else residual_limit
    target = streaming.ErrorTarget(tolerance, refine) if bound or tolerance is not None else None
    with _source(trained, phi, sample, name) as source:
        nodes_asked = None if grid is None else _numbers("grid", grid)
        if nodes_asked is not None:
            streaming.require_memory_for(
                asked, source, math.prod(nodes_asked), 1 + len(derivatives), batch
            )
        places = (
            None if points is None else streaming.read_points(points, trained.problem().domain.names)
        )
        if out is not None and out.suffix == ".vtu":
            _write_meshes(asked, source, out, overwrite, limit, as_json)
            return
        query = streaming.ask(
            asked, source.shape, grid=nodes_asked, points=places, derivatives=derivatives, reduce=reduce,
            store=store, dtype=dtype,
        )  # fmt: skip
        streaming.require_memory_for(asked, source, len(query.coords), len(query.names), batch)
        if out is None:
            together = batch or asked.usual_batch
            predictor = streaming.Predictor(asked, source.shape, query, together, target, limit)
            _print_answers(predictor, source, as_json)
        else:
            piece = _shard(shard)
            _write_answers(
                asked, source, query, batch, as_json, out, overwrite, target, limit, compress, piece
            )


def _write_answers(
    model: Model,
    source: streaming.Source,
    query: streaming.Query,
    batch: int | None,
    as_json: bool,
    out: Path,
    overwrite: bool,
    target: streaming.ErrorTarget | None,
    residual_limit: float,
    compress: bool,
    shard: tuple[int, int] | None,
) -> None:
    here = out if shard is None else streaming.piece_of(out, shard)
    show, kept, stream = sys.stderr.isatty(), 0, streaming.stream_of(here, compress)
    with counting_bar("solving", source.count, show) as tell:

        def progress(more: int) -> None:
            nonlocal kept
            kept += more
            resumes(f"The first {kept} φ are in {stream}; the same command goes on from there.")
            tell(more)

        summary = streaming.solve_stream(
            model, source, out, query,
            batch=batch, target=target, residual_limit=residual_limit, overwrite=overwrite,
            compress=compress, shard=shard, progress=progress,
        )  # fmt: skip
    if as_json:
        print_json(summary.as_dict())
    else:
        _show(summary, streaming.kind_of(model.trained))
    if summary.repaired:
        say("[yellow]warning:[/]", f"{summary.repaired} of {here} were damaged, and are solved anew.")
    _complain(summary.totals, f"see status and message in {here}")


def _write_meshes(
    model: Model,
    source: streaming.Source,
    out: Path,
    overwrite: bool,
    limit: float,
    as_json: bool,
) -> None:
    """A mesh of the domain for each φ, for ParaView: all unknowns, first derivatives, residuals."""
    totals, began, files = streaming.StreamSummary.begin(None), time.perf_counter(), []
    name = lambda number: out if source.count == 1 else out.with_stem(f"{out.stem}-{number}")
    for number, (solution, code, message) in enumerate(
        streaming.solutions_one_by_one(model, source, limit)
    ):
        path = name(number)
        if path.exists() and not overwrite:
            stop(f"{path} is there already: give another --out, or --overwrite")
        totals.add(number, np.asarray([code]), np.full(1, np.nan), [message], None)
        if solution is not None:
            solution.to_vtu(path)
            files.append(str(path))
    seconds = time.perf_counter() - began
    if as_json:
        print_json({"count": totals.count, "seconds": seconds, "files": files})
    else:
        words = files[0] if len(files) == 1 else f"{len(files)} files, {out.stem}-*.vtu"
        print_rows(
            ("φ", f"[bold]{totals.count}[/]"),
            ("status", ", ".join(f"{n} {status}" for status, n in totals.statuses.items())),
            ("time", f"{seconds:.1f} s"),
            ("written", words if files else "nothing"),
        )
    _complain(totals, "the lines above say why")


def _print_answers(predictor: streaming.Predictor, source: streaming.Source, as_json: bool) -> None:
    query, target = predictor.query, predictor.target
    numbers = query.numbers
    if numbers > _PRINTED:
        stop(
            f"{numbers} numbers for each φ are too many for standard output (at most {_PRINTED}): write "
            "them with --out FILE, or ask for fewer with --points or --grid"
        )
    totals, began = streaming.StreamSummary.begin(target), time.perf_counter()
    try:
        if not as_json:
            print(*_header(query, target), sep="\t", flush=True)
        for answers in predictor.stream(source):
            totals.add(answers.start, answers.codes, answers.distance, answers.messages, answers.bounds)
            for place in range(len(answers.codes)):
                print(_json_line(answers, place) if as_json else _text_line(answers, place))
            sys.stdout.flush()
            resumes(
                f"The first {answers.stop} φ were printed. The same command begins anew; with --out "
                "FILE it would go on."
            )
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    seconds = time.perf_counter() - began
    Console(stderr=True).print(f"{totals.count} φ in {seconds:.1f} s", highlight=False)
    _complain(totals, "see status and message in the lines" if as_json else "see status in the lines")


def _header(query: streaming.Query, target: streaming.ErrorTarget | None) -> list[str]:
    return [
        "number",
        "status",
        "distance",
        *(["relative_bound"] if target else []),
        *(f"{name}{place}" for name, dims in query.kept.items() for place in _places(query, dims)),
    ]


def _places(query: streaming.Query, dims: tuple[str, ...]) -> list[str]:
    """Where each number of what is kept is, in words."""
    if dims == tuple(query.axes):
        return [f"({', '.join(f'{c:g}' for c in point)})" for point in query.places()]
    nodes = itertools.product(*(query.axes[axis] for axis in dims))
    return [", ".join(f"{axis}={c:g}" for axis, c in zip(dims, one, strict=True)).join(("(", ")"))
            if dims else "" for one in nodes]  # fmt: skip


def _text_line(answers: streaming.Answers, place: int) -> str:
    number, status = answers.start + place, streaming.status_name(int(answers.codes[place]))
    values = np.concatenate([np.ravel(u[place]) for u in answers.values.values()])
    bounds = [] if answers.bounds is None else [f"{answers.bounds.relative[place]:.3g}"]
    distance = f"{answers.distance[place]:.3g}"
    return "\t".join([str(number), status, distance, *bounds, *map(repr, values.tolist())])


def _json_line(answers: streaming.Answers, place: int) -> str:
    line = {
        "number": answers.start + place,
        "status": streaming.status_name(int(answers.codes[place])),
        "message": answers.messages[place],
        "distance": answers.distance[place],
        "iterations": int(answers.iterations[place]),
        "residual": {name: values[place] for name, values in answers.residual.items()},
        **_bounds_of(answers, place),
        **{name: values[place] for name, values in answers.values.items()},
    }
    return json.dumps(_finite(line), ensure_ascii=False)


def _bounds_of(answers: streaming.Answers, place: int) -> dict[str, Any]:
    if answers.bounds is None:
        return {}
    found = answers.bounds
    return {
        "bound": float(found.absolute[place]),
        "relative_bound": float(found.relative[place]),
        "refined": RefinedBy(int(found.refined_by[place])).name,
    }


def _finite(value: object) -> Any:
    """Plain data in which what is no number is null; an array with none is null as a whole."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    if isinstance(value, np.ndarray):
        return None if np.isnan(value).all() else [_finite(part) for part in value.tolist()]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _show(summary: streaming.StreamReport, kind: str) -> None:
    totals, plain = summary.totals, summary.as_dict()
    now = "" if summary.solved == totals.count else f", {summary.solved} of them now"
    speed = "" if summary.rate is None else f", {summary.rate:.4g} φ per second once compiled"
    print_rows(
        ("φ", f"[bold]{totals.count}[/]{now}"),
        ("status", ", ".join(f"{n} {status}" for status, n in totals.statuses.items())),
        ("time", f"{summary.seconds:.1f} s{speed}"),
        *([] if totals.bounds is None else [(f"{kind}s", _bound_words(totals.bounds, kind))]),
        ("written", plain["out"]),
    )


def _bound_words(bounds: streaming.BoundSummary, kind: str) -> str:
    words, target = f"relative {kind} at most {bounds.worst:.3g}", bounds.target
    if target.tolerance is not None:
        words += f"; {bounds.over_count} above the tolerance {target.tolerance:g}"
    if target.refine:
        how = ", ".join(f"{n} by {RefinedBy[name]!s}" for name, n in bounds.refined.items())
        words += f"; {sum(bounds.refined.values())} refined{f' ({how})' if how else ''}"
    return words


def _complain(totals: streaming.StreamSummary, where: str) -> None:
    """What a user should know about single φ, on standard error; ends the command if some have no
    answer. `where` it is said of all of them what is said here of the first."""
    for bad in totals.bad:
        say(f"[yellow]φ number {bad['number']}:[/]", bad["why"])
    if totals.bounds is not None and totals.bounds.over_count:
        bounds, tolerance = totals.bounds, totals.bounds.target.tolerance
        advice = "--refine did not reach it" if bounds.target.refine else "--refine refines them"
        say(
            "[yellow]warning:[/]",
            f"the relative bound of {bounds.over_count} φ exceeds the tolerance {tolerance:g} "
            f"({_numbered(bounds.over, bounds.over_count)}); {advice}.",
        )
    if totals.far:
        say(
            "[yellow]warning:[/]",
            f"{totals.far} φ are outside the training distribution of the basis: their distance "
            f"is over {streaming.FAR} (up to {totals.farthest:.3g}), where 1 is the farthest training "
            "φ. Look at their residuals.",
        )
    if totals.bad_count:
        say(
            "[bold red]error:[/]",
            f"{totals.bad_count} of {totals.count} φ have no answer to rely on: "
            f"{_why_not(totals)} ({_numbered(totals.bad, totals.bad_count)}); {where}.",
        )
        raise typer.Exit(UNANSWERED)


def _why_not(totals: streaming.StreamSummary) -> str:
    failed = {name: count for name, count in totals.statuses.items() if Status[name].failed}
    return ", ".join(f"{count} × {Status[name]}" for name, count in failed.items())


def _numbered(shown: Sequence[Mapping[str, Any]], count: int) -> str:
    numbers = ", ".join(str(one["number"]) for one in shown)
    return f"numbers {numbers}{', …' if count > len(shown) else ''}"


@contextmanager
def _source(
    trained: Trained, phi: str | None, sample: str | None, name: str | None
) -> Iterator[streaming.Source]:
    if sample is not None:
        seed, count = _sampled(sample)
        yield streaming.FromDistribution(trained.family, seed, count)
        return
    assert phi is not None
    with streaming.open_phi(phi, trained.family, name, sys.stdin.buffer) as source:
        yield source


def _shard(text: str | None) -> tuple[int, int] | None:
    """The piece that is asked for; without a word, that of this task among several of one srun."""
    if text is None or text == "slurm":
        found = streaming.slurm_piece(os.environ, array=text is not None)
        if found is not None:
            say("[bold]piece[/]", f"{found[0]}/{found[1]}, as Slurm has it")
        elif text is not None:
            stop("--shard slurm is for tasks of srun, or of a job array; this process is none of these")
        return found
    match = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        stop(f"--shard takes a piece and how many there are, 1/16 to 16/16, or slurm; found {text!r}")
    return int(match[1]), int(match[2])


def _sampled(text: str) -> tuple[int, int]:
    numbers = _numbers("sample", text)
    if len(numbers) != 2:
        stop(f"--sample takes two whole numbers with a comma between, such as 5,100; found {text!r}")
    if min(numbers) < 0 or numbers[1] == 0:
        stop(f"--sample takes a seed from 0 and a count from 1, such as 5,100; found {text!r}")
    return numbers[0], numbers[1]


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        stop(f"--{option} takes whole numbers with commas between, such as 101,101; found {text!r}")
