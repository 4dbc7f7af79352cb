"""The command line, a package of its own beside pdecl: what it shows of itself needs no JAX.

A file of a command declares its options with Typer; it imports pdecl when the command runs. The one
place that touches the global configuration of JAX and XLA: it turns float64 on, and
has XLA compile sooner.
"""

import functools
import inspect
import os
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


# A CPU's programs are compiled in two thirds of the time without XLA's newer emitters, and run as fast.
_SOONER = "--xla_cpu_use_fusion_emitters"


def configured(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        from importlib.metadata import version

        flags = os.environ.get("XLA_FLAGS", "")
        # A flag that an XLA does not know ends the process, so only where it has been tried.
        if version("jaxlib").startswith("0.10.") and _SOONER not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} {_SOONER}=false".strip()
        import jax

        jax.config.update("jax_enable_x64", True)
        command(*arguments, **options)

    return run


for command in (new, train, evaluate, solve, merge, compile, data, report, results, info):
    # A paragraph is one line to Typer, which breaks it to the width of the screen.
    told = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.__doc__ or ""))
    app.command(help=told)(interruptible(configured(command)))


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
