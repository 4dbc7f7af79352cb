"""Every solver on every shape of system, against NumPy and SciPy."""

from functools import partial

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import pdecl
from pdecl.layer.gram import Gram
from pdecl.layer.implicit import symmetric_solve
from pdecl.layer.precision import precision_of
from pdecl.layer.solvers.equalities import kkt_inverse
from pdecl.layer.solvers.quadratic import minimise
from pdecl.layer.system import QuadraticModel

# A new solver is tested by adding a line: the solver, and the relative accuracy it promises for ω on
# rows of condition number 100.
SOLVERS = {
    "cholesky": (pdecl.solvers.Cholesky(), 1e-9),
    "qr": (pdecl.solvers.QR(), 1e-9),
    "cg": (pdecl.solvers.CG(), 1e-7),
    "gmres": (pdecl.solvers.GMRES(), 1e-7),
    "lsmr": (pdecl.solvers.LSMR(), 1e-7),
}
DIRECT = [name for name, (solver, _) in SOLVERS.items() if solver.direct]
every_solver = pytest.mark.parametrize("name", SOLVERS)
every_direct_solver = pytest.mark.parametrize("name", DIRECT)
SHAPES = {"tall": (40, 12), "square": (12, 12), "wide": (8, 20)}


def matrix(rows, columns, condition=100.0, rank=None, seed=0):
    """A random matrix of the given condition number and rank, with largest singular value one."""
    rng = np.random.default_rng(seed)
    k = min(rows, columns)
    left = np.linalg.qr(rng.normal(size=(rows, k)))[0]
    right = np.linalg.qr(rng.normal(size=(columns, k)))[0]
    values = np.geomspace(1, 1 / condition, k)
    values[rank if rank is not None else k :] = 0
    return (left * values) @ right.T


def model(A=None, b=None, C=None, d=None, K=None, slope=None):
    """½‖Aω − b‖² + ½ωᵀKω − slopeᵀω subject to Cω = d, as seen from ω = 0."""
    given = [M for M in (A, C, K) if M is not None]
    N = given[0].shape[1]
    operator = lambda M: None if M is None else lx.MatrixLinearOperator(jnp.asarray(M))
    vector = lambda v: jnp.zeros(0) if v is None else -jnp.asarray(v)
    E, D = (None, None) if K is None else (operator(np.eye(N)), jnp.asarray(K)[None])
    g = jnp.zeros(N) if slope is None else -jnp.asarray(slope)
    return QuadraticModel(operator(A), vector(b), E, D, g, operator(C), vector(d))


def solve(solver, ridge=1e-14, **parts):
    m = model(**parts)
    return np.asarray(_minimise(m, jnp.full(m.g.size, ridge), solver)[0])


@partial(jax.jit, static_argnums=2)
def _minimise(m, ridge, solver):
    return minimise(m, ridge, jnp.zeros_like(ridge), solver)


def relative(found, wanted):
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


@every_solver
@pytest.mark.parametrize("shape", SHAPES)
def test_least_squares_agrees_with_lstsq(name, shape):
    solver, accuracy = SOLVERS[name]
    A = matrix(*SHAPES[shape])
    b = np.random.default_rng(1).normal(size=A.shape[0])
    assert relative(solve(solver, A=A, b=b), np.linalg.lstsq(A, b)[0]) < accuracy


@every_solver
def test_equalities_with_fewer_rows_than_functions_have_the_shortest_solution(name):
    solver, accuracy = SOLVERS[name]
    C = matrix(8, 20)
    d = np.random.default_rng(1).normal(size=8)
    found = solve(solver, ridge=1e-10, C=C, d=d)
    assert relative(found, np.linalg.pinv(C) @ d) < accuracy
    assert np.abs(C @ found - d).max() < 1e-10


@every_solver
def test_equality_constrained_fit_agrees_with_the_kkt_matrix(name):
    solver, accuracy = SOLVERS[name]
    A, C = matrix(30, 12), matrix(5, 12, condition=5, seed=1)
    rng = np.random.default_rng(2)
    b, d = rng.normal(size=30), rng.normal(size=5)
    kkt = np.block([[A.T @ A, C.T], [C, np.zeros((5, 5))]])
    wanted = scipy.linalg.solve(kkt, np.concatenate([A.T @ b, d]))[:12]
    found = solve(solver, A=A, b=b, C=C, d=d)
    assert relative(found, wanted) < 100 * accuracy
    assert np.abs(C @ found - d).max() < 1e-8


