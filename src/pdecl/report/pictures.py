"""Pictures of φ and of solutions over a box."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..family import Family, stated
from ..family.dataset import Dataset
from ..support.figures import DIFFERENCE, PARAMETER, SOLUTION, drawing, frame, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class View:
    """How arrays over a box are seen as pictures: the first coordinate to the right, the second upwards,
    the others cut in their middle. With one coordinate a picture is a curve.

    - `names`, `lines`: the axes of the arrays after the first one, and their values.
    """

    names: tuple[str, ...]
    lines: tuple[np.ndarray, ...]
    across: str
    up: str | None
    square: bool = False

    @classmethod
    def of(cls, family: Family, coordinates: Mapping[str, np.ndarray]) -> "View":
        """Of solutions of a family on a grid."""
        order, dims = stated(family).domain.names, family.solution_dims
        lines = tuple(coordinates[name] for name in dims)
        return cls(dims, lines, order[0], order[1] if len(order) > 1 else None, family.on_grid)

    def cut(self, values: np.ndarray) -> np.ndarray:
        """Arrays (φ, *axes) as pictures (φ, up, across), or curves (φ, across)."""
        index = [
            slice(None) if name in (self.across, self.up) else len(line) // 2
            for name, line in zip(self.names, self.lines, strict=True)
        ]
        kept = [name for name in self.names if name in (self.across, self.up)]
        seen = values[(slice(None), *index)]
        return seen if self.up is None or kept[0] == self.up else np.swapaxes(seen, 1, 2)

    def line(self, name: str) -> np.ndarray:
        return self.lines[self.names.index(name)]

    @property
    def where(self) -> str:
        """At which values of the other coordinates the arrays are cut."""
        others = [
            f"{name} = {line[len(line) // 2]:.3g}"
            for name, line in zip(self.names, self.lines, strict=True)
            if name not in (self.across, self.up)
        ]
        return ", ".join(others)


def parameters_and_solutions(
    dataset: Dataset, path: str | os.PathLike[str], family: Family, shown: int = 4
) -> None:
    """Draw the first `shown` φ, below them their solutions and what the companions differ by."""
    if shown < 1:
        raise ValueError(f"shown must be at least 1, got {shown}")
    with drawing():
        figure = _draw(dataset, family, min(shown, dataset.count))
        save(figure, path)


def _draw(dataset: Dataset, family: Family, columns: int) -> "Figure":
    view = View.of(family, dataset.coordinates)
    numbers = {name: a for name, a in dataset.parameters.items() if a.ndim == 1}
    fields = {name: a for name, a in dataset.parameters.items() if a.ndim in (2, 3)}
    rows = len(fields) + len(dataset.solutions) + len(dataset.companions)
    figure = new_figure(2.55 * columns + 0.9, 2.35 * rows + 0.5)
    axes = figure.subplots(rows, columns, squeeze=False)
    left = iter(axes)
    figure.suptitle(family.heading, fontsize=12)
    for name, values in fields.items():
        _draw_parameters(figure, next(left), dataset, family, name, values[:columns])
    for name, values in dataset.solutions.items():
        shown = values[:columns]
        images(figure, next(left), shown, name, SOLUTION, (shown.min(), shown.max()), view)
    for name, values in dataset.companions.items():
        difference = (values - dataset.solution)[:columns]
        label = f"{family.companion_words.get(name, name).removeprefix('the ')} − u"
        images(figure, next(left), difference, label, DIFFERENCE, difference_limits(difference), view)
    for column, top in enumerate(axes[0]):
        said = ", ".join(f"{name} = {values[column]:.3g}" for name, values in numbers.items())
        top.set_title(f"φ number {column}" + (f"\n{said}" if said else ""))
    for bottom in axes[-1]:
        bottom.set_xlabel(view.across + (f"   ({view.where})" if view.where else ""))
    figure.align_ylabels()
    return figure


def difference_limits(*differences: np.ndarray) -> tuple[float, float]:
    """Limits for a scale of differences, the same on both sides.

    A few corner pixels would drown the rest; the bar's pointed ends say that some are cut.
    """
    sizes = np.concatenate([np.abs(difference).ravel() for difference in differences])
    largest = float(np.quantile(sizes[np.isfinite(sizes)], 0.999)) if np.isfinite(sizes).any() else 0.0
    return -(largest or 1.0), largest or 1.0


def _draw_parameters(
    figure: "Figure", row: "np.ndarray", dataset: Dataset, family: Family, name: str, shown: np.ndarray
) -> None:
    label = family.symbol if family.symbol and len(dataset.phi_axes) == 1 else name
    dims = dataset.phi_axes[name]
    low, high = shown.min(), shown.max()
    if shown.ndim == 3:
        lines = tuple(dataset.coordinates[axis] for axis in dims)
        view = View(dims, lines, dims[0], dims[1], family.on_grid)
        images(figure, row, shown, label, PARAMETER, (low, high), view)
        return
    margin = 0.08 * (high - low) or 1.0
    places = dataset.coordinates[dims[0]]
    view = View(dims, (places,), dims[0], None)
    _curves(row, shown, label, (low - margin, high + margin), view)


def images(
    figure: "Figure",
    row: "np.ndarray",
    values: np.ndarray,
    label: str,
    colours: str,
    limits: tuple[float, float],
    view: View,
) -> None:
    """A row of arrays as pictures on one scale, with a colour bar at its end; curves over one
    coordinate."""
    seen = view.cut(np.asarray(values))
    if view.up is None:
        margin = 0.06 * (limits[1] - limits[0]) or 1.0
        _curves(row, seen, label, (limits[0] - margin, limits[1] + margin), view)
        return
    across, up = view.line(view.across), view.line(view.up)
    image: Any = None
    axis: Axes
    for axis, one in zip(row, seen, strict=False):
        image = axis.imshow(
            one,
            extent=(across[0], across[-1], up[0], up[-1]),
            aspect="equal" if view.square else "auto",
            cmap=colours,
            vmin=limits[0],
            vmax=limits[1],
            interpolation="nearest",
        )
        for set_ticks, line in ((axis.set_xticks, across), (axis.set_yticks, up)):
            ticks = [float(line[0]), float(line[0] + line[-1]) / 2, float(line[-1])]
            set_ticks(ticks, [f"{tick:.3g}" for tick in ticks])
        if axis is not row[0]:
            axis.tick_params(labelleft=False)
    row[0].set_ylabel(view.up)
    # Fixed to the last picture, the bars of all rows have the same place and height.
    beside = row[-1].inset_axes([1.06, 0, 0.06, 1])
    ends = "both" if colours == DIFFERENCE else "neither"
    from matplotlib.ticker import ScalarFormatter

    bar = figure.colorbar(image, cax=beside, label=label, extend=ends)
    bar.formatter = ScalarFormatter()
    bar.formatter.set_powerlimits((-2, 3))
    bar.outline.set_linewidth(0.5)


def _curves(
    row: "np.ndarray", values: np.ndarray, label: str, limits: tuple[float, float], view: View
) -> None:
    """A row of curves over the view's only coordinate, on one scale."""
    places = view.line(view.across)
    for axis, one in zip(row, values, strict=False):
        axis.plot(places, one, color="#00467f", linewidth=1.6)
        axis.set_ylim(*limits)
        axis.set_xlim(places[0], places[-1])
        frame(axis)
        if axis is not row[0]:
            axis.tick_params(labelleft=False)
    row[0].set_ylabel(label)
