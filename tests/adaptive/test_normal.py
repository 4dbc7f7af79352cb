"""Least squares by normal equations against NumPy's, and the transpose of that map."""

import numpy as np
import pytest

from pdecl.adaptive.degrees import Polynomials
from pdecl.adaptive.normal import Normal


@pytest.mark.parametrize("shift", [2.0, 1.0 + 2.0j])
@pytest.mark.parametrize("spread", [0.0, 6.0], ids=["well conditioned", "ill conditioned"])
def test_normal_equations_solve_the_least_squares_of_all_rows(shift, spread):
    rng = np.random.default_rng(0)
    columns = 10 ** rng.uniform(0, spread, 20)
    A, M, B = (rng.normal(size=(rows, 20)) * columns for rows in (50, 50, 30))
    solve, back = Normal([{0: A, 1: M}, {0: B}])(shift)
    parts = A + shift * M, B
    sizes = [np.sqrt((np.abs(part) ** 2).sum(axis=1).mean()) for part in parts]
    whole = np.concatenate([part / size for part, size in zip(parts, sizes, strict=True)])
    scale = np.repeat(sizes, [50, 30])
    expected = np.linalg.pinv(whole / columns) / columns[:, None] / scale
    r = rng.normal(size=80) + (1j * rng.normal(size=80) if np.iscomplex(shift) else 0)
    x = rng.normal(size=20)
    np.testing.assert_allclose(solve(r) * columns, expected @ r * columns, atol=1e-11)
    np.testing.assert_allclose(back(x / columns), expected.T @ (x / columns), atol=1e-11)


def test_dependent_columns_are_left_to_the_rows():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(50, 6))
    A[:, 5] = A[:, 4] + 1e-9 * A[:, 0]
    solve, _ = Normal([{0: A}])()
    x = rng.normal(size=6)
    np.testing.assert_allclose(A @ solve(A @ x), A @ x, atol=1e-6)


def test_polynomials_on_a_shape_are_orthonormal_where_it_is():
    x = 1 - np.random.default_rng(0).beta(3, 3, 500) * 2  # a ball's coordinate
    line = Polynomials((-1.0, 1.0), 9, 2, x)
    np.testing.assert_allclose(line.table(x, 0).T @ line.table(x, 0) / 500, np.eye(9), atol=1e-10)
    step = 1e-5
    slope = (line.table(x + step, 1) - line.table(x - step, 1)) / (2 * step)
    np.testing.assert_allclose(line.table(x, 2), slope, rtol=1e-4, atol=1e-2)