@every_solver
def test_energy_agrees_with_the_stiffness_matrix(name):
    solver, accuracy = SOLVERS[name]
    root = matrix(12, 12, condition=10)
    K, slope = root.T @ root, np.random.default_rng(1).normal(size=12)
    assert relative(solve(solver, K=K, slope=slope), np.linalg.solve(K, slope)) < 10 * accuracy


@every_direct_solver
@pytest.mark.parametrize("size", [1e-14, 1e-2])
def test_more_equalities_than_functions_violation_first_then_fit(name, size):
    solver, _ = SOLVERS[name]
    # Rank 6 of 10: the equalities, which contradict each other, leave four directions to the fit.
    C, A = matrix(20, 10, condition=5, rank=6), matrix(15, 10, condition=5, seed=1)
    rng = np.random.default_rng(2)
    d, b = rng.normal(size=20), rng.normal(size=15)
    particular = np.linalg.pinv(C) @ d
    null = scipy.linalg.null_space(C)
    hessian = A.T @ A + size * np.eye(10)
    left = null.T @ (A.T @ b - hessian @ particular)
    wanted = particular + null @ np.linalg.solve(null.T @ hessian @ null, left)
    assert relative(solve(solver, ridge=size, A=A, b=b, C=C, d=d), wanted) < 1e-6


# Rows of the fit, equalities, whether there is an energy, and the size of the ridge.
KKT = {
    "tall fit": (30, 0, False, 0.1),
    "wide fit": (7, 0, False, 0.1),
    "equalities": (0, 7, False, 1e-6),
    "fit and equalities": (30, 4, False, 0.1),
    "energy": (0, 0, True, 0.1),
    "all kinds": (30, 4, True, 0.1),
}


@pytest.mark.parametrize(("name", "kind"), [*(("cholesky", k) for k in KKT), ("lsmr", "all kinds")])
def test_steps_and_multipliers_with_a_ridge_are_those_of_the_kkt_matrix(name, kind):
    """Each ω_j has a ridge of its own, and where a step starts makes no difference to where it ends."""
    (n, m, energy, size), N, rng = KKT[kind], 12, np.random.default_rng(3)
    A, C, root = (
        matrix(max(n, 1), N, 4)[:n],
        matrix(max(m, 1), N, 4, seed=1)[:m],
        matrix(N, N, 4, seed=2),
    )
    K, slope = energy * root.T @ root, energy * rng.normal(size=N)
    b, d, ridge = rng.normal(size=n), rng.normal(size=m), size * np.linspace(1, 2, N)
    kkt = np.block([[A.T @ A + K + np.diag(ridge), C.T], [C, np.zeros((m, m))]])
    wanted = np.linalg.solve(kkt, np.concatenate([A.T @ b + slope, d]))
    for start in (np.zeros(N), rng.normal(size=N)):
        parts = {"A": A, "b": b - A @ start} if n else {}
        parts |= {"C": C, "d": d - C @ start} if m else {}
        parts |= {"K": K, "slope": slope - K @ start} if energy else {}
        p, y, _ = minimise(model(**parts), jnp.asarray(ridge), jnp.asarray(start), SOLVERS[name][0])
        assert relative(start + p, wanted[:N]) < 1e-6
        assert m == 0 or relative(y, wanted[N:]) < 1e-6


@every_direct_solver
@pytest.mark.parametrize("rank", [10, 6])
def test_multipliers_of_more_equalities_than_functions_balance_the_rest(name, rank):
    """With a fit beside: Cᵀy = −∇. As a fit of their own they are what is left of the rows."""
    solver, _ = SOLVERS[name]
    C, A = matrix(20, 10, condition=5, rank=rank), matrix(15, 10, condition=5, seed=1)
    rng, ridge, start = np.random.default_rng(2), np.linspace(1e-2, 2e-2, 10), np.linspace(-1, 1, 10)
    d, b = rng.normal(size=20), rng.normal(size=15)
    parts = model(A=A, b=b - A @ start, C=C, d=d - C @ start)
    p, y, _ = minimise(parts, jnp.asarray(ridge), jnp.asarray(start), solver)
    x = start + np.asarray(p)
    slope = A.T @ (A @ x - b) + ridge * x
    assert relative(C.T @ y, -slope) < 1e-5
    assert np.linalg.norm(C.T @ (C @ x - d)) < 1e-6 * np.linalg.norm(C.T @ d)
    if rank < 10:  # the least violation, in units of the weight of the rest
        soft = precision_of(jnp.float64).regularisation
        weight = soft / (1 + soft)
        assert relative(weight * y, C @ x - d) < 1e-6
    alone = model(C=C, d=d)
    x, y, _ = minimise(alone, jnp.full(10, 1e-12), jnp.zeros(10), solver)
    assert relative(y, C @ x - d) < 1e-9


