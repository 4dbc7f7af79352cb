"""What a report begins with: how wrong the answers are, beside the paper's, and what they look like."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..support.figures import DIFFERENCE, SOLUTION, new_figure
from . import words
from .fields import view_of
from .page import Exhibit, Missing, Table
from .pictures import difference_limits, images
from .runs import Run
from .summary import Result, problems, select

_COLUMNS = 4


def headline(results: Sequence[Result]) -> str:
    """How errors stand beside the paper's, in a sentence; empty where the paper has nothing."""
    parts = []
    for problem in problems(results):
        best, paper = _best(results, problem, "hard"), words.reported(problem, "hard")
        error = best["evaluation"]["error"]["mean"] if best else None
        if paper and error:
            ratio = words.short(paper.error / error, 2)
            parts.append(f"{words.title(problem)} {words.percent(error)} ({ratio}×)")
    if not parts:
        return ""
    return f"Mean error on unseen φ, and how many times smaller than the paper's: {', '.join(parts)}."


def errors(results: Sequence[Result], kept: Sequence[Result]) -> Table:
    """A row for each problem: the most accurate hard run, the paper's two errors, the most accurate soft
    run or kept result, and what was known of the error without a reference."""
    head = [
        "problem",
        "unseen φ",
        "mean error",
        "largest",
        "paper, hard",
        "paper, soft",
        "our soft model",
    ]
    head += ["known without a reference", "ms per φ"]
    caption = (
        "Relative L2 error; hard: the layer solves for the weights, soft: a network gives them. “Known "
        "without a reference”: the largest bound of the relative error, proved or estimated, and of how "
        "many φ the error was within its own."
    )
    lines = [_cells(results, kept, problem) for problem in problems(results)]
    return Table(caption, head, [line for line in lines if line])


def gallery(runs: Sequence[Run]) -> Exhibit:
    """A column for each problem: u for one unseen φ, and its difference from the reference."""
    shown: dict[str, tuple[Run, dict[str, np.ndarray]]] = {}
    for run in runs:
        family = run.experiment.family
        fields = run.fields_of(family.unknowns[0])
        if "difference" in fields and run.experiment.method == "hard":
            shown.setdefault(run.experiment.problem, (run, fields))
    columns = [(run, fields) for run, fields in shown.values()][:_COLUMNS]
    if not columns:
        raise Missing("Solutions: none of these runs was evaluated; see `pdecl evaluate`.")
    figure = new_figure(3.1 * max(len(columns), 2), 5.0)
    axes = figure.subplots(2, len(columns), squeeze=False)
    data: dict[str, Any] = {}
    for (run, fields), (top, bottom) in zip(columns, axes.T, strict=True):
        found, difference = (fields[part][:1] for part in ("found", "difference"))
        error = float(np.linalg.norm(difference) / np.linalg.norm(fields["target"][:1]))
        view = view_of(run, found)
        limits = (float(np.nanmin(found)), float(np.nanmax(found)))
        images(figure, np.array([top]), found, "", SOLUTION, limits, view)
        images(
            figure, np.array([bottom]), difference, "", DIFFERENCE, difference_limits(difference), view
        )
        bottom.set_xlabel(view.across)
        top.set_title(words.title(run.experiment.problem))
        bottom.set_title(f"error {words.percent(error, 2)}")
        name = run.experiment.problem
        data |= {f"{name} found": found[0], f"{name} difference": difference[0]}
    return Exhibit(
        name="front",
        title="Solutions for one unseen φ each, and their differences from the reference",
        figure=figure,
        data=data,
        caption="Above u, below u minus the reference, on a scale of its own.",
        alt="Heat maps of the solution for one unseen parameter of each problem, and below each the "
        "difference from its reference: "
        + ", ".join(words.title(run.experiment.problem) for run, _ in columns),
        arrays=True,
    )


def _cells(results: Sequence[Result], kept: Sequence[Result], problem: str) -> list[str]:
    hard, soft = _best(results, problem, "hard"), _best([*results, *kept], problem, "soft")
    if hard is None:
        return []
    evaluation = hard["evaluation"]
    paper = [words.reported(problem, method) for method in ("hard", "soft")]
    cells = [words.title(problem), str(evaluation["error"]["count"])]
    cells += [words.percent(evaluation["error"][which]) for which in ("mean", "max")]
    cells += ["–" if one is None else words.percent(one.error) for one in paper]
    cells.append("–" if soft is None else words.percent(soft["evaluation"]["error"]["mean"]))
    return [*cells, _known(evaluation), words.short(1e3 * evaluation["seconds_per_phi"], 2)]


def _known(found: dict[str, Any]) -> str:
    bounds = found.get("bounds")
    if not bounds:
        return "–"
    relative = np.array([np.inf if one is None else one for one in bounds["relative"]])
    within = int((np.array(found["errors"]) <= relative).sum())
    word = "proved" if bounds["kind"] == "bound" else "estimated"
    return f"{word}: ≤ {words.percent(float(relative.max()), 2)}; holds for {within} of {len(relative)}"


def _best(results: Sequence[Result], problem: str, method: str) -> Result | None:
    """The most accurate of those that were evaluated."""
    there = [r for r in select(results, problem=problem, method=method) if r["evaluation"].get("error")]
    return min(there, key=lambda r: r["evaluation"]["error"]["mean"] or np.inf, default=None)
