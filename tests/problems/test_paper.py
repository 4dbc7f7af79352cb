"""The preset "paper" states the facts of the paper, of its authors' code and of the papers it cites."""

from dataclasses import replace

import jax
import pytest

from pdecl.family.experiment import basis_of, loss_problem_of, preset, problem_of
from pdecl.state.rules import Nodes


def widths(layers):
    """Inputs, hidden layers, outputs."""
    return [layers[0].in_features, *(layer.out_features for layer in layers)]


def counts(problem):
    """How many points each condition has."""
    sets = problem.draw(50)
    return {c.name: len(sets[k]) for c, k in zip(problem.conditions, problem.places, strict=True)}


@pytest.mark.parametrize("method", ["hard", "soft"])
def test_burgers_is_trained_as_in_the_authors_code(method):
    training = preset("burgers", method, "paper").training
    assert (training.phis, training.batch, training.steps) == (1000, 4, 100_000)
    assert (training.mean, training.single, training.clip) == ("mean", True, None)
    assert (training.optimiser, training.rate, training.decay) == ("adam", 1e-3, (0.9, 2000))


def test_burgers_has_the_networks_of_the_authors_code():
    hard = basis_of(preset("burgers", "hard", "paper"), jax.random.key(0))
    soft = basis_of(preset("burgers", "soft", "paper"), jax.random.key(0))
    assert widths(hard.layers) == [2, 100, 100, 100, 100, 50]
    assert widths(soft.trunk.layers) == [2, 100, 100, 100, 100, 100]
    assert widths(soft.branch.layers) == [101, 100, 100, 100, 100, 100, 100]
    for function in (hard.activation, soft.trunk.activation):
        assert function is jax.numpy.tanh


def test_burgers_has_the_points_and_the_loss_of_the_authors_code():
    hard, soft = (preset("burgers", method, "paper") for method in ("hard", "soft"))
    assert counts(problem_of(hard)) == {"equation": 600, "initial": 101, "periodic": 101}
    assert counts(loss_problem_of(hard))["equation"] == 300
    assert loss_problem_of(soft) is None
    for problem in (loss_problem_of(hard), problem_of(soft)):
        weights = {c.name: c.weight for c in problem.conditions}
        assert weights == {"equation": 1.0, "initial": 20 * 300.0, "periodic": 300.0}
    rules = [on.rule for on in problem_of(hard).sets()]
    assert all(isinstance(rule, Nodes) and rule.side == 101 for rule in rules)


def test_convection_has_the_sizes_of_the_paper():
    hard, soft = (preset("convection", method, "paper") for method in ("hard", "soft"))
    assert hard.network.size == 600
    assert sum(counts(problem_of(hard)).values()) == 750
    assert sum(counts(loss_problem_of(hard)).values()) == 250
    assert problem_of(hard).conditions[0].kind == "Enforce"
    assert 2 * sum(counts(problem_of(soft)).values()) == pytest.approx(1000, abs=2)


def test_convections_soft_model_is_that_of_the_cited_paper():
    soft = preset("convection", "soft", "paper")
    basis = basis_of(soft, jax.random.key(0))
    for layers in (basis.branch, basis.trunk):
        assert widths(layers)[1:-1] == [100] * 7
    assert (soft.training.rate, soft.training.decay) == (1e-3, (0.9, 2000))
    assert {c.weight for c in problem_of(soft).conditions if c.name != "equation"} == {10.0}


def test_darcy_has_the_network_of_the_paper_that_is_cited():
    hard, soft = (preset("darcy", method, "paper") for method in ("hard", "soft"))
    assert (hard.network.size, soft.network.size) == (4000, 1)
    assert (hard.grid, soft.grid) == (61, 61)
    basis = basis_of(soft, jax.random.key(0))
    shapes = [block.spectral.weights.shape for block in basis.inner.values.blocks]
    assert shapes == [(40, 20, 64, 64, 2)] * 4
    changed = {**hard.network.options, "hidden": 128, "gain": 0.02}
    assert soft.network == replace(hard.network, size=1, options=changed)
