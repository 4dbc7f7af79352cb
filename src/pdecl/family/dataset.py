"""Datasets of φ and reference solutions: made, written, read back, cached.

A dataset is one NetCDF4 file, which is HDF5 with named dimensions: xarray, MATLAB, Julia and
ncdump open it as it is. It holds the arrays of φ and the unknowns under their names, any companions,
the coordinates, and as attributes the family (`law`, JSON), the seed, what the solutions are, the
versions that made it and a SHA-256 of it all.
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

import jax
import numpy as np

from ..basis.grid import subsample
from ..state.rules import require_count
from ..support.environment import versions
from ..support.files import replacing
from ..support.room import require_memory
from . import Family, describe, phi_like
from . import phi as phis

FORMAT = 1
Progress = Callable[[int], None]


class DatasetError(Exception):
    """A dataset file that cannot be used, and why."""


@dataclass(frozen=True)
class Dataset:
    """φ number 0 … count − 1 with their solutions.

    All arrays have a first axis over φ, and then the axes that `phi_axes`, by the names of φ's arrays,
    and `solution_dims` name. `phi` is built as the family's φ, `solution` an array, or a dictionary for
    several unknowns; `companions` are further solutions on the solution's grid. `family` is the plain
    data that decided the numbers, `origin` says where they come from, and `reference` what the
    solutions are.
    """

    problem: str
    phi: Any
    solution: Any
    coordinates: dict[str, np.ndarray]
    phi_axes: dict[str, tuple[str, ...]]
    solution_dims: tuple[str, ...]
    family: dict[str, Any]
    origin: dict[str, Any]
    companions: dict[str, np.ndarray] = field(default_factory=dict)
    unknowns: tuple[str, ...] = ("u",)
    units: dict[str, str] = field(default_factory=dict)
    reference: str = ""

    @property
    def count(self) -> int:
        return phis.count(self.phi)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The arrays of φ by name."""
        return dict(zip(self.phi_axes, map(np.asarray, jax.tree.leaves(self.phi)), strict=True))

    @property
    def solutions(self) -> dict[str, np.ndarray]:
        """The unknowns by name."""
        if len(self.unknowns) == 1:
            return {self.unknowns[0]: self.solution}
        return {name: self.solution[name] for name in self.unknowns}


def build(
    family: Family, seed: int, count: int, truth: bool = False, progress: Progress | None = None
) -> Dataset:
    """Draw φ number 0 … count − 1 of a seed and solve them; `progress(k)` hears of k more."""
    require_count("count", count)
    drawn, solutions, companions = [], [], []
    if count > family.reference_batch:
        require_memory(3 * count * _numbers(family), f"a dataset of {count} φ", "ask for fewer φ")
    for start in range(0, count, family.reference_batch):
        phi = family.sample(seed, min(family.reference_batch, count - start), start)
        drawn.append(phi)
        solutions.append(family.reference(phi))
        companions.append(family.companions(phi, truth))
        if progress is not None:
            progress(phis.count(phi))
    phi = phis.joined(drawn)
    return Dataset(
        problem=family.name,
        phi=phi,
        solution=phis.joined(solutions),
        coordinates=family.coordinates(phi),
        phi_axes=family.phi_axes,
        solution_dims=family.solution_dims,
        family=describe(family),
        origin={"seed": seed, "count": count, "truth": truth},
        companions={name: np.concatenate([c[name] for c in companions]) for name in companions[0]},
        unknowns=family.unknowns,
        units=dict(family.units),
        reference=family.reference_words(),
    )


def _numbers(family: Family) -> int:
    """Bytes of one φ and its solution."""
    phi = family.sample(0, 1)
    nodes = family.coordinates(phi)
    values = len(family.unknowns) * math.prod(len(nodes[name]) for name in family.solution_dims)
    return 8 * (sum(leaf.size for leaf in jax.tree.leaves(phi)) + values)


def take(dataset: Dataset, count: int) -> Dataset:
    """The first `count` φ of a dataset."""
    return replace(
        dataset,
        phi=phis.take(dataset.phi, slice(0, count)),
        solution=phis.take(dataset.solution, slice(0, count)),
        companions={name: u[:count] for name, u in dataset.companions.items()},
        origin={**dataset.origin, "count": min(count, dataset.count)},
    )


def on_grid(dataset: Dataset, nodes: int) -> Dataset:
    """A dataset of a φ on a grid on every k-th node; its solutions are still those of the full grid."""
    if tuple(dataset.phi_axes.values()) != (dataset.solution_dims,):
        raise ValueError(
            f"grid is for problems whose φ is on a grid; {dataset.problem} is on its own nodes"
        )
    return replace(
        dataset,
        phi=subsample(dataset.phi, nodes),
        solution=subsample(dataset.solution, nodes),
        companions={name: subsample(u, nodes) for name, u in dataset.companions.items()},
        coordinates={
            name: np.linspace(line[0], line[-1], nodes) for name, line in dataset.coordinates.items()
        },
        origin={**dataset.origin, "nodes": nodes},
    )


