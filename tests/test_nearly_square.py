"""Equality rows nearly as many as functions: an LU factorisation instead of a Gram matrix."""

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from test_solvers import matrix, model, relative

import pdecl
from pdecl.layer.gram import Dual
from pdecl.layer.solvers import nearly_square
from pdecl.layer.solvers.quadratic import minimise

SHAPES = [(150, 150), (150, 170)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@pytest.fixture(autouse=True)
def pays_for_few_rows(monkeypatch):
    monkeypatch.setattr(nearly_square, "_LARGE", 1)


def factors(C, ridge=1e-12):
    rows = lx.MatrixLinearOperator(jnp.asarray(C))
    return nearly_square.NearlySquare().prepare(Dual(rows, jnp.full(len(C), ridge)))


def shortest(C, d):
    asked = model(C=C, d=d)
    return minimise(asked, jnp.full(C.shape[1], 1e-12), jnp.zeros(C.shape[1]), pdecl.solvers.Cholesky())[
        0
    ]


def target(C, seed=1):
    return C @ np.random.default_rng(seed).normal(size=C.shape[1])


def test_it_is_for_large_matrices_with_a_few_more_functions_than_rows(monkeypatch):
    monkeypatch.setattr(nearly_square, "_LARGE", 100)
    pays = lambda *shape: nearly_square.pays(lx.MatrixLinearOperator(jnp.zeros(shape)))
    assert [pays(100, 100), pays(100, 125)] == [True, True]
    assert [pays(99, 100), pays(100, 126), pays(101, 100)] == [False, False, False]


@every_shape
def test_the_factors_are_those_of_the_pseudoinverse(shape):
    C, solver = matrix(*shape), nearly_square.NearlySquare()
    found = factors(C)
    f, x = (np.random.default_rng(2).normal(size=k) for k in shape)
    assert relative(solver.down(found, jnp.asarray(f)), np.linalg.pinv(C) @ f) < 1e-12
    assert relative(solver.up(found, jnp.asarray(x)), np.linalg.pinv(C).T @ x) < 1e-12


@every_shape
@pytest.mark.parametrize(("condition", "serve"), [(1e2, True), (1e4, True), (1e6, False), (1e12, False)])
def test_rows_near_the_ridge_are_left_to_the_gram_matrix(shape, condition, serve):
    assert bool(factors(matrix(*shape, condition=condition)).serve) == serve


@every_shape
@pytest.mark.parametrize("rank", [None, 140])
def test_the_shortest_solution(shape, rank):
    C = matrix(*shape, rank=rank)
    d = target(C)
    assert bool(factors(C).serve) == (rank is None)
    assert relative(shortest(C, d), np.linalg.lstsq(C, d)[0]) < 1e-9


def test_a_batch_in_which_one_has_dependent_rows():
    rows = np.stack([matrix(*SHAPES[1], rank=rank, seed=i) for i, rank in enumerate([None, 140])])
    targets = np.stack([target(C) for C in rows])
    found = jax.jit(jax.vmap(shortest))(rows, targets)
    for C, d, x in zip(rows, targets, found, strict=True):
        assert relative(x, np.linalg.lstsq(C, d)[0]) < 1e-9


def test_rows_that_are_not_finite_give_an_answer_that_is_not():
    C = matrix(*SHAPES[1])
    C[3, 5] = np.nan
    assert not np.any(np.isfinite(shortest(C, np.ones(len(C)))))


@every_shape
def test_derivatives_in_both_modes_and_of_a_derivative(shape):
    C = jnp.asarray(matrix(*shape))
    d = target(C)
    towards = matrix(*shape, seed=3), target(C, seed=4)
    weights = jnp.cos(jnp.arange(shape[1]))
    along = lambda t: jnp.sum(weights * shortest(C + t * towards[0], d + t * towards[1]) ** 2)
    first = jax.jit(jax.grad(along))
    h = 1e-5
    central = lambda f: float(f(h) - f(-h)) / (2 * h)
    assert float(first(0.0)) == pytest.approx(central(along), rel=1e-6)
    assert float(jax.jvp(along, (0.0,), (1.0,))[1]) == pytest.approx(central(along), rel=1e-6)
    assert float(jax.grad(jax.grad(along))(0.0)) == pytest.approx(central(first), rel=1e-6)
