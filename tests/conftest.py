"""Every test runs in float64, with the types and shapes at pdecl's boundaries checked."""

import gc
import os
import subprocess
import sys

import jax
import programs
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

_FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"


def compile_quickly() -> None:
    """Small problems spend their time in the compiler; flags that do without its newest passes halve it.

    One that some version of XLA does not know ends the process, so another process tries them first.
    What a user set stays, and the workers of a parallel run find what their parent has set.
    """
    jax.config.update("jax_disable_most_optimizations", True)
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # for the programs that tests start
    if "XLA_FLAGS" in os.environ:
        return
    trial = [sys.executable, "-c", "import jax; jax.devices()"]
    if (
        subprocess.run(trial, env=os.environ | {"XLA_FLAGS": _FLAGS}, capture_output=True).returncode
        == 0
    ):
        os.environ["XLA_FLAGS"] = _FLAGS


compile_quickly()
settings.register_profile("seeded", derandomize=True)
settings.load_profile("seeded")
gc.set_threshold(200_000, 20, 100)  # tracing makes many small objects, and little of it is garbage
jax.config.update("jax_enable_x64", True)
install_import_hook("pdecl", "boundaries.checked")
programs.watch()


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # what is imported by now stays


@pytest.fixture(autouse=True, scope="module")
def forget():
    """Compiled programs take memory maps, and a process has 65530 at most: none outlives its file."""
    yield
    jax.clear_caches()
