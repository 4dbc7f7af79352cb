"""Results kept as small files, and RESULTS.md from them."""

import json
from pathlib import Path

import numpy as np
import pytest

from pdecl.family.experiment import preset
from pdecl.report import results
from pdecl.report.runs import Run
from pdecl.report.summary import Moment, Race, Spread, races, rows
from pdecl.train.history import History


def experiment(problem="burgers", method="hard", seed=0, **changes):
    """A preset with sizes of its own, so that tuning one changes nothing here."""
    return preset(problem, method, "quick", seed).with_overrides(
        **{"size": 96, "width": 96, "depth": 3, "steps": 600, **changes}
    )


def result(problem="burgers", method="hard", seed=0, error=0.01, steps=(0, 1, 10, 100), **told) -> dict:
    """A made-up run: its error falls from 10 · error to error, at 0.1 s per step after 5 s."""
    errors = np.linspace(10 * error, error, len(steps))
    metrics = [
        {"step": step, "seconds": 0.0 if step == 0 else 5 + 0.1 * step, "error": e, "residual": 9.0}
        for step, e in zip(steps, errors.tolist(), strict=True)
    ]
    return {
        "format": 1,
        "experiment": experiment(problem, method, seed).as_dict(),
        "environment": {
            "device": "cpu",
            "command": f"pdecl train {problem} --seed {seed}",
            "began": "now",
        },
        "points": {"equation": 192, "initial": 39},
        "evaluation": {
            "error": {"mean": error, "std": 0.0, "max": 3 * error, "count": 50},
            "errors": [error] * 50,
            "residual_loss": 123.4,
            "beside": {},
            "statuses": {"SOLVED": 50},
            "seconds_per_phi": 0.0025,
            "count": 50,
            "device": "cpu",
        },
        "history": {
            "steps": steps[-1],
            "seconds": metrics[-1]["seconds"],
            "compiling": 5.1,
            "steps_per_second": 10.0,
            "metrics": metrics,
        },
        **told,
    }


def test_a_result_and_a_history_of_version_0_1_are_read(tmp_path):
    """Its metrics were called "watched"; the kept ones in `results/` are of that kind too."""
    new = result()
    old = {**new, "history": {**new["history"]}}
    old["history"]["watched"] = old["history"].pop("metrics")
    (tmp_path / "old.json").write_text(json.dumps(old))
    (tmp_path / "new.json").write_text(json.dumps(new))
    assert results.read(tmp_path / "old.json") == results.read(tmp_path / "new.json")
    (tmp_path / "history.json").write_text('{"loss": [1.0], "seconds": [2.0], "watched": [{"step": 0}]}')
    assert History.load(tmp_path / "history.json").metrics == [{"step": 0}]


def test_collect_keeps_what_is_worth_keeping():
    history = History([1.0, 0.5], [3.0, 3.5], [{"step": 0, "seconds": 0.0, "error": np.inf}], 3.0)
    evaluation = {
        "error": {"mean": 0.123456, "std": 0.0, "max": np.inf, "count": 2},
        "errors": [0.1234567, np.inf],
        "residuals": [1.0, 2.0],
        "residual_loss": 1.5,
        "beside": {},
        "statuses": {"SOLVED": 2},
        "seconds_per_phi": 0.1,
        "count": 2,
        "device": "cpu",
    }
    run = Run(Path("folder"), experiment(), {"device": "cpu"}, history, evaluation, {})
    kept = results.collect(run)
    assert kept == json.loads(json.dumps(kept, allow_nan=False))
    assert kept["evaluation"]["errors"] == [0.1235, None]
    assert "residuals" not in kept["evaluation"]
    assert kept["history"]["steps_per_second"] == 2.0
    assert kept["history"]["metrics"] == [{"step": 0, "seconds": 0.0, "error": None}]
    assert kept["points"] == {"equation": 192, "initial": 39}
    assert "∞%" in results.markdown([kept])


def test_result_files_come_back_and_others_are_refused(tmp_path):
    run = Run(Path("folder"), preset("darcy", "soft"), {"device": "cpu"}, History([1.0], [1.0]), {}, {})
    results.write(tmp_path / "darcy.json", run)
    assert results.read(tmp_path / "darcy.json") == results.collect(run)
    (tmp_path / "cut.json").write_text('{"format": 1')
    (tmp_path / "other.json").write_text("[1, 2]")
    (tmp_path / "later.json").write_text('{"format": 2}')
    for name in ("cut", "other", "later", "none"):
        with pytest.raises(ValueError, match=f"{name}.json is not a result of pdecl"):
            results.read(tmp_path / f"{name}.json")


def test_a_network_of_another_kind_is_kept_beside_the_presets_own():
    own = experiment("burgers", "soft")
    assert results.name(own) == "burgers-soft-quick-0"
    assert results.name(own.with_overrides(kind="Modulated")) == "burgers-soft-quick-0-modulated"


