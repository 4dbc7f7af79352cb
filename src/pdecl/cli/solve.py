"""`pdecl solve`: answers for many φ."""

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .. import streaming
from ..compiled import Compiled, is_compiled, load_compiled
from ..progress import counting_bar
from ..refine import Means
from ..solve import RESIDUAL_LIMIT
from ..trained import Trained, load
from .common import UNANSWERED, Problem, explaining, print_json, stop
from .interrupt import resumes

_PRINTED = 5000  # the most numbers of one φ that go to standard output


def solve(
    model: Annotated[
        str,
        typer.Argument(
            help="A run's folder, a .safetensors file (also one of pdecl compile), or the name of a "
            "shipped basis.",
            show_default=False,
        ),
    ],
    problem: Problem = None,
    phi: Annotated[
        str | None,
        typer.Option(
            help="φ: .npz, .npy, HDF5, NetCDF4, .mat, .json, .jsonl; [bold]-[/] reads JSON lines from "
            "standard input.",
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(metavar="SEED,COUNT", help="Draw φ from the model's law, in place of --phi."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The variable of the file that holds φ.")] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="NX,NT,…",
            help="Answer on this grid, nodes along each coordinate; else on the standard one.",
        ),
    ] = None,
    points: Annotated[
        Path | None,
        typer.Option(
            help="Answer at these points: a column for each coordinate, in .csv, .npz, HDF5, .mat."
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=5, help="φ on a grid: solve on fewer nodes a side; faster, less exact."),
    ] = None,
    derivatives: Annotated[
        str | None, typer.Option(metavar="x,t,xx", help="Also u_x, u_t, u_xx, …")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write here: .h5, .nc, .npz or .mat. Else to standard output.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="φ solved together; more is faster and takes more memory.")
    ] = None,
    bound: Annotated[
        bool,
        typer.Option("--bound", help="Write a bound, or an estimate, of its error with every answer."),
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="1e-3",
            help="The largest relative bound wanted; φ above are named. Implies --bound.",
        ),
    ] = None,
    refine: Annotated[
        bool, typer.Option("--refine", help="Refine the answers above the tolerance until they hold.")
    ] = False,
    residual_limit: Annotated[
        float,
        typer.Option(
            metavar="0.03",
            help="The largest relative residual with which a condition holds; inf takes every answer.",
        ),
    ] = RESIDUAL_LIMIT,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file of another or finished command.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: the summary, or without --out a line for each φ.")
    ] = False,
) -> None:
    """Solve for many φ with a trained basis: a file of φ in, a file of solutions out.

    Any number of φ: one batch is in memory at a time, and answers are on the disk
    two seconds after they are known. A command that was interrupted (Ctrl-C, a
    full disk, a crash) goes on where it was when it is given again.

    A φ that cannot be solved for (NaN, the wrong shape, a negative coefficient), or
    for which a condition of the PDE does not hold ([bold]--residual-limit[/]), is named at
    the end and in the file, and the others are answered; the exit status is then 3.
    A φ unlike those the basis was trained on is solved and counted: its
    [bold]distance[/] is measured in principal components of 1000 training φ, the farthest of which is 1.

    With [bold]--bound[/] each answer has a bound of its error, from the residual and the
    stability of the PDE; no reference is computed. For a problem of which nothing is
    proved it is an [bold]estimate[/], calibrated on φ whose error is known: of nine φ out of
    ten the error is below it. [bold]relative_bound[/] is that of
    ‖v − u‖ / ‖u‖, in the norm the file names. A φ whose bound exceeds [bold]--tolerance[/]
    is answered all the same, and named; with [bold]--refine[/] it is solved again with
    more points and more functions (on a grid: improved by conjugate gradients), and
    named only if that does not suffice.

    The file of a solver that [bold]pdecl compile[/] made, in the place of a basis, answers
    many times faster, with the error that was stated when it was made, and takes
    the same options. (To bound or refine, the whole network runs.)

    [bold]Exit status[/]

    0    every φ has an answer (--tolerance only names those above it)

    2    nothing could be done, or not gone on with: the message says why

    3    all is done, and some φ have no answer

    130, 143    ended by Ctrl-C or SIGTERM; the same command goes on

    [bold]Examples[/]

    pdecl solve burgers --sample 5,1000 --out u.h5         1000 φ of the law, all on 101 × 101

    pdecl solve burgers --phi u0.mat --grid 401,201 --derivatives x,xx --out u.nc

    pdecl solve runs/darcy-hard-quick-0 --phi nu.npz --points wells.csv --out wells.npz

    pdecl solve darcy --phi nu.npz --nodes 106 --bound --out quick.h5     u where ν is known

    pdecl solve burgers-96.safetensors --phi u0.mat --grid 101,101 --out u.h5

    pdecl solve burgers --phi u0.mat --tolerance 1e-3 --refine --out u.h5    every bound ≤ 0.1%

    cat u0.jsonl | pdecl solve burgers --phi - --points sensors.csv --json | head
    """
    if (phi is None) == (sample is None):
        stop("say which φ: --phi FILE, or --sample SEED,COUNT to draw them from the law")
    if grid is not None and points is not None:
        stop("give --grid or --points, not both")
    demand = _demand(bound, tolerance, refine)
    if not residual_limit > 0:
        stop(f"--residual-limit must be a positive number, such as 0.03; found {residual_limit:g}")
    with explaining():
        asked = load_compiled(model, problem) if is_compiled(model) else load(model, problem)
        if nodes is not None:
            if isinstance(asked, Compiled):
                stop("--nodes needs a trained basis; a compiled solver keeps the nodes it was made for")
            asked = asked.coarser(nodes)
        trained = streaming.trained_of(asked)
        with _source(trained, phi, sample, name) as source:
            nodes_asked = None if grid is None else _numbers("grid", grid)
            wanted = derivatives.split(",") if derivatives else []
            if nodes_asked is not None:
                streaming.require_memory(asked, source, math.prod(nodes_asked), 1 + len(wanted), batch)
            query = streaming.ask(
                asked,
                source.shape,
                grid=nodes_asked,
                points=None if points is None else _points(trained, points),
                derivatives=wanted,
            )
            streaming.require_memory(asked, source, len(query.coords), len(query.names), batch)
            if out is None:
                answering = streaming.Answering(
                    asked, source.shape, query, batch or streaming.usual_batch(asked), demand,
                    residual_limit,
                )  # fmt: skip
                _print_answers(answering, source, as_json)
            else:
                _write_answers(
                    asked, source, query, batch, as_json, out, overwrite, demand, residual_limit
                )


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
    table = Table(show_header=False, box=None, pad_edge=False)
    now = "" if summary.solved == tally.count else f", {summary.solved} of them now"
    table.add_row("solved", f"[bold]{tally.count}[/] φ{now}")
    table.add_row("status", ", ".join(f"{n} {status}" for status, n in tally.statuses.items()))
    speed = "" if summary.rate is None else f", {summary.rate:.4g} φ per second once compiled"
    table.add_row("time", f"{summary.seconds:.1f} s{speed}")
    if tally.bounds is not None:
        table.add_row(f"{kind}s", _bound_words(tally.bounds, kind))
    table.add_row("written", plain["out"])
    Console().print(table)


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
    console = Console(stderr=True)
    for bad in tally.bad:
        console.print(
            f"[yellow]φ number {bad['number']}:[/] {escape(bad['why'])}", soft_wrap=True, highlight=False
        )
    _complain_of_bounds(tally, console)
    if tally.far:
        console.print(
            f"[yellow]warning:[/] {tally.far} φ are outside the law that the basis was trained on: "
            f"their distance is over {streaming.FAR} (up to {tally.farthest:.3g}), where 1 is the "
            "farthest training φ. Look at their residuals.",
            soft_wrap=True,
            highlight=False,
        )
    if tally.bad_count:
        numbers = ", ".join(str(bad["number"]) for bad in tally.bad)
        more = ", …" if tally.bad_count > len(tally.bad) else ""
        console.print(
            f"[bold red]error:[/] {tally.bad_count} of {tally.count} φ have no answer (numbers {numbers}"
            f"{more}); {escape(where)}.",
            soft_wrap=True,
            highlight=False,
        )
        raise typer.Exit(UNANSWERED)


