"""Progress bars; Rich draws them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def counting_bar(what: str, total: int | None, show: bool = True) -> Iterator[Callable[[int], None]]:
    """A bar that is told of each few more that are done, and goes away at the end."""
    with progress_bar(show, count=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


@contextmanager
def late_bar(what: str, show: bool, after: float = 2.0) -> Iterator[Callable[[float | None, str], None]]:
    """A bar of the share that is done, if it is known, with a note. It shows itself after some seconds,
    so that short work prints nothing, and goes away at the end."""
    bar = progress_bar(show, note=True)
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


def progress_bar(
    show: bool, count: bool = False, note: bool = False, transient: bool = True
) -> "Progress":
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
