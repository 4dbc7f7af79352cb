"""Pictures. Matplotlib is imported only when one is drawn (extra `plot`)."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .dataset import Dataset
from .files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .history import History

# One even scale for parameters, one for solutions, and a diverging one for differences only; all
# three can be told apart with any kind of colour vision.
PARAMETER, SOLUTION, DIFFERENCE = "cividis", "viridis", "RdBu_r"
# Lines: blue and vermilion of Okabe and Ito, and a dark grey.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#444444"

_SYMBOLS = {"darcy": "ν(x, y)", "burgers": "u₀(x)", "convection": "β(x)"}
_DIFFERENCES = {"u_truth": "u − pixel truth", "u_box": "box scheme − u"}


def parameters_and_solutions(dataset: Dataset, path: str | os.PathLike[str], shown: int = 4) -> None:
    """Draw the first `shown` φ, below them their solutions and what the companions differ by."""
    if shown < 1:
        raise ValueError(f"shown must be at least 1, got {shown}")
    with drawing():
        figure = _draw(dataset, min(shown, dataset.count))
        save(figure, path)


def training_curves(history: "History", path: str | os.PathLike[str]) -> None:
    """Draw the loss and each watched metric against steps and against seconds of training."""
    if not history.loss:
        raise ValueError("this history holds no steps; there is nothing to draw.")
    names = sorted({name for row in history.watched for name in row} - {"step", "seconds"})
    steps, seconds = np.arange(1, len(history.loss) + 1), np.asarray(history.seconds)
    curves = [("loss", steps, seconds, np.asarray(history.loss))]
    for name in names:
        at, after, values = history.metric(name)
        # Before the first step no time has passed, whatever the clock says.
        curves.append((f"{name} on unseen φ", at, np.where(at == 0, 0.0, after), values))
    with drawing():
        figure = new_figure(8.4, 2.5 * len(curves) + 0.4)
        axes = figure.subplots(len(curves), 2, squeeze=False, sharex="col", sharey="row")
        for row, (name, at_step, at_second, values) in zip(axes, curves, strict=True):
            for axis, places, every in zip(row, (at_step, at_second), (steps, seconds), strict=True):
                marker = "" if name == "loss" else "o"
                curve(axis, places, values, place_of_zero(every), BLUE, marker)
                frame(axis)
            if (values[np.isfinite(values)] > 0).all():
                log_scale(row[0].yaxis, values, percent=name.startswith("error"))
            row[0].set_ylabel(name)
        for axis, places, label in zip(
            axes[-1], (steps, seconds), ("optimiser steps", "seconds of training"), strict=True
        ):
            log_scale(axis.xaxis, np.concatenate([[0.0] if names else [], places]))
            axis.set_xlabel(label)
        figure.align_ylabels()
        save(figure, path)


@contextmanager
def drawing() -> Iterator[None]:
    """Sets the style of our pictures; says what to install where Matplotlib is missing."""
    try:
        import matplotlib
    except ImportError as error:
        raise RuntimeError("pictures need matplotlib: pip install matplotlib") from error
    style: dict[Any, Any] = {
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.linewidth": 0.6,
        "image.origin": "lower",
    }
    with matplotlib.rc_context(style):
        yield


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure, sizes in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", path: str | os.PathLike[str], dpi: int = 160) -> None:
    """Writes a figure as a PNG, in one step."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=dpi, format="png")


