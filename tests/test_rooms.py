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


def dotted(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


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


# Lower rooms first; a room imports none that comes later. A file belongs to the longest name that fits.
ROOMS = (
    "support", "parallel", "state", "basis", "adaptive", "layer", "train", "error", "family", "problems",
    "error.refine", "reduced", "stream", "report",
)  # fmt: skip
# Modules of public names alone.
PUBLIC = {"__init__.py", "nn.py", "shapes.py", "solvers.py"}


def level(module):
    fitting = [room for room in ROOMS if f"{module}.".startswith(f"{room}.")]
    return ROOMS.index(max(fitting, key=len)) if fitting else None


def test_every_file_is_in_a_room():
    outside = {path for path in FILES if level(dotted(path)) is None}
    assert {path.relative_to(ROOT).as_posix() for path in outside} == PUBLIC


@pytest.mark.parametrize("path", FILES, ids=name)
def test_lower_rooms_do_not_import_upper_ones(path):
    own = level(dotted(path))
    if own is None:
        return
    above = {module for module in imports(path) if (level(module) or 0) > own}
    assert not above, f"{name(path)} imports {above}"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_public_names_are_not_what_the_package_itself_uses(path):
    public = {one.removesuffix(".py") for one in PUBLIC}
    assert path.name in PUBLIC or not public & set(imports(path)) - {""}


@pytest.mark.parametrize("path", [path for path in FILES if ROOT / "stream" in path.parents], ids=name)
def test_streams_ask_a_model_and_not_which_kind_it_is(path):
    assert not re.search(r"isinstance\([^)]*(Trained|Compiled)", path.read_text())
