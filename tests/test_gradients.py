"""Every kind of solve, differentiated by every input, against central differences."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import pdecl
from pdecl.layer.implicit import attach
from pdecl.layer.layer import weights_of
from pdecl.layer.system import build

box = pdecl.Box(x=(0, 1))
N = 10


def network(key=3, steepness=2.5):
    """Random tanh functions, and as parameters what a network's first layer has."""
    a, b = jr.split(jr.key(key))
    return {"w": steepness * jr.normal(a, (N,)), "b": jr.normal(b, (N,))}


def functions(parameters):
    return lambda x, phi: jnp.tanh(parameters["w"] * x[0] + parameters["b"])


source = lambda z, phi: jnp.exp(phi["k"] * z.x)
reaction = lambda u, z, phi: phi["k"] * u.d("x", "x") + phi["s"] * u() + source(z, phi)
cubic = lambda u, z, phi: reaction(u, z, phi) + phi["s"] * u() ** 3
walls = lambda u, z, phi: u() - phi["k"] * z.x
fit = lambda equation, n, **more: pdecl.Fit(equation, on=box.interior.low_discrepancy(n), **more)
hold = lambda equation, n: pdecl.Enforce(equation, on=box.interior.low_discrepancy(n))
quadratic = lambda u, z, phi: 0.5 * phi["k"] * u.d("x") ** 2 + u() ** 2 - source(z, phi) * u()
quartic = lambda u, z, phi: quadratic(u, z, phi) + phi["s"] ** 2 * u() ** 4
energy = lambda density: pdecl.Energy(density, on=box.interior.gauss(20))
at_walls = pdecl.Fit(walls, on=box.faces(), weight=10.0)
fixed_walls = pdecl.Enforce(walls, on=box.faces())

AFFINE = {
    "tall fit": [fit(reaction, 25), at_walls],
    "wide fit": [fit(reaction, 6)],
    "wide equalities": [hold(reaction, 5), fixed_walls],
    "equalities and fit": [hold(reaction, 4), at_walls, fit(reaction, 25)],
    "more equalities than functions": [hold(reaction, 2 * N), at_walls],
    "more equalities than functions and no fit": [hold(reaction, 2 * N)],
    "energy": [energy(quadratic)],
    "energy and equalities": [energy(quadratic), fixed_walls],
    "all kinds": [energy(quadratic), fixed_walls, fit(reaction, 15)],
}
NONLINEAR = {
    "nonlinear fit": [fit(cubic, 25), at_walls],
    "nonlinear fit and equalities": [fit(cubic, 25), fixed_walls],
    "nonlinear equalities": [hold(cubic, 5), fixed_walls],
    "convex energy": [energy(quartic), at_walls],
}
KINDS = AFFINE | NONLINEAR
PHI = {"k": jnp.asarray(0.7), "s": jnp.asarray(0.9)}
WHERE = jnp.linspace(0, 1, 7)[:, None]


def answer(conditions, solver=None):
    """A number that depends on u at a few places, as a function of the network and of φ."""
    problem = pdecl.Problem(box, conditions)
    solver = pdecl.solvers.GaussNewton(solver or pdecl.solvers.Cholesky(ridge=1e-6))
    points = problem.draw(N)

    def value(inputs):
        parameters, phi = inputs
        basis = functions(parameters)
        materialise = solver.linear.direct
        outcome = weights_of(build(problem, basis, phi, points, materialise), solver)
        u = jax.vmap(lambda x: basis(x, phi))(WHERE) @ outcome.weights
        return jnp.sum(jnp.cos(1.0 + u) * jnp.arange(1, 8))

    return jax.jit(value)


def direction(tree, seed):
    leaves, structure = jax.tree.flatten(tree)
    keys = jr.split(jr.key(seed), len(leaves))
    return structure.unflatten([jr.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)])


def difference(f, x, v, h=3e-4):
    """Central differences of fourth order along v."""
    at = lambda t: f(jax.tree.map(lambda a, b: a + t * b, x, v))
    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)


