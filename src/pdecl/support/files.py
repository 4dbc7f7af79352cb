"""Writing files so that nothing half-written ever stands instead of something whole."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place when it is complete and on the disk."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _flush(temporary)
        # mkstemp makes private files; ours are as readable as any other file of the user.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        os.replace(temporary, path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, "utf-8")


def write_json(path: str | os.PathLike[str], value: object) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False))


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Compressed `.npz`."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raises an OSError, in words, where no file can be written: before the work, not after it."""
    path = Path(path)
    if path.is_dir():
        raise OSError(f"{path} is a folder, and a file is to be written: give another path.")
    folder = path.absolute().parent
    while not (folder.exists() or folder.is_symlink()):
        folder = folder.parent
    if not folder.is_dir():
        raise OSError(f"{path} cannot be written: {folder} is no folder; give another path.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(f"{path} cannot be written: {folder} does not allow it; give another path.")


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
