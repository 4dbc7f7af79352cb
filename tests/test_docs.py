"""The documentation builds, leads nowhere dead, and names everything that is public."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

import pdecl

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
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


def test_every_public_name_has_an_entry(site):
    html = (site / "reference.html").read_text()
    for module in (pdecl, pdecl.nn, pdecl.solvers):
        for name, thing in vars(module).items():
            if not name.startswith("_") and callable(thing):
                assert f'id="{thing.__module__}.{thing.__name__}"' in html, name


def test_pages_need_no_network(site):
    for path in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|link|img)[^>]*(?:src|href)="(https?://[^"]+)"', path.read_text()
        )
        assert not loaded, f"{path.relative_to(site)} loads {loaded}"


def test_formulas_are_set(site):
    assert "<math" in (site / "gallery" / "wave.html").read_text()
    assert not any("arithmatex" in path.read_text() for path in site.rglob("*.html"))
