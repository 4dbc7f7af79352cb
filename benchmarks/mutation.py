"""Tests the tests: puts single mistakes into the solver, derivative, loss and bound code.

    python benchmarks/mutation.py --sample 100      # a seeded sample over all files
    python benchmarks/mutation.py --only layer/gram.py  # all mutants of one file
    python benchmarks/mutation.py --number 17       # one of them, with what the tests said
    python benchmarks/mutation.py --again           # those that survived the last run

For each mutant (`mutants.py`) those tests run that are relevant to its file, until one fails, in a
process of its own on a copy of the package. The one that fails has to pass without the mutant. A mutant
that no test fails on survives: a mistake that could be made without anyone noticing. Results go to
benchmarks/results/mutation.json, one by one: the same command goes on where another was cut.
"""

import argparse
import difflib
import hashlib
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import Queue
from typing import Any

from mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, RESULTS = ROOT / "src/pdecl", ROOT / "benchmarks/results/mutation.json"

# Tests by file, the cheapest first. A file that is not here is tested by all that import its module.
_CONDITIONS, _ERRORS = "tests/test_conditions.py", "tests/test_errors.py"
_SOLVERS, _JETS = "tests/test_solvers.py", "tests/test_jets.py"
_KKT = f"{_SOLVERS}::test_steps_and_multipliers_with_a_ridge_are_those_of_the_kkt_matrix"
_SOLVES = tuple(f"{_CONDITIONS}::Test{kind}" for kind in ("Weights", "Energy", "Enforce"))
_NONLINEAR = f"{_CONDITIONS}::TestNonlinear"
_BOUNDS = "tests/error/test_bounds.py"
_INVERSE, _SLOPES = "tests/adaptive/test_slab_inverse.py", "tests/adaptive/test_adaptive_gradients.py"
_SOLVED, _CELLS = "tests/adaptive/test_solved.py", "tests/adaptive/test_cells.py"
_MANY = "tests/adaptive/test_many.py"
_WITHOUT = "tests/reduced/test_fit_without_network.py"


def _gradients(*kinds: str) -> tuple[str, ...]:
    name = "tests/test_gradients.py::test_each_kind_by_the_network_and_by_the_parameter"
    return tuple(f"{name}[{kind}]" for kind in kinds)


