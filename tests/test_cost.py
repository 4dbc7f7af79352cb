"""Nothing is evaluated more often than it has to be: seen in the operations of the traced program."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import pdecl
from pdecl.basis.networks.wrappers import Shifted
from pdecl.layer.layer import weights_of
from pdecl.layer.system import System, build, linearise, make_plan

box = pdecl.Box(x=(0, 1), t=(0, 1))
N, WIDTH = 24, 64
conditions = [
    pdecl.Fit(lambda u, z, k: u.d("t") - k * u.d("x", "x"), on=box.interior.low_discrepancy(50)),
    pdecl.Fit(lambda u, z, k: u() - jnp.sin(jnp.pi * z.x), on=box.face(t=0).low_discrepancy(20)),
]
heat = pdecl.Problem(box, conditions, parameter=lambda key: jr.uniform(key))
basis = pdecl.nn.MLP(heat, size=N, width=WIDTH, depth=2, key=jr.key(0))
points = heat.draw(N)


def network_flops(function, *arguments):
    """Multiplications in the network's hidden layer: products whose inner dimension is its width."""
    return _count(jax.make_jaxpr(function)(*arguments).jaxpr, WIDTH)


def _count(jaxpr, inner_dimension):
    total = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            ((contract, _), _) = eqn.params["dimension_numbers"]
            if [eqn.invars[0].aval.shape[axis] for axis in contract] == [inner_dimension]:
                total += eqn.outvars[0].aval.size * inner_dimension
        total += sum(_count(inner, inner_dimension) for inner in jaxprs_in_params(eqn.params))
    return total


def solve(phi, basis=basis):
    return weights_of(build(heat, basis, phi, points), pdecl.solvers.GaussNewton()).weights


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
                    heat, pdecl.nn.MLP(heat, size=size, width=WIDTH, depth=2, key=jr.key(0)), phi, points
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
                    heat, pdecl.nn.MLP(heat, size=s, width=WIDTH, depth=2, key=jr.key(0)), phi, points
                ).jets
            ),
            0.1,
        )
        for size in (2, 3)
    ]
    return (counts[1] - counts[0]) // WIDTH


def test_only_what_is_asked_for_is_evaluated():
    """A condition on the value alone costs a fraction of one with second derivatives."""
    cost = lambda equation: network_flops(
        lambda phi: (
            build(pdecl.Problem(box, [pdecl.Fit(equation, on=points[0])]), basis, phi, (points[0],)).jets
        ),
        0.1,
    )
    value = cost(lambda u, z, k: u())
    second = cost(lambda u, z, k: u() + u.d("x", "x"))
    assert 2 * value < second <= 4 * value


def test_conditions_on_the_same_points_share_their_derivatives():
    pde = lambda u, z, k: u.d("t") - k * u.d("x", "x")
    flux = lambda u, z, k: u.d("t") + u.d("x")
    inside = box.interior.low_discrepancy(50)
    cost = lambda conditions: network_flops(
        lambda phi: (
            build(
                pdecl.Problem(box, conditions), basis, phi, pdecl.Problem(box, conditions).draw(N)
            ).jets
        ),
        0.1,
    )
    alone = cost([pdecl.Fit(pde, on=inside)])
    together = cost([pdecl.Fit(pde, on=inside), pdecl.Fit(flux, on=inside)])
    assert together == alone


def test_matrix_free_rows_are_never_held():
    """The products that iterative solvers take with 12,000 rows and 500 functions need less memory than
    one of the four arrays of derivatives that direct solvers hold."""
    problem = pdecl.Problem(box, conditions[:1])
    many = (box.interior.low_discrepancy(12_000).draw(None, 0),)
    large = pdecl.nn.MLP(heat, size=500, width=500, depth=1, key=jr.key(0))
    one_array = 12_000 * 500 * 8

    arrays, rest = eqx.partition((large, many), eqx.is_array)

    def memory(materialise):
        def products(arrays, weights):
            basis, points = eqx.combine(arrays, rest)
            rows = linearise(build(problem, basis, 0.1, points, materialise), weights).A
            return rows.T.mv(rows.mv(weights))

        compiled = jax.jit(products).lower(arrays, jnp.ones(500)).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    assert memory(materialise=True) > 3 * one_array
    assert memory(materialise=False) < 2 * one_array


