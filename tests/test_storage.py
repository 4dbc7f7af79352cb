"""Model files: one safetensors file with its recipe; reading one runs no code."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import pdecl
from pdecl.family import shipped as families
from pdecl.family.experiment import basis_like, basis_of, from_dict, preset
from pdecl.family.trained import find, shipped
from pdecl.support import storage

TINY = {"size": 6, "width": 6, "depth": 1}


def tiny(problem="convection", method="hard"):
    return preset(problem, method, "quick").with_overrides(**TINY)


@pytest.fixture(scope="module")
def trained():
    experiment = tiny()
    return pdecl.Trained(experiment, basis_of(experiment, jr.key(3)))


@pytest.fixture
def file(trained, tmp_path):
    path = tmp_path / "model.safetensors"
    trained.save(path)
    return path


@pytest.mark.parametrize("name", ["convection", "darcy"])  # with a front; on a grid
def test_what_a_file_fills_is_built_without_numbers(name):
    """The same tree as the drawn network, of zeros where that has arrays."""
    experiment = from_dict(storage.recipe_in(find(name))["experiment"])
    if experiment.family.on_grid:
        experiment = experiment.with_overrides(grid=21)
    like, drawn = basis_like(experiment), basis_of(experiment, jr.key(0))
    shapes = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype) if eqx.is_array(x) else x, tree)
    assert eqx.tree_equal(shapes(like), shapes(drawn))
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(like) if eqx.is_array(leaf))


def test_a_model_comes_back_as_it_was(trained, file):
    again = pdecl.load(file)
    assert again.experiment == from_dict(json.loads(json.dumps(trained.experiment.as_dict())))
    phi = trained.family.sample(2, 1)
    here = again.problem().domain.mesh(4, 4)
    assert np.array_equal(*(model.solve(phi, throw=False)(here) for model in (trained, again)))


def test_the_header_says_how_it_was_made(file):
    recipe = storage.recipe_in(file)
    assert recipe["experiment"]["network"]["size"] == 6
    assert recipe["experiment"]["seed"] == 0
    assert set(recipe["versions"]) >= {"pdecl", "jax"}


def test_a_network_of_ones_own_is_saved_and_filled(tmp_path):
    own = {"scale": jnp.arange(3.0), "name": "mine"}
    pdecl.save(tmp_path / "own.safetensors", own, {"note": "a trial"})
    filled = pdecl.load(tmp_path / "own.safetensors", basis={"scale": jnp.zeros(3), "name": "mine"})
    assert np.array_equal(filled["scale"], own["scale"])
    assert storage.recipe_in(tmp_path / "own.safetensors")["note"] == "a trial"
    with pytest.raises(pdecl.ModelFileError, match="which experiment made it"):
        pdecl.load(tmp_path / "own.safetensors")


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({"scale": jnp.zeros(4)}, r"scale.* has shape \(3,\) there and \(4,\) here"),
        ({"scale": jnp.zeros(3), "more": jnp.zeros(1)}, "in the network but not the file"),
        ({}, "in the file but not the network"),
    ],
)
def test_another_network_is_refused(tmp_path, like, message):
    pdecl.save(tmp_path / "own.safetensors", {"scale": jnp.arange(3.0)})
    with pytest.raises(pdecl.ModelFileError, match=message):
        pdecl.load(tmp_path / "own.safetensors", basis=like)


def test_damaged_and_foreign_files_are_named(file, tmp_path):
    whole = file.read_bytes()
    for part in (whole[: len(whole) // 2], b"", b"not a model at all"):
        file.write_bytes(part)
        with pytest.raises(pdecl.ModelFileError, match="cut short or not a safetensors file"):
            pdecl.load(file)
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(pdecl.ModelFileError, match="not one that pdecl wrote"):
        pdecl.load(tmp_path / "other.safetensors")
    with pytest.raises(pdecl.ModelFileError, match="no such file"):
        pdecl.load(tmp_path / "nowhere")
    with pytest.raises(TypeError, match="save: the function <lambda> holds no arrays"):
        pdecl.save(tmp_path / "function", lambda x, phi: x)


def test_a_flipped_bit_is_noticed_wherever_it_is(tmp_path):
    path = tmp_path / "own.safetensors"
    own = {"count": jnp.arange(3), "scale": jnp.linspace(0.0, 1.0, 5)}
    pdecl.save(path, own, {"note": "a trial"})
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(pdecl.ModelFileError, match=r"own\.safetensors"):
            pdecl.load(path, basis=own)
        with pytest.raises(pdecl.ModelFileError, match=r"own\.safetensors"):
            storage.recipe_in(path)


def test_what_version_0_1_called_otherwise_is_read():
    """`law`, `judge`, `fitted_too` and `watched` in the description of an experiment."""
    now = preset(families()[1], "hard", "best").with_overrides(
        constants={"length": 0.3}, metrics_phis=3, include_collocation=True, loss_statement={"points": 7}
    )
    plain = json.loads(json.dumps(now.as_dict()))
    training = plain["training"]
    for new, old in (("include_collocation", "fitted_too"), ("metrics_phis", "watched")):
        training[old] = training.pop(new)
    for new, old in (("constants", "law"), ("loss_statement", "judge")):
        plain[old] = plain.pop(new)
    assert from_dict(plain) == now


def test_files_from_before_there_was_a_checksum_are_read(trained, file):
    from safetensors.numpy import load_file, save_file

    header = {
        "pdecl": "1",
        "recipe": json.dumps({"experiment": trained.experiment.as_dict()}),
        "versions": "{}",
    }
    save_file(load_file(file), file, metadata=header)
    assert eqx.tree_equal(*(eqx.filter(b.basis, eqx.is_array) for b in (pdecl.load(file), trained)))


@pytest.mark.parametrize("name", shipped())
def test_bases_that_come_along_have_a_checksum(name, tmp_path):
    path = tmp_path / "model.safetensors"
    whole = bytearray(find(name).read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(pdecl.ModelFileError, match="does not match its checksum"):
        pdecl.load(path)


def test_numbers_that_are_not_finite_are_not_loaded(tmp_path):
    pdecl.save(tmp_path / "bad.safetensors", {"scale": jnp.array([1.0, jnp.nan])})
    with pytest.raises(pdecl.ModelFileError, match="NaN or infinite"):
        pdecl.load(tmp_path / "bad.safetensors", basis={"scale": jnp.zeros(2)})


@pytest.mark.parametrize("name", families())
@pytest.mark.parametrize("method", ["hard", "soft"])
@pytest.mark.parametrize("size", ["quick", "paper", "best"])
def test_presets_are_plain_data(name, method, size):
    experiment = preset(name, method, size, seed=4)
    assert from_dict(json.loads(json.dumps(experiment.as_dict()))) == experiment
    assert experiment.seed == 4


def test_unknown_words_are_named():
    with pytest.raises(ValueError, match="no problem 'stokes'; give one of burgers"):
        preset("stokes")
    with pytest.raises(ValueError, match="no preset 'huge'"):
        preset("burgers", "hard", "huge")
    with pytest.raises(ValueError, match="an experiment has no 'colour'"):
        preset("burgers").with_overrides(colour=1)
    with pytest.raises(ValueError, match="no network 'Transformer'"):
        basis_of(preset("burgers").with_overrides(kind="Transformer"), jr.key(0))
    with pytest.raises(ValueError, match="darcy is solved on a grid, with an FNO; found 'MLP'"):
        basis_of(preset("darcy").with_overrides(kind="MLP"), jr.key(0))
    with pytest.raises(ValueError, match="φ is on a grid; burgers is trained at points"):
        preset("burgers").with_overrides(grid=61)
    with pytest.raises(ValueError, match="creased is a share, from 0 to below 1; found 40"):
        preset("convection").with_overrides(creased=40)
    with pytest.raises(ValueError, match="an FNO's are, cannot be creased"):
        preset("darcy").with_overrides(creased=0.2)
    with pytest.raises(ValueError, match="not the description of an experiment"):
        from_dict({"problem": "burgers"})
