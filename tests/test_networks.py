"""The bases that come with pdecl, and bases of one's own."""

import copy
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import pdecl

box = pdecl.Box(x=(-1, 3), y=(0, 2))
square = pdecl.Box(x=(0, 1), y=(0, 1))
value = pdecl.Fit(lambda u, z, phi: u() - jnp.sin(z.x) * z.y, on=box.interior)
problem = pdecl.Problem(box, [value])


def test_an_untrained_mlp_spans_its_size():
    """The functions differ from the start: all singular values count, and a smooth u is fitted well."""
    basis = pdecl.nn.MLP(problem, size=32, width=64, depth=2, key=jr.key(0))
    values = jax.vmap(basis)(box.mesh(30, 30))
    assert values.shape == (900, 32)
    assert np.linalg.matrix_rank(values, tol=1e-6 * np.linalg.norm(values, 2)) == 32
    points = box.mesh(20, 20)
    exact = jnp.sin(points[:, 0]) * points[:, 1]
    assert jnp.linalg.norm(pdecl.solve(problem, basis)(points) - exact) < 0.1 * jnp.linalg.norm(exact)


def test_an_mlp_gives_each_unknown_functions_of_its_own():
    two = pdecl.Problem(
        box, [pdecl.Fit(lambda w, z, phi: w.u() + w.v.d("x"), on=box.interior)], unknowns=("u", "v")
    )
    out = pdecl.nn.MLP(two, size=5, width=16, depth=1, key=jr.key(0))(jnp.zeros(2))
    assert {name: values.shape for name, values in out.items()} == {"u": (5,), "v": (5,)}
    assert not np.allclose(out["u"], out["v"])


def test_more_functions_than_the_last_layer_can_span_are_warned_about():
    with pytest.warns(UserWarning, match="at most 9 dimensions"):
        pdecl.nn.MLP(problem, size=10, width=8, depth=1, key=jr.key(0))


@pytest.mark.parametrize("bad", [{"size": 0}, {"size": 4, "width": -1}, {"size": 4, "depth": 0}])
def test_sizes_must_be_positive(bad):
    with pytest.raises(ValueError, match="at least 1"):
        pdecl.nn.MLP(problem, key=jr.key(0), **bad)


def test_any_equinox_module_is_a_basis():
    class Foreign(eqx.Module):
        net: eqx.nn.MLP

        def __call__(self, x, phi):
            return self.net(x)

    foreign = Foreign(eqx.nn.MLP(2, 20, 32, 2, jnp.sin, key=jr.key(0)))
    solution = pdecl.solve(problem, foreign)
    assert solution.weights.shape == (20,)
    assert solution.residual["Fit 0"] < 0.3


def test_a_float32_network_under_a_float64_solve():
    basis = pdecl.nn.MLP(problem, size=16, width=16, depth=1, key=jr.key(0))
    single = jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, basis)
    cast = lambda x, phi: single(x.astype(jnp.float32), phi)
    solution = pdecl.solve(problem, cast)
    assert solution.weights.dtype == jnp.float64
    assert solution.residual["Fit 0"] < 2 * pdecl.solve(problem, basis).residual["Fit 0"] + 1e-4


def polynomials(x, y):
    return jnp.stack([x**0, x, y, x * y, x**2, y**2, x**2 * y], axis=-1)


def poisson(on, wall):
    """−Δu = −6 with u = x² + 2y² on the walls, whose solution is that polynomial."""
    return pdecl.Problem(
        square,
        [
            pdecl.Fit(lambda u, z, phi: u.d("x", "x") + u.d("y", "y") - 6, on=on),
            pdecl.Fit(lambda u, z, phi: u() - z.x**2 - 2 * z.y**2, on=wall),
        ],
    )


def test_a_basis_on_a_grid_goes_through_the_same_door():
    """Stencils of second order are exact for these polynomials, so the solution is too."""
    x, y = jnp.meshgrid(jnp.linspace(0, 1, 9), jnp.linspace(0, 1, 11), indexing="ij")
    basis = pdecl.nn.GridBasis(square, polynomials(x, y))
    nodes = jnp.stack([x[1:-1, 1:-1].ravel(), y[1:-1, 1:-1].ravel()], axis=-1)
    edge = jnp.stack([x.ravel(), y.ravel()], axis=-1)
    edge = edge[(edge * (1 - edge)).prod(axis=1) == 0]
    stated = poisson(pdecl.Points(nodes), pdecl.Points(edge))
    solution = pdecl.solve(stated, basis)
    np.testing.assert_allclose(solution(nodes), nodes[:, 0] ** 2 + 2 * nodes[:, 1] ** 2, atol=1e-8)
    np.testing.assert_allclose(solution.d("x")(nodes), 2 * nodes[:, 0], atol=1e-8)
    np.testing.assert_allclose(solution.d("x", "y")(nodes), 0, atol=1e-8)


