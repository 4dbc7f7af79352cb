"""`pdecl solve` as a user meets it: many φ in, answers out, whatever happens in between."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from io import BytesIO
from types import SimpleNamespace

import h5py
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from scipy.io import loadmat, savemat
from typer.testing import CliRunner

import pdecl
from pdecl import stream as streaming
from pdecl.error.refine import RefinedBy
from pdecl.family.array_files import ArrayFile
from pdecl.family.dataset import DatasetError
from pdecl.family.distance import distance_from
from pdecl.family.experiment import basis_of, keys_of, preset
from pdecl.family.trained import Trained
from pdecl.problems import Burgers, Convection, Darcy
from pdecl.problems.darcy.bound import energy_norm
from pdecl.reduced import compile
from pdecl.reduced.validation import validate
from pdecl.stream.results import Results
from pdecl.support.status import Status
from pdecl_cli import app

LAW, COUNT, BATCH = Convection(), 10, 4
PHI = LAW.sample(7, COUNT)
POINTS = np.array([[0.1, 0.2], [0.5, 0.9], [1.0, 1.0]])


def small(problem, method="hard", **changes):
    plain = {"size": 12, "width": 12, "depth": 1, "creased": 0.0}
    if problem == "darcy":
        plain["options"] = {"modes": 12, "local": 3, "slopes": True, "degree": 1}
    made = preset(problem, method, "quick").with_overrides(**plain, **changes)
    return Trained(made, basis_of(made, keys_of(made)[0]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, and its answers to all φ, uninterrupted."""
    folder = tmp_path_factory.mktemp("solve")
    small("convection").save(folder / "model.safetensors")
    np.savetxt(folder / "points.csv", POINTS, delimiter=",", header="x,t", comments="")
    np.savez(folder / "phi.npz", beta=PHI)
    result = run(folder, "--phi", folder / "phi.npz", "--out", folder / "whole.h5")
    assert result.exit_code == 0, result.output
    return folder


def run(folder, *arguments, input=None, points=True):
    where = ["--points", folder / "points.csv"] if points else []
    # An untrained model holds nothing; without a limit every answer is taken.
    held = [] if "--residual-limit" in arguments else ["--residual-limit", "inf"]
    words = ["solve", folder / "model.safetensors", "--batch", BATCH, *held, *where, *arguments]
    return CliRunner().invoke(app, [str(word) for word in words], input=input)


def answers(path):
    with h5py.File(path) as file:
        return {name: item[()] for name, item in file.items()}


@pytest.fixture
def whole(folder):
    return answers(folder / "whole.h5")


def assert_same(found, whole):
    assert set(found) == set(whole)
    for name, values in whole.items():
        np.testing.assert_array_equal(found[name], values)


def save_matlab73(path, beta):
    with h5py.File(path, "w", userblock_size=512) as file:
        file["beta"] = beta.T
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116))


def save_hdf5(path, beta):
    with h5py.File(path, "w") as file:
        file["speeds"] = beta


