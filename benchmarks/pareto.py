"""Error against time for one φ: the layer, soft networks and numerical solvers on one machine.

    python benchmarks/pareto.py                                  the bases that come with the package
    python benchmarks/pareto.py --model convection=runs/mine --soft convection=runs/soft
    python benchmarks/pareto.py --quick --out FOLDER             tiny and untrained: does it run?

Times are warm medians for one φ of a batch, full standard grid, with φ and answers on the device. For
some methods also: mean u² with its gradient with respect to φ; a query at ten points of the grid; and
the call a user makes (checks of φ and copies included). Errors are relative L2, mean over the test φ,
for Darcy against the 421² five-point solution (and, for a few φ, against the pixel truth). "Paid back"
counts the queries after which training and compiling have saved time over the fastest numerical solver
whose error is no larger: "never" where that solver is the faster one.

Writes pareto-DEVICE.json (rows go to pareto-DEVICE.part.json as they are measured), then
pareto-PROBLEM-DEVICE.png and a table in pareto-PROBLEM-DEVICE.md. What did not fit, or was not reached
in `--seconds`, is listed as left out.
"""

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import numpy as np
from pareto_exponents import exponents
from pareto_measure import Clock, Row, Trial
from pareto_methods import Case, Method, layers, soft
from pareto_report import caption, comparisons, figure, markdown, table
from pareto_rivals import rivals
from rich.console import Console
from timing import machine, save

import pdecl
from pdecl.family import SPLITS
from pdecl.family import shipped as families
from pdecl.family.experiment import basis_of, from_dict, preset
from pdecl.family.trained import Trained, shipped
from pdecl.problems.darcy.reference import pixel_truth
from pdecl.report import results, runs

_FUNCTIONS = {"burgers": (84, 128, 48, 24), "convection": (96, 128, 48, 24)}
_BASES = {"convection": "convection-fast"}  # its functions do not see φ; the others have one basis
_GRIDS = (106, 421, 211, 85)
_ORDER = ("burgers", "convection", "darcy")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    console = Console(width=220, log_path=False)
    clock, platform = Clock(options.seconds), jax.default_backend()
    left = [name for name in _ORDER if name in options.problems]
    path = options.out / f"pareto-{platform}.json"
    part = path.with_suffix(".part.json")  # a run that is cut off leaves its rows here
    found = json.loads(path.read_text()) if path.exists() else {}
    while left:
        share = (options.seconds - clock.elapsed) / len(left)
        problem = left.pop(0)
        trained = _model(problem, options)
        if trained is None:
            console.print(f"{problem}: no basis comes with the package; give one by --model.")
            continue

        def keep(measured: dict[str, Any], whole: bool = False, problem: str = problem) -> None:
            if whole:
                found[problem] = measured
                save(path, found)
                part.unlink(missing_ok=True)
            else:
                save(part, {problem: measured})

        _one(trained, options, Clock(share), console, platform, keep)


