"""`pdecl evaluate`: a trained network on unseen φ."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from .. import dataset as datasets
from ..evaluate import evaluate as evaluate_on
from ..files import require_writable
from ..metrics import summarise
from ..problems.published import load as load_data
from ..progress import counting_bar
from ..runs import keep, standard_data
from ..trained import load
from .common import explaining, print_json
from .interrupt import resumes


def evaluate(
    model: Annotated[
        str,
        typer.Argument(
            help="A run's folder, a .safetensors file, or the name of a shipped basis.",
            show_default=False,
        ),
    ],
    count: Annotated[int | None, typer.Option(min=1, help="Test φ, in place of all 50.")] = None,
    grid: Annotated[int | None, typer.Option(min=5, help="Darcy: nodes a side to solve on.")] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=5, help="Darcy: solve on fewer nodes a side than φ has; faster, less exact."),
    ] = None,
    truth: Annotated[bool, typer.Option("--truth", help="Darcy: also against the pixel truth.")] = False,
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

    The error is the relative L2 distance from the reference on the standard grid (101 × 101; Darcy: the
    grid of ν). Nothing is written without [bold]--out[/].

    [bold]Examples[/]

    pdecl evaluate burgers                         the basis that comes with the package

    pdecl evaluate runs/darcy-hard-quick-0 --grid 211 --count 10

    pdecl evaluate darcy --nodes 106               against 421 × 421 nodes, in a sixteenth of the time

    pdecl evaluate model.safetensors --from theirs.mat
    """
    with explaining():
        if source is None:
            require_writable(cache / "references")
        trained = load(model) if nodes is None else load(model).coarser(nodes)
        if source is not None:
            data = load_data(source, trained.law, count)
            data = data if grid is None else datasets.on_grid(data, grid)
        else:
            data = standard_data(trained.experiment, cache, count, not as_json, truth, grid)
        if source is None:
            resumes(f"Reference solutions are kept in {cache}; the same command measures anew.")
        if out is not None:
            found = keep(trained, out, data, not as_json)
        else:
            with counting_bar(f"evaluating {trained.law.name}", data.count, not as_json) as tell:
                found, _ = evaluate_on(trained, data, tell)
    if as_json:
        print_json({"model": model, "problem": trained.law.name, **found.as_dict()})
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("model", f"[bold]{trained.law.name}[/], {trained.experiment.method}, {model}")
    table.add_row("error", str(summarise(found.errors)))
    for name, errors in found.beside.items():
        table.add_row(f"from {name}", str(summarise(errors)))
    table.add_row("residual", f"{found.residual_loss:.4g}")
    table.add_row("time", f"{1e3 * found.seconds:.3g} ms for one φ, all nodes")
    table.add_row("status", ", ".join(f"{n} {s}" for s, n in found.statuses.items()))
    Console().print(table)
