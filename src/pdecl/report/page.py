"""The report as one HTML page that needs nothing else: pictures inside, no script, no network."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COLOURS = {"hard": "#0072B2", "soft": "#D55E00"}
MARKERS = {"hard": "o", "soft": "s"}


class Missing(Exception):
    """Why a figure is not there."""


@dataclass(frozen=True)
class Exhibit:
    """One figure: the picture, the numbers behind it, and what it shows in words.

    - `name`: of its files, NAME.png and data/NAME.json, or data/NAME.npz if `data` holds arrays.
    - `alt`: what is seen, for those who do not see it.
    """

    name: str
    title: str
    figure: "Figure | None"
    data: dict[str, Any]
    caption: str
    alt: str
    arrays: bool = False


@dataclass(frozen=True)
class Table:
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """A part of the page: what was run, what is missing, tables, figures."""

    name: str
    title: str
    about: Sequence[str] = ()
    missing: Sequence[str] = ()
    tables: Sequence[Table] = ()
    exhibits: Sequence[Exhibit] = field(default_factory=list)


def page(
    front: Section,
    introduction: Sequence[str],
    sections: Sequence[Section],
    pictures: Mapping[str, bytes],
) -> str:
    """The whole document, which begins with `front`; `pictures` has the PNG of each exhibit by name."""
    title = escape(front.title)
    contents = "\n".join(
        f'<li><a href="#{section.name}">{escape(section.title)}</a></li>'
        for section in sections
        if not section.missing
    )
    body = "\n".join(
        f'<section id="{section.name}">\n<h2>{escape(section.title)}</h2>\n'
        f"{_inside(section, pictures)}\n</section>"
        for section in sections
    )
    paragraphs = "\n".join(f"<p>{escape(text)}</p>" for text in introduction)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>{title}</h1>
{_inside(front, pictures)}
{paragraphs}
<nav aria-label="Contents">
<ul>
{contents}
</ul>
</nav>
</header>
<main>
{body}
</main>
</body>
</html>
"""


def _inside(section: Section, pictures: Mapping[str, bytes]) -> str:
    parts = []
    if section.about:
        parts.append(
            '<ul class="about">' + "".join(f"<li>{escape(t)}</li>" for t in section.about) + "</ul>"
        )
    parts += [f'<p class="missing">{escape(text)}</p>' for text in section.missing]
    parts += [_table(table) for table in section.tables]
    parts += [_figure(exhibit, pictures[exhibit.name]) for exhibit in section.exhibits]
    return "\n".join(parts)


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.head)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return (
        f'<p class="caption">{escape(table.caption)}</p>\n<div class="wide"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _figure(exhibit: Exhibit, png: bytes) -> str:
    data = f"data/{exhibit.name}.{'npz' if exhibit.arrays else 'json'}"
    source = "data:image/png;base64," + base64.b64encode(png).decode()
    return f"""<h3>{escape(exhibit.title)}</h3>
<figure>
<img src="{source}" alt="{escape(exhibit.alt, quote=True)}">
<figcaption>{escape(exhibit.caption)}
<span class="files">Beside this page: <a href="{exhibit.name}.png">{exhibit.name}.png</a>,
<a href="{data}">{data}</a></span></figcaption>
</figure>"""


_STYLE = """
:root {
  --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --back: #ffffff; --link: #0b5cad;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e9ed; --soft: #a3adb8; --line: #39414a; --back: #15181c; --link: #7ab8ff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 62rem; padding: 1.2rem 1rem 4rem;
  color: var(--ink); background: var(--back);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
h1 { font-size: 1.7rem; line-height: 1.2; margin: .4em 0; }
h2 { font-size: 1.35rem; margin: 2.6rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
a { color: var(--link); }
nav ul { padding-left: 1.2rem; margin: .4rem 0; }
.about { color: var(--soft); padding-left: 1.2rem; font-size: .93rem; }
.missing { color: var(--soft); font-size: .93rem; }
.caption, figcaption { color: var(--soft); font-size: .9rem; margin: .6rem 0; }
.files { display: block; font-size: .82rem; margin-top: .2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); }
td { white-space: nowrap; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
figure { margin: 0; }
img {
  max-width: 100%; height: auto; display: block; background: #fff; border-radius: 8px; padding: 8px;
}
"""
