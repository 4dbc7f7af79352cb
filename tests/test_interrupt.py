"""Every command ends soon after Ctrl-C or SIGTERM, says how to go on, and what it wrote can be used."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

import pdecl
from pdecl import runs
from pdecl.presets import preset
from pdecl_cli import app

SOON = 2.0 + 2.0  # seconds; two of them for a machine with other work
WORKING = 3.0  # seconds of a processor: what is imported and started by then is at work
POINTS = np.array([[0.1, 0.2], [0.5, 0.9]])
TINY = {"size": 12, "width": 12, "depth": 1, "batch": 2, "steps": 2, "watched": 1}

COMMANDS = {
    "solve": "solve model --sample 5,20000 --batch 2 --points points.csv --out many.h5",
    "solve at once": "solve model --sample 5,60000 --batch 30000 --points points.csv --out once.npz",
    "solve to a pipe": "solve model --sample 5,100000 --batch 2 --points points.csv",
    "train": "train burgers --size 12 --width 12 --depth 1 --batch 2 --steps 4000 --out trained",
    "compile": "compile model/model.safetensors --phis 20000 --out fast.safetensors",
    "evaluate": "evaluate model --count 20000 --cache references",
    "data": "data burgers --count 20000 --out data.nc",
    "report": "report model --out report",
}


WRITTEN = {
    "solve": lambda folder: kept(folder / "many.h5") > 0,
    "solve to a pipe": lambda folder: (folder / "solve to a pipe.out").read_text().count("\n") > 1,
    "train": lambda folder: list((folder / "trained" / "checkpoints" / "steps").glob("[0-9]*")),
}


def kept(path):
    """How many answers are in a file that another process writes."""
    if not path.exists():
        return 0
    try:
        with h5py.File(path, locking=False) as file:
            return int(file["done"][()])
    except (OSError, KeyError):  # it is being made
        return 0


class Started:
    """A command as a process of its own, its output in files."""

    def __init__(self, name, folder):
        self.name, self.words = name, COMMANDS[name].split()
        self.output, self.errors = (folder / f"{name}.{kind}" for kind in ("out", "err"))
        with self.output.open("wb") as output, self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pdecl_cli", *self.words],
                cwd=folder, stdout=output, stderr=errors, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def works(self):
        """Whether it is in the midst of its work by now, as what it has written shows, or the time."""
        assert self.process.poll() is None, self.errors.read_text()
        if self.name in WRITTEN:
            return WRITTEN[self.name](self.errors.parent)
        told = subprocess.run(
            ["ps", "-o", "cputimes=", "-p", str(self.process.pid)], capture_output=True, check=True
        )
        return int(told.stdout) >= WORKING

    def end(self, number):
        """The exit status, the seconds to the end, and what was said."""
        began = time.monotonic()
        self.process.send_signal(number)
        status = self.process.wait(60)
        return status, time.monotonic() - began, self.errors.read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run to work with."""
    folder = tmp_path_factory.mktemp("interrupted")
    np.savetxt(folder / "points.csv", POINTS, delimiter=",", header="x,t", comments="")
    made = preset("burgers").with_overrides(**TINY)
    runs.train(made, folder / "model", count=1, watches=2, progress=False)
    return folder


@pytest.fixture(scope="module")
def ended(folder):
    """What each command said and did when it was told to end in the midst of its work."""
    numbers = dict(zip(COMMANDS, 4 * [signal.SIGINT, signal.SIGTERM], strict=True))

    def run(name):
        started = Started(name, folder)
        try:
            while not started.works():
                time.sleep(0.1)
            return 128 + numbers[name], *started.end(numbers[name])
        finally:
            started.process.kill()

    with ThreadPoolExecutor(2) as side_by_side:
        return dict(zip(COMMANDS, side_by_side.map(run, COMMANDS), strict=True))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_soon_and_says_how_to_go_on(name, ended):
    expected, status, seconds, said = ended[name]
    assert status == expected, said
    assert seconds < SOON
    assert "interrupted. " in said
    assert "the same command" in said.lower()
    assert "Traceback" not in said


def test_an_interrupted_stream_says_what_it_keeps(folder, ended):
    _, _, _, said = ended["solve"]
    done = kept(folder / "many.h5")
    assert f"The first {done} φ are in many.h5; the same command goes on" in said
    model = pdecl.load(folder / "model")
    with h5py.File(folder / "many.h5") as file:
        assert file["complete"][()] == 0
        expected = model.solve(model.law.sample(5, 2), throw=False)(POINTS)
        np.testing.assert_allclose(file["u"][:2], expected, rtol=1e-9, atol=1e-12)
        assert np.isfinite(file["u"][done - 1]).all()


def test_an_interrupted_training_goes_on_from_its_checkpoint(folder, ended, monkeypatch):
    assert "goes on from its last checkpoint" in ended["train"][3]
    steps = {int(path.name) for path in (folder / "trained" / "checkpoints" / "steps").glob("[0-9]*")}
    begun = []
    bar = lambda steps, done, show: begun.append(done) or 1 / 0
    monkeypatch.setattr("pdecl.train.training_bar", bar)
    monkeypatch.chdir(folder)
    with pytest.raises(ZeroDivisionError):
        CliRunner().invoke(app, COMMANDS["train"].split(), catch_exceptions=False)
    assert begun == [max(steps)]
    assert max(steps) > 0


def test_what_an_interrupted_command_leaves_is_no_obstacle(folder, ended):
    """Nothing half-written stands where something whole belongs, and a report is written over."""
    assert not {"fast.safetensors", "data.nc", "once.npz"} & {path.name for path in folder.iterdir()}
    words = ["report", str(folder / "model"), "--out", str(folder / "report"), "--no-studies"]
    assert CliRunner().invoke(app, words).exit_code == 0


OFTEN = """
from pdecl_cli import app
from pdecl.streaming import results

results._EVERY = 0.0
app()
"""


def test_a_stream_that_is_killed_again_and_again_ends_the_same(folder):
    count, whole, out = 300, folder / "whole.h5", folder / "killed.h5"
    words = ["solve", folder / "model", "--sample", f"5,{count}", "--points", folder / "points.csv"]
    words = [*map(str, words), "--batch", "2", "--out"]
    CliRunner().invoke(app, [*words, str(whole)])
    before = 0
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", OFTEN, *words, str(out)], stderr=subprocess.DEVNULL
        )
        while process.poll() is None and kept(out) == before:
            time.sleep(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert before < kept(out) < count
        before = kept(out)
    CliRunner().invoke(app, [*words, str(out)])
    with h5py.File(out) as found, h5py.File(whole) as expected:
        assert found["complete"][()] == 1
        assert set(found) == set(expected)
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])
