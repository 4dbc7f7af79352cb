"""Streams and their storage: ω and functionals in files, read lazily, damaged, in pieces, joined."""

import itertools
import json
import os
import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

import pdecl
from pdecl import stream as streaming
from pdecl.family.experiment import basis_of, keys_of, preset
from pdecl.reduced import compile
from pdecl.stream.query import reduced, reductions_of
from pdecl.stream.results import Results
from pdecl_cli import app

COUNT, BATCH = 10, 4
POINTS = np.array([[0.1, 0.2], [0.5, 0.9], [1.0, 1.0]])
CLOSE = {"rtol": 1e-6, "atol": 1e-8}


@pytest.fixture(scope="module")
def model():
    made = preset("convection", "hard", "quick").with_overrides(size=12, width=12, depth=1, creased=0.0)
    return pdecl.Trained(made, basis_of(made, keys_of(made)[0]))


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    model.save(folder / "model.safetensors")
    compile(model, phis=24, functions=6).save(folder / "fast.safetensors")
    return folder


@pytest.fixture(scope="module")
def expected(model):
    """The solutions for the φ of every stream here."""
    return model.solve(model.family.sample(7, COUNT), residual_limit=None)


def source_of(model, count=COUNT):
    return streaming.FromDistribution(model.family, 7, count)


def stream(model, out, *, source=None, batch=BATCH, stream_options=None, **asked):
    source = source or source_of(model)
    query = streaming.ask(model, source.shape, **asked)
    options = {"residual_limit": np.inf, **(stream_options or {})}
    return streaming.solve_stream(model, source, out, query, batch=batch, **options)


def contents(path):
    answers = streaming.formats.open_arrays(path)
    try:
        names = ["sample", *answers.layout.columns]
        held = {name: answers.read(name, 0, answers.samples()) for name in names}
        return held | {"checksum": answers.whole("checksum"), "done": answers.number("done")}
    finally:
        answers.close()


def assert_same(one, other):
    one, other = contents(one), contents(other)
    assert list(one) == list(other)
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name], err_msg=name)


@pytest.mark.parametrize("kind", ["h5", "nc", "zarr"])
def test_weights_give_u_anywhere(kind, model, expected, tmp_path):
    out = tmp_path / f"w.{kind}"
    stream(model, out, store="weights")
    answers = pdecl.open(out, model)
    assert (len(answers), answers.complete, answers.damaged()) == (COUNT, True, "")
    u, u_x = np.asarray(expected(POINTS)), np.asarray(expected.d("x")(POINTS))
    np.testing.assert_allclose(answers(POINTS), u, **CLOSE)
    np.testing.assert_allclose(answers[8:2:-2].d("x")(POINTS), u_x[8:2:-2], **CLOSE)
    one = answers[-1]
    assert isinstance(one, pdecl.Solution)
    assert one.status is pdecl.Status.SOLVED
    np.testing.assert_allclose(one(POINTS), u[-1], **CLOSE)
    np.testing.assert_allclose([one.d("x")(POINTS) for one in answers[6:]], u_x[6:], **CLOSE)
    for name, values in expected.residual.items():
        np.testing.assert_allclose(answers.residual[name], values, **CLOSE)
    # φ of a seeded sample are not in the file, and are there all the same.
    assert "beta" not in answers.names
    np.testing.assert_array_equal(answers[3:5].phi, model.family.sample(7, 2, 3))
    means = answers.reduce("mean over t", grid=(3, 5))["mean_u_over_t"]
    mesh = np.asarray(expected(expected.problem.domain.mesh(3, 5))).reshape(COUNT, 3, 5)
    np.testing.assert_allclose(means, np.trapezoid(mesh, dx=0.25, axis=2), **CLOSE)
    np.testing.assert_allclose(answers.to_xarray((3, 5))["u"], mesh, **CLOSE)
    with pytest.raises(IndexError, match="there is no number 10"):
        answers[COUNT]
    with pytest.raises(ValueError, match="say at which points"):
        answers()
    with pytest.raises(ValueError, match="needs a grid"):
        answers.reduce("mean over t")