def _one(
    trained: Trained,
    options: argparse.Namespace,
    clock: Clock,
    console: Console,
    platform: str,
    keep: Callable[..., None],
) -> None:
    """All of one problem: what is most wanted first, and kept as it comes."""
    problem = trained.family.name
    trial, case = _trial(trained, options, clock)
    console.log(f"{problem}: {len(trial.tests)} test φ are solved for; preparing the layer")
    sizes: Sequence[int] = _GRIDS if problem == "darcy" else _FUNCTIONS[problem]
    if options.quick:
        sizes = [case.shape[0]] if problem == "darcy" else [8]
    ours = layers(case, options.phis, sizes)
    rows: list[Row] = []
    methods: list[Method] = []
    skipped: dict[str, dict[str, str]] = {}

    def measured(method: Method) -> None:
        row = trial.row(method)
        if not row.grid:
            skipped[f"{row.name}, {row.setting}"] = row.left_out
            return
        methods.append(method)
        rows.append(row)
        keep(_result(trained, options, case, trial, rows, {}, skipped, ours.seconds))
        fastest = min(row.per_phi(batch) for batch in row.grid)
        console.log(f"{method.name}, {method.setting}: {row.error:.2e}, {1e6 * fastest:.3g} µs at best")

    if few := ours.too_many():
        why = f"{options.phis} training φ do not give as many directions"
        skipped["compiled layer"] = {f"N = {size}": why for size in few}
    late = {"further settings": "most of the time for this problem was used up"}
    made = ours.methods()
    measured(next(made))  # the others are made as they are asked for
    others = list(rivals(case, options.quick))
    for method in (m for m in others if m.main):
        measured(method)
    if problem in options.soft:
        measured(soft(case, pdecl.load(options.soft[problem])))
    console.log("gradients, ten points, calls")
    for place, (method, row) in enumerate(zip(methods, rows, strict=True)):
        trial.extras(method, row, small_too=place < 2)
    for method in made:
        measured(method)
        if methods and methods[-1] is method:
            trial.extras(method, rows[-1], small_too=False)
        if clock.late(0.4):  # the rest is for more rivals,
            skipped["layer"] = late
            break
    for method in (m for m in others if not m.main):
        if clock.late(0.15):  # and for the exponents
            skipped[method.name] = late
        else:
            measured(method)
    if clock.late(0.15):
        skipped["layer"] = late
    elif not options.quick:
        for method in ours.further():
            measured(method)
    console.log("exponents")
    slopes = exponents(ours, rows, trial, options.quick)
    skipped |= {f"{row.name}, {row.setting}": row.left_out for row in rows if row.left_out}
    result = _result(trained, options, case, trial, rows, slopes, skipped, ours.seconds)
    keep(result, whole=True)
    _report(trained, options, rows, result, console, platform)


def _result(
    trained: Trained,
    options: argparse.Namespace,
    case: Case,
    trial: Trial,
    rows: list[Row],
    slopes: dict[str, Any],
    left_out: dict[str, dict[str, str]],
    offline: float,
) -> dict[str, Any]:
    """All that was measured, for the file."""
    problem, training = trained.family.name, _training(trained, options)
    facts = {
        "machine": machine(),
        "tests": len(trial.tests),
        "grid": " × ".join(map(str, case.shape)),
        "against": {
            "darcy": f"the five-point solution on {case.shape[0]}²",
            "burgers": "ETDRK4 converged to 1e-9",
            "convection": "the exact solution",
        }[problem],
        "batches": list(options.batches),
        "offline_seconds": offline,
        "training_phis": options.phis if problem != "darcy" else 0,
        "truths": 0 if trial.truth is None else len(trial.truth),
    }
    comparison = comparisons(rows, training)
    return {
        **facts,
        "experiment": trained.experiment.as_dict(),
        "training": training,
        "caption": caption(problem, rows, comparison, training, facts),
        "rows": [_plain(row) for row in rows],
        "comparison": comparison,
        "exponents": slopes,
        "left_out": left_out,
    }


def _report(
    trained: Trained,
    options: argparse.Namespace,
    rows: list[Row],
    result: dict[str, Any],
    console: Console,
    platform: str,
) -> None:
    """The table and the picture."""
    problem, text, comparison = trained.family.name, result["caption"], result["comparison"]
    console.print(table(problem, rows, options.batches, comparison))
    console.print(text, soft_wrap=True)
    for name, series in result["exponents"].items():
        console.print(f"time ~ ({name})^{series['exponent']:.2f}", highlight=False)
    for name, why in result["left_out"].items():
        console.print(f"left out of {name}: {'; '.join(f'{k}: {v}' for k, v in why.items())}")
    stem = options.out / f"pareto-{problem}-{platform}"
    figure(stem.with_suffix(".png"), trained.family.heading, rows, options.batches, text)
    written = markdown(problem, rows, options.batches, comparison)
    stem.with_suffix(".md").write_text(f"{written}\n\n{text}\n")


