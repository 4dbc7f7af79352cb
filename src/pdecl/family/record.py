"""run.json: which problem a run's user named, and what it states.

A model file runs nothing and names nothing that is run. A run's folder that was made on this machine
may: the user named that file then, with `pdecl train`.
"""

import hashlib
import json
import platform
import uuid
from pathlib import Path
from typing import Any

from ..state.problem import Problem
from ..support.files import replacing
from .family import Family
from .identity import differences, identity
from .registry import resolve

_NAME = "run.json"


def write(folder: Path, word: str | None, problem: Problem) -> None:
    """Keeps the user's word for a problem, and what that states."""
    plain = {"problem": word, "machine": _machine(), "stated": identity(problem)}
    with replacing(folder / _NAME) as temporary:
        temporary.write_text(json.dumps(plain, indent=1))


def changes(folder: Path, problem: Problem) -> list[str]:
    """What is stated now and was not when the run began, in words."""
    before = _read(folder).get("stated")
    return differences(before, identity(problem)) if before else []


def word_of(folder: Path) -> str | None:
    """What the user of this machine called a run's problem."""
    plain = _read(folder)
    return plain.get("problem") if plain.get("machine") == _machine() else None


def of_run(folder: Path) -> Family | None:
    """The family that a run's own record names, if the run was made on this machine."""
    word = word_of(folder)
    return resolve(word) if word else None


def _read(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / _NAME).read_text()))
    except (OSError, ValueError):
        return {}


def _machine() -> str:
    return hashlib.sha256(f"{platform.node()} {uuid.getnode()}".encode()).hexdigest()[:16]
