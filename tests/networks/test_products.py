"""The slopes of a field's potential, and functions that are products of channels and polynomials."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.sparse as sparse
import scipy.sparse.linalg
from through_the_layer import check_gradient, residual_loss

import pdecl
from pdecl.basis.networks.field import FieldFeatures, potential_slopes
from pdecl.basis.networks.products import channels_for, factors
from pdecl.family.experiment import from_dict, preset
from pdecl.problems.darcy import Darcy

SMALL = Darcy(grid=13)
PROBLEM = SMALL.problem(walls=False)
NU = jnp.asarray(SMALL.sample(0, 1)[0])


def products(size=12, degree=1, **options):
    channels = channels_for(size, degree)
    fno = pdecl.nn.FNO(PROBLEM, channels, 8, 2, 4, slopes=True, **options, key=jr.key(0))
    return pdecl.nn.Products(fno, degree)


def on_walls(values, problem=PROBLEM):
    return pdecl.nn.Mollified(pdecl.nn.ElementBasis(problem.domain, values), problem.domain.faces())


def neumann(nodes, spacing):
    """−(second difference), a node beyond each end being a mirror image."""
    matrix = sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(nodes, nodes)).tolil()
    matrix[0, 1] = matrix[-1, -2] = -2
    return matrix.tocsr() / spacing**2


def test_slopes_are_those_of_the_five_point_potential():
    """Against a sparse solve, on a box that is no square."""
    n, m, lengths = 12, 17, (1.0, 2.0)
    spacings = [length / (count - 1) for length, count in zip(lengths, (n, m), strict=True)]
    field = np.random.default_rng(0).normal(size=(n, m))
    ends = [np.r_[0.5, np.ones(count - 2), 0.5] for count in (n, m)]
    field -= np.average(field, weights=np.outer(*ends))  # a mean by the trapezoidal rule
    along = [neumann(*each) for each in zip((n, m), spacings, strict=True)]
    laplace = sparse.kron(along[0], sparse.eye(m)) + sparse.kron(sparse.eye(n), along[1])
    pinned = laplace.tolil()
    pinned[0] = 0
    pinned[0, 0] = 1
    load = -field.ravel()
    load[0] = 0
    potential = scipy.sparse.linalg.spsolve(pinned.tocsc(), load).reshape(n, m)
    assert np.abs(laplace @ potential.ravel() + field.ravel()).max() < 1e-10
    found = potential_slopes(jnp.asarray(field), lengths)
    x, y = ((np.roll(potential, -1, a) - np.roll(potential, 1, a)) / 2 / spacings[a] for a in (0, 1))
    np.testing.assert_allclose(found[1:-1, :, 0], x[1:-1], atol=1e-10)
    np.testing.assert_allclose(found[:, 1:-1, 1], y[:, 1:-1], atol=1e-10)
    np.testing.assert_allclose(found[[0, -1], :, 0], 0, atol=1e-12)
    np.testing.assert_allclose(found[:, [0, -1], 1], 0, atol=1e-12)


def test_slopes_bend_where_the_field_jumps():
    """Across a jump of one the slope of the slope changes by one; along it, by nothing."""
    x = np.linspace(0, 1, 201)
    field = jnp.asarray(np.broadcast_to((x > 0.5)[:, None], (201, 201)).astype(float))
    across, along = np.moveaxis(potential_slopes(field, (1.0, 1.0)), -1, 0)
    bends = np.diff(across[:, 100], n=2) * 200
    assert bends[95:105].sum() == pytest.approx(1, abs=1e-3)
    assert np.abs(np.r_[bends[:95], bends[105:]]).max() < 1e-3
    assert np.abs(along).max() < 1e-10


def test_features_with_slopes_have_them_at_the_end_with_deviation_one():
    plain, bent = FieldFeatures(PROBLEM), FieldFeatures(PROBLEM, slopes=True)
    drawn = PROBLEM.sample(jr.key(5), 20)
    np.testing.assert_array_equal(plain(NU), bent(NU)[..., :4])
    assert bent(NU).shape == (13, 13, 6)
    assert 0.5 < float(jnp.std(jax.vmap(bent)(drawn)[..., 4:])) < 2


def polynomials(shape, degree):
    along_x, along_y = factors(shape, degree)
    return along_x[:, None] * along_y[None]


def test_factors_are_chebyshev_polynomials():
    x, y = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 7), indexing="ij")
    one = np.ones_like(x)
    expected = np.stack([one, y, 2 * y**2 - 1, x, x * y, 2 * x**2 - 1], axis=-1)
    np.testing.assert_allclose(polynomials((5, 7), 2), expected, atol=1e-14)


def test_it_begins_with_polynomials_and_with_slopes_times_them():
    network = products(dtype=jnp.float64)
    values = network(NU)
    assert values.shape == (13, 13, 12)
    assert jax.eval_shape(network, jnp.ones((9, 21))).shape == (9, 21, 12)
    slopes = FieldFeatures(PROBLEM, slopes=True)(NU)[..., 4:]
    start = np.concatenate([np.ones((13, 13, 1)), slopes], axis=-1)
    expected = (start[..., None] * polynomials((13, 13), 1)[..., None, :]).reshape(13, 13, 9)
    np.testing.assert_allclose(values[..., :9], expected, atol=1e-6)
    assert np.linalg.matrix_rank(values.reshape(-1, 12)) == 12


def test_bends_are_worth_more_than_as_many_functions_without():
    """Untrained, at interfaces: the error is less than half of that of smooth functions alone."""
    family = Darcy(grid=61)
    problem, nu = family.problem(walls=False), family.sample(0, 1)
    exact = family.reference(nu)[0]

    def error(values):
        found = pdecl.solve(problem, on_walls(values, problem), jnp.asarray(nu[0]))
        return np.linalg.norm(found(problem.domain.mesh(61, 61)).reshape(61, 61) - exact)

    bent = pdecl.nn.Products(pdecl.nn.FNO(problem, 3, 8, 1, 4, slopes=True, key=jr.key(0)), 6)
    smooth = polynomials((61, 61), 12)[..., : 3 * 28]
    assert error(bent) < 0.5 * error(lambda nu: jnp.asarray(smooth))
    assert error(bent) < 0.02 * np.linalg.norm(exact)


def test_gradients_reach_the_parameters_through_a_solve():
    network, loss = (
        products(dtype=jnp.float64),
        lambda net: residual_loss(PROBLEM, on_walls(net), NU, 12),
    )
    check_gradient(network, loss)
    gradient = eqx.filter_jit(eqx.filter_grad(loss))(network)
    assert np.all(np.abs(gradient.channels.last.weight).max(axis=1) > 0)  # the given channels learn too


def test_single_precision_stays_single():
    network = products()
    leaves = [leaf for leaf in jax.tree.leaves(network) if eqx.is_array(leaf)]
    assert {leaf.dtype for leaf in leaves} == {jnp.dtype(jnp.float32)}
    assert network(NU.astype(jnp.float32)).dtype == jnp.float32


def test_mistakes_are_named():
    fno = lambda size, **options: pdecl.nn.FNO(PROBLEM, size, 8, 1, 4, **options, key=jr.key(0))
    with pytest.raises(ValueError, match="slopes=True"):
        pdecl.nn.Products(fno(3), 2)
    with pytest.raises(ValueError, match="slopes=True"):
        pdecl.nn.Products(fno(3, features=FieldFeatures(PROBLEM)), 2)
    with pytest.raises(ValueError, match="3 channels or more; found 2"):
        pdecl.nn.Products(fno(2, slopes=True), 2)
    with pytest.raises(ValueError, match="degree"):
        pdecl.nn.Products(fno(3, slopes=True), 0)
    with pytest.raises(ValueError, match="multiple of 45 from 135 on, such as 270; found 256"):
        channels_for(256, 8)
    with pytest.raises(ValueError, match=r"at least three.*such as 135; found 90"):
        channels_for(90, 8)
    assert channels_for(256, 0) == 256


def test_an_experiment_with_products_survives_being_written_down():
    plan = preset("darcy", "hard", "best")
    assert from_dict(plan.as_dict()) == plan
    assert channels_for(plan.network.size, plan.network.options["degree"]) == 6
