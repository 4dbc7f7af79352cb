"""Heat maps: the target, and what hard and soft solutions differ from it by."""

import numpy as np

from ..family.experiment import family_of
from ..support.figures import DIFFERENCE, SOLUTION, new_figure
from . import words
from .page import Exhibit, Missing
from .pictures import View, difference_limits, images
from .runs import Run


def heat_maps(name: str, unknown: str, hard: Run | None, soft: Run | None) -> Exhibit:
    """Target, differences on one scale, and the hard one on its own."""
    shown = {
        method: fields
        for method, run in (("hard", hard), ("soft", soft))
        if run is not None and "difference" in (fields := run.fields_of(unknown))
    }
    run = hard if "hard" in shown else soft
    if run is None or not shown:
        raise Missing("Heat maps: none of these runs was evaluated; see `pdecl evaluate`.")
    target = shown["hard" if "hard" in shown else "soft"]["target"]
    # Two runs on different grids cannot share a target; the hard one is shown then.
    shown = {
        method: fields for method, fields in shown.items() if fields["target"].shape == target.shape
    }
    limits = difference_limits(*(fields["difference"] for fields in shown.values()))
    rows = [
        (f"target {unknown}", target, SOLUTION, (float(np.nanmin(target)), float(np.nanmax(target))))
    ]
    rows += [
        (f"{method} − target", fields["difference"], DIFFERENCE, limits)
        for method, fields in shown.items()
    ]
    if len(shown) == 2:
        own = difference_limits(shown["hard"]["difference"])
        rows.append(("hard − target,\nown scale", shown["hard"]["difference"], DIFFERENCE, own))
    view = view_of(run, target)
    height = 2.75 if view.square else 2.35
    figure = new_figure(2.55 * len(target) + 1.3, height * len(rows) + 0.5)
    axes = figure.subplots(len(rows), len(target), squeeze=False, sharex=True)
    figure.suptitle(family_of(run.experiment).heading, fontsize=12)
    for row, (label, values, colours, scale) in zip(axes, rows, strict=True):
        images(figure, row, values, label, colours, scale, view)
    for number, top in enumerate(axes[0]):
        top.set_title(f"test φ number {number}")
    for bottom in axes[-1]:
        bottom.set_xlabel(view.across)
    figure.align_ylabels()
    several = f"-{unknown}" if len(run.experiment.family.unknowns) > 1 else ""
    caption = f"The first {words.counted(len(target), 'test φ', 'test φ')}. "
    caption += f"Differences are on one scale, ±{words.short(limits[1])}" + (
        f"; in the last row the hard one is on its own, ±{words.short(own[1])}."
        if len(shown) == 2
        else "."
    )
    caption += f" Cut at {view.where}." if view.where else ""
    caption += " Scales end at the 99.9% quantile; pointed ends of a bar say that some nodes are beyond."
    return Exhibit(
        name=f"{name}-fields{several}",
        title="Solutions and their differences from the reference",
        figure=figure,
        data={
            "target": target,
            **{f"{method}_difference": f["difference"] for method, f in shown.items()},
        },
        caption=caption,
        alt=f"Heat maps of the reference solution for {len(target)} test parameters and of the "
        f"differences of the {' and the '.join(shown)} solution from it.",
        arrays=True,
    )


def view_of(run: Run, target: np.ndarray) -> View:
    """Of arrays on the grid that the run was evaluated on."""
    family = family_of(run.experiment)
    standard = family.coordinates(family.sample(0, 1))
    counts = zip(family.solution_dims, target.shape[1:], strict=True)
    lines = {name: np.linspace(standard[name][0], standard[name][-1], count) for name, count in counts}
    return View.of(family, lines)
