"""What docs/architecture.md says of the rooms, of every file: who imports whom, and who knows names."""

import ast
import re
from pathlib import Path

import pytest

import pdecl
from pdecl.family import shipped

ROOT = Path(pdecl.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
COMMANDS = sorted((ROOT.parent / "pdecl_cli").glob("*.py"))
GENERIC = [path for path in FILES if ROOT / "problems" not in path.parents] + COMMANDS
name = lambda path: str(path.relative_to(ROOT.parent))


def imports(path, inside=None):
    """The modules of pdecl that a file imports, as dotted names without "pdecl."."""
    package = path.relative_to(ROOT.parent).parent.parts[1:]
    for node in ast.walk(inside or ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            yield ".".join([*base, *(node.module or "").split(".")]).strip(".")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pdecl"):
            yield node.module.removeprefix("pdecl").strip(".")
        elif isinstance(node, ast.Import):
            own = [alias.name for alias in node.names if alias.name.startswith("pdecl.")]
            yield from (one.removeprefix("pdecl.") for one in own)


@pytest.mark.parametrize("path", GENERIC, ids=name)
def test_no_generic_file_knows_a_problem(path):
    assert not [module for module in imports(path) if module.split(".")[0] == "problems"]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.search("|".join(shipped()), line, re.IGNORECASE)
        # Help shows commands with names.
        assert not found or (path in COMMANDS and "pdecl " in line), f"{name(path)}:{number}: {line}"


@pytest.mark.parametrize("one", shipped())
def test_problems_do_not_know_each_other(one):
    for path in (ROOT / "problems" / one).rglob("*.py"):
        known = [module.split(".") for module in imports(path)]
        assert {parts[1] for parts in known if parts[0] == "problems" and len(parts) > 1} <= {one}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_nothing_is_imported_late_to_dodge_a_cycle(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert not list(imports(path, node)), f"{name(path)}: {node.name}"


# Lower rooms first; a room imports none that comes later.
ROOMS = (
    {
        "points",
        "rules",
        "domain",
        "shapes",
        "condition",
        "problem",
        "jet",
        "basis",
        "grid",
        "networks",
        "nn",
    },
    {
        "system",
        "solvers",
        "layer",
        "solve",
        "status",
        "residual",
        "implicit",
        "gram",
        "affine",
        "adaptive",
    },
    {"bounds", "loss", "train", "history", "checkpoint", "figures"},
    {"family"},
    {"problems", "dataset", "published", "experiment", "presets"},
    {"trained", "evaluate", "refine", "compiled", "load", "reduced"},
    {"streaming", "runs"},
    {"report", "results", "pictures"},
)
# Creased functions ask the layer where to crease.
ALLOWED = {"pdecl/networks/creased.py"}
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_lower_rooms_do_not_import_upper_ones(path):
    own = LEVEL.get(path.relative_to(ROOT).parts[0].removesuffix(".py"))
    if own is None or name(path) in ALLOWED:
        return
    above = {module for module in imports(path) if LEVEL.get(module.split(".")[0], 0) > own}
    assert not above, f"{name(path)} imports {above}"
