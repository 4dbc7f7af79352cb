"""Checks of φ that come from a user, with errors in the user's words."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ..support.types import Phi
from .phi import names_of


def as_batch(phi: Phi, name: str, axes: int, meaning: str) -> np.ndarray:
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


def as_batch_like(phi: Phi, like: PyTree, alone: str) -> Any:
    """`phi`, built as `like`, as finite float64 arrays with one batch axis before their own axes."""
    names, leaves = names_of(like, alone), jax.tree.leaves(like)
    built: Any = jax.tree.structure(like)
    if jax.tree_util.treedef_is_leaf(built):
        given = [phi]
    elif jax.tree.structure(phi, is_leaf=lambda part: isinstance(part, list)) != built:
        found = ", ".join(map(str, phi)) if isinstance(phi, Mapping) else type(phi).__name__
        raise ValueError(f"φ is made of {', '.join(names)}; found {found}")
    else:
        given = jax.tree.leaves(phi, is_leaf=lambda part: isinstance(part, list))
    arrays = []
    for array, name, leaf in zip(given, names, leaves, strict=True):
        array = as_batch(array, name, leaf.ndim, f"shape {leaf.shape}" if leaf.ndim else "a number")
        if array.shape[1:] != leaf.shape:
            raise ValueError(f"{name} has shape {array.shape[1:]}; {leaf.shape} is needed")
        arrays.append(array.astype(leaf.dtype) if leaf.dtype.kind in "iub" else array)
    if len({len(array) for array in arrays}) > 1:
        counts = ", ".join(f"{len(array)} {name}" for name, array in zip(names, arrays, strict=True))
        raise ValueError(f"the arrays of φ are for different numbers of φ: {counts}")
    return jax.tree.unflatten(built, arrays)


def numbered(which: np.ndarray) -> str:
    """'φ number 3, 7 and 12 more', for a message about some members of a batch."""
    shown = ", ".join(str(number) for number in which[:5])
    more = f" and {which.size - 5} more" if which.size > 5 else ""
    return f"φ number {shown}{more}, counted from 0"


def require_at_least(name: str, found: int, least: int, what: str) -> None:
    if found < least:
        raise ValueError(f"{name} has {found} {what}; at least {least} are needed")


def require_positive(name: str, values: np.ndarray, why: str = "") -> None:
    """All values of a batch of φ are positive."""
    bad = np.flatnonzero((values <= 0).any(axis=tuple(range(1, values.ndim))))
    if bad.size:
        raise ValueError(
            f"{name} must be positive everywhere{why}; its smallest value is {values.min():.6g} "
            f"({numbered(bad)})"
        )


def require_positive_fields(family: object, *fields: str) -> None:
    """The named constants of a family are positive numbers."""
    for field in fields:
        value = getattr(family, field)
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{type(family).__name__}: {field} must be positive, got {value!r}")
