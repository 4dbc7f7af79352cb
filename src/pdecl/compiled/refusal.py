"""φ that are not solved for: which of a batch, and why."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..problems.checks import numbered
from ..problems.law import Law

Batch = Sequence[Any] | np.ndarray


def screen(law: Law, shape: tuple[int, ...], batch: Batch) -> tuple[dict[int, np.ndarray], list[str]]:
    """The good φ of a batch by their place in it, and for each what is wrong with it ("" if nothing)."""
    try:
        checked = law.check(np.asarray(batch)) if len(np.shape(batch[0])) == len(shape) else None
        if checked is not None and checked.shape == (len(batch), *shape):
            return dict(enumerate(checked)), [""] * len(batch)
    except ValueError:  # one of them is bad, and which one is seen below
        pass
    good, messages = {}, []
    for place, phi in enumerate(batch):
        try:
            good[place] = _checked(law, shape, phi)
            messages.append("")
        except ValueError as error:
            messages.append(str(error).replace(f" ({numbered(np.zeros(1, int))})", ""))
    return good, messages


def listed(phis: Sequence[Any], shape: tuple[int, ...]) -> tuple[np.ndarray, dict[int, str]]:
    """A list of φ as one array, with NaN in the place of those of another shape, and what these are; or
    one φ that is a list of numbers."""
    if all(_axes(phi) < len(shape) for phi in phis):
        return np.asarray(phis, float), {}
    whole, wrong = np.full((len(phis), *shape), np.nan), {}
    for place, phi in enumerate(phis):
        try:
            values = np.asarray(phi, float)
        except (TypeError, ValueError):
            wrong[place] = "it is not made of numbers"
            continue
        if values.shape == shape:
            whole[place] = values
        else:
            wrong[place] = f"it has shape {values.shape}; {shape} is needed"
    return whole, wrong


def _axes(phi: Any) -> int:
    try:
        return np.ndim(phi)
    except ValueError:  # rows of different lengths
        return 2


def _checked(law: Law, shape: tuple[int, ...], phi: Any) -> np.ndarray:
    if isinstance(phi, Exception):
        raise ValueError(str(phi))
    checked = law.check(phi)
    if checked.shape != (1, *shape):
        raise ValueError(f"{law.phi_name} has shape {np.shape(phi)}; {shape} is needed")
    return checked[0]
