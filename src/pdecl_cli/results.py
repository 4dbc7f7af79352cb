"""`pdecl results`: what is worth keeping of runs, and RESULTS.md made from it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .common import explaining


def results(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of runs to keep, or folders that hold some.", show_default=False),
    ] = None,
    kept: Annotated[Path, typer.Option(help="Folder of the small JSON files.")] = Path("results"),
    out: Annotated[Path, typer.Option(help="The page made from them.")] = Path("RESULTS.md"),
) -> None:
    """Keep the results of runs as small JSON files, and write the page of tables from all that are kept.

    [bold]Examples[/]

    pdecl results runs                             keeps every finished run, and writes RESULTS.md

    pdecl results                                  writes RESULTS.md again from what was kept
    """
    with explaining():
        from pdecl.report import results as page
        from pdecl.report import runs as run_folders
        from pdecl.support.files import write_text

        for folder in run_folders.find(runs) if runs else []:
            run = run_folders.read(folder)
            page.write(kept / f"{page.name(run.experiment)}.json", run)
        files = sorted(kept.glob("*.json"))
        if not files:
            raise ValueError(f"{kept} holds no results; name the folders of some runs.")
        write_text(out, page.markdown([page.read(file) for file in files]))
    Console().print(f"{len(files)} results in {kept}; written {out}", soft_wrap=True)