_LINEAR_KINDS = _gradients("tall fit", "wide fit", "wide equalities", "equalities and fit", "energy")
_NONLINEAR_KINDS = _gradients("nonlinear fit", "nonlinear equalities", "convex energy")
TESTS: dict[str, tuple[str, ...]] = {
    "state/affine.py": ("tests/test_affine.py",),
    "adaptive/inverse.py": (_INVERSE, _SLOPES),
    "adaptive/normal.py": ("tests/adaptive/test_normal.py",),
    "adaptive/separable.py": (_INVERSE,),
    "adaptive/sensitivity.py": (_SLOPES,),
    "adaptive/traced.py": (_SLOPES, _MANY),
    "adaptive/bands.py": (_MANY, _SLOPES),
    "adaptive/many.py": (_MANY,),
    "adaptive/answer.py": (_SLOPES, _SOLVED),
    "adaptive/cells/elimination.py": (
        f"{_CELLS}::test_elimination_solves_the_least_squares_of_all_rows",
        f"{_CELLS}::test_stokes_flow_conserves_mass",
    ),
    "reduced/train.py": (_WITHOUT,),
    "reduced/common.py": (_WITHOUT,),
    "layer/batching.py": ("tests/test_batching.py", *_SOLVES, _SOLVERS, *_gradients("nonlinear fit")),
    "layer/gram.py": (_KKT, _SOLVERS, *_SOLVES, *_LINEAR_KINDS),
    "layer/implicit.py": (
        f"{_SOLVERS}::test_conjugate_gradients_for_a_kkt_matrix_whatever_the_size",
        "tests/test_gradients.py::test_a_derivative_that_could_not_be_computed_is_nan",
        *_NONLINEAR_KINDS,
        "tests/test_gradients.py::test_a_gradient_of_a_gradient",
    ),
    "state/jet.py": (_JETS,),
    "layer/layer.py": (
        f"{_CONDITIONS}::TestRidge", f"{_CONDITIONS}::TestOptimality", *_SOLVES, _NONLINEAR,
        f"{_ERRORS}::TestStatuses", "tests/test_solution.py",
        f"{_SOLVERS}::test_badly_scaled_columns_do_not_matter_to_the_layer",
        *_LINEAR_KINDS, *_NONLINEAR_KINDS,
    ),
    "train/loss.py": (
        "tests/test_train.py::test_the_loss_counts_every_kind_of_condition",
        "tests/test_train.py::test_the_mean_over_phi_is_that_of_logarithms_or_plain",
        "tests/test_train.py::test_the_loss_is_what_the_layer_minimises_for_energies_on_fixed_points",
        "tests/test_train.py::test_the_gradient_of_the_hard_loss_goes_through_the_layer_where_it_has_to",
        "tests/test_train.py::test_hard_training_leaves_the_branch_alone_and_starts_far_below_soft",
        "tests/test_train.py::test_an_energy_is_its_own_loss",
    ),
    "layer/system.py": (
        _JETS, f"{_CONDITIONS}::TestRidge", *_SOLVES, *_LINEAR_KINDS, *_gradients("convex energy"),
        "tests/test_gradients.py::test_each_iterative_solver", "tests/networks/test_parts_of_a_basis.py",
        "tests/test_cost.py",
    ),
    "layer/solvers/base.py": (_KKT, _SOLVERS),
    "layer/precision.py": (_KKT, *_SOLVES, _SOLVERS),
    "layer/solvers/direct.py": (_KKT, _SOLVERS),
    "layer/solvers/equalities.py": (_KKT, *_SOLVES, _SOLVERS, *_LINEAR_KINDS),
    "layer/solvers/overdetermined.py": (_KKT, *_SOLVES, _SOLVERS, *_LINEAR_KINDS),
    "layer/solvers/starts.py": ("tests/test_search.py", "tests/test_starts.py"),
    "layer/lapack.py": (
        "tests/test_programs.py::test_a_batch_is_what_each_is",
        "tests/test_programs.py::test_eigenvalues_and_vectors_have_derivatives",
    ),
    "layer/residual.py": ("tests/test_residual.py",),
    "layer/amplification.py": ("tests/test_residual.py::TestAmplified",),
    "layer/solvers/gauss_newton.py": (
        "tests/test_search.py",
        "tests/test_starts.py::TestZeroIsStationary", _NONLINEAR, f"{_ERRORS}::TestStatuses",
        f"{_ERRORS}::TestSolve",
        "tests/test_manufactured.py::test_nonlinear_poisson", *_NONLINEAR_KINDS,
    ),
    "layer/solvers/iterative.py": (_KKT, _SOLVERS),
    "layer/solvers/quadratic.py": (_KKT, *_SOLVES, _SOLVERS, *_LINEAR_KINDS),
    "layer/solvers/wide.py": (*_SOLVES, _SOLVERS, *_LINEAR_KINDS),
    "layer/solvers/triangular.py": (_KKT, _SOLVERS),
    "family/bound.py": (_BOUNDS,),
    "problems/burgers/bound.py": (f"{_BOUNDS}::TestTermsOfBurgers", _BOUNDS),
    "problems/convection/bound.py": (f"{_BOUNDS}::TestTermsOfConvection", _BOUNDS),
    "problems/darcy/bound.py": (_BOUNDS,),
    "error/record.py": (f"{_BOUNDS}::TestTermsOfConvection", _BOUNDS),
    "error/sampling.py": (f"{_BOUNDS}::TestTermsOfConvection", _BOUNDS),
    "error/estimate.py": ("tests/error/test_estimate.py",),
    "reduced/online.py": (
        "tests/reduced/test_rounds.py::test_when_a_step_is_the_last",
        "tests/reduced/test_rounds.py::test_a_step_that_leads_away_is_shortened",
        "tests/reduced/test_rounds.py", "tests/reduced/test_answers.py",
    ),
}  # fmt: skip
FILES = (
    "state/affine.py", "state/jet.py", "layer/amplification.py", "layer/batching.py", "layer/gram.py",
    "layer/implicit.py", "layer/lapack.py", "layer/layer.py", "layer/precision.py",
    "layer/residual.py", "layer/system.py", "layer/solvers/*.py", "train/loss.py", "error/*.py",
    "family/bound.py", "problems/*/bound.py", "reduced/online.py", "reduced/train.py",
    "reduced/common.py", "adaptive/answer.py", "adaptive/inverse.py", "adaptive/normal.py",
    "adaptive/separable.py", "adaptive/sensitivity.py", "adaptive/traced.py",
    "adaptive/cells/elimination.py",
)  # fmt: skip

