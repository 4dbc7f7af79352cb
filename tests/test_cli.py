"""The commands as a user meets them, on tiny sizes."""

import json
import os

import equinox as eqx
import numpy as np
import pytest
from typer.testing import CliRunner

import pdecl
import pdecl_cli
from pdecl.family import dataset as datasets
from pdecl.family.experiment import preset
from pdecl.report import runs
from pdecl_cli import app

TINY = ["--size", "6", "--width", "8", "--depth", "1", "--batch", "2", "--count", "2"]


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def trained(folder):
    """A hard and a soft run of convection."""
    for method in ("hard", "soft"):
        optimiser = "adam" if method == "hard" else "muon"
        result = call(
            "train", "convection", "--method", method, "--steps", 3, *TINY, "--optimiser", optimiser,
            "--out", folder / method, "--cache", folder / "data", "--json",
            *(["--bound"] if method == "soft" else []),
        )  # fmt: skip
        assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_help_teaches():
    shown = call("--help").output
    assert "Start here" in shown
    for command in ("train", "evaluate", "solve", "compile", "data", "report", "info"):
        assert command in shown
        assert "Examples" in call(command, "--help").output


@pytest.mark.parametrize(
    ("jaxlib", "before", "after"),
    [
        ("0.10.2", "", "--xla_cpu_use_fusion_emitters=false"),
        ("0.10.0", "--a=1", "--a=1 --xla_cpu_use_fusion_emitters=false"),
        ("0.10.2", "--xla_cpu_use_fusion_emitters=true", "--xla_cpu_use_fusion_emitters=true"),
        ("0.11.0", "--a=1", "--a=1"),
    ],
)
def test_flags_of_the_compiler_are_those_that_its_version_knows(monkeypatch, jaxlib, before, after):
    monkeypatch.setenv("XLA_FLAGS", before)
    monkeypatch.setattr("importlib.metadata.version", lambda name: jaxlib)
    found = []
    pdecl_cli.configured(lambda: found.append(os.environ["XLA_FLAGS"]))()
    assert found == [after]


def test_a_last_batch_that_is_not_full_is_measured_alike(trained, folder):
    soft = pdecl.load(folder / "soft")
    data = datasets.build(soft.family, 2, 5)
    assert data.count % soft.family.evaluate_batch
    five, fields = pdecl.evaluate(soft, data)
    four, _ = pdecl.evaluate(soft, datasets.take(data, 4))
    assert len(set(five.errors)) == len(fields) == sum(five.statuses.values()) == 5
    np.testing.assert_allclose(five.errors[:4], four.errors, rtol=1e-12)
    np.testing.assert_allclose(five.residuals[:4], four.residuals, rtol=1e-12)


def test_train_makes_a_folder_with_everything(trained, folder):
    assert trained["method"] == "soft"
    assert trained["steps"] == 3
    assert trained["error"]["count"] == 2
    assert trained["statuses"] == {"PREDICTED": 2}
    assert np.all(trained["errors"] < np.asarray(trained["bounds"]["relative"]))
    names = {path.name for path in (folder / "hard").iterdir()}
    assert names == {
        "config.json", "environment.json", "log.txt", "history.json", "model.safetensors",
        "evaluation.json", "fields.npz", "run.json",
    }  # fmt: skip
    run = runs.read(folder / "hard")
    assert run.experiment.network.size == 6
    assert run.environment["versions"]["jax"]
    assert [row["step"] for row in run.history.metrics][:2] == [0, 1]
    assert run.fields["found"].shape == (2, 101, 101)
    assert np.allclose(run.fields["found"] - run.fields["target"], run.fields["difference"], atol=1e-5)


def test_a_finished_run_is_not_overwritten(trained, folder):
    before = (folder / "hard" / "model.safetensors").read_bytes()
    again = ["train", "convection", "--steps", 3, *TINY, "--out", folder / "hard"]
    assert "finished run" in call(*again).output
    other = ["train", "convection", "--steps", 4, *TINY, "--out", folder / "hard"]
    assert "another experiment" in call(*other).output
    (folder / "full").mkdir()
    (folder / "full" / "x").write_text("x")
    assert "not empty" in call(*again[:-1], folder / "full").output
    assert (folder / "hard" / "model.safetensors").read_bytes() == before


