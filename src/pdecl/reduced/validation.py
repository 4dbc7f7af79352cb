"""φ that are not solved for: which of a batch, and why."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..family import Family
from ..family import phi as phis
from ..family.checks import numbered

# Single φ, whatever they are; or a batch of them, built as one φ is.
Batch = Sequence[Any] | np.ndarray | Mapping[str, Any]


def count_of(batch: Batch) -> int:
    """How many φ a batch holds."""
    return phis.count(batch) if isinstance(batch, Mapping) else len(batch)


def validate(family: Family, shape: Any, batch: Batch) -> tuple[dict[int, Any], list[str]]:
    """The good φ of a batch by their place in it, and for each what is wrong with it ("" if nothing).

    `shape` is that of one φ, as `phi.shape_of` has it."""
    count, whole = count_of(batch), checked_whole(family, shape, batch)
    if whole is not None:
        return {place: phis.take(whole, place) for place in range(count)}, [""] * count
    good, messages = {}, []
    for place in range(count):
        try:
            one = phis.take(batch, place) if isinstance(batch, Mapping) else batch[place]
            good[place] = _checked(family, shape, one)
            messages.append("")
        except ValueError as error:
            messages.append(str(error).replace(f" ({numbered(np.zeros(1, int))})", ""))
    return good, messages


def messages_of(family: Family, shape: Any, batch: Batch) -> list[str]:
    """The messages of `validate` alone, which takes a batch that is good apart, φ by φ."""
    good = checked_whole(family, shape, batch) is not None
    return [""] * count_of(batch) if good else validate(family, shape, batch)[1]


def checked_whole(family: Family, shape: Any, batch: Batch) -> Any:
    """A batch of φ that are all good, as the family has them; None if one of them is bad."""
    try:
        checked = family.check(_together(batch, shape))
    except (TypeError, ValueError):
        return None
    good = phis.count(checked) == count_of(batch) and phis.shape_of(phis.take(checked, 0)) == shape
    return checked if good else None


def _together(batch: Batch, shape: Any) -> Any:
    if isinstance(batch, Mapping) or (isinstance(batch, np.ndarray) and batch.ndim == 1 + len(shape)):
        return batch
    if isinstance(shape, tuple) and len(np.shape(batch[0])) != len(shape):
        raise ValueError("one of them has other axes")
    return np.asarray(batch) if isinstance(shape, tuple) else phis.stack(list(batch))


def listed(phis: Sequence[Any], shape: tuple[int, ...]) -> tuple[np.ndarray, dict[int, str]]:
    """A list of φ as one array, with NaN instead of those of another shape, and what these are; or
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


def _checked(family: Family, shape: Any, phi: Any) -> Any:
    if isinstance(phi, Exception):
        raise ValueError(str(phi))
    checked = family.check(phi)
    if phis.count(checked) != 1 or phis.shape_of(phis.take(checked, 0)) != shape:
        raise ValueError(f"{family.phi_name} has shape {np.shape(phi)}; {shape} is needed")
    return phis.take(checked, 0)
