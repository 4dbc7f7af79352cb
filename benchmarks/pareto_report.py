"""Words, tables and pictures of `pareto.py`: who is faster at the same error, and by how much."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pareto_measure import Row
from rich.table import Table

from pdecl.support.figures import BLUE, GREY, VERMILION, drawing, frame, log_scale, new_figure, save

_FLOOR = 1e-7  # errors below are drawn here
_FASTER = 0.95  # times another's time: less of a difference than that is noise
# Okabe and Ito's other colours, each with a marker of its own.
_STYLES = [("#009E73", "s"), ("#E69F00", "D"), ("#CC79A7", "^"), ("#56B4E9", "v"), ("#000000", "P")]


def rival_of(row: Row, rows: Sequence[Row], batch: int, kind: str = "grid") -> Row | None:
    """The fastest numerical solver whose mean error is no larger."""
    able = [
        other
        for other in rows
        if other.family == "numerical" and other.error <= row.error and batch in getattr(other, kind)
    ]
    return min(able, key=lambda other: other.per_phi(batch, kind)) if able else None


def comparisons(rows: Sequence[Row], training: dict[str, Any]) -> list[dict[str, Any]]:
    """For each setting of the layer and batch: its rival, how much slower it is, when it is paid back.

    Training and making the compiled solver are what has to be paid back: "never" where the numerical
    solver takes less time for each query, None where it is not known how long training took.
    """
    found = []
    for row in rows:
        for batch in row.grid if row.family != "numerical" else ():
            rival = rival_of(row, rows, batch)
            if rival is None:
                continue
            ours, theirs = row.per_phi(batch), rival.per_phi(batch)
            trained = training.get("seconds") if row.family == "layer" else None
            spent = None if trained is None else trained + row.facts.get("offline_seconds", 0.0)
            queries: Any = "never"
            if ours < _FASTER * theirs:
                queries = None if spent is None else int(np.ceil(spent / (theirs - ours)))
            found.append(
                {
                    "method": row.name, "setting": row.setting, "batch": batch, "error": row.error,
                    "rival": f"{rival.name}, {rival.setting}", "rival_error": rival.error,
                    "times_as_long": ours / theirs, "paid_back_after": queries,
                }
            )  # fmt: skip
    return found


def table(
    problem: str, rows: Sequence[Row], batches: Sequence[int], comparison: list[dict[str, Any]]
) -> Table:
    """All rows, by family and error, with their times for one φ."""
    head, lines = _cells(rows, batches, comparison)
    made = Table(title=f"{problem}: times are for one φ", title_justify="left")
    for place, heading in enumerate(head):
        made.add_column(heading, justify="left" if place < 3 else "right")
    for line in lines:
        made.add_row(*line)
    return made


def markdown(
    problem: str, rows: Sequence[Row], batches: Sequence[int], comparison: list[dict[str, Any]]
) -> str:
    """The same table as text."""
    head, lines = _cells(rows, batches, comparison)
    line = lambda cells: "| " + " | ".join(cells) + " |"
    return "\n".join(
        [f"## {problem.capitalize()}", "", line(head), line(["---"] * len(head)), *map(line, lines)]
    )


def caption(
    problem: str,
    rows: Sequence[Row],
    comparison: list[dict[str, Any]],
    training: dict[str, Any],
    facts: dict[str, Any],
) -> str:
    """What was run, and where numerical solvers are faster."""
    parts = [
        f"{problem.capitalize()} on {facts['machine']['device']} "
        f"({facts['machine']['cores']} CPU cores). "
        f"Mean relative L2 error over {facts['tests']} test φ on the {facts['grid']} grid against "
        f"{facts['against']}; time for one φ of a batch, warm, median, φ and u on the device. "
        f"Errors below 10⁻⁵% stand at the lower edge."
    ]
    sentences = []
    for batch in facts["batches"]:
        here = [one for one in comparison if one["batch"] == batch and "layer" in one["method"]]
        sentences += [_verdict(batch, here)] if here else [f"Batch {batch}: the layer was left out."]
    parts.append(" ".join(sentences))
    parts.append(_payback(comparison, training, facts["offline_seconds"]))
    return "\n".join(parts)


def figure(path: Path, title: str, rows: Sequence[Row], batches: Sequence[int], text: str) -> None:
    """Error against time for one φ, one panel for each batch, the caption below."""
    styles = _styles(rows)
    width, panel = 4.0 * len(batches) + 1.0, 4.1
    wrapped = "\n".join("\n".join(textwrap.wrap(line, int(14.6 * width))) for line in text.split("\n"))
    below = 0.45 + 0.165 * (wrapped.count("\n") + 1)
    shown = [row for row in rows if np.isfinite(row.error)]
    errors = [max(row.error, _FLOOR) for row in shown]
    times = [1e6 * row.per_phi(batch) for row in shown for batch in batches if batch in row.grid]
    with drawing():
        whole = new_figure(width, panel + below)
        whole.set_layout_engine("none")
        axes = whole.subplots(
            1, len(batches), squeeze=False, sharex=True, sharey=True,
            gridspec_kw={
                "left": 0.95 / width, "right": 1 - 0.35 / width, "wspace": 0.12,
                "bottom": (below + 0.55) / (panel + below), "top": 1 - 0.62 / (panel + below),
            },
        )[0]  # fmt: skip
        for axis, batch in zip(axes, batches, strict=True):
            _panel(axis, shown, batch, styles)
            axis.set_title("one φ" if batch == 1 else f"batch of {batch}")
            axis.set_xlabel("time for one φ (µs)")
            frame(axis)
        log_scale(
            axes[0].yaxis, [*errors, _FLOOR if min(errors) <= _FLOOR else min(errors)], percent=True
        )
        log_scale(axes[0].xaxis, [*times, 2 * max(times)])
        for axis in axes[1:]:
            axis.tick_params(labelleft=False)
        axes[0].set_ylabel("mean relative error")
        whole.suptitle(title, fontsize=12, y=1 - 0.08 / (panel + below))
        handles, labels = _legend(axes)
        whole.legend(
            handles, labels, loc="upper center", ncols=min(len(labels), 3 * len(batches)), frameon=False,
            fontsize=9, bbox_to_anchor=(0.5, (below + 0.02) / (panel + below)),
        )  # fmt: skip
        whole.text(0.15 / width, (below - 0.35) / (panel + below), wrapped, va="top", fontsize=8.5)
        save(whole, path)


def _panel(axis: Any, rows: Sequence[Row], batch: int, styles: dict[str, tuple[str, str]]) -> None:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if batch in row.grid:
            groups.setdefault(_label(row), []).append(row)
    for name, group in groups.items():
        colour, marker = styles[group[0].name]
        x = [1e6 * row.per_phi(batch) for row in group]
        y = [max(row.error, _FLOOR) for row in group]
        ours = group[0].family == "layer"
        axis.plot(
            x, y, marker, color=colour, markersize=7 if ours else 5.5, label=name,
            zorder=4 if ours else 3, fillstyle="none" if name != group[0].name else "full",
        )  # fmt: skip
    numerical = sorted(
        (1e6 * row.per_phi(batch), max(row.error, _FLOOR))
        for row in rows
        if row.family == "numerical" and batch in row.grid
    )
    front = [p for k, p in enumerate(numerical) if all(p[1] < q[1] for q in numerical[:k])]
    if front:
        x, y = np.asarray(front).T
        # Nothing numerical lies to the left of or below this line.
        axis.step([x[0], *x, 1e12], [1e3, *y, y[-1]], where="post", color=GREY, linewidth=0.9, zorder=2,
                  label="front of the numerical solvers")  # fmt: skip
    best: dict[str, Row] = {}
    for row in rows:
        if row.family == "layer" and batch in row.grid:
            best.setdefault(_short(row), row)
    for short, row in best.items():
        axis.annotate(
            short, (1e6 * row.per_phi(batch), max(row.error, _FLOOR)), (5, 4), fontsize=7.5, color=BLUE,
            textcoords="offset points", zorder=5,
        )  # fmt: skip


def _label(row: Row) -> str:
    return row.name + (", steps in float64" if row.facts.get("steps") == "float64" else "")


def _short(row: Row) -> str:
    return f"{row.facts['nodes']}²" if "nodes" in row.facts else f"N = {row.facts['functions']}"


def _styles(rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    numerical = dict.fromkeys(row.name for row in rows if row.family == "numerical")
    styles = dict(zip(numerical, _STYLES, strict=False))
    styles |= {row.name: (BLUE, "o") for row in rows if row.family == "layer"}
    return styles | {row.name: (VERMILION, "X") for row in rows if row.family == "soft"}


def _legend(axes: Any) -> tuple[list[Any], list[str]]:
    found: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def _verdict(batch: int, here: list[dict[str, Any]]) -> str:
    """One sentence for a batch: over all settings of the layer."""
    ratios = [one["times_as_long"] for one in here]
    least = min(here, key=lambda one: one["times_as_long"])
    spread = " to ".join(dict.fromkeys(map(_number, (min(ratios), max(ratios)))))
    if min(ratios) > _FASTER:
        faster = "faster" if min(ratios) > 1 / _FASTER else "as fast or faster"
        return (
            f"Batch {batch}: numerical solvers are {faster} at every error reached; the layer takes "
            f"{spread} times as long as the fastest of no larger error (least at "
            f"{least['setting']}, against {least['rival']})."
        )
    wins = sum(ratio < _FASTER for ratio in ratios)
    share = "at every setting" if wins == len(here) else f"at {wins} of {len(here)} settings"
    return (
        f"Batch {batch}: the layer is faster {share}, {_number(1 / min(ratios))} times at most "
        f"({least['setting']}, against {least['rival']})"
        + ("." if wins == len(here) else "; elsewhere numerical solvers are faster.")
    )


def _payback(comparison: list[dict[str, Any]], training: dict[str, Any], offline: float) -> str:
    spent = (
        f"Training took {training['seconds']:.0f} s ({training['device']})"
        if training.get("seconds")
        else "The time for training is not recorded"
    )
    spent += f", studying the basis {offline:.0f} s here; " if offline else "; "
    numbers = [
        one["paid_back_after"]
        for one in comparison
        if "layer" in one["method"] and isinstance(one["paid_back_after"], int)
    ]
    faster = any(one["times_as_long"] < _FASTER for one in comparison if "layer" in one["method"])
    if faster and not numbers:
        return f"{spent}after how many queries it is paid back is not known."
    if numbers:
        return f"{spent}paid back after {min(numbers)} queries at the soonest, and never where slower."
    return f"{spent}it is never paid back by speed on this problem."


def _cells(
    rows: Sequence[Row], batches: Sequence[int], comparison: list[dict[str, Any]]
) -> tuple[list[str], list[list[str]]]:
    largest = max((batch for row in rows for batch in row.grid), default=max(batches))
    truth = any(row.truth is not None for row in rows)
    head = ["method", "setting", "on", "error", "max"] + (["error, pixel truth"] if truth else [])
    head += [f"batch {batch}" for batch in batches]
    head += ["gradient", "ten points", "call", "times the rival's", "paid back after"]
    order = {"layer": 0, "soft": 1, "numerical": 2}
    lines = []
    for row in sorted(rows, key=lambda row: (order[row.family], row.name, row.error)):
        line = [
            row.name,
            row.setting,
            row.on,
            f"{row.error:.2%}" if row.error > 1e-4 else f"{row.error:.1e}",
        ]
        line.append(f"{row.worst:.2%}" if row.worst > 1e-4 else f"{row.worst:.1e}")
        if truth:
            line.append("–" if row.truth is None else f"{row.truth:.2%}")
        line += [_time(row.per_phi(batch)) for batch in batches]
        line += [_extra(row, kind, largest) for kind in ("gradient", "ten", "call")]
        mine = [
            one for one in comparison
            if (one["method"], one["setting"]) == (row.name, row.setting)
        ]  # fmt: skip
        last = max(mine, key=lambda one: one["batch"], default=None)
        line.append("–" if last is None else f"{_number(last['times_as_long'])} ({last['batch']})")
        paid = None if last is None else last["paid_back_after"]
        line.append("–" if paid is None else str(paid))
        lines.append(line)
    return head, lines


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def _extra(row: Row, kind: str, largest: int) -> str:
    """At the largest batch that was measured, with its size where that is not the table's last."""
    sizes = getattr(row, kind)
    if not sizes:
        return "–"
    size = max(sizes)
    return _time(row.per_phi(size, kind)) + ("" if size == largest else f" ({size})")


def _time(seconds: float) -> str:
    if not np.isfinite(seconds):
        return "–"
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{1e6 * seconds:.3g} µs"