WRITERS = {
    "a.npz": lambda path, phi: np.savez_compressed(path, beta=phi, u=np.zeros(3)),
    "columns.npz": lambda path, phi: np.savez(path, beta=np.asfortranarray(phi)),
    "a.npy": np.save,
    "a.h5": save_hdf5,
    "a.mat": lambda path, phi: savemat(path, {"input": phi}),
    "a73.mat": save_matlab73,
    "a.json": lambda path, phi: path.write_text(json.dumps(phi.tolist())),
    "a.jsonl": lambda path, phi: path.write_text("\n".join(json.dumps(row) for row in phi.tolist())),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_phi_gives_the_same_phi(name, tmp_path):
    WRITERS[name](tmp_path / name, PHI)
    with streaming.open_phi(tmp_path / name, LAW) as source:
        assert source.shape == (101,)
        assert source.count == (None if name == "a.jsonl" else COUNT)
        found = [np.asarray(batch) for batch in source.batches(3, BATCH)]
        assert [len(batch) for batch in found] == [4, 3]
        np.testing.assert_array_equal(np.concatenate(found), PHI[3:])


def test_one_phi_is_a_batch_of_one(tmp_path):
    np.save(tmp_path / "a.npy", PHI[0])
    (tmp_path / "a.json").write_text(json.dumps({"beta": PHI[0].tolist()}))
    for name in ("a.npy", "a.json"):
        with streaming.open_phi(tmp_path / name, LAW) as source:
            (batch,) = source.batches(0, 9)
            np.testing.assert_array_equal(batch, PHI[:1])


def test_help_teaches():
    shown = CliRunner().invoke(app, ["solve", "--help"], env={"COLUMNS": "200"}).output
    for word in ("--phi", "--sample", "--grid", "--points", "--out", "Examples", "--json", "goes on"):
        assert word in shown
    for word in ("--bound", "--tolerance", "--refine", "conjugate gradients"):
        assert word in shown


def test_the_answers_are_those_of_solve(folder, whole):
    solution = small("convection").solve(PHI, residual_limit=None)
    np.testing.assert_allclose(whole["u"], solution(POINTS), rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(whole["status"], solution.code)
    for name, values in solution.residual.items():
        np.testing.assert_allclose(whole[f"residual_{name}"], values, rtol=1e-6)
    assert (whole["done"], whole["complete"]) == (COUNT, 1)
    np.testing.assert_array_equal(np.stack([whole["x"], whole["t"]], 1), POINTS)
    assert (whole["distance"] < streaming.FAR).all()


def test_every_kind_of_output(folder, whole, tmp_path):
    for name in ("a.nc", "a.npz", "a.mat"):
        result = run(folder, "--phi", folder / "phi.npz", "--out", tmp_path / name, "--json")
        assert result.exit_code == 0, result.output
        summary = json.loads(result.stdout)
        assert summary["statuses"] == {"SOLVED": COUNT}
        assert summary["out"] == str(tmp_path / name)
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as found:
        assert found["u"].dims == ("sample", "point")
        np.testing.assert_array_equal(found["u"], whole["u"])
    with np.load(tmp_path / "a.npz") as found:
        np.testing.assert_array_equal(found["u"], whole["u"])
        assert set(found["message"]) == {""}
    np.testing.assert_array_equal(loadmat(tmp_path / "a.mat")["u"], whole["u"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mat", "a.nc", "a.npz"]


def test_a_pde_that_does_not_hold_is_no_answer(folder, whole, tmp_path):
    phi = ("--phi", folder / "phi.npz", "--residual-limit", "1e-6")
    result = run(folder, *phi, "--out", tmp_path / "a.npz", "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["statuses"] == {"NOT_HELD": COUNT}
    assert "a condition does not hold" in result.stderr
    found = np.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(found["u"], whole["u"])  # what was found is there all the same
    assert "has a relative residual of" in found["message"][0]


def test_a_grid_is_laid_out_as_the_references_are():
    model = small("convection")
    asked = streaming.ask(model, (101,), grid=(5, 3))
    places = asked.places().reshape(3, 5, 2)
    np.testing.assert_array_equal(places[1, :, 0], np.linspace(0, 1, 5))
    np.testing.assert_array_equal(places[:, 2, 1], [0, 0.5, 1])
    assert (list(asked.axes), asked.shape) == (["t", "x"], (3, 5))
    assert streaming.ask(model, (101,)).shape == (101, 101)
    with pytest.raises(ValueError, match="there is no derivative 'y'"):
        streaming.ask(model, (101,), derivatives=["y"])
    with pytest.raises(ValueError, match="row 1"):
        streaming.ask(model, (101,), points=[[0, 0], [2, 0]])


def test_darcy_is_solved_on_its_own_grid_and_asked_elsewhere(tmp_path):
    model = small("darcy", grid=17)
    nu = Darcy(grid=21).sample(3, 3)
    source = streaming.FromRows(nu, model.family)
    query = streaming.ask(model, source.shape, grid=(6, 11), derivatives=["x"])
    summary = streaming.solve_stream(model, source, tmp_path / "d.h5", query, batch=2)
    assert summary.totals.count == 3
    found = answers(tmp_path / "d.h5")
    assert found["u"].shape == found["u_x"].shape == (3, 6, 11)
    assert np.abs(found["u"][:, 0]).max() < 1e-12 < np.abs(found["u"][:, 2]).max()
    solution = model.solve(nu, throw=False)
    expected = np.asarray(solution(solution.problem.domain.mesh(6, 11))).reshape(3, 6, 11)
    np.testing.assert_allclose(found["u"], expected, rtol=1e-6, atol=1e-10)
    with pytest.raises(ValueError, match="first derivatives only"):
        streaming.ask(model, (17, 17), derivatives=["xx"])


def test_a_soft_model_answers_too(tmp_path):
    model = small("burgers", "soft")
    source = streaming.FromDistribution(model.family, 5, 3)
    query = streaming.ask(model, source.shape, points=POINTS)
    summary = streaming.solve_stream(model, source, tmp_path / "b.h5", query, batch=2)
    assert summary.as_dict()["statuses"] == {"PREDICTED": 3}
    assert np.isfinite(answers(tmp_path / "b.h5")["u"]).all()


def spoiled():
    phi = PHI.copy()
    phi[2, 5], phi[5] = np.nan, -phi[5]
    phi[7] *= 40
    return phi


def test_bad_phi_are_named_and_the_others_answered(folder, whole, tmp_path):
    np.savez(tmp_path / "phi.npz", spoiled())
    result = run(folder, "--phi", tmp_path / "phi.npz", "--out", tmp_path / "a.npz", "--json")
    assert result.exit_code == 3, result.output
    assert "2 of 10 φ have no answer to rely on: 2 × rejected (numbers 2, 5); see" in result.stderr
    summary = json.loads(result.stdout)
    assert (summary["statuses"]["REJECTED"], summary["out_of_distribution"]) == (2, 1)
    assert [bad["number"] for bad in summary["bad"]] == [2, 5]
    assert "NaN" in summary["bad"][0]["why"]
    assert "φ number 5:" in result.stderr
    assert "must be positive" in result.stderr
    assert "outside the training distribution" in result.stderr
    found = np.load(tmp_path / "a.npz")
    good = np.setdiff1d(np.arange(COUNT), [2, 5, 7])
    np.testing.assert_array_equal(found["u"][good], whole["u"][good])
    assert np.isnan(found["u"][[2, 5]]).all()
    assert (found["status"][[2, 5]] == Status.REJECTED).all()
    assert "beta has NaN" in found["message"][2]
    assert found["distance"][7] > streaming.FAR


@pytest.mark.parametrize(
    ("family", "shape", "phi", "message"),
    [
        (Burgers(), (101,), np.linspace(0, 1, 101), "must be periodic"),
        (Burgers(), (101,), [1.0, 2.0], "at least 5"),
        (Burgers(), (101,), np.zeros(51), r"\(101,\) is needed"),
        (Burgers(), (101,), ["a"], "real numbers"),
        (Burgers(), (101,), {"a": 1}, "real numbers"),
        (Convection(), (101,), [[1.0], [1.0, 2.0]], "real numbers"),
        (Darcy(grid=9), (9, 9), np.zeros((9, 9)), "must be positive"),
        (Darcy(grid=9), (9, 9), ValueError("line 3 is not JSON"), "line 3"),
    ],
)
def test_what_is_wrong_with_a_phi_is_said(family, shape, phi, message):
    good, (first, second) = validate(family, shape, [family.sample(0, 1)[0], phi])
    assert list(good) == [0]
    assert first == ""
    assert re.search(message, second)
    assert "number" not in second.replace("real numbers", "")


def test_distance_from_the_law():
    for family, strange in [
        (Burgers(), lambda u0: u0 + 0.5 * np.sin(40 * np.pi * np.linspace(0, 1, 101))),
        (Convection(), lambda beta: 8 * beta),
        (Darcy(grid=33), lambda nu: np.where(nu > 3, 40.0, 3.0)),
        (Darcy(grid=33), lambda nu: np.full_like(nu, 6.0)),
    ]:
        usual = family.sample(2, 50)
        distance = distance_from(family)
        assert distance(usual).max() < 1.3
        assert 0.2 < np.median(distance(usual)) < 1
        assert distance(strange(usual)).min() > streaming.FAR


def test_darcy_is_solved_on_fewer_nodes_than_its_coefficient_has(tmp_path):
    model = small("darcy", grid=17)
    model.save(tmp_path / "model.safetensors")
    np.savez(
        tmp_path / "phi.npz", nu=np.concatenate([np.full((1, 17, 17), 5.0), model.family.sample(3, 1)])
    )
    arguments = ("--phi", tmp_path / "phi.npz", "--nodes", 9, "--bound", "--out", tmp_path / "u.npz")
    assert run(tmp_path, *arguments, points=False).exit_code == 0
    found = np.load(tmp_path / "u.npz")
    assert found["u"].shape == (2, 17, 17)
    # Of a constant coefficient nothing is lost: the answer is that on its own nine nodes.
    own = model.solve(np.full((1, 9, 9), 5.0))(pdecl.Box(x=(0, 1), y=(0, 1)).mesh(17, 17))
    np.testing.assert_allclose(found["u"][0].ravel(), np.asarray(own)[0], atol=1e-9)
    nu = np.load(tmp_path / "phi.npz")["nu"]
    for each, u, bound in zip(nu, found["u"], found["bound"], strict=True):
        off = jnp.asarray(u - model.family.reference(each)[0])
        assert energy_norm(jnp.asarray(each), off) <= bound
    rejected = run(tmp_path, "--phi", tmp_path / "phi.npz", "--nodes", 10, points=False)
    assert rejected.exit_code != 0
    assert "no subgrid of 10" in rejected.output


def test_a_coarser_model_is_kept_in_a_file(tmp_path):
    model, nu = small("darcy", grid=17), Darcy(grid=17).sample(3, 2)
    coarse = model.coarser(9)
    coarse.save(tmp_path / "coarse.safetensors")
    again = pdecl.load(tmp_path / "coarse.safetensors")
    np.testing.assert_array_equal(again.solve(nu).weights, coarse.solve(nu).weights)
    assert coarse.solve(nu).weights.shape == model.solve(nu).weights.shape
    twice = again.coarser(5)  # of what φ has, not of the nodes that were left before
    np.testing.assert_array_equal(twice.solve(nu).weights, model.coarser(5).solve(nu).weights)
    with pytest.raises(ValueError, match="is not solved on a grid"):
        small("convection").coarser(9)


@pytest.fixture(scope="module")
def wells(tmp_path_factory):
    """A Darcy model that nothing was taught, on a tiny grid, and five ν of which one is rejected."""
    folder = tmp_path_factory.mktemp("wells")
    model = small("darcy", grid=17)
    model.save(folder / "model.safetensors")
    nu = model.family.sample(3, 5)
    nu[1, 4, 4] = -1.0
    np.savez(folder / "phi.npz", nu=nu)
    np.savetxt(folder / "points.csv", POINTS, delimiter=",", header="x,y", comments="")
    return folder, model, nu


def judge(folder, *arguments):
    return run(folder, "--phi", folder / "phi.npz", "--json", "--batch", 2, *arguments)


def test_bounds_are_written_and_those_above_the_tolerance_named(wells, tmp_path):
    folder, model, nu = wells
    good = [0, 2, 3, 4]
    expected = model.bound(model.solve(nu[good]))
    between = float(np.sort(expected.relative)[1])
    result = judge(folder, "--tolerance", between, "--out", tmp_path / "a.h5")
    assert result.exit_code == 3, result.output
    found, summary = answers(tmp_path / "a.h5"), json.loads(result.stdout)
    np.testing.assert_allclose(found["bound"][good], expected.bound, rtol=1e-6)
    np.testing.assert_allclose(found["relative_bound"][good], expected.relative, rtol=1e-6)
    assert np.isnan(found["relative_bound"][1])
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["relative_bound"].attrs["norm"] == expected.norm
    over = [place for place, r in zip(good, expected.relative, strict=True) if r > between * (1 + 1e-9)]
    assert summary["over_tolerance_count"] == len(over) == 2
    assert [bad["number"] for bad in summary["over_tolerance"]] == over
    np.testing.assert_allclose(summary["largest_relative_bound"], max(expected.relative), rtol=1e-6)
    assert "exceeds the tolerance" in result.stderr
    assert b"exceeds the tolerance" in found["message"][over[0]]
    assert [bad["number"] for bad in summary["bad"]] == [1]
    result = judge(folder, "--bound", "--out", tmp_path / "b.npz")
    plain = np.load(tmp_path / "b.npz")
    np.testing.assert_array_equal(plain["relative_bound"], found["relative_bound"])
    assert "over_tolerance" not in json.loads(result.stdout)
    assert (plain["refined"] == RefinedBy.NOTHING).all()


def test_refined_interrupted_and_resumed(wells, tmp_path, monkeypatch):
    folder, model, nu = wells
    words = ["--tolerance", 1e-6, "--refine", "--derivatives", "x", "--out"]
    assert judge(folder, *words, tmp_path / "a.h5").exit_code == 3
    whole, out = answers(tmp_path / "a.h5"), tmp_path / "b.h5"
    with monkeypatch.context() as patch:
        stop_after(patch, 1, lambda: os.kill(os.getpid(), signal.SIGINT))
        assert judge(folder, *words, out).exit_code == 130
    for changed in (["--tolerance", 1e-5, "--refine"], ["--tolerance", 1e-6], ["--bound"], []):
        result = judge(folder, *changed, "--derivatives", "x", "--out", out)
        assert result.exit_code == 2
        assert "what is asked of the bounds differs" in result.output.replace("\n", " ")
    result = judge(folder, *words, out)
    assert result.exit_code == 3, result.output
    assert_same(answers(out), whole)
    summary = json.loads(result.stdout)
    assert (summary["count"], summary["solved_now"]) == (5, 3)
    assert summary["refined_by"] == {"CONJUGATE_GRADIENTS": 4}
    assert (summary["refined"], summary["over_tolerance_count"]) == (4, 0)
    good = [0, 2, 3, 4]
    assert (whole["relative_bound"][good] <= 1e-6).all()
    truth = model.family.reference(nu[good])
    for place, (x, y) in enumerate(POINTS[1:2], 1):  # (0.5, 0.9): between two nodes along y
        i, j, rest = round(16 * x), int(16 * y), 16 * y % 1
        values = (1 - rest) * truth[:, i, j] + rest * truth[:, i, j + 1]
        np.testing.assert_allclose(whole["u"][good, place], values, rtol=1e-4)


def test_a_tolerance_that_cannot_be_reached(wells):
    folder, _, _ = wells
    result = judge(folder, "--tolerance", 1e-15, "--refine")
    assert result.exit_code == 3, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["refined"] for line in found] == ["NOT_REACHED", "NOTHING", *["NOT_REACHED"] * 3]
    assert 1e-15 < found[0]["relative_bound"] < 1e-9
    assert found[1]["relative_bound"] is None
    assert "numbers 0, 2, 3, 4); --refine did not reach it" in result.stderr.replace("\n", " ")
    text = run(folder, "--phi", folder / "phi.npz", "--bound").stdout.splitlines()
    assert text[0].split("\t")[:4] == ["number", "status", "distance", "relative_bound"]


@pytest.fixture(scope="module")
def fast(tmp_path_factory):
    """A compiled solver of the same model, and its answers to all φ, uninterrupted."""
    folder = tmp_path_factory.mktemp("fast")
    solver = compile(small("convection"), phis=24, functions=6)
    solver.save(folder / "model.safetensors")
    np.savetxt(folder / "points.csv", POINTS, delimiter=",", header="x,t", comments="")
    np.savez(folder / "phi.npz", beta=PHI)
    words = ["--phi", folder / "phi.npz", "--derivatives", "x,xt", "--bound"]
    result = run(folder, *words, "--out", folder / "whole.h5")
    assert result.exit_code == 0, result.output
    return folder, solver, words


def test_a_compiled_solver_answers_in_place_of_a_basis(fast, tmp_path):
    where, solver, _ = fast
    found, expected = answers(where / "whole.h5"), solver(PHI, residual_limit=None)
    close = {"rtol": 1e-6, "atol": 1e-9}
    np.testing.assert_allclose(found["u"], expected(POINTS), **close)
    np.testing.assert_allclose(found["u_x"], expected.d("x")(POINTS), **close)
    np.testing.assert_allclose(found["u_xt"], expected.d("x", "t")(POINTS), **close)
    np.testing.assert_array_equal(found["status"], expected.code)
    for name, values in expected.residual.items():
        np.testing.assert_allclose(found[f"residual_{name}"], values, rtol=1e-6)
    np.testing.assert_allclose(
        found["relative_bound"], small("convection").bound(expected).relative, rtol=1e-6
    )
    # Its own distance, which is that of the solutions in Python too.
    np.testing.assert_allclose(found["distance"], expected.distance, rtol=1e-9)
    words = ["--sample", "7,3", "--grid", "3,2", "--out", tmp_path / "g.h5"]
    assert run(where, *words, points=False).exit_code == 0
    grid = expected(solver.core.problem.domain.mesh(3, 2))[:3].reshape(3, 3, 2)
    np.testing.assert_allclose(answers(tmp_path / "g.h5")["u"], np.swapaxes(grid, 1, 2), **close)


def test_a_compiled_solver_names_bad_phi(fast, tmp_path):
    where, _, _ = fast
    np.savez(tmp_path / "phi.npz", spoiled())
    result = run(where, "--phi", tmp_path / "phi.npz", "--out", tmp_path / "a.h5", "--json")
    assert result.exit_code == 3, result.output
    summary = json.loads(result.stdout)
    assert (summary["statuses"]["REJECTED"], summary["out_of_distribution"]) == (2, 1)
    assert "must be positive" in result.stderr
    good = np.setdiff1d(np.arange(COUNT), [2, 5, 7])
    found, whole = answers(tmp_path / "a.h5"), answers(where / "whole.h5")
    np.testing.assert_allclose(found["u"][good], whole["u"][good], rtol=1e-9)
    assert np.isnan(found["u"][[2, 5]]).all()


def test_a_compiled_solver_is_interrupted_and_resumed(fast, folder, tmp_path, monkeypatch):
    where, _, words = fast
    out = tmp_path / "a.h5"
    with monkeypatch.context() as patch:
        stop_after(patch, 1, lambda: os.kill(os.getpid(), signal.SIGINT))
        assert run(where, *words, "--out", out).exit_code == 130
    result = run(folder, *words, "--out", out)  # the basis that it was compiled from
    assert "the model differs" in result.output.replace("\n", " ")
    assert run(where, *words, "--out", out).exit_code == 0
    assert_same(answers(out), answers(where / "whole.h5"))


def test_a_compiled_solver_is_refined_with_its_whole_basis(fast, tmp_path):
    where, _, _ = fast
    words = ["--sample", "7,2", "--tolerance", 1e-2, "--refine", "--out", tmp_path / "a.h5", "--json"]
    result = run(where, *words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["refined_by"] == {"FUNCTIONS": 2}
    assert (answers(tmp_path / "a.h5")["relative_bound"] <= 1e-2).all()


def test_a_compiled_solver_of_darcy_keeps_to_its_grid(tmp_path):
    model = small("darcy", grid=21)
    solver = compile(model, phis=8)
    nu = model.family.sample(3, 3)
    source = streaming.FromRows(nu, model.family)
    query = streaming.ask(solver, source.shape, grid=(6, 11), derivatives=["x"])
    streaming.solve_stream(solver, source, tmp_path / "d.h5", query, batch=2)
    expected = np.asarray(solver(nu)(solver.core.problem.domain.mesh(6, 11))).reshape(3, 6, 11)
    np.testing.assert_allclose(answers(tmp_path / "d.h5")["u"], expected, rtol=1e-6, atol=1e-10)
    other = streaming.FromRows(Darcy(grid=16).sample(3, 2), model.family)
    with pytest.raises(ValueError, match=r"compiled for φ of shape \(21, 21\); found \(16, 16\)"):
        streaming.solve_stream(solver, other, tmp_path / "e.h5", query)


def stop_after(monkeypatch, batches, act):
    """Does something in the middle of a run: after that many batches were written."""
    write, written = Results.write, itertools.count(1)

    def wrapped(self, batch):
        write(self, batch)
        if next(written) == batches:
            act()

    monkeypatch.setattr(Results, "write", wrapped)


@pytest.mark.parametrize("kind", ["a.h5", "a.npz"])
def test_interrupted_and_resumed_is_as_if_nothing_had_happened(
    kind, folder, whole, tmp_path, monkeypatch
):
    out = tmp_path / kind
    stream = out if kind == "a.h5" else tmp_path / "a.npz.partial.h5"
    with monkeypatch.context() as patch:
        stop_after(patch, 1, lambda: os.kill(os.getpid(), signal.SIGINT))
        result = run(folder, "--phi", folder / "phi.npz", "--out", out)
    assert result.exit_code == 130
    assert f"interrupted. The first {BATCH} φ are in {stream}; the same command" in result.stderr
    part = answers(stream)
    assert (part["done"], part["complete"]) == (BATCH, 0)
    np.testing.assert_array_equal(part["u"][:BATCH], whole["u"][:BATCH])
    assert (part["status"][BATCH:] == -128).all()
    result = run(folder, "--phi", folder / "phi.npz", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["count"], summary["solved_now"]) == (COUNT, COUNT - BATCH)
    if kind == "a.h5":
        assert_same(answers(out), whole)
    else:
        np.testing.assert_array_equal(np.load(out)["u"], whole["u"])
        assert not stream.exists()


def test_an_interrupted_file_goes_on_with_its_batch_also_to_overwrite(
    folder, whole, tmp_path, monkeypatch
):
    out, words = tmp_path / "a.h5", ["--phi", folder / "phi.npz", "--out", tmp_path / "a.h5"]
    with monkeypatch.context() as patch:
        stop_after(patch, 1, lambda: os.kill(os.getpid(), signal.SIGINT))
        assert run(folder, *words, "--overwrite").exit_code == 130
    result = run(folder, *words, "--batch", 3)
    assert result.exit_code == 2
    assert "was begun with batches of 4" in result.output.replace("\n", " ")
    model = small("convection")
    with streaming.open_phi(folder / "phi.npz", LAW) as source:
        query = streaming.ask(model, source.shape, points=POINTS)
        summary = streaming.solve_stream(
            model, source, out, query, residual_limit=np.inf, overwrite=True
        )
    assert summary.solved == COUNT - BATCH
    assert_same(answers(out), whole)
    with h5py.File(out) as file:
        assert file.attrs["batch"] == BATCH


def test_what_is_on_the_disk_is_told_when_it_is_there(folder, tmp_path, monkeypatch):
    """Every two seconds of work, and at the end."""
    told, clock = [], itertools.count(step=0.75)
    monkeypatch.setattr("pdecl.stream.results.time.monotonic", lambda: next(clock))
    model = small("convection")
    source = streaming.FromRows(PHI, LAW)
    query = streaming.ask(model, source.shape, points=POINTS)
    out = tmp_path / "a.h5"

    def progress(more):
        told.append(more)
        shutil.copy(out, tmp_path / "copy.h5")
        assert answers(tmp_path / "copy.h5")["done"] == sum(told)

    streaming.solve_stream(model, source, out, query, batch=1, progress=progress)
    assert sum(told) == COUNT
    assert told[0] == 0
    assert 1 < max(told) < COUNT


def test_standard_input_is_resumed_too(folder, whole, tmp_path, monkeypatch):
    lines = "\n".join(json.dumps(row) for row in PHI.tolist())
    out = tmp_path / "a.h5"
    with monkeypatch.context() as patch:
        stop_after(patch, 2, lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert run(folder, "--phi", "-", "--out", out, input=lines).exit_code == 143
    assert run(folder, "--phi", "-", "--out", out, input=lines).exit_code == 0
    assert_same(answers(out), whole)


def test_a_full_disk(folder, whole, tmp_path, monkeypatch):
    out = tmp_path / "a.h5"
    put = h5py.Dataset.__setitem__

    def full(self, rows, values):
        if self.name == "/u" and rows.start == BATCH:
            raise OSError(28, "No space left on device")
        put(self, rows, values)

    with monkeypatch.context() as patch:
        patch.setattr(h5py.Dataset, "__setitem__", full)
        result = run(folder, "--phi", folder / "phi.npz", "--out", out)
    assert result.exit_code == 2
    assert "disk full? The first 4 φ in it are whole" in result.output.replace("\n", " ")
    np.testing.assert_array_equal(answers(out)["u"][:BATCH], whole["u"][:BATCH])
    assert run(folder, "--phi", folder / "phi.npz", "--out", out).exit_code == 0
    assert_same(answers(out), whole)


KILLED = """
import os, signal, sys, h5py, numpy as np
from pathlib import Path
from pdecl.stream import Answers, Query
from pdecl.support.status import Status
from pdecl.stream import results as written
from pdecl.stream.results import Results

written._EVERY = 0.0
query = Query(("x", "t"), np.zeros((3, 2)), {"point": np.arange(3)}, None)
count = 100 if os.fork() else None
layout = written.lay_out(query, ("equation",))
results = Results.create(Path(f"{sys.argv[1]}/{count}.h5"), layout, count, 4, {"a": 1}, {})
put = h5py.Dataset.__setitem__
def deadly(self, rows, values):
    put(self, rows, values)
    if self.name == "/u" and rows.start == 76:
        self.file.flush()
        if count:
            os.wait()
        os.kill(os.getpid(), signal.SIGKILL)
h5py.Dataset.__setitem__ = deadly
for start in range(0, 100, 4):
    one = np.ones(4)
    results.write(Answers(start, {"u": np.full((4, 3), start)}, one.astype("i1"), one.astype("i4"),
                          {"equation": one}, one, ["", "wrong", "", ""]))
"""


def test_a_killed_process_leaves_a_file_to_go_on_with(tmp_path):
    ended = subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False)
    assert ended.returncode == -signal.SIGKILL
    for count in (100, None):
        path = tmp_path / f"{count}.h5"
        with Results.resume(path, {"a": 1}) as results:
            assert (results.done, results.complete) == (76, False)
            assert results.totals().bad_count == 0
        assert (answers(path)["u"][:76:4] == np.arange(0, 76, 4)[:, None]).all()


def test_files_of_others_are_left_alone(folder, whole, tmp_path):
    out = tmp_path / "a.h5"
    out.write_bytes((folder / "whole.h5").read_bytes())
    for arguments, message in [
        (["--phi", folder / "phi.npz"], "is complete, 10 φ"),
        (["--sample", "7,11"], "another question: φ differs"),
        (["--phi", folder / "phi.npz", "--derivatives", "x"], "the derivatives differs"),
        (["--phi", folder / "phi.npz", "--grid", "2,2"], "the points"),
    ]:
        result = run(folder, *arguments, "--out", out, points="--grid" not in arguments)
        assert result.exit_code == 2
        assert message in result.output.replace("\n", " ")
        assert_same(answers(out), whole)
    out.write_text("a letter")
    assert "not one of ours" in run(folder, "--sample", "7,3", "--out", out).output
    assert out.read_text() == "a letter"
    assert run(folder, "--phi", folder / "phi.npz", "--out", out, "--overwrite").exit_code == 0
    assert_same(answers(out), whole)


def test_answers_on_standard_output(folder, whole):
    lines = [json.dumps(row) for row in PHI[:3].tolist()] + ["", '[1, "a"]', '{"beta": [1, 2']
    result = run(folder, "--phi", "-", "--json", input="\n".join(lines))
    assert result.exit_code == 3, result.output
    assert "numbers 3, 4); see status and message in the lines" in result.stderr
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["number"] for line in found] == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal([line["u"] for line in found[:3]], whole["u"][:3])
    assert [line["status"] for line in found[3:]] == ["REJECTED", "REJECTED"]
    assert found[3]["u"] is None
    assert "line 6 is not JSON" in found[4]["message"]
    text = run(folder, "--sample", "7,2").stdout.splitlines()
    assert text[0].split("\t")[:4] == ["number", "status", "distance", "u(0.1, 0.2)"]
    assert float(text[2].split("\t")[3]) == whole["u"][1, 0]
    result = run(folder, "--sample", "7,2", "--json", points=False)
    assert "10201 numbers for each φ are too many for standard output" in result.output.replace(
        "\n", " "
    )


def test_a_closed_pipe_is_no_error(folder):
    """In a process of its own: the real thing, from input to `head`."""
    lines = "".join(json.dumps(row) + "\n" for row in np.tile(PHI, (20, 1)).tolist())
    words = [
        "solve",
        folder / "model.safetensors",
        "--phi",
        "-",
        "--points",
        folder / "points.csv",
        "--json",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "pdecl_cli", *map(str, words), "--batch", "1"],
        env={**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    (folder / "lines").write_text(lines)
    feeder = subprocess.Popen(["cat", folder / "lines"], stdout=process.stdin)
    process.stdin.close()
    assert json.loads(process.stdout.readline())["number"] == 0
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0
    assert b"Traceback" not in errors
    assert b"Error" not in errors
    feeder.wait()


class Counted:
    """A million φ that notes what is asked of it."""

    shape = (10**6, 101)

    def __init__(self):
        self.asked = []

    def __getitem__(self, rows):
        self.asked.append((rows.start, rows.stop))
        return PHI[np.arange(rows.start, rows.stop) % COUNT]


def test_only_one_batch_is_ever_asked_for(whole):
    rows, model = Counted(), small("convection")
    source = streaming.FromRows(rows, LAW)
    predictor = streaming.Predictor(
        model, source.shape, streaming.ask(model, (101,), points=POINTS), BATCH
    )
    found = list(itertools.islice(predictor.stream(source, 600_000), 2))
    assert [batch.start for batch in found] == [600_000, 600_004]
    assert rows.asked[:2] == [(0, 1), (999_999, 10**6)]
    # The next batch is on its way while one is solved.
    assert rows.asked[2:] == [(start, start + 4) for start in (600_000, 600_004, 600_008)]
    np.testing.assert_array_equal(np.concatenate([batch.values["u"] for batch in found]), whole["u"][:8])


def test_npz_is_read_from_its_stream(tmp_path):
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", beta=PHI)
        with ArrayFile(tmp_path / "a.npz") as file:
            for start, stop in [(2, 4), (4, 9), (0, 1), (9, 30)]:
                np.testing.assert_array_equal(file.rows("beta", start, stop), PHI[start:stop])


def cut(path, size=700):
    path.write_bytes(path.read_bytes()[:size])


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "a.jsonl"])
def test_truncated_files(name, folder, tmp_path):
    WRITERS[name](tmp_path / name, PHI)
    cut(tmp_path / name)
    result = run(folder, "--phi", tmp_path / name, "--out", tmp_path / "out.h5")
    assert result.exit_code == 2
    assert f"{name} is truncated" in result.output.replace("\n", "")
    assert not (tmp_path / "out.h5").exists()


def test_files_of_the_wrong_kind(tmp_path):
    (tmp_path / "a.txt").write_text("1 2 3")
    (tmp_path / "a.json").write_text('"a word"')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    np.savez(tmp_path / "two.npz", p=PHI, q=PHI)
    np.savez(tmp_path / "short.npz", beta=PHI[:, ::2])
    np.savez(tmp_path / "deep.npz", beta=PHI[None, None])
    np.savez(tmp_path / "pickled.npz", beta=np.asarray([{}, None], object))
    for name, message in [
        ("a.txt", r"no \.nc, \.mat"),
        ("a.json", "list of numbers"),
        ("deep.json", "truncated, damaged or no JSON"),
        ("two.npz", "variables p, q; φ of convection is looked for under beta"),
        ("short.npz", "gives each φ 51 values; this model takes beta at 101"),
        ("deep.npz", r"has shape \(1, 1, 10, 101\)"),
        ("pickled.npz", "truncated or damaged"),
        ("none.h5", "there is no file"),
    ]:
        with pytest.raises(DatasetError, match=message), streaming.open_phi(tmp_path / name, LAW):
            pass
    with streaming.open_phi(tmp_path / "two.npz", LAW, "q") as source:
        assert source.count == COUNT
    with pytest.raises(ValueError, match="no φ"), streaming.open_phi("-", LAW, stdin=BytesIO(b"\n")):
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say which φ"),
        (["--sample", "7"], "two whole numbers"),
        (["--sample", "7,3", "--out", "a.txt"], "written as .h5"),
        (["--sample", "7,10000000000", "--out", "a.mat"], "a .mat file holds arrays below 4 GB"),
        (["--sample", "7,3", "--grid", "2,2"], "not both"),
        (["--sample", "7,3", "--tolerance", "0"], "--tolerance must be a positive number"),
        (["--sample", "7,3", "--tolerance", "-1e-3"], "--tolerance must be a positive number"),
        (["--sample", "7,3", "--tolerance", "nan"], "--tolerance must be a positive number"),
        (["--sample", "7,3", "--refine"], "--refine needs --tolerance"),
    ],
)
def test_mistakes_are_explained(arguments, message, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(folder, *arguments)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--grid", "1000000,1000000", "--sample", "7,3"], r"an answer at 10{12} points .* of memory"),
        (
            ["--grid", "9,9", "--sample", "7,3", "--batch", 10**13],
            r"needs at least [\d,.]+ TB of memory",
        ),
        (["--grid", "9,9", "--sample", f"7,{10**13}"], r"a\.h5 would take [\d,]+ TB, and .* free there"),
    ],
)
def test_what_there_is_no_room_for_is_not_begun(arguments, message, folder, tmp_path):
    result = run(folder, *arguments, "--out", tmp_path / "new" / "a.h5", points=False)
    assert result.exit_code == 2
    assert re.search(message, result.output.replace("\n", " "))
    assert not list(tmp_path.iterdir())


