"""What a training run did: losses, times, and metrics on unseen φ. Saved, reloaded, plotted."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..support.figures import BLUE, curve, drawing, frame, log_scale, new_figure, place_of_zero, save
from ..support.files import write_text
from ..support.summary import Summarised, Summary


@dataclass(repr=False)
class History(Summarised):
    """The loss at every step, and metrics at some.

    - `loss`, `seconds`: after each step; seconds of training since the start, without the time that
      the metrics took.
    - `metrics`: a row for each time that metrics were taken, with `step` (steps done), `seconds` and
      the metrics by name.
    - `compiling`: seconds until the first step was done, most of them the compiler's.
    """

    loss: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    metrics: list[dict[str, float]] = field(default_factory=list)
    compiling: float = 0.0

    @property
    def steps_per_second(self) -> float:
        """After the first step."""
        if len(self.loss) < 2:
            return float("nan")
        return (len(self.loss) - 1) / max(self.seconds[-1] - self.compiling, 1e-9)

    def summary(self) -> Summary:
        rows: list[tuple[str, Any]] = []
        if self.loss:
            rows.append(("loss", f"{self.loss[0]:.4g} at first, {self.loss[-1]:.4g} at last"))
            rows.append(("seconds", f"{self.seconds[-1]:.1f}, {self.compiling:.1f} of them compiling"))
        if len(self.loss) > 1:
            rows.append(("speed", f"{self.steps_per_second:.3g} steps a second"))
        for name in sorted({key for row in self.metrics for key in row} - {"step", "seconds"}):
            steps, _, values = self.metric(name)
            least = int(np.argmin(values))
            best = f"least {values[least]:.4g} at step {steps[least]:.0f}"
            rows.append((name, f"{values[-1]:.4g} at last, {best}"))
        return Summary(f"History of {len(self.loss):,} steps", rows)

    def metric(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Steps, seconds and values of a metric."""
        rows = [row for row in self.metrics if name in row]
        if not rows:
            known = sorted({key for row in self.metrics for key in row} - {"step", "seconds"})
            raise ValueError(f"no metric {name!r} was taken; there are: {', '.join(known) or 'none'}.")
        columns = [[row[key] for row in rows] for key in ("step", "seconds", name)]
        return np.asarray(columns[0]), np.asarray(columns[1]), np.asarray(columns[2])

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "History":
        """What `as_dict` gave."""
        return cls(**with_metrics(plain))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes JSON."""
        write_text(path, json.dumps(self.as_dict()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "History":
        """Reads what `save` wrote."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text("utf-8")))
        except (json.JSONDecodeError, UnicodeDecodeError, TypeError) as error:
            raise ValueError(f"{path} is not a training history, or was cut short: {error}") from error

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draws the loss and the metrics against steps and against time."""
        training_curves(self, path)


def with_metrics(plain: dict[str, Any]) -> dict[str, Any]:
    """A history as data, also that of version 0.1, which called its metrics "watched"."""
    return {"metrics" if name == "watched" else name: value for name, value in plain.items()}


def metric_steps(steps: int, times: int) -> set[int]:
    """About `times` numbers of steps from 0 to `steps`, evenly spaced in the logarithm."""
    if times < 1:
        return set()
    return {0, steps, *np.unique(np.rint(np.geomspace(1, max(steps, 1), times)).astype(int)).tolist()}


def training_curves(history: History, path: str | os.PathLike[str]) -> None:
    """Draw the loss and each metric against steps and against seconds of training."""
    if not history.loss:
        raise ValueError("this history holds no steps; there is nothing to draw.")
    names = sorted({name for row in history.metrics for name in row} - {"step", "seconds"})
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
