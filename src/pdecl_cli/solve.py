"""`pdecl solve`: answers for many φ."""

from pathlib import Path
from typing import Annotated

import typer

from .common import ModelName, Nodes, ProblemFile, explaining, stop


def solve(
    model: ModelName,
    problem: ProblemFile = None,
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
        typer.Option(
            metavar="SEED,COUNT", help="Draw φ from the model's distribution, instead of --phi."
        ),
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
    nodes: Nodes = None,
    derivatives: Annotated[
        str | None, typer.Option(metavar="x,t,xx", help="Also u_x, u_t, u_xx, …")
    ] = None,
    reduce: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'mean over t'",
            help="Keep functionals instead of values: mean, norm, max, min of u or a derivative over "
            "coordinates; several with a semicolon between.",
        ),
    ] = None,
    store: Annotated[
        str, typer.Option(metavar="values|weights", help="weights: keep ω, and u anywhere with it.")
    ] = "values",
    dtype: Annotated[
        str, typer.Option(metavar="float64|float32", help="Of the values or weights in the file.")
    ] = "float64",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write here: .h5, .nc, .zarr, .npz or .mat; .vtu, a mesh for ParaView. Else to "
            "standard output."
        ),
    ] = None,
    compress: Annotated[
        bool, typer.Option("--compress", help="Compress HDF5 when it is complete. Zarr always is.")
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="3/16",
            help="Only the third of 16 pieces of φ, into OUT.3-of-16.h5; [bold]slurm[/]: the piece of "
            "this task of a Slurm job. [bold]pdecl merge[/] joins them.",
        ),
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
            metavar="1e-3", help="The largest relative bound wanted; φ above are named. Implies --bound."
        ),
    ] = None,
    refine: Annotated[
        bool, typer.Option("--refine", help="Refine the answers above the tolerance until they hold.")
    ] = False,
    residual_limit: Annotated[
        float | None,
        typer.Option(
            metavar="0.03",
            help="The largest relative residual with which a condition holds; inf takes every answer.",
        ),
    ] = None,
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

    With [bold]--store weights[/] a file holds ω, a hundredth of the values, and
    [bold]pdecl.open[/] in Python gives u, derivatives and functionals at any points, for
    any of the φ, also while the file is still being written. Each batch has a checksum:
    given again for a file that is complete, the command looks for damage, names
    the φ and solves them anew.

    Several processes, or hosts, each solve a piece ([bold]--shard 3/16[/]; several tasks of
    one srun divide the φ among them without being told), and [bold]pdecl merge[/] joins them.

    With [bold]--bound[/] each answer has a bound of its error, from the residual and the
    stability of the PDE; no reference is computed. For a problem of which nothing is
    proved it is an [bold]estimate[/], calibrated on φ whose error is known: of nine φ out of
    ten the error is below it. [bold]relative_bound[/] is that of
    ‖v − u‖ / ‖u‖, in the norm the file names. A φ whose bound exceeds [bold]--tolerance[/]
    is answered all the same, and named; with [bold]--refine[/] it is solved again with
    more points and more functions (on a grid: improved by conjugate gradients), and
    named only if that does not suffice.

    The file of a solver that [bold]pdecl compile[/] made, instead of a basis, answers
    many times faster, with the error that was stated when it was made, and takes
    the same options. (To bound or refine, the whole network runs.)

    [bold]Exit status[/]

    0    every φ has an answer (--tolerance only names those above it)

    2    nothing could be done, or not resumed: the message says why

    3    all is done, and some φ have no answer to rely on

    130, 143    ended by Ctrl-C or SIGTERM; the same command goes on

    [bold]Examples[/]

    pdecl solve burgers --sample 5,1000 --out u.h5         1000 φ of the distribution, all on 101 × 101

    pdecl solve burgers --phi u0.mat --grid 401,201 --derivatives x,xx --out u.nc

    pdecl solve runs/darcy-hard-quick-0 --phi nu.npz --points wells.csv --out wells.npz

    pdecl solve darcy --phi nu.npz --nodes 106 --bound --out quick.h5     u where ν is known

    pdecl solve holes.safetensors --sample 5,3 --out u.vtu      u-0.vtu, u-1.vtu, u-2.vtu for ParaView

    pdecl solve burgers-96.safetensors --phi u0.mat --grid 101,101 --out u.h5

    pdecl solve burgers-96.safetensors --sample 5,1000000 --store weights --out many.h5     0.8 kB a φ

    pdecl solve burgers --phi u0.mat --grid 401,201 --dtype float32 --out u.zarr

    pdecl solve burgers --sample 5,1000 --reduce "mean over t; max over x, t" --out m.h5

    pdecl solve burgers --phi u0.mat --shard 3/16 --out u.h5; pdecl merge u.h5     when all 16 are there

    pdecl solve burgers --phi u0.mat --tolerance 1e-3 --refine --out u.h5    every bound ≤ 0.1%

    cat u0.jsonl | pdecl solve burgers --phi - --points sensors.csv --json | head
    """
    if (phi is None) == (sample is None):
        stop("say which φ: --phi FILE, or --sample SEED,COUNT to draw them from the distribution")
    if grid is not None and points is not None:
        stop("give --grid or --points, not both")
    if store == "weights" and out is None:
        stop("--store weights needs --out: ω of every φ is for a file, that pdecl.open reads")
    if shard is not None and out is None:
        stop("--shard needs --out: pieces are files, that pdecl merge joins")
    if out is not None and out.suffix == ".vtu":
        wrong = {
            "grid": grid, "points": points, "derivatives": derivatives, "tolerance": tolerance,
            "reduce": reduce, "shard": shard, "bound": bound or None, "compress": compress or None,
            "store": None if store == "values" else store,
        }  # fmt: skip
        named = [name for name, value in wrong.items() if value is not None]
        if named:
            stop(
                f"--{named[0]} does not go with --out {out.name}: a mesh has all unknowns, their first "
                "derivatives and residuals; write .h5 for the rest"
            )
    if refine and tolerance is None:
        stop("--refine needs --tolerance: how good must the answers be?")
    if tolerance is not None and not 0 < tolerance < float("inf"):
        stop(f"--tolerance must be a positive number, such as 1e-3; found {tolerance:g}")
    if residual_limit is not None and not residual_limit > 0:
        stop(f"--residual-limit must be a positive number, such as 0.03; found {residual_limit:g}")
    with explaining():
        from .answers import answer

        answer(
            model, problem, phi=phi, sample=sample, name=name, grid=grid, points=points, nodes=nodes,
            derivatives=derivatives.split(",") if derivatives else [], reduce=reduce or [], store=store,
            dtype=dtype, out=out, compress=compress, shard=shard, batch=batch, bound=bound,
            tolerance=tolerance, refine=refine, residual_limit=residual_limit, overwrite=overwrite,
            as_json=as_json,
        )  # fmt: skip
