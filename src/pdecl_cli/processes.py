"""`--processes 2` and `--distributed`: a command that several processes run together.

With `--processes` the command that was typed starts others on its machine, each with a share of its
cores, and watches them; it takes no device itself. With `--distributed` a launcher has started one for
each host. Either way the first process writes and prints; the others are silent, unless one of them
fails where the first does not.
"""

import io
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any

import typer

from .common import CANNOT, say, stop
from .interrupt import Interrupted, leave, silent

_ADDRESS = "PDECL_PROCESS"  # "host:port number count", for a process that `start` has started
_POLL, _PATIENCE = (
    0.05,
    3.0,
)  # seconds: between looks at processes, and that one is waited for to explain


def start(arguments: Sequence[str], count: int) -> None:
    """Runs the command in `count` processes of this machine until all are done, or one has failed: then
    the others are ended, and the command ends with one message."""
    address, cores = f"127.0.0.1:{_free_port()}", _cores(count)
    command = [sys.executable, "-m", "pdecl_cli", *_alone(arguments), "--distributed"]
    processes: list[subprocess.Popen[bytes]] = []
    with ExitStack() as files:
        said = [files.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
        files.callback(_end, processes)
        for number in range(count):
            own = {_ADDRESS: f"{address} {number} {count}"}
            quiet = None if number == 0 else subprocess.DEVNULL
            process = subprocess.Popen(
                command,
                env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **own},
                stdin=subprocess.PIPE,  # which closes when this process ends, however it does
                stdout=quiet,
                stderr=None if number == 0 else said[number],
                start_new_session=True,  # Ctrl-C is for this process alone
            )
            processes.append(process)
            if cores is not None:  # before it makes threads, which inherit them
                os.sched_setaffinity(process.pid, cores[number])
        _watch(processes, said)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
        process.wait()
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h")  # a progress bar hides the cursor


def _watch(processes: Sequence[subprocess.Popen[bytes]], said: Sequence[IO[bytes]]) -> None:
    status = lambda: [process.poll() for process in processes]
    while not any(now := status()):
        if None not in now:
            return
        time.sleep(_POLL)
    number = next(number for number, code in enumerate(now) if code)
    # What all of them find wrong the first one says. What one alone does not survive is said here.
    until = time.monotonic() + _PATIENCE
    while number > 0 and (now[number] or 0) > 0 and status()[0] is None and time.monotonic() < until:
        time.sleep(_POLL)
    if (code := processes[0].poll()) is not None and code > 0:
        raise typer.Exit(code)
    code, which = now[number] or 0, f"process {number} of {len(processes)}"
    if code > 0:
        said[number].seek(0)
        words = said[number].read().decode(errors="replace").strip().removeprefix("error: ")
        stop(f"{which} failed, and the others were ended: {words or f'its exit status is {code}'}")
    with suppress(ValueError):
        which += f" was ended by {signal.Signals(-code).name}"
    stop(f"{which}{_guess(-code)}, and the others were ended. The same command goes on from the last "
         "checkpoint, if there is one.")  # fmt: skip


def _guess(number: int) -> str:
    return " (is the memory full?)" if number == signal.SIGKILL else ""


def _alone(arguments: Sequence[str]) -> list[str]:
    """The arguments without `--processes`."""
    kept, skip = [], False
    for word in arguments:
        if not skip and word != "--processes" and not word.startswith("--processes="):
            kept.append(word)
        skip = word == "--processes"
    return kept


def _cores(count: int) -> list[set[int]] | None:
    """This process's cores in equal parts; None where there are too few, or the system does not say."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    own = sorted(os.sched_getaffinity(0))
    each = len(own) // count
    return [set(own[i * each : (i + 1) * each]) for i in range(count)] if each else None


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def together(distributed: bool, facts: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """What a command does as one of several processes: it finds the others, and compares with them its
    versions, its arguments and `facts`."""
    if not distributed:
        yield
        return
    from pdecl.parallel import processes

    given = os.environ.get(_ADDRESS, "").split()
    if given:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    _python_alone_prints()
    number, printed, complained, heard = 0, sys.stdout, sys.stderr, io.StringIO()
    try:
        if given:
            processes.join(given[0], int(given[2]), int(given[1]), devices=[int(given[1])])
        else:
            processes.join()
        if not processes.first():
            number = processes.number()
            sys.stdout, sys.stderr = io.StringIO(), heard
            silent()
        processes.require_same({**_versions(), "the command": sys.argv[1:], **facts()})
        yield
    except Interrupted:
        if number:
            leave(128 + signal.SIGTERM)
        raise
    except BaseException as error:
        lost = isinstance(error, processes.LostProcess)
        if lost and given:
            time.sleep(2 * _PATIENCE)  # the process that started this one knows more, and ends it
        _say_why(error)
        sys.stdout, sys.stderr = printed, complained
        first_says_why = processes.told(own=not lost, seconds=_PATIENCE)
        if number and not first_says_why:
            which = "" if given else f"process {number}: "
            sys.stderr.write(which + heard.getvalue())
        leave(error.exit_code if isinstance(error, typer.Exit) else CANNOT)
    finally:
        sys.stdout, sys.stderr = printed, complained


def _say_why(error: BaseException) -> None:
    """What ended the command, on standard error; `stop` has said it of an exit."""
    from pdecl import ProcessError

    if isinstance(error, ProcessError):
        say("[bold red]error:[/]", str(error))
    elif not isinstance(error, typer.Exit):
        traceback.print_exception(error, file=sys.stderr)


def _python_alone_prints() -> None:
    """Libraries below Python tell on standard output how they connect: that goes nowhere."""
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    sys.stdout = os.fdopen(kept, "w", buffering=1, encoding=sys.stdout.encoding)


def _end_with_parent() -> None:
    with suppress(OSError):
        while os.read(0, 1024):
            pass
    os._exit(128 + signal.SIGTERM)


def _versions() -> dict[str, Any]:
    import platform

    from pdecl.support.environment import versions

    found = versions("pdecl", "jax", "jaxlib", "equinox", "optax", "lineax", "numpy", "orbax-checkpoint")
    return {"Python": platform.python_version(), **{f"the version of {k}": v for k, v in found.items()}}
