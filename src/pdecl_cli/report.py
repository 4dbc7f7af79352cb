"""`pdecl report`: runs as one page of pictures and tables."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .common import Json, ProblemFile, explaining, print_json
from .interrupt import resumes


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Folders of runs, or folders that hold some.", show_default=False),
    ],
    problem: ProblemFile = None,
    kept: Annotated[
        Path | None,
        typer.Option(help="Folder of results that `pdecl results` kept, to stand beside the runs."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The report's folder.")] = Path("report"),
    studies: Annotated[
        bool,
        typer.Option("--studies/--no-studies", help="Also what takes minutes: trade-offs, histograms."),
    ] = True,
    as_json: Json = False,
) -> None:
    """Turn runs into one folder: index.html that stands alone, its pictures, and the data behind them.

    Hard and soft runs of a problem are put side by side; several seeds make a mean and a deviation.

    [bold]Examples[/]

    pdecl report runs                              everything there is

    pdecl report runs/burgers-hard-quick-0 runs/burgers-soft-quick-0 --out burgers-report
    """
    with explaining():
        from pdecl import report as reports
        from pdecl.family import resolve
        from pdecl.report import results
        from pdecl.report import runs as run_folders

        beside = [] if kept is None else [results.read(path) for path in sorted(kept.glob("*.json"))]
        folders, own = run_folders.find(runs), None if problem is None else resolve(problem)
        resumes(f"Some pictures may be in {out}; the same command writes the report anew.")
        page = reports.write(
            [run_folders.read(folder, own) for folder in folders],
            out,
            studies=studies,
            progress=not as_json,
            kept=beside,
        )
    if as_json:
        print_json({"page": str(page), "runs": [str(folder) for folder in folders]})
    else:
        Console().print(f"runs: {len(folders)}; open [bold]{page}[/]", soft_wrap=True)
