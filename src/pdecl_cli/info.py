"""`pdecl info`: what there is, here."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .common import Json, explaining, print_json


def info(
    model: Annotated[
        str | None, typer.Argument(help="A run's folder, a .safetensors file or a shipped basis.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the problems, the presets, the shipped bases and this machine; or what a model file holds.

    [bold]Examples[/]

    pdecl info

    pdecl info runs/burgers-hard-quick-0 --json
    """
    with explaining():
        from pdecl.family.trained import find
        from pdecl.support import storage

        plain = about() if model is None else storage.recipe_in(find(model))
    if as_json:
        print_json(plain)
    elif model is not None:
        Console().print_json(data=plain)
    else:
        _show(plain)


def about() -> dict[str, Any]:
    """Problems, presets, shipped bases, and this machine."""
    from pdecl.family import named, names
    from pdecl.family.experiment import preset
    from pdecl.family.trained import shipped
    from pdecl.support.environment import environment

    problems: dict[str, str] = {}
    presets: dict[str, dict[str, Any]] = {}
    for name in names():
        try:
            family = named(name)
        except ValueError as error:  # a package's problem that cannot be read hides no other
            problems[name], presets[name] = f"cannot be read: {error}", {}
            continue
        problems[name] = family.equation
        presets[name] = {size: preset(family, "hard", size).as_dict() for size in family.presets}
    return {"problems": problems, "presets": presets, "shipped": shipped(), "environment": environment()}


def _show(plain: dict[str, Any]) -> None:
    table = Table("problem", "preset", "network", "N", "steps", "batch", box=None, pad_edge=False)
    for name, equation in plain["problems"].items():
        table.add_row(f"[bold]{name}[/]", "", equation, "", "", "")
        for size, made in plain["presets"][name].items():
            network, training = made["network"], made["training"]
            built = f"{network['kind']} {network['depth']} × {network['width']}"
            numbers = map(str, (network["size"], training["steps"], training["batch"]))
            table.add_row("", size, built, *numbers)
    console, here = Console(), plain["environment"]
    console.print(table)
    console.print(f"\nshipped bases: {', '.join(plain['shipped']) or 'none'}")
    versions = ", ".join(f"{name} {number}" for name, number in here["versions"].items())
    console.print(f"here: {here['device']}, {here['cores']} cores, Python {here['python']}, {versions}")
