"""`pdecl data`: parameters and reference solutions."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import Json, Stated, explaining, print_json, print_rows, stop

if TYPE_CHECKING:
    from pdecl.family import Family
    from pdecl.family.dataset import Dataset

SHOWN = 4
_KINDS, _PICTURES = (".nc", ".h5", ".hdf5"), (".png", ".pdf", ".svg")


def data(
    problem: Stated,
    split: Annotated[
        str, typer.Option(help="Standard split: [bold]train[/] (1000 φ) or [bold]test[/] (50 φ).")
    ] = "test",
    out: Annotated[
        Path | None, typer.Option(help="Write the dataset here (NetCDF4, which is HDF5).")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the first φ and their solutions here (PNG, PDF, SVG).")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="How many φ, instead of the split's number.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Draw φ of another seed, instead of the split's.")
    ] = None,
    truth: Annotated[
        bool,
        typer.Option(
            "--truth", help="Add a costlier truth, where the problem has one (docs/problems.md)."
        ),
    ] = False,
    grid: Annotated[
        int | None,
        typer.Option(min=5, help="φ on a grid: keep only this many nodes a side (211, 141, 85, 61, …)."),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder that keeps solutions for the next call.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Read this file (.nc, .mat, .npz, HDF5) instead of solving."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw parameters φ of a problem, solve them by its reference solver, write or draw the result.

    The same seed gives the same φ on every machine. The standard splits never overlap.

    [bold]Examples[/]

    pdecl data burgers --out burgers.nc            the 50 test φ and their solutions

    pdecl data darcy --plot darcy.png              a look at the first four (solves only these)

    pdecl data my_heat.py --split test --out test.nc

    pdecl data darcy --split train --grid 61 --out train.nc --cache cache

    pdecl data darcy --from piececonst_r421_N1024_smooth1.mat --count 50 --plot theirs.png
    """
    if source is not None and (seed is not None or truth or cache is not None):
        stop("--from reads a file as it is; leave out --seed, --truth and --cache")
    _require_places(out, plot, cache)
    with explaining():
        from pdecl.family import SPLITS, resolve
        from pdecl.family import dataset as datasets
        from pdecl.family.published import load
        from pdecl.report.pictures import parameters_and_solutions

        if split not in SPLITS:
            stop(f"there is no split {split!r}; choose one of {', '.join(SPLITS)}")
        began = time.perf_counter()
        family = resolve(problem)
        if source is not None:
            made = load(source, family, count)
        else:
            only_plot = out is None and cache is None
            number = count or (SHOWN if only_plot else SPLITS[split].count)
            made = _make(family, SPLITS[split].seed if seed is None else seed, number, truth, cache)
        if grid is not None:
            made = datasets.on_grid(made, grid)
        if out is not None:
            datasets.write(out, made)
        if plot is not None:
            parameters_and_solutions(made, plot, family, SHOWN)
        summary = _summary(made, time.perf_counter() - began, out, plot)
    print_json(summary) if as_json else _print(summary)


def _require_places(out: Path | None, plot: Path | None, cache: Path | None) -> None:
    """That what is to be written has a place, and a name that says how."""
    if out is None and plot is None and cache is None:
        stop("nothing to write: give --out FILE, --plot FILE or --cache FOLDER")
    if out is not None and out.suffix not in _KINDS:
        stop(f"--out: a dataset is written as {', '.join(_KINDS)}; found {out}")
    if plot is not None and plot.suffix not in _PICTURES:
        stop(f"--plot: a picture is written as {', '.join(_PICTURES)}; found {plot}")
    with explaining():
        from pdecl.support.files import require_writable

        for path in (out, plot, None if cache is None else cache / "references"):
            if path is not None:
                require_writable(path)


def _make(family: "Family", seed: int, count: int, truth: bool, cache: Path | None) -> "Dataset":
    from pdecl.family import dataset as datasets
    from pdecl.support.progress import counting_bar

    with counting_bar(f"solving {family.name}", count) as tell:
        if cache is None:
            return datasets.build(family, seed, count, truth, tell)
        return datasets.cached(family, seed, count, cache, truth, tell)


def _summary(made: "Dataset", seconds: float, out: Path | None, plot: Path | None) -> dict[str, Any]:
    from pdecl.family.metrics import relative_error

    return {
        "problem": made.problem,
        "count": made.count,
        "phi": _shapes(made.parameters),
        "solution": _shapes(made.solutions),
        "reference": made.reference,
        "beside": {
            name: relative_error(values, made.solution).as_dict()
            for name, values in made.companions.items()
        },
        "family": made.family,
        "origin": made.origin,
        "seconds": round(seconds, 3),
        "out": None if out is None else str(out),
        "plot": None if plot is None else str(plot),
    }


def _shapes(arrays: dict[str, Any]) -> dict[str, Any]:
    """The name and shape of an array; of several, each shape by its name."""
    shapes = {name: list(values.shape) for name, values in arrays.items()}
    alone = len(shapes) == 1
    return {"name": ", ".join(shapes), "shape": next(iter(shapes.values())) if alone else shapes}


def _print(summary: dict[str, Any]) -> None:
    def said(kind: str) -> str:
        name, shape = summary[kind]["name"], summary[kind]["shape"]
        each = {name: shape} if isinstance(shape, list) else shape
        return ", ".join(f"{name}  {' × '.join(map(str, sizes))}" for name, sizes in each.items())

    print_rows(
        ("problem", f"[bold]{summary['problem']}[/], {summary['count']} φ"),
        ("φ", said("phi")),
        ("solution", said("solution")),
        ("solved by", summary["reference"]),
        *(
            (name, f"{error['mean']:.3%} from u (max {error['max']:.3%})")
            for name, error in summary["beside"].items()
        ),
        ("time", f"{summary['seconds']:.1f} s"),
        *(("written", summary[kind]) for kind in ("out", "plot") if summary[kind]),
    )
