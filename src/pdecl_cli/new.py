"""`pdecl new`: a file that states a problem, to begin with."""

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .common import Overwrite, explaining, stop


def new(
    file: Annotated[Path, typer.Argument(help="Write here: a .py file.", show_default=False)],
    overwrite: Overwrite = False,
) -> None:
    """Write a file that states a problem of your own, to begin with.

    It runs as it is. Every other command takes it instead of a problem's name.

    [bold]Examples[/]

    pdecl new my_heat.py

    pdecl train my_heat.py
    """
    if file.suffix != ".py":
        stop(f"a problem is stated in a .py file; found {file}")
    if file.exists() and not overwrite:
        stop(f"{file} is there already; give another name, or --overwrite")
    with explaining():
        from pdecl.support.files import write_text

        write_text(file, (resources.files(__package__) / "start.txt").read_text("utf-8"))
    Console().print(f"written {file}; now: pdecl train {file}", soft_wrap=True)
