"""φ as named arrays: what files, streams and reports hold of a pytree."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ..support.types import Phi


def names_of(like: PyTree, alone: str) -> tuple[str, ...]:
    """A name for each array of φ: its keys with dots between; `alone` for a φ that is one array."""
    return tuple(_name(path, alone) for path, _ in jax.tree_util.tree_leaves_with_path(like))


def columns(phi: Phi, alone: str) -> dict[str, np.ndarray]:
    """The arrays of φ, of one or of a batch, by name."""
    return dict(zip(names_of(phi, alone), map(np.asarray, jax.tree.leaves(phi)), strict=True))


def from_columns(arrays: Mapping[str, Any], like: PyTree, alone: str) -> Any:
    """φ built as `like`, from its arrays by name."""
    names = names_of(like, alone)
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ValueError(f"φ is made of {', '.join(names)}; {', '.join(missing)} is not there.")
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in names])


def count(phi: Phi) -> int:
    """How many φ a batch holds."""
    return len(jax.tree.leaves(phi)[0])


def take(phi: Phi, rows: Any) -> Any:
    """Some φ of a batch: a number gives one φ, a slice or several numbers a batch."""
    return jax.tree.map(lambda leaf: leaf[rows], phi)


def members(phi: Phi) -> list[Any]:
    """The φ of a batch, each alone."""
    return [take(phi, number) for number in range(count(phi))]


def stack(phis: Sequence[Any]) -> Any:
    """Single φ as a batch."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *phis)


def joined(batches: Sequence[Any]) -> Any:
    """Batches of φ, or of solutions, one after the other."""
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *batches)


def shape_of(like: PyTree) -> Any:
    """The shape of each array; a plain tuple for a φ that is one array."""
    return jax.tree.map(lambda leaf: tuple(leaf.shape), like)


def zeros(shape: PyTree) -> Any:
    """A φ of that shape, as `shape_of` has it."""
    is_shape = lambda part: isinstance(part, tuple) and all(isinstance(n, int) for n in part)
    return jax.tree.map(np.zeros, shape, is_leaf=is_shape)


def _name(path: Sequence[Any], alone: str) -> str:
    keys = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", "")))) for key in path]
    if path and not isinstance(path[0], jax.tree_util.DictKey | jax.tree_util.GetAttrKey):
        keys = [alone, *keys]
    return ".".join(keys) or alone
