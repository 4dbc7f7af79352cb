"""Checkpoints: a run that is killed ends as one that was not; nothing of value is ever overwritten."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import pdecl

STEPS = 60
line = pdecl.Box(x=(0, 1))
decay = pdecl.Problem(
    line,
    [
        pdecl.Fit(lambda u, z, k: u.d("x") + k * u(), on=line.interior),
        pdecl.Fit(lambda u, z, k: u() - 1, on=line.face(x=0)),
    ],
    parameter=lambda key: jr.uniform(key, minval=2.0, maxval=20.0),
)


def train(folder=None, steps=STEPS, width=8, every=5, pause=0.0, **options):
    basis = pdecl.nn.MLP(decay, size=4, width=width, depth=1, key=jr.key(0))

    def metrics(basis):
        time.sleep(pause)
        return {"error": float(jnp.sum(basis(jnp.zeros(1), None)))}

    checkpoints = None if folder is None else pdecl.Checkpoints(folder, every)
    return pdecl.fit(
        decay, basis, optax.adam(1e-2), steps=steps, key=jr.key(1), checkpoints=checkpoints,
        metrics=metrics, metrics_count=STEPS if pause else 8, progress=False, **options,
    )  # fmt: skip


def arrays(basis):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(basis, eqx.is_array))]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(arrays(one), arrays(other), strict=True))


@pytest.fixture(scope="module")
def undisturbed():
    return train()


@pytest.fixture
def finished(tmp_path):
    folder = tmp_path / "checkpoints"
    return folder, train(folder)


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def test_checkpoints_change_nothing_and_a_longer_run_goes_on(finished, undisturbed):
    folder, (basis, history) = finished
    assert same(basis, undisturbed[0])
    assert history.loss == undisturbed[1].loss
    again, history = train(folder)
    assert same(again, basis)
    assert history.loss == undisturbed[1].loss


@pytest.mark.parametrize("steps", [1, 23])
def test_a_run_that_stopped_early_ends_the_same(tmp_path, undisturbed, steps):
    train(tmp_path / "c", steps=steps)
    basis, history = train(tmp_path / "c")
    assert same(basis, undisturbed[0])
    assert history.loss == undisturbed[1].loss


def test_killed_at_any_moment_it_ends_with_the_same_weights(tmp_path, undisturbed):
    folder = tmp_path / "checkpoints"
    script = (
        "import sys, jax; jax.config.update('jax_enable_x64', True); "
        "jax.config.update('jax_disable_most_optimizations', True); "
        f"sys.path.insert(0, {str(Path(__file__).parent)!r}); "
        f"import test_checkpoint as t; t.train({str(folder)!r}, pause=0.1, every=3)"
    )
    for wanted in (3, 12):
        process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            done = [int(p.name) for p in (folder / "steps").glob("*") if p.name.isdigit()]
            if done and max(done) >= wanted:
                break
            time.sleep(0.01)
        assert process.poll() is None, "the run ended before it could be killed"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    basis, history = train(folder, every=3)
    assert same(basis, undisturbed[0])
    assert history.loss == undisturbed[1].loss


def test_a_changed_network_or_setting_is_refused(finished):
    folder, _ = finished
    before = contents(folder)
    with pytest.raises(pdecl.CheckpointError, match=r"another run: array .*layers.* is float64"):
        train(folder, width=9)
    with pytest.raises(pdecl.CheckpointError, match="another run: setting batch is 8 there and 4 here"):
        train(folder, batch=4)
    assert contents(folder) == before


def test_a_truncated_checkpoint_is_named_and_kept(finished):
    folder, _ = finished
    files = [p for p in (folder / "steps" / str(STEPS)).rglob("*") if p.is_file() and p.stat().st_size]
    for file in files:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    before = contents(folder)
    with pytest.raises(pdecl.CheckpointError, match=rf"step {STEPS}.*cut short.*Nothing was changed"):
        train(folder, steps=STEPS + 1)
    assert contents(folder) == before
    shutil.rmtree(folder / "steps" / str(STEPS))
    basis, _ = train(folder)
    assert same(basis, train()[0])


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(pdecl.CheckpointError, match="not empty and holds no checkpoints"):
        train(tmp_path)
    assert contents(tmp_path) == {Path("thesis.txt"): b"years of work"}


def test_a_full_disk_says_what_is_still_there(tmp_path, undisturbed):
    """A limit on the size of files stands in for a disk that fills."""
    folder = tmp_path / "checkpoints"
    train(folder, steps=10, width=64)
    script = (
        "import resource, sys, jax; jax.config.update('jax_enable_x64', True); "
        f"sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_checkpoint as t; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)); "
        f"t.train({str(folder)!r}, width=64)"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.returncode != 0
    assert "could not be written" in process.stderr
    assert "the last whole one is of step 10" in process.stderr
    basis, _ = train(folder, width=64)
    assert same(basis, train(width=64)[0])


def test_every_must_be_a_count():
    with pytest.raises(ValueError, match="every must be at least 1"):
        pdecl.Checkpoints("x", every=0)