def test_a_compiled_solver_keeps_its_own_few_weights(folder, tmp_path):
    solver = pdecl.load(folder / "fast.safetensors")
    stream(solver, tmp_path / "w.h5", store="weights", dtype="float32")
    answers = pdecl.open(tmp_path / "w.h5", folder / "fast.safetensors")
    assert answers["weights"].shape == (COUNT, 6)
    assert answers["weights"].dtype == np.float32
    found = solver(solver.family.sample(7, COUNT), residual_limit=None)
    np.testing.assert_allclose(answers(POINTS), found(POINTS), rtol=1e-4, atol=1e-5)


def test_the_model_of_weights_is_asked_for_and_another_refused(model, folder, tmp_path):
    stream(model, tmp_path / "w.h5", store="weights")
    with pytest.raises(ValueError, match="give the model that it was written with"):
        pdecl.open(tmp_path / "w.h5")
    with pytest.raises(ValueError, match="was written with another model"):
        pdecl.open(tmp_path / "w.h5", folder / "fast.safetensors")
    (tmp_path / "a.h5").write_text("a letter")
    with pytest.raises(ValueError, match="not a file of answers"):
        pdecl.open(tmp_path / "a.h5")
    with pytest.raises(ValueError, match="there is no file"):
        pdecl.open(tmp_path / "none.h5")


def test_a_shipped_model_is_found_by_its_digest(monkeypatch, model, folder, tmp_path):
    stream(model, tmp_path / "w.h5", store="weights")
    monkeypatch.setattr("pdecl.stream.reading.shipped", lambda: [folder / "model.safetensors"])
    assert pdecl.open(tmp_path / "w.h5")[0].status is pdecl.Status.SOLVED


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_values_are_read_at_their_nodes(kind, model, expected, tmp_path):
    out = tmp_path / f"v.{kind}"
    stream(model, out, grid=(5, 3), derivatives=["x"], dtype="float32")
    answers, mesh = pdecl.open(out), expected.problem.domain.mesh(5, 3)
    close = {"rtol": 1e-5, "atol": 1e-5}
    assert answers().shape == (COUNT, 3, 5)
    assert answers().dtype == np.float32
    u, u_x = np.asarray(expected(mesh)), np.asarray(expected.d("x")(mesh))
    np.testing.assert_allclose(answers[2:5](mesh[3:9]), u[2:5, 3:9], **close)
    np.testing.assert_allclose(answers[4].d("x")(mesh), u_x[4], **close)
    np.testing.assert_allclose(answers[4](), u[4].reshape(5, 3).T, **close)
    assert answers.to_xarray()["u_x"].dims == ("sample", "t", "x")
    assert [one.number for one in answers[7:]] == [7, 8, 9]
    with pytest.raises(ValueError, match="1 of 1 points are none of these"):
        answers(np.array([[0.3, 0.5]]))
    with pytest.raises(ValueError, match="no derivative along t"):
        answers.d("t")()


def test_functionals_are_those_of_numpy():
    rng = np.random.default_rng(0)
    axes = {"t": np.linspace(0, 2, 4), "x": np.linspace(0, 1, 5)}
    values = {"u": rng.normal(size=(3, 4, 5)), "u_x": rng.normal(size=(3, 4, 5))}
    words = "mean over t; max of u_x over x, t; norm of u over t,x ;min over x"
    found = reduced(values, axes, reductions_of(words, list(axes), list(values)))
    u, u_x = values.values()
    square = np.trapezoid(np.trapezoid(u**2, axes["x"], axis=2), axes["t"], axis=1)
    assert list(found) == [
        "mean_u_over_t", "mean_u_x_over_t", "max_u_x_over_x_t", "norm_u_over_t_x", "min_u_over_x",
        "min_u_x_over_x",
    ]  # fmt: skip
    np.testing.assert_allclose(found["mean_u_over_t"], np.trapezoid(u, axes["t"], axis=1) / 2)
    np.testing.assert_allclose(found["max_u_x_over_x_t"], u_x.max(axis=(1, 2)))
    np.testing.assert_allclose(found["norm_u_over_t_x"], np.sqrt(square))
    np.testing.assert_allclose(found["min_u_over_x"], u.min(axis=2))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("mean", "is no functional"),
        ("", "is no functional"),
        ("mean over", "is no functional"),
        ("median over t", "there is no median"),
        ("mean over y", "have the axes t, x"),
        ("mean over t, t", "names an axis twice"),
        ("mean of v over t", "there is no v; there is u"),
        ("mean over t; mean over t", "is there twice"),
    ],
)
def test_bad_words_for_functionals_are_named(words, message):
    with pytest.raises(ValueError, match=message):
        reductions_of(words, ["t", "x"], ["u"])


