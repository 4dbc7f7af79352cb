"""The documentation builds, leads nowhere dead, and names everything that is public."""

import inspect
import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import jax
import jax.numpy as jnp
import pytest

import pdecl
import pdecl.problems
import pdecl.shapes

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[str]:
    """The code of a page that is not marked as a fragment."""
    return [code for code in BLOCK.findall(page.read_text()) if not code.startswith("# fragment")]


DOCS = ROOT / "docs"
PAGES = [page for page in sorted([*DOCS.glob("*.md"), *DOCS.glob("api/*.md")]) if blocks(page)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    building = ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    for command in (["docs/pages.py"], building):
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_no_link_is_dead(site):
    pages = {path: path.read_text() for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 10
    for path, html in pages.items():
        for target in re.findall(r'(?:href|src)="([^"]+)"', html):
            name, _, anchor = unescape(target).partition("#")
            if "://" in name or name.startswith(("data:", "mailto:")):
                continue
            to = (path.parent / unquote(name)).resolve() if name else path
            assert to.exists(), f"{path.relative_to(site)}: {target}"
            if anchor and to in pages:
                assert f'id="{unquote(anchor)}"' in pages[to], f"{path.relative_to(site)}: {target}"


def test_every_public_name_has_an_entry_with_an_example(site):
    pages = sorted((ROOT / "docs" / "api").glob("*.md"))
    made = "".join((site / "api" / f"{page.stem}.html").read_text() for page in pages)
    entries = "\n".join(page.read_text() for page in pages)
    for module in (pdecl, pdecl.nn, pdecl.solvers, pdecl.shapes, pdecl.problems):
        for name, thing in vars(module).items():
            if name.startswith("_") or not callable(thing):
                continue
            full = (
                f"{thing.__module__}.{name}"
                if inspect.isfunction(thing)
                else f"{module.__name__}.{name}"
            )
            assert f'id="{full}"' in made, f"{full} has no entry in docs/api/"
            _, _, after = entries.partition(f"::: {full}\n")
            assert "```python" in after.partition("\n::: pdecl.")[0], f"{full} has no example"


def test_pages_need_no_network(site):
    for path in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|link|img)[^>]*(?:src|href)="(https?://[^"]+)"', path.read_text()
        )
        assert not loaded, f"{path.relative_to(site)} loads {loaded}"


def test_formulas_are_set(site):
    assert "<math" in (site / "gallery" / "wave.html").read_text()
    for page in (site / "method.html", *(site / "gallery").glob("*.html")):
        assert "$" not in re.sub(r"<(code|script)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS).with_suffix("")))
def test_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(page))
    # At the lowest tolerance a page shows what it says; the gallery is where figures come from.
    code = re.sub(r"tolerance=1e-\d+", "tolerance=1e-2", code)
    exec(compile(code, str(page), "exec"), {"jax": jax, "jnp": jnp, "pdecl": pdecl})


def test_every_example_is_a_notebook_too(site):
    for example in (ROOT / "examples" / "gallery").glob("[!_]*.py"):
        notebook = json.loads((site / "gallery" / f"{example.stem}.ipynb").read_text())
        cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        code = "\n".join(cells)
        assert "import pdecl" in code
        assert "_shared" not in code
        assert ("def relative_error" in code) == ("relative_error(" in code)
        compile(code, example.name, "exec")
