"""How numbers and settings are written in tables and captions."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..family import Family, Reported, named, names
from .summary import Moment, Race, Result, Spread


def installed(problem: str) -> Family | None:
    """The family of a name, if it is installed; results know their problem by name alone."""
    return named(problem) if problem in names() else None


def reported(problem: str, method: str) -> Reported | None:
    """What the method's paper reports of a problem, if anything: Négiar, Mahoney, Krishnapriyan,
    *Learning differentiable solvers for systems with hard constraints*, ICLR 2023; 1000 training φ, 50
    unseen ones."""
    family = installed(problem)
    return None if family is None else family.reported.get(method)


def title(problem: str) -> str:
    """What a problem is called in titles."""
    family = installed(problem)
    return problem if family is None else family.title


def companion(problem: str, name: str) -> str:
    """What another solution beside the reference is called."""
    family = installed(problem)
    return name if family is None else family.companion_words.get(name, name)


def short(value: float | None, digits: int = 3) -> str:
    """This many digits, without exponents where they can be avoided."""
    if value is None or not math.isfinite(value):
        return "∞" if value == math.inf else "–"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def percent(value: float | None, digits: int = 3) -> str:
    return short(None if value is None else 100 * value, digits) + "%"


def spread(value: Spread, write: Callable[..., str] = short) -> str:
    """Mean, and deviation over seeds (two digits) if there are several."""
    if value.deviation is None:
        return write(value.mean)
    return f"{write(value.mean)} ± {write(value.deviation, digits=2)}"


def steps(value: Spread) -> str:
    """Steps done, and their deviation where time ended the training of some seeds."""
    return f"{value.mean:.0f}" + (f" ± {value.deviation:.0f}" if value.deviation else "")


def network(experiment: Mapping[str, Any]) -> str:
    """Kind and size: "MLP 3×96"; how many of the functions crease, and if they are products."""
    plan = experiment["network"]
    creased, degree = plan.get("creased", 0), plan["options"].get("degree", 0)
    parts = [f"{plan['kind']} {plan['depth']}×{plan['width']}"]
    parts += [f"{creased:.0%} creased"] if creased else []
    parts += [f"times polynomials to degree {degree}"] if degree else []
    return ", ".join(parts)


def points(result: Result) -> str:
    """What the layer is solved on: "200 equation, 40 initial", or the nodes of a grid."""
    grid = result["experiment"].get("grid")
    if grid:
        return f"{grid}×{grid} grid"
    counts = result.get("points", {}).items()
    return " + ".join(f"{count} {name}" for name, count in counts) + " points" if counts else "–"


RACE = [
    "soft network", "hard network", "seed", "soft model's best error", "soft: steps", "soft: s",
    "hard: steps", "hard: s", "fewer steps", "less time", "without compiling", "residual, soft / hard",
]  # fmt: skip


def race(one: Race) -> list[str]:
    """Cells for the columns `RACE`."""
    cells = [network(one.experiment), network(one.rival)]
    cells += [str(one.experiment["seed"]), percent(one.best)]
    cells += [f"{one.soft.step:g}", short(one.soft.seconds)]
    cells += ["never"] * 2 if one.hard is None else _moment(one.hard)
    none = "–" if one.hard is None else "at the start"
    cells += [f"{short(ratio)}×" if ratio else none for ratio in one.ratios()]
    return [*cells, short(one.residual)]


def about(results: Sequence[Result]) -> str:
    """What was run: preset, method, network, N, steps, seeds, device. Of the first if they differ."""
    first = results[0]
    plan = first["experiment"]
    seeds = sorted({result["experiment"]["seed"] for result in results})
    device = first["environment"].get("device", "unknown device")
    parts = [
        f"{plan['method']}: preset {plan['preset']}",
        network(plan),
        f"N = {plan['network']['size']}",
    ]
    parts += [points(first), f"{first['history']['steps']} steps", device]
    return ", ".join(parts) + f", seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _moment(moment: Moment) -> list[str]:
    return ["0 (untrained)" if moment.step == 0 else f"{moment.step:g}", short(moment.seconds)]
