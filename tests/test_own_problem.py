"""A problem of one's own, from its file to reports and fast solvers; by the same commands as ours."""

import json
import shutil
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from typer.testing import CliRunner

import pdecl
from pdecl.family import dataset as datasets
from pdecl.family import registry, resolve
from pdecl.family.identity import differences, identity
from pdecl.problems import Burgers
from pdecl_cli import app

# Enough functions for the conditions to hold, almost untrained.
SMALL = ["--steps", 2, "--batch", 2, "--size", 50, "--width", 50, "--depth", 1, "--count", 3]
EXAMPLE = Path(__file__).parents[1] / "examples" / "my_heat.py"


def pdecl_does(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a problem in a file, and a run that was trained for it."""
    folder = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        pdecl_does("new", "my_heat.py")
        pdecl_does("train", "my_heat.py", *SMALL)
        yield folder


def test_a_file_of_solutions_is_enough_to_check_them(place):
    pdecl_does("solve", "runs/my-heat", "--sample", "7,6", "--out", "u.h5", "--bound", "--batch", 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of dimensions without a name, say
        found = xarray.open_dataset("u.h5", engine="h5netcdf")
    family = resolve("my_heat.py")
    phi = {name: found[name].values for name in ("k", "height")}
    np.testing.assert_array_equal(phi["k"], family.sample(7, 6)["k"])
    truth = family.reference(phi)
    error = np.linalg.norm(found.u - truth, axis=(1, 2)) / np.linalg.norm(truth, axis=(1, 2))
    assert found.u.dims == ("sample", "x", "t")
    assert (found.u.units, found.k.units, found.x.units) == ("K", "m2/s", "m")
    assert error.max() < 0.2
    # Nothing is proved of this problem, and the file says so.
    assert found.relative_bound.kind == "estimate"
    assert np.mean(error < 3 * found.relative_bound) > 0.5
    assert (found.distance > 0).all()


def test_phi_come_from_files_by_the_names_the_problem_gives_them(place):
    np.savez("phi.npz", k=[0.05, 0.1, -1.0], height=[1.0, 1.5, 1.2])
    words = ["solve", "runs/my-heat", "--phi", "phi.npz", "--grid", "5,4", "--out", "v.h5"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 3
    assert "k must be positive; found -1" in result.stderr
    found = xarray.open_dataset("v.h5", engine="h5netcdf")
    assert found.u.shape == (3, 5, 4)
    np.testing.assert_array_equal(np.isfinite(found.u).all(axis=(1, 2)), [True, True, False])
    np.testing.assert_array_equal(found.height[:2], [1.0, 1.5])
    Path("phi.json").write_text(json.dumps([{"k": 0.05, "height": 1.0}]))
    words = ["solve", "runs/my-heat", "--phi", "phi.json", "--grid", "5,4", "--out", "w.h5"]
    pdecl_does(*words)
    again = xarray.open_dataset("w.h5", engine="h5netcdf")
    np.testing.assert_allclose(again.u[0], found.u[0], rtol=1e-9)


def test_it_is_measured_and_told_like_any_other(place):
    evaluated = json.loads(pdecl_does("evaluate", "runs/my-heat", "--count", 3, "--json").stdout)
    assert evaluated["problem"] == "my-heat"
    assert evaluated["reference"] == "given with the problem"
    assert evaluated["error"]["count"] == 3
    pdecl_does("report", "runs", "--no-studies", "--out", "page")
    assert "my-heat" in Path("page/index.html").read_text()
    assert len(list(Path("page").glob("my-heat-default-*.png"))) == 3
    pdecl_does("data", "my_heat.py", "--split", "test", "--count", 2, "--out", "test.nc")
    data = datasets.read("test.nc", resolve("my_heat.py"))
    assert data.phi["k"].shape == (2,)
    assert data.solution.shape == (2, 101, 101)
    about = pdecl.support.storage.recipe_in("runs/my-heat/model.safetensors")
    assert about["errors"]["error"]["count"] == 3
    assert about["law"]["problem"] == "my-heat"


def test_it_is_compiled(place):
    words = ["compile", "runs/my-heat", "--error", 0.01, "--phis", 32, "--out", "fast.safetensors"]
    made = json.loads(pdecl_does(*words, "--json").stdout)
    assert made["functions"]["compiled"] < 50
    assert made["error"]["mean"] < 0.01
    words = ["solve", "fast.safetensors", "--problem", "my_heat.py", "--sample", "7,2"]
    pdecl_does(*words, "--grid", "3,3", "--out", "fast.h5")
    assert xarray.open_dataset("fast.h5", engine="h5netcdf").u.shape == (2, 3, 3)


def test_a_model_alone_runs_no_file(place):
    """The header of a model, and the record of a run from elsewhere, name nothing that is run."""
    Path("elsewhere").mkdir()
    model = shutil.copy("runs/my-heat/model.safetensors", "elsewhere/model.safetensors")
    record = json.loads(Path("runs/my-heat/run.json").read_text())
    Path("elsewhere/run.json").write_text(json.dumps({**record, "machine": "another"}))
    with pytest.raises(pdecl.ModelFileError, match=r"--problem FILE\.py"):
        pdecl.load(model)
    assert pdecl.load(model, "my_heat.py").family.name == "my-heat"


def test_another_problem_is_refused(place):
    text = Path("my_heat.py").read_text()
    Path("other.py").write_text(text.replace('u.d("x", "x")', 'u.d("x", "x") + u() ** 3'))
    with pytest.raises(pdecl.ModelFileError, match=r"another problem .* the condition 'equation'"):
        pdecl.load("runs/my-heat", "other.py")
    # Other words for the same mathematics are the same problem.
    Path("same.py").write_text(text.replace("jnp.sin(jnp.pi * z.x)", "jnp.cos(jnp.pi * (z.x - 0.5))"))
    same, first = (identity(resolve(name).problem()) for name in ("same.py", "my_heat.py"))
    assert differences(same, first) == []


def test_errors_speak_of_the_file(place):
    Path("wrong.py").write_text("import pdecl\n\nbox = pdecl.Box(x=(0, 1))\nproblem = Problem(box)\n")
    with pytest.raises(ValueError, match=r"wrong\.py, line 4: NameError: name 'Problem'"):
        resolve("wrong.py")
    Path("empty.py").write_text("import pdecl\n")
    with pytest.raises(ValueError, match=r"must state one pdecl\.Problem"):
        resolve("empty.py")
    with pytest.raises(ValueError, match=r"no problem 'heta'; give one of .* a \.py file"):
        resolve("heta")


WAVES = """
import jax.numpy as jnp, jax.random as jr, pdecl

box = pdecl.Box(x=(0, 1), theta=(0, 0.5), t=(0, 0.3))
side = lambda w, z, phi: (w.p() - phi["size"]["p"] * jnp.sin(jnp.pi * z.x), w.q())
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(
            lambda w, z, phi: (w.p.d("t") - w.q.d("x"), w.q.d("t") - phi["c"][0] ** 2 * w.p.d("x")),
            on=box.interior, name="waves",
        ),
        pdecl.Fit(side, on=box.face(t=0), weight=10.0, name="start"),
        pdecl.Fit(lambda w, z, phi: w.p(), on=box.faces("x"), weight=10.0, name="ends"),
    ],
    parameter=lambda key: {"c": 1 + jr.uniform(key, (2,)), "size": {"p": jr.uniform(key)}},
    unknowns=("p", "q"),
)
network = lambda problem, key: pdecl.nn.MLP(problem, 100, 100, 1, key=key)
"""  # fmt: skip


def test_systems_in_three_coordinates_without_a_reference(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pdecl.family.untrained._SIZES", (150,))  # for time's sake
    Path("waves.py").write_text(WAVES)
    pdecl_does("train", "waves.py", "--steps", 2, "--batch", 2, "--count", 2)
    words = ["solve", "runs/waves", "--sample", "3,2", "--grid", "5,2,3"]
    pdecl_does(*words, "--derivatives", "x,theta.t", "--out", "w.nc")
    found = xarray.open_dataset("w.nc", engine="h5netcdf")
    assert found.q.dims == ("sample", "x", "theta", "t")
    assert {"p", "q", "p_x", "q_theta.t", "c", "size.p"} <= set(found.data_vars)
    truth = found["size.p"] * np.sin(np.pi * found.x) * np.cos(np.pi * found.c[:, 0] * found.t)
    for theta in range(2):
        np.testing.assert_allclose(found.p[:, :, theta], truth.transpose(..., "x", "t"), atol=0.05)
    told = json.loads(Path("runs/waves/evaluation.json").read_text())
    assert "untrained functions, relative residual" in told["reference"]
    assert told["error"]["mean"] < 0.1
    pdecl_does("report", "runs", "--no-studies", "--out", "page")
    assert Path("page/waves-default-fields-q.png").stat().st_size > 5000


def test_a_module_and_an_object_name_a_problem_too(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    assert resolve("my_heat:problem").name == "my-heat"
    assert resolve(EXAMPLE).check({"k": 0.1, "height": 1.0})["k"].shape == (1,)
    assert resolve("burgers") == Burgers()


def test_packages_register_problems_with_all_that_they_state(monkeypatch, tmp_path):
    about = tmp_path / "lab-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1\n")
    points = ["rod = my_heat:problem", "same = my_heat", "broken = no_such_module:problem"]
    (about / "entry_points.txt").write_text("\n".join(["[pdecl.problems]", *points]))
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_registered", registry._registered.__wrapped__)  # not kept
    for word in ("rod", "same"):
        family = resolve(word)
        assert family.name == word
        assert family.units == resolve(EXAMPLE).units
        assert "given" in family.reference_words()
    told = json.loads(pdecl_does("info", "--json").output)["problems"]
    assert "no_such_module" in told["broken"]
    assert told["rod"] == family.equation


def test_the_same_phi_everywhere():
    family = resolve(EXAMPLE)
    whole, part = family.sample(5, 4), family.sample(5, 2, start=2)
    np.testing.assert_array_equal(whole["k"][2:], part["k"])
    assert jnp.unique(jnp.asarray(whole["k"])).size == 4
