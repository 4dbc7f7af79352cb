"""Experiments by name: what a family suggests for a method."""

from ..train.loss import METHODS
from . import Family
from .experiment import Experiment
from .registry import resolve


def preset(
    problem: str | Family, method: str = "hard", name: str | None = None, seed: int = 0
) -> Experiment:
    """The experiment of a family (or a word for one), a method and a preset's name, the family's first
    one if it is left out."""
    family = problem if isinstance(problem, Family) else resolve(problem)
    name = family.presets[0] if name is None else name
    for what, value, known in [("method", method, METHODS), ("preset", name, family.presets)]:
        if value not in known:
            raise ValueError(f"there is no {what} {value!r}; choose one of {', '.join(known)}.")
    chosen = family.preset(method, name)
    return Experiment(
        family, method, name, chosen.network, chosen.training,
        statement=chosen.statement, loss_statement=chosen.loss_statement, grid=chosen.grid, seed=seed,
    )  # fmt: skip
