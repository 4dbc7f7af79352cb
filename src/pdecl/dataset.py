"""Datasets of φ and reference solutions: made, written, read back, cached.

A dataset is one NetCDF4 file, which is HDF5 with named dimensions: xarray, MATLAB, Julia and
ncdump open it as it is. It holds φ (`nu`, `u0` or `beta`), the solution `u`, any companions, the
coordinates, and as attributes the law (JSON), the seed, the versions that made it and a SHA-256
of it all.
"""

import hashlib
import json
import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from .environment import versions
from .files import replacing
from .problems.darcy_grid import subsample
from .problems.law import Law, describe
from .room import require_memory

FORMAT = 1
Progress = Callable[[int], None]


class DatasetError(Exception):
    """A dataset file that cannot be used, and why."""


@dataclass(frozen=True)
class Dataset:
    """φ number 0 … count − 1 with their solutions.

    `phi` and `solution` have a first axis over φ and then the axes named in `phi_dims` and
    `solution_dims`; `companions` are further solutions on the solution's grid (Darcy's `u_truth`,
    convection's `u_box`). `law` is the plain data that decided the numbers, `origin` says where
    they come from.
    """

    problem: str
    phi_name: str
    phi: Float64[np.ndarray, "count ..."]
    solution: Float64[np.ndarray, "count ..."]
    coordinates: dict[str, np.ndarray]
    phi_dims: tuple[str, ...]
    solution_dims: tuple[str, ...]
    law: dict[str, Any]
    origin: dict[str, Any]
    companions: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.phi)


def build(
    law: Law, seed: int, count: int, truth: bool = False, progress: Progress | None = None
) -> Dataset:
    """Draw φ number 0 … count − 1 of a seed and solve them; `progress(k)` hears of k more."""
    phis, solutions, companions = [], [], []
    if count > law.batch:
        require_memory(3 * count * _numbers(law), f"a dataset of {count} φ", "ask for fewer φ")
    for start in range(0, count, law.batch):
        phi = law.sample(seed, min(law.batch, count - start), start)
        phis.append(phi)
        solutions.append(law.reference(phi))
        companions.append(law.companions(phi, truth))
        if progress is not None:
            progress(len(phi))
    if not phis:
        raise ValueError(f"count must be a whole number of at least 1, got {count!r}")
    phi = np.concatenate(phis)
    return Dataset(
        problem=law.name,
        phi_name=law.phi_name,
        phi=phi,
        solution=np.concatenate(solutions),
        coordinates=law.coordinates(phi),
        phi_dims=law.phi_dims,
        solution_dims=law.solution_dims,
        law=describe(law),
        origin={"seed": seed, "count": count, "truth": truth},
        companions={name: np.concatenate([c[name] for c in companions]) for name in companions[0]},
    )


def _numbers(law: Law) -> int:
    """Bytes of one φ and its solution."""
    phi = law.sample(0, 1)
    nodes = law.coordinates(phi)
    return 8 * (phi.size + math.prod(len(nodes[name]) for name in law.solution_dims))


def take(dataset: Dataset, count: int) -> Dataset:
    """The first `count` φ of a dataset."""
    return replace(
        dataset,
        phi=dataset.phi[:count],
        solution=dataset.solution[:count],
        companions={name: u[:count] for name, u in dataset.companions.items()},
        origin={**dataset.origin, "count": min(count, dataset.count)},
    )


def on_grid(dataset: Dataset, nodes: int) -> Dataset:
    """A Darcy dataset on every k-th node; its solutions are still those of the full grid."""
    if dataset.problem != "darcy":
        raise ValueError(f"grid is for darcy; {dataset.problem} is always on 101 × 101 nodes")
    line = np.linspace(0.0, 1.0, nodes)
    return replace(
        dataset,
        phi=subsample(dataset.phi, nodes),
        solution=subsample(dataset.solution, nodes),
        companions={name: subsample(u, nodes) for name, u in dataset.companions.items()},
        coordinates={"x": line, "y": line},
        origin={**dataset.origin, "nodes": nodes},
    )


def cached(
    law: Law,
    seed: int,
    count: int,
    directory: str | os.PathLike[str],
    truth: bool = False,
    progress: Progress | None = None,
) -> Dataset:
    """The dataset from `directory`, or built and put there.

    It is built anew when the law, the solver's version, or what is asked for has changed, and,
    with a warning, when the file is damaged.
    """
    if find_spec("h5netcdf") is None:
        warnings.warn("references are not kept: h5netcdf is not installed", UserWarning, stacklevel=2)
        return build(law, seed, count, truth, progress)
    path = Path(directory) / f"{law.name}-seed{seed}-{count}{'-truth' if truth else ''}.nc"
    if path.exists():
        try:
            found = read(path)
        except DatasetError as error:
            warnings.warn(f"making the cached dataset anew: {error}", UserWarning, stacklevel=2)
        else:
            asked = {"seed": seed, "count": count, "truth": truth}
            if found.law == _plain(describe(law)) and found.origin == asked:
                return found
    dataset = build(law, seed, count, truth, progress)
    write(path, dataset)
    return dataset


