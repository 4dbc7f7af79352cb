"""A finished file of answers as `.npz` or `.mat`."""

import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..support.files import replacing

HDF5, CONVERTED = (".h5", ".hdf5", ".nc"), (".npz", ".mat")
_HELD = 2**26  # bytes held at a time
_MATLAB_LIMIT = 2**32 - 2**16


def require_kind(out: Path) -> None:
    if out.suffix not in HDF5 + CONVERTED:
        raise ValueError(f"{out}: results are written as {', '.join(HDF5 + CONVERTED)}.")


def require_fits(out: Path, count: int, values: int) -> None:
    """`.mat` files of the kind that SciPy writes hold arrays below 4 GB."""
    size = 8 * count * values
    if out.suffix == ".mat" and size > _MATLAB_LIMIT:
        raise ValueError(
            f"{out}: an array would be {size / 1e9:.1f} GB, and a .mat file holds arrays below 4 GB; "
            "write .h5, which MATLAB reads with h5read."
        )


def convert(stream: Path, out: Path) -> None:
    """Writes what a finished stream holds; `.npz` a few rows at a time."""
    with h5py.File(stream, "r") as file, replacing(out) as temporary:
        arrays = {name: item for name, item in file.items() if name not in ("done", "complete")}
        if out.suffix == ".npz":
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
                for name, item in arrays.items():
                    _write_member(archive, name, item)
        else:
            from scipy.io import savemat

            largest = max(
                (item.size // len(item) for item in arrays.values() if item.ndim > 1), default=1
            )
            require_fits(out, len(file["sample"]), largest)
            with temporary.open("wb") as target:
                savemat(target, {name: _plain(item[()]) for name, item in arrays.items()})


def _write_member(archive: zipfile.ZipFile, name: str, item: Any) -> None:
    kind = item.dtype
    if kind.kind == "S":  # as text, no wider than its longest
        kind = max((_plain(rows).dtype for rows in _pieces(item)), key=lambda dtype: dtype.itemsize)
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        header = {
            "descr": np.lib.format.dtype_to_descr(kind),
            "fortran_order": False,
            "shape": item.shape,
        }
        np.lib.format.write_array_header_1_0(member, header)
        for rows in _pieces(item):
            member.write(np.ascontiguousarray(_plain(rows), kind).tobytes())


def _pieces(item: Any) -> Any:
    row = item.dtype.itemsize * max(1, int(np.prod(item.shape[1:], dtype=np.int64)))
    step = max(1, _HELD // row)
    return (item[start : start + step] for start in range(0, len(item), step))


def _plain(values: np.ndarray) -> np.ndarray:
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values
