"""Datasets of other groups, read instead of ours: `.mat`, `.npz` and HDF5 with the usual names."""

import os
from pathlib import Path

import jax
import numpy as np

from . import Family, describe, phi_like
from .array_files import ArrayFile
from .dataset import Dataset, DatasetError, read, take


def load(path: str | os.PathLike[str], family: Family, count: int | None = None) -> Dataset:
    """A dataset of ours, or one of the published kind, with the first `count` of its φ.

    φ is checked by the family, which also brings both into its own form (`Family.adopt`): data that stop
    one point before a period's end get that point. Solutions must have an axis over φ and then the
    family's `solution_dims`, evenly spaced; without an axis for t they are those of its last value.
    """
    path = Path(path)
    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    if path.suffix == ".nc":
        return _ours(path, family, count)
    if len(family.unknowns) > 1 or not isinstance(phi_like(family), jax.ShapeDtypeStruct):
        raise DatasetError(
            f"{path}: only a .nc file that pdecl wrote can hold the φ and the unknowns of {family.name}"
        )
    with ArrayFile(path) as file:
        phi_name, solution_name = _find_names(path, family, file.names)
        phi, solution = file.whole(phi_name), file.whole(solution_name)
    if len(phi) != len(solution):
        raise DatasetError(
            f"{path}: {phi_name} has {len(phi)} φ but {solution_name} has {len(solution)}"
        )
    _require_enough(path, len(phi), count)
    try:
        return _assemble(path, family, phi[:count], solution[:count])
    except ValueError as error:
        raise DatasetError(f"{path}: {error}") from error


def _ours(path: Path, family: Family, count: int | None) -> Dataset:
    dataset = read(path, family)
    if dataset.problem != family.name:
        raise DatasetError(f"{path} holds {dataset.problem} data, {family.name} was asked for")
    _require_enough(path, dataset.count, count)
    return dataset if count is None else take(dataset, count)


def _require_enough(path: Path, there: int, count: int | None) -> None:
    if count is not None and not 1 <= count <= there:
        raise DatasetError(f"{path} has {there} φ, {count} were asked for")


def _assemble(path: Path, family: Family, phi: np.ndarray, solution: np.ndarray) -> Dataset:
    phi, solution = phi.astype(np.float64), solution.astype(np.float64)
    if not np.isfinite(solution).all():
        raise ValueError("the solutions have NaN or infinite values")
    phi, solution = family.adopt(phi, solution)
    phi = family.check(phi)
    coordinates, dims = family.coordinates(phi), family.solution_dims
    if "t" in dims and solution.ndim == len(dims):
        solution, coordinates["t"] = np.expand_dims(solution, 1 + dims.index("t")), coordinates["t"][-1:]
    if solution.ndim != 1 + len(dims):
        raise ValueError(
            f"solutions must have the axes (φ, {', '.join(dims)}), got shape {solution.shape}"
        )
    for name, count in zip(dims, solution.shape[1:], strict=True):
        if count > 1:
            line = coordinates[name]
            coordinates[name] = np.linspace(line[0], line[-1], count)
    return Dataset(
        problem=family.name,
        phi=phi,
        solution=solution,
        coordinates=coordinates,
        phi_axes=family.phi_axes,
        solution_dims=family.solution_dims,
        family={"problem": family.name, "equation": describe(family)["equation"], "published": True},
        origin={"file": path.name},
        unknowns=family.unknowns,
        units=dict(family.units),
        reference=path.name,
    )


def usual_names(family: Family) -> tuple[tuple[str, str], ...]:
    """(φ, solution) as files name them, ours first."""
    return tuple(dict.fromkeys([*family.usual_names, (family.phi_name, family.unknowns[0])]))


def _find_names(path: Path, family: Family, names: list[str]) -> tuple[str, str]:
    for pair in usual_names(family):
        if set(pair) <= set(names):
            return pair
    wanted = ", ".join(f"{phi}/{u}" for phi, u in usual_names(family))
    raise DatasetError(
        f"{path} has the variables {', '.join(sorted(names)) or 'none'}; {family.name} "
        f"data are looked for under {wanted}"
    )
