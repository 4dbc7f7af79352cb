"""Results as small files to keep, and RESULTS.md made from them.

collect(run)        what is worth keeping of a run, as plain data for results/NAME.json
markdown(results)   the whole of RESULTS.md, from such data and nothing else
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..family.experiment import Experiment, completed, preset, problem_of
from ..support.files import write_text
from ..train.history import with_metrics
from . import words
from .runs import Run
from .summary import METHODS, Result, Row, presets, problems, races, rows, select

__all__ = ["RACE", "collect", "markdown", "name", "overview", "race_lines", "read", "write"]

FORMAT = 1
# What is kept of an evaluation beside the errors of each φ.
_KEPT = (
    "error",
    "residual_loss",
    "beside",
    "bounds",
    "statuses",
    "seconds_per_phi",
    "count",
    "origin",
    "device",
)


def collect(run: Run) -> dict[str, Any]:
    """A run as plain data: experiment, environment, evaluation and the metrics in its history.

    Of the numbers for each φ only the errors are kept, to four digits.
    """
    experiment, history, evaluation = run.experiment, run.history, run.evaluation
    kept: dict[str, Any] = {name: evaluation[name] for name in _KEPT if name in evaluation}
    if "errors" in evaluation:
        kept["errors"] = [float(f"{error:.4g}") for error in evaluation["errors"]]
    return plain(
        {
            "format": FORMAT,
            "experiment": experiment.as_dict(),
            "environment": {**run.environment, "command": _command(run)},
            "points": _points(run),
            "evaluation": kept,
            "history": {
                "steps": len(history.loss),
                "seconds": history.seconds[-1] if history.seconds else None,
                "compiling": history.compiling,
                "steps_per_second": history.steps_per_second,
                "metrics": history.metrics,
            },
        }
    )


def _command(run: Run) -> str:
    """The command, without where it wrote to, which is of no use to others."""
    words = iter(run.environment.get("command", "unknown").split())
    kept = []
    for word in words:
        if word in ("--out", "--cache"):
            next(words, None)
        elif word != "--json":
            kept.append(word)
    return " ".join(kept)


def _points(run: Run) -> dict[str, int]:
    """How many points each condition is solved on."""
    problem = problem_of(run.experiment)
    size = run.experiment.network.size * len(problem.unknowns)
    sets = problem.draw(size)
    return {name: len(sets[k]) for name, k in zip(problem.names(), problem.places, strict=True)}


def plain(value: object) -> Any:
    """Lists, dictionaries, numbers, words. JSON has no word for what is not finite: it becomes null."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def name(experiment: Experiment) -> str:
    """What a result's file is called; a network that is not the preset's own adds its kind."""
    parts = [experiment.problem, experiment.method, experiment.preset, str(experiment.seed)]
    own = preset(experiment.family, experiment.method, experiment.preset).network.kind
    if experiment.network.kind != own:
        parts.append(experiment.network.kind.lower())
    return "-".join(parts)


def write(path: str | os.PathLike[str], run: Run) -> None:
    """`collect`, written as JSON."""
    write_text(path, json.dumps(collect(run), indent=1, ensure_ascii=False) + "\n")


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What `write` wrote; a ValueError says what is wrong with a file that it did not."""
    try:
        result = json.loads(Path(path).read_text("utf-8"))
        if result["format"] != FORMAT:
            raise ValueError(f"it has format {result['format']}, this pdecl reads {FORMAT}")
        # A setting that came later has its default in a file from before.
        history = with_metrics(result["history"])
        return {**result, "experiment": completed(result["experiment"]), "history": history}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a result of pdecl, or was cut short: {error}") from error


def markdown(results: Sequence[Result]) -> str:
    """RESULTS.md: for each problem tables over presets and methods, and hard against soft."""
    parts = [_INTRODUCTION]
    for problem in problems(results):
        here = select(results, problem=problem)
        table = rows(here)
        parts += [f"## {words.title(problem)}", _markdown_table(*overview(problem, table))]
        parts += [_sentences(problem, table)]
        parts += [_race_table(here), _commands(table)]
    return "\n\n".join(part for part in parts if part) + "\n"


_INTRODUCTION = """# Results

Generated from the files in `results/` by `pdecl results`; do not edit.
To make a row again, run its command (below each table) and keep the result.

- Error: relative L2 distance from the reference, mean over the test φ, which no training has seen; then
  mean ± sample standard deviation over seeds, and in brackets the largest error of any φ and seed.
- Residual: sum of squares of the PDE's residual over the interior nodes, mean over the test φ. It grows
  with the number of nodes. The paper does not say how its own is normalised, so compare hard with soft.
- Seconds of training include compiling, and leave out the time that the metrics took. Seconds per φ are
  warm, for the solve and the values at all nodes, as part of a batch.
- "Paper": Négiar, Mahoney, Krishnapriyan, ICLR 2023, as it reports them; other hardware and test φ.
- Trained without solution data, all of them. A preset's networks may differ for hard and soft, as the
  tables show: a race that is won "at the start" is then won by the network too. How they were chosen,
  why a residual says little on 421 × 421 nodes, and why some runs of the paper's settings end above
  the paper's errors: docs/problems.md."""


