"""Several processes of one run: how they find each other, agree, and learn that one of them has ended.

`jax.distributed` is the engine. Its coordination service holds words by key, which is how processes
agree here: nothing on a device, so that a process which never comes is a time limit and not a hang.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

import jax

_T = TypeVar("_T")

# Seconds: until a process that is silent counts as dead, that processes wait for each other at the start
# and the end, and that others wait for what the first one does alone.
HEARTBEAT, START, END, ALONE = 60, 120, 30, 3600
# What launchers say: how many processes they have started, and which of them this is.
_LAUNCHERS = (("SLURM_NTASKS", "SLURM_PROCID"), ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"))
_numbers = count()


class ProcessError(RuntimeError):
    """Processes of one run that differ, do not find each other, or lost one of them."""


class LostProcess(ProcessError):
    """Another process of the run has ended, or cannot be reached."""


def launched() -> bool:
    """Whether a launcher (Slurm's srun, Open MPI) has started several processes, this one first."""
    return any(
        int(os.environ.get(count, 1)) > 1 and os.environ.get(number) == "0"
        for count, number in _LAUNCHERS
        if "SLURM" not in count or "SLURM_STEP_NODELIST" in os.environ  # not in the script itself
    )


def join(
    address: str | None = None,
    processes: int | None = None,
    number: int | None = None,
    devices: Sequence[int] | None = None,
) -> None:
    """Joins the other processes. Under Slurm, Open MPI and Kubernetes nothing has to be said.

    - `address`: of the first process, "host:port". - `processes`: how many. - `number`: of this one.
    - `devices`: which of the machine's GPUs it takes; all without it.
    """
    given: dict[str, Any] = {}
    if address is not None:
        given = {
            "coordinator_address": address,
            "num_processes": processes,
            "process_id": number,
            "local_device_ids": devices,
            "cluster_detection_method": "deactivate",
        }
        if number == 0:
            given["coordinator_bind_address"] = address
    try:
        jax.distributed.initialize(
            **given,
            initialization_timeout=START,
            heartbeat_timeout_seconds=HEARTBEAT,
            shutdown_timeout_seconds=END,
        )
    except ValueError as error:
        raise ProcessError(
            "no launcher was found that says which process this is: start it with srun or mpirun, or on "
            f"one machine with --processes 2. ({error})"
        ) from error
    except jax.errors.JaxRuntimeError as error:
        raise ProcessError(
            f"the processes did not find each other within {START} seconds. Were all of them started, "
            f"and can they reach the first one? ({_brief(error)})"
        ) from error


def several() -> bool:
    """Whether this process is one of several of a run."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def first() -> bool:
    """Whether this process is the one that writes and prints."""
    return not several() or jax.process_index() == 0


def number() -> int:
    """Of this process."""
    return jax.process_index()


def require_same(facts: Mapping[str, Any]) -> None:
    """That all processes say the same of each thing, such as versions and arguments."""
    if not several():
        return
    own = {name: json.dumps(value, default=str) for name, value in facts.items()}
    place = f"pdecl/facts/{next(_numbers)}"
    if not first():
        _client().key_value_set(f"{place}/{jax.process_index()}", json.dumps(own))
        verdict = _wait(f"{place}/verdict", 2 * START, "the first process to compare the others with it")
    else:
        verdict = ""
        for other in range(1, jax.process_count()):
            theirs = json.loads(_wait(f"{place}/{other}", START, f"process {other} to say what it runs"))
            for name in sorted(set(own) | set(theirs)):
                here, there = own.get(name, "missing"), theirs.get(name, "missing")
                if here != there and not verdict:
                    verdict = f"{name} is {here} in process 0 and {there} in process {other}"
        _client().key_value_set(f"{place}/verdict", verdict)
    if verdict:
        raise ProcessError(
            f"the processes of this run differ: {verdict}. Nothing was changed; start all with the same."
        )


def by_first(function: Callable[[], _T], what: str) -> _T | None:
    """Has the first process do something, while the others wait; None in these. What it raises is raised
    in all of them."""
    if not several():
        return function()
    place = f"pdecl/first/{next(_numbers)}"
    if first():
        try:
            result = function()
        except Exception as error:
            _client().key_value_set(place, f"{type(error).__name__}: {error}")
            raise
        _client().key_value_set(place, "")
        return result
    if failure := _wait(place, ALONE, f"the first process, which {what}"):
        raise ProcessError(f"the first process failed: {failure}")
    return None


def first_then_all(function: Callable[[], _T], what: str) -> _T:
    """The same in every process, in the first one before the others: they find what it has put away."""
    result = by_first(function, what)
    return function() if result is None else result


def lost(error: Exception, doing: str) -> LostProcess:
    """What to say where a collective has failed: nearly always another process has ended."""
    return LostProcess(
        f"{doing} was not done by all {jax.process_count()} processes: another one has ended, or cannot "
        f"be reached. ({_brief(error)})"
    )


def told(own: bool, seconds: float) -> bool:
    """To be called by a process that ends early, before it does: whether the first one ends early too,
    of itself, so that it says why. The first one waits for the others, who hear it through it, for some
    seconds at most.

    - `own`: whether it ends of itself, and not because it lost another.
    """
    if not several():
        return False
    limit, failed = round(1000 * seconds), (jax.errors.JaxRuntimeError, RuntimeError)
    with suppress(*failed):
        _client().key_value_set(f"pdecl/ended/{jax.process_index()}", "own" if own else "lost")
        if not first():
            return bool(_client().blocking_key_value_get("pdecl/ended/0", limit) == "own")
        until = time.monotonic() + seconds
        for other in range(1, jax.process_count()):
            left = max(1, round(1000 * (until - time.monotonic())))
            _client().blocking_key_value_get(f"pdecl/ended/{other}", left)
    return False


def _wait(key: str, seconds: int, what: str) -> str:
    try:
        return str(_client().blocking_key_value_get(key, 1000 * seconds))
    except jax.errors.JaxRuntimeError as error:
        if "DEADLINE_EXCEEDED" in str(error):
            raise ProcessError(f"waited {seconds} seconds for {what}, in vain.") from error
        raise LostProcess(
            f"while waiting for {what}: the first process has ended, or cannot be reached. "
            f"({_brief(error)})"
        ) from error


def _brief(error: Exception) -> str:
    return str(error).splitlines()[0][:300]


def _client() -> Any:
    from jax._src import distributed  # JAX offers its words by key nowhere else; Orbax takes them here

    return distributed.global_state.client
