"""Trained networks as one safetensors file: arrays, and in the header the recipe that names them.

Reading one runs no code from it: the recipe is data, and the network it describes is built from ours.
The header also holds a SHA-256 of all else in the file. Files from before it had one are read unchecked.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .environment import versions
from .files import replacing
from .mistakes import found

FORMAT = "1"
_DIGEST = "sha256"
_HEADER = ("pdecl", "recipe", "versions")


class ModelFileError(ValueError):
    """A model file that cannot be used, and why."""


def save(
    path: str | os.PathLike[str],
    basis: PyTree,
    recipe: dict[str, Any] | None = None,
    single: bool = False,
) -> None:
    """Writes the arrays of a basis, and a recipe of plain data (problem, network, settings).

    `single` rounds them to float32, for half the size; they are loaded in the network's own precision.
    """
    from safetensors.numpy import save_file

    if single:
        basis = jax.tree.map(
            lambda leaf: leaf.astype(jnp.float32) if eqx.is_inexact_array(leaf) else leaf, basis
        )
    arrays = {
        name: np.array(leaf, order="C") for name, leaf in _named_leaves(basis) if eqx.is_array(leaf)
    }
    if not arrays:
        raise TypeError(f"save: {found(basis)} holds no arrays that could be written; give a network.")
    header = {
        "pdecl": FORMAT,
        "recipe": json.dumps(recipe or {}),
        "versions": json.dumps(versions("pdecl", "jax", "equinox", "optax")),
    }
    header[_DIGEST] = digest_of(header, arrays)
    with replacing(path) as temporary:
        save_file(arrays, temporary, metadata=header)


def digest_of(header: dict[str, str], arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of what a file says and holds: its header without the digest, and the name, type, shape
    and bytes of each array."""
    digest = hashlib.sha256(json.dumps([header.get(name, "") for name in _HEADER]).encode())
    for name, values in sorted(arrays.items()):
        digest.update(f"{name} {values.dtype.str} {values.shape} ".encode())
        digest.update(np.ascontiguousarray(values).data.cast("B") if values.size else b"")
    return digest.hexdigest()


def recipe_in(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The recipe and the versions in a file's header."""
    header, _ = _read(path)
    try:
        return {"versions": json.loads(header["versions"]), **json.loads(header["recipe"])}
    except (KeyError, json.JSONDecodeError) as error:
        raise ModelFileError(f"{path}: its header is not one that pdecl writes ({error}).") from error


def load_into(basis: PyTree, path: str | os.PathLike[str]) -> Any:
    """A basis of the same build as `basis`, with the arrays of a file."""
    _, arrays = _read(path)
    wanted = {name: leaf for name, leaf in _named_leaves(basis) if eqx.is_array(leaf)}
    for name in sorted(set(wanted) ^ set(arrays)):
        where = "the network but not the file" if name in wanted else "the file but not the network"
        raise ModelFileError(f"{path} holds another network: the array {name} is in {where}.")
    for name, leaf in wanted.items():
        if arrays[name].shape != leaf.shape:
            raise ModelFileError(
                f"{path} holds another network: {name} has shape {arrays[name].shape} there and "
                f"{leaf.shape} here."
            )
        if not np.all(np.isfinite(arrays[name])):
            raise ModelFileError(f"{path}: the array {name} has entries that are NaN or infinite.")

    def fill(path: Any, leaf: Any) -> Any:
        if not eqx.is_array(leaf):
            return leaf
        return jnp.asarray(arrays[jax.tree_util.keystr(path)], leaf.dtype)

    return jax.tree_util.tree_map_with_path(fill, basis)


def _named_leaves(basis: PyTree) -> list[tuple[str, Any]]:
    return [
        (jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(basis)
    ]


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise ModelFileError(f"{path}: there is no such file.")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError) as error:
        raise ModelFileError(f"{path} is cut short or not a safetensors file ({error}).") from error
    if header.get("pdecl") != FORMAT:
        raise ModelFileError(f"{path} is a safetensors file, but not one that pdecl wrote.")
    # A name that is not ours may be that of a damaged digest.
    if set(header) - {*_HEADER, _DIGEST} or header.get(_DIGEST) not in (None, digest_of(header, arrays)):
        raise ModelFileError(
            f"{path} is damaged: what is in it does not match its checksum. Copy it from its origin "
            "again, or make it anew (pdecl train, pdecl compile); for a basis that comes along, install "
            "pdecl again."
        )
    return header, arrays