def _complain_of_bounds(tally: streaming.Tally, console: Console) -> None:
    if tally.bounds is None or not tally.bounds.over_count:
        return
    bounds, tolerance = tally.bounds, tally.bounds.demand.tolerance
    numbers = ", ".join(str(found["number"]) for found in bounds.over)
    more = "" if bounds.over_count == len(bounds.over) else ", …"
    advice = "--refine did not reach it" if bounds.demand.refine else "--refine refines them"
    console.print(
        f"[yellow]warning:[/] the relative bound of {bounds.over_count} φ exceeds the tolerance "
        f"{tolerance:g} (numbers {numbers}{more}); {advice}.",
        soft_wrap=True,
        highlight=False,
    )


def _demand(bound: bool, tolerance: float | None, refine: bool) -> streaming.Demand | None:
    if refine and tolerance is None:
        stop("--refine needs --tolerance: how good must the answers be?")
    if tolerance is not None and not (np.isfinite(tolerance) and tolerance > 0):
        stop(f"--tolerance must be a positive number, such as 1e-3; found {tolerance:g}")
    return streaming.Demand(tolerance, refine) if bound or tolerance is not None else None


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


def _points(trained: Trained, path: Path) -> np.ndarray:
    names = trained.problem().domain.names
    return streaming.read_points(path, names)
