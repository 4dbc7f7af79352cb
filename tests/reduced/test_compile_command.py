"""`pdecl compile` makes a file that `pdecl solve` takes, and says what it cost."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import pdecl
from pdecl.family.experiment import basis_of, keys_of, preset
from pdecl.family.metrics import relative_l2
from pdecl_cli import app

TINY = {"size": 12, "width": 12, "depth": 1, "creased": 0.0}


def trained(problem="convection", method="hard", **changes):
    made = preset(problem, method, "quick").with_overrides(**TINY, **changes)
    return pdecl.Trained(made, basis_of(made, keys_of(made)[0]))


def run(command, *words):
    return CliRunner().invoke(app, [command, *map(str, words)], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("compile") / "model.safetensors"
    trained().save(path)
    return path


@pytest.fixture(scope="module")
def made(model):
    """The file, and what was printed."""
    out = model.parent / "fast.safetensors"
    result = run("compile", model, "--functions", 6, "--phis", 24, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    return out, json.loads(result.stdout)


def test_the_file_is_the_solver_that_was_described(made, model):
    out, told = made
    solver = pdecl.load(out)
    assert told["functions"] == {"layer": 12, "compiled": 6}
    assert told["functions"]["compiled"] == solver.functions
    assert told["rows"]["compiled"] == solver.rows < told["rows"]["layer"]
    assert told["bytes"] == {"layer": model.stat().st_size, "compiled": out.stat().st_size}
    assert (told["phis"], told["held_out"], told["error"]["count"]) == (24, 6, 6)
    seconds = told["seconds_per_phi"]
    assert seconds["ratio"] == pytest.approx(seconds["layer"] / seconds["compiled"])


def test_the_error_is_that_of_unseen_phi(made):
    out, told = made
    solver, phi = pdecl.load(out), trained().family.sample(5, 30)
    at = solver.core.problem.domain.mesh(21, 21)
    full = trained().solve(phi, throw=False)(at)
    errors = relative_l2(np.asarray(solver(phi)(at)), np.asarray(full))
    assert told["error"]["mean"] / 3 < errors.mean() < 3 * told["error"]["mean"]


def test_an_error_is_asked_for_and_a_table_printed(model, tmp_path):
    out = tmp_path / "new" / "fast.safetensors"
    result = run("compile", model, "--error", 0.9, "--phis", 24, "--out", out)
    assert result.exit_code == 0, result.output
    solver = pdecl.load(out)
    assert solver.functions == 8  # the fewest that are tried
    for words in (
        "functions",
        "12",
        "as fast",
        f"mean {solver.error.mean:.2e}",
        "6 φ that were held out",
    ):
        assert words in result.stdout


def test_help_teaches():
    shown = run("compile", "--help").output
    for word in ("--functions", "--error", "--phis", "Examples", "held out", "pdecl solve", "--json"):
        assert word in shown
    assert "pdecl compile" in run("solve", "--help").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--functions", 13, "--phis", 40], "the basis has 12 functions; found 13"),
        (["--functions", 12, "--phis", 12], "cannot be learned from 9 answers"),
        (["--functions", 6, "--error", 0.1], "not both"),
        (["--error", 2], "between 0 and 1"),
        (["--phis", 10**13], "learn from fewer φ"),
        (["--out", "a.h5"], "a .safetensors file; found a.h5"),
    ],
)
def test_mistakes_are_explained(words, message, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("compile", model, "--out", "a.safetensors", *words)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert not list(tmp_path.iterdir())


def test_models_that_cannot_be_compiled(made, tmp_path):
    out, soft, seeing = made[0], tmp_path / "soft.safetensors", tmp_path / "seeing.safetensors"
    trained("burgers", "soft").save(soft)
    trained(kind="Modulated").save(seeing)
    for path, words, message in [
        (soft, [], "a soft model"),
        (seeing, ["--functions", 6], "this basis sees φ"),
        (out, [], "holds a compiled solver, not a trained basis"),
        (tmp_path / "none", [], "there is no such file"),
    ]:
        result = run("compile", path, "--phis", 24, *words, "--out", tmp_path / "a.safetensors")
        assert result.exit_code == 2
        assert message in result.output.replace("\n", " ")
    before = out.read_bytes()
    result = run("compile", soft, "--out", out)
    assert "is there already" in result.output
    assert out.read_bytes() == before


def test_a_compiled_solver_is_evaluated(made, tmp_path):
    result = run("evaluate", made[0], "--count", 4, "--cache", tmp_path, "--json")
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert (found["problem"], found["error"]["count"]) == ("convection", 4)


def test_a_damaged_solver_is_refused(made, tmp_path):
    whole = bytearray(made[0].read_bytes())
    whole[-1] ^= 1
    path = tmp_path / "a.safetensors"
    path.write_bytes(whole)
    result = run("solve", path, "--sample", "1,2")
    assert result.exit_code == 2
    assert "a.safetensors is damaged" in result.output.replace("\n", " ")


def test_a_solver_of_ones_own_problem_is_for_python(reduced, tmp_path):
    reduced.save(tmp_path / "own.safetensors")
    result = run("solve", tmp_path / "own.safetensors", "--sample", "1,2")
    assert result.exit_code == 2
    assert "pdecl.load(path, problem, basis=basis)" in result.output.replace("\n", " ")
