"""Many φ to a tolerance: a batch that marches together, beside each φ by itself.

    python benchmarks/batches.py                              both families below, a minute
    python benchmarks/batches.py burgers_nu_01 --count 20     one of them, fewer φ

Families of benchmarks/families.py that have no small basis, at its tolerance of 1e-4, on its 50 φ.
Errors are against ETDRK4 at its finest level. Seconds are of the processor, of warm runs; each by itself
on the first ten φ. Results go to results/batches.json.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from typing import Any

import families
import jax
import numpy as np

import pdecl

FAMILIES = ("allen_cahn", "burgers_nu_01")
TOLERANCE, ALONE = 1e-4, 10


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a call returns, and its seconds, of the processor and of the clock."""
    began, worked = time.perf_counter(), time.process_time()
    found = call()
    return found, time.process_time() - worked, time.perf_counter() - began


def measure(name: str, count: int) -> dict[str, Any]:
    case, problem = families.CASES[name](), families.problem_in(name)
    draw = lambda k: problem.parameter(jax.random.fold_in(jax.random.key(families.SEED), k))
    phis = jax.vmap(draw)(np.arange(count))
    solve = lambda phi: pdecl.solve(problem, phi, tolerance=TOLERANCE, throw=False, progress=False)
    some = lambda k: jax.tree.map(lambda leaf: leaf[k], phis)

    def together(phis: Any) -> list[pdecl.Adaptive]:
        return list(jax.vmap(solve)(phis))

    together(some(slice(0, 2)))  # compiles
    found, worked, seconds = timed(lambda: together(phis))
    own = min(ALONE, count)
    alone, worked_alone, _ = timed(lambda: [solve(some(k)) for k in range(own)])
    _, first, _ = timed(lambda: together(some(slice(0, own))))
    truth, *_ = families.truth_of(case, phis)
    values = lambda solutions: np.stack([np.asarray(one.on_grid(*case.lines)) for one in solutions])
    errors = families.errors_of(values(found), truth)
    stated = np.array([one.error_estimate for one in found])
    return {
        "title": case.title,
        "count": count,
        "ms a φ": 1e3 * worked / count,
        "ms a φ by the clock": 1e3 * seconds / count,
        "ms a φ, ten together": 1e3 * first / own,
        "ms a φ, each by itself": 1e3 * worked_alone / own,
        "error, mean": float(errors.mean()),
        "error, worst": float(errors.max()),
        "error by itself, mean": float(families.errors_of(values(alone), truth[:own]).mean()),
        "estimate above the error": float((stated >= errors).mean()),
        "median ratio": float(np.median(stated / errors)),
        "solved": sum(not one.status.failed for one in found),
        "slabs": sorted({one.slabs for one in found}),
        "machine": platform.machine(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*FAMILIES, []])
    parser.add_argument("--count", type=int, default=families.COUNT)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    file = families.RESULTS / "batches.json"
    known = json.loads(file.read_text()) if file.is_file() else {}
    for family in given.names or FAMILIES:
        known[family] = measure(family, given.count)
        print(family, json.dumps(known[family], ensure_ascii=False, indent=1), flush=True)
        file.write_text(json.dumps(known, ensure_ascii=False, indent=1) + "\n")
