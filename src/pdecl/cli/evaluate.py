"""`pdecl evaluate`: a trained network on unseen φ."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from .. import dataset as datasets
from ..evaluate import evaluate as evaluate_on
from ..family.record import word_of
from ..files import require_writable
from ..metrics import summarise
from ..progress import counting_bar
from ..published import load as load_data
from ..runs import keep, standard_data
from ..trained import find, load
from .common import Problem, explaining, print_json
from .interrupt import resumes


def evaluate(
    model: Annotated[
        str,
        typer.Argument(
            help="A run's folder, a .safetensors file, or the name of a shipped basis.",
            show_default=False,
        ),
    ],
    problem: Problem = None,
    count: Annotated[int | None, typer.Option(min=1, help="Test φ, in place of all 50.")] = None,
    grid: Annotated[
        int | None, typer.Option(min=5, help="φ on a grid: nodes a side to solve on.")
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=5, help="φ on a grid: solve on fewer nodes a side; faster, less exact."),
    ] = None,
    truth: Annotated[
        bool, typer.Option("--truth", help="Also against a costlier truth, where there is one.")
    ] = False,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="φ and solutions of this file, in place of the test split."),
    ] = None,
    cache: Annotated[Path, typer.Option(help="Folder that keeps reference solutions.")] = Path(
        "runs/data"
    ),
    out: Annotated[
        Path | None,
        typer.Option(help="Keep the model and its evaluation as a run's folder, for `pdecl report`."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Measure a trained network on φ it has never seen.

    The error is the relative L2 distance from the reference on the standard grid (101 × 101 for two
    coordinates; for a φ on a grid that of φ). Without a reference of the problem's own it is taken from
    a solve with many more functions. Nothing is written without [bold]--out[/].

    [bold]Examples[/]

    pdecl evaluate burgers                         the basis that comes with the package

    pdecl evaluate runs/darcy-hard-quick-0 --grid 211 --count 10

    pdecl evaluate darcy --nodes 106               against 421 × 421 nodes, in a sixteenth of the time

    pdecl evaluate model.safetensors --from theirs.mat

    pdecl evaluate model.safetensors --problem my_heat.py
    """
    with explaining():
        if source is None:
            require_writable(cache / "references")
        trained = load(model, problem)
        trained = trained if nodes is None else trained.coarser(nodes)
        if source is not None:
            data = load_data(source, trained.law, count)
            data = data if grid is None else datasets.on_grid(data, grid)
        else:
            data = standard_data(trained.experiment, cache, count, not as_json, truth, grid)
        if source is None:
            resumes(f"Reference solutions are kept in {cache}; the same command measures anew.")
        if out is not None:
            word = problem or word_of(find(model).parent) or trained.experiment.problem
            found = keep(trained, out, data, not as_json, word)
        else:
            with counting_bar(f"evaluating {trained.law.name}", data.count, not as_json) as tell:
                found, _ = evaluate_on(trained, data, tell)
    if as_json:
        print_json({"model": model, "problem": trained.law.name, **found.as_dict()})
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("model", f"[bold]{trained.law.name}[/], {trained.experiment.method}, {model}")
    table.add_row("error", str(summarise(found.errors)))
    table.add_row("reference", found.reference)
    for name, errors in found.beside.items():
        table.add_row(f"from {name}", str(summarise(errors)))
    table.add_row("residual", f"{found.residual_loss:.4g}")
    table.add_row("time", f"{1e3 * found.seconds:.3g} ms for one φ, all nodes")
    table.add_row("status", ", ".join(f"{n} {s}" for s, n in found.statuses.items()))
    Console().print(table)