def check(f, x, seed=1):
    """Forward mode, reverse mode and differences agree along a random direction of each input."""
    # One program for the derivative and for the values that its differences are made of.
    push = jax.jit(lambda x, v: jax.jvp(f, (x,), (v,)))
    gradient = jax.jit(jax.grad(f))(x)
    for number in range(len(x)):
        v = tuple(
            direction(part, seed) if i == number else jax.tree.map(jnp.zeros_like, part)
            for i, part in enumerate(x)
        )
        wanted = difference(lambda x, v=v: push(x, v)[0], x, v)
        np.testing.assert_allclose(push(x, v)[1], wanted, rtol=1e-5)
        np.testing.assert_allclose(dot(gradient, v), wanted, rtol=1e-5)


def dot(a, b):
    return sum(jnp.vdot(x, y) for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_by_the_network_and_by_the_parameter(kind):
    check(answer(KINDS[kind]), (network(), PHI))


@pytest.mark.parametrize("solver", [pdecl.solvers.QR(ridge=1e-6)])
def test_each_direct_solver(solver):
    check(answer(KINDS["all kinds"], solver), (network(), PHI))


@pytest.mark.parametrize(
    "solver",
    [pdecl.solvers.CG(ridge=1e-4), pdecl.solvers.GMRES(ridge=1e-4), pdecl.solvers.LSMR(ridge=1e-4)],
)
def test_each_iterative_solver(solver):
    check(answer(KINDS["tall fit"], solver), (network(), PHI))


@pytest.mark.parametrize("kind", ["tall fit", "wide fit", "all kinds", "nonlinear fit"])
def test_a_gradient_of_a_gradient(kind):
    f = answer(KINDS[kind])
    x = (network(), PHI)
    v = direction(x, 4)
    slope = jax.jit(lambda x: jax.jvp(f, (x,), (v,))[1])
    reverse_over_forward = dot(jax.jit(jax.grad(slope))(x), v)
    np.testing.assert_allclose(reverse_over_forward, difference(slope, x, v), rtol=1e-5)


def test_a_nearly_dependent_basis_with_the_default_ridge():
    """Functions so flat that the rows have a condition number of 1e9 and more: without a ridge the
    gradient would be off by orders of magnitude."""
    problem = pdecl.Problem(box, [fit(reaction, 25), at_walls])
    points, fresh = problem.draw(N), problem.draw(N, jr.key(1))

    def loss(inputs):
        basis = functions(inputs[0])
        outcome = weights_of(build(problem, basis, PHI, points), pdecl.solvers.GaussNewton())
        return jnp.log(build(problem, basis, PHI, fresh).objective(outcome.weights))

    flat = network(steepness=0.7)
    rows = jax.vmap(lambda x: functions(flat)(x, PHI))(jnp.linspace(0, 1, 50)[:, None])
    assert np.linalg.cond(rows) > 1e9
    check(jax.jit(loss), (flat,), seed=5)


def test_what_a_condition_closes_over_is_differentiated_too():
    """A user's own traced number inside a condition, not only φ."""

    def value(speed):
        equation = lambda u, z, phi: reaction(u, z, phi) + speed * u() ** 2
        return answer([fit(equation, 25), at_walls])((network(), PHI))

    value = jax.jit(value)
    wanted = difference(value, 0.3, 1.0)
    np.testing.assert_allclose(jax.grad(value)(0.3), wanted, rtol=1e-5)


def test_memory_of_the_gradient_does_not_grow_with_the_number_of_iterations():
    problem = pdecl.Problem(box, KINDS["nonlinear fit"])
    points = problem.draw(N)

    def value(parameters, max_steps):
        solver = pdecl.solvers.GaussNewton(max_steps=max_steps)
        return weights_of(build(problem, functions(parameters), PHI, points), solver).weights.sum()

    def memory(max_steps):
        compiled = jax.jit(jax.grad(lambda p: value(p, max_steps))).lower(network()).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    assert memory(500) == memory(50)


def test_a_derivative_that_could_not_be_computed_is_nan():
    """The root of diag(a) ω = b. Conjugate gradients without a preconditioner do not get there."""
    a, none = jnp.logspace(0, 14, 300), jnp.zeros(0)

    def slope(inverse):
        root = lambda b: attach((b / a, none), lambda z: (a * z[0] - b, z[1]), lambda: inverse)[0]
        return jax.jvp(root, (jnp.ones(300),), (jnp.ones(300),))[1]

    np.testing.assert_allclose(slope(lambda f, g: (f / a, g)), 1 / a, rtol=1e-12)
    assert np.all(np.isnan(slope(lambda f, g: (f, g))))
