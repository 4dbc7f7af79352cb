"""How often true errors are below the stated ones, over all results that are kept, and how far.

    python benchmarks/estimates.py

Reads what benchmarks/pinnacle.py, shapes.py and families.py have written: the relative L2 error of each
solve against an exact or a numerical reference, and its own `error_estimate`, which knows of none.
Writes results/estimates.md.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
HEAD = """\
# Stated errors beside true ones

Written by `benchmarks/estimates.py` from the other results of this folder. Every solve to a tolerance
and every solver that `pdecl.fit(problem)` made states an error for each φ, without a reference. Below:
for how many of them the true error is below the stated one, and stated over true.

| results | solves | true below stated | stated over true: least | median | largest |
| --- | --- | --- | --- | --- | --- |
"""


def of_pinnacle(kept: dict[str, Any]) -> dict[str, list[tuple[float, float]]]:
    """The worst unknown counts."""
    rows = [row for rows in kept["problems"].values() for row in rows]
    return {
        "[one φ, on boxes](pinnacle.md)": [(max(row["error"].values()), row["stated"]) for row in rows]
    }


def of_shapes(kept: dict[str, Any]) -> dict[str, list[tuple[float, float]]]:
    rows = [row for rows in kept["problems"].values() for row in rows]
    return {"[one φ, on shapes](shapes.md)": [(row["error"], row["stated"]) for row in rows]}


def of_families(kept: dict[str, Any]) -> dict[str, list[tuple[float, float]]]:
    found = {}
    for one in kept["cases"].values():
        how = "compiled" if one["compiled"] else "each φ by itself"
        found[f"[{one['title']}, {how}](families.md)"] = list(
            zip(one["errors"], one["estimates"], strict=True)
        )
    return found


def row_of(words: str, pairs: list[tuple[float, float]]) -> str:
    true, stated = np.asarray(pairs, float).T
    ratios = stated / true
    least, median, largest = ratios.min(), np.median(ratios), ratios.max()
    share = f"{np.mean(true <= stated):.0%}"
    return f"| {words} | {len(true)} | {share} | {least:.2g} | {median:.2g} | {largest:.2g} |\n"


def main() -> None:
    readers = {"pinnacle": of_pinnacle, "shapes": of_shapes, "families": of_families}
    found: dict[str, list[tuple[float, float]]] = {}
    for name, reader in readers.items():
        file = RESULTS / f"{name}.json"
        if file.is_file():
            found |= reader(json.loads(file.read_text()))
    rows = "".join(row_of(words, pairs) for words, pairs in found.items())
    everything = [pair for pairs in found.values() for pair in pairs]
    (RESULTS / "estimates.md").write_text(HEAD + rows + row_of("**all**", everything))


if __name__ == "__main__":
    main()
