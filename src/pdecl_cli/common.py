"""What the commands share: options, how they stop, how they print."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

# Exit statuses, beside 0, those of `interrupt.py`, and Python's 1 for an error that is pdecl's own.
CANNOT, UNANSWERED = 2, 3
_TOO_MUCH = "there is not enough memory: ask for fewer points, φ or functions, or a smaller batch ({})"

Stated = Annotated[
    str,
    typer.Argument(
        help="A .py file that states a problem, package.module:name, or a name that [bold]pdecl info[/] "
        "lists.",
        show_default=False,
    ),
]
ModelName = Annotated[
    str,
    typer.Argument(
        help="A run's folder, a .safetensors file, or the name of a shipped basis.", show_default=False
    ),
]
ProblemFile = Annotated[
    str | None,
    typer.Option(
        "--problem",
        metavar="FILE.py",
        help="The problem that the model was trained for, if it is one of your own: its file, or "
        "package.module:name. A run that was trained here finds it by itself.",
        show_default=False,
    ),
]
Nodes = Annotated[
    int | None, typer.Option(min=5, help="φ on a grid: solve on fewer nodes a side; faster, less exact.")
]
TestCount = Annotated[int | None, typer.Option(min=1, help="Test φ, instead of all 50.")]
Bound = Annotated[
    bool, typer.Option("--bound", help="Also what is known of each error without a reference.")
]
Cache = Annotated[Path, typer.Option(help="Folder that keeps reference solutions.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def stop(message: str) -> NoReturn:
    """Ends the command with a message in the user's words."""
    say("[bold red]error:[/]", message)
    raise typer.Exit(CANNOT)


def say(first: str, message: str) -> None:
    """A line on standard error; only its first word is styled."""
    Console(stderr=True).print(f"{first} {escape(message)}", highlight=False, soft_wrap=True)


@contextmanager
def explaining() -> Iterator[None]:
    """Turns the errors a user can do something about into messages without a traceback."""
    from pdecl import CheckpointError, ProcessError, SolveError
    from pdecl.family.dataset import DatasetError

    try:
        yield
    except (ValueError, OSError, DatasetError, CheckpointError, SolveError) as error:
        stop(str(error))
    except ProcessError:
        raise  # `processes.together` says it in one place
    except MemoryError as error:
        stop(_TOO_MUCH.format(error))
    except RuntimeError as error:  # XLA's, which has no kind of its own for this
        if "RESOURCE_EXHAUSTED" not in str(error) and "Out of memory" not in str(error):
            raise
        stop(_TOO_MUCH.format(str(error).splitlines()[0]))


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_rows(*rows: tuple[str, str]) -> None:
    """A table of names with what is said of them."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