def _trial(trained: Trained, options: argparse.Namespace, clock: Clock) -> tuple[Trial, Case]:
    """The test φ with their solutions, and as many φ more as the largest batch needs."""
    family, seed = trained.family, SPLITS["test"].seed
    # For Darcy no program's time depends on what is in φ, so that its batches repeat the test φ.
    darcy = family.name == "darcy"
    wanted = options.darcy_tests if darcy else options.tests
    phis = family.sample(seed, wanted if darcy else max(wanted, *options.batches))
    tests = family.reference(phis[:wanted])
    truth = None
    if darcy and options.truths:
        truth = pixel_truth(phis[: min(options.truths, len(tests))])
    case = Case(trained, phis.shape[1:])
    return Trial(phis, tests, truth, options.batches, options.patience, clock), case


def _model(problem: str, options: argparse.Namespace) -> Trained | None:
    if options.quick:
        plan = preset(problem).with_overrides(size=24, width=24, depth=2)
        plan = replace(plan, grid=13, constants={"grid": 13}) if problem == "darcy" else plan
        options_ = {"modes": 3} if problem == "darcy" else plan.network.options
        plan = plan.with_overrides(options=options_)
        return Trained(plan, basis_of(plan, jr.key(0)))
    place = options.model.get(problem, _BASES.get(problem, problem))
    return pdecl.load(place) if problem in options.model or place in shipped() else None


def _training(trained: Trained, options: argparse.Namespace) -> dict[str, Any]:
    """How long training took and on what, from the kept results or from the run's own folder."""
    for path in sorted((Path(__file__).parents[1] / "results").glob("*.json")):
        kept = results.read(path)
        if from_dict(kept["experiment"]) == trained.experiment and kept["history"]["seconds"]:
            return {"seconds": kept["history"]["seconds"], "device": kept["environment"]["device"]}
    folder = Path(options.model.get(trained.family.name, ""))
    if (folder / "history.json").is_file():
        run = runs.read(folder)
        return {"seconds": run.history.seconds[-1], "device": run.environment.get("device", "unknown")}
    return {}


def _plain(row: Row) -> dict[str, Any]:
    """A row for JSON, which has neither infinity nor NaN."""
    made = asdict(row)
    number = lambda x: None if isinstance(x, float) and not np.isfinite(x) else x
    return {name: number(value) for name, value in made.items()}


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    cpu, pair = jax.default_backend() == "cpu", "PROBLEM=FOLDER|FILE"
    parser.add_argument("--problems", nargs="+", choices=families(), default=list(families()))
    parser.add_argument("--model", nargs="+", default=[], metavar=pair, help="bases in place of ours")
    parser.add_argument("--soft", nargs="+", default=[], metavar=pair, help="soft networks to add")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 50, 1000])
    parser.add_argument("--phis", type=int, default=400, help="training φ to compile with (400)")
    parser.add_argument("--tests", type=int, default=50, help="test φ (50)")
    parser.add_argument(
        "--darcy-tests", type=int, default=3 if cpu else 50, help="for Darcy (3 on a CPU, else 50)"
    )
    parser.add_argument(
        "--truths", type=int, default=2, help="test φ to find Darcy's pixel truth for (2)"
    )
    parser.add_argument("--seconds", type=float, default=540, help="for all problems together (540)")
    parser.add_argument(
        "--patience", type=float, default=60.0 if cpu else 20.0, help="seconds that one run may take"
    )
    parser.add_argument("--quick", action="store_true", help="tiny, untrained: to see that it runs")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder")
    options = parser.parse_args(arguments)
    options.batches = sorted(set(options.batches))
    for name in ("model", "soft"):
        wrong = [text for text in getattr(options, name) if text.partition("=")[0] not in families()]
        if wrong or any("=" not in text for text in getattr(options, name)):
            parser.error(f"--{name}: write {pair}, with a problem out of {', '.join(families())}.")
        setattr(options, name, dict(text.split("=", 1) for text in getattr(options, name)))
    if options.quick:
        options.batches, options.phis, options.truths = [2], 16, 0
        options.tests = options.darcy_tests = 3
    return options


if __name__ == "__main__":
    # Of a small factorisation's two threads one waits for the other, for milliseconds where others use
    # the machine too. It is read when the library is loaded, so the program starts anew.
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    jax.config.update("jax_enable_x64", True)
    # A φ far from the training φ is answered all the same, and its error counts.
    warnings.filterwarnings("ignore", message=".*outside the training distribution.*")
    main()
