"""Every command ends soon after Ctrl-C or SIGTERM, says how to go on, and what it wrote can be used."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

import pdecl
from pdecl.family.experiment import preset
from pdecl.report import runs
from pdecl_cli import app

WORKING = 2.0  # seconds of a processor, once signals are listened to: the work has begun by then
POINTS = np.array([[0.1, 0.2], [0.5, 0.9]])
TINY = {"size": 12, "width": 12, "depth": 1, "batch": 2, "steps": 2, "metrics_phis": 1}

COMMANDS = {
    "solve": "solve model --sample 5,20000 --batch 2 --points points.csv --out many.h5",
    "solve at once": "solve model --sample 5,60000 --batch 30000 --points points.csv --out once.npz",
    "solve to a pipe": "solve model --sample 5,100000 --batch 2 --points points.csv",
    "train": "train burgers --size 12 --width 12 --depth 1 --batch 2 --steps 4000 --out trained",
    "train without network": "train heat.py --tolerance 1e-9 --budget 3000 --out own",
    "compile": "compile model/model.safetensors --phis 20000 --out fast.safetensors",
    "evaluate": "evaluate model --count 20000 --cache references",
    "data": "data burgers --count 20000 --out data.nc",
    "report": "report model --out report",
}
OVER_SOON = {  # and what of them takes no time
    "info": "pdecl.support.environment.environment",
    "results .": "pdecl.report.runs.find",
    "merge u.h5": "pdecl.stream.merge",
    "new heat.py": "pdecl.support.files.replacing",
}

WRITTEN = {
    "solve": lambda folder: kept(folder / "many.h5") > 0,
    "solve to a pipe": lambda folder: (folder / "solve to a pipe.out").read_text().count("\n") > 1,
    "train": lambda folder: checkpoints(folder),
}


def checkpoints(folder):
    """The steps of the checkpoints that are whole: one that is being written has more to its name."""
    steps = (folder / "trained" / "checkpoints" / "steps").glob("[0-9]*")
    return [int(path.name) for path in steps if path.name.isdigit()]


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
        """Whether it is in the midst of its work by now: as what it has written shows, or the time."""
        assert self.process.poll() is None, self.errors.read_text()
        if self.name in WRITTEN:
            return WRITTEN[self.name](self.errors.parent)
        if not self.listens():
            self.before = self.spent()
        return self.spent() - self.before >= WORKING

    def listens(self):
        """Whether it has a handler for SIGTERM, as every command has once it has begun."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        caught = int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16)
        return bool(caught >> (signal.SIGTERM - 1) & 1)

    def spent(self):
        """Seconds of a processor."""
        times = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def end(self, number):
        """The exit status, the seconds of a processor that each core gave it to the end, and what was
        said. A busy machine gives fewer, never more: a test by the clock would depend on it."""
        began = self.spent()
        self.process.send_signal(number)
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        seconds = (used.ru_utime + used.ru_stime - began) / os.cpu_count()
        return self.process.returncode, seconds, self.errors.read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run to work with."""
    folder = tmp_path_factory.mktemp("interrupted")
    np.savetxt(folder / "points.csv", POINTS, delimiter=",", header="x,t", comments="")
    made = preset("burgers").with_overrides(**TINY)
    runs.train(made, folder / "model", count=1, metrics_count=2, progress=False)
    CliRunner().invoke(app, ["new", str(folder / "heat.py")])
    return folder


@pytest.fixture(scope="module")
def ended(folder):
    """What each command said and did when it was told to end in the midst of its work."""
    numbers = dict(zip(COMMANDS, cycle([signal.SIGINT, signal.SIGTERM]), strict=False))

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
    assert seconds < 2
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
        expected = model.solve(model.family.sample(5, 2), throw=False)(POINTS)
        np.testing.assert_allclose(file["u"][:2], expected, rtol=1e-9, atol=1e-12)
        assert np.isfinite(file["u"][done - 1]).all()


def test_an_interrupted_training_goes_on_from_its_checkpoint(folder, ended, monkeypatch):
    assert "goes on from its last checkpoint" in ended["train"][3]
    steps = checkpoints(folder)
    begun = []
    bar = lambda steps, done, show: begun.append(done) or 1 / 0
    monkeypatch.setattr("pdecl.train.fit._training_bar", bar)
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


QUICK = """
import importlib, os, sys, time
from pdecl_cli import app

number, place = int(sys.argv.pop(1)), sys.argv.pop(1)

def busy(*_, **__):
    os.kill(os.getpid(), number)
    time.sleep(60)

module, name = place.rsplit(".", 1)
setattr(importlib.import_module(module), name, busy)
app()
"""


@pytest.mark.parametrize("words", OVER_SOON)
def test_commands_that_are_over_soon(words, tmp_path):
    """The signal comes where they have begun."""
    number = signal.SIGTERM if len(words) % 2 else signal.SIGINT
    program = [sys.executable, "-c", QUICK, str(int(number)), OVER_SOON[words], *words.split()]
    ended = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 128 + number, ended.stderr
    assert ended.stderr.strip() == "interrupted. Nothing was written; the same command begins anew."
    assert not list(tmp_path.iterdir())


def test_no_command_is_left_out():
    tried = {words.split()[0] for words in [*COMMANDS.values(), *OVER_SOON]}
    assert tried == {command.callback.__name__ for command in app.registered_commands}


DISTURBED = """
import importlib.util, os, signal, sys, time, weakref

spec = importlib.util.spec_from_file_location("interrupt", sys.argv.pop(1))  # nothing else of pdecl
interrupt = importlib.util.module_from_spec(spec)
spec.loader.exec_module(interrupt)
interrupt.GRACE = float(sys.argv.pop(1))
app = interrupt.Commands(add_completion=False)

class Thing:
    pass

@app.command()
@interrupt.interruptible
def run(how: str):
    interrupt.resumes("Go on.")
    tell = lambda *_: os.kill(os.getpid(), signal.SIGINT)
    if how == "callback":
        thing = Thing()
        reference = weakref.ref(thing, tell)
        del thing
        time.sleep(60)
    try:
        tell()
        time.sleep(60)
    finally:
        if how == "again":
            tell()
        if how != "once":
            time.sleep(60)
        print("closed")

app()
"""


@pytest.mark.parametrize(
    ("how", "grace", "closed"),
    [("once", 60, True), ("again", 60, False), ("callback", 0.1, False), ("slow", 0.1, False)],
)
def test_a_second_signal_and_one_that_is_lost(how, grace, closed):
    """Files are closed after the first; a second, or the end of the grace, ends the process at once. One
    that comes inside a callback goes nowhere in the main thread, and no traceback tells of it."""
    source = importlib.util.find_spec("pdecl_cli.interrupt").origin
    program = [sys.executable, "-c", DISTURBED, source, str(grace), how]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=50)
    assert ended.returncode == 130
    assert ended.stderr == "interrupted. Go on.\n"
    assert ("closed" in ended.stdout) == closed


OFTEN = """
from pdecl_cli import app
from pdecl.stream import results

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
