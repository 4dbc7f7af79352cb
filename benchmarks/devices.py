"""Two processes of one core each beside one process of one core: training, and a stream of φ.

Training is Burgers' quick preset, `pdecl train burgers`, in steps a second after the first; two
processes are `--processes 2`, which split its batches. The stream is `pdecl solve` with a compiled
solver: one process for all φ, two for half of them each, at the same time, in φ a second after the first
batch. Then one least-squares system of many rows is solved with its rows on one device of one core, and
on two in one process. All are said as a share of twice the speed of one. At last the losses of trainings
on two and on four simulated devices are compared with those on one.

On a machine with a GPU the same program takes its devices as they are, and says their speed; of one
device there is no share.

    python benchmarks/devices.py [--steps 400] [--phis 20000] [--only training stream rows simulated]
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
from timing import machine, save

PARTS, BATCHES = ["training", "stream", "rows", "simulated"], (8, 32)
SYSTEM = (20_000, 1000)  # rows and functions
COMMAND = [sys.executable, "-m", "pdecl_cli"]


def begin(arguments: Iterable[Any], cores: set[int] | None, folder: Path) -> "subprocess.Popen[str]":
    """A command on some of the cores."""
    keep = None if cores is None else lambda: os.sched_setaffinity(0, cores)
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, text=True, preexec_fn=keep, cwd=folder
    )


def summaries(started: Sequence["subprocess.Popen[str]"]) -> list[dict[str, Any]]:
    found = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("a command failed; what it said is above.")
    return [json.loads(text) for text in found]


def training(folder: Path, steps: int, batch: int, cores: list[set[int] | None]) -> float:
    """Steps a second, in as many processes as there are sets of cores."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    several = ["--processes", len(cores)] if len(cores) > 1 else []
    words = ["train", "burgers", "--steps", steps, "--batch", batch, "--count", 1, "--json"]
    # Between steps nothing is measured: metrics are not in the time that a run states.
    words += ["--out", "run", "--cache", "data", *several]
    whole = None if None in cores else set().union(*(part or set() for part in cores))
    return summaries([begin(words, whole, folder)])[0]["steps_per_second"]


def stream(folder: Path, phis: int, cores: list[set[int] | None]) -> float:
    """φ a second of all processes, each of which has an equal share of the φ."""
    started = []
    for number, own in enumerate(cores):
        sample, out = f"{5 + number},{phis // len(cores)}", f"answers-{number}.h5"
        words = ["solve", "fast.safetensors", "--sample", sample, "--grid", "33,33", "--json"]
        started.append(begin([*words, "--out", out, "--overwrite"], own, folder))
    return sum(one["phi_per_second"] for one in summaries(started))


def rows(cores: list[set[int] | None]) -> float:
    """Solves a second of one system, whose rows are split over as many devices as there are cores."""
    count, functions = SYSTEM
    code = f"""
import jax, jax.random as jr, time; jax.config.update("jax_enable_x64", True)
import pdecl
from jax.sharding import Mesh, NamedSharding, PartitionSpec
box = pdecl.Box(x=(0, 1), t=(0, 1))
heat = pdecl.Problem(box, [
    pdecl.Fit(lambda u, z, _: u.d("t") - 0.1 * u.d("x", "x"), on=box.interior.low_discrepancy({count})),
    pdecl.Fit(lambda u, z, _: u() - jax.numpy.sin(jax.numpy.pi * z.x), on=box.face(t=0)),
    pdecl.Fit(lambda u, z, _: u(), on=box.faces("x")),
])
basis = pdecl.nn.MLP(heat, size={functions}, width={functions}, depth=1, key=jr.key(0))
rows, *others = heat.draw({functions})
split = NamedSharding(Mesh(jax.devices(), ("rows",)), PartitionSpec("rows"))
points = jax.device_put(rows, split), *others
seconds = []
for _ in range(4):
    began = time.perf_counter()
    found = pdecl.solve(heat, basis, points=points, residual_limit=None)
    jax.block_until_ready(found.weights)
    seconds.append(time.perf_counter() - began)
print(1 / min(seconds[1:]))
"""
    whole = set().union(*(part or set() for part in cores))
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={len(cores)}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"XLA_FLAGS": flags}, stdout=subprocess.PIPE,
        text=True, check=True, preexec_fn=lambda: whole and os.sched_setaffinity(0, whole),
    )  # fmt: skip
    return float(done.stdout)


