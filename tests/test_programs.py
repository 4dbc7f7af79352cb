"""No program that the package compiles for a CPU can stand still.

XLA runs independent operations side by side on one pool of threads. LAPACK calls for a batch, and FFTs,
wait on a thread of it for what they have handed to the others (see `layer/batching.py`); as many of
them as there are threads wait for ever. So there must be none, in any program: in a run it takes luck to
see it.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import jax.test_util
import numpy as np
import optax
import pytest
from fast_solvers import cole_hopf, etdrk4
from programs import blocking, calls
from test_gradients import KINDS, PHI, N, answer, functions, network

import pdecl
from pdecl.family.bound import bound
from pdecl.family.experiment import solver_of
from pdecl.layer import lapack
from pdecl.layer.solvers import triangular

SOLVERS = [
    pdecl.solvers.QR(),
    pdecl.solvers.CG(),
    pdecl.solvers.GMRES(),
    pdecl.solvers.LSMR(),
]
BATCH = 3


def lowered(function, *arguments):
    """The program as it is handed to the compiler. XLA makes no batch of single calls, and no FFT."""
    return eqx.filter_jit(function).lower(*arguments).as_text()


def batched(tree, count=BATCH):
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *jnp.shape(x))), tree)


def derivatives(value):
    """The value, its gradient and a derivative along a direction, of a batch, in one program."""

    def of_one(inputs):
        return jax.value_and_grad(value)(inputs), jax.jvp(value, (inputs,), (inputs,))

    return jax.vmap(of_one)


def test_what_is_looked_for_is_seen():
    both = lambda a, b: (jnp.linalg.cholesky(a), jnp.fft.rfft(b))
    program = jax.jit(both).lower(*[jnp.zeros((1, 4, 4))] * 2)
    for text in (program.as_text(), program.compile().as_text()):
        assert len(blocking(text)) >= 2
    assert not blocking(jax.jit(jnp.linalg.cholesky).lower(jnp.eye(4)).as_text())


def test_no_program_of_the_package_is_compiled_that_blocks():
    """See `programs.watch`: all tests look at what they compile. Here a condition factorises a batch."""
    box = pdecl.Box(x=(0, 1))
    root = lambda x: jnp.linalg.cholesky((1 + x**2) * jnp.eye(2))[0, 0]
    problem = pdecl.Problem(box, [pdecl.Fit(lambda u, z, phi: u() - root(z.x), on=box.interior)])
    with pytest.raises(AssertionError, match=r"may stand still.*lapack_dpotrf"):
        pdecl.solve(problem, lambda x, phi: jnp.stack([x[0]]))


def test_proposed_weights_are_looked_at():
    """As `solve`, with no solve: what is measured of them is compiled."""
    problem = pdecl.Problem(pdecl.Box(x=(0, 1)), KINDS["nonlinear fit and equalities"])
    predicted = jax.vmap(lambda phi: pdecl.predict(problem, functions(network()), phi))(batched(PHI))
    assert np.isfinite(predicted.relative_residual["Fit 0"]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_solve_and_its_derivatives(kind):
    inputs = batched((network(), PHI))
    text = lowered(derivatives(answer(KINDS[kind])), inputs)
    assert calls(text)
    assert not blocking(text)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_every_linear_solver(solver):
    kind = "all kinds" if solver.direct else "equalities and fit"
    assert not blocking(lowered(derivatives(answer(KINDS[kind], solver)), batched((network(), PHI))))


def test_one_solve_beside_another_and_a_batch_of_batches():
    problem, basis = pdecl.Problem(pdecl.Box(x=(0, 1)), KINDS["nonlinear fit"]), functions(network())
    one = lambda phi: pdecl.solve(problem, basis, phi, throw=False).weights
    batch = jax.vmap(one)
    text = lowered(lambda phi: (batch(phi), batch(batched(PHI, 2))), batched(PHI))
    assert not blocking(text)
    assert not blocking(lowered(jax.vmap(jax.vmap(one)), batched(batched(PHI, 2))))
    program = jax.jit(batch).lower(batched(PHI, 1)).compile().as_text()  # a batch of one, as it is run
    assert calls(program)
    assert not blocking(program)


def matrices(n):
    root = np.random.default_rng(n).normal(size=(2, 3, n, n))
    return root @ np.swapaxes(root, -1, -2) + np.eye(n)


FACTORISATIONS = {
    "cholesky": lapack.cholesky,
    "divide": lambda a: lapack.divide(a, a),
    "divide what all share": lambda a: lapack.divide(a, np.eye(len(a))),
    "triangle": lapack.triangle,
    "eigh": lapack.eigh,
}


@pytest.mark.parametrize("name", FACTORISATIONS)
def test_a_batch_is_what_each_is(name):
    """Of two axes, in any order; the loop's last turn goes over some again."""
    single, a = FACTORISATIONS[name], matrices(5)
    for sizes in ((2, 3), (1, 1)):
        some = a[: sizes[0], : sizes[1]]
        program = jax.jit(jax.vmap(jax.vmap(single), in_axes=1, out_axes=1)).lower(some).compile()
        assert not blocking(program.as_text())
        for i, j in np.ndindex(sizes):
            wanted = single(jnp.asarray(some[i, j]))
            here = jax.tree.map(lambda x: x[i, j], program(some))  # noqa: B023
            jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-12), here, wanted)


