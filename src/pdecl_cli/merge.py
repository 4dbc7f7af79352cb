"""`pdecl merge`: the pieces of a stream as one file."""

from pathlib import Path
from typing import Annotated

import typer

from .common import Json, Overwrite, explaining, print_json, print_rows
from .interrupt import resumes


def merge(
    out: Annotated[Path, typer.Argument(help="The file to write: .h5, .nc, .zarr, .npz or .mat.")],
    pieces: Annotated[
        list[Path] | None,
        typer.Argument(help="The pieces; else all OUT.1-of-N.h5, … beside it.", show_default=False),
    ] = None,
    compress: Annotated[bool, typer.Option("--compress", help="Compress HDF5.")] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Join the pieces that pdecl solve --shard wrote.

    First it looks whether all pieces are there, each once and finished, and whether
    they answer the same question: the same model, φ, points, options. What is damaged
    is named, with the command that mends it. The file is then what one command for
    all φ would have written. The pieces stay; remove them when you like.

    Interrupted, the same command goes on.

    [bold]Examples[/]

    pdecl solve burgers --sample 5,1000 --shard 1/2 --out u.h5      here

    pdecl solve burgers --sample 5,1000 --shard 2/2 --out u.h5      there

    pdecl merge u.h5                                                joins u.1-of-2.h5 and u.2-of-2.h5

    pdecl merge all.zarr host-a/u.1-of-2.h5 host-b/u.2-of-2.h5
    """
    with explaining():
        from pdecl import stream as streaming

        kept = 0

        def progress(more: int) -> None:
            nonlocal kept
            kept += more
            stream = streaming.stream_of(out, compress)
            resumes(f"The first {kept} φ are in {stream}; the same command goes on from there.")

        totals, count = streaming.merge(
            out, pieces or (), overwrite=overwrite, compress=compress, progress=progress
        )
    if as_json:
        print_json({"out": str(out), "pieces": count, **totals.as_dict()})
    else:
        print_rows(
            ("joined", f"[bold]{totals.count}[/] φ of {count} pieces"),
            ("status", ", ".join(f"{n} {status}" for status, n in totals.statuses.items())),
            ("written", str(out)),
        )