def test_an_interrupted_run_goes_on(trained, folder, monkeypatch):
    """Interrupted after training, before the evaluation: nothing is trained twice."""
    arguments = ["train", "convection", "--steps", 3, *TINY, "--out", folder / "again", "--cache",
                 folder / "data"]  # fmt: skip
    with monkeypatch.context() as patched:
        patched.setattr(runs, "assess", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert call(*arguments).exit_code != 0
    assert (folder / "again" / "checkpoints").is_dir()
    assert call(*arguments).exit_code == 0
    for name in ("hard", "again"):
        assert (folder / name / "model.safetensors").is_file()
    one, other = (pdecl.load(folder / name).basis for name in ("hard", "again"))
    assert eqx.tree_equal(*(eqx.filter(basis, eqx.is_array) for basis in (one, other)))


def test_evaluate_prints_what_training_measured(trained, folder):
    result = call("evaluate", folder / "hard", "--count", 2, "--cache", folder / "data", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    run = runs.read(folder / "hard")
    assert found["error"] == pytest.approx(run.evaluation["error"])
    assert found["residual_loss"] == pytest.approx(run.evaluation["residual_loss"])
    shown = call(
        "evaluate", folder / "hard" / "model.safetensors", "--count", 1, "--cache", folder / "data"
    )
    assert "from u_box" in shown.output


def test_an_evaluation_is_kept_for_a_report(trained, folder, tmp_path):
    kept = ["evaluate", folder / "hard", "--count", 2, "--cache", folder / "data", "--out"]
    assert call(*kept, tmp_path / "kept").exit_code == 0
    run = runs.read(tmp_path / "kept")
    assert run.evaluation["errors"] == runs.read(folder / "hard").evaluation["errors"]
    assert run.history.loss == []
    assert "finished run" in call(*kept, tmp_path / "kept").output
    written = call("report", tmp_path / "kept", "--out", tmp_path / "report", "--no-studies")
    assert written.exit_code == 0, written.output
    assert "no metrics on unseen φ" in (tmp_path / "report" / "index.html").read_text("utf-8")


def test_report_writes_a_page(trained, folder, tmp_path):
    result = call("report", folder, "--out", tmp_path / "report", "--no-studies", "--json")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "report" / "index.html").stat().st_size > 10_000
    assert "no finished run" in call("report", tmp_path / "report").output
    assert "no such folder" in call("report", tmp_path / "nowhere").output


def test_info_shows_problems_presets_and_model_files(trained, folder):
    shown = call("info").output
    for word in ("burgers", "quick", "paper", "best", "shipped bases", "jax"):
        assert word in shown
    plain = json.loads(call("info", "--json").stdout)
    assert plain["presets"]["burgers"]["paper"]["network"]["size"] == 50
    recipe = json.loads(call("info", folder / "hard", "--json").stdout)
    assert recipe["experiment"]["problem"] == "convection"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "stokes"], "there is no problem 'stokes'"),
        (["train", "burgers", "--method", "medium"], "there is no method 'medium'"),
        (["train", "burgers", "--preset", "huge"], "there is no preset 'huge'"),
        (["train", "burgers", "--optimiser", "newton"], "there is no optimiser 'newton'"),
        (["train", "burgers", "--seed", "99999999999999999999"], "Invalid value for '--seed'"),
        (["train", "burgers", "--size", "10000000"], "lower --size, --width or --batch"),
        (["evaluate", "nowhere"], "there is no such file"),
        (["info", "nowhere"], "there is no such file"),
        (["info", __file__], "states a problem, which is no model yet"),
    ],
)
def test_mistakes_get_a_message_and_no_traceback(arguments, message):
    result = call(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_darcy_trains_through_the_command_on_a_small_grid(tmp_path):
    experiment = preset("darcy").with_overrides(
        constants={"grid": 21},
        grid=11,
        size=4,
        width=4,
        depth=1,
        options={"modes": 3},
        phis=4,
        steps=2,
        batch=1,
        metrics_phis=1,
    )
    run = runs.train(experiment, tmp_path / "run", count=2, metrics_count=2, progress=False)
    assert run.fields["found"].shape == (2, 11, 11)
    assert np.all(run.fields["found"][:, 0] == 0)
    assert 0 < run.evaluation["error"]["mean"] < 1
