"""Whether the error bounds hold, and how much they overstate: 500 φ per problem against references.

    python benchmarks/bounds.py                                    the bases that come with the package
    python benchmarks/bounds.py convection=runs/mine darcy=FILE    a run's folder or a file for some
    python benchmarks/bounds.py darcy --grid 211                   Darcy with ν on fewer nodes

φ are the 50 test φ and φ of other distributions than the basis was trained on. The true error is taken
in the norm the bound speaks of, from the references on their grids (trapezoidal rule). A solve that
fails counts as such; its bound, too, must hold for the weights it left. Counts, medians and 95%
quantiles go to results/bounds.json, and a table of them to results/bounds.md: how a basis does outside
its distribution.
"""

import argparse
import json
import platform
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import pdecl
from pdecl.family import SPLITS, Family
from pdecl.family.bound import bound
from pdecl.family.experiment import problem_with, solver_of
from pdecl.family.fields import neumann_field, normals
from pdecl.family.trained import Trained, as_fields
from pdecl.problems import Burgers, Convection, Darcy
from pdecl.problems.convection import speed
from pdecl.problems.darcy.bound import energy_norm

TEST, OUTSIDE = SPLITS["test"].seed, 3


def convection_sets(family: Convection) -> dict[str, tuple[Family, int, int]]:
    return {
        "test": (family, TEST, 50),
        "length 0.1": (replace(family, length=0.1), OUTSIDE, 225),
        "length 0.4": (replace(family, length=0.4), OUTSIDE, 225),
    }


def burgers_sets(family: Burgers) -> dict[str, tuple[Family, int, int]]:
    return {
        "test": (family, TEST, 50),
        "viscosity 0.005": (replace(family, viscosity=0.005), OUTSIDE, 75),
        "viscosity 0.02": (replace(family, viscosity=0.02), OUTSIDE, 75),
        "twice the amplitude": (replace(family, sigma=2 * family.sigma), OUTSIDE, 75),
        # The largest wave keeps its size, the others fall more slowly.
        "gamma 3": (replace(family, gamma=3.0, sigma=family.sigma / 8), OUTSIDE, 75),
        "tau 2": (replace(family, tau=2.0), OUTSIDE, 75),
        "tau 8": (replace(family, tau=8.0), OUTSIDE, 75),
    }


def darcy_sets(family: Darcy) -> dict[str, tuple[Family, int, int]]:
    return {
        "test": (family, TEST, 50),
        "nu in {1, 12}": (replace(family, low=1.0), OUTSIDE, 150),
        "tau 6": (replace(family, tau=6.0), OUTSIDE, 75),
        "tau 1.5": (replace(family, tau=1.5), OUTSIDE, 75),
        "smooth": (family, OUTSIDE, 150),
    }


def draw(label: str, family: Family, seed: int, start: int, count: int) -> np.ndarray:
    if label != "smooth":
        return family.sample(seed, count, start)
    noise = np.stack([normals(seed, start + k, (family.grid, family.grid)) for k in range(count)])
    field = neumann_field(noise, family.tau, 3.0)
    return 6 * np.exp(field / field.std(axis=(1, 2), keepdims=True))


def solved(trained: Trained, family: Family, phi: np.ndarray) -> pdecl.Solution:
    """As `trained.solve`, for a family with other constants."""
    problem = problem_with(family, trained.experiment.statement)
    points = problem.draw(trained.experiment.network.size)
    if trained.experiment.method == "soft":
        return jax.vmap(
            lambda phi: pdecl.predict(problem, trained.basis, phi, points=points, throw=False)
        )(phi)
    solver = solver_of(trained.experiment)
    return jax.vmap(
        lambda phi: pdecl.solve(problem, trained.basis, phi, solver=solver, points=points, throw=False)
    )(phi)


def true_errors(
    trained: Trained, family: Family, phi: np.ndarray, solution: pdecl.Solution
) -> np.ndarray:
    """‖v − u‖ in the norm of the bound, and ‖u‖."""
    u = family.reference(phi)
    mesh = solution.problem.domain.mesh(*u.shape[1:])
    off = as_fields(trained, phi, solution(mesh)) - u
    if isinstance(family, Darcy):
        norm = jax.vmap(energy_norm)
        return np.stack([np.asarray(norm(phi, off)), np.asarray(norm(phi, u))])
    ends = np.full(u.shape[1], 1 / (u.shape[1] - 1))
    ends[[0, -1]] /= 2
    weight = (
        1 / speed(phi, np.linspace(0, 1, u.shape[2]))
        if isinstance(family, Convection)
        else 1 + 0 * u[:, 0]
    )
    return np.sqrt([np.einsum("btx,t,x,bx->b", f**2, ends, ends, weight) for f in (off, u)])


