"""The tables of a report: ours beside the paper's, and hard against soft."""

from collections.abc import Sequence

from . import words
from .page import Table
from .paper import FEWER_STEPS, LESS_TIME, reported
from .summary import METHODS, Result, Row, presets, problems, races, rows, select


def overview(results: Sequence[Result]) -> Table:
    """Errors and residuals of all experiments, mean ± deviation over seeds."""
    head = ["problem", "preset", "method", "network", "N", "seeds", "steps", "training s", "device"]
    head += ["error", "largest", "paper's error", "residual loss", "paper's residual"]
    caption = (
        "Relative L2 error and PDE residual loss on the test φ, mean ± sample deviation over seeds; "
        "“largest” is over all φ and seeds. Trained without solution data. The paper's figures are for "
        "its own test φ and hardware."
    )
    return Table(caption, head, [_cells(row) for row in rows(results)])


def against_soft(results: Sequence[Result]) -> Table | None:
    """Steps and seconds until the soft model's best error; None where there is nothing to compare."""
    lines = []
    for problem in problems(results):
        for preset in presets(select(results, problem=problem)):
            hard, soft = (select(results, problem=problem, preset=preset, method=m) for m in METHODS)
            same = {r["environment"].get("device") for r in (*hard, *soft)}
            note = "" if len(same) == 1 else " (different devices)"
            for race in races(hard, soft):
                lines.append([words.title(problem), preset + note, *words.race(race)])
    if not lines:
        return None
    caption = (
        "Hard against soft: steps and seconds of training until the soft model's best error on the "
        f"monitored φ was first met (the paper: {FEWER_STEPS}× fewer steps, {LESS_TIME}× less time)."
    )
    return Table(caption, ["problem", "preset", *words.RACE], lines)


def _cells(row: Row) -> list[str]:
    plan, paper = row.experiment, reported(row.experiment["problem"], row.experiment["method"])
    cells = [words.title(plan["problem"]), plan["preset"], plan["method"], words.network(plan)]
    cells += [str(plan["network"]["size"]), ", ".join(map(str, row.seeds)), words.steps(row.steps)]
    cells += [words.spread(row.seconds), row.device]
    if row.evaluated:
        cells += [words.spread(row.error, words.percent), words.percent(row.largest_error)]
    else:
        cells += ["not evaluated", "–"]
    cells.append(f"{words.percent(paper.error)} ± {words.percent(paper.deviation, 2)}" if paper else "–")
    cells.append(words.spread(row.residual) if row.evaluated else "–")
    return [*cells, words.short(paper.residual) if paper and paper.residual else "–"]
