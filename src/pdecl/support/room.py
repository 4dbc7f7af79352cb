"""Whether there is room for what is asked, in memory and on the disk, before anything is begun.

Sizes are what is needed at least: what passes may still fail, what does not could not succeed.
"""

import os
import shutil
from pathlib import Path


class NoRoomError(ValueError):
    """What is asked for does not fit, and what to do."""


def require_memory(size: int, what: str, advice: str) -> None:
    """Raises a `NoRoomError` if `size` bytes for `what` are more than there is."""
    free = free_memory()
    if free is not None and size > free:
        raise NoRoomError(
            f"{what} needs at least {amount(size)} of memory, and {amount(free)} are free: {advice}."
        )


def require_disk(path: str | os.PathLike[str], size: int, advice: str) -> None:
    """Raises a `NoRoomError` if a file of `size` bytes does not fit beside `path`."""
    folder = Path(path).absolute().parent
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if size > free:
        raise NoRoomError(
            f"{path} would take {amount(size)}, and {amount(free)} are free there: {advice}."
        )


def free_memory() -> int | None:
    """Bytes that a process may still take, as Linux says; None where that is not known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return None
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = ((group / name).read_text() for name in ("memory.max", "memory.current"))
        return min(free, max(0, int(limit) - int(used)))
    except (OSError, ValueError):  # no such group, or no limit in it
        return free


def amount(size: int) -> str:
    """A size in bytes as it is read: "3.2 GB"."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:,.3g} {name}" if size < 1000 * unit else f"{size / unit:,.0f} {name}"
    return f"{size / 1e3:.3g} kB"
