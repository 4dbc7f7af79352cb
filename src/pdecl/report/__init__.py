"""`write`: runs as one folder with a page that stands alone, its pictures, and the data behind each.

index.html      the page, with all pictures inside
NAME.png        each picture;  data/NAME.json or .npz the numbers in it
report.json     what the folder is, and which files are the report's
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..family import shipped
from ..support.environment import versions
from ..support.figures import drawing, save
from ..support.files import write_arrays, write_json, write_text
from ..support.progress import counting_bar
from . import curves, fields, front, learned, words
from . import studies as computing
from .page import Exhibit, Missing, Section, Table, page
from .results import RACE, collect, overview, plain, race_lines
from .runs import Run
from .studies import Effort
from .summary import METHODS, Result, presets, problems, rows, select

__all__ = ["Effort", "ReportError", "write"]

_MANIFEST = "report.json"


class ReportError(ValueError):
    """A report that cannot be written, and why."""


def write(
    runs: Sequence[Run],
    folder: str | os.PathLike[str],
    studies: bool | Effort = True,
    progress: bool = True,
    kept: Sequence[Result] = (),
) -> Path:
    """Writes the report of runs into a folder and returns the path of its index.html.

    - `runs`: from `runs.read`, hard and soft, of any problems, presets and seeds. What is missing for
      a figure is said at the end.
    - `folder`: new, empty, or of an earlier report, which is replaced.
    - `studies`: whether to compute with the trained models (points used and not used, interpolation,
      trade-off), which takes minutes; an `Effort` says how much.
    - `kept`: results of other runs, from `results.read`; those of a problem and preset of `runs` stand
      beside them in tables and curves.
    """
    if not runs:
        raise ReportError("a report needs at least one run.")
    folder = Path(folder)
    before = _claim(folder)
    effort = studies if isinstance(studies, Effort) else Effort() if studies else None
    own = [collect(run) for run in runs]
    there = {_setting(result) for result in own}
    beside = [result for result in kept if _setting(result) in there]
    gathered: Gathered = [*zip(runs, own, strict=True), *((None, result) for result in beside)]
    results = [*own, *beside]
    written, pictures, sections, missing = [], {}, [], []
    plan: list[tuple[Section, list[Maker]]] = [
        (_front_section(own, kept), [(lambda: front.gallery(runs), [])]),
        *_planned(gathered, effort),
    ]
    with drawing(), counting_bar("drawing the report", None, progress) as tell:
        for section, makers in plan:
            missing += [f"{section.title}. {reason}" for reason in section.missing]
            exhibits = []
            for make, shown in makers:
                try:
                    exhibit = make()
                except Missing as reason:
                    missing.append(f"{section.title}. {reason}")
                    continue
                if shown:
                    caption = f"{exhibit.caption} Shown: {'; '.join(shown)}."
                    exhibit = replace(exhibit, caption=caption)
                written += _write_exhibit(folder, exhibit)
                pictures[exhibit.name] = (folder / f"{exhibit.name}.png").read_bytes()
                exhibits.append(replace(exhibit, figure=None, data={}))  # written; its memory can go
                tell(1)
            sections.append(replace(section, missing=(), exhibits=exhibits))
    tables, unknown = _tables_section(results)
    opening, *sections = [sections[0], tables, *sections[1:]]
    if missing or unknown:
        sections.append(Section("missing", "What is not here", missing=[*unknown, *missing]))
    written.append(_write_json(folder, "data/results.json", results))
    index = folder / "index.html"
    write_text(index, page(opening, _introduction(results), sections, pictures))
    _finish(folder, before, [*written, "index.html"])
    return index


Gathered = Sequence[tuple[Run | None, Result]]
# What makes a figure, or raises `Missing`, and the runs that its caption says are shown.
Maker = tuple[Callable[[], Exhibit], Sequence[str]]


def _planned(gathered: Gathered, effort: Effort | None) -> Iterator[tuple[Section, list[Maker]]]:
    """A section for each problem and preset, and what makes its figures."""
    results = [result for _, result in gathered]
    for problem in problems(results):
        of_problem = [pair for pair in gathered if pair[1]["experiment"]["problem"] == problem]
        for preset in presets([result for _, result in of_problem]):
            here = [pair for pair in of_problem if pair[1]["experiment"]["preset"] == preset]
            here.sort(key=lambda pair: pair[1]["experiment"]["seed"])
            by_method = {
                method: [pair for pair in here if pair[1]["experiment"]["method"] == method]
                for method in METHODS
            }
            name = f"{problem}-{preset}"
            tell = [
                f"{method}: there is no {method} run of {problem} with preset {preset} among the runs; "
                f"train one with `pdecl train {problem} --method {method} --preset {preset}`."
                for method, pairs in by_method.items()
                if not pairs
            ]
            about = [
                words.about([result for _, result in pairs]) for pairs in by_method.values() if pairs
            ]
            section = Section(name, f"{words.title(problem)}, preset {preset}", about, tell)
            yield section, _makers(name, problem, by_method, effort)


def _makers(name: str, problem: str, by_method: dict[str, Any], effort: Effort | None) -> list[Maker]:
    firsts = {m: next((run for run, _ in pairs if run), None) for m, pairs in by_method.items()}
    results = {method: [result for _, result in pairs] for method, pairs in by_method.items()}
    hard = firsts["hard"]
    family = next(run for run in firsts.values() if run is not None).experiment.family
    shown = [words.about(pairs) for pairs in results.values() if pairs]
    shown_firsts = [
        words.about([next(result for run, result in pairs if run)])
        for method, pairs in by_method.items()
        if firsts[method]
    ]
    makers: list[Maker] = [
        (partial(fields.heat_maps, name, unknown, hard, firsts["soft"]), shown_firsts)
        for unknown in family.unknowns
    ]
    makers.append((lambda: curves.learning_curves(name, problem, results), shown))
    makers.append((lambda: curves.error_boxes(name, problem, results), shown))
    if effort is None or hard is None:
        return makers
    first_hard = [words.about(results["hard"][:1])]
    if family.exact is not None and len(family.solution_dims) == 2 and len(family.unknowns) == 1:
        used = lambda: learned.used_histogram(name, computing.used_points(hard, effort))
        makers.append((used, first_hard))
    makers.append((lambda: _interpolation(name, hard, effort), first_hard))
    makers.append((lambda: _trade_off(name, hard, effort), first_hard))
    return makers


def _interpolation(name: str, hard: Run, effort: Effort) -> Exhibit:
    family = hard.experiment.family
    if family.on_grid:
        raise Missing(
            "Interpolation: these functions are given on the grid of φ and are bilinear between its "
            "nodes, so there is no finer answer of the basis to compare cubic interpolation with."
        )
    if family.exact is None or len(family.solution_dims) != 2 or len(family.unknowns) > 1:
        raise Missing(
            "Interpolation: this is drawn for one unknown over two coordinates whose exact solution is "
            "given with the problem."
        )
    try:
        return learned.interpolation_chart(name, computing.interpolation(hard, effort))
    except ValueError as error:
        raise Missing(
            f"Interpolation: there is nothing exact to compare with on finer grids ({error})"
        ) from error


def _trade_off(name: str, hard: Run, effort: Effort) -> Exhibit:
    if len(hard.experiment.family.unknowns) > 1:
        raise Missing("Trade-off: this is drawn for problems with one unknown.")
    if hard.experiment.family.on_grid and "target" not in hard.fields:
        raise Missing("Trade-off: the hard run was not evaluated; see `pdecl evaluate`.")
    return learned.trade_off_chart(name, computing.trade_off(hard, effort))


def _setting(result: Result) -> tuple[str, str]:
    return result["experiment"]["problem"], result["experiment"]["preset"]


def _front_section(own: Sequence[Result], kept: Sequence[Result]) -> Section:
    sentence = front.headline(own)
    names = ", ".join(words.title(problem) for problem in problems(own))
    table = front.errors(own, kept)
    return Section(
        "front", f"pdecl: {names}", [sentence] * bool(sentence), tables=[table] * bool(table.rows)
    )


def _tables_section(found: Sequence[Result]) -> tuple[Section, list[str]]:
    """The tables, and what they lack."""
    there = problems(found)
    absent = [words.title(name) for name in shipped() if name not in there]
    some_shipped = absent and set(there) & set(shipped())
    missing = [f"No runs of {', '.join(absent)} were given."] if some_shipped else []
    tables = []
    for problem in there:
        here = select(found, problem=problem)
        tables.append(Table(words.title(problem), *overview(problem, rows(here))))
        if lines := race_lines(here):
            tables.append(Table(RACE, ["preset", *words.RACE], lines))
        else:
            missing.append(f"{words.title(problem)}: no hard and soft runs of one preset to compare.")
    about = [
        "Relative L2 error and PDE residual loss on the test φ, mean ± sample deviation over seeds; in "
        "brackets the largest error of all φ and seeds. Trained without solution data. The paper's "
        "figures are for its own test φ and hardware."
    ]
    return Section("tables", "Results over seeds, beside the paper's", about, tables=tables), missing


def _introduction(results: Sequence[Result]) -> list[str]:
    numbers = ", ".join(f"{name} {number}" for name, number in versions("pdecl", "jax", "numpy").items())
    return [
        f"From {words.counted(len(results), 'run', 'runs')}. A network proposes N functions. "
        "Hard: the layer solves for their weights ω so that the PDE holds, while training and for every "
        "new φ. Soft: the network predicts ω itself, and the PDE is a penalty.",
        f"Written with {numbers}. The paper: Négiar, Mahoney, Krishnapriyan, Learning differentiable "
        "solvers for systems with hard constraints, ICLR 2023.",
    ]


def _write_exhibit(folder: Path, exhibit: Exhibit) -> list[str]:
    picture = f"{exhibit.name}.png"
    assert exhibit.figure is not None
    save(exhibit.figure, folder / picture)
    if not exhibit.arrays:
        about = {"title": exhibit.title, "caption": exhibit.caption, **exhibit.data}
        return [picture, _write_json(folder, f"data/{exhibit.name}.json", about)]
    data = f"data/{exhibit.name}.npz"
    write_arrays(folder / data, exhibit.data)
    return [picture, data]


def _write_json(folder: Path, name: str, value: object) -> str:
    write_json(folder / name, plain(value))
    return name


def _claim(folder: Path) -> list[str]:
    """Makes sure that a folder is ours to write, and returns the files of the report that it holds."""
    manifest = folder / _MANIFEST
    if folder.exists() and not folder.is_dir():
        raise ReportError(f"{folder} is a file; a report needs a folder.")
    if not folder.exists() or not any(folder.iterdir()):
        _write_json(folder, _MANIFEST, {"pdecl_report": 1, "files": []})
        return []
    try:
        return list(json.loads(manifest.read_text("utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(
            f"{folder} is not empty and holds no report of pdecl; choose another folder, or empty it."
        ) from error


def _finish(folder: Path, before: Sequence[str], written: Sequence[str]) -> None:
    """Removes pictures and data that only the earlier report had, and lists what there is now."""
    for name in set(before) - set(written):
        path = folder / name
        if path.resolve().is_relative_to(folder.resolve()):
            path.unlink(missing_ok=True)
    _write_json(folder, _MANIFEST, {"pdecl_report": 1, "files": sorted(written)})
