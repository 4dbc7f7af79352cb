"""What storage costs: sizes and speeds of formats and compressions, for values and for ω.

    python benchmarks/storage.py SOLVER     a compiled solver of Burgers, as pdecl compile writes one

Values are u of 256 φ on 101 × 101 nodes. Speeds are for a second of one core's time, the disk not
counted: what a format takes from the solver. Beside them are whole streams of 4096 φ, by the clock.
Results go to results/storage.json, and a page of them to results/storage.md.
"""

import json
import os
import shutil
import sys
import tempfile
import time
import zlib
from pathlib import Path

import h5py
import jax
import numpy as np
import zarr
from zarr.codecs import BloscCodec

import pdecl
from pdecl import stream as streaming
from pdecl.stream import formats
from pdecl.stream.answers import Predictor

RESULTS, COUNT, ROWS = Path(__file__).parent / "results", 256, 128
HDF5 = {
    "HDF5, as it is": {},
    "HDF5, shuffle + lzf": {"compression": "lzf", "shuffle": True},
    "HDF5, shuffle + gzip 1": {"compression": "gzip", "compression_opts": 1, "shuffle": True},
    "HDF5, shuffle + gzip 4": {"compression": "gzip", "compression_opts": 4, "shuffle": True},
}
ZARR = {
    "Zarr, as it is": None,
    "Zarr, shuffle + lz4": BloscCodec(cname="lz4", clevel=1, shuffle="shuffle"),
    "Zarr, bitshuffle + zstd 1": BloscCodec(cname="zstd", clevel=1, shuffle="bitshuffle"),
    "Zarr, bitshuffle + zstd 5": BloscCodec(cname="zstd", clevel=5, shuffle="bitshuffle"),
}


def main(solver: str) -> None:
    jax.config.update("jax_enable_x64", True)
    model, folder = pdecl.load(solver), Path(tempfile.mkdtemp())
    u = answers_of(model, grid=(101, 101))
    weights = answers_of(model, store="weights")
    kinds = {
        "u, float64": u,
        "u, float32": u.astype(np.float32),
        "ω, float64": weights,
        "ω, float32": weights.astype(np.float32),
    }
    streamed = streams(model, folder)
    found = {name: measured(values, folder) for name, values in kinds.items()}
    began = time.process_time()
    zlib.crc32(np.ascontiguousarray(u).data.cast("B"))
    extra = {
        "solver": model.functions,
        "cores": os.cpu_count(),
        "checksums, MB/s": u.nbytes / (time.process_time() - began) / 1e6,
        "streams, µs for a φ": streamed,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "storage.json").write_text(json.dumps({**extra, "kinds": found}, indent=1) + "\n")
    (RESULTS / "storage.md").write_text(page(extra, found))
    print(page(extra, found))


def answers_of(model: pdecl.Compiled, **asked: object) -> np.ndarray:
    """What is kept of 256 φ."""
    source = streaming.FromDistribution(model.family, 5, COUNT)
    predictor = Predictor(model, source.shape, streaming.ask(model, source.shape, **asked), ROWS)
    return np.concatenate([next(iter(a.values.values())) for a in predictor.stream(source)])


def streams(model: pdecl.Compiled, folder: Path) -> dict[str, float]:
    """Microseconds for a φ of whole streams."""
    whole, half = {"grid": (101, 101)}, {"grid": (101, 101), "dtype": "float32"}
    kinds = {
        "ω, HDF5": ("w.h5", {"store": "weights"}),
        "ω, Zarr": ("w.zarr", {"store": "weights"}),
        "u, float64, HDF5": ("u.h5", whole),
        "u, float64, Zarr": ("u.zarr", whole),
        "u, float32, HDF5": ("v.h5", half),
        "u, float32, Zarr": ("v.zarr", half),
        "mean over t, HDF5": ("m.h5", {**whole, "reduce": "mean over t"}),
    }
    found, source = {}, streaming.FromDistribution(model.family, 5, 4096)
    for words, (name, asked) in kinds.items():
        query = streaming.ask(model, source.shape, **asked)
        rate = streaming.solve_stream(model, source, folder / name, query).rate
        found[words] = 1e6 / rate
        formats.remove(folder / name)
    return found


def measured(values: np.ndarray, folder: Path) -> dict[str, dict[str, float]]:
    copies = max(1, 2**24 // values.nbytes)  # so much that a file takes long enough to be measured
    whole = np.concatenate([values * (1 + k * 1e-3) for k in range(copies)]).astype(values.dtype)
    chunks = (ROWS, *values.shape[1:])

    def hdf5(path: Path, options: dict) -> None:
        with h5py.File(path, "w") as file:
            item = file.create_dataset(
                "u", whole.shape, whole.dtype, **({"chunks": chunks} | options if options else {})
            )
            for start in range(0, len(whole), ROWS):
                item[start : start + ROWS] = whole[start : start + ROWS]
            file.flush()
            os.fsync(file.id.get_vfd_handle())

    def of_zarr(path: Path, codec: BloscCodec | None) -> None:
        rows = max(ROWS, 2**22 // (values.nbytes // len(values)) // ROWS * ROWS)
        item = zarr.create_array(
            path, shape=whole.shape, dtype=whole.dtype, chunks=(min(rows, len(whole)), *chunks[1:]),
            compressors=codec,
        )  # fmt: skip
        for start in range(0, len(whole), rows):
            item[start : start + rows] = whole[start : start + rows]
        os.sync()

    found = {}
    for table, write, read, name in (
        (HDF5, hdf5, lambda path: h5py.File(path, "r")["u"][()], "a.h5"),
        (ZARR, of_zarr, lambda path: zarr.open_array(path, mode="r")[...], "a.zarr"),
    ):
        for words, options in table.items():
            path, times = folder / name, []
            for _ in range(2):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                began = time.process_time()
                write(path, options)
                times.append(time.process_time() - began)
            began = time.process_time()
            assert np.array_equal(read(path), whole)
            reading = time.process_time() - began
            files = path.rglob("*") if path.is_dir() else [path]
            size = sum(file.stat().st_size for file in files if file.is_file())
            found[words] = {
                "bytes per φ": size / len(whole),
                "write, MB/s": whole.nbytes / min(times) / 1e6,
                "read, MB/s": whole.nbytes / reading / 1e6,
            }
    return found


def page(extra: dict, found: dict) -> str:
    lines = [
        "# What storage costs",
        "",
        f"`python benchmarks/storage.py SOLVER`, {extra['cores']} cores, a compiled solver of "
        f"{extra['solver']} functions, u on 101 × 101 nodes. In the first table",
        "whole streams, once compiled; in the others what a format takes: MB handed over in a second of "
        f"one core, the disk not counted. Checksums: {extra['checksums, MB/s']:.0f} MB/s.",
        "",
        "| stream | a φ |",
        "| --- | --- |",
        *(f"| {name} | {v:.0f} µs |" for name, v in extra["streams, µs for a φ"].items()),
    ]
    for kind, rows in found.items():
        head = "bytes per φ | write, MB/s | read, MB/s"
        lines += ["", f"| {kind} | {head} |", "| --- | --- | --- | --- |"]
        lines += [
            f"| {name} | {' | '.join(f'{v:,.0f}' for v in row.values())} |" for name, row in rows.items()
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(sys.argv[1])
