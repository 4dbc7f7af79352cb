"""Numbers over seeds: the rows of every table, from results as plain data (`results.collect`)."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import reduce
from operator import getitem
from typing import Any

import numpy as np

Result = Mapping[str, Any]
METHODS = ("hard", "soft")


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation over seeds; no deviation for a single one."""

    mean: float
    deviation: float | None

    @classmethod
    def over(cls, values: Sequence[float | None]) -> "Spread":
        array = np.asarray(values, dtype=float)
        finite = np.isfinite(array).all()
        return cls(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 and finite else None)


@dataclass(frozen=True)
class Row:
    """Runs of one experiment on one kind of device that differ in their seeds alone."""

    results: tuple[Result, ...]

    @property
    def experiment(self) -> Mapping[str, Any]:
        return self.results[0]["experiment"]

    @property
    def seeds(self) -> list[int]:
        return [result["experiment"]["seed"] for result in self.results]

    @property
    def device(self) -> str:
        return self.results[0]["environment"].get("device", "unknown device")

    @property
    def evaluated(self) -> bool:
        return all(result["evaluation"] for result in self.results)

    @property
    def error(self) -> Spread:
        return self.over_seeds("evaluation", "error", "mean")

    @property
    def largest_error(self) -> float:
        return max(_number(result["evaluation"]["error"]["max"]) for result in self.results)

    @property
    def companions(self) -> list[str]:
        """The names of other solutions that runs were measured against too."""
        return sorted(
            {name for result in self.results for name in result["evaluation"].get("beside", {})}
        )

    def beside(self, name: str) -> "Row":
        """The runs that were measured against another solution too."""
        return Row(
            tuple(result for result in self.results if name in result["evaluation"].get("beside", {}))
        )

    @property
    def last_half(self) -> tuple[float, float] | None:
        """The error on the monitored φ halfway through the first run's steps, and at their end."""
        metrics = _errors(self.results[0])
        before = [row for row in metrics if 0 < row["step"] <= metrics[-1]["step"] / 2]
        return (_number(before[-1]["error"]), _number(metrics[-1]["error"])) if before else None

    def failures(self) -> dict[str, int]:
        """How many solves over all seeds ended in a way that is not plainly solved."""
        counts: dict[str, int] = {}
        for result in self.results:
            for status, count in result["evaluation"].get("statuses", {}).items():
                if status not in ("SOLVED", "PREDICTED", "GIVEN", "OVERDETERMINED"):  # 0.1: GIVEN
                    counts[status] = counts.get(status, 0) + count
        return counts

    def over_seeds(self, *path: str) -> Spread:
        """Of a number of each result; an error that is not finite is null in JSON, and so is no time."""
        values: list[Any] = [reduce(getitem, path, result) for result in self.results]
        return Spread.over(list(map(_number, values)) if path[0] == "evaluation" else values)


def rows(results: Sequence[Result]) -> list[Row]:
    """One row for each experiment, method and device, in the order problem, preset, method."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        same = {**result["experiment"], "seed": None}
        device = result["environment"].get("device")
        groups.setdefault(json.dumps([same, device], sort_keys=True), []).append(result)
    ordered = [
        Row(tuple(sorted(group, key=lambda r: r["experiment"]["seed"]))) for group in groups.values()
    ]
    return sorted(ordered, key=_place)


def problems(results: Sequence[Result]) -> list[str]:
    """The problems there are results for."""
    return sorted({result["experiment"]["problem"] for result in results})


def presets(results: Sequence[Result]) -> list[str]:
    there = {result["experiment"]["preset"] for result in results}
    return [name for name in _PRESETS if name in there] + sorted(there - set(_PRESETS))


@dataclass(frozen=True)
class Moment:
    """When a run first had an error: steps done, seconds of training, and those without compiling."""

    step: float
    seconds: float
    stepping: float


@dataclass(frozen=True)
class Race:
    """Hard against soft: when each first reached the soft model's best error on unseen φ.

    `hard` is None if the hard model never did. Errors are those of the histories. `residual` is the soft
    model's residual on the test φ over the hard one's, None where one of them was not evaluated.
    """

    experiment: Mapping[str, Any]  # the soft one
    rival: Mapping[str, Any]  # the hard one
    best: float
    soft: Moment
    hard: Moment | None
    residual: float | None = None

    def ratios(self) -> list[float | None]:
        """How many times fewer steps, seconds, and seconds without compiling the hard model took; None
        where there is no ratio."""
        if self.hard is None:
            return [None] * 3
        pairs = zip(astuple(self.soft), astuple(self.hard), strict=True)
        return [soft / hard if hard > 0 else None for soft, hard in pairs]


def races(hard: Sequence[Result], soft: Sequence[Result]) -> list[Race]:
    """A race for each soft run, against the hard run of the same seed: one of the same kind of network
    if there is one, then the most accurate."""
    held = []
    for slow in soft:
        rival = min(hard, key=lambda fast: _unlike(fast, slow), default=None)
        metrics = _errors(slow)
        if rival is None or not metrics or not _errors(rival):
            continue
        best = min(_number(row["error"]) for row in metrics)
        if not math.isfinite(best):
            continue
        reached = _first(slow, best)
        assert reached is not None
        residual = None
        if slow["evaluation"] and rival["evaluation"]:
            of_slow, of_rival = (_number(r["evaluation"]["residual_loss"]) for r in (slow, rival))
            residual = of_slow / of_rival if of_rival > 0 else None
        pair = slow["experiment"], rival["experiment"]
        held.append(Race(*pair, best, reached, _first(rival, best), residual))
    return held


def select(results: Sequence[Result], **wanted: Any) -> list[Result]:
    """The results whose experiment has these values, by seed."""
    fitting = [
        r for r in results if all(r["experiment"][name] == value for name, value in wanted.items())
    ]
    return sorted(fitting, key=lambda r: r["experiment"]["seed"])


def _unlike(one: Result, other: Result) -> tuple[bool, bool, float]:
    """Whether seeds differ, whether kinds of networks do, and the first one's error."""
    first, second = one["experiment"], other["experiment"]
    error = min((_number(row["error"]) for row in _errors(one)), default=math.inf)
    kinds = first["network"]["kind"], second["network"]["kind"]
    return first["seed"] != second["seed"], kinds[0] != kinds[1], error


def _errors(result: Result) -> list[Mapping[str, float]]:
    return [row for row in result["history"]["metrics"] if "error" in row]


def _first(result: Result, error: float) -> Moment | None:
    compiling = result["history"]["compiling"]
    for row in _errors(result):
        if _number(row["error"]) <= error:
            # `compiling` ends with the first step, whose own time is not known.
            seconds = row["seconds"] if row["step"] else 0.0
            stepping = seconds - compiling if row["step"] > 1 else 0.0
            return Moment(row["step"], seconds, stepping)
    return None


def _number(value: float | None) -> float:
    """Plain JSON has no infinity: there it is null."""
    return math.inf if value is None else float(value)


_PRESETS = ("quick", "paper", "best")


def _place(row: Row) -> tuple:
    plain = row.experiment
    index = lambda value, known: known.index(value) if value in known else len(known)
    return (
        plain["problem"],
        index(plain["preset"], _PRESETS),
        index(plain["method"], METHODS),
        row.device,
        json.dumps(plain, sort_keys=True),
    )
