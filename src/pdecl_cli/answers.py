"""What `pdecl solve` does once pdecl is imported: a stream of answers into a file, or printed."""

import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console

from pdecl import Compiled, Means, Trained, load
from pdecl import stream as streaming
from pdecl.layer.solve import RESIDUAL_LIMIT
from pdecl.support.progress import counting_bar

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
    out: Path | None,
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
        if isinstance(asked, Compiled):
            stop("--nodes needs a trained basis; a compiled solver keeps the nodes it was made for")
        asked = asked.coarser(nodes)
    trained = streaming.trained_of(asked)
    limit = RESIDUAL_LIMIT if residual_limit is None else residual_limit
    demand = streaming.Demand(tolerance, refine) if bound or tolerance is not None else None
    with _source(trained, phi, sample, name) as source:
        nodes_asked = None if grid is None else _numbers("grid", grid)
        if nodes_asked is not None:
            streaming.require_memory(asked, source, math.prod(nodes_asked), 1 + len(derivatives), batch)
        places = (
            None if points is None else streaming.read_points(points, trained.problem().domain.names)
        )
        query = streaming.ask(
            asked, source.shape, grid=nodes_asked, points=places, derivatives=derivatives
        )
        streaming.require_memory(asked, source, len(query.coords), len(query.names), batch)
        if out is None:
            together = batch or streaming.usual_batch(asked)
            answering = streaming.Answering(asked, source.shape, query, together, demand, limit)
            _print_answers(answering, source, as_json)
        else:
            _write_answers(asked, source, query, batch, as_json, out, overwrite, demand, limit)


def _write_answers(
    model: Trained | Compiled,
    source: streaming.Source,
    query: streaming.Query,
    batch: int | None,
    as_json: bool,
    out: Path,
    overwrite: bool,
    demand: streaming.Demand | None,
    residual_limit: float,
) -> None:
    show, kept, stream = sys.stderr.isatty(), 0, streaming.stream_of(out)
    with counting_bar("solving", source.count, show) as tell:

        def progress(more: int) -> None:
            nonlocal kept
            kept += more
            resumes(f"The first {kept} φ are in {stream}; the same command goes on from there.")
            tell(more)

        summary = streaming.solve_stream(
            model, source, out, query,
            batch=batch, demand=demand, residual_limit=residual_limit, overwrite=overwrite,
            progress=progress,
        )  # fmt: skip
    if as_json:
        print_json(summary.as_dict())
    else:
        _show(summary, streaming.kind_of(streaming.trained_of(model)))
    _complain(summary.tally, f"see status and message in {out}")


def _print_answers(answering: streaming.Answering, source: streaming.Source, as_json: bool) -> None:
    query, demand = answering.query, answering.demand
    numbers = len(query.coords) * len(query.names)
    if numbers > _PRINTED:
        stop(
            f"{numbers} numbers for each φ are too many for standard output (at most {_PRINTED}): write "
            "them with --out FILE, or ask for fewer with --points or --grid"
        )
    tally, began = streaming.Tally.begin(demand), time.perf_counter()
    try:
        if not as_json:
            print(*_header(query, demand), sep="\t", flush=True)
        for answers in answering.stream(source):
            tally.add(answers.start, answers.codes, answers.distance, answers.messages, answers.bounds)
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
    Console(stderr=True).print(f"{tally.count} φ in {seconds:.1f} s", highlight=False)
    _complain(tally, "see status and message in the lines" if as_json else "see status in the lines")


def _header(query: streaming.Query, demand: streaming.Demand | None) -> list[str]:
    places = [f"({', '.join(f'{c:g}' for c in point)})" for point in query.places()]
    return [
        "number",
        "status",
        "distance",
        *(["relative_bound"] if demand else []),
        *(f"{name}{place}" for name in query.names for place in places),
    ]


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
        "refined": Means(int(found.means[place])).name,
    }


def _finite(value: Any) -> Any:
    """Plain data in which what is no number is null; an array with none is null as a whole."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    if isinstance(value, np.ndarray):
        return None if np.isnan(value).all() else [_finite(part) for part in value.tolist()]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _show(summary: streaming.Summary, kind: str) -> None:
    tally, plain = summary.tally, summary.as_dict()
    now = "" if summary.solved == tally.count else f", {summary.solved} of them now"
    speed = "" if summary.rate is None else f", {summary.rate:.4g} φ per second once compiled"
    print_rows(
        ("solved", f"[bold]{tally.count}[/] φ{now}"),
        ("status", ", ".join(f"{n} {status}" for status, n in tally.statuses.items())),
        ("time", f"{summary.seconds:.1f} s{speed}"),
        *([] if tally.bounds is None else [(f"{kind}s", _bound_words(tally.bounds, kind))]),
        ("written", plain["out"]),
    )


def _bound_words(bounds: streaming.BoundTally, kind: str) -> str:
    words, demand = f"relative {kind} at most {bounds.worst:.3g}", bounds.demand
    if demand.tolerance is not None:
        words += f"; {bounds.over_count} above the tolerance {demand.tolerance:g}"
    if demand.refine:
        how = ", ".join(f"{n} by {Means[name]!s}" for name, n in bounds.refined.items())
        words += f"; {sum(bounds.refined.values())} refined{f' ({how})' if how else ''}"
    return words


def _complain(tally: streaming.Tally, where: str) -> None:
    """What a user should know about single φ, on standard error; ends the command if some have no
    answer. `where` it is said of all of them what is said here of the first."""
    for bad in tally.bad:
        say(f"[yellow]φ number {bad['number']}:[/]", bad["why"])
    if tally.bounds is not None and tally.bounds.over_count:
        bounds, tolerance = tally.bounds, tally.bounds.demand.tolerance
        advice = "--refine did not reach it" if bounds.demand.refine else "--refine refines them"
        say(
            "[yellow]warning:[/]",
            f"the relative bound of {bounds.over_count} φ exceeds the tolerance {tolerance:g} "
            f"({_numbered(bounds.over, bounds.over_count)}); {advice}.",
        )
    if tally.far:
        say(
            "[yellow]warning:[/]",
            f"{tally.far} φ are outside the law that the basis was trained on: their distance is over "
            f"{streaming.FAR} (up to {tally.farthest:.3g}), where 1 is the farthest training φ. Look at "
            "their residuals.",
        )
    if tally.bad_count:
        say(
            "[bold red]error:[/]",
            f"{tally.bad_count} of {tally.count} φ have no answer "
            f"({_numbered(tally.bad, tally.bad_count)}); {where}.",
        )
        raise typer.Exit(UNANSWERED)


def _numbered(shown: Sequence[Mapping[str, Any]], count: int) -> str:
    numbers = ", ".join(str(one["number"]) for one in shown)
    return f"numbers {numbers}{', …' if count > len(shown) else ''}"


@contextmanager
def _source(
    trained: Trained, phi: str | None, sample: str | None, name: str | None
) -> Iterator[streaming.Source]:
    if sample is not None:
        seed, count = _sampled(sample)
        yield streaming.FromLaw(trained.law, seed, count)
        return
    assert phi is not None
    with streaming.open_phi(phi, trained.law, name, sys.stdin.buffer) as source:
        yield source


def _sampled(text: str) -> tuple[int, int]:
    numbers = _numbers("sample", text)
    if len(numbers) != 2:
        stop(f"--sample takes two whole numbers with a comma between, such as 5,100; found {text!r}")
    if min(numbers) < 0 or numbers[1] == 0:
        stop(f"--sample: {text} is too small")
    return numbers[0], numbers[1]


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        stop(f"--{option} takes whole numbers with commas between, such as 101,101; found {text!r}")
