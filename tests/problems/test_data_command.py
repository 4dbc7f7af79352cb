"""`pdecl data` as a user meets it."""

import json

import pytest
from typer.testing import CliRunner

from pdecl.family import dataset as datasets
from pdecl.problems import Convection, Darcy
from pdecl_cli import app


def run(*arguments):
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


def test_help_teaches():
    shown = run("--help").output
    for word in ("pdecl info", "--split", "--out", "--plot", "--from", "Examples"):
        assert word in shown


def test_writes_a_dataset_and_says_so_in_json(tmp_path):
    out = tmp_path / "c.nc"
    result = run("convection", "--count", 3, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["count"], summary["origin"]["seed"]) == (3, 2)
    assert 0.004 < summary["beside"]["u_box"]["mean"] < 0.02
    assert (datasets.read(out).phi == Convection().sample(2, 3)).all()


def test_seed_split_and_cache(tmp_path):
    out = tmp_path / "b.nc"
    result = run("burgers", "--split", "train", "--count", 2, "--out", out, "--cache", tmp_path / "k")
    assert result.exit_code == 0, result.output
    assert "burgers, 2 φ" in result.output
    assert [file.name for file in (tmp_path / "k").iterdir()] == ["burgers-seed1-2.nc"]
    assert run("burgers", "--seed", 9, "--count", 1, "--out", out).exit_code == 0
    assert datasets.read(out).origin["seed"] == 9


@pytest.mark.parametrize("problem", ["burgers", "convection"])
def test_draws(problem, tmp_path):
    picture = tmp_path / "deep" / "p.png"
    result = run(problem, "--count", 2, "--plot", picture)
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_reads_a_file_and_coarsens_it(tmp_path):
    datasets.write(tmp_path / "d.nc", datasets.build(Darcy(grid=41), 3, 2, truth=True))
    out, picture = tmp_path / "e.nc", tmp_path / "e.png"
    result = run("darcy", "--from", tmp_path / "d.nc", "--grid", 21, "--out", out, "--plot", picture)
    assert result.exit_code == 0, result.output
    assert datasets.read(out).phi.shape == (2, 21, 21)
    assert picture.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["darcy"], "nothing to write"),
        (["heat", "--plot", "p.png"], "there is no problem 'heat'"),
        (["darcy", "--split", "half", "--plot", "p.png"], "choose one of train, test"),
        (["burgers", "--from", "none.mat", "--plot", "p.png"], "there is no file none.mat"),
        (["burgers", "--from", "a.mat", "--seed", "1", "--plot", "p.png"], "leave out --seed"),
        (["burgers", "--count", "1", "--out", "d.txt"], "written as .nc"),
        (["burgers", "--count", "1", "--plot", "p.txt"], "written as .png"),
        (["darcy", "--count", "1000000000", "--plot", "p.png"], "ask for fewer φ"),
        (
            ["convection", "--grid", "61", "--count", "1", "--plot", "p.png"],
            "grid is for problems whose φ",
        ),
    ],
)
def test_mistakes_are_explained(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
