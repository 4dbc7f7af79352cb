"""Pictures. Matplotlib is imported only when one is drawn."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# One even scale for parameters, one for solutions, and a diverging one for differences only; all
# three can be told apart with any kind of colour vision.
PARAMETER, SOLUTION, DIFFERENCE = "cividis", "viridis", "RdBu_r"
# Lines: blue and vermilion of Okabe and Ito, and a dark grey.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#444444"


@contextmanager
def drawing() -> Iterator[None]:
    """Sets the style of our pictures."""
    import matplotlib

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
