"""What does not depend on the number of devices and processes; and what becomes of one that ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from several_devices import decay, functions, train

import pdecl
from pdecl.parallel.devices import mesh_of, mesh_of_batch

SCRIPT = Path(__file__).parent / "several_devices.py"
DEVICES = 4


def start(*arguments, flags="", command=(str(SCRIPT),), **options):
    environment = os.environ | {
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}",
        "PYTHONPATH": os.pathsep.join(map(str, sys.path)),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    return subprocess.Popen(
        [sys.executable, *command, *map(str, arguments)], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def words(process, seconds=500):
    """Its status, and what it wrote. It must end by itself."""
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.fixture(scope="module")
def simulated():
    flags = f"--xla_force_host_platform_device_count={DEVICES}"
    status, out, err = words(start("devices", flags=flags))
    assert status == 0, err
    return json.loads(out.splitlines()[-1])


def test_losses_do_not_depend_on_the_number_of_devices(simulated):
    found = simulated["losses"]
    assert len(set(found["none"])) == 3
    for size in ("1", "2", "4"):
        np.testing.assert_allclose(found[size], found["none"], rtol=1e-10)
    np.testing.assert_allclose(found["drawn on a mesh"], found["drawn"], rtol=1e-10)
    np.testing.assert_allclose(found["hard 4"], found["hard"], rtol=1e-10)
    assert not np.allclose(found["drawn"], found["none"], rtol=1e-3)


@pytest.mark.parametrize("what", ["solve", "compiled"])
def test_a_split_batch_is_solved_where_it_is(simulated, what):
    """Without a word between devices; and one that fails has its status in its place."""
    found = simulated[what]
    one, many = found["codes"]
    failed = np.flatnonzero(np.asarray(one) > pdecl.Status.OVERDETERMINED)
    assert failed.tolist() == [{"solve": 5, "compiled": 300}[what]]
    assert one == many
    assert found["difference"] < 1e-9
    assert found["devices"] == DEVICES
    assert found["programs"] > 0
    assert found["that ask"] == 0


def test_rows_of_one_system_stay_where_their_points_are(simulated):
    """Of 257 rows of 32 functions only columns and sums over rows go between devices."""
    found = simulated["one system"]
    assert found["difference"] < 1e-9
    assert 256 < found["most told"] <= 32 * 32


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def both(folder, steps=3, pause=0, words=("same", "same")):
    port = free_port()
    values = [[number, 2, port, str(folder), steps, pause, words[number]] for number in (0, 1)]
    return [start("process", *map(json.dumps, own)) for own in values]


def test_two_processes_and_one_that_is_killed(tmp_path):
    """They end as one process does: from the start, after a SIGKILL, and as one process goes on."""
    folder, wanted = tmp_path / "checkpoints", train(None, steps=6)[1].loss
    first, second = both(folder, steps=6, pause=0.5)
    until = time.monotonic() + 240
    while not (folder / "steps" / "2").exists() and first.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.02)
    second.kill()
    status, _, err = words(first)
    if status == 3:
        assert "was not done by all 2 processes: another one has ended" in err
    else:  # it was waiting at a checkpoint, and JAX ended it when the other had been silent for a minute
        assert status == -signal.SIGABRT
    words(second)
    kept = max(int(path.name) for path in (folder / "steps").glob("[0-9]*") if path.name.isdigit())
    assert 2 <= kept < 6

    for status, out, err in map(words, both(folder, steps=5)):
        assert status == 0, err
        np.testing.assert_allclose(json.loads(out.splitlines()[-1]), wanted[:5], rtol=1e-10)
    history = train(None, steps=6, checkpoints=pdecl.Checkpoints(folder))[1]
    np.testing.assert_allclose(history.loss, wanted, rtol=1e-10)


def test_processes_that_differ_are_told_apart(tmp_path):
    for number, process in enumerate(both(tmp_path / "none", words=("one", "other"))):
        status, out, err = words(process)
        assert status == 3
        assert 'the word is "one" in process 0 and "other" in process 1' in err, number
        assert not out
    assert not (tmp_path / "none").exists()


def command(*more):
    tiny = ["--size", 12, "--width", 12, "--depth", 1, "--batch", 2, "--steps", 4000]
    return start("train", "burgers", *tiny, *more, command=("-m", "pdecl_cli"))


def test_a_command_says_once_what_its_processes_find_wrong(tmp_path):
    out = tmp_path / "run"
    status, printed, err = words(command("--batch", 3, "--out", out, "--processes", 2))
    assert status == 2
    assert not printed
    assert err.count("a batch of 3 φ cannot be split evenly over 2 devices") == 1
    assert err.count("error:") == 1
    assert not out.exists()


def children(process):
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(number) for number in found]


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for children as Linux lists them")
@pytest.mark.parametrize("how", ["a child is killed", "the command is ended", "the command is killed"])
def test_no_process_outlives_another(tmp_path, how):
    process = command("--out", tmp_path / "run", "--processes", 2)
    until = time.monotonic() + 240
    while len(children(process)) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    started = children(process)
    if how == "a child is killed":
        os.kill(started[1], signal.SIGKILL)
    else:
        process.send_signal(signal.SIGTERM if how == "the command is ended" else signal.SIGKILL)
    status, _, err = words(process)
    if how == "a child is killed":
        assert status == 2
        assert "process 1 of 2 was ended by SIGKILL (is the memory full?), and the others were" in err
    elif how == "the command is ended":
        assert status == 143
        assert err.count("interrupted. The same command goes on from its last checkpoint") == 1
    until = time.monotonic() + 240
    while any(Path(f"/proc/{number}/cmdline").exists() for number in started):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_devices_that_cannot_be_meant():
    one = jax.devices()[0]
    with pytest.raises(TypeError, match=r"devices` must be a sequence of JAX's devices.*found 'cpu'"):
        mesh_of("cpu", "fit")
    with pytest.raises(TypeError, match=r"found 2 in it"):
        mesh_of([2], "fit")
    with pytest.raises(ValueError, match=r"`devices` is empty"):
        train([])
    with pytest.raises(ValueError, match=r"names a device twice"):
        train([one, one])


def test_one_device_that_is_named_is_none():
    pdecl_fit = train([jax.devices()[0]], steps=2)
    np.testing.assert_allclose(pdecl_fit[1].loss, train(None, steps=2)[1].loss, rtol=1e-12)
    assert mesh_of_batch(functions()) is None
    assert mesh_of_batch(decay().sample(jax.random.key(0), 4)) is None