def frame(axis: "Axes") -> None:
    """A light grid, and no lines at the top and to the right."""
    axis.grid(color="0.9", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def curve(
    axis: "Axes", x: Any, y: Any, zero: float, colour: str, marker: str = "o", **style: Any
) -> None:
    """A line for a logarithmic axis of x. What happened at x = 0 stands apart at the axis's left end,
    at `zero`, hollow, and a dotted line leads on from there."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    usable = np.isfinite(y)
    x, y = x[usable], y[usable]
    style = {"color": colour, "linewidth": 1.6, "markersize": 4, **style}
    later = x > 0
    axis.plot(x[later], y[later], marker=marker, **style)
    if (~later).any() and later.any():
        first = [zero, x[later][0]], [y[~later][-1], y[later][0]]
        axis.plot(*first, **{**style, "linestyle": ":"})
        axis.plot(first[0][:1], first[1][:1], marker=marker or "o", fillstyle="none", **style)


def place_of_zero(values: Any) -> float:
    """Where a logarithmic axis shows zero: some way below the smallest positive value."""
    positive = _positive(values)
    if not positive.size:
        return 0.1
    low, high = positive.min(), positive.max()
    return float(low / max(1.6, (high / low) ** 0.12))


def log_scale(axis: Any, values: Any, percent: bool = False) -> None:
    """Makes an axis (`axes.xaxis`, `axes.yaxis`) logarithmic, just as long as the values ask for, with
    ticks in plain numbers.

    A zero among the values gets a tick of its own, where `curve` draws it.
    """
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    positive = _positive(values)
    if not positive.size:
        return
    low, high = float(positive.min()), float(positive.max())
    margin = max(1.12, (high / low) ** 0.06)
    ticks = _log_ticks(low / margin, high * margin)
    labels = [_plain(100 * tick) + "%" if percent else _plain(tick) for tick in ticks]
    decades = np.arange(np.floor(np.log10(low)) - 1, np.ceil(np.log10(high)) + 1)
    minor = np.outer(10.0**decades, np.arange(2, 10)).ravel()
    inside = [tick for tick in minor if len(decades) < 8 and low / margin < tick < high * margin]
    limits = [low / margin, high * margin]
    if (np.asarray(values) == 0).any():
        zero = place_of_zero(values)
        ticks, labels, limits[0] = [zero, *ticks], ["0", *labels], zero / margin
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    axis.set_ticks(ticks, labels)
    axis.set_minor_locator(FixedLocator(inside) if inside else NullLocator())
    axis.set_minor_formatter(NullFormatter())
    (axis.axes.set_xlim if axis.axis_name == "x" else axis.axes.set_ylim)(*limits)


def _positive(values: Any) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    return values[np.isfinite(values) & (values > 0)]


def label_right(axis: "Axes", labels: Sequence[tuple[float, str, str]]) -> None:
    """Writes (value, text, colour) to the right of an axis at their values, moved apart where needed."""
    labels = sorted(label for label in labels if np.isfinite(label[0]))
    if not labels:
        return
    to_axes = axis.transData + axis.transAxes.inverted()
    x = axis.get_xlim()[1]
    heights = np.array([to_axes.transform((x, value))[1] for value, _, _ in labels])
    gap = 15 * axis.figure.dpi / 72 / axis.get_window_extent().height  # 15 points
    for _ in range(100):
        for low in range(len(heights) - 1):
            short = gap - (heights[low + 1] - heights[low])
            if short > 1e-6:
                heights[low] -= short / 2
                heights[low + 1] += short / 2
    for height, (_, text, colour) in zip(heights, labels, strict=True):
        axis.text(1.02, height, text, color=colour, transform=axis.transAxes, va="center", fontsize=9)


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten in a range; finer ones where it holds fewer than two."""
    from matplotlib.ticker import MaxNLocator

    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    for steps in ([1], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 7]):
        ticks = np.sort(np.outer(decades, steps).ravel())
        inside = ticks[(ticks >= low) & (ticks <= high)]
        if len(inside) >= 2:
            return inside[:: -(-len(inside) // 8)].tolist()
    ticks = np.asarray(MaxNLocator(4).tick_values(low, high))
    return ticks[(ticks >= low) & (ticks <= high)].tolist()


def _plain(value: float) -> str:
    if 1e-3 <= value < 1e6 or value == 0:
        return f"{value:,.10g}".replace(",", " ")
    exponent = int(np.floor(np.log10(value) + 1e-9))
    digits = f"{value / 10.0**exponent:.3g}"
    power = rf"10^{{{exponent}}}"
    return f"${power}$" if digits == "1" else rf"${digits}\cdot{power}$"


def _draw(dataset: Dataset, columns: int) -> "Figure":
    rows = 2 + len(dataset.companions)
    transposed = dataset.problem == "darcy"
    figure = new_figure(2.55 * columns + 0.9, 2.35 * rows + 0.5)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
    figure.suptitle(title(dataset.problem, dataset.law), fontsize=12)
    _draw_parameters(figure, axes[0], dataset)
    low, high = dataset.solution[:columns].min(), dataset.solution[:columns].max()
    images(figure, axes[1], dataset.solution, "u", SOLUTION, (low, high), transposed)
    for row, (name, values) in zip(axes[2:], dataset.companions.items(), strict=True):
        sign = -1.0 if name == "u_truth" else 1.0
        difference = sign * (values - dataset.solution)[:columns]
        limits = difference_limits(difference)
        label = _DIFFERENCES.get(name, f"{name} − u")
        images(figure, row, difference, label, DIFFERENCE, limits, transposed)
    for column, top in enumerate(axes[0]):
        top.set_title(f"φ number {column}")
    for bottom in axes[-1]:
        bottom.set_xlabel("x")
    figure.align_ylabels()
    return figure


def title(problem: str, law: Any) -> str:
    """A problem's name and equation."""
    viscosity = law.get("viscosity", r"\nu")
    return {
        "darcy": r"Darcy:  $-\nabla\cdot(\nu\nabla u) = 1$,  $u = 0$ on the boundary",
        "burgers": rf"Burgers:  $u_t + (u^2/2)_x = {viscosity}\,u_{{xx}}$,  periodic",
        "convection": r"Convection:  $u_t + \beta(x)\,u_x = 0$",
    }[problem]


def difference_limits(*differences: np.ndarray) -> tuple[float, float]:
    """Limits for a scale of differences, the same on both sides.

    A few corner pixels would drown the rest; the bar's pointed ends say that some are cut.
    """
    sizes = np.concatenate([np.abs(difference).ravel() for difference in differences])
    largest = float(np.quantile(sizes[np.isfinite(sizes)], 0.999)) if np.isfinite(sizes).any() else 0.0
    return -(largest or 1.0), largest or 1.0


def _draw_parameters(figure: "Figure", row: "np.ndarray", dataset: Dataset) -> None:
    symbol = _SYMBOLS[dataset.problem]
    shown = dataset.phi[: len(row)]
    if dataset.phi.ndim == 3:
        images(figure, row, shown, symbol, PARAMETER, (shown.min(), shown.max()), True)
        return
    low, high = shown.min(), shown.max()
    margin = 0.08 * (high - low) or 1.0
    for axis, phi in zip(row, shown, strict=True):
        axis.plot(dataset.coordinates["sensor"], phi, color="#00467f", linewidth=1.6)
        axis.set_ylim(low - margin, high + margin)
        axis.set_xlim(0, 1)
        frame(axis)
        if axis is not row[0]:
            axis.tick_params(labelleft=False)
    row[0].set_ylabel(symbol)


def images(
    figure: "Figure",
    row: "np.ndarray",
    values: np.ndarray,
    label: str,
    colours: str,
    limits: tuple[float, float],
    transposed: bool,
) -> None:
    """A row of arrays as pictures on one scale, with a colour bar at its end.

    A Darcy array is indexed [x, y] (`transposed`), the others [t, x]; x goes to the right always.
    """
    image: Any = None
    axis: Axes
    for axis, one in zip(row, values, strict=False):
        image = axis.imshow(
            one.T if transposed else one,
            extent=(0, 1, 0, 1),
            aspect="equal" if transposed else "auto",
            cmap=colours,
            vmin=limits[0],
            vmax=limits[1],
            interpolation="nearest",
        )
        axis.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        axis.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
        if axis is not row[0]:
            axis.tick_params(labelleft=False)
    row[0].set_ylabel("y" if transposed else "t")
    # Fixed to the last picture, the bars of all rows have the same place and height.
    beside = row[-1].inset_axes([1.06, 0, 0.06, 1])
    ends = "both" if colours == DIFFERENCE else "neither"
    from matplotlib.ticker import ScalarFormatter

    bar = figure.colorbar(image, cax=beside, label=label, extend=ends)
    bar.formatter = ScalarFormatter()
    bar.formatter.set_powerlimits((-2, 3))
    bar.outline.set_linewidth(0.5)