@pytest.mark.parametrize("name", ["cholesky", "qr", "cg"])
def test_the_inverse_of_a_kkt_matrix_with_its_softness(name):
    """H x + Cᵀ y = f and C x − s (y − C x + g) = g. Without a Schur complement two rounds must do."""
    solver = SOLVERS[name][0]
    A, C, rng = matrix(30, 8, condition=5), matrix(3, 8, condition=5, seed=1), np.random.default_rng(2)
    f, g, ridge, s = rng.normal(size=8), rng.normal(size=3), np.linspace(0.1, 0.2, 8), 1e-8
    operator = lambda M: lx.MatrixLinearOperator(jnp.asarray(M))
    hessian = Gram(((operator(A), None),), jnp.asarray(ridge))
    x, y, effort = kkt_inverse(solver, hessian, operator(C))(jnp.asarray(f), jnp.asarray(g))
    H = A.T @ A + np.diag(ridge)
    dense = np.block([[H, C.T], [(1 + s) * C, -s * np.eye(3)]])
    wanted = np.linalg.solve(dense, np.concatenate([f, (1 + s) * g]))
    for found, expected in ((x, wanted[:8]), (y, wanted[8:])):
        assert relative(found, expected) < (1e-7 if solver.direct else 1e-4)
    assert effort.converged
    assert (effort.steps > 0) == (not solver.direct)


ASKED = {
    "tall fit": {"A": (30, 8)},
    "wide fit": {"A": (5, 8)},
    "equalities": {"C": (5, 8)},
    "both": {"A": (30, 8), "C": (3, 8)},
}


@pytest.mark.parametrize("kind", ASKED)
def test_an_iterative_solve_counts_its_steps_and_says_when_it_gives_up(kind):
    parts = {part: matrix(*shape, condition=50) for part, shape in ASKED[kind].items()}
    rng = np.random.default_rng(0)
    parts |= {
        name: rng.normal(size=len(parts[part]))
        for part, name in (("A", "b"), ("C", "d"))
        if part in parts
    }
    asked, ridge, start = model(**parts), jnp.full(8, 1e-3), jnp.zeros(8)
    efforts = [minimise(asked, ridge, start, pdecl.solvers.CG(max_steps=most))[2] for most in (2, 1000)]
    assert [bool(effort.converged) for effort in efforts] == [False, True]
    assert 0 < efforts[0].steps < efforts[1].steps


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_conjugate_gradients_for_a_kkt_matrix_whatever_the_size(size):
    """The exact matrix, preconditioned by one whose H is off; equality rows are the same in both."""
    rng, C = np.random.default_rng(0), jnp.asarray(matrix(2, 6, condition=3))
    H, near = (jnp.asarray(M @ M.T + np.eye(6)) for M in rng.normal(size=(2, 6, 6)))
    dense = lambda H: jnp.block([[H, C.T], [C, jnp.zeros((2, 2))]])
    inverse = jnp.linalg.inv(dense(near))
    pair = lambda M: lambda f, g: jnp.split(M @ jnp.concatenate([f, g]), [6])
    f, g = size * rng.normal(size=6), size * rng.normal(size=2)
    found = symmetric_solve(pair(dense(H)), (jnp.asarray(f), jnp.asarray(g)), pair(inverse), 1e-10, 100)
    wanted = np.linalg.solve(dense(H), np.concatenate([f, g]))
    assert relative(np.concatenate(found), wanted) < 1e-8


