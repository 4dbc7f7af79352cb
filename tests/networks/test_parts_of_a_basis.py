"""What a basis may offer beyond its functions: `at`, `offset`, `weights`, `contract`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from spectral import chebyshev

import pdecl
from pdecl.basis import basis as bases
from pdecl.layer.system import build

box = pdecl.Box(x=(0, 1), t=(0, 1))
# u_t + a u_x = 0, u = sin at the start and −sin(at) at the inflow: u = sin(x − at)
PROBLEM = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, a: u.d("t") + a * u.d("x"), on=box.interior),
        pdecl.Fit(lambda u, z, a: u() - jnp.sin(z.x), on=box.face(t=0)),
        pdecl.Fit(lambda u, z, a: u() + jnp.sin(a * z.t), on=box.face(x=0)),
    ],
    parameter=lambda key: jr.uniform(key),
)
MESH = box.mesh(9)
X, T = np.asarray(MESH).T


@pytest.mark.parametrize(("points", "most"), [(1, 4), (4, 4), (5, 4), (7, 4), (9, 4)])
def test_points_in_chunks_are_one_program_whatever_their_number(points, most):
    coords = jnp.linspace(0, 1, 2 * points).reshape(points, 2)
    at_point = lambda x: {"sine": jnp.sin(x[0]), "both": 2 * x}
    chunked = lambda coords: bases.in_chunks(at_point, coords, most)
    jax.tree.map(np.testing.assert_array_equal, chunked(coords), jax.vmap(at_point)(coords))
    assert count("sin", chunked, coords) == 1
    slope = jax.grad(lambda coords: jnp.sum(chunked(coords)["sine"]))(coords)
    np.testing.assert_allclose(slope[:, 0], np.cos(coords[:, 0]))


def count(primitive, function, *arguments):
    """How often a primitive is in the program of a function."""

    def inside(jaxpr):
        here = sum(eqn.primitive.name == primitive for eqn in jaxpr.eqns)
        return here + sum(inside(sub) for eqn in jaxpr.eqns for sub in jaxprs_in_params(eqn.params))

    return inside(jax.make_jaxpr(function)(*arguments).jaxpr)


class Coded(eqx.Module):
    """Functions that need something costly of φ; erf_inv stands for it."""

    polynomials: object

    def at(self, phi):
        code = jax.lax.erf_inv(phi)
        return lambda x, phi: self.polynomials(x, phi) * (1 + code)


class TestAt:
    basis = Coded(chebyshev(box, 5))

    def test_it_is_asked_once_for_all_sets_of_points(self):
        held = lambda phi: build(PROBLEM, self.basis, phi, PROBLEM.draw(36)).jets
        assert count("erf_inv", held, 0.5) == 1

    def test_it_is_asked_once_to_query_a_solution(self):
        solution = pdecl.solve(PROBLEM, self.basis, 0.5)
        np.testing.assert_allclose(solution(MESH), np.sin(X - 0.5 * T), atol=1e-4)
        assert count("erf_inv", lambda points: solution.d("x")(points), MESH) == 1

    def test_a_grid_asks_its_network_once(self):
        network = lambda phi: jax.lax.erf_inv(phi) * jnp.ones((5, 5, 3))
        for kind in (pdecl.nn.GridBasis, pdecl.nn.ElementBasis):
            wrapped = pdecl.nn.Mollified(kind(box, network), box.faces())
            held = lambda phi, b=wrapped: build(PROBLEM, b, phi, PROBLEM.draw(3)).jets
            assert count("erf_inv", held, 0.5) == 1

    def test_asking_twice_is_asking_once(self):
        values = pdecl.nn.ElementBasis(box, lambda phi: phi * jnp.ones((5, 5, 3)))
        for basis in (values, pdecl.nn.Mollified(values, box.faces()), self.basis):
            once = bases.specialise(basis, 0.5)
            again = bases.specialise(once, 0.5)
            np.testing.assert_array_equal(again(MESH[10], 0.5), once(MESH[10], 0.5))


class Shifted(eqx.Module):
    """Few polynomials around a function that they could not make."""

    inner: object

    def __call__(self, x, phi):
        return self.inner(x, phi)

    def offset(self, x, phi):
        return jnp.sin(20 * x[0]) * jnp.exp(x[1] * phi)


class TestOffset:
    box = pdecl.Box(x=(0, 1), y=(0, 1))
    basis = Shifted(chebyshev(box, 3))
    exact = staticmethod(lambda x, y, a: jnp.sin(20 * x) * jnp.exp(y * a) + x**2 * y - y**3)

    def test_a_manufactured_problem_is_solved_exactly(self):
        def source(z, a):
            along = lambda f: jax.jvp(jax.grad(f), (0.0,), (1.0,))[1]
            return along(lambda s: self.exact(z.x + s, z.y, a)) + along(
                lambda s: self.exact(z.x, z.y + s, a)
            )

        problem = pdecl.Problem(
            self.box,
            [
                pdecl.Fit(
                    lambda u, z, a: u.d("x", "x") + u.d("y", "y") - source(z, a), on=self.box.interior
                ),
                pdecl.Enforce(
                    lambda u, z, a: u() - self.exact(z.x, z.y, a), on=self.box.face(x=0).grid(4)
                ),
                pdecl.Fit(lambda u, z, a: u() - self.exact(z.x, z.y, a), on=self.box.faces()),
            ],
            parameter=lambda key: jr.uniform(key),
        )
        mesh = self.box.mesh(6)
        phis = jnp.array([0.3, 0.7])
        solution = jax.vmap(lambda phi: pdecl.solve(problem, self.basis, phi))(phis)
        expected = self.exact(mesh[:, 0], mesh[:, 1], phis[:, None])
        np.testing.assert_allclose(solution(mesh), expected, atol=1e-8)
        assert (
            max(float(r.max()) for r in solution.residual_at(problem.draw(16, jr.key(1))).values())
            < 1e-6
        )

    @pytest.mark.parametrize("solver", [pdecl.solvers.Cholesky(), pdecl.solvers.CG()])
    def test_an_energy_of_u_with_its_offset(self, solver):
        """∫ ½(u − g)² has its minimum at g, for direct and for matrix-free solvers."""
        problem = pdecl.Problem(
            self.box,
            [
                pdecl.Energy(
                    lambda u, z, a: 0.5 * (u() - self.exact(z.x, z.y, a)) ** 2,
                    on=self.box.interior.gauss(6),
                )
            ],
        )
        mesh = self.box.mesh(6)
        found = pdecl.solve(problem, self.basis, 0.4, solver=solver)(mesh)
        np.testing.assert_allclose(found, self.exact(mesh[:, 0], mesh[:, 1], 0.4), atol=1e-6)

    def test_it_must_be_a_number(self):
        wrong = Shifted(self.basis.inner)
        object.__setattr__(wrong, "offset", lambda x, phi: x)
        with pytest.raises(ValueError, match="one number at a point"):
            bases.offsets(bases.as_basis(wrong), ("u",), MESH, 0.5, {()})


class TestContract:
    weights = jr.normal(jr.key(0), (4,))

    @pytest.mark.parametrize("wrap", [lambda b: b, lambda b: pdecl.nn.Mollified(b, box.faces("x"))])
    @pytest.mark.parametrize("kind", [pdecl.nn.GridBasis, pdecl.nn.ElementBasis])
    def test_it_equals_the_functions_times_the_weights(self, kind, wrap):
        basis = wrap(kind(box, lambda phi: phi * jr.normal(jr.key(1), (6, 7, 4))))
        basis, wanted = bases.specialise(basis, 0.5), {(), (0,), (0, 1)}
        coords = jr.uniform(jr.key(2), (15, 2))
        weights = {"u": self.weights}
        functions = jax.jit(lambda x: bases.evaluate(basis, ("u",), x, 0.5, wanted))(coords)
        sums = jax.jit(lambda x: bases.combine(basis, ("u",), weights, x, 0.5, wanted))(coords)
        for key in functions:
            np.testing.assert_allclose(sums[key], functions[key] @ self.weights, atol=1e-11)

    def test_no_point_sees_more_than_one_function(self):
        """Nothing of the size of points × functions, nor a loop over chunks of points."""
        basis = pdecl.nn.ElementBasis(box, jr.normal(jr.key(1), (6, 7, 4)))
        points = jr.uniform(jr.key(2), (5000, 2))
        combine = lambda w: bases.combine(basis, ("u",), {"u": w}, points, None, {(0,)})["u", (0,)]
        backward = jax.make_jaxpr(jax.grad(lambda w: jnp.sum(combine(w) ** 2)))(self.weights)
        sizes = [v.aval.size for eqn in backward.eqns for v in eqn.outvars]
        assert max(sizes) < 5000 * 16
        assert count("scan", jax.grad(lambda w: jnp.sum(combine(w) ** 2)), self.weights) == 0


class TestPropose:
    phis = jnp.array([0.2, 0.7])

    def test_it_takes_the_networks_own_weights(self):
        basis = pdecl.nn.DeepONet(PROBLEM, 8, 8, 1, key=jr.key(0))
        solution = jax.vmap(lambda phi: pdecl.predict(PROBLEM, basis, phi))(self.phis)
        assert solution.status == [pdecl.Status.PREDICTED] * 2
        for weights, phi, values in zip(solution.weights, self.phis, solution(MESH), strict=True):
            np.testing.assert_allclose(weights, basis.weights(phi), atol=1e-12)
            np.testing.assert_allclose(values, jax.vmap(basis)(MESH) @ weights, atol=1e-12)

    def test_without_any_they_are_ones_and_residuals_are_measured(self):
        solution = pdecl.predict(
            PROBLEM, lambda x, a: jnp.stack([jnp.sin(x[0] - a * x[1]), 0 * x[0]]), 0.5
        )
        assert solution.status is pdecl.Status.PREDICTED
        assert not solution.status.failed
        np.testing.assert_array_equal(solution.weights, 1)
        assert max(solution.residual.values()) < 1e-12
        assert np.isnan(solution.optimality)
        fresh = PROBLEM.draw(2, jr.key(0))
        assert pdecl.predict(PROBLEM, lambda x, a: x[:1], 0.5).residual_at(fresh)["Fit 0"] > 0.1

    def test_weights_of_the_wrong_shape_are_refused(self):
        basis = eqx.tree_at(
            lambda net: net.branch,
            pdecl.nn.DeepONet(PROBLEM, 8, 8, 1, key=jr.key(0)),
            lambda phi: jnp.ones(3),
        )
        with pytest.raises(ValueError, match="8 functions"):
            pdecl.predict(PROBLEM, basis, 0.5)

    def test_what_is_not_finite_is_a_failure(self):
        basis = lambda x, a: jnp.log(x[:1] - 2)
        with pytest.raises(pdecl.SolveError, match="non-finite"):
            pdecl.predict(PROBLEM, basis, 0.5)
        assert pdecl.predict(PROBLEM, basis, 0.5, throw=False).status.failed


def test_networks_know_how_many_functions_they_have(monkeypatch):
    """No query and no solve traces the network to find it out."""
    networks = [
        kind(PROBLEM, size=6, width=8, depth=1, key=jr.key(0))
        for kind in (pdecl.nn.MLP, pdecl.nn.DeepONet, pdecl.nn.Modulated, pdecl.nn.GatedDeepONet)
    ]
    networks += [pdecl.nn.InSingle(networks[0]), pdecl.nn.Mollified(networks[2], box.faces("x"))]
    wanted = [bases.sizes(lambda x, phi, net=net: net(x, phi), ("u",), 2, 0.5) for net in networks]
    monkeypatch.setattr(jax, "eval_shape", None)
    assert [bases.sizes(net, ("u",), 2, 0.5) for net in networks] == wanted == [{"u": 6}] * 6
