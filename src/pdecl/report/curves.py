"""Error and residual on unseen φ while training, and box plots of the errors at the end."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..support.figures import curve, frame, label_right, log_scale, new_figure, place_of_zero
from . import words
from .page import COLOURS, MARKERS, Exhibit, Missing
from .summary import METHODS, Result

_METRICS = ("error", "residual")
_ALONG = (("step", "optimiser steps"), ("seconds", "seconds of training"))
_MOST_BOXES = 6


def learning_curves(name: str, problem: str, by_method: Mapping[str, Sequence[Result]]) -> Exhibit:
    """Both metrics against steps and against seconds, with the paper's figures as lines."""
    series = {
        method: [result["history"]["metrics"] for result in results if result["history"]["metrics"]]
        for method, results in by_method.items()
    }
    series = {method: runs for method, runs in series.items() if runs}
    metrics = [
        m for m in _METRICS if any(m in row for runs in series.values() for run in runs for row in run)
    ]
    if not metrics:
        raise Missing("Curves: no metrics on unseen φ were taken while these runs trained.")
    figure = new_figure(9.2, 3.1 * len(metrics) + 0.3)
    axes = figure.subplots(len(metrics), 2, squeeze=False, sharex="col", sharey="row")
    for row, metric in zip(axes, metrics, strict=True):
        _draw_metric(row, metric, problem, series)
    for axis, (key, label) in zip(axes[-1], _ALONG, strict=True):
        log_scale(axis.xaxis, _column(series, key))
        axis.set_xlabel(label)
    figure.align_ylabels()
    figure.draw_without_rendering()
    for row, metric in zip(axes, metrics, strict=True):
        label_right(row[1], _labels(metric, problem, series))
    return Exhibit(
        name=f"{name}-curves",
        title="Error and residual on unseen φ during training",
        figure=figure,
        data={"metrics": series, "paper": _paper(problem)},
        caption="Mean relative L2 error, and sum of squares of the PDE's residual over the grid's "
        "interior, on the test φ that training monitored. Hollow: before the first step. Seconds are of "
        "training, compiling included, metrics not."
        + (" Dashed: the paper's figures, at the end of its training." if _paper(problem) else ""),
        alt=f"Log-log curves of {' and '.join(metrics)} against steps and seconds, for "
        f"{' and '.join(series)} training.",
    )


def error_boxes(name: str, problem: str, by_method: Mapping[str, Sequence[Result]]) -> Exhibit:
    """A box for each run (or one for each method, if there are many) over the test φ."""
    boxes = []
    for method, results in by_method.items():
        runs = [
            (r["experiment"]["seed"], _numbers(r["evaluation"]["errors"]))
            for r in results
            if r["evaluation"].get("errors")
        ]
        if len(runs) > _MOST_BOXES:
            boxes.append((method, f"{method}\n{len(runs)} seeds", np.concatenate([e for _, e in runs])))
        else:
            boxes += [(method, f"{method}\nseed {seed}", errors) for seed, errors in runs]
    finite = [(method, label, errors[np.isfinite(errors)]) for method, label, errors in boxes]
    finite = [box for box in finite if len(box[2])]
    if not finite:
        raise Missing("Box plots: none of these runs was evaluated; see `pdecl evaluate`.")
    figure = new_figure(2.6 + 1.15 * max(len(finite), 2), 3.9)
    axis = figure.subplots()
    frame(axis)
    axis.grid(axis="x", visible=False)
    for place, (method, _, errors) in enumerate(finite):
        _draw_box(axis, place, errors, COLOURS[method])
    axis.set_xticks(range(len(finite)), [label for _, label, _ in finite])
    axis.set_xlim(-0.6, len(finite) - 0.4)
    paper = _published(problem, "error")
    everything = np.concatenate([*[errors for _, _, errors in finite], list(paper.values())])
    log_scale(axis.yaxis, everything, percent=True)
    axis.set_ylabel("relative L2 error")
    for method, error in paper.items():
        axis.axhline(error, **_dashed(method))
    figure.draw_without_rendering()
    label_right(axis, [_paper_label(method, error) for method, error in paper.items()])
    lost = sum(len(errors) for _, _, errors in boxes) - sum(len(errors) for _, _, errors in finite)
    caption = (
        f"Each dot is one of the {len(finite[0][2])} test φ. Box: quartiles and median; whiskers: 5% "
    )
    caption += "and 95%." + (" Dashed: the paper's mean errors." if paper else "")
    if lost:
        caption += (
            f" {words.counted(lost, 'solve gave', 'solves gave')} no finite error and cannot be shown."
        )
    return Exhibit(
        name=f"{name}-boxes",
        title="Errors over the test φ",
        figure=figure,
        data={
            "boxes": [
                {"method": m, "label": label.replace("\n", ", "), "errors": e} for m, label, e in boxes
            ]
        },
        caption=caption,
        alt="Box plots of the relative error over the test parameters, on a log axis: "
        + ", ".join(
            f"{label.replace(chr(10), ' ')} median {words.percent(float(np.median(e)))}"
            for _, label, e in finite
        ),
    )


