"""Times compiled programs fairly, and says on what machine: shared by the benchmarks."""

import importlib.metadata
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

_PACKAGES = ("jax", "jaxlib", "equinox", "lineax", "optimistix", "jaxopt", "numpy")


@dataclass(frozen=True)
class Timing:
    """What running a compiled program took."""

    seconds: float  # median, warm
    fastest: float
    runs: int
    compile_seconds: float
    megabytes: float | None  # temporaries and outputs, as the compiler planned them


def measure(
    function: Callable[..., Any],
    *args: Any,
    repeats: int = 5,
    patience: float = 10.0,
    compiler_options: dict[str, Any] | None = None,
) -> tuple[Timing, jax.stages.Compiled, Any]:
    """Compiles, runs once to warm up, then times; returns the timing, the program and its output.

    Stops repeating once `patience` seconds are used. A program whose first run alone used them up is
    judged by that run, which contains no compilation.
    """
    start = time.perf_counter()
    compiled = jax.jit(function).lower(*args).compile(compiler_options)
    compile_seconds = time.perf_counter() - start
    first, output = _run(compiled, args)
    times: list[float] = []
    while first + sum(times) < patience and len(times) < repeats:
        times.append(_run(compiled, args)[0])
    times = times or [first]
    timing = Timing(
        statistics.median(times), min(times), len(times), compile_seconds, _planned_megabytes(compiled)
    )
    return timing, compiled, output


def matmul_rate(size: int, repeats: int = 5, dtype: Any = jnp.float64) -> float:
    """Floating point operations per second of a product of two square matrices, in full precision."""
    left, right = jr.normal(jr.key(0), (2, size, size), dtype)
    product = partial(jnp.matmul, precision="highest")
    timing, _, _ = measure(product, left, right, repeats=repeats)
    return 2 * size**3 / timing.seconds


def machine() -> dict[str, Any]:
    """The hardware and the versions that a result belongs to."""
    device = jax.devices()[0]
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return {
        "platform": device.platform,
        "device": device.device_kind if device.platform != "cpu" else _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "lapack_threads": os.environ.get("OPENBLAS_NUM_THREADS", "as many as cores"),
        "large_pages": "malloc.hugetlb=1" in os.environ.get("GLIBC_TUNABLES", ""),
        "python": platform.python_version(),
        "versions": found,
    }


def device_peak_megabytes() -> float | None:
    """The most device memory that this process has held at once; None where it is not counted."""
    stats = jax.devices()[0].memory_stats() or {}
    peak = stats.get("peak_bytes_in_use")
    return None if peak is None else peak / 1e6


def save(path: Path, content: dict[str, Any]) -> None:
    """Writes JSON, making the folder it goes to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, default=asdict) + "\n")


def _run(compiled: Callable[..., Any], args: tuple[Any, ...]) -> tuple[float, Any]:
    start = time.perf_counter()
    output = jax.block_until_ready(compiled(*args))
    return time.perf_counter() - start, output


def _planned_megabytes(compiled: Any) -> float | None:
    plan = compiled.memory_analysis()
    return None if plan is None else (plan.temp_size_in_bytes + plan.output_size_in_bytes) / 1e6


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
