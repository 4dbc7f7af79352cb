"""Every command and every verb of Python, many times, on a busy machine: does any of them stand still?

    make stress                                        a thousand runs and more
    python benchmarks/stress.py --only solve           what has that for its name, or in it
    python benchmarks/stress.py --only verbs           or all commands, or all verbs
    python benchmarks/stress.py --runs 3000 --seconds 7200
    python benchmarks/stress.py --anew                 without the runs of before

XLA's CPU runtime has one pool of threads, and programs whose parts wait for each other's threads stand
still for ever, sometimes. How often depends on the number of threads, here by PJRT_NPROC, and on what
else the machine does, here a process for each core that only counts. A command is a process for each
run; a verb is run many times in one process, after its compilation. What was compiled is kept in a
folder for each number of threads. Runs count when they are done, in benchmarks/results/stress.json:
the same command goes on where another was cut.

A process stands still that has made no run and used no processor for `--still` seconds. Where a progress
bar is drawn beside, so does one that made no run in thirty times as long and got less than a tenth of
a processor, or that made none in as many seconds of one: a busy machine gives them late. Its native
stack is written into `--out` (by gdb, else py-spy, else what Linux tells of its threads), it is killed,
and a new one makes the rest of the runs, up to three times.
The exit status is 1 if any stood still or failed, or the time was up.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table
from stress_cases import COMMANDS, DEVICES, RARE, VERBS

RESULTS = Path(__file__).parent / "results/stress.json"
THREADS = (2, 3, 4)
_TRIES = 3  # processes for the runs of one row of the table
_SHARE = 8  # runs of a verb for one of those that take long
_PATIENCE, _LEAST = 30, 0.1
_FRAMES = 40
_SIMULATED = "--xla_force_host_platform_device_count=4"
_CACHE = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}


@dataclass
class Row:
    """What the runs of one thing with a number of threads came to."""

    name: str
    threads: int
    wanted: int
    runs: int = 0
    standing: int = 0
    failed: int = 0
    seconds: float = 0.0
    load: float = 0.0  # of the machine, in the last minute of the runs


def main() -> int:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    console, began = Console(), time.monotonic()
    rows = _planned(options.runs, options.only, options.threads)
    if not rows:
        console.print(f"nothing has {options.only!r} in its name: {', '.join([*COMMANDS, *VERBS])}")
        return 2
    kept = _Kept(options.keep, rows, options.anew)
    console.print(f"{sum(row.wanted for row in rows)} runs; {_stack_tool()}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of what ends other processes
    with _load(options.load):
        for row in rows:
            if (left := options.seconds - (time.monotonic() - began)) <= 0:
                break
            if row.runs < row.wanted:
                _run(row, options, left, kept, console)
    console.print(_table(rows))
    done, wanted = sum(row.runs for row in rows), sum(row.wanted for row in rows)
    standing, failed = sum(row.standing for row in rows), sum(row.failed for row in rows)
    console.print(
        f"{done} of {wanted} runs in {time.monotonic() - began:.0f} s; {standing} stood still, "
        f"{failed} failed; output and stacks in {options.out}"
    )
    return int(standing + failed > 0 or done < wanted)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000, help="in all, at least (1000)")
    parser.add_argument("--seconds", type=float, default=2400, help="begin nothing after them (2400)")
    parser.add_argument(
        "--only", default="", help="what has this for its name, or in it; commands; verbs"
    )
    parser.add_argument(
        "--threads", default=THREADS, type=lambda text: tuple(map(int, text.split(","))),
        metavar="2,3,4", help="of XLA's pool",
    )  # fmt: skip
    parser.add_argument(
        "--load", type=int, default=os.cpu_count(), metavar="N", help="processes beside (one a core)"
    )
    parser.add_argument("--still", type=float, default=20, help="seconds without work (20)")
    parser.add_argument("--out", type=Path, default=Path("stress"), help="for what is written (stress)")
    parser.add_argument("--keep", type=Path, default=RESULTS, help="where runs are counted")
    parser.add_argument("--anew", action="store_true", help="count from nothing")
    return parser.parse_args()


def _planned(runs: int, only: str, threads: tuple[int, ...]) -> list[Row]:
    """One run of each command and number of threads, and the rest shared out among the verbs: those
    that take long get an eighth. Commands need what those before them have made."""
    names = [*COMMANDS, *VERBS]
    exactly = {"commands": [*COMMANDS], "verbs": [*VERBS]}.get(
        only, [name for name in names if name == only]
    )
    chosen = exactly or [name for name in names if only in name]
    last = max((place for place, name in enumerate(COMMANDS, 1) if name in chosen), default=0)
    commands, verbs = [*COMMANDS][:last], [name for name in VERBS if name in chosen]
    shares = sum(1 if name in RARE else _SHARE for name in verbs)
    left = max(0, runs - len(commands) * len(threads))
    share = max(1, -(-left // max(1, shares * len(threads))))
    rows = [Row(name, count, 1) for count in threads for name in commands]
    wanted = {name: share if name in RARE else _SHARE * share for name in verbs}
    return rows + [Row(name, count, wanted[name]) for count in threads for name in verbs]


class _Kept:
    """The runs of this and of earlier calls, in a file."""

    def __init__(self, path: Path, rows: list[Row], anew: bool):
        self.path, self.setting = path, {"jaxlib": version("jaxlib"), "cores": os.cpu_count()}
        before = json.loads(path.read_text()) if path.exists() and not anew else {"rows": []}
        self._rows = {(row["name"], row["threads"]): Row(**row) for row in before["rows"]}
        for row in rows:
            if earlier := self._rows.get((row.name, row.threads)):
                row.runs, row.standing = earlier.runs, earlier.standing
                row.failed, row.seconds, row.load = earlier.failed, earlier.seconds, earlier.load
            self._rows[row.name, row.threads] = row

    def write(self) -> None:
        rows = [asdict(row) for row in self._rows.values() if row.runs + row.standing + row.failed]
        counts = {what: sum(row[what] for row in rows) for what in ("runs", "standing", "failed")}
        lines = ",\n".join(json.dumps(row) for row in rows)
        head = json.dumps(self.setting | counts)[:-1]
        self.path.write_text(f'{head}, "rows": [\n{lines}\n]}}\n')


def _run(row: Row, options: argparse.Namespace, left: float, kept: _Kept, console: Console) -> None:
    """The runs of a row, in a new process after one that stood still."""
    end = time.monotonic() + left
    for turn in range(_TRIES):
        if row.runs >= row.wanted or time.monotonic() > end:
            break
        how = _one_process(row, options, turn, end, kept)
        if how:
            console.print(f"[bold red]{row.name}[/], {row.threads} threads: {how}")
    console.print(f"{row.name}, {row.threads} threads: {row.runs} runs in {row.seconds:.0f} s")


def _one_process(row: Row, options: argparse.Namespace, turn: int, end: float, kept: _Kept) -> str:
    """Makes runs of a row until they are done, stand still or fail; says what went wrong."""
    if row.name in COMMANDS:
        words = ["-m", "pdecl_cli", *shlex.split(COMMANDS[row.name])]
    else:
        script = Path(__file__).with_name("stress_cases.py").absolute()
        words = [str(script), row.name, str(row.wanted - row.runs)]
    folder = options.out / f"{row.threads}-threads"
    folder.mkdir(exist_ok=True)
    log = folder / f"{row.name.replace(' ', '-')}-{turn}.log"
    own = {"PJRT_NPROC": str(row.threads), "JAX_COMPILATION_CACHE_DIR": "compiled"} | _CACHE
    if row.name in DEVICES:
        own["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_SIMULATED}"
    began, before = time.monotonic(), (row.runs, row.seconds)
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=errors, env=os.environ | own,
        )  # fmt: skip
    watched = _Progress(process, counts=row.name in VERBS)

    def keep() -> None:
        row.runs = before[0] + watched.count
        row.seconds = round(before[1] + time.monotonic() - began, 1)
        row.load = round(os.getloadavg()[0], 1)
        kept.write()

    try:
        stands = _wait(process, watched, options.still, end, keep)
        if stands:
            log.with_suffix(".stack").write_text(_stack(process.pid))
    finally:
        process.kill()
        process.wait()
    watched.count += row.name in COMMANDS and process.returncode == 0
    row.standing += bool(stands)
    row.failed += not stands and process.returncode not in (0, -signal.SIGKILL)
    keep()
    if stands:
        return f"stands still after {watched.count} runs, {stands}; see {log.with_suffix('.stack')}"
    if process.returncode not in (0, -signal.SIGKILL):
        return f"ended with status {process.returncode}; see {log}"
    return ""


class _Progress:
    """Counts the lines that a process prints for its runs."""

    def __init__(self, process: subprocess.Popen[bytes], counts: bool):
        self.count, self.last = 0, time.monotonic()
        self._output, self._counts = process.stdout, counts
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._output is not None
        for line in self._output:
            self.last = time.monotonic()
            self.count += self._counts and line == b".\n"


def _wait(
    process: subprocess.Popen[bytes], watched: _Progress, still: float, end: float,
    keep: Callable[[], None],
) -> str:  # fmt: skip
    """Until a process ends, or the time does; how it stands still, if it does."""
    used, worked = 0.0, time.monotonic()
    count, before = 0, 0.0  # runs, and the seconds of a processor that they took
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.2)
        now, seconds = time.monotonic(), _processor_seconds(process.pid)
        spent = now if seconds is None else seconds
        if seconds is None or seconds > used + 0.05:
            used, worked = seconds or 0.0, now
        if watched.count > count:
            count, before = watched.count, spent
            keep()
        if now - max(worked, watched.last) > still:
            return f"without any work for {still:g} s"
        busy, since = spent - before, now - watched.last
        if busy > _PATIENCE * still or since > max(_PATIENCE * still, busy / _LEAST):
            return f"without a run for {since:.0f} s, {busy:.0f} s of a processor"
    return ""


def _processor_seconds(process: int) -> float | None:
    """Of all threads of a process and of those that it has started (training has some), where Linux
    tells."""
    used, started = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        number = int(path.parent.name)
        used[number] = sum(map(int, fields[11:15]))  # with those that have ended
        started.setdefault(int(fields[1]), []).append(number)
    of = lambda number: used[number] + sum(map(of, started.get(number, [])))
    return of(process) / os.sysconf("SC_CLK_TCK") if process in used else None


@contextmanager
def _load(count: int) -> Iterator[None]:
    """As many processes that keep a core busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()