def test_conjugate_gradients_go_on_to_the_last_digits():
    """Many steps, in turns with measuring what is left; and from nothing, and from what is no number."""
    H = matrix(40, 40, condition=1e3)
    H = jnp.asarray(H @ H.T)
    calls = []

    def product(x, nothing):
        calls.append(1)
        return H @ x, nothing

    none = jnp.zeros(0)
    solve = lambda f: symmetric_solve(product, (f, none), lambda x, none: (x, none), 1e-12, 1000)[0]
    f = jnp.asarray(np.random.default_rng(0).normal(size=40))
    assert relative(H @ solve(f), f) < 1e-9
    assert not solve(0 * f).any()
    assert np.isnan(solve(f * jnp.nan)).any()
    calls.clear()
    jax.make_jaxpr(solve)(f)
    assert len(calls) == 1  # it is most of the program


@every_direct_solver
def test_rank_deficient_rows_give_the_shortest_fit(name):
    solver, _ = SOLVERS[name]
    A = matrix(40, 12, condition=5, rank=7)
    b = np.random.default_rng(1).normal(size=40)
    found = solve(solver, ridge=1e-9, A=A, b=b)
    assert relative(found, np.linalg.pinv(A, rcond=1e-10) @ b) < 1e-6


@every_direct_solver
def test_badly_scaled_columns_do_not_matter_to_the_layer(name):
    """Functions of sizes from 1e-5 to 1e5 give the same u: columns are scaled before the solve."""
    solver, _ = SOLVERS[name]
    box = pdecl.Box(x=(0, 1))
    sizes = jnp.logspace(-5, 5, 8)
    problem = pdecl.Problem(box, [pdecl.Fit(lambda u, z, phi: u() - jnp.exp(z.x), on=box.interior)])
    chebyshev = lambda x, phi: jnp.cos(jnp.arange(8) * jnp.arccos(0.98 * (2 * x[0] - 1)))
    points = box.mesh(30)
    plain = pdecl.solve(problem, chebyshev, solver=solver)(points)
    scaled = pdecl.solve(problem, lambda x, phi: sizes * chebyshev(x, phi), solver=solver)(points)
    assert np.abs(plain - scaled).max() < 1e-9
    assert np.abs(plain - np.exp(points[:, 0])).max() < 1e-6


def test_refinement_wins_back_what_the_gram_matrix_loses():
    """With condition number 1e5, squared 1e10, plain normal equations are off by 1e-6 or more."""
    A = matrix(60, 20, condition=1e5)
    exact = np.random.default_rng(1).normal(size=20)
    plain = np.linalg.solve(A.T @ A, A.T @ (A @ exact))
    refined = solve(pdecl.solvers.Cholesky(), ridge=1e-20, A=A, b=A @ exact)
    assert relative(refined, exact) < 1e-9
    assert relative(refined, exact) < 0.01 * relative(plain, exact)


@every_solver
def test_vmap_equals_a_loop(name):
    solver, accuracy = SOLVERS[name]
    n, N = SHAPES["tall"]  # for which the single solve is compiled already
    A = jnp.stack([jnp.asarray(matrix(n, N, seed=seed)) for seed in range(3)])
    b = jnp.asarray(np.random.default_rng(1).normal(size=(3, n)))
    one = lambda A, b: minimise(model(A=A, b=b), jnp.full(N, 1e-14), jnp.zeros(N), solver)[0]
    together = jax.jit(jax.vmap(one))(A, b)
    alone = np.stack([solve(solver, A=A[i], b=b[i]) for i in range(3)])
    assert relative(together, alone) < accuracy


@pytest.mark.parametrize("nested", [False, True], ids=["a batch", "a batch of batches"])
def test_many_functions_in_a_batch(nested):
    """From some size on a CPU takes the batch one by one, and leaves out half of the Gram product."""
    n, N, count = 350, 310, 4
    A = jnp.stack([jnp.asarray(matrix(n, N, seed=seed)) for seed in range(count)])
    b = jnp.asarray(np.random.default_rng(1).normal(size=(count, n)))
    ridge, nothing = jnp.full(N, 1e-14), jnp.zeros(N)
    one = lambda A, b: minimise(model(A=A, b=b), ridge, nothing, pdecl.solvers.Cholesky())[0]
    value = lambda A, b: jnp.sum(jnp.sin(one(A, b)))
    solved, pulled = (jax.vmap(each) for each in (one, jax.grad(value)))
    if nested:
        A, b = A.reshape(2, 2, n, N), b.reshape(2, 2, n)
        solved, pulled = jax.vmap(solved), jax.vmap(pulled)
    found = np.asarray(jax.jit(solved)(A, b)).reshape(count, N)
    slopes = np.asarray(jax.jit(pulled)(A, b)).reshape(count, n, N)
    A, b = np.asarray(A).reshape(count, n, N), np.asarray(b).reshape(count, n)
    for rows, target, w, slope in zip(A, b, found, slopes, strict=True):
        wanted = np.linalg.lstsq(rows, target)[0]
        assert relative(w, wanted) < 1e-9
        # The derivative of the normal equations, by hand.
        y = np.linalg.solve(rows.T @ rows, np.cos(wanted))
        by_hand = np.outer(target - rows @ wanted, y) - np.outer(rows @ y, wanted)
        assert relative(slope, by_hand) < 1e-7


