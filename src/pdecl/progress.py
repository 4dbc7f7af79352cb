"""Progress bars; Rich draws them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .history import History

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def training_bar(steps: int, done: int, show: bool) -> Iterator[Callable[[History], None]]:
    """A bar with the loss, the error on unseen φ, the speed and the time left."""
    with _bar(show, count=True, note=True, transient=False) as bar:
        task = bar.add_task("training", total=steps, completed=done, note="")

        def tell(history: History) -> None:
            parts = [f"loss {history.loss[-1]:.4g}"]
            if history.watched and "error" in history.watched[-1]:
                parts.append(f"unseen error {history.watched[-1]['error']:.3%}")
            if len(history.loss) > 1:
                parts.append(f"{history.steps_per_second:.3g} steps/s")
            bar.update(task, completed=len(history.loss), note=", ".join(parts))

        yield tell


@contextmanager
def counting_bar(what: str, total: int | None, show: bool = True) -> Iterator[Callable[[int], None]]:
    """A bar that is told of each few more that are done, and goes away at the end."""
    with _bar(show, count=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


@contextmanager
def late_bar(what: str, show: bool, after: float = 2.0) -> Iterator[Callable[[float | None, str], None]]:
    """A bar of the share that is done, if it is known, with a note. It shows itself after some seconds,
    so that short work prints nothing, and goes away at the end."""
    bar = _bar(show, note=True)
    task, begun = bar.add_task(what, total=None, note=""), time.monotonic()

    def tell(share: float | None, note: str) -> None:
        if not bar.live.is_started and time.monotonic() - begun > after:
            bar.start()
        bar.update(task, total=None if share is None else 1.0, completed=share, note=note)

    try:
        yield tell
    finally:
        if bar.live.is_started:
            bar.stop()


def _bar(show: bool, count: bool = False, note: bool = False, transient: bool = True) -> "Progress":
    """A bar on standard error: with how many are done, with a note, gone at its end."""
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        *([progress.MofNCompleteColumn()] if count else []),
        *([progress.TextColumn("{task.fields[note]}")] if note else []),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=transient,
        disable=not show,
    )