def _stack_tool() -> str:
    if shutil.which("gdb"):
        return "stacks by gdb"
    if shutil.which("py-spy"):
        return "gdb is not installed: stacks by py-spy"
    return (
        "neither gdb nor py-spy is installed: of a process that stands, what Linux tells of its threads"
    )


def _stack(process: int) -> str:
    """The native stacks of a process, by what there is."""
    if shutil.which("gdb"):
        command = ["gdb", "-p", str(process), "-batch", "-nx", "-ex", f"thread apply all bt {_FRAMES}"]
    elif shutil.which("py-spy"):
        command = ["py-spy", "dump", "--native", "--pid", str(process)]
    else:
        return _threads(process)
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not answer.\n{_threads(process)}"
    found = told.stdout if told.returncode == 0 else f"{command[0]} could not: {told.stderr}\n"
    return f"{found}\n{_threads(process)}"


def _threads(process: int) -> str:
    """The name of each thread, and in which function of the kernel it waits."""
    lines = []
    for thread in sorted(Path(f"/proc/{process}/task").glob("*")):
        parts = []
        for name in ("comm", "wchan", "stack"):
            try:
                parts.append((thread / name).read_text().strip())
            except OSError as error:
                parts.append(f"({name}: {error.strerror})")
        lines.append(f"{thread.name} {'  '.join(parts)}")
    return "\n".join(lines) or "nothing is known of its threads"


def _table(rows: list[Row]) -> Table:
    table = Table("what", "threads", "runs", "standing", "failed", "seconds", box=None, pad_edge=False)
    for row in rows:
        table.add_row(
            row.name, str(row.threads), f"{row.runs} of {row.wanted}", str(row.standing),
            str(row.failed), f"{row.seconds:.1f}",
        )  # fmt: skip
    return table


if __name__ == "__main__":
    sys.exit(main())
