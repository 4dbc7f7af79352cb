"""Nothing is evaluated more often than it has to be: seen in the operations of the traced program."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

import pdecl
from pdecl.layer import weights_of
from pdecl.system import build

box = pdecl.Box(x=(0, 1), t=(0, 1))
N, WIDTH = 24, 64
conditions = [
    pdecl.Fit(lambda u, z, k: u.d("t") - k * u.d("x", "x"), on=box.interior.low_discrepancy(50)),
    pdecl.Fit(lambda u, z, k: u() - jnp.sin(jnp.pi * z.x), on=box.face(t=0).low_discrepancy(20)),
]
heat = pdecl.Problem(box, conditions, parameter=lambda key: jr.uniform(key))
basis = pdecl.MLP(heat, size=N, width=WIDTH, depth=2, key=jr.key(0))
points = heat.draw(N)


def flops(function, *arguments):
    cost = jax.jit(function).lower(*arguments).compile().cost_analysis()
    return cost["flops"]


def network_flops(function, *arguments):
    """Multiplications in the network's hidden layer: products whose inner dimension is its width."""
    return _count(jax.make_jaxpr(function)(*arguments).jaxpr)


def _count(jaxpr):
    total = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            ((contract, _), _) = eqn.params["dimension_numbers"]
            shape = eqn.invars[0].aval.shape
            inner = [shape[axis] for axis in contract]
            if inner == [WIDTH] or [eqn.invars[1].aval.shape[a] for a in contract] == [WIDTH]:
                total += eqn.outvars[0].aval.size * WIDTH
        for inner_jaxpr in jax.core.jaxprs_in_params(eqn.params):
            total += _count(inner_jaxpr)
    return total


def solve(phi, basis=basis):
    return weights_of(build(heat, basis, phi, points), pdecl.GaussNewton()).weights


def test_a_batch_evaluates_the_network_once():
    one = network_flops(solve, 0.1)
    many = network_flops(jax.vmap(solve), jnp.linspace(0.1, 0.2, 32))
    assert many == one > 0


def test_a_batch_differentiates_the_network_once_by_its_parameters():
    loss = lambda basis, phis: jnp.sum(jax.vmap(lambda phi: solve(phi, basis))(phis) ** 2)
    cost = lambda phis: network_flops(lambda phis: eqx.filter_grad(loss)(basis, phis), phis)
    assert cost(jnp.linspace(0.1, 0.2, 32)) == cost(jnp.asarray([0.1]))


def test_a_basis_that_sees_phi_is_evaluated_for_each():
    """The other side of the coin: the count does notice a network that has to run for every φ."""
    seeing = lambda x, phi: basis(x + 0.1 * phi, phi)
    one = network_flops(lambda phi: solve(phi, seeing), 0.1)
    many = network_flops(jax.vmap(lambda phi: solve(phi, seeing)), jnp.linspace(0.1, 0.2, 32))
    assert many == 32 * one


def test_the_cost_of_derivatives_does_not_grow_with_the_number_of_functions():
    """The hidden layers run as often for 24 functions as for one: forward mode, all at once."""
    hidden = lambda size: (
        network_flops(
            lambda phi: (
                build(
                    heat, pdecl.MLP(heat, size=size, width=WIDTH, depth=2, key=jr.key(0)), phi, points
                ).jets
            ),
            0.1,
        )
        - size * _last_layer_rows() * WIDTH
    )
    assert hidden(24) == hidden(1)


def _last_layer_rows():
    """Points times what forward mode carries: f, f_t, and f_x, f_x (again, before it is shared), f_xx
    inside, f on the face. Measured on the program with one function less, so that it cannot go stale."""
    counts = [
        network_flops(
            lambda phi, s=size: (
                build(
                    heat, pdecl.MLP(heat, size=s, width=WIDTH, depth=2, key=jr.key(0)), phi, points
                ).jets
            ),
            0.1,
        )
        for size in (2, 3)
    ]
    return (counts[1] - counts[0]) // WIDTH


def test_only_what_is_asked_for_is_evaluated():
    """A condition on the value alone costs a fraction of one with second derivatives."""
    cost = lambda equation: flops(
        lambda phi: (
            build(pdecl.Problem(box, [pdecl.Fit(equation, on=points[0])]), basis, phi, (points[0],)).jets
        ),
        0.1,
    )
    value = cost(lambda u, z, k: u())
    second = cost(lambda u, z, k: u() + u.d("x", "x"))
    assert 2.2 * value < second < 6 * value


def test_conditions_on_the_same_points_share_their_derivatives():
    pde = lambda u, z, k: u.d("t") - k * u.d("x", "x")
    flux = lambda u, z, k: u.d("t") + u.d("x")
    inside = box.interior.low_discrepancy(50)
    cost = lambda conditions: flops(
        lambda phi: (
            build(
                pdecl.Problem(box, conditions), basis, phi, pdecl.Problem(box, conditions).draw(N)
            ).jets
        ),
        0.1,
    )
    alone = cost([pdecl.Fit(pde, on=inside)])
    together = cost([pdecl.Fit(pde, on=inside), pdecl.Fit(flux, on=inside)])
    assert together < 1.1 * alone


def test_matrix_free_solvers_hold_no_jets():
    """Memory of a solve whose rows would take 160 MB: 4000 points, 1000 functions, five derivatives."""
    many = tuple(heat.draw(1000, jr.key(0)))
    many = (box.interior.low_discrepancy(4000).draw(None, 0), many[1])
    large = pdecl.MLP(heat, size=1000, width=1000, depth=1, key=jr.key(0))

    def memory(solver):
        found = lambda phi: (
            weights_of(
                build(heat, large, phi, many, hold_jets=solver.direct), pdecl.GaussNewton(linear=solver)
            ).weights
        )
        analysis = jax.jit(found).lower(0.1).compile().memory_analysis()
        return analysis.temp_size_in_bytes

    assert memory(pdecl.Cholesky()) > 96e6
    assert memory(pdecl.CG()) < 0.6 * memory(pdecl.Cholesky())
