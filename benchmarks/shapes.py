"""Solves to a tolerance on shapes, each beside finite elements on a mesh of the same shape.

    python benchmarks/shapes.py                 all of them: half an hour on two cores
    python benchmarks/shapes.py poisson-c       some, beside what the results already hold
    python benchmarks/shapes.py --loose         the first tolerance of each alone

Problems (shapes_cases.py) are solved by `pdecl.solve(problem, tolerance=...)` with no other argument.
True errors are relative L2 errors at random points, the worst of the unknowns, against an exact solution
or a solve to a smaller tolerance, which elements confirm as far as they go; where neither can be had,
the distance from the finest elements is given, which bounds both errors. Elements (shapes_elements.py)
are quadratic, refined until they are as accurate as our solution, as far as 20 s go; their seconds are
those of the last mesh: mesh, assembly and solve. Results go to
results/shapes.json, and a page of them to results/shapes.md.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from shapes_cases import CASES, Case, Values

import pdecl

RESULTS = Path(__file__).parent / "results"
AFFORDABLE = 20.0  # seconds for a mesh, and its solve
Truth = Callable[[np.ndarray], Values]  # of points (n, d)


@dataclass(frozen=True)
class Row:
    asked: float
    error: float
    stated: float
    seconds: float
    functions: int
    status: str
    cpu: float | None = None  # seconds of the processor, which other load does not make longer
    fem_error: float | None = None
    fem_seconds: float | None = None
    fem_functions: int | None = None
    fem_cpu: float | None = None


class Clock:
    """Seconds, and those of the processor, since it was made."""

    def __init__(self) -> None:
        self.begun = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self.begun[0], time.process_time() - self.begun[1]


def solved(case: Case, tolerance: float) -> tuple[Any, float, float]:
    clock = Clock()
    solution = pdecl.solve(case.problem(), tolerance=tolerance, progress=False, throw=False)
    return solution, *clock.read()


def places(case: Case) -> np.ndarray:
    """Random points of the domain."""
    domain = case.problem().domain
    low, high = np.array(domain.bounds).T
    x = np.random.default_rng(0).uniform(low, high, (5000 if len(low) < 5 else 60_000, len(low)))
    return x[~domain.outside(x)]


def error_of(values: Values, there: Values) -> float:
    size = lambda x: float(np.linalg.norm(x))
    return max(size(values[u] - there[u]) / size(there[u]) for u in there)


def measured(case: Case, tolerance: float, points: np.ndarray, truth: Truth | None) -> Row:
    solution, seconds, cpu = solved(case, tolerance)
    row = Row(
        tolerance,
        np.nan,
        solution.error_estimate,
        seconds,
        solution.functions,
        solution.status.name,
        cpu,
    )
    if truth is None:  # the distance from the finest elements is the error of both
        beside = as_accurate(case, 0.0, lambda points: solution.at(points, ()))
        return replace(row, error=beside["fem_error"], **beside)
    error = error_of(solution.at(points, ()), truth(points))
    beside = {} if case.elements is None else as_accurate(case, error, truth)
    return replace(row, error=error, **beside)


def as_accurate(case: Case, error: float, truth: Truth) -> dict[str, Any]:
    """Error, seconds and unknowns of the first mesh that is as accurate, or of the last affordable
    one."""
    assert case.elements is not None
    h, growth, wrong, seconds, cpu = case.first, 4.0, np.inf, 0.0, 0.0
    while wrong > error and cpu * growth < AFFORDABLE:
        before, clock = cpu, Clock()
        elements = case.elements(h)
        seconds, cpu = clock.read()
        growth = max(cpu / before, 2.0) if before else 4.0
        wrong = elements.error(truth)
        h /= 1.5
    return {
        "fem_error": wrong, "fem_seconds": seconds, "fem_functions": elements.unknowns, "fem_cpu": cpu
    }  # fmt: skip


def truth_of(case: Case) -> Truth | None:
    if case.exact is not None or case.fine is None:
        return case.exact
    fine, *_ = solved(case, case.fine)
    print(f"truth: {fine.status.name}, {fine.error_estimate:.1e}, {fine.seconds:.0f} s", flush=True)
    return lambda points: fine.at(points, ())


def taken(row: dict[str, Any], whose: str) -> str:
    """Seconds, and those of the processor where they are known."""
    cpu = row.get(f"{whose}cpu")
    return f"{row[f'{whose}seconds']:.1f}" + ("" if cpu is None else f" ({cpu:.1f})")


def page(results: dict[str, Any]) -> str:
    lines = [
        "# Shapes, to a tolerance",
        "",
        f"`python benchmarks/shapes.py` on {results['machine']}. Seconds with compilation, in brackets "
        "those of the processor where they were taken: what it takes on a machine that does nothing "
        "else. Load is that of the machine. Errors are relative L2, the worst of the unknowns, against "
        "an exact solution or a solve to a smaller tolerance; with an asterisk the distance from the "
        "finest elements that could be afforded. Finite elements: quadratic, as accurate as our "
        f"solution where {AFFORDABLE:.0f} s suffice; of five dimensions there is no mesh.",
        "",
        "| problem | asked | true error | stated | seconds | functions | elements: error | seconds | "
        "unknowns | best of PINNacle | load |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, case in CASES.items():
        for r in results["problems"].get(name, []):
            fem, star = "– | – | –", "" if case.exact or case.fine else "*"
            if r["fem_error"] is not None:
                fem = f"{r['fem_error']:.1e} | {taken(r, 'fem_')} | {r['fem_functions']}"
            stated = f"{r['stated']:.1e}" + (
                "" if r.get("status", "SOLVED") == "SOLVED" else " (not met)"
            )
            lines.append(
                f"| {case.title} | {r['asked']:.0e} | {r['error']:.1e}{star} | {stated} | "
                f"{taken(r, '')} | {r['functions']} | {fem} | {case.published} | {r['load']:.1f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", help="some of the problems")
    parser.add_argument("--loose", action="store_true", help="the first tolerance of each alone")
    given = parser.parse_args()
    names = given.problems or list(CASES)
    if unknown := set(names) - set(CASES):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(CASES)}")
    jax.config.update("jax_enable_x64", True)
    file = RESULTS / "shapes.json"
    results = json.loads(file.read_text()) if file.exists() else {"problems": {}}
    results["machine"] = f"{os.cpu_count()} cores, {platform.machine()}"
    for name in names:
        case = CASES[name]
        points, truth, rows = places(case), truth_of(case), []
        for tolerance in case.tolerances[: 1 if given.loose else None]:
            row = asdict(measured(case, tolerance, points, truth)) | {"load": os.getloadavg()[0]}
            print(name, row, flush=True)
            rows.append(row)
            results["problems"][name] = rows
            file.write_text(json.dumps(results, indent=1) + "\n")
            (RESULTS / "shapes.md").write_text(page(results))


if __name__ == "__main__":
    main()
