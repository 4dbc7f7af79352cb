from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
import skfem
from fast_solvers import conjugate_gradients
from on_a_grid import conservative_residual, energy, wide_residual

from pdecl.family.metrics import relative_l2
from pdecl.problems import Darcy
from pdecl.problems.darcy.grid import face_coefficients, subsample, upscaled_faces
from pdecl.problems.darcy.reference import (
    PIXEL_ORDER,
    finite_differences,
    from_faces,
    pixel_elements,
    pixel_truth,
)


def grid(nodes):
    line = np.linspace(0.0, 1.0, nodes)
    return np.meshgrid(line, line, indexing="ij")


def smooth_nu(nodes):
    x, y = grid(nodes)
    return (2 + np.sin(3 * x + y) * np.cos(2 * y))[None]


def sparse_solution(nu, average):
    """The five-point scheme assembled and factorised by SciPy."""
    n = nu.shape[-1]
    number = np.arange(n * n).reshape(n, n)

    def mean(a, b):
        return (a + b) / 2 if average == "arithmetic" else 2 * a * b / (a + b)

    pairs = [
        (number[1:, :].ravel(), number[:-1, :].ravel(), mean(nu[1:, :], nu[:-1, :]).ravel()),
        (number[:, 1:].ravel(), number[:, :-1].ravel(), mean(nu[:, 1:], nu[:, :-1]).ravel()),
    ]
    matrix = sp.csr_matrix((n * n, n * n))
    for one, other, weight in pairs:
        ends = np.concatenate([one, other])
        matrix = matrix + sp.coo_matrix((np.tile(weight, 2), (ends, ends)), matrix.shape)
        swapped = np.concatenate([other, one])
        matrix = matrix - sp.coo_matrix((np.tile(weight, 2), (ends, swapped)), matrix.shape)
    inside = number[1:-1, 1:-1].ravel()
    u = np.zeros(n * n)
    u[inside] = sla.spsolve(matrix[inside][:, inside].tocsc(), np.full(inside.size, (n - 1.0) ** -2))
    return u.reshape(n, n)


@pytest.mark.parametrize("average", ["arithmetic", "harmonic"])
def test_finite_differences_agree_with_a_sparse_factorisation(average):
    nu = Darcy(grid=61).sample(2, 2)
    u = finite_differences(nu, average)
    wanted = np.stack([sparse_solution(one, average) for one in nu])
    assert relative_l2(u, wanted).max() < 1e-9
    assert np.abs(conservative_residual(nu, u, average)).max() < 1e-6
    assert (u[:, 0] == 0).all()
    assert (u[:, :, -1] == 0).all()


def test_finite_differences_are_second_order_for_smooth_nu():
    fine = finite_differences(smooth_nu(257))
    errors = [
        relative_l2(finite_differences(smooth_nu(nodes)), subsample(fine, nodes))[0]
        for nodes in (17, 33, 65)
    ]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (np.abs(orders - 2) < 0.15).all()


def test_constant_coefficient_has_the_series_solution():
    k = np.arange(1, 400, 2)
    waves = np.sin(np.pi * k / 2)
    series = 16 / np.pi**4 * (waves / k) @ (1 / (k[:, None] ** 2 + k**2)) @ (waves / k)
    u = finite_differences(np.full((1, 129, 129), 2.0))
    assert u[0, 64, 64] == pytest.approx(series / 2, rel=1e-4)
    assert pixel_truth(np.full((1, 33, 33), 2.0))[0, 16, 16] == pytest.approx(series / 2, rel=1e-4)


def test_pixel_elements_agree_with_scikit_fem():
    from skfem.helpers import dot, grad

    nodes, refine = 13, 4
    nu = Darcy(grid=nodes).sample(4, 1)
    mesh = skfem.MeshQuad.init_tensor(*[np.linspace(0, 1, (nodes - 1) * refine + 1)] * 2)
    basis = skfem.Basis(mesh, skfem.ElementQuad1())

    def coefficient(x):
        index = np.rint(x * (nodes - 1)).astype(int)
        return nu[0][index[0], index[1]]

    stiffness = skfem.BilinearForm(lambda u, v, w: coefficient(w.x) * dot(grad(u), grad(v)))
    load = skfem.LinearForm(lambda v, w: 1.0 * v)
    system = skfem.condense(
        stiffness.assemble(basis), load.assemble(basis), D=basis.get_dofs().flatten()
    )
    values = skfem.solve(*system)
    x, y = grid(nodes)
    probes = basis.probes(np.stack([x.ravel(), y.ravel()]).clip(1e-12, 1 - 1e-12))
    wanted = (probes @ values).reshape(1, nodes, nodes)
    assert relative_l2(pixel_elements(nu, refine, tolerance=1e-11), wanted).max() < 1e-8


def test_pixel_elements_converge_at_the_order_that_the_truth_assumes():
    nu = Darcy(grid=29).sample(5, 2)
    levels = [pixel_elements(nu, refine, 1e-9) for refine in (4, 8, 16, 32)]
    changes = [relative_l2(a, b) for a, b in pairwise(levels)]
    orders = np.log2(np.array(changes[:-1]) / np.array(changes[1:]))
    assert (np.abs(orders - PIXEL_ORDER) < 0.2).all()
    finest = levels[-1] + (levels[-1] - levels[-2]) / (2**PIXEL_ORDER - 1)
    assert relative_l2(pixel_truth(nu, 8, 1e-9), finest).max() < 0.1 * changes[0].max()


