"""Pictures. Matplotlib is imported only when one is drawn (extra `plot`)."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .dataset import Dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# One even scale for parameters, one for solutions, and a diverging one for differences only; all
# three can be told apart with any kind of colour vision.
PARAMETER, SOLUTION, DIFFERENCE = "cividis", "viridis", "RdBu_r"

_SYMBOLS = {"darcy": "ν(x, y)", "burgers": "u₀(x)", "convection": "β(x)"}
_DIFFERENCES = {"u_truth": "u − pixel truth", "u_box": "box scheme − u"}


def parameters_and_solutions(dataset: Dataset, path: str | os.PathLike[str], shown: int = 4) -> None:
    """Draw the first `shown` φ, below them their solutions and what the companions differ by."""
    if shown < 1:
        raise ValueError(f"shown must be at least 1, got {shown}")
    figure = _draw(dataset, min(shown, dataset.count))
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def _draw(dataset: Dataset, columns: int) -> "Figure":
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise RuntimeError("pictures need matplotlib: pip install 'pdecl[plot]'") from error

    rows = 2 + len(dataset.companions)
    style: dict[Any, Any] = {
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.linewidth": 0.6,
        "image.origin": "lower",
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(2.55 * columns + 0.9, 2.35 * rows + 0.5), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
        figure.suptitle(_title(dataset), fontsize=12)
        _draw_parameters(figure, axes[0], dataset)
        low, high = dataset.solution[:columns].min(), dataset.solution[:columns].max()
        _draw_images(figure, axes[1], dataset, dataset.solution, "u", SOLUTION, (low, high))
        for row, (name, values) in zip(axes[2:], dataset.companions.items(), strict=True):
            sign = -1.0 if name == "u_truth" else 1.0
            difference = sign * (values - dataset.solution)[:columns]
            # A few corner pixels would drown the rest; the bar's pointed ends say that some are
            # cut.
            largest = float(np.quantile(np.abs(difference), 0.999)) or 1.0
            label = _DIFFERENCES.get(name, f"{name} − u")
            _draw_images(figure, row, dataset, difference, label, DIFFERENCE, (-largest, largest))
        for column, top in enumerate(axes[0]):
            top.set_title(f"φ number {column}")
        for bottom in axes[-1]:
            bottom.set_xlabel("x")
        figure.align_ylabels()
    return figure


def _title(dataset: Dataset) -> str:
    viscosity = dataset.law.get("viscosity", r"\nu")
    return {
        "darcy": r"Darcy:  $-\nabla\cdot(\nu\nabla u) = 1$,  $u = 0$ on the boundary",
        "burgers": rf"Burgers:  $u_t + (u^2/2)_x = {viscosity}\,u_{{xx}}$,  periodic",
        "convection": r"Convection:  $u_t + \beta(x)\,u_x = 0$",
    }[dataset.problem]


def _draw_parameters(figure: "Figure", row: "np.ndarray", dataset: Dataset) -> None:
    symbol = _SYMBOLS[dataset.problem]
    shown = dataset.phi[: len(row)]
    if dataset.phi.ndim == 3:
        limits = (shown.min(), shown.max())
        _draw_images(figure, row, dataset, shown, symbol, PARAMETER, limits)
        return
    low, high = shown.min(), shown.max()
    margin = 0.08 * (high - low) or 1.0
    for axis, phi in zip(row, shown, strict=True):
        axis.plot(dataset.coordinates["sensor"], phi, color="#00467f", linewidth=1.6)
        axis.set_ylim(low - margin, high + margin)
        axis.set_xlim(0, 1)
        axis.grid(color="0.9", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        if axis is not row[0]:
            axis.tick_params(labelleft=False)
    row[0].set_ylabel(symbol)


def _draw_images(
    figure: "Figure",
    row: "np.ndarray",
    dataset: Dataset,
    values: np.ndarray,
    label: str,
    colours: str,
    limits: tuple[float, float],
) -> None:
    # A Darcy array is indexed [x, y], the others [t, x]; x goes to the right in every picture.
    transposed = dataset.problem == "darcy"
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
    row[0].set_ylabel(dataset.solution_dims[1] if transposed else "t")
    # Fixed to the last picture, the bars of all rows have the same place and height.
    beside = row[-1].inset_axes([1.06, 0, 0.06, 1])
    ends = "both" if colours == DIFFERENCE else "neither"
    from matplotlib.ticker import ScalarFormatter

    bar = figure.colorbar(image, cax=beside, label=label, extend=ends)
    bar.formatter = ScalarFormatter()
    bar.formatter.set_powerlimits((-2, 3))
    bar.outline.set_linewidth(0.5)