def write(path: str | os.PathLike[str], dataset: Dataset) -> None:
    """Write in one step: at any moment the path holds the old file or the whole new one."""
    import xarray

    path = Path(path)
    variables = {
        name: xarray.Variable(("sample", *dims), values)
        for name, (dims, values) in _variables(dataset).items()
    }
    attributes = {
        "title": f"{dataset.problem}: parameters and reference solutions",
        "pdecl_format": FORMAT,
        "problem": dataset.problem,
        "phi": dataset.phi_name,
        "law": json.dumps(dataset.law, sort_keys=True),
        "origin": json.dumps(dataset.origin, sort_keys=True),
        "made_with": json.dumps(versions("pdecl", "numpy", "scipy")),
        "sha256": _checksum(dataset),
    }
    coordinates = {name: (name, values) for name, values in dataset.coordinates.items()}
    packed = {name: {"zlib": True, "complevel": 1, "shuffle": True} for name in variables}
    contents = xarray.Dataset(variables, coords=coordinates, attrs=attributes)
    with replacing(path) as temporary:
        contents.to_netcdf(temporary, engine="h5netcdf", encoding=packed)


def read(path: str | os.PathLike[str]) -> Dataset:
    """Read a dataset that `write` wrote, and make sure that nothing in it was lost or changed."""
    import xarray

    path = Path(path)
    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    try:
        with xarray.open_dataset(
            path, engine="h5netcdf", decode_cf=False, phony_dims="sort"
        ) as contents:
            contents.load()
    except Exception as error:
        raise DatasetError(
            f"{path} cannot be opened as NetCDF4/HDF5: it is truncated, damaged or of another kind "
            f"({type(error).__name__}: {error})"
        ) from error
    if "pdecl_format" not in contents.attrs:
        raise DatasetError(f"{path} was not written by pdecl (no attribute pdecl_format)")
    if contents.attrs["pdecl_format"] != FORMAT:
        raise DatasetError(
            f"{path} has format {contents.attrs['pdecl_format']}, this pdecl reads "
            f"format {FORMAT}; make it again with `pdecl data`"
        )
    try:
        dataset = _from_xarray(contents)
        intact = _checksum(dataset) == contents.attrs["sha256"]
    except (KeyError, ValueError) as error:
        raise DatasetError(f"{path} is damaged: {error}") from error
    if not intact:
        raise DatasetError(f"{path} is damaged: its contents do not match their checksum")
    return dataset


def _from_xarray(contents: Any) -> Dataset:
    phi_name = contents.attrs["phi"]
    names = [str(name) for name in contents.data_vars if name not in (phi_name, "u")]
    return Dataset(
        problem=contents.attrs["problem"],
        phi_name=phi_name,
        phi=contents[phi_name].values,
        solution=contents["u"].values,
        coordinates={str(name): contents.coords[name].values for name in contents.coords},
        phi_dims=tuple(contents[phi_name].dims[1:]),
        solution_dims=tuple(contents["u"].dims[1:]),
        law=json.loads(contents.attrs["law"]),
        origin=json.loads(contents.attrs["origin"]),
        companions={name: contents[name].values for name in names},
    )


def _variables(dataset: Dataset) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    return {
        dataset.phi_name: (dataset.phi_dims, dataset.phi),
        "u": (dataset.solution_dims, dataset.solution),
        **{name: (dataset.solution_dims, u) for name, u in dataset.companions.items()},
    }


def _checksum(dataset: Dataset) -> str:
    """SHA-256 over names, shapes and bytes of all arrays, and the law and origin."""
    digest = hashlib.sha256(
        json.dumps([dataset.problem, dataset.law, dataset.origin], sort_keys=True).encode()
    )
    arrays = {name: values for name, (_, values) in _variables(dataset).items()}
    for name, values in sorted({**arrays, **dataset.coordinates}.items()):
        digest.update(f"{name} {values.shape} ".encode())
        digest.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
    return digest.hexdigest()


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    """As it looks after a trip through JSON (tuples become lists)."""
    return dict(json.loads(json.dumps(data)))
