"""Networks of a point: MLP, DeepONet, GatedDeepONet, Modulated, and ones that are not ours."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from through_the_layer import check_gradient, residual_loss

import pdecl
from pdecl.basis import basis as bases
from pdecl.family import named

box = pdecl.Box(x=(0, 2), t=(-1, 1))
MESH = box.mesh(7, 7)


def transport(unknowns=("u",)):
    """u_t + c u_x = 0 from a wave of a height; φ is a dictionary."""
    pick = (lambda w: w) if len(unknowns) == 1 else (lambda w: w.u)
    conditions = [
        pdecl.Fit(lambda w, z, phi: pick(w).d("t") + phi["c"] * pick(w).d("x"), on=box.interior),
        pdecl.Fit(lambda w, z, phi: pick(w)() - phi["a"][0] * jnp.sin(z.x), on=box.face(t=-1)),
    ]
    family = lambda key: {"a": 1 + jr.uniform(key, (2,)), "c": jr.uniform(key)}
    return pdecl.Problem(box, conditions, parameter=family, unknowns=unknowns)


PROBLEM = transport()
PHI = {"a": jnp.array([1.2, 1.9]), "c": jnp.array(0.3)}
OTHER = {"a": jnp.array([1.7, 1.1]), "c": jnp.array(0.9)}


NETWORKS = [pdecl.nn.MLP, pdecl.nn.DeepONet, pdecl.nn.GatedDeepONet, pdecl.nn.Modulated]
each_network = pytest.mark.parametrize("kind", NETWORKS)
each_that_reads_phi = pytest.mark.parametrize("kind", NETWORKS[1:])


def make(kind, problem=PROBLEM, size=12, width=16, **options):
    return kind(problem, size, width, 2, key=jr.key(0), **options)


@each_network
def test_it_gives_independent_functions_with_right_derivatives(kind):
    basis = make(kind, features=pdecl.nn.Periodic(PROBLEM, "x", waves=2))
    wanted = {(), (1,), (0, 0), (0, 1)}
    here = bases.specialise(basis, PHI)
    found = jax.jit(lambda x: bases.evaluate(here, ("u",), x, PHI, wanted))(MESH)
    assert found["u", ()].shape == (49, 12)
    assert np.linalg.matrix_rank(found["u", ()]) == 12
    shift = jax.jit(jax.vmap(lambda x, by: basis(x + by, PHI), (0, None)))
    value = lambda dx, dt: shift(MESH, jnp.array([dx, dt]))
    h = 1e-4
    t = (value(0, h) - value(0, -h)) / (2 * h)
    xx = (value(h, 0) - 2 * value(0, 0) + value(-h, 0)) / h**2
    xt = (value(h, h) - value(h, -h) - value(-h, h) + value(-h, -h)) / (4 * h**2)
    for axes, numeric in {(1,): t, (0, 0): xx, (0, 1): xt}.items():
        np.testing.assert_allclose(found["u", axes], numeric, atol=1e-5 * np.abs(numeric).max())


@each_network
def test_each_unknown_has_functions_of_its_own(kind):
    basis = make(kind, transport(("u", "v")))
    out = basis(jnp.zeros(2), PHI)
    assert {name: values.shape for name, values in out.items()} == {"u": (12,), "v": (12,)}
    assert not np.allclose(out["u"], out["v"])
    assert bases.predicted(basis, ("u", "v"), PHI, {"u": 12, "v": 12}).shape == (24,)


@pytest.mark.parametrize("kind", [pdecl.nn.MLP, pdecl.nn.DeepONet, pdecl.nn.Modulated])
def test_too_many_functions_for_the_width_are_warned_about(kind):
    with pytest.warns(UserWarning, match="at most 9 dimensions"):
        kind(PROBLEM, 10, 8, 1, key=jr.key(0))


def test_modulated_and_gated_networks_change_their_functions_with_phi():
    functions = lambda kind, phi: make(kind)(MESH[10], phi)
    change = lambda kind: np.abs(functions(kind, PHI) - functions(kind, OTHER)).max()
    assert change(pdecl.nn.Modulated) > 0.01
    assert change(pdecl.nn.GatedDeepONet) > 0.01
    assert change(pdecl.nn.DeepONet) == 0
    branch = make(pdecl.nn.DeepONet)
    assert np.abs(branch.weights(PHI) - branch.weights(OTHER)).max() > 0.01


@each_that_reads_phi
def test_networks_of_phi_need_its_law(kind):
    with pytest.raises(ValueError, match="no distribution"):
        make(kind, pdecl.Problem(box, PROBLEM.conditions))


def test_a_gated_deeponet_is_the_published_one():
    """Written out for one point: U and V from single layers, mixed after each hidden layer of both."""
    net = make(pdecl.nn.GatedDeepONet)
    point, phi = net.features(MESH[10]), net.standard(PHI)
    of = lambda layer, h: np.tanh(layer.weight @ h + layer.bias)
    U, V = of(net.code_phi, phi), of(net.code_point, point)
    outputs = []
    for (first, second, last), inputs in [(net.branch, phi), (net.trunk, point)]:
        z = of(first, inputs)
        z = of(second, (1 - z) * U + z * V)
        outputs.append(last.weight @ ((1 - z) * U + z * V) + last.bias)
    np.testing.assert_allclose(net(MESH[10], PHI), outputs[0] * outputs[1], rtol=1e-12)


def test_what_the_law_does_not_vary_is_no_division_by_zero():
    family = lambda key: jnp.array([1.0, 5.0]) * jnp.where(jnp.arange(2) == 0, jr.uniform(key), 1)
    problem = pdecl.Problem(
        box, [pdecl.Fit(lambda u, z, phi: u() - phi[0], on=box.interior)], parameter=family
    )
    assert np.all(np.isfinite(make(pdecl.nn.Modulated, problem)(MESH[0], jnp.array([0.3, 5.0]))))


@each_that_reads_phi
def test_the_mean_and_deviation_of_the_law_are_not_trained(kind):
    net = make(kind, size=4)
    slopes = eqx.filter_grad(lambda net: jnp.sum(bases.specialise(net, PHI)(MESH[0], PHI) ** 2))(net)
    standards = [
        (at, slope)
        for at, slope in jax.tree_util.tree_flatten_with_path(slopes)[0]
        if ".standard." in jax.tree_util.keystr(at)
    ]
    assert len(standards) >= 2
    assert all(np.all(slope == 0) for _, slope in standards)


@each_that_reads_phi
def test_proposed_solutions_are_of_order_one(kind):
    basis = make(kind, size=60, width=64)
    weights = bases.predicted(basis, ("u",), PHI, {"u": 60})
    u = jax.jit(jax.vmap(lambda x: basis(x, PHI) @ weights))(MESH)
    assert 0.02 < np.sqrt(np.mean(u**2)) < 3


@each_that_reads_phi
def test_gradients_reach_the_parameters_through_a_solve(kind):
    check_gradient(make(kind, size=8), lambda basis: residual_loss(PROBLEM, basis, PHI))


def error(family, basis_of, count=2):
    problem = family.problem()
    phi = family.sample(2, count)
    solution = jax.vmap(lambda phi: pdecl.solve(problem, basis_of(problem), phi, residual_limit=None))(
        jnp.asarray(phi)
    )
    found = np.asarray(solution(problem.domain.mesh(101, 101))).reshape(count, 101, 101)
    exact = family.reference(phi).transpose(0, 2, 1)
    return np.linalg.norm(found - exact) / np.linalg.norm(exact)


def test_the_first_solve_of_burgers_is_good():
    make = lambda problem: pdecl.nn.MLP(
        problem, 80, 80, 2, features=pdecl.nn.Periodic(problem, "x"), key=jr.key(0)
    )
    assert error(named("burgers"), make) < 0.06


def test_the_first_solve_of_convection_is_good():
    make = lambda problem: pdecl.nn.Modulated(problem, 80, 80, 2, key=jr.key(0))
    assert error(named("convection"), make) < 0.1


class Foreign(eqx.Module):
    """Somebody else's network, conditioned on φ by its first input."""

    net: eqx.nn.MLP

    def __call__(self, x, phi):
        return self.net(jnp.append(x, phi["c"]))


def test_a_network_that_is_not_ours():
    foreign = Foreign(eqx.nn.MLP(3, 12, 16, 2, jnp.sin, key=jr.key(0)))
    assert pdecl.predict(PROBLEM, foreign, PHI).status is pdecl.Status.PREDICTED


def test_a_plain_function_of_parameters_point_and_phi():
    def network(parameters, x, phi):
        weight, bias = parameters
        return jnp.tanh(weight @ jnp.append(x, phi["c"]) + bias)

    parameters = (jr.normal(jr.key(0), (8, 3)), jr.normal(jr.key(1), (8,)))
    check_gradient(parameters, lambda p: residual_loss(PROBLEM, lambda x, phi: network(p, x, phi), PHI))
