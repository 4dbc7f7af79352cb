"""Inverses of slabs: by factorisations of each stage, or by steps from one of them."""

import numpy as np
import pytest
import scipy

from pdecl import Box, Fit, Problem
from pdecl.adaptive import inverse
from pdecl.adaptive.effort import Stop
from pdecl.adaptive.grid import Grid
from pdecl.adaptive.inverse import Inverse, factorise
from pdecl.adaptive.pieces import uniform
from pdecl.adaptive.rows import equations_of
from pdecl.adaptive.separable import separable
from pdecl.adaptive.stages import radau


def heat(n):
    """u_t − u_xx in differences, with two rows of boundary values."""
    mass, stiff = scipy.sparse.identity(n, format="lil"), scipy.sparse.lil_matrix((n, n))
    stiff.setdiag(2.0 * n**2)
    stiff.setdiag(-1.0 * n**2, 1)
    stiff.setdiag(-1.0 * n**2, -1)
    for row in (0, n - 1):
        mass[row], stiff[row] = 0.0, 0.0
        stiff[row, row] = 1.0
    return {0: stiff.tocsr(), 1: mass.tocsr()}


@pytest.mark.parametrize("directly", [True, False])
@pytest.mark.parametrize("order", [1, 2])
def test_an_inverse_and_its_transpose(monkeypatch, directly, order):
    if not directly:
        monkeypatch.setattr(inverse, "_LARGE", 1)
        monkeypatch.setattr(inverse, "_WIDE", 0)
    s, h, n, rng = 5, 0.02, 40, np.random.default_rng(0)
    stiff, mass = heat(n).values()
    matrices, near = {0: stiff, order: mass}, []
    D = radau(s).derivative / h
    for length in (h, 3 * h):  # the second with the factorisation of the first
        whole = sum(
            np.kron(np.linalg.matrix_power(D * h / length, a), A.toarray()) for a, A in matrices.items()
        )
        solve = Inverse(matrices, s, length, None, near)
        R = rng.standard_normal((s, n))
        np.testing.assert_allclose(
            solve(R).ravel(), np.linalg.solve(whole, R.ravel()), rtol=1e-6, atol=1e-8
        )
        back = np.linalg.solve(whole.T, R.ravel())
        np.testing.assert_allclose(solve.transposed(R).ravel(), back, rtol=1e-6, atol=1e-8)
    assert len(near) == (0 if directly else 1)


@pytest.mark.parametrize("names", ["xy", "xyz"])
def test_what_separates_is_diagonalised(names):
    """Against the matrices, with a reaction, a drift and values that are given on the faces."""
    box = Box(**dict.fromkeys(names, (0, 1)), t=(0, 1))
    pde = lambda u, z, k: (
        u.d("t") + u.d("x") + k * u() - sum((1 + n) * u.d(c, c) for n, c in enumerate(names))
    )
    problem = Problem(
        box,
        [
            Fit(pde, on=box.interior),
            Fit(lambda u, z, k: 2 * u() - z.x, on=box.faces(*names)),
            Fit(lambda u, z, k: u(), on=box.face(t=0)),
        ],
    )
    space = Grid(equations_of(problem, np.asarray(3.0)), [uniform(2)] * len(names), 3)
    *_, slopes = space.evaluate({"u": [np.zeros((1, space.size))] * 2}, np.zeros(1))
    slopes = [g[0] for g in slopes]
    apart, matrices, rng = separable(space, slopes), space.matrices(slopes), np.random.default_rng(0)
    for shift in (5.0, 5.0 + 2.0j):
        whole = sum(shift**a * A.toarray() for a, A in matrices.items())
        solve, back = apart(shift)
        r = rng.standard_normal(space.size) * (1.0 if shift == 5.0 else 1.0 - 0.3j)
        assert solve(r).dtype == whole.dtype
        np.testing.assert_allclose(solve(r), np.linalg.solve(whole, r), rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(back(r), np.linalg.solve(whole.T, r), rtol=1e-7, atol=1e-9)
    uneven = [g * (1 + rng.random(g.shape)) for g in slopes]
    assert separable(space, uneven) is None


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("form", [scipy.sparse.csr_matrix, np.asarray])
def test_least_squares_and_their_transpose(form, given, full):
    """Where no sizes of rows are given they are those of the largest entries; a row may be zero."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((12, 7)) * (rng.random((12, 7)) < (1.0 if full else 0.3))
    A[:7] += np.eye(7)
    A[9] = 0.0
    largest = np.abs(A).max(axis=1) + (np.arange(12) == 9)
    sizes = 0.5 + rng.random(12) if given else largest
    solve, back = factorise(form(A), sizes if given else None)
    inverse_of = np.linalg.pinv(A / sizes[:, None]) / sizes
    r, x = rng.standard_normal(12), rng.standard_normal(7)
    np.testing.assert_allclose(solve(r), inverse_of @ r, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(back(x), inverse_of.T @ x, rtol=1e-5, atol=1e-6)


def test_a_factorisation_that_memory_would_not_hold(monkeypatch):
    monkeypatch.setattr(inverse.os, "sysconf", lambda name: 10)
    with pytest.raises(Stop, match="GB of memory"):
        factorise(scipy.sparse.csr_matrix(np.ones((9, 9)) + np.eye(9)))