# Seconds of CPU time for one mutant's tests: several times what they take. More is a loop without end.
# A process can also stand still, and is stopped by the clock.
CPU_SECONDS, WALL_SECONDS = 150, 900
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """How the tests of a mutant ended: "killed", "out of time" or "survived"."""

    word: str
    seconds: float
    output: str


def main() -> None:
    options = _options()
    numbered = dict(enumerate(every_mutant()))
    asked = {"sample": options.sample, "seed": options.seed, "only": options.only}
    report = _before(options, asked)
    words = {int(number): word for number, word in report["verdicts"].items()}
    survived = [n for n, word in words.items() if word == "survived"]
    chosen = survived if options.again else [n for n in _chosen(numbered, options) if n not in words]
    if options.list:
        print("\n".join(_title(number, numbered[number]) for number in chosen))
        return
    print(f"{len(chosen)} of {len(numbered)} mutants, {options.jobs} at a time", flush=True)
    _find_flags()
    with _copies(options.jobs) as copies:
        for number, verdict in _run_all(copies, {n: numbered[n] for n in chosen}, options.jobs):
            words[number] = verdict.word
            report = _report(numbered, words, report["asked"])
            if options.number is None:  # as far as it is, should the run be stopped
                options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    for survivor in report["survivors"]:
        print(f"\n{survivor['number']} {survivor['line']} survived\n{survivor['diff']}")
    print(f"\nscore: {report['killed']} of {report['mutants']} killed, {report['score']:.1%}")
    if options.number is not None:
        print(verdict.output)


def every_mutant() -> list[Mutant]:
    """All mutants of all files; the number of one is its place here."""
    paths = sorted({path for pattern in FILES for path in PACKAGE.glob(pattern)})
    return [m for p in paths for m in mutants_of(p.relative_to(PACKAGE).as_posix(), p.read_bytes())]


def tests_of(path: str) -> tuple[str, ...]:
    """The tests that are relevant to a file, by the table or by what they import."""
    if path in TESTS:
        return TESTS[path]
    module = "pdecl." + path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    importing = [p for p in sorted((ROOT / "tests").rglob("test_*.py")) if module in p.read_text()]
    if not importing:
        raise SystemExit(f"no test imports {module}; give {path} a line in TESTS.")
    return tuple(p.relative_to(ROOT).as_posix() for p in importing)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--sample", type=int, help="how many mutants, drawn over all files; all if left out"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--only", help="the mutants of this file, as train/loss.py or error/record.py")
    parser.add_argument("--number", type=int, help="this mutant, and what the tests said")
    parser.add_argument("--again", action="store_true", help="those that survived the last run")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--list", action="store_true", help="list the mutants and stop")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def _chosen(numbered: dict[int, Mutant], options: argparse.Namespace) -> list[int]:
    if options.number is not None:
        return [options.number]
    numbers = [n for n, mutant in numbered.items() if options.only in (None, mutant.path)]
    if not numbers:
        raise SystemExit(f"no mutants of {options.only}; the files are {', '.join(FILES)}.")
    if options.sample is not None and options.sample < len(numbers):
        numbers = sorted(random.Random(options.seed).sample(numbers, options.sample))
    return numbers


