"""Writes the pages of the site, as plain Markdown that needs nothing but a builder: python docs/pages.py

A builder that reads mkdocs.yml finds them in build/docs/.

- The gallery's pages and notebooks are made from the scripts in examples/gallery/, with the pictures and
  figures of their last full run (`python examples/gallery.py`), in docs/gallery/.
- Formulas become MathML, so that pages need no network and no script for them.
- A link to a Markdown file elsewhere in the repository leads to a page made of it; one to another file
  becomes its name.
"""

import ast
import json
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
OUT = ROOT / "build" / "docs"
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "src")]

import gallery  # noqa: E402

_IMPORT = re.compile(r"^from _shared import (.+)\n", re.MULTILINE)
_LINK = re.compile(r"(?<!\!)\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)")
_LOCAL = re.compile(r"(\]\()([\w-]+\.\w+[)#])")  # a link to a file beside
_PINNACLE = """# PINNacle and families

What pdecl reaches where others have measured: single PDEs and shapes beside physics-informed networks,
shapes beside finite elements, and families of PDEs. Each table is written by the command that it names.
"""
_CODE = re.compile(r"(^[ ]*```.*?^[ ]*```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_INLINE = re.compile(r"(?<![\\$\w])\$(?!\s)([^$]+?)(?<!\s)\$(?![\w$])")
# What MathML sets without a space: sin x, and the x before it.
_NAMED = (
    r"(?:<msup>)?<mi>(?:sin|cos|tan|sinh|cosh|tanh|exp|log|ln|max|min)</mi>(?:<m\w>\w+</m\w></msup>)?"
)
_AFTER = re.compile(rf"({_NAMED})(<(?:mi|mn|msqrt|mfrac|msub|msup|mrow)\b)")
_BEFORE = re.compile(rf"(</(?:mi|mn|msqrt|mfrac|msub|msup|mrow)>)({_NAMED})")
_THIN = '<mspace width="0.167em" />'
_ELSEWHERE = "repository/"  # pages of files that are not in this folder


def main() -> None:
    """Writes all pages, and what they show, anew."""
    shutil.rmtree(OUT, ignore_errors=True)
    skipped = shutil.ignore_patterns("*.py", "theme", "__pycache__", "head.md", "results.json")
    shutil.copytree(DOCS, OUT, ignore=skipped)
    pages = {str(path.relative_to(OUT)): path.read_text() for path in OUT.rglob("*.md")}
    pages |= _made()
    waiting = list(pages.items())
    while waiting:
        for path in _elsewhere(*waiting.pop()):
            name = _ELSEWHERE + str(path.relative_to(ROOT))
            if name not in pages:
                pages[name] = path.read_text()
                waiting.append((name, pages[name]))
    for name, text in pages.items():
        page = OUT / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(_set(_led(name, text)))
    for example in gallery.examples():
        (OUT / "gallery" / f"{example.name}.ipynb").write_text(_notebook(example))
    shown = OUT / _ELSEWHERE / "benchmarks" / "results"
    for path in (ROOT / "benchmarks" / "results").glob("*.png"):
        shutil.copy(path, shown)


def _made() -> dict[str, str]:
    """Pages that are not written by hand."""
    results = json.loads((DOCS / "gallery" / "results.json").read_text())
    shown = [example for example in gallery.examples() if example.name in results]
    made = {f"gallery/{e.name}.md": _example(e, results[e.name]) for e in shown}
    made["gallery/index.md"] = _index(shown, results)
    made["changelog.md"] = (ROOT / "CHANGELOG.md").read_text()
    made["pinnacle.md"] = _pinnacle()
    return made


def _led(name: str, text: str) -> str:
    """Links out of the folder: to the page that was made of the file, or just its name."""
    here = _place(name).parent

    def to(link: re.Match[str]) -> str:
        words, target, anchor = link.group(1), link.group(2), link.group(3) or ""
        path = _resolved(here, target)
        if path is None or path.is_relative_to(DOCS):
            return link.group(0)
        if path.suffix != ".md":
            return words if words.startswith("`") else f"`{path.relative_to(ROOT)}`"
        page = os.path.relpath(_ELSEWHERE + str(path.relative_to(ROOT)), Path(name).parent)
        return f"[{words}]({page}{anchor})"

    return _LINK.sub(to, text)


def _set(text: str) -> str:
    """Formulas as MathML, everywhere but in code."""
    parts = _CODE.split(text)
    for k in range(0, len(parts), 2):
        whole = _BLOCK.sub(lambda m: _formula(m, "block"), parts[k])
        # Markdown takes a line that begins with <math> for a block of its own.
        parts[k] = _INLINE.sub(lambda m: f"<span>{_formula(m, 'inline')}</span>", whole)
    return "".join(parts)


def _formula(match: re.Match[str], display: str) -> str:
    """MathML Core has no attribute for script letters: they are characters of their own."""
    made = convert(match.group(1).strip(), display=display)
    made = made.replace("<mo>&#x02016;</mo>", '<mo stretchy="false" lspace="0" rspace="0">‖</mo>')
    made = _BEFORE.sub(rf"\1{_THIN}\2", _AFTER.sub(rf"\1{_THIN}\2", made))
    made = re.sub(r'<mi mathvariant="(script|double-struck)">(\w)</mi>', _lettered, made)
    return re.sub(r"[*_|]", lambda mark: f"&#{ord(mark[0])};", made)  # which mean something in Markdown


def _lettered(match: re.Match[str]) -> str:
    kind = match.group(1).upper()
    for name in (f"MATHEMATICAL {kind} CAPITAL {match.group(2)}", f"{kind} CAPITAL {match.group(2)}"):
        try:
            return f"<mi>{unicodedata.lookup(name)}</mi>"
        except KeyError:
            continue
    return match.group(0)


def _place(name: str) -> Path:
    """Where the text of a page is in the repository."""
    return ROOT / name.removeprefix(_ELSEWHERE) if name.startswith(_ELSEWHERE) else DOCS / name


def _resolved(here: Path, target: str) -> Path | None:
    path = Path(os.path.normpath(here / target))
    return path if "://" not in target and path.is_relative_to(ROOT) and path.exists() else None


def _elsewhere(name: str, text: str) -> Iterable[Path]:
    """Markdown files outside of this folder that a page links to."""
    for _, target, _ in _LINK.findall(text):
        path = _resolved(_place(name).parent, target)
        if path is not None and path.suffix == ".md" and not path.is_relative_to(DOCS):
            yield path


# --- the gallery
def _example(example: gallery.Example, result: dict[str, Any]) -> str:
    """A page: mathematics, code, picture, error and seconds, what to change next."""
    facts = f"**{example.statement}** · {', '.join(example.kind)} · {example.dimensions}"
    numbers = (
        f"Relative error {result['error']:.1e}, {result['seconds']:.0f} s on two cores with compilation"
    )
    parts = [f"# {example.title}", facts, f"![{example.title}]({example.name}.png)", numbers + "."]
    parts += [text if sort == "text" else f"```python\n{text}\n```" for sort, text in example.cells]
    printed = result.get("printed", "").strip()
    if printed:
        parts.append(f"It printed\n\n```text\n{printed}\n```")
    for source in _shared(example):
        code = textwrap.indent(f"```python\n{source}\n```", "    ")
        parts.append(f'??? note "What it takes from _shared.py"\n\n{code}')
    parts.append(f"[As a notebook]({example.name}.ipynb) · [all examples](index.md)")
    return "\n\n".join(parts) + "\n"


def _index(shown: list[gallery.Example], results: dict[str, Any]) -> str:
    """Thumbnails with a choice of kinds, and a table."""
    kinds = sorted({kind for example in shown for kind in example.kind})
    choice = "".join(f'<button data-kind="{escape(kind)}">{escape(kind)}</button>' for kind in kinds)
    cards = "".join(
        f'<a class="card" href="{e.name}.html" data-kinds="{escape("|".join(e.kind))}">'
        f'<img src="{e.name}-small.png" alt="" loading="lazy"><b>{escape(e.title)}</b>'
        f"<span>{escape(e.statement)}</span></a>"
        for e in shown
    )
    rows = "\n".join(_row(e, results[e.name]) for e in shown)
    return (DOCS / "gallery" / "head.md").read_text() + (
        f'\n<div class="kinds"><button data-kind="">all</button>{choice}</div>\n'
        f'<div class="cards">{cards}</div>\n<script src="choose.js"></script>\n\n'
        "| example | statement | dimensions | linear | trained | relative error | seconds |\n"
        f"| --- | --- | --- | --- | --- | --- | --- |\n{rows}\n"
    )


def _row(e: gallery.Example, result: dict[str, Any]) -> str:
    statement = e.statement.replace("|", "\\|")
    cells = [f"[{e.title}]({e.name}.md)", statement, e.dimensions]
    cells += ["yes" if word in e.kind else "no" for word in ("linear", "trained")]
    return " | ".join(["", *cells, f"{result['error']:.1e}", f"{result['seconds']:.0f}", ""]).strip()


def _notebook(example: gallery.Example) -> str:
    sources = [("text", f"# {example.title}"), *(("code", text) for text in _shared(example))]
    sources += [(sort, _IMPORT.sub("", text)) for sort, text in example.cells]
    cells = [_cell(f"cell-{k}", sort, text) for k, (sort, text) in enumerate(sources)]
    head = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": head, "cells": cells}, indent=1)


def _cell(name: str, sort: str, text: str) -> dict[str, Any]:
    cell = {"id": name, "metadata": {}, "source": text.splitlines(keepends=True)}
    if sort == "text":
        return {"cell_type": "markdown", **cell}
    return {"cell_type": "code", **cell, "outputs": [], "execution_count": None}


def _shared(example: gallery.Example) -> tuple[str, ...]:
    """The imports of _shared.py and the functions that an example takes from there; nothing if none."""
    found = _IMPORT.search(example.code)
    if found is None:
        return ()
    source = (ROOT / "examples" / "gallery" / "_shared.py").read_text()
    body = ast.parse(source).body
    imports = [ast.get_source_segment(source, one) for one in body if isinstance(one, ast.Import)]
    wanted = found.group(1).split(", ")
    functions = [one for one in body if isinstance(one, ast.FunctionDef) and one.name in wanted]
    parts = [ast.get_source_segment(source, one) or "" for one in functions]
    return ("\n".join(["from typing import Any", *map(str, imports), "", *parts]),)


# --- results
def _pinnacle() -> str:
    """The measured tables of single PDEs, shapes and families, one below the other."""
    parts = [_PINNACLE]
    for name in ("pinnacle", "shapes", "families"):
        page = ROOT / "benchmarks" / "results" / f"{name}.md"
        if page.exists():
            text = re.sub(r"^#", "##", page.read_text(), flags=re.MULTILINE)
            parts.append(_LOCAL.sub(r"\1../benchmarks/results/\2", text))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