def simulated() -> float:
    """The largest relative difference of the losses on two and on four simulated devices from those on
    one, of four steps."""
    code = (
        "import json, jax, optax, sys; jax.config.update('jax_enable_x64', True)\n"
        "from pdecl import fit\n"
        "from pdecl.family.experiment import preset\n"
        "from pdecl.family.experiment import *\n"
        "one = preset('burgers')\n"
        "def losses(count):\n"
        "    network, training = keys_of(one)\n"
        "    return fit(problem_of(one), basis_of(one, network), optimiser_of(one.training), steps=4,\n"
        "        key=training, batch=8, phis=training_phis(one), progress=False,\n"
        "        solver=training_solver_of(one), devices=jax.devices()[:count])[1].loss\n"
        "print(json.dumps([losses(count) for count in (1, 2, 4)]))"
    )
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    one, *others = json.loads(done.stdout)
    return max(abs(a - b) / abs(a) for other in others for a, b in zip(one, other, strict=True))


def backend() -> dict[str, Any]:
    """What JAX finds here, by a process of its own: this one must not hold a GPU that others need."""
    code = "import json, jax; print(json.dumps([jax.default_backend(), jax.device_count()]))"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    kind, count = json.loads(done.stdout)
    return {"backend": kind, "devices": count}


def compared(name: str, unit: str, speeds: list[list[float]]) -> dict[str, Any]:
    one, *two = (statistics.median(own) for own in zip(*speeds, strict=True))
    row: dict[str, Any] = {"what": name, "unit": unit, "one": one}
    if two:
        row |= {"two": two[0], "share": two[0] / (2 * one)}
    return row


def said(row: dict[str, Any]) -> str:
    share = f"{row['two']:.3g} | {row['share']:.2f}" if "two" in row else "– | –"
    return f"| {row['what']} | {row['one']:.3g} {row['unit']} | {share} |"


def page(found: dict[str, Any]) -> str:
    about = found["machine"]
    lines = [
        "# Two processes beside one",
        "",
        f"`python benchmarks/devices.py`, on {about['device']}, {found['devices']} device, "
        f"{about['cores']} cores. Each process has one core; medians of {found['rounds']} rounds of one "
        "and two in turns.",
        "",
        "| | one process | two processes | share of twice the speed |",
        "| --- | --- | --- | --- |",
        *map(said, found["training"] + found["stream"] + found["rows"]),
        "",
        "Losses of four steps of training on two and on four simulated devices differ from those on "
        f"one by {found['difference']:.1e} at most, relatively.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--phis", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=3, help="of one and two in turns")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, help="the others stay as OUT has them"
    )
    default = Path(__file__).parent / "results" / "devices.json"
    parser.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    found |= backend() | {"rounds": options.rounds, "phis": options.phis, "steps": options.steps}
    own = sorted(os.sched_getaffinity(0))
    one, both = [{own[0]}], [{core} for core in own[:2]]
    # So that what else the machine does meets both, they take turns.
    ways: list[Any] = [one, both] if found["backend"] == "cpu" and len(own) > 1 else [[None]]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)

        def row(name: str, unit: str, speed: Callable[[list[Any]], float]) -> dict[str, Any]:
            speeds = [[speed(cores) for cores in ways] for _ in range(options.rounds)]
            compares = compared(name, unit, speeds)
            print(said(compares), flush=True)
            return compares

        if "training" in options.only:
            found["training"] = [
                row(
                    f"training Burgers' quick preset, batches of {batch}",
                    "steps/s",
                    lambda cores, batch=batch: training(folder, options.steps, batch, cores),
                )
                for batch in BATCHES
            ]
        if "stream" in options.only:
            words = ["compile", "burgers", "--functions", 96, "--out", "fast.safetensors", "--json"]
            summaries([begin(words, None, folder)])
            name = f"a stream of {options.phis:,} φ by a compiled solver"
            found["stream"] = [row(name, "φ/s", lambda cores: stream(folder, options.phis, cores))]
        if "rows" in options.only:
            name = "a system of {:,} rows of {:,} functions".format(*SYSTEM)
            found["rows"] = [row(name, "solves/s", rows)]
    if "simulated" in options.only:
        found["difference"] = simulated()
        print(f"simulated devices: losses differ by {found['difference']:.1e}", flush=True)
    found["machine"] = machine()
    save(options.out, found)
    if all(name in found for name in (*PARTS[:3], "difference")):
        options.out.with_suffix(".md").write_text(page(found))


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
