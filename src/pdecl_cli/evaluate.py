"""`pdecl evaluate`: a trained network on unseen φ."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .common import (
    Bound,
    Cache,
    Json,
    ModelName,
    Nodes,
    ProblemFile,
    TestCount,
    explaining,
    print_json,
    print_rows,
)
from .interrupt import resumes


def evaluate(
    model: ModelName,
    problem: ProblemFile = None,
    count: TestCount = None,
    grid: Annotated[
        int | None, typer.Option(min=5, help="φ on a grid: nodes a side to solve on.")
    ] = None,
    nodes: Nodes = None,
    truth: Annotated[
        bool, typer.Option("--truth", help="Also against a costlier truth, where there is one.")
    ] = False,
    bound: Bound = False,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="φ and solutions of this file, instead of the test split."),
    ] = None,
    cache: Cache = Path("runs/data"),
    out: Annotated[
        Path | None,
        typer.Option(help="Keep the model and its evaluation as a run's folder, for `pdecl report`."),
    ] = None,
    as_json: Json = False,
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
        from pdecl.family import dataset as datasets
        from pdecl.family.evaluate import evaluate as evaluate_on
        from pdecl.family.identity import word_of
        from pdecl.family.published import load as load_data
        from pdecl.family.trained import find
        from pdecl.reduced.load import load
        from pdecl.report.runs import keep, standard_data
        from pdecl.support.files import require_writable
        from pdecl.support.progress import counting_bar

        if source is None:
            require_writable(cache / "references")
        trained = load(model, problem)
        trained = getattr(trained, "trained", trained)  # of a compiled solver
        trained = trained if nodes is None else trained.coarser(nodes)
        if source is not None:
            data = load_data(source, trained.family, count)
            data = data if grid is None else datasets.on_grid(data, grid)
        else:
            data = standard_data(trained.experiment, cache, count, not as_json, truth, grid)
        if source is None:
            resumes(f"Reference solutions are kept in {cache}; the same command measures anew.")
        if out is not None:
            word = problem or word_of(find(model).parent) or trained.experiment.problem
            found = keep(trained, out, data, not as_json, word, bound=bound)
        else:
            with counting_bar(f"evaluating {trained.family.name}", data.count, not as_json) as tell:
                found, _ = evaluate_on(trained, data, tell, bound)
    plain = found.as_dict()
    if as_json:
        print_json({"model": model, "problem": trained.family.name, **plain})
        return
    print_rows(
        ("model", f"[bold]{trained.family.name}[/], {trained.experiment.method}, {model}"),
        *measured(plain),
    )


def measured(plain: dict[str, Any]) -> list[tuple[str, str]]:
    """An evaluation as rows of a table."""
    error = plain["error"]
    of = f"(max {error['max']:.3%}, {error['count']} unseen φ)"
    return [
        ("reference", plain["reference"]),
        ("error", f"[bold]{error['mean']:.4%}[/] ± {error['std']:.4%} {of}"),
        *(
            (f"from {name}", f"{other['mean']:.4%} (max {other['max']:.3%})")
            for name, other in plain["beside"].items()
        ),
        *_bounds(plain),
        ("residual", f"{plain['residual_loss']:.4g}"),
        ("time", f"{1e3 * plain['seconds_per_phi']:.3g} ms for one φ, all nodes"),
        ("status", ", ".join(f"{n} {s}" for s, n in plain["statuses"].items())),
    ]


def _bounds(plain: dict[str, Any]) -> list[tuple[str, str]]:
    found = plain.get("bounds")
    if found is None:
        return []
    pairs = list(zip(plain["errors"], found["relative"], strict=True))
    within = sum(error <= limit for error, limit in pairs)
    largest = max(limit for _, limit in pairs)
    return [(found["kind"], f"{largest:.4%} at most; {within} of {len(pairs)} errors are within theirs")]