def test_functionals_alone_are_in_the_file(model, expected, tmp_path):
    stream(model, tmp_path / "r.h5", grid=(5, 3), reduce="mean over t; max over x, t")
    answers, mesh = pdecl.open(tmp_path / "r.h5"), expected.problem.domain.mesh(5, 3)
    u = np.asarray(expected(mesh)).reshape(COUNT, 5, 3)
    np.testing.assert_allclose(answers["max_u_over_x_t"], u.max(axis=(1, 2)), **CLOSE)
    assert answers["mean_u_over_t"].shape == (COUNT, 5)
    assert "u" not in answers.names
    with pytest.raises(ValueError, match="functionals alone"):
        answers.to_xarray()


def test_reading_while_another_process_writes(model, expected, tmp_path):
    """The writer keeps the file open, and locked, all the while."""
    for out in (tmp_path / "w.h5", tmp_path / "w.zarr"):
        seen = []

        def progress(more, out=out, seen=seen):
            code = (
                "import sys, pdecl\nanswers = pdecl.open(sys.argv[1])\n"
                "print(len(answers), answers.complete, *answers['status'])"
            )
            if more == BATCH and len(seen) < 1:
                done = subprocess.run([sys.executable, "-c", code, out], capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
                seen.append(done.stdout.split())

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pdecl.stream.results._EVERY", 0.0)
            stream(model, out, grid=(3, 3), stream_options={"progress": progress})
        assert seen == [[str(BATCH), "False", *["0"] * BATCH]]
    live = pdecl.open(tmp_path / "w.h5")
    assert len(live.refresh()) == COUNT


def damage(path, name, number):
    """Turns bits of a column's part for one φ."""
    if path.suffix == ".zarr":
        (chunk,) = (chunk for chunk in (path / name / "c").rglob("*") if chunk.is_file())
        whole = bytearray(chunk.read_bytes())
        whole[len(whole) // 2] ^= 255
        chunk.write_bytes(whole)
        return
    with h5py.File(path) as file:
        item = file[name]
        row = item.dtype.itemsize * int(np.prod(item.shape[1:]))
        place = item.id.get_offset() + number * row
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0] ^ 16
        file.seek(place)
        file.write(bytes([byte]))


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_what_is_damaged_is_named_and_solved_anew(kind, model, tmp_path):
    whole, out = tmp_path / f"whole.{kind}", tmp_path / f"w.{kind}"
    stream(model, whole, store="weights")
    stream(model, out, store="weights")
    damage(out, "weights", 5)
    words = pdecl.open(out, model).damaged()
    assert words.startswith("φ number ")
    assert kind == "zarr" or words == "φ number 4 to 7"
    summary = stream(model, out, store="weights")
    assert summary.repaired == words
    assert summary.solved in ((BATCH,) if kind == "h5" else (BATCH, COUNT))
    assert_same(out, whole)
    with pytest.raises(OSError, match="is complete"):
        stream(model, out, store="weights")


def test_damage_in_an_unfinished_and_in_a_compressed_file(model, tmp_path, monkeypatch):
    stream(model, tmp_path / "whole.h5", grid=(3, 3))
    out = tmp_path / "u.h5"
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            stream(model, out, grid=(3, 3))
    damage(out, "status", 2)
    assert stream(model, out, grid=(3, 3)).repaired == "φ number 0 to 3"
    assert_same(out, tmp_path / "whole.h5")
    packed = tmp_path / "p.h5"
    stream(model, packed, grid=(3, 3), stream_options={"compress": True})
    assert [path.name for path in tmp_path.glob("p.*")] == ["p.h5"]
    assert_same(packed, tmp_path / "whole.h5")
    with h5py.File(packed) as file:
        assert file["u"].fletcher32
        assert file["u"].compression == "gzip"
        place = file["u"].id.get_chunk_info(1).byte_offset
    with packed.open("r+b") as file:
        file.seek(place + 3)
        file.write(b"\xff\xff")
    assert pdecl.open(packed).damaged() == "φ number 4 to 7"
    stream(model, packed, grid=(3, 3), stream_options={"compress": True})
    assert_same(packed, tmp_path / "whole.h5")


def test_what_is_made_at_the_end_is_made_again(model, tmp_path, monkeypatch):
    out, words = tmp_path / "u.npz", {"grid": (3, 3)}

    def interrupted(stream, out):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(streaming.formats, "convert", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream(model, out, **words)
    assert len(pdecl.open(out)) == COUNT  # of the stream that it will be made from
    assert stream(model, out, **words).solved == 0
    assert np.load(out)["u"].shape == (COUNT, 3, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["u.npz"]


def stop_after(patch, batches):
    write, written = Results.write, itertools.count(1)

    def wrapped(self, answers):
        write(self, answers)
        if next(written) == batches:
            raise KeyboardInterrupt

    patch.setattr(Results, "write", wrapped)


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_zarr_and_hdf5_are_resumed_to_the_last_bit(kind, model, tmp_path, monkeypatch):
    stream(model, tmp_path / f"whole.{kind}", store="weights", batch=2)
    out = tmp_path / f"w.{kind}"
    for _ in range(4):
        with monkeypatch.context() as patch:
            stop_after(patch, 1)
            with pytest.raises(KeyboardInterrupt):
                stream(model, out, store="weights", batch=2)
    assert stream(model, out, store="weights", batch=2).solved == 2
    assert_same(out, tmp_path / f"whole.{kind}")


KILLED = """
import os, signal, sys
import numpy as np
from pathlib import Path
from pdecl.stream import results as written
from pdecl.stream.query import Query

written._EVERY = 0.0
query = Query(("x", "t"), np.zeros((3, 2)), {"point": np.arange(3)}, None)
layout = written.lay_out(query, ("equation",))
results = written.Results.create(Path(sys.argv[1]), layout, 100, 4, {"a": 1}, {})
one = np.ones(4)
for start in range(0, 100, 4):
    columns = {"u": np.full((4, 3), start), "status": one, "iterations": one, "distance": one,
               "residual_equation": one}
    if start == 76:
        put = type(results._arrays).write
        def deadly(self, name, *rest):
            put(self, name, *rest)
            if name == "distance":
                os.kill(os.getpid(), signal.SIGKILL)
        type(results._arrays).write = deadly
    results.put(start, columns, [""] * 4)
"""


def test_a_killed_writer_of_zarr_leaves_what_was_done(tmp_path):
    out = tmp_path / "a.zarr"
    ended = subprocess.run([sys.executable, "-c", KILLED, out], check=False)
    assert ended.returncode == -signal.SIGKILL
    with Results.resume(out, {"a": 1}) as results:
        assert (results.done, results.complete, results.damaged()) == (76, False, [])
        with pytest.raises(OSError, match="another process is writing to it"):
            Results.resume(out, {"a": 1})


def test_a_full_disk_under_zarr(model, tmp_path, monkeypatch):
    stream(model, tmp_path / "whole.zarr", store="weights")
    out, put = tmp_path / "w.zarr", streaming.formats.Zarr._put

    def full(self, name, start, values):
        if name == "distance" and start + len(values) > BATCH:
            raise OSError(28, "No space left on device")
        put(self, name, start, values)

    with monkeypatch.context() as patch:
        patch.setattr("pdecl.stream.results._EVERY", 0.0)
        patch.setattr(streaming.formats.Zarr, "_put", full)
        with pytest.raises(OSError, match=r"disk full\? The first 4 φ in it are whole"):
            stream(model, out, store="weights")
    assert contents(out)["done"] == BATCH
    assert stream(model, out, store="weights").repaired == ""
    assert_same(out, tmp_path / "whole.zarr")


def pieces(model, out, of, **options):
    for number in range(1, of + 1):
        stream(model, out, store="weights", stream_options={"shard": (number, of)}, **options)
    return streaming.pieces_of(out)


def test_pieces_are_joined_to_what_one_call_writes(model, tmp_path, monkeypatch):
    stream(model, tmp_path / "whole.h5", store="weights", batch=2)
    out = tmp_path / "w.h5"
    made = pieces(model, out, 3, batch=2)
    assert [path.name for path in made] == [f"w.{n}-of-3.h5" for n in (1, 2, 3)]
    second = pdecl.open(made[1], model)
    np.testing.assert_array_equal(second.numbers, np.arange(2, 6))
    np.testing.assert_array_equal(second.phi, model.family.sample(7, 4, 2))
    put, calls = Results.put, itertools.count(1)

    def interrupted(self, *rest):
        put(self, *rest)
        if next(calls) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Results, "put", interrupted)
        with pytest.raises(KeyboardInterrupt):
            streaming.merge(out)
    assert contents(out)["done"] == 6
    totals, count = streaming.merge(out)
    assert (totals.count, count) == (COUNT, 3)
    assert_same(out, tmp_path / "whole.h5")
    with pytest.raises(OSError, match="is complete"):  # the command for all knows it as its own
        stream(model, out, store="weights", batch=2)
    streaming.merge(tmp_path / "all.zarr", made)
    np.testing.assert_array_equal(contents(tmp_path / "all.zarr")["weights"], contents(out)["weights"])


def test_pieces_that_do_not_belong_together_are_named(model, folder, tmp_path):
    out = tmp_path / "w.h5"
    one, two, three = pieces(model, out, 3, batch=2)
    join = lambda *names: streaming.merge(tmp_path / "new.h5", names)
    with pytest.raises(OSError, match=r"1 of 3 pieces are missing: 2\. .* --shard 2/3"):
        join(one, three)
    two.rename(tmp_path / "copy.h5")
    with pytest.raises(OSError, match=r"piece 3/3 is there twice"):
        join(one, tmp_path / "copy.h5", three, three)
    (tmp_path / "copy.h5").rename(two)
    with pytest.raises(OSError, match="there are no pieces of"):
        streaming.merge(tmp_path / "other.h5")
    solver = pdecl.load(folder / "fast.safetensors")
    stream(solver, tmp_path / "f.h5", store="weights", batch=2, stream_options={"shard": (2, 3)})
    with pytest.raises(OSError, match=r"another question than .*: the model"):
        join(one, tmp_path / "f.2-of-3.h5", three)
    stream(model, tmp_path / "v.h5", grid=(2, 2), batch=2)
    with pytest.raises(OSError, match="is no piece"):
        streaming.merge(tmp_path / "new.h5", [tmp_path / "v.h5"])
    damage(two, "weights", 1)
    with pytest.raises(OSError, match="φ number 2 to 3 are damaged in"):
        join(one, two, three)
    stream(model, out, store="weights", batch=2, stream_options={"shard": (2, 3)})
    assert join(one, two, three)[0].count == COUNT
    with h5py.File(three, "r+") as file:
        file["complete"][()] = 0
    with pytest.raises(OSError, match="is not finished, 4 of 4 φ"):
        streaming.merge(tmp_path / "again.h5", [one, two, three])


@pytest.mark.parametrize(
    ("shard", "count", "message"),
    [
        ((0, 3), COUNT, "there is no piece 0/3"),
        ((4, 3), COUNT, "there is no piece 4/3"),
        ((1, 4), COUNT, "are 3 batches of 4, fewer than 4 pieces"),
    ],
)
def test_pieces_that_there_cannot_be(shard, count, message, model, tmp_path):
    with pytest.raises(ValueError, match=message):
        stream(model, tmp_path / "w.h5", source=source_of(model, count), stream_options={"shard": shard})


def test_a_piece_goes_on_with_its_batch(model, tmp_path, monkeypatch):
    """Which φ it is made of depends on it."""
    out, piece = tmp_path / "w.h5", {"shard": (2, 2)}
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        with pytest.raises(KeyboardInterrupt):
            stream(model, out, store="weights", batch=2, stream_options=piece)
    with pytest.raises(OSError, match="the shard differs"):
        stream(model, out, store="weights", batch=3, stream_options=piece)
    assert stream(model, out, store="weights", batch=2, stream_options=piece).totals.count == 6


def test_slurm_says_which_piece():
    assert streaming.slurm_piece({}, array=True) is None
    assert streaming.slurm_piece({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, array=False) is None
    step = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2"}
    assert streaming.slurm_piece(step, array=False) == (3, 4)
    array = {
        "SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_STEP": "2",
        "SLURM_ARRAY_TASK_COUNT": "5",
    }  # fmt: skip
    assert streaming.slurm_piece(array, array=False) is None
    assert streaming.slurm_piece(array, array=True) == (3, 5)
    assert streaming.slurm_piece({**array, **step}, array=True) == (11, 20)


def test_the_commands(model, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = lambda *words: CliRunner().invoke(app, [str(word) for word in words])
    solve = ["solve", folder / "model.safetensors", "--residual-limit", "inf", "--batch", BATCH]
    solve += ["--sample", f"7,{COUNT}", "--store", "weights", "--out", "u.h5"]
    for task in (0, 1):
        monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
        monkeypatch.setenv("SLURM_PROCID", str(task))
        result = run(*solve)
        assert result.exit_code == 0, result.output
        assert f"{task + 1}/2, as Slurm has it" in result.stderr
    result = run("merge", "u.h5", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["pieces"] == 2
    monkeypatch.delenv("SLURM_STEP_NUM_TASKS")
    damage(tmp_path / "u.h5", "weights", 9)
    result = run(*solve)
    assert result.exit_code == 0, result.output
    assert "φ number 8 to 9 of u.h5 were damaged, and are solved anew" in result.stderr.replace(
        "\n", " "
    )
    assert pdecl.open("u.h5", model).damaged() == ""
    os.remove("u.1-of-2.h5")
    result = run("merge", "u.h5", "--overwrite")
    assert (result.exit_code, "1 of 2 pieces are missing: 1." in result.output) == (2, True)
    for words, message in [
        (["--shard", "3"], "--shard takes a piece"),
        (["--shard", "0/2"], "--shard takes a piece"),
        (["--shard", "slurm"], "this process is none of these"),
        (["--grid", "3,3"], "when it is read"),
        (["--dtype", "float16"], "float64 or float32; found 'float16'"),
        (["--store", "nothing"], "values or weights; found 'nothing'"),
        (["--tolerance", "1e-3", "--refine"], "refine with --store values"),
        (["--store", "values", "--reduce", "mean over y"], "these values have the axes"),
        (["--out", "u.npz", "--shard", "1/2"], "pieces are written as"),
        (["--out", "u.npz", "--compress"], "what is compressed is"),
    ]:
        result = run(*solve, *words)
        assert result.exit_code == 2
        assert message in result.output.replace("\n", " ")
    text = run(*solve[:-4], "--grid", "3,2", "--reduce", "mean over t; max over x,t").stdout.splitlines()
    assert text[0].split("\t")[3:] == [f"mean_u_over_t(x={x})" for x in ("0", "0.5", "1")] + [
        "max_u_over_x_t"
    ]
    assert len(text) == 1 + COUNT
