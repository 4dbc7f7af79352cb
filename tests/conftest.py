"""Every test runs in float64, with the types and shapes at pdecl's boundaries checked."""

import os
import subprocess
import sys

import jax
import pytest
from jaxtyping import install_import_hook

_FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"


def compile_quickly() -> None:
    """Small problems spend their time in the compiler; flags that do without its newest passes halve it.

    One that some version of XLA does not know ends the process, so another process tries them first.
    What a user set stays, and the workers of a parallel run find what their parent has set.
    """
    jax.config.update("jax_disable_most_optimizations", True)
    if "XLA_FLAGS" in os.environ:
        return
    trial = [sys.executable, "-c", "import jax; jax.devices()"]
    if (
        subprocess.run(trial, env=os.environ | {"XLA_FLAGS": _FLAGS}, capture_output=True).returncode
        == 0
    ):
        os.environ["XLA_FLAGS"] = _FLAGS


compile_quickly()
jax.config.update("jax_enable_x64", True)
# The numeric tower: where a float is asked for, an int will do.
install_import_hook("pdecl", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")


@pytest.fixture(autouse=True, scope="module")
def forget():
    """Compiled programs take memory maps, and a process has 65530 at most: none outlives its file."""
    yield
    jax.clear_caches()
