"""The comparison with numerical solvers runs, and leaves its figure, table and numbers behind."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def pareto(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import pareto

    return pareto


def test_it_compares_the_layer_with_numerical_solvers(pareto, tmp_path):
    pareto.main(["--quick", "--problems", "darcy", "--out", str(tmp_path)])
    platform = jax.default_backend()
    assert not list(tmp_path.glob("*.part.json"))
    found = json.loads((tmp_path / f"pareto-{platform}.json").read_text())["darcy"]
    families = {row["family"] for row in found["rows"]}
    assert families == {"layer", "numerical"}
    assert all(np.isfinite(row["error"]) and row["grid"] for row in found["rows"])
    assert all(one["times_as_long"] > 0 for one in found["comparison"])
    assert found["comparison"][0]["rival"] in found["caption"]
    for kind in ("png", "md"):
        assert (tmp_path / f"pareto-darcy-{platform}.{kind}").stat().st_size > 500
