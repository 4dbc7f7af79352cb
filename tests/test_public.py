"""The names that are promised to users: those in docs/api.md, and no others."""

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "api.md").read_text()
SECTIONS = dict(re.findall(r"^## `([\w.]+)`\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


def public(module):
    named = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return {name: value for name, value in named.items() if not isinstance(value, ModuleType)}


@pytest.mark.parametrize(
    "module", ["pdecl", "pdecl.nn", "pdecl.solvers", "pdecl.shapes", "pdecl.problems"]
)
def test_public_names_are_those_of_the_page_and_have_docstrings(module):
    found = public(importlib.import_module(module))
    listed = "".join(line.split("|")[1] if line.startswith("|") else line for line in
                     SECTIONS[module].splitlines())  # fmt: skip
    assert set(re.findall(r"`(\w+)`", listed)) == set(found)
    assert not [name for name, value in found.items() if not inspect.getdoc(value)]