def test_a_resumed_file_needs_room_for_the_rest_only(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=1000))
    model, out = small("convection"), tmp_path / "a.h5"
    query = streaming.ask(model, (101,), grid=(11, 11))
    with pytest.raises(ValueError, match=r"would take 9\.68 kB, and 1 kB are free"):
        streaming.solve_stream(model, streaming.FromRows(PHI, LAW), out, query)
    out.write_bytes(bytes(20_000))  # no stream of ours, which is said next
    with pytest.raises(OSError, match="not one of ours"):
        streaming.solve_stream(model, streaming.FromRows(PHI, LAW), out, query)


@pytest.mark.parametrize("out", ["folder.h5", "file/a.h5"])
def test_a_place_that_cannot_be_written_is_named_before_the_work(out, folder, tmp_path):
    (tmp_path / "folder.h5").mkdir()
    (tmp_path / "file").write_text("x")
    result = run(folder, "--sample", "7,3", "--out", tmp_path / out)
    assert result.exit_code == 2
    assert re.search(r"is a folder|is no folder", result.output.replace("\n", " "))


def test_what_a_message_says_in_brackets_is_printed(folder, tmp_path):
    np.savetxt(tmp_path / "p.csv", [[np.nan, 0.1]], delimiter=",")
    result = run(folder, "--sample", "1,1", "--points", tmp_path / "p.csv", points=False)
    assert "row 0: [nan 0.1]" in result.output


