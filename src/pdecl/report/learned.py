"""Figures of the studies of trained hard models: points used and not used, interpolation, trade-off."""

from typing import Any

import numpy as np

from ..support.figures import BLUE, VERMILION, frame, label_right, log_scale, new_figure
from . import words
from .page import Exhibit

_AT_ONCE = (("used", "used by the layer", BLUE), ("unused", "not used", VERMILION))


def used_histogram(name: str, study: dict[str, Any]) -> Exhibit:
    """Histograms of pointwise errors and residuals at nodes used by the layer and at the others."""
    counts = {which: len(study[which]["error"]) // study["phis"] for which, _, _ in _AT_ONCE}
    figure = new_figure(9.2, 3.5)
    axes = figure.subplots(1, 2, sharey=True)
    data: dict[str, Any] = {"nodes_a_side": study["nodes"], "phis": study["phis"], "counts": counts}
    for axis, metric, label in zip(
        axes, ("error", "residual"), ("|u − exact u| at a node", "|PDE residual| at a node"), strict=True
    ):
        data[metric] = _draw_histogram(axis, study, metric)
        axis.set_xlabel(label)
    axes[0].set_ylabel("share of the nodes in a bin")
    for place, (which, label, colour) in enumerate(_AT_ONCE):
        medians = [data[metric][which]["median"] for metric in ("error", "residual")]
        for axis, median in zip(axes, medians, strict=True):
            text = f"{label} ({counts[which]})\nmedian {words.short(median)}"
            axis.text(
                0.02,
                0.97 - 0.17 * place,
                text,
                color=colour,
                transform=axis.transAxes,
                va="top",
                fontsize=9,
            )
    side, faces = study["nodes"], " and ".join(map(str, study["on_faces"]))
    return Exhibit(
        name=f"{name}-points",
        title="Points used by the layer and points not used",
        figure=figure,
        data=data,
        caption=f"The layer was fitted on {counts['used']} random nodes of a {side}×{side} grid (and on "
        f"{faces} points of the faces); errors there and at the other "
        f"{counts['unused']} nodes, for {study['phis']} test φ. Dashed: medians. Values below the 0.1% "
        "quantile are counted in the first bin.",
        alt="Histograms of pointwise error and residual at nodes that were used by the layer and at "
        "others. Medians: "
        + ", ".join(
            f"{metric} {words.short(data[metric]['used']['median'])} used, "
            f"{words.short(data[metric]['unused']['median'])} not used"
            for metric in ("error", "residual")
        ),
    )


def _draw_histogram(axis: Any, study: dict[str, Any], metric: str) -> dict[str, Any]:
    everything = np.concatenate([study[which][metric] for which, _, _ in _AT_ONCE])
    everything = everything[np.isfinite(everything)]
    low = max(float(np.quantile(everything, 0.001)), 1e-16)
    edges = np.geomspace(low, max(float(everything.max()), 2 * low), 41)
    drawn: dict[str, Any] = {"edges": edges}
    for which, _, colour in _AT_ONCE:
        values = study[which][metric]
        shares = np.histogram(np.maximum(values, low), edges)[0] / len(values)
        axis.stairs(shares, edges, color=colour, fill=True, alpha=0.18)
        axis.stairs(shares, edges, color=colour, linewidth=1.6)
        median = float(np.median(values))
        axis.axvline(median, color=colour, linewidth=1, linestyle=(0, (4, 3)))
        drawn[which] = {"shares": shares, "median": median, "largest": float(values.max())}
    frame(axis)
    log_scale(axis.xaxis, edges)
    axis.margins(y=0.3)
    axis.set_ylim(bottom=0)
    return drawn


def interpolation_chart(name: str, study: dict[str, Any]) -> Exhibit:
    """Errors of the basis and of the interpolant on each grid, a dot for each φ, the mean in figures."""
    kinds = (
        ("basis", "the basis, queried", BLUE, "o"),
        ("cubic", "cubic interpolation", VERMILION, "D"),
    )
    grids = study["grids"]
    figure = new_figure(7.6, 0.75 * 2 * len(grids) + 1.1)
    axis = figure.subplots()
    everything, ticks = [], []
    for row, grid in enumerate(grids):
        for offset, (kind, label, colour, marker) in zip((-0.2, 0.2), kinds, strict=True):
            errors, y = np.asarray(grid[kind]), row + offset
            axis.plot(
                errors,
                np.full(len(errors), y),
                marker,
                color=colour,
                alpha=0.35,
                markersize=6,
                markeredgewidth=0,
            )
            axis.plot([errors.mean()], [y], marker, color=colour, markersize=9)
            text = f"{label}: {words.percent(float(errors.mean()))}"
            below: dict[str, Any] = {
                "xytext": (0, -9),
                "textcoords": "offset points",
                "ha": "center",
                "va": "top",
            }
            axis.annotate(text, (errors.mean(), y), color=colour, fontsize=9, **below)
            everything.append(errors)
        ticks.append(f"{grid['side']}×{grid['side']}\ngrid")
    frame(axis)
    axis.grid(axis="y", visible=False)
    axis.set_yticks(range(len(grids)), ticks)
    axis.set_ylim(len(grids) - 0.35, -0.5)
    log_scale(axis.xaxis, np.concatenate(everything), percent=True)
    low, high = np.concatenate(everything).min(), np.concatenate(everything).max()
    axis.set_xlim(low / (high / low) ** 0.2 / 1.3, high * (high / low) ** 0.2 * 1.3)
    axis.set_xlabel("relative L2 error against the exact solution")
    inside = ", ".join(f"{100 * grid['inside']:.1f}%" for grid in grids)
    everywhere = ", ".join(words.percent(float(np.mean(grid["basis_everywhere"]))) for grid in grids)
    return Exhibit(
        name=f"{name}-interpolation",
        title="The learned basis against cubic interpolation of the collocation points",
        figure=figure,
        data=study,
        caption=f"The layer is fitted on {study['fitted']} points. Its solution is queried on finer "
        "grids, or its values at the collocation points are interpolated there (piecewise cubic, C¹, "
        f"Clough–Tocher, SciPy). Measured at the nodes inside the points' convex hull ({inside} of the "
        f"grid); the basis at all nodes: {everywhere}. Faint: each of {study['phis']} test φ; strong: "
        "their mean.",
        alt="Relative errors: "
        + "; ".join(
            f"{grid['side']} by {grid['side']}: basis {words.percent(float(np.mean(grid['basis'])))}, "
            f"cubic interpolation {words.percent(float(np.mean(grid['cubic'])))}"
            for grid in grids
        ),
    )


def trade_off_chart(name: str, study: dict[str, Any]) -> Exhibit:
    """Error against time, a line for each number of points per function, dots labelled with N."""
    rows = study["rows"]
    on_grids = rows[0]["grid"] is not None
    keys = sorted({row["grid"] if on_grids else row["ratio"] for row in rows})
    shades = ["#0072B2", "#E69F00", "#007A5A", "#CC79A7"]
    figure = new_figure(8.4, 4.3)
    axis = figure.subplots()
    frame(axis)
    usable = [row for row in rows if np.isfinite(row["error"])]
    labels = []
    for key, colour, marker in zip(keys, shades, "os^D", strict=False):
        line = [row for row in usable if (row["grid"] if on_grids else row["ratio"]) == key]
        if not line:
            continue
        x, y = [1000 * row["seconds"] for row in line], [row["error"] for row in line]
        axis.plot(x, y, marker=marker, color=colour, linewidth=1.4, markersize=6)
        for row, place, height in zip(line, x, y, strict=True):
            axis.annotate(
                str(row["N"]),
                (place, height),
                (5, 4),
                textcoords="offset points",
                fontsize=8,
                color=colour,
            )
        labels.append(
            (
                y[-1],
                f"{key}×{key} grid" if on_grids else ("n ≈ N" if key == 1 else f"n ≈ {key} N"),
                colour,
            )
        )
    log_scale(axis.xaxis, [1000 * row["seconds"] for row in usable])
    log_scale(axis.yaxis, [row["error"] for row in usable], percent=True)
    axis.set_xlabel("milliseconds per φ to find the weights ω (warm, median)")
    axis.set_ylabel("mean relative L2 error")
    figure.draw_without_rendering()
    label_right(axis, labels)
    points = (
        "n: nodes of the grid it is solved on."
        if on_grids
        else "n: points inside, and 4√N more on each face."
    )
    return Exhibit(
        name=f"{name}-trade-off",
        title="Speed and accuracy over the number of functions and of points",
        figure=figure,
        data=study,
        caption="Numbers at the dots are N, the functions that are kept: the first modes of the "
        f"solutions for {study['snapshots']} training φ in the learned span; the largest N is the whole "
        f"trained basis. {points} Mean over {study['phis']} test φ, solved {study['together']} at a "
        "time; the time is that of the solve, without values on a grid.",
        alt="Scatter of error against time per parameter: "
        + ", ".join(
            f"N {row['N']}, n {row['n']}: {words.percent(row['error'])} in "
            f"{words.short(1000 * row['seconds'])} ms"
            for row in rows
        ),
    )