@pytest.mark.parametrize("solver", [pdecl.solvers.CG(), pdecl.solvers.GMRES()], ids=["CG", "GMRES"])
def test_a_solve_without_a_factorisation_fits_where_rows_do_not(solver):
    """What a user takes them for: with equality rows beside the fit, the whole solve of 12,000 rows and
    500 functions needs less memory than the rows of any direct solver."""
    enforced = pdecl.Enforce(lambda u, z, phi: u(), box.face(x=0).low_discrepancy(20))
    problem = pdecl.Problem(box, [conditions[0], enforced])
    points = (box.interior.low_discrepancy(12_000).draw(None, 0), enforced.on.draw(None, 0))
    large = pdecl.nn.MLP(heat, size=500, width=500, depth=1, key=jr.key(0))
    arrays, rest = eqx.partition((large, points), eqx.is_array)

    def memory(solver):
        def answer(arrays):
            basis, points = eqx.combine(arrays, rest)
            options = {"points": points, "residual_limit": None, "throw": False}
            return pdecl.solve(problem, basis, 0.1, solver=solver, **options).weights

        return jax.jit(answer).lower(arrays).compile().memory_analysis().temp_size_in_bytes

    one_array = 12_000 * 500 * 8
    assert memory(pdecl.solvers.Cholesky()) > 3 * one_array
    assert memory(solver) < 2 * one_array


@pytest.mark.parametrize(
    "basis",
    [basis, Shifted(basis, lambda x, phi: jnp.cos(3 * x[0] + phi) * (1 + x[1]))],
    ids=["functions alone", "a fixed function too"],
)
def test_rows_at_zero_multiply_nothing_with_zeros(basis):
    """Around ω = 0 the rows are what they are without any function."""
    energy = pdecl.Energy(lambda u, z, k: u.d("x") ** 2 + jnp.cos(u()), on=box.interior.gauss(3))
    stated = [*conditions, pdecl.Enforce(lambda u, z, k: u() - 1, on=box.face(x=0).grid(4)), energy]
    problem = pdecl.Problem(box, stated)
    system = build(problem, basis, 0.1, problem.draw(N))
    for mine, other in zip(
        *(jax.tree.leaves(linearise(system, *around)) for around in ((), (jnp.zeros(N),))), strict=True
    ):
        np.testing.assert_array_equal(mine, other)
    without = build(heat, basis, 0.1, points)
    products = lambda *around: _count(jax.make_jaxpr(lambda: linearise(without, *around))().jaxpr, N)
    assert products(jnp.zeros(N)) > products() == 0


def test_columns_of_norm_one_are_no_copy_of_the_rows():
    """Beside rows that are given, a batch of solves and gradients needs less than one more copy."""
    batch, n, size = 8, 1600, 320
    where = pdecl.Points(jnp.zeros((n, 1)))
    given = lambda u, z, phi: u() - phi[z.index]
    problem = pdecl.Problem(pdecl.Box(x=(0, 1)), [pdecl.Fit(given, on=where, weight=float(n))])
    nothing = lambda x, phi: jnp.zeros(size)

    def loss(rows, target):
        plan = make_plan(problem, nothing, target, (where,))
        held = ({plan.entries[0][0]: rows},)
        system = System(problem, nothing, target, (where,), plan, held)
        return jnp.sum(weights_of(system, pdecl.solvers.GaussNewton()).weights ** 2)

    like = [jax.ShapeDtypeStruct((batch, *shape), float) for shape in ((n, size), (n,))]
    compiled = jax.jit(jax.vmap(jax.value_and_grad(loss))).lower(*like).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 0.7 * batch * n * size * 8


def test_many_solves_by_vmap_evaluate_the_network_once():
    """Through the public `solve`, residuals included, and for the values of all solutions together."""
    one = lambda phi: pdecl.solve(heat, basis, phi, throw=False)
    phis = jnp.linspace(0.1, 0.2, 32)
    many = lambda phis: jax.vmap(one)(phis).relative_residual
    assert network_flops(many, phis) == network_flops(lambda phi: one(phi).relative_residual, 0.1) > 0


def test_a_batch_of_solutions_shares_its_basis():
    solutions = jax.vmap(lambda phi: pdecl.solve(heat, basis, phi, throw=False))(jnp.array([0.1, 0.2]))
    assert solutions.basis is basis
    assert solutions.problem is heat
