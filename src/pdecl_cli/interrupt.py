"""How a command ends when it is told to, by Ctrl-C (SIGINT) or SIGTERM: within two seconds, with a word
on what is kept and how to go on.

Python's handler of a signal raises `KeyboardInterrupt` in the main thread, which closes files on its way
out. It does not run while that thread is inside XLA, and a long solve is one call of it; and what it
raises inside a destructor, or a callback of a weak reference, is printed and lost. So the signal also
reaches a second thread, by the file descriptor that the interpreter writes signals to; if the process
has not ended `GRACE` seconds later, that thread ends it. What is on the disk by then stays as it does
when a process is killed. A second signal ends the process at once, from that thread alone: it must not
disturb what the first has begun.
"""

import functools
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, ParamSpec

import typer

GRACE = 1.5
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}  # as shells have it: 128 + the signal's number

_P = ParamSpec("_P")


class Interrupted(KeyboardInterrupt):
    """The command was told to end; `number` is the signal's."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = signal.Signals(number)


class _Command:
    """What the command that runs would say if it were interrupted now, and whether it is a process of
    its own, which ends without clean-up then: XLA would first finish what it has begun."""

    words, alone, quiet = "", False, False


def silent() -> None:
    """Says nothing when it is interrupted: another process of the command does."""
    _Command.quiet = True


def resumes(words: str) -> None:
    """Says what is kept of the command's work so far, and how to go on, should it be interrupted."""
    _Command.words = words


def interruptible(command: Callable[_P, None]) -> Callable[_P, None]:
    """The same command, ended by signals as this file says."""

    @functools.wraps(command)
    def run(*arguments: _P.args, **options: _P.kwargs) -> None:
        resumes("Nothing was written; the same command begins anew.")
        with _watched():
            try:
                command(*arguments, **options)
            except Interrupted as interrupted:
                if not _Command.quiet:
                    typer.echo(_sentence(), err=True)
                status = STATUS[interrupted.number]
                if _Command.alone:
                    leave(status)
                raise typer.Exit(status) from None

    return run


class Commands(typer.Typer):
    """The commands of a process of their own."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        _Command.alone = True
        return super().__call__(*arguments, **options)


@contextmanager
def _watched() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # where signals do not arrive
        yield
        return
    heard, wakes = os.pipe()
    os.set_blocking(wakes, False)
    before = {number: signal.signal(number, _interrupt) for number in STATUS}
    woken = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    lost, sys.unraisablehook = sys.unraisablehook, _said_by_the_watcher
    watcher = threading.Thread(target=_watch, args=(heard,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = lost
        os.close(wakes)
        watcher.join(GRACE)


def _interrupt(number: int, frame: Any) -> NoReturn:
    for each in STATUS:
        signal.signal(each, lambda *_: None)  # a second one is for the watcher alone
    raise Interrupted(number)


def _said_by_the_watcher(lost: Any) -> None:
    """Of an interruption that went nowhere there is nothing to print: `_watch` will end the process."""
    if not isinstance(lost.exc_value, Interrupted):
        sys.__unraisablehook__(lost)


def _watch(heard: int) -> None:
    """Reads the numbers of signals; an empty answer says that the command has ended."""
    try:
        while first := os.read(heard, 1):
            if first[0] in STATUS:
                second = select.select([heard], [], [], GRACE)[0]
                if not second or os.read(heard, 1):
                    _end(STATUS[signal.Signals(first[0])])
    finally:
        os.close(heard)


def _end(status: int) -> NoReturn:
    """Ends the process from beside its main thread, which may hold the locks of its output."""
    show_cursor = "\x1b[?25h\n" if os.isatty(2) else ""  # a progress bar hides it
    with suppress(OSError):
        os.write(2, b"" if _Command.quiet else f"{show_cursor}{_sentence()}\n".encode())
    os._exit(status)


def leave(status: int) -> NoReturn:
    """Ends the process without the clean-up of JAX, which would finish its work, or wait for others."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)


def _sentence() -> str:
    return f"interrupted. {_Command.words}"
