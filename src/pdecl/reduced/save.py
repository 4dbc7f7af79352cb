"""Writing a compiled solver: held arrays, the network, and in the header what they are."""

import os
from collections.abc import Mapping
from typing import Any

from ..family.experiment import Experiment
from ..family.metrics import ErrorSummary
from ..family.trained import COMPILED, described
from ..state.jet import Entry
from ..support import storage
from .core import Core

OF_FRONT = "front: "  # what the names of the front's arrays begin with
# The names of a warm start's arrays.
START = {
    "guess least": "least",
    "guess mean": "mean",
    "guess directions": "directions",
    "guess centres": "centres",
    "guess": "coefficients",
}


def save(
    path: str | os.PathLike[str],
    core: Core,
    error: ErrorSummary,
    experiment: Experiment | None,
    about: Mapping[str, Any],
) -> None:
    """Writes a solver with its network; `about`: what else is known of it, for the header."""
    arrays = _arrays(core)
    recipe = {
        "kind": COMPILED,
        "arrays": {name: [list(a.shape), a.dtype.name] for name, a in arrays.items()},
        "error": error.as_dict(),
        **_described(core),
        **about,
    }
    if experiment is not None:
        recipe |= described(experiment)
    storage.save(path, {"basis": core.basis, "held": arrays}, recipe)


def _described(core: Core) -> dict[str, Any]:
    found = {
        "functions": [[unknown, size] for unknown, size in core.plan.sizes],
        "steps": core.rules.steps,
        "max_steps": core.rules.max_steps,
        "lean": core.lean,
    }
    if core.statistics.warm_start is not None:
        found["guess power"] = core.statistics.warm_start.power
    for front in core.form.fronts:
        found["front"] = _described(front)
    return found


def _arrays(core: Core) -> dict[str, Any]:
    """All held arrays under plain names."""
    around = core.statistics
    start = around.warm_start
    found = {
        "rtol": core.rules.rtol,
        "weighing": core.whitening,
        "norm": core.norm,
        "at": core.at,
        "phi mean": around.metric.mean,
        "phi directions": around.metric.directions,
        "phi deviations": around.metric.deviations,
        "phi scale": around.metric.scale,
        **({} if start is None else {name: getattr(start, field) for name, field in START.items()}),
        **core.form.arrays(),
    }
    for number, points in enumerate(core.sets):
        found |= {f"set {number} coords": points.coords, f"set {number} weights": points.weights}
        found |= {f"set {number} partner {name}": other for name, other in points.partners.items()}
        found |= {f"set {number} data {name}": other for name, other in points.data.items()}
    for number, jets in enumerate(core.jets or ()):
        found |= {jet_name(number, entry): jet for entry, jet in jets.items()}
    found |= {f"values {unknown}": values for unknown, values in (core.values or {}).items()}
    for front in core.form.fronts:
        found |= {f"{OF_FRONT}{name}": array for name, array in _arrays(front).items()}
    return {name: array for name, array in found.items() if array is not None}


def jet_name(number: int, entry: Entry) -> str:
    return f"jet {number} {entry.place} {entry.unknown} {''.join(map(str, entry.axes))}"
