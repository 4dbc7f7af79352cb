"""The command line, a package of its own beside pdecl: what it shows of itself needs no JAX.

A file of a command declares its options with Typer; it imports pdecl when the command runs. The one
place that touches JAX's global configuration: it turns float64 on.
"""

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from .compile import compile
from .data import data
from .evaluate import evaluate
from .info import info
from .interrupt import Commands, interruptible
from .merge import merge
from .new import new
from .report import report
from .results import results
from .solve import solve
from .train import train

app = Commands(
    name="pdecl",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def in_float64(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        command(*arguments, **options)

    return run


for command in (new, train, evaluate, solve, merge, compile, data, report, results, info):
    # A paragraph is one line to Typer, which breaks it to the width of the screen.
    told = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.__doc__ or ""))
    app.command(help=told)(interruptible(in_float64(command)))


@app.callback()
def main() -> None:
    """Neural networks that obey partial differential equations.

    [bold]Start here[/]

    pdecl new my_heat.py                      a file that states a problem

    pdecl train my_heat.py                    a solver for all of its parameters φ

    pdecl solve runs/my-heat --sample 7,1000 --bound --out u.h5

    pdecl report runs                         one page of pictures and tables

    pdecl info                                problems and bases that come along
    """
