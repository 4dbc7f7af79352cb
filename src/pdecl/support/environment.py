"""Where a result comes from: commit, command, versions, device."""

import os
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax


def environment() -> dict[str, Any]:
    """What is written beside every result."""
    return {
        "began": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": _command(),
        "commit": _commit(),
        "python": platform.python_version(),
        "device": device(),
        "cores": os.cpu_count(),
        "versions": versions("pdecl", "jax", "jaxlib", "equinox", "optax", "lineax", "numpy", "scipy"),
    }


def _command() -> str:
    """As it was typed, but for where the program is; a source tree that is not installed runs it as
    `python -m pdecl_cli`."""
    program = Path(sys.argv[0])
    name = f"python {'/'.join(program.parts[-2:])}" if program.suffix == ".py" else program.name
    name = "pdecl" if program.parts[-2:] == ("pdecl_cli", "__main__.py") else name
    return " ".join([name, *sys.argv[1:]])


def _commit() -> str | None:
    """The commit of a source tree, marked if files differ from it; None for an installed package."""
    tree = Path(__file__).resolve().parents[3]
    if not (tree / ".git").exists():
        return None
    ask = ["git", "-C", str(tree), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]
    try:
        return subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip() or None
    except (OSError, subprocess.CalledProcessError):
        return None


def device() -> str:
    """The kind of the machine that JAX computes on: "cpu", or the name of the GPU."""
    return jax.devices()[0].device_kind


def versions(*packages: str) -> dict[str, str]:
    """The installed versions; "source" for a package that runs from its source tree."""

    def one(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "source"

    return {name: one(name) for name in packages}