def test_unknown_models_and_points(folder, tmp_path):
    result = CliRunner().invoke(app, ["solve", str(tmp_path / "none"), "--sample", "1,1"])
    assert result.exit_code == 2
    assert "there is no such file" in result.output
    (tmp_path / "p.csv").write_text("x;t\n")
    result = run(folder, "--sample", "1,1", "--points", tmp_path / "p.csv", points=False)
    assert result.exit_code == 2
    assert "found (0,)" in result.output
    savemat(tmp_path / "p.mat", {"x": POINTS[:, 0], "t": POINTS[:, 1]})
    np.testing.assert_array_equal(streaming.read_points(tmp_path / "p.mat", ("x", "t")), POINTS)


def test_columns_are_told_by_their_names(tmp_path):
    path, read = tmp_path / "p.csv", lambda: streaming.read_points(tmp_path / "p.csv", ("x", "t"))
    for header in ("t,x", '"t","x"', "# t x"):
        path.write_text(f"{header}\n0.2,0.1\n0.9,0.5\n")
        np.testing.assert_array_equal(read(), [[0.1, 0.2], [0.5, 0.9]])
    path.write_text("0.1,0.2\n")
    np.testing.assert_array_equal(read(), [[0.1, 0.2]])
    for header in ("a,b", "x [m],t [s]"):
        path.write_text(f"{header}\n0.1,0.2\n")
        with pytest.raises(DatasetError, match="points are looked for under x and t"):
            read()