def test_eigenvalues_and_vectors_have_derivatives():
    a = matrices(4)[0]
    fixed = jnp.arange(1.0, 5.0)

    def value(a):
        values, vectors = lapack.eigh((a + jnp.swapaxes(a, 1, 2)) / 2)
        return jnp.sum(jnp.sin(values) @ fixed) + jnp.sum((fixed @ vectors) ** 2 @ fixed)

    jax.test_util.check_grads(value, (a,), order=2, rtol=1e-4)


@pytest.mark.parametrize("size", [40, 130])
def test_factors_by_blocks(size):
    matrix = jnp.zeros((BATCH, size, size))
    assert not blocking(lowered(jax.vmap(triangular.factorise), matrix))
    assert not blocking(lowered(triangular.factorise, matrix[0]))


@pytest.fixture
def programs_of(tmp_path):
    """All programs that are compiled while something is done."""

    def texts(do):
        jax.config.update("jax_dump_ir_to", str(tmp_path))
        try:
            do()
        finally:
            jax.config.update("jax_dump_ir_to", "")
        return [path.read_text() for path in tmp_path.rglob("*.mlir")]

    return texts


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
def test_a_step_of_training(optimiser, programs_of):
    law = lambda key: jax.tree.map(lambda x: x + 0.1 * jr.uniform(key), PHI)
    problem = pdecl.Problem(pdecl.Box(x=(0, 1)), KINDS["equalities and fit"], law)
    basis = pdecl.nn.MLP(problem, size=N, width=8, depth=1, key=jr.key(0))
    steps = {"adam": optax.adam(1e-3), "muon": optax.contrib.muon(1e-3)}[optimiser]
    texts = programs_of(lambda: pdecl.fit(problem, basis, steps, steps=1, batch=BATCH, key=jr.key(1)))
    assert sum(map(calls, texts))
    assert not [line for text in texts for line in blocking(text)]


@pytest.mark.parametrize("problem", ["burgers", "convection", "convection-fast", "darcy"])
def test_a_shipped_basis_and_its_bound(problem):
    trained = pdecl.load(problem)
    phi = jnp.asarray(trained.family.sample(0, BATCH))
    if problem == "darcy":
        phi = phi[:, :29, :29]
    stated = trained.problem(phi.shape[-1] if problem == "darcy" else None)
    points = stated.draw(trained.experiment.network.size)

    def both(basis, phi):
        solver = solver_of(trained.experiment)
        solution = jax.vmap(
            lambda phi: pdecl.solve(stated, basis, phi, points=points, solver=solver, throw=False)
        )(phi)
        return solution.weights, bound(trained.family, solution, throw=False).bound

    text = lowered(both, trained.basis, phi)
    assert calls(text)
    assert not blocking(text)


def test_references_on_jax():
    waves = jnp.zeros((BATCH, 9), complex)
    for reference in (lambda c: etdrk4(c, 0.01, 32, 20), lambda c: cole_hopf(c, 0.01, 64)):
        assert not blocking(lowered(reference, waves))