def overview(problem: str, table: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """A problem's experiments beside the paper's: the head of a table, and its lines."""
    companions = sorted({name for row in table if row.evaluated for name in row.companions})
    head = ["preset", "method", "N", "network", "points", "steps", "training s", "steps/s"]
    head += ["error (max)", "paper"]
    head += [f"error against {words.companion(problem, name)}" for name in companions]
    head += ["residual", "paper", "s per φ", "test φ", "seeds", "device"]
    return head, [_cells(problem, row, companions) for row in table]


def _cells(problem: str, row: Row, companions: Sequence[str]) -> list[str]:
    plan, paper = row.experiment, words.reported(problem, row.experiment["method"])
    cells = [plan["preset"], plan["method"], str(plan["network"]["size"]), words.network(plan)]
    cells += [words.points(row.results[0]), words.steps(row.over_seeds("history", "steps"))]
    cells += [words.spread(row.over_seeds("history", name)) for name in ("seconds", "steps_per_second")]
    published = f"{words.percent(paper.error)} ± {words.percent(paper.deviation, 2)}" if paper else "–"
    residual = words.short(paper.residual) if paper and paper.residual is not None else "–"
    seeds, device = ", ".join(map(str, row.seeds)), row.device
    if not row.evaluated:
        none = ["–"] * len(companions)
        return [*cells, "not evaluated", published, *none, "–", residual, "–", "–", seeds, device]
    cells += [
        f"{words.spread(row.error, words.percent)} ({words.percent(row.largest_error)})",
        published,
    ]
    cells += [_beside(row, name) if name in row.companions else "–" for name in companions]
    left, each = (row.over_seeds("evaluation", name) for name in ("residual_loss", "seconds_per_phi"))
    tested = str(int(row.results[0]["evaluation"]["error"]["count"]))
    return [*cells, words.spread(left), residual, words.spread(each), tested, seeds, device]


def _beside(row: Row, name: str) -> str:
    """The error against another solution, and of which seeds if not of all."""
    measured = row.beside(name)
    text = words.spread(measured.over_seeds("evaluation", "beside", name, "mean"), words.percent)
    if measured.seeds == row.seeds:
        return text
    return f"{text} (seed {', '.join(map(str, measured.seeds))})"


def _sentences(problem: str, table: Sequence[Row]) -> str:
    lines = []
    for row in table:
        method, paper = row.experiment["method"], words.reported(problem, row.experiment["method"])
        if not row.evaluated or paper is None:
            continue
        which = f"{row.experiment['preset']}, {method}, {words.network(row.experiment)}, {row.device}"
        ratio = row.error.mean / paper.error
        relation = f"{ratio:.2g} times" if ratio < 0.995 or ratio > 1.005 else "equal to"
        text = f"- {which}: the error is {relation} the paper's ({words.percent(paper.error)})"
        if ratio > 1 and (errors := row.last_half):
            halfway, at_end = map(words.percent, errors)
            steps = words.steps(row.over_seeds("history", "steps"))
            text += f"; over the last half of {steps} steps it went from {halfway} to "
            text += f"{at_end}, on the φ that training monitored"
        if failures := row.failures():
            counts = ", ".join(f"{count} {name}" for name, count in sorted(failures.items()))
            text += f"; solves that failed: {counts}"
        lines.append(text + ".")
    return "\n".join(lines)


RACE = (
    "Hard against soft: steps and seconds until the soft model's best error, on the φ that training "
    "monitored (the paper: 100 times fewer steps, 10 times less time)."
)


def race_lines(here: Sequence[Result]) -> list[list[str]]:
    """A line for each soft run of a problem that a hard one can be held against."""
    lines = []
    for size in presets(here):
        hard, soft = (select(here, preset=size, method=method) for method in METHODS)
        same = {r["environment"].get("device") for r in (*hard, *soft)}
        note = "" if len(same) == 1 else " (different devices)"
        lines += [[size + note, *words.race(race)] for race in races(hard, soft)]
    return lines


def _race_table(here: Sequence[Result]) -> str:
    if not (lines := race_lines(here)):
        return "Hard against soft: there are no hard and soft runs of one preset to compare."
    return RACE + "\n\n" + _markdown_table(["preset", *words.RACE], lines)


def _commands(table: Sequence[Row]) -> str:
    lines = []
    for row in table:
        for result in row.results:
            where, plan = result["environment"], result["experiment"]
            began = where.get("began", "at an unknown time")
            command = where.get("command", "unknown")
            which = f"{plan['preset']}, {plan['method']}, seed {plan['seed']}"
            commit = f", commit {where['commit']}" if where.get("commit") else ""
            lines.append(f"- {which}: `{command}` ({row.device}, {began}{commit})")
    return "Commands:\n\n" + "\n".join(lines)


def _markdown_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    line = lambda cells: "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    return "\n".join([line(head), line(["---"] * len(head)), *map(line, lines)])