def test_the_published_target_is_off_the_truth_by_its_known_amount():
    # 0.17% on average over the test set; this is one of its φ on the full grid.
    nu = Darcy().sample(2, 1)
    u = finite_differences(nu, tolerance=1e-7)
    off = relative_l2(u, pixel_elements(nu, 2, 1e-5))[0]
    assert 0.0005 < off < 0.003


def test_energy_has_the_residual_as_its_gradient_and_the_solution_as_its_minimum():
    nu = Darcy(grid=21).sample(6, 1)[0]
    u = np.pad(np.random.default_rng(0).normal(size=(19, 19)), 1)
    for average in ("arithmetic", "harmonic"):
        slope = jax.grad(energy, argnums=1)(jnp.asarray(nu), jnp.asarray(u), average)
        wanted = conservative_residual(nu, u, average) / 20**2
        np.testing.assert_allclose(slope[1:-1, 1:-1], wanted, rtol=1e-10, atol=1e-12)
    solution = finite_differences(nu[None])[0]
    # At the minimum the stored energy is half the work done, so E = −½∫u.
    assert energy(nu, solution) == pytest.approx(-solution.sum() / 20**2 / 2, rel=1e-8)
    assert energy(nu, solution) < energy(nu, solution + 1e-4 * u)


def test_wide_residual_is_consistent_and_blind_to_a_checkerboard():
    def residual(nodes):
        x, y = grid(nodes)
        u = np.sin(np.pi * x) * np.sin(2 * np.pi * y)
        nu = 2 + x * y
        exact = (
            5 * np.pi**2 * nu * u
            - y * np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y)
            - x * 2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y)
            - 1
        )
        return wide_residual(nu, u), exact[2:-2, 2:-2]

    errors = [np.abs(np.subtract(*residual(nodes))).max() for nodes in (33, 65)]
    assert 3.5 < errors[0] / errors[1] < 4.5
    x, _ = grid(33)
    checkerboard = (-1.0) ** np.add.outer(np.arange(33), np.arange(33))
    np.testing.assert_allclose(wide_residual(np.full_like(x, 3.0), checkerboard), -1.0, atol=1e-12)


def test_residuals_take_batches_and_trace():
    nu, u = Darcy(grid=15).sample(7, 3), np.random.default_rng(1).normal(size=(3, 15, 15))
    for residual in (conservative_residual, wide_residual, energy):
        batch = residual(nu, u)
        one_by_one = np.stack([residual(a, b) for a, b in zip(nu, u, strict=True)])
        np.testing.assert_allclose(batch, one_by_one)
        np.testing.assert_allclose(jax.jit(jax.vmap(residual))(nu, u), batch, rtol=1e-9, atol=1e-9)


def test_jax_conjugate_gradients_contract_threefold_and_reach_the_reference():
    nu = Darcy(grid=61).sample(8, 3)
    wanted = finite_differences(nu)
    errors = [
        relative_l2(np.asarray(conjugate_gradients(jnp.asarray(nu), steps)), wanted).max()
        for steps in (4, 8, 24, 60)
    ]
    assert errors[1] < errors[0] / 3**3
    assert errors[2] < 1e-9
    assert errors[3] < 1e-9, "steps beyond convergence must do no harm"
    polished = conjugate_gradients(jnp.asarray(nu), 2, start=jnp.asarray(wanted))
    assert relative_l2(np.asarray(polished), wanted).max() < 1e-9


def test_unsolvable_contrast_is_said():
    nu = np.ones((1, 21, 21))
    nu[0, 5:9, 5:9] = 1e30
    with pytest.raises(ValueError, match="contrast"):
        finite_differences(nu)


def test_subsample_keeps_both_ends_and_names_what_fits():
    values = np.arange(421.0) * np.ones((421, 1))
    for nodes in (211, 141, 85, 61, 31):
        assert subsample(values, nodes).shape == (nodes, nodes)
        assert subsample(values, nodes)[0, -1] == 420
    with pytest.raises(ValueError, match="no subgrid of 100; choose one of 421, 211, 141"):
        subsample(values, 100)


def test_unknown_average_is_named():
    with pytest.raises((ValueError, TypeError), match="geometric"):
        face_coefficients(np.ones((5, 5)), "geometric")


def test_upscaled_faces_remember_the_fine_coefficient():
    nu = Darcy(grid=121).sample(9, 3)
    truth = pixel_elements(nu, 4)
    for nodes in (31, 41):  # an even and an odd stride
        plain = finite_differences(subsample(nu, nodes))
        upscaled = np.stack([from_faces(upscaled_faces(one, nodes)) for one in nu])
        to_truth = [relative_l2(u, subsample(truth, nodes)).mean() for u in (plain, upscaled)]
        assert to_truth[1] < to_truth[0] / 3
    # Without coarsening nothing is averaged: harmonic faces.
    for found, wanted in zip(upscaled_faces(nu, 121), face_coefficients(nu, "harmonic"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
