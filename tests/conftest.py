"""Every test runs in float64, with the types and shapes at pdecl's boundaries checked."""

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
# Small problems spend their time in the compiler; this halves it.
jax.config.update("jax_disable_most_optimizations", True)
# The numeric tower: where a float is asked for, an int will do.
install_import_hook("pdecl", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")


@pytest.fixture(autouse=True, scope="module")
def forget():
    """Compiled programs take memory maps, and a process has 65530 at most: none outlives its file."""
    yield
    jax.clear_caches()