def test_rows_are_over_seeds_and_split_by_setting_and_device():
    wider = result(seed=0)
    wider["experiment"] = experiment(width=128).as_dict()
    gpu = result(seed=0, environment={"device": "H200"})
    given = [
        result("darcy"),
        result(seed=1, error=0.03),
        result(seed=0),
        result(method="soft"),
        wider,
        gpu,
    ]
    table = rows(given)
    assert [len(row.results) for row in table] == [1, 1, 2, 1, 1]
    both = table[2]
    assert both.seeds == [0, 1]
    assert both.error.mean == pytest.approx(0.02)
    assert both.error.deviation == pytest.approx(0.02 / 2**0.5)
    assert both.largest_error == pytest.approx(0.09)
    assert Spread.over([1.0]) == Spread(1.0, None)


def test_hard_against_soft_counts_steps_and_seconds():
    soft = result(method="soft", error=0.02, steps=(0, 10, 1000))
    hard = result(method="hard", error=0.01, steps=(0, 1, 10, 100))
    (race,) = races([hard], [soft])
    assert race.best == 0.02
    assert (race.soft.step, race.soft.seconds) == (1000, 105.0)
    assert (race.hard.step, race.hard.seconds) == (100, 15.0)
    assert race.ratios() == pytest.approx([10.0, 7.0, 99.9 / 9.9])
    assert race.residual == 1.0
    (never,) = races([result(error=0.05)], [soft])
    assert never.hard is None
    assert never.ratios() == [None] * 3
    assert Race({}, {}, 0.1, Moment(5, 1.0, 0.9), Moment(0, 0.0, 0.0)).ratios() == [None] * 3
    assert races([], [soft]) == []


def test_a_race_is_run_against_the_same_network_where_there_is_one():
    soft = result(method="soft", error=0.02)
    kind = soft["experiment"]["network"]["kind"]
    same, other, later = (result(error=e, seed=seed) for e, seed in [(0.01, 0), (0.05, 0), (0.01, 1)])
    same["experiment"]["network"] = {**same["experiment"]["network"], "kind": kind}
    other["experiment"]["network"] = {**other["experiment"]["network"], "kind": "another"}
    for hard in ([same, other, later], [later, other, same]):
        assert races(hard, [soft])[0].hard is not None
    assert races([later, other], [soft])[0].hard is None  # of the same seed, and never that good
    better = result(error=0.03)
    better["experiment"]["network"] = {**other["experiment"]["network"], "kind": "a third"}
    for hard in ([other, better], [better, other]):
        assert races(hard, [soft])[0].rival["network"]["kind"] == "a third"  # the most accurate


def test_a_companion_of_one_seed_is_told_with_the_seed():
    first, second = result(problem="darcy", error=0.01), result(problem="darcy", error=0.01, seed=1)
    first["evaluation"]["beside"] = {"u_truth": {"mean": 0.02, "std": 0.0, "max": 0.03, "count": 50}}
    text = results.markdown([first, second])
    assert "error against the pixel truth" in text
    assert "2.00% (seed 0)" in text


def test_markdown_says_what_the_numbers_show():
    box = {"u_box": {"mean": 0.0093, "std": 0.0, "max": 0.01, "count": 50}}
    convection = result("convection", error=0.02)
    convection["evaluation"]["beside"] = box
    failed = result("darcy", error=0.0364)
    failed["evaluation"]["statuses"] = {"SOLVED": 48, "ILL_CONDITIONED": 2}
    given = [
        result(seed=0),
        result(seed=1, error=0.03),
        result(method="soft", error=0.05),
        convection,
        failed,
    ]
    text = results.markdown(given)
    assert text.index("## Burgers") < text.index("## Convection") < text.index("## Darcy")
    assert "| quick | hard | 96 | MLP 3×96 | 192 equation + 39 initial points | 100 |" in text
    assert "2.00% ± 1.4% (9.00%) | 1.11% ± 0.11%" in text
    assert "1.8 times the paper's (1.11%); over the last half of 100 steps it went from 4.00%" in text
    assert "error against the box scheme" in text
    assert "0.930%" in text
    assert "solves that failed: 2 ILL_CONDITIONED" in text
    assert "quick, hard, seed 1: `pdecl train burgers --seed 1` (cpu, now)" in text
    assert "`pdecl results`" in text
    assert "| 0 | 5.00% | 100 | 15.0 | 10 | 6.00 | 10.0× | 2.50× | 11.0× | 1.00 |" in text
    assert "no hard and soft runs of one preset to compare" in text
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({line.count("|") for line in block.splitlines()}) == 1


def test_markdown_of_a_run_that_was_not_evaluated():
    text = results.markdown([result(evaluation={})])
    assert "not evaluated" in text
