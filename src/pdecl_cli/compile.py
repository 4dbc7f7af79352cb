"""`pdecl compile`: a trained basis as a fast solver, in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .common import Json, ModelName, Overwrite, ProblemFile, explaining, print_json, stop

if TYPE_CHECKING:
    from pdecl.reduced import Compiled, Snapshots


def compile(
    model: ModelName,
    out: Annotated[Path, typer.Option(help="Write here: a .safetensors file.", show_default=False)],
    problem: ProblemFile = None,
    functions: Annotated[
        int | None, typer.Option(min=1, help="Combinations of functions to keep; all without it.")
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(metavar="1e-3", help="In place of --functions: as few as reach this mean error."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Rows to fit; two for each function without it.")
    ] = None,
    phis: Annotated[
        int, typer.Option(min=8, help="Training φ to learn from; a quarter is held out for the error.")
    ] = 400,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Make a fast solver of a trained basis.

    Once, here: the layer solves for some hundred training φ; the combinations of
    functions that these answers are made of take the functions' place; the points
    whose rows matter are chosen; all that does not depend on φ is stored. After
    that [bold]pdecl solve FILE[/] answers any number of φ without running the network.

    Printed is what this costs and gains. The [bold]error[/] is the relative L2 distance
    from the uncompiled layer's answers, on training φ that were held out; it says
    nothing about the basis itself (for that, [bold]pdecl evaluate[/]). The [bold]time[/] is for
    the weights of one φ in a batch, here, beside that of the uncompiled layer.

    A basis whose functions see φ keeps all of them:
    leave --functions and --error out, and only the points are chosen.

    [bold]Examples[/]

    pdecl compile burgers --functions 96 --out burgers-96.safetensors

    pdecl compile burgers --error 1e-3 --phis 600 --out burgers-fast.safetensors

    pdecl solve burgers-96.safetensors --phi u0.mat --grid 101,101 --out u.h5
    """
    _require(out, functions, error, phis, overwrite)
    with explaining():
        from pdecl.family.trained import load
        from pdecl.reduced import compile as compile_snapshots
        from pdecl.reduced.compile import snapshots_of
        from pdecl.reduced.statistics import flat
        from pdecl.support.files import require_writable
        from pdecl.support.progress import counting_bar
        from pdecl.support.room import require_memory

        require_writable(out)
        trained = load(model, problem)
        size, reduce = trained.experiment.network.size, functions is not None or error is not None
        if functions is not None and functions > size:
            stop(f"--functions: the basis has {size} functions; found {functions}")
        show = not as_json
        learned = 8 * (trained.size + len(flat(trained.family.sample(0, 1))))
        require_memory(3 * phis * learned, f"--phis {phis}", "learn from fewer φ")
        with counting_bar("solving with the whole basis", phis, show) as tell:
            snapshots = snapshots_of(trained, phis, reduce=reduce, progress=tell)
        with Console(stderr=True, quiet=not show).status("choosing functions and points"):
            solver = compile_snapshots(snapshots, functions=functions, error=error, points=rows)
        out.parent.mkdir(parents=True, exist_ok=True)
        solver.save(out)
        with Console(stderr=True, quiet=not show).status("taking the time"):
            plain = _about(model, out, snapshots, solver)
    print_json(plain) if as_json else _show(plain)


def _require(out: Path, functions: int | None, error: float | None, phis: int, overwrite: bool) -> None:
    """What would otherwise show only after minutes."""
    if out.suffix != ".safetensors":
        stop(f"--out: a compiled solver is a .safetensors file; found {out}")
    if out.exists() and not overwrite:
        stop(f"{out} is there already; give another --out, or --overwrite")
    if functions is not None and error is not None:
        stop("give --functions or --error, not both")
    if error is not None and not 0 < error < 1:
        stop(f"--error is relative and lies between 0 and 1, such as 1e-3; found {error:g}")
    learned = phis - phis // 4
    if functions is not None and functions > learned:
        stop(
            f"--functions {functions} cannot be learned from {learned} answers ({phis} φ, of which a "
            f"quarter is held out): give --phis {-(-4 * functions // 3) + 4} or more"
        )


def _about(model: str, out: Path, snapshots: "Snapshots", solver: "Compiled") -> dict[str, Any]:
    """What went in, what came out, and what that cost, as plain data."""
    from pdecl.family.trained import find
    from pdecl.reduced.recommend import compiled_seconds, layer_seconds
    from pdecl.reduced.snapshots import TOGETHER, rows_of

    batch = min(TOGETHER, len(snapshots.weights))
    layer, fast = layer_seconds(snapshots, batch), compiled_seconds(snapshots, solver, batch)
    drawn = snapshots.problem.draw(snapshots.plan.size)
    return {
        "model": model,
        "out": str(out),
        "problem": snapshots.experiment.problem,
        "functions": {"layer": snapshots.plan.size, "compiled": solver.functions},
        "rows": {"layer": rows_of(snapshots.problem, snapshots.plan, drawn), "compiled": solver.rows},
        "bytes": {"layer": find(model).stat().st_size, "compiled": out.stat().st_size},
        "phis": len(snapshots.weights),
        "held_out": len(snapshots.held_out),
        "error": solver.error.as_dict(),
        "seconds_per_phi": {"layer": layer, "compiled": fast, "ratio": layer / fast, "batch": batch},
    }


def _show(plain: dict[str, Any]) -> None:
    table = Table("", "layer", "compiled", box=None, pad_edge=False)
    for name in ("functions", "rows"):
        table.add_row(name, *(str(plain[name][kind]) for kind in ("layer", "compiled")))
    size, seconds, error = plain["bytes"], plain["seconds_per_phi"], plain["error"]
    table.add_row("file", *(f"{size[kind] / 1e6:.2f} MB" for kind in ("layer", "compiled")))
    times = (f"{1e3 * seconds[kind]:.3g} ms" for kind in ("layer", "compiled"))
    table.add_row("time for one φ", *times, f"[bold]{seconds['ratio']:.3g} ×[/] as fast")
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"error beside the layer: [bold]mean {error['mean']:.2e}[/], largest {error['max']:.2e}, on "
        f"{error['count']} φ that were held out",
        soft_wrap=True,
    )
    console.print(f"written {plain['out']}", soft_wrap=True)