@contextmanager
def _copies(count: int) -> Iterator[Queue]:
    """Copies of the package, for as many processes at a time."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copies: Queue = Queue()
        for number in range(count):
            copy = Path(folder) / str(number)
            shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
            copies.put(copy)
        yield copies


def _run_all(copies: Queue, chosen: dict[int, Mutant], jobs: int) -> Iterator[tuple[int, Verdict]]:
    def one(number: int) -> tuple[int, Verdict]:
        copy = copies.get()
        try:
            return number, _judged(copy, chosen[number])
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(jobs) as pool:
        for number, verdict in pool.map(one, chosen):
            print(
                f"{verdict.word:12} {verdict.seconds:5.0f} s  {_title(number, chosen[number])}",
                flush=True,
            )
            yield number, verdict


def _judged(copy: Path, mutant: Mutant) -> Verdict:
    file = copy / "pdecl" / mutant.path
    source = file.read_bytes()
    try:
        _write(file, mutant.applied(source))
        verdict = _tested(copy, tests_of(mutant.path), CPU_SECONDS)
    finally:
        _write(file, source)
    for test in _FAILED.findall(verdict.output):
        _require_passing(copy, test)
    return verdict


@cache
def _require_passing(copy: Path, test: str) -> None:
    """A test that fails anyway would kill every mutant."""
    verdict = _tested(copy, (test,), CPU_SECONDS)
    if verdict.word != "survived":
        raise SystemExit(f"{test} fails without any mutant:\n{verdict.output}")


def _write(file: Path, source: bytes) -> None:
    """Without the compiled file, which Python takes for valid by its time in seconds and its size."""
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()
    file.write_bytes(source)


def _tested(copy: Path, tests: tuple[str, ...], limit: int) -> Verdict:
    """Runs tests against a copy of the package, up to the first failure."""
    environment = os.environ | {
        "PYTHONPATH": str(copy),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(copy / "hypothesis"),
    }
    words = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *words], cwd=ROOT, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5)),
    )  # fmt: skip
    clock = threading.Timer(max(WALL_SECONDS, limit), os.killpg, (process.pid, signal.SIGKILL))
    clock.start()
    output, _ = process.communicate()
    clock.cancel()
    word = (
        "survived" if process.returncode == 0 else "killed" if process.returncode > 0 else "out of time"
    )
    return Verdict(word, time.perf_counter() - began, output)


def _find_flags() -> None:
    """The tests' `conftest.py` tries flags of the compiler, and leaves them to processes it starts."""
    sys.path.insert(0, str(ROOT / "tests"))
    importlib.import_module("conftest")


def _title(number: int, mutant: Mutant) -> str:
    old, new = mutant.key[2].split(" → ", 1)
    return f"{number:4} {mutant.path}:{mutant.line} {mutant.function}: {old} → {new}"


def _diff(mutant: Mutant) -> str:
    source = (PACKAGE / mutant.path).read_bytes()
    before, after = (text.decode().splitlines() for text in (source, mutant.applied(source)))
    return "\n".join(list(difflib.unified_diff(before, after, lineterm="", n=1))[2:])


def _report(numbered: dict[int, Mutant], words: dict[int, str], asked: dict[str, Any]) -> dict:
    by_word, by_file = Counter(words.values()), {}
    for number, word in sorted(words.items()):
        counts = by_file.setdefault(numbered[number].path, Counter())
        counts["mutants"] += 1
        counts["killed"] += word != "survived"
    survivors = [n for n, word in sorted(words.items()) if word == "survived"]
    return {
        "mutants": len(words),
        "of": len(numbered),
        "asked": asked,
        "killed": len(words) - by_word["survived"],
        "out of time": by_word["out of time"],
        "score": 1 - by_word["survived"] / len(words),
        "files": by_file,
        "survivors": [
            {"number": n, "line": f"{numbered[n].path}:{numbered[n].line}", "diff": _diff(numbered[n])}
            for n in survivors
        ],
        "sources": _fingerprint(),
        "verdicts": words,
    }


def _before(options: argparse.Namespace, asked: dict[str, Any]) -> dict[str, Any]:
    """The report of the last run if `--again` asks for it, or if it was asked for the same and can have
    been cut short. Its numbers mean the same as long as no source has changed."""
    report = json.loads(options.out.read_text()) if options.out.exists() else {}
    same = report.get("sources") == _fingerprint()
    if options.again and not same:
        raise SystemExit("the sources have changed since the last run: numbers mean other mutants now.")
    goes_on = same and options.number is None and report["asked"] == asked
    return report if options.again or goes_on else {"asked": asked, "verdicts": {}}


def _fingerprint() -> str:
    keys = json.dumps([mutant.key for mutant in every_mutant()], ensure_ascii=False)
    return hashlib.sha256(keys.encode()).hexdigest()


if __name__ == "__main__":
    main()