def check(
    trained: Trained, label: str, family: Family, seed: int, count: int, together: int
) -> dict[str, Any]:
    kept: dict[str, list[np.ndarray]] = {
        name: [] for name in ("bound", "lower", "relative", "error", "size")
    }
    failed, seconds = 0, []
    for start in range(0, count, together):
        phi = draw(label, family, seed, start, min(together, count - start))
        solution = solved(trained, family, phi)
        failed += int(np.sum(np.asarray(solution.code) > 1))
        began = time.perf_counter()
        found = jax.block_until_ready(bound(family, solution, throw=False))
        seconds.append((time.perf_counter() - began) / len(phi))
        error, size = true_errors(trained, family, phi, solution)
        values = (found.bound, found.lower, found.relative, error, size)
        for name, value in zip(kept, values, strict=True):
            kept[name].append(np.asarray(value))
    arrays = {name: np.concatenate(parts) for name, parts in kept.items()}
    return {"failed_solves": failed, "seconds_per_phi": min(seconds), **arrays}


def summary(found: dict[str, Any]) -> dict[str, Any]:
    ratio = found["bound"] / found["error"]
    relative = found["error"] / found["size"]
    return {
        "count": len(ratio),
        "failed_solves": found["failed_solves"],
        "violations": int(np.sum(~(found["error"] <= found["bound"]))),
        "violations_relative": int(np.sum(~(relative <= found["relative"]))),
        "violations_lower": int(np.sum(~(found["lower"] <= found["error"]))),
        "ratio_median": float(np.median(ratio)),
        "ratio_95": float(np.quantile(ratio, 0.95)),
        "ratio_smallest": float(ratio.min()),
        "ratio_largest": float(ratio.max()),
        "relative_error_median": float(np.median(relative)),
        "relative_bound_median": float(np.median(found["relative"])),
        "seconds_per_phi": found["seconds_per_phi"],
    }


def markdown(results: dict[str, Any]) -> str:
    """How the bases do on φ of their training distribution and of others, and what their bounds say of
    it."""
    head = ["problem", "φ", "count", "error", "bound", "bound / error", "violated", "solves that failed"]
    lines = [head, ["---"] * len(head)]
    for name, found in results.items():
        on = f", ν on {found['grid']}²" if found["grid"] else ""
        for label, row in {**found["sets"], "all": found["all"]}.items():
            error, stated = (_percent(row[f"relative_{what}_median"]) for what in ("error", "bound"))
            ratio = f"{row['ratio_median']:.3g} (95%: {row['ratio_95']:.3g})"
            counts = [str(row[key]) for key in ("violations", "failed_solves")]
            lines.append([f"{name}{on}", label, str(row["count"]), error, stated, ratio, *counts])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{_MARKDOWN}\n{table}\n"


def _percent(value: float) -> str:
    return f"{value:.2%}" if value >= 5e-5 else "< 0.01%"


_MARKDOWN = """# Bases outside their training distribution, and their error bounds

Written by `benchmarks/bounds.py`. "test" are the 50 test φ; all other rows are φ that the basis was not
trained for. Errors and bounds are relative, in the norm of the problem's bound (docs/how-wrong.md), and
medians. No bound was violated where the column says 0; a solve that failed says so by its status.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bases", nargs="*", help="PROBLEM or PROBLEM=FILE|FOLDER; all three without any")
    parser.add_argument("--together", type=int, help="φ in one batch (75; of Darcy, whole grids, 5)")
    parser.add_argument("--grid", type=int, default=421, help="Darcy: nodes a side of ν (421)")
    out = Path(__file__).parent / "results" / "bounds.json"
    parser.add_argument("--out", type=Path, default=out)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    sets = {"convection": convection_sets, "burgers": burgers_sets, "darcy": darcy_sets}
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for name, _, place in (text.partition("=") for text in arguments.bases or sets):
        trained = pdecl.load(place or name)
        own = replace(trained.family, grid=arguments.grid) if name == "darcy" else trained.family
        rows = {}
        for label, (family, seed, count) in sets[name](own).items():
            together = arguments.together or (5 if name == "darcy" else 75)
            rows[label] = check(trained, label, family, seed, count, together)
            print(f"{name:11} {label:20} {_line(summary(rows[label]))}", flush=True)
        numbers = [key for key, value in rows["test"].items() if isinstance(value, np.ndarray)]
        everything: dict[str, Any] = {
            key: np.concatenate([r[key] for r in rows.values()]) for key in numbers
        }
        everything["failed_solves"] = sum(row["failed_solves"] for row in rows.values())
        everything["seconds_per_phi"] = min(row["seconds_per_phi"] for row in rows.values())
        print(f"{name:11} {'all':20} {_line(summary(everything))}", flush=True)
        results[name] = {
            "device": jax.devices()[0].device_kind,
            "python": platform.python_version(),
            "jax": jax.__version__,
            "experiment": trained.experiment.as_dict(),
            "grid": arguments.grid if name == "darcy" else None,
            "sets": {label: summary(row) for label, row in rows.items()},
            "all": summary(everything),
        }
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")
        arguments.out.with_suffix(".md").write_text(markdown(results))


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['count']:4} φ  violations {row['violations']}  bound/error median "
        f"{row['ratio_median']:.3g}, 95% {row['ratio_95']:.3g}, least {row['ratio_smallest']:.3g}  "
        f"error {row['relative_error_median']:.2%}  {1e3 * row['seconds_per_phi']:.0f} ms"
    )


if __name__ == "__main__":
    main()
