"""Checks of φ that come from a user, with errors in the user's words."""

from typing import Any

import numpy as np


def as_batch(phi: Any, name: str, axes: int, meaning: str) -> np.ndarray:
    """`phi` as finite float64 values with one batch axis before its `axes` own axes."""
    try:
        array = np.asarray(phi)
        if array.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of real numbers, got {type(phi).__name__}") from None
    if array.ndim == axes:
        array = array[None]
    if array.ndim != axes + 1 or 0 in array.shape:
        raise ValueError(
            f"{name} must have {axes} axes ({meaning}), or {axes + 1} for a batch; "
            f"got shape {np.shape(phi)}"
        )
    array = np.ascontiguousarray(array, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(array).all(axis=tuple(range(1, array.ndim))))
    if bad.size:
        raise ValueError(
            f"{name} has NaN or infinite values ({numbered(bad)}); remove these φ or fill in the values"
        )
    return array


def numbered(which: np.ndarray) -> str:
    """'φ number 3, 7 and 12 more', for a message about some members of a batch."""
    shown = ", ".join(str(number) for number in which[:5])
    more = f" and {which.size - 5} more" if which.size > 5 else ""
    return f"φ number {shown}{more}, counted from 0"


def require_at_least(name: str, found: int, least: int, what: str) -> None:
    if found < least:
        raise ValueError(f"{name} has {found} {what}; at least {least} are needed")


def require_positive_fields(law: object, *fields: str) -> None:
    """The named constants of a law are positive numbers."""
    for field in fields:
        value = getattr(law, field)
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{type(law).__name__}: {field} must be positive, got {value!r}")


def require_count(count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise ValueError(f"count must be a whole number of at least 1, got {count!r}")