def test_stencils_converge_at_second_order():
    def error(n):
        x, y = jnp.meshgrid(jnp.linspace(0, 1, n), jnp.linspace(0, 1, n), indexing="ij")
        basis = pdecl.nn.GridBasis(square, (jnp.sin(3 * x) * jnp.exp(y))[..., None])
        nodes = jnp.stack([x.ravel(), y.ravel()], axis=-1)
        found = basis.jets(nodes, None, {(0,), (0, 0), (0, 1), (1, 1, 1)})
        exact = {
            (0,): 3 * jnp.cos(3 * x) * jnp.exp(y),
            (0, 0): -9 * jnp.sin(3 * x) * jnp.exp(y),
            (0, 1): 3 * jnp.cos(3 * x) * jnp.exp(y),
        }
        return {axes: np.abs(found[axes][:, 0] - exact[axes].ravel()).max() for axes in exact}

    coarse, fine = error(21), error(41)
    for axes, wrong in coarse.items():
        assert 3.3 < wrong / fine[axes] < 6


def test_a_grid_basis_can_be_a_network_of_phi():
    """A function from φ to values on the grid, evaluated for each φ of a batch."""
    axis = jnp.linspace(0, 1, 12)
    x, y = jnp.meshgrid(axis, axis, indexing="ij")
    basis = pdecl.nn.GridBasis(square, lambda phi: polynomials(phi * x, y))
    on = pdecl.Points(square.interior.grid(8).draw(None, 0).coords)
    stated = pdecl.Problem(
        square,
        [pdecl.Fit(lambda u, z, phi: u() - phi * z.x, on=on)],
        parameter=lambda key: jr.uniform(key),
    )
    found = jax.vmap(lambda phi: pdecl.solve(stated, basis, phi))(jnp.asarray([0.5, 2.0]))(on.coords)
    np.testing.assert_allclose(found, jnp.asarray([[0.5], [2.0]]) * on.coords[:, 0], atol=1e-8)


def test_elements_are_galerkins_method_where_the_coefficient_jumps():
    """−(ν u')' = 1 with ν jumping from 1 to 10 at ½: all hat functions give the exact nodal values."""
    line = pdecl.Box(x=(0, 1))
    n = 21
    hats = pdecl.nn.ElementBasis(line, jnp.eye(n)[:, 1:-1])
    nu = lambda x: jnp.where(x < 0.5, 1.0, 10.0)
    stated = pdecl.Problem(
        line,
        [
            pdecl.Energy(
                lambda u, z, phi: 0.5 * nu(z.x) * u.d("x") ** 2 - u(),
                on=line.interior.gauss(2, cells=n - 1),
            )
        ],
    )
    nodes = jnp.linspace(0, 1, n)
    # Flux q = c − x; u = ∫ (c − x)/ν; c from u(1) = 0.
    c = (0.5**2 / 2 + (1 - 0.5**2) / 20) / (0.5 + 0.05)
    left = c * nodes - nodes**2 / 2
    at_half = c / 2 - 1 / 8
    right = at_half + (c * (nodes - 0.5) - (nodes**2 - 0.25) / 2) / 10
    exact = jnp.where(nodes < 0.5, left, right)
    found = pdecl.solve(stated, hats)(nodes[:, None])
    np.testing.assert_allclose(found, exact, atol=1e-9)


def test_values_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match=r"n_x, n_y, N"):
        pdecl.solve(problem, pdecl.nn.GridBasis(box, jnp.ones((5, 7))))


def initial(z, phi):
    return jnp.sin(z.x)


field = pdecl.Problem(
    square,
    [pdecl.Fit(lambda u, z, phi: u(), on=square.interior)],
    parameter=lambda key: jr.normal(key, (8, 8)),
)
scalar = pdecl.Problem(box, [value], parameter=jr.uniform)
mlp = pdecl.nn.MLP(scalar, 3, 4, 1, key=jr.key(0))
fno = pdecl.nn.FNO(field, 3, 4, 1, 2, slopes=True, key=jr.key(0))


@pytest.mark.parametrize(
    "basis",
    [
        mlp,
        pdecl.nn.MLP(
            scalar, 3, 4, 1, jax.nn.silu, features=pdecl.nn.Periodic(scalar, "x"), key=jr.key(0)
        ),
        pdecl.nn.DeepONet(scalar, 3, 4, 1, key=jr.key(0)),
        pdecl.nn.GatedDeepONet(scalar, 3, 4, 1, key=jr.key(0)),
        pdecl.nn.Modulated(scalar, 3, 4, 1, code=2, key=jr.key(0)),
        fno,
        pdecl.nn.ElementBasis(square, pdecl.nn.Products(fno, degree=1)),
        pdecl.nn.Mollified(mlp, box.faces()),
        pdecl.nn.ExactInitial(mlp, box.face(y=0), initial),
        pdecl.nn.InSingle(mlp),
        pdecl.nn.Thinned(fno, 4),
    ],
    ids=lambda basis: type(basis).__name__,
)
@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_networks_can_be_pickled_and_copied(basis, copied):
    """With the same arrays and the very functions that they had, so that nothing compiles anew."""
    other = copied(basis)
    assert jax.tree.structure(other) == jax.tree.structure(basis)
    for a, b in zip(jax.tree.leaves(other), jax.tree.leaves(basis), strict=True):
        assert np.array_equal(a, b) if eqx.is_array(a) else a is b