def _draw_metric(row: Any, metric: str, problem: str, series: dict[str, list]) -> None:
    for axis, (key, _) in zip(row, _ALONG, strict=True):
        frame(axis)
        zero = place_of_zero(_column(series, key))
        for method, runs in series.items():
            alpha = 1.0 if len(runs) == 1 else 0.6
            for metrics in runs:
                rows = [one for one in metrics if metric in one]
                x, y = [_along(one, key) for one in rows], _numbers([one[metric] for one in rows])
                curve(axis, x, y, zero, COLOURS[method], MARKERS[method], alpha=alpha)
        for method, value in _published(problem, metric).items():
            axis.axhline(value, **_dashed(method))
    values = [*_column(series, metric), *_published(problem, metric).values()]
    log_scale(row[0].yaxis, values, percent=metric == "error")
    row[0].set_ylabel("relative L2 error" if metric == "error" else "PDE residual, sum of squares")


def _labels(metric: str, problem: str, series: dict[str, list]) -> list[tuple[float, str, str]]:
    labels = []
    for method, runs in series.items():
        ends = _numbers([[one[metric] for one in run if metric in one][-1] for run in runs])
        ends = ends[np.isfinite(ends) & (ends > 0)]
        if len(ends):
            several = f" ({len(runs)} seeds)" if len(runs) > 1 else ""
            labels.append((float(np.exp(np.log(ends).mean())), method + several, COLOURS[method]))
    for method, value in _published(problem, metric).items():
        labels.append(_paper_label(method, value, metric))
    return labels


def _paper_label(method: str, value: float, metric: str = "error") -> tuple[float, str, str]:
    number = words.percent(value) if metric == "error" else words.short(value)
    return value, f"paper, {method}: {number}", COLOURS[method]


def _published(problem: str, metric: str) -> dict[str, float]:
    known = {method: words.reported(problem, method) for method in METHODS}
    values = {method: getattr(paper, metric) for method, paper in known.items() if paper is not None}
    return {method: value for method, value in values.items() if value is not None}


def _paper(problem: str) -> dict[str, dict[str, float]]:
    published = {metric: _published(problem, metric) for metric in _METRICS}
    return published if any(published.values()) else {}


def _dashed(method: str) -> dict[str, Any]:
    return {
        "color": COLOURS[method],
        "linewidth": 1.0,
        "linestyle": (0, (5, 3)),
        "alpha": 0.8,
        "zorder": 1,
    }


def _draw_box(axis: Any, place: int, errors: np.ndarray, colour: str) -> None:
    axis.boxplot(
        [errors],
        positions=[place],
        widths=0.5,
        whis=(5, 95),
        showfliers=False,
        patch_artist=True,
        boxprops={"facecolor": colour, "alpha": 0.25, "edgecolor": colour},
        medianprops={"color": colour, "linewidth": 2},
        whiskerprops={"color": colour},
        capprops={"color": colour},
    )
    jitter = np.random.default_rng(0).uniform(-0.16, 0.16, len(errors))
    axis.plot(place + jitter, errors, "o", color=colour, markersize=3, alpha=0.6, markeredgewidth=0)


def _column(series: dict[str, list], key: str) -> np.ndarray:
    return _numbers(
        [_along(row, key) for runs in series.values() for run in runs for row in run if key in row]
    )


def _along(row: Mapping[str, float], key: str) -> float:
    """A number of a row; before the first step no time has passed, whatever the clock says."""
    return 0.0 if key == "seconds" and row["step"] == 0 else row[key]


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.inf if value is None else value for value in values], dtype=float)
