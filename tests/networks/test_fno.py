"""The Fourier neural operator: on any grid, the same functions."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from through_the_layer import check_gradient, residual_loss

import pdecl
from pdecl.basis.networks.fno import FieldFeatures
from pdecl.basis.networks.spectral import Full, Separable
from pdecl.problems.darcy import Darcy

SMALL = Darcy(grid=9)
PROBLEM = SMALL.problem(walls=False)
NU = jnp.asarray(SMALL.sample(0, 1)[0])


@cache
def fno(**options):
    sizes = {"size": 6, "width": 8, "depth": 2, "modes": 4, "hidden": 8}
    return pdecl.nn.FNO(PROBLEM, **{**sizes, **options}, key=jr.key(0))


call = eqx.filter_jit(lambda module, x: module(x))


def smooth(n):
    x, y = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n), indexing="ij")
    return jnp.asarray(6 + 3 * np.sin(4 * x) * np.cos(3 * y))


@pytest.mark.parametrize("options", [{}, {"factorised": False}, {"local": 3}, {"padding": 0.0}])
def test_it_gives_functions_on_the_grid_of_the_field(options):
    values = call(fno(**options), NU)
    assert values.shape == (9, 9, 6)
    assert values.dtype == jnp.float32
    assert np.linalg.matrix_rank(values.reshape(-1, 6).astype(float)) == 6
    other = jax.eval_shape(fno(**options), smooth(21)[:, :12])
    assert other.shape == (21, 12, 6)


def test_gain_multiplies_the_functions():
    np.testing.assert_allclose(call(fno(gain=0.02), NU), 0.02 * call(fno(), NU), rtol=1e-6)


@pytest.mark.parametrize("factorised", [True, False])
def test_its_functions_do_not_depend_on_the_grid(factorised):
    """At shared nodes values agree the better the finer the grids are, at second order."""
    network = fno(factorised=factorised, dtype=jnp.float64)
    coarse, middle, fine = (call(network, smooth(n))[:: n // 16, :: n // 16] for n in (17, 33, 65))
    first, second = np.abs(coarse - middle).max(), np.abs(middle - fine).max()
    assert second < 0.01 * np.abs(fine).max()
    assert 3 < first / second < 5


def test_a_basis_made_on_one_grid_solves_on_another():
    network = pdecl.nn.FNO(PROBLEM, 48, 16, 2, 6, key=jr.key(0))
    fine = Darcy(grid=17)
    problem, nu = fine.problem(walls=False), fine.sample(0, 1)
    basis = pdecl.nn.Mollified(pdecl.nn.ElementBasis(problem.domain, network), problem.domain.faces())
    solution = pdecl.solve(problem, basis, jnp.asarray(nu[0]))
    found, exact = solution(problem.domain.mesh(17, 17)).reshape(17, 17), fine.reference(nu)[0]
    assert np.linalg.norm(found - exact) < 0.1 * np.linalg.norm(exact)  # and it was never trained
    np.testing.assert_array_equal(found[0], 0)


def field(n, m):
    """Zero on the edges, where the trapezoidal rule differs from the plain sum."""
    h = np.random.default_rng(0).normal(size=(n, m, 3))
    h[[0, -1]] = h[:, [0, -1]] = 0
    return h


def complex_weights(layer):
    return np.asarray(layer.weights) @ np.array([1, 1j])


def test_a_full_convolution_is_that_of_an_fft_of_the_padded_field():
    layer, h = Full(3, 4, 0.2, key=jr.key(0)), field(11, 11)
    waves = np.fft.rfft2(h, s=(12, 12), axes=(0, 1))
    kept = np.zeros((12, 7, 3), complex)
    for k in range(-4, 4):
        kept[k, :4] = np.einsum("kc,kcd->kd", waves[k, :4], complex_weights(layer)[k + 4])
    expected = np.fft.irfft2(kept, s=(12, 12), axes=(0, 1))[:11, :11]
    np.testing.assert_allclose(call(layer, jnp.asarray(h)), expected, atol=1e-12)


def test_a_separable_convolution_is_the_sum_of_two_along_the_axes():
    layer, h = Separable(3, 4, 0.2, key=jr.key(0)), field(11, 16)
    expected = 0
    for axis, (n, length) in enumerate([(11, 12), (16, 18)]):
        waves = np.moveaxis(np.fft.rfft(h, n=length, axis=axis), axis, 0)[:4]
        mixed = np.einsum("kyc,kcd->kyd", waves, complex_weights(layer)[axis])
        expected = expected + np.moveaxis(np.fft.irfft(mixed, n=length, axis=0)[:n], 0, axis)
    np.testing.assert_allclose(call(layer, jnp.asarray(h)), expected, atol=1e-12)


@pytest.mark.parametrize("kind", [Separable, Full])
def test_waves_that_a_coarse_grid_cannot_tell_apart_are_left_out(kind):
    """The layer is then the one with fewer waves."""
    many = kind(3, 6, 0.2, key=jr.key(0))
    few = eqx.tree_at(lambda layer: layer.weights, many, _fewer(many))
    h = jnp.asarray(field(6, 6))  # tells waves below 3 apart
    np.testing.assert_allclose(call(many, h), call(few, h), atol=1e-12)


def _fewer(layer):
    if isinstance(layer, Separable):
        return layer.weights[:, :3]
    return layer.weights[3:9, :3].at[0].set(0)  # wave −3 among −3 … 2


def test_gradients_reach_the_parameters_through_a_solve():
    network = fno(dtype=jnp.float64, size=4)
    wrap = lambda net: pdecl.nn.Mollified(
        pdecl.nn.ElementBasis(PROBLEM.domain, net), PROBLEM.domain.faces()
    )
    check_gradient(network, lambda net: residual_loss(PROBLEM, wrap(net), NU))


def test_parameters_are_real_arrays_of_one_precision():
    leaves = [leaf for leaf in jax.tree.leaves(fno(local=3)) if eqx.is_array(leaf)]
    assert {leaf.dtype for leaf in leaves} == {jnp.dtype(jnp.float32)}


def test_features_can_be_given():
    features = lambda nu: jnp.stack([nu, nu**2], axis=-1)
    network = fno(features=features)
    assert network.lift.in_features == 2
    assert jax.eval_shape(network, NU).shape == (9, 9, 6)


def test_a_field_that_may_be_negative_is_not_taken_the_logarithm_of():
    problem = pdecl.Problem(
        PROBLEM.domain, PROBLEM.conditions, parameter=lambda key: jr.normal(key, (9, 9))
    )
    assert np.all(np.isfinite(call(FieldFeatures(problem), -NU)))


def test_mistakes_are_named():
    line = pdecl.Box(x=(0, 1))
    problem = pdecl.Problem(
        line,
        [pdecl.Fit(lambda u, z, a: u(), on=line.interior)],
        parameter=lambda key: jr.normal(key, (5,)),
    )
    with pytest.raises(ValueError, match="two coordinates"):
        pdecl.nn.FNO(problem, 4, key=jr.key(0))
    with pytest.raises(ValueError, match="odd"):
        fno(local=2)
    with pytest.warns(UserWarning, match="at most 9 dimensions"):
        fno(size=10)
