"""A million φ by a compiled solver, ω stored: time in the solve, memory, and interruptions.

    python benchmarks/million.py                            a million φ; about ten minutes on two cores
    python benchmarks/million.py --count 20000 --out FILE   fewer, to try it

The stream is the one of `pdecl solve SOLVER --sample SEED,COUNT --store weights --out many.h5`, in a
process of its own, which is ended ten times (SIGKILL and SIGTERM in turn) at times drawn by a seed, and
started again until it is done. Then a second process writes a part of it without any interruption, and
the two are compared bit by bit; the rest is looked through: numbers, statuses, checksums, and ω of
some φ against a solve of them alone.

- "share in the solve" is the time of the solver alone, for batches that are at hand, over
  that of the stream for as many φ, both once compiled, in turn and in the same run.
- "peak memory" is the largest resident set of all processes of the stream.

Results go to results/million.json, and a page of them to results/million.md.
"""

import argparse
import json
import os
import platform
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from threadpoolctl import threadpool_limits

import pdecl
from pdecl import stream as streaming
from pdecl.stream import formats
from pdecl.stream.answers import Predictor

RESULTS = Path(__file__).parent / "results"
SEED, INTERRUPTIONS = 5, 10


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    options = parse()
    if options.stream:
        return stream(options)
    folder = Path(options.scratch or tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    solver = options.solver or make_solver(folder, options.functions)
    many = folder / "many.h5"
    found = {
        "machine": {"cores": os.cpu_count(), "cpu": platform.machine(), "jax": jax.__version__},
        "count": options.count,
        "solver": pdecl.load(solver).functions,
    }
    known = folder / "speed.json"
    if not known.exists():
        known.write_text(json.dumps(speed(solver, folder, options.measured)))
    found["speed"] = json.loads(known.read_text())
    found["interrupted"] = interrupted(solver, many, options)
    found["looked through"] = look_through(solver, many, folder, options)
    out = Path(options.out)
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(found, indent=1) + "\n")
    out.with_suffix(".md").write_text(page(found))
    print(page(found))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=10**6)
    parser.add_argument("--measured", type=int, default=20_000, help="φ that speeds are measured on")
    parser.add_argument("--functions", type=int, default=64, help="of the solver that is made")
    parser.add_argument("--solver", help="a compiled solver of Burgers; else one is made")
    parser.add_argument("--out", default=RESULTS / "million.json")
    parser.add_argument("--scratch", help="where files are, and a run that was cut short goes on")
    parser.add_argument("--stream", help=argparse.SUPPRESS)  # the file of a process that is interrupted
    return parser.parse_args()


def make_solver(folder: Path, functions: int) -> Path:
    path = folder / "solver.safetensors"
    pdecl.compile(pdecl.load("burgers"), functions=functions).save(path)
    return path


def source_of(model: pdecl.Compiled, count: int) -> streaming.FromDistribution:
    return streaming.FromDistribution(model.family, SEED, count)


