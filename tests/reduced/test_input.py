"""Bad φ, far φ, files: a clear word, and the others are answered."""

import inspect
from functools import partial

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import pytest
from waves import network, stated

import pdecl
from pdecl.family.experiment import basis_of, preset
from pdecl.family.trained import find, load
from pdecl.reduced import compile, load_compiled
from pdecl.support.status import Status

TINY = {"size": 12, "width": 12, "depth": 1, "creased": 0.0}


@pytest.fixture(scope="module")
def trained():
    experiment = preset("convection", "hard", "quick").with_overrides(**TINY)
    return pdecl.Trained(experiment, basis_of(experiment, jr.key(3)))


@pytest.fixture(scope="module")
def solver(trained):
    return compile(trained, phis=24, functions=6, at=trained.problem().domain.mesh(4, 3))


@pytest.fixture
def file(solver, tmp_path):
    path = tmp_path / "solver.safetensors"
    solver.save(path)
    return path


def test_one_bad_phi_of_a_batch(solver, trained):
    solver = partial(solver, residual_limit=None)  # of a rough basis
    phi = trained.family.sample(1, 4)
    phi[1, 5], phi[2] = np.nan, -phi[2]
    with pytest.warns(UserWarning, match=r"φ number 1 is rejected.*NaN.*φ number 2.*must be positive"):
        found = solver(phi)
    bad = Status.REJECTED
    assert found.status == [pdecl.Status.SOLVED, bad, bad, pdecl.Status.SOLVED]
    assert (str(bad), bad.failed) == ("rejected", True)
    assert "Correct it" in bad.advice
    assert np.isnan(found.values[1:3]).all()
    good = solver(phi[[0, 3]])
    assert np.allclose(good.values, np.asarray(found.values)[[0, 3]], rtol=1e-9)
    with pytest.raises(ValueError, match="φ number 1 is rejected: it has entries that are NaN"):
        solver(phi, throw=True)


def test_one_phi_of_a_list_has_another_length(solver, trained):
    solver = partial(solver, residual_limit=None)  # of a rough basis
    phi = trained.family.sample(1, 4)
    with pytest.warns(UserWarning, match=r"φ number 1 .* shape \(50,\).* φ number 2 .* not made of num"):
        found = solver([phi[0], phi[1, :50], ["a", "b"], phi[3].tolist()])
    assert [str(status) for status in found.status] == ["solved", "rejected", "rejected", "solved"]
    np.testing.assert_array_equal(
        found.code, [0, Status.REJECTED, Status.REJECTED, 0]
    )  # as in files of answers
    whole = solver(phi)
    assert np.allclose(np.asarray(found.values)[[0, 3]], np.asarray(whole.values)[[0, 3]], rtol=1e-9)
    assert np.array_equal(solver(phi[0].tolist()).values, solver(phi[0]).values)


def test_a_bad_phi_of_ones_own_problem(reduced, fresh):
    reduced = partial(reduced, residual_limit=None)  # of a rough basis
    phi = np.asarray(fresh).copy()
    phi[7, 1] = np.inf
    with pytest.warns(UserWarning, match="φ number 7 is rejected.*NaN or infinite"):
        found = reduced(phi)
    assert found.status.count(Status.REJECTED) == 1
    assert found.status[7] is Status.REJECTED


def test_one_bad_phi_alone_raises(solver, trained):
    with pytest.raises(ValueError, match="φ is rejected: it has entries that are NaN"):
        solver(np.full(101, np.nan))
    with pytest.warns(UserWarning, match="must be positive"):
        found = solver(-trained.family.sample(1, 1)[0], throw=False)
    assert found.status is Status.REJECTED


def test_a_wrong_shape_is_named(solver):
    with pytest.raises(ValueError, match=r"7\).*\(101,\)"):
        solver(np.ones(7))
    with pytest.raises(ValueError, match=r"'fast'. This solver takes φ of shape \(101,\)"):
        solver("fast")


def test_a_far_phi_is_answered_with_a_warning(solver, trained):
    solver = partial(solver, residual_limit=None)  # of a rough basis
    phi = trained.family.sample(1, 2)
    assert np.all(np.asarray(solver(phi).distance) < 1.5)
    with pytest.warns(UserWarning, match="outside the training distribution: distance"):
        found = solver(1 + 8 * (phi[0] - 1) + np.sin(np.arange(101)) ** 2)
    assert found.distance > 1.5
    assert found.status is pdecl.Status.SOLVED


def test_a_file_brings_back_the_same_solver(solver, file, trained):
    again, phi = load_compiled(file), trained.family.sample(1, 3)
    a, b = solver(phi), again(phi)
    assert np.array_equal(a.weights, b.weights)
    assert np.array_equal(a.values, b.values)
    assert np.array_equal(a.distance, b.distance)
    here = np.asarray([[0.3, 0.7]])
    assert np.array_equal(a(here), b(here))
    assert again.error == solver.error


def test_a_solver_of_ones_own_problem(reduced, fresh, tmp_path):
    path = tmp_path / "own.safetensors"
    reduced.save(path)
    with pytest.raises(pdecl.ModelFileError, match=r"your own.*load\(path, problem, basis=basis\)"):
        load_compiled(path)
    with pytest.raises(ValueError, match="a problem of your own"):
        _ = reduced.trained
    problem = stated(nonlinear=True)
    again = load_compiled(path, problem, blank(network(problem)))
    assert np.array_equal(reduced(fresh).values, again(fresh).values)
    assert np.array_equal(reduced(fresh)(reduced.at), again(fresh)(reduced.at))


def test_files_that_are_none(file, trained, tmp_path):
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(pdecl.ModelFileError, match="cut short"):
        load_compiled(cut)
    other = tmp_path / "network.safetensors"
    trained.save(other)
    for trained_one in (other, "burgers"):
        with pytest.raises(pdecl.ModelFileError, match=r"not a compiled solver.*pdecl\.load,"):
            load_compiled(trained_one)
    with pytest.raises(pdecl.ModelFileError, match=r"not a trained basis.*pdecl\.load reads both"):
        load(file)
    with pytest.raises(pdecl.ModelFileError, match="no such file"):
        load_compiled(tmp_path / "nothing.safetensors")
    # What `pdecl.load` begins with; without the type checker of the tests, which would be first.
    for read, words in [(find, "a model is the name"), (pdecl.open, "a file of answers")]:
        with pytest.raises(TypeError, match=f"{words}.*found 3"):
            inspect.unwrap(read)(3)
    with pytest.raises(ValueError, match="at least one training φ; found -3"):
        pdecl.compile(trained, phis=-3)
    with pytest.raises(ValueError, match="refine takes the solutions"):
        inspect.unwrap(pdecl.refine)(trained, None, 1e-3)


def blank(basis):
    return jax.tree.map(lambda x: 0 * x if eqx.is_array(x) else x, basis)


def test_too_few_training_phi(trained):
    with pytest.raises(ValueError, match="too few"):
        compile(trained, phis=3)


def test_more_functions_than_answers_span(trained):
    with pytest.raises(ValueError, match="functions"):
        compile(trained, phis=8, functions=12)
