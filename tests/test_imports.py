"""What is imported when: few packages with pdecl, and none of them before a command runs."""

import subprocess
import sys

# SciPy loads its parts when they are first used; the others are imported where they are needed.
LATE = {
    "optax",
    "matplotlib",
    "xarray",
    "pandas",
    "h5py",
    "h5netcdf",
    "zarr",
    "orbax",
    "safetensors",
    "rich",
    "typer",
}


def imported(*words):
    code = f"import sys; {'; '.join(words)}; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_few_packages_come_with_pdecl():
    found = imported("import pdecl")
    assert "jax" in found
    assert not LATE & found
    assert not {
        name
        for name in found
        if name.startswith("scipy.")
        and name.count(".") == 1
        and name[6:] in ("sparse", "linalg", "special", "optimize", "interpolate")
    }


def test_help_and_the_options_of_commands_need_no_jax():
    found = imported("from pdecl_cli import app", "app(['solve', '--help'], standalone_mode=False)")
    assert {"typer", "pdecl_cli.solve"} <= found
    assert not {"pdecl", "jax", "numpy", *LATE - {"rich", "typer"}} & found
