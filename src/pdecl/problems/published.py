"""Datasets of other groups, read in place of ours: `.mat`, `.npz` and HDF5 with the usual names."""

import os
from pathlib import Path

import numpy as np

from ..array_files import ArrayFile
from ..dataset import Dataset, DatasetError, read, take
from . import Law
from .law import describe

# (φ, solution) as the field names them, in the order in which they are looked for.
USUAL_NAMES: dict[str, tuple[tuple[str, str], ...]] = {
    "darcy": (("coeff", "sol"), ("nu", "u"), ("a", "u"), ("x", "y"), ("input", "output")),
    "burgers": (("input", "output"), ("a", "u"), ("u0", "u")),
    "convection": (("beta", "u"), ("input", "output"), ("a", "u")),
}
_PERIODIC_GAP = 1e-6


def load(path: str | os.PathLike[str], law: Law, count: int | None = None) -> Dataset:
    """A dataset of ours, or one of the published kind, with the first `count` of its φ.

    φ is checked by the law. Where periodic data stop one point before x = 1 (usual for Burgers) the
    first value is repeated there. Solutions must have the axes (φ, x, y) or (φ, t, x), the times
    evenly spaced from 0 to 1; a solution at the final time alone (φ, x) is given one time, t = 1.
    """
    path = Path(path)
    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    if path.suffix == ".nc":
        return _ours(path, law, count)
    with ArrayFile(path) as file:
        phi_name, solution_name = _find_names(path, law.name, file.names)
        phi, solution = file.whole(phi_name), file.whole(solution_name)
    if len(phi) != len(solution):
        raise DatasetError(
            f"{path}: {phi_name} has {len(phi)} φ but {solution_name} has {len(solution)}"
        )
    _require_enough(path, len(phi), count)
    try:
        return _assemble(path, law, phi[:count], solution[:count])
    except ValueError as error:
        raise DatasetError(f"{path}: {error}") from error


def _ours(path: Path, law: Law, count: int | None) -> Dataset:
    dataset = read(path)
    if dataset.problem != law.name:
        raise DatasetError(f"{path} holds {dataset.problem} data, {law.name} was asked for")
    _require_enough(path, dataset.count, count)
    return dataset if count is None else take(dataset, count)


def _require_enough(path: Path, there: int, count: int | None) -> None:
    if count is not None and not 1 <= count <= there:
        raise DatasetError(f"{path} has {there} φ, {count} were asked for")


def _assemble(path: Path, law: Law, phi: np.ndarray, solution: np.ndarray) -> Dataset:
    phi, solution = phi.astype(np.float64), solution.astype(np.float64)
    if not np.isfinite(solution).all():
        raise ValueError("the solutions have NaN or infinite values")
    if law.name == "darcy":
        phi, solution = _squeeze_channels(phi), _squeeze_channels(solution)
    if law.name == "burgers":
        phi, solution = _close_period(phi, solution)
    phi = law.check(phi)
    coordinates = law.coordinates(phi)
    if law.name == "darcy":
        _require_darcy_grid(phi, solution)
    else:
        if solution.ndim == 2:
            solution = solution[:, None, :]
            coordinates["t"] = np.ones(1)
        elif solution.ndim == 3:
            coordinates["t"] = np.linspace(0.0, 1.0, solution.shape[1])
        else:
            raise ValueError(f"solutions must have the axes (φ, t, x), got shape {solution.shape}")
        coordinates["x"] = np.linspace(0.0, 1.0, solution.shape[2])
    return Dataset(
        problem=law.name,
        phi_name=law.phi_name,
        phi=phi,
        solution=solution,
        coordinates=coordinates,
        phi_dims=law.phi_dims,
        solution_dims=law.solution_dims,
        law={"problem": law.name, "equation": describe(law)["equation"], "published": True},
        origin={"file": path.name},
    )


def _squeeze_channels(values: np.ndarray) -> np.ndarray:
    """(φ, 1, n, n) and (φ, n, n, 1) are (φ, n, n)."""
    if values.ndim == 4 and 1 in (values.shape[1], values.shape[3]):
        return values[:, 0] if values.shape[1] == 1 else values[..., 0]
    return values


def _close_period(u0: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if u0.ndim != 2:
        raise ValueError(f"u0 must have the axes (φ, x), got shape {u0.shape}")
    gap = np.abs(u0[:, 0] - u0[:, -1]).max()
    if gap <= _PERIODIC_GAP * np.abs(u0).max():
        return u0, u
    step = np.abs(np.diff(u0, axis=1)).max()
    if gap > 3 * step:
        raise ValueError(
            f"u0 does not look periodic: from its last point to its first it jumps by "
            f"{gap:.3g}, while neighbours differ by {step:.3g} at most"
        )
    return (
        np.concatenate([u0, u0[:, :1]], axis=-1),
        np.concatenate([u, u[..., :1]], axis=-1),
    )


def _require_darcy_grid(nu: np.ndarray, u: np.ndarray) -> None:
    if nu.shape != u.shape:
        raise ValueError(f"ν and u must be on one grid, got shapes {nu.shape} and {u.shape}")
    edges = (u[:, 0], u[:, -1], u[:, :, 0], u[:, :, -1])
    edge = max(np.abs(side).max() for side in edges)
    if edge > 1e-6 * np.abs(u).max():
        raise ValueError(
            f"u is {edge:.3g} on the outermost nodes, where it should be 0; data on cell centres "
            "(without the boundary) cannot be used as nodes"
        )


def _find_names(path: Path, problem: str, names: list[str]) -> tuple[str, str]:
    for pair in USUAL_NAMES[problem]:
        if set(pair) <= set(names):
            return pair
    wanted = ", ".join(f"{phi}/{u}" for phi, u in USUAL_NAMES[problem])
    raise DatasetError(
        f"{path} has the variables {', '.join(sorted(names)) or 'none'}; {problem} "
        f"data are looked for under {wanted}"
    )