@every_solver
def test_a_gram_operator_is_inverted(name):
    solver, accuracy = SOLVERS[name]
    R = matrix(30, 10, condition=10)
    gram = Gram(((lx.MatrixLinearOperator(jnp.asarray(R)), None),), jnp.full(10, 1e-3))
    f = jnp.asarray(np.random.default_rng(1).normal(size=10))
    x, effort = jax.jit(lambda f: solver.apply(solver.prepare(gram), gram, f))(f)
    assert relative(x, np.linalg.solve(R.T @ R + 1e-3 * np.eye(10), f)) < accuracy
    assert bool(effort.converged)


@pytest.mark.parametrize("solver", [pdecl.solvers.CG(max_steps=2), pdecl.solvers.LSMR(max_steps=2)])
def test_an_iterative_solver_that_gives_up_says_so(solver):
    gram = Gram(((lx.MatrixLinearOperator(jnp.asarray(matrix(30, 10))), None),), jnp.full(10, 1e-8))
    _, effort = solver.apply(None, gram, jnp.ones(10))
    assert not bool(effort.converged)


@pytest.mark.parametrize(
    "kind",
    [
        pdecl.solvers.Cholesky,
        pdecl.solvers.QR,
        pdecl.solvers.CG,
        pdecl.solvers.GMRES,
        pdecl.solvers.LSMR,
    ],
)
@pytest.mark.parametrize("ridge", [0.0, -1e-3, 2.0])
def test_a_ridge_that_makes_no_sense_is_refused(kind, ridge):
    with pytest.raises(ValueError, match="ridge"):
        kind(ridge=ridge)


# Each new shape is a compilation, so there are few of them and many values.
shapes = st.sampled_from([(1, 1), (7, 3), (3, 7), (5, 5)])
triples = st.sampled_from([(1, 1, 6), (3, 2, 8), (6, 12, 6)])
seeds = st.integers(0, 10**6)


@settings(max_examples=60, deadline=None)
@given(shape=shapes, seed=seeds, exponent=st.integers(-6, 6))
def test_the_fit_is_stationary_for_any_shape_and_scale(shape, seed, exponent):
    """∇F = Aᵀ(Aω − b) + ridge·ω vanishes, whatever the shape and the size of the data."""
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=shape), 10.0**exponent * rng.normal(size=shape[0])
    x = solve(pdecl.solvers.Cholesky(), ridge=1e-6, A=A, b=b)
    assert np.linalg.norm(A.T @ (A @ x - b) + 1e-6 * x) <= 1e-10 * np.linalg.norm(A.T @ b)


@settings(max_examples=60, deadline=None)
@given(triple=triples, seed=seeds)
def test_equalities_hold_and_multipliers_balance_the_fit(triple, seed):
    m, n, N = triple
    rng = np.random.default_rng(seed)
    A, b, C, d = (rng.normal(size=s) for s in [(n, N), (n,), (m, N), (m,)])
    parts = model(A=A, b=b, C=C, d=d)
    x, y = map(np.asarray, _minimise(parts, jnp.full(N, 1e-6), pdecl.solvers.Cholesky())[:2])
    scale = np.linalg.norm(A.T @ b) + np.linalg.norm(C.T @ y)
    assert np.abs(C @ x - d).max() <= 1e-8 * scale * np.linalg.cond(C) ** 2
    assert (
        np.linalg.norm(A.T @ (A @ x - b) + 1e-6 * x + C.T @ y) <= 1e-8 * scale * np.linalg.cond(C) ** 2
    )