def cached(
    family: Family,
    seed: int,
    count: int,
    directory: str | os.PathLike[str],
    truth: bool = False,
    progress: Progress | None = None,
) -> Dataset:
    """The dataset from `directory`, or built and put there.

    It is built anew when the family, the solver's version, or what is asked for has changed, and,
    with a warning, when the file is damaged.
    """
    if find_spec("h5netcdf") is None:
        warnings.warn("references are not kept: h5netcdf is not installed", UserWarning, stacklevel=2)
        return build(family, seed, count, truth, progress)
    path = Path(directory) / f"{family.name}-seed{seed}-{count}{'-truth' if truth else ''}.nc"
    if path.exists():
        try:
            kept = read(path, family)
        except DatasetError as error:
            warnings.warn(f"making the cached dataset anew: {error}", UserWarning, stacklevel=2)
        else:
            asked = {"seed": seed, "count": count, "truth": truth}
            if kept.family == _plain(describe(family)) and kept.origin == asked:
                return kept
    dataset = build(family, seed, count, truth, progress)
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
    for name, unit in dataset.units.items():
        if name in variables:
            variables[name].attrs["units"] = unit
    attributes = {
        "title": f"{dataset.problem}: parameters and reference solutions",
        "pdecl_format": FORMAT,
        "problem": dataset.problem,
        "phi": " ".join(dataset.phi_axes),
        "unknowns": " ".join(dataset.solutions),
        "reference": dataset.reference,
        "law": json.dumps(dataset.family, sort_keys=True),
        "origin": json.dumps(dataset.origin, sort_keys=True),
        "made_with": json.dumps(versions("pdecl", "numpy", "scipy")),
        "sha256": _checksum(dataset),
    }
    coordinates = {
        name: (name, values, {"units": dataset.units[name]} if name in dataset.units else {})
        for name, values in dataset.coordinates.items()
    }
    packed = {name: {"zlib": True, "complevel": 1, "shuffle": True} for name in variables}
    contents = xarray.Dataset(variables, coords=coordinates, attrs=attributes)
    with replacing(path) as temporary:
        contents.to_netcdf(temporary, engine="h5netcdf", encoding=packed)


def read(path: str | os.PathLike[str], family: Family | None = None) -> Dataset:
    """Read a dataset that `write` wrote, and make sure that nothing in it was lost or changed.

    `family`: whose φ it holds. Without one, a φ of several arrays comes as a dictionary.
    """
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
        dataset = _from_xarray(contents, family)
        intact = _checksum(dataset) == contents.attrs["sha256"]
    except (KeyError, ValueError) as error:
        raise DatasetError(f"{path} is damaged: {error}") from error
    if not intact:
        raise DatasetError(f"{path} is damaged: its contents do not match their checksum")
    return dataset


def _from_xarray(contents: Any, family: Family | None) -> Dataset:
    given = contents.attrs["phi"].split()
    unknowns = contents.attrs.get("unknowns", "u").split()
    beside = [str(name) for name in contents.data_vars if name not in (*given, *unknowns)]
    arrays = {name: contents[name].values for name in given}
    phi: Any = arrays if len(given) > 1 else arrays[given[0]]
    if family is not None and contents.attrs["problem"] == family.name:
        phi = phis.from_columns(arrays, phi_like(family), family.phi_name)
    solutions = {name: contents[name].values for name in unknowns}
    every = {**contents.data_vars, **contents.coords}
    return Dataset(
        problem=contents.attrs["problem"],
        phi=phi,
        solution=solutions if len(unknowns) > 1 else solutions[unknowns[0]],
        coordinates={str(name): contents.coords[name].values for name in contents.coords},
        phi_axes={name: tuple(contents[name].dims[1:]) for name in given},
        solution_dims=tuple(contents[unknowns[0]].dims[1:]),
        family=json.loads(contents.attrs["law"]),
        origin=json.loads(contents.attrs["origin"]),
        companions={name: contents[name].values for name in beside},
        unknowns=tuple(unknowns),
        units={str(k): v.attrs["units"] for k, v in every.items() if "units" in v.attrs},
        reference=contents.attrs.get("reference", ""),
    )


def _variables(dataset: Dataset) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    return {
        **{name: (dataset.phi_axes[name], array) for name, array in dataset.parameters.items()},
        **{name: (dataset.solution_dims, u) for name, u in dataset.solutions.items()},
        **{name: (dataset.solution_dims, u) for name, u in dataset.companions.items()},
    }


def _checksum(dataset: Dataset) -> str:
    """SHA-256 over names, shapes and bytes of all arrays, the family and the origin."""
    digest = hashlib.sha256(
        json.dumps([dataset.problem, dataset.family, dataset.origin], sort_keys=True).encode()
    )
    arrays = {name: values for name, (_, values) in _variables(dataset).items()}
    for name, values in sorted({**arrays, **dataset.coordinates}.items()):
        digest.update(f"{name} {values.shape} ".encode())
        digest.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
    return digest.hexdigest()


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    """As it looks after a trip through JSON (tuples become lists)."""
    return dict(json.loads(json.dumps(data)))