def speed(solver: str | Path, folder: Path, count: int) -> dict[str, float]:
    """Seconds for a φ of the solver alone, of the whole stream, and of its parts by themselves."""
    model = pdecl.load(solver)
    batch = model.usual_batch
    source = source_of(model, count)
    query = streaming.ask(model, source.shape, store="weights")
    predictor = Predictor(model, source.shape, query, batch)
    some = [model.family.sample(SEED, batch, k * batch) for k in range(40)]

    def alone() -> None:
        """As the stream does it on a CPU, one after the other."""
        for phi in some:
            jax.block_until_ready(predictor.begin(phi).found)

    alone()
    rates, seconds = [], []
    for turn in range(3):  # in turn, so that a slow minute of the machine is in both
        began, solved = time.perf_counter(), 0
        with threadpool_limits(1, "blas"):  # as in the stream
            while solved < count // 3:
                alone()
                solved += batch * len(some)
        seconds.append((time.perf_counter() - began) / solved)
        part = source_of(model, count // 3)
        out = folder / f"speed{turn}.h5"
        found = streaming.solve_stream(model, part, out, query, overwrite=True)
        rates.append(1 / found.rate)
        out.unlink()
    began = time.perf_counter()
    model.family.sample(SEED, 50 * batch)
    drawing = (time.perf_counter() - began) / (50 * batch)
    return {
        "batch": batch,
        "solver alone": min(seconds),
        "stream": min(rates),
        "share in the solve": min(seconds) / min(rates),
        "drawing φ": drawing,
    }


def stream(options: argparse.Namespace) -> None:
    """The process that is interrupted: as `pdecl solve` does it."""
    model = pdecl.load(options.solver)
    source, out = source_of(model, options.count), Path(options.stream)
    query = streaming.ask(model, source.shape, store="weights")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    summary = streaming.solve_stream(model, source, out, query)
    print(json.dumps({"solved": summary.solved, "rate": summary.rate}))


def interrupted(solver: str | Path, many: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Ends the stream ten times, and lets it end then. Interrupted itself, it goes on with --scratch."""
    chance, notes = random.Random(0), many.with_suffix(".notes.json")
    places = sorted(chance.uniform(0.02, 0.98) for _ in range(INTERRUPTIONS))
    so_far: dict[str, Any] = {"stops": [], "peak memory": 0}
    if notes.exists():
        so_far = json.loads(notes.read_text())
    words = [sys.executable, __file__, "--stream", many, "--solver", solver, "--count", options.count]
    for number, place in list(enumerate([*places, None]))[len(so_far["stops"]) :]:
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE)
        while place is not None and process.poll() is None:
            if done_in(many) >= place * options.count:
                process.send_signal(signal.SIGKILL if number % 2 else signal.SIGTERM)
                break
            time.sleep(0.5)
        process.communicate()
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        so_far["peak memory"] = max(so_far["peak memory"], usage.ru_maxrss * 1024)
        so_far["stops"].append({"ended with": process.returncode, "done": done_in(many)})
        notes.write_text(json.dumps(so_far))
    stopped = [stop for stop in so_far["stops"] if stop["ended with"] != 0]
    kept = {name: so_far[name] for name in ("stops", "peak memory")}
    return {**kept, "interruptions": len(stopped), "file": 512 * many.stat().st_blocks}


def done_in(path: Path) -> int:
    try:
        arrays = formats.open_arrays(path)
    except (OSError, KeyError):  # not begun
        return 0
    try:
        return arrays.number("done")
    finally:
        arrays.close()


def look_through(
    solver: str | Path, many: Path, folder: Path, options: argparse.Namespace
) -> dict[str, float]:
    """Whether each φ is there, once, and as it would be without interruptions."""
    model = pdecl.load(solver)
    answers = pdecl.open(many, model)
    assert answers.complete
    assert len(answers) == options.count
    numbers = answers.numbers
    codes, counts = np.unique(answers["status"], return_counts=True)
    began = time.perf_counter()
    damaged = answers.damaged()
    checked = time.perf_counter() - began
    part = min(options.measured, options.count)
    query = streaming.ask(model, source_of(model, 1).shape, store="weights")
    streaming.solve_stream(model, source_of(model, part), folder / "part.h5", query, overwrite=True)
    plain = pdecl.open(folder / "part.h5", model)
    columns = [name for name in answers.names if name != "message"]
    same = all(np.array_equal(plain[name], answers[:part][name], equal_nan=True) for name in columns)
    # All over the file, by solves of some φ by themselves.
    rng = np.random.default_rng(0)
    places = np.sort(rng.choice(options.count, 256, replace=False))
    phi = np.concatenate([model.family.sample(SEED, 1, int(place)) for place in places])
    points = rng.uniform(size=(50, 2))
    ours = np.stack([np.asarray(answers[int(place)](points)) for place in places[:64]])
    theirs = np.asarray(model(phi, throw=False)(points))[:64]
    return {
        "numbers 0 to count − 1, each once": bool(np.array_equal(numbers, np.arange(options.count))),
        "damaged": damaged,
        "seconds to look for damage": checked,
        "statuses": {streaming.status_name(int(c)): int(n) for c, n in zip(codes, counts, strict=True)},
        "same as uninterrupted, to the last bit": same,
        "largest distance of u from solves by themselves": float(np.abs(ours - theirs).max()),
    }


def page(found: dict) -> str:
    speeds, stops, seen = found["speed"], found["interrupted"], found["looked through"]
    per = lambda seconds: f"{1e6 * seconds:.0f} µs"
    count, times = f"{found['count']:,} φ", stops["interruptions"]
    statuses = ", ".join(f"{n:,} {name}" for name, n in seen["statuses"].items())
    apart = seen["largest distance of u from solves by themselves"]
    rows = {
        f"a φ, the solver alone, in batches of {speeds['batch']}": per(speeds["solver alone"]),
        "a φ, the whole stream": per(speeds["stream"]),
        "share of the stream's time in the solve": f"{100 * speeds['share in the solve']:.1f}%",
        "to draw a φ, by itself": per(speeds["drawing φ"]),
        f"{count} at that speed": f"{speeds['stream'] * found['count']:.0f} s",
        "largest resident memory of any process": f"{stops['peak memory'] / 2**30:.2f} GiB",
        "the file": f"{stops['file'] / 1e6:.0f} MB, {stops['file'] / found['count']:.0f} bytes a φ",
        "each φ there, once": str(seen["numbers 0 to count − 1, each once"]),
        "same as uninterrupted, to the last bit": str(seen["same as uninterrupted, to the last bit"]),
        "damaged": f"{seen['damaged'] or 'none'}; to look: {seen['seconds to look for damage']:.1f} s",
        "statuses": statuses,
        "u of 64 φ, beside solves of them by themselves": f"{apart:.1e}",
    }
    head = f"""# {count}, ω stored

`python benchmarks/million.py`: Burgers by a compiled solver of {found["solver"]} functions, φ drawn by a
seed, on {found["machine"]["cores"]} cores. The process was ended {times} times, by SIGTERM and SIGKILL
in turn, and started again.

| | |
| --- | --- |
"""
    return head + "".join(f"| {name} | {value} |\n" for name, value in rows.items())


if __name__ == "__main__":
    main()
