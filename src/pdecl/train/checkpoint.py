"""Checkpoints of a training run, by Orbax: atomic, written in the background, resumable bit for bit.

A checkpoint holds the arrays of the training state in the order of the tree, and notes: the step, the
history, and a fingerprint of the run (settings, and the name, shape and type of each array). A folder
whose fingerprint differs belongs to another run; it is left as it is.

Where several processes train together all of them open, save and close at the same steps, in one folder
that all of them see. How many there are, and how many devices, is not in a checkpoint: it can be resumed
from with others.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ..parallel.processes import by_first
from .history import History

_MARK, _KEPT = "pdecl-checkpoints.json", 2


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written, or cannot be resumed from, and why."""


class Checkpoints:
    """The checkpoints of one run, in a folder of their own.

    - `folder`: made if missing. If it holds checkpoints of this run, the run goes on from the last.
    - `every`: steps between checkpoints. The last step is always kept.
    """

    def __init__(self, folder: str | os.PathLike[str], every: int = 100):
        if every < 1:
            raise ValueError(f"Checkpoints: every must be at least 1; found {every}.")
        self.folder, self.every = Path(folder).absolute(), every
        self._manager: Any = None

    def __repr__(self) -> str:
        return f"Checkpoints({str(self.folder)!r}, every={self.every})"

    def open(self, state: PyTree, settings: dict[str, Any]) -> tuple[Any, int, History]:
        """The state to go on from, the number of steps behind it, and its history.

        That of the last checkpoint, or the given one where there is none.
        """
        self._fingerprint = {"settings": settings, "arrays": _describe(state)}
        by_first(self._claim, "looks at the folder of checkpoints")
        if not (self.folder / _MARK).exists():
            raise CheckpointError(
                f"{self.folder} is not seen by process {jax.process_index()}: the processes of a run "
                "need a folder that all of them see, on a shared file system."
            )
        import orbax.checkpoint as ocp

        options = ocp.CheckpointManagerOptions(max_to_keep=_KEPT, create=True)
        self._manager = ocp.CheckpointManager(self.folder / "steps", options=options)
        step = self._manager.latest_step()
        if step is None:
            return state, 0, History()
        leaves, tree = jax.tree.flatten(state)
        # Keys are arrays of an own type; Orbax keeps plain ones.
        like = {_name(i): np.asarray(leaf) for i, leaf in enumerate(leaves)}
        try:
            restored = self._manager.restore(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardRestore(like), notes=ocp.args.JsonRestore()
                ),
            )
        except Exception as error:  # Orbax raises many kinds for files cut short
            raise CheckpointError(
                f"the checkpoint of step {step} in {self.folder} cannot be read; it may have been cut "
                f"short. Nothing was changed. To go on from the one before, remove "
                f"{self.folder / 'steps' / str(step)}; to start anew, choose another folder. ({error})"
            ) from error
        leaves = [jax.numpy.asarray(restored.state[_name(i)]) for i in range(len(leaves))]
        return jax.tree.unflatten(tree, leaves), step, History.from_dict(restored.notes["history"])

    def save(self, step: int, state: PyTree, history: History, force: bool = False) -> None:
        """Writes in the background, if it is time or `force`."""
        if not force and step % self.every:
            return
        import orbax.checkpoint as ocp

        # Copied now: the training goes on while it is written. Of what all processes hold each writes
        # a part.
        copied = lambda leaf: np.array(leaf) if leaf.is_fully_addressable else leaf
        arrays = {_name(i): copied(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        with self._explaining():
            if self._manager.latest_step() == step:
                return
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(arrays),
                    notes=ocp.args.JsonSave({"history": history.as_dict()}),
                ),
            )

    def abandon(self) -> None:
        """Waits for nothing: another process has ended, and what it has not written never will be."""
        self._manager = None

    def close(self) -> None:
        """Waits until everything is written."""
        if self._manager is not None:
            with self._explaining():
                self._manager.wait_until_finished()
            self._manager.close()
            self._manager = None

    def _claim(self) -> None:
        """Makes the folder ours, or says whose it is."""
        mark = self.folder / _MARK
        if not mark.exists():
            if self.folder.exists() and any(self.folder.iterdir()):
                raise CheckpointError(
                    f"{self.folder} is not empty and holds no checkpoints of pdecl; "
                    "choose another folder."
                )
            with self._explaining():
                self.folder.mkdir(parents=True, exist_ok=True)
                mark.write_text(json.dumps(self._fingerprint, indent=1))
            return
        try:
            theirs = json.loads(mark.read_text())
            differs = _difference(theirs, json.loads(json.dumps(self._fingerprint)))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{mark} was cut short or is not ours; choose another folder. ({error})"
            ) from error
        if differs:
            raise CheckpointError(
                f"{self.folder} holds the checkpoints of another run: {differs}. Nothing was changed; "
                "go on with the settings it was started with, or choose another folder."
            )

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Whatever Orbax raises when it cannot write, as an error that says what is still there."""
        try:
            yield
        except Exception as error:
            whole = sorted(int(p.name) for p in (self.folder / "steps").glob("*") if p.name.isdigit())
            last = f"the last whole one is of step {whole[-1]}" if whole else "there is none before it"
            raise CheckpointError(
                f"a checkpoint could not be written to {self.folder} (is the disk full?); {last}. "
                f"({error})"
            ) from error


class NoCheckpoints:
    """What stands for `Checkpoints` where none are kept."""

    def open(self, state: PyTree, settings: dict[str, Any]) -> tuple[Any, int, History]:
        return state, 0, History()

    def save(self, step: int, state: PyTree, history: History, force: bool = False) -> None: ...
    def abandon(self) -> None: ...
    def close(self) -> None: ...


def _describe(state: PyTree) -> dict[str, str]:
    return {
        jax.tree_util.keystr(path): f"{leaf.dtype}{list(leaf.shape)}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
    }


def _difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """The first thing in which two fingerprints differ, in words; empty if there is none."""
    for part, what in (("settings", "setting"), ("arrays", "array")):
        for name in sorted(set(theirs[part]) | set(ours[part])):
            there, here = theirs[part].get(name, "missing"), ours[part].get(name, "missing")
            if there != here:
                return f"{what} {name} is {there} there and {here} here"
    return ""


def _name(index: int) -> str:
    return f"{index:05d}"
