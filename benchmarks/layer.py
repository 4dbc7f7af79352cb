"""The PDE-constrained layer beside the alternatives: forward plus gradient of one batch.

    python benchmarks/layer.py                    all sizes: a few minutes on a GPU, more on two cores
    python benchmarks/layer.py --only burgers     one problem
    python benchmarks/layer.py --quick            tiny sizes and few rivals, to see that it runs

Everything is float64 and warm; times are medians. The gradient is that of a scalar of ω (what it
predicts on a few fresh rows) by all inputs of the solve: the rows and their right-hand sides, or the
network's parameters and φ. What a rival computes is compared with ours beside its time: `values` is the
relative difference of what is fitted, `gradient` that of the gradient by what each φ has of its own. In
our own row they are the relative size of the optimality condition, and the error of the gradient along
a random direction against central differences. `~` marks a rival that was given only a part of the
batch, its time scaled up.

`share` is the part of a forward solve that its Gram products and factorisations take when run alone, and
`of matmul` the rate at which those are done in the whole forward solve beside that of one large matrix
product. Memory is what the compiler plans for temporaries and outputs; on a CPU, LAPACK's workspace is
not in it. There, OPENBLAS_NUM_THREADS=1 steadies LAPACK's times on a machine that others use too, and
GLIBC_TUNABLES=glibc.malloc.hugetlb=1, as `make bench` has it, takes large pages for everybody's memory.
"""

import argparse
import operator
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import lineax as lx
import optimistix as optx
from jaxtyping import Array, Float
from rich.console import Console
from rich.table import Table
from timing import Timing, device_peak_megabytes, machine, matmul_rate, measure, save

import pdecl
from pdecl.layer.layer import weights_of
from pdecl.layer.solvers.quadratic import minimise
from pdecl.layer.system import QuadraticModel, System, build, linearise, make_plan

try:
    import jaxopt
except ImportError:
    jaxopt = None

RIDGE = 1e-12  # the layer's default in float64, for rivals that need one too
RTOL = 1e-8  # the layer's default for nonlinear rows
MAX_STEPS = 50  # likewise
QUICK_WITHOUT = ["JAXopt", "SVD", "optimistix LM", "lstsq of the same"]  # slow to compile
PROBES = 16  # fresh rows that the scalar is made of

Solve = Callable[[Any, Any], Float[Array, " N"]]  # (shared by the batch, one of the batch) -> ω
Rows = Callable[[Any, Any], System]  # (basis, φ) -> nonlinear rows


@dataclass(frozen=True)
class Contestant:
    name: str
    solve: Solve
    batch: int | None = None  # given only so many of the batch, where all would take too long


@dataclass(frozen=True)
class Kernel:
    """A part of a forward solve to be timed alone; `flops` for one of the batch."""

    name: str
    run: Callable[[Array], Array]  # for one of the batch
    operand: Array  # of the whole batch
    flops: float


@dataclass(frozen=True)
class Case:
    """One size. The first contestant is ours, and what the others are measured by."""

    name: str
    size: str
    batch: int
    shared: Any
    many: Any  # every array has the batch as its first axis
    contestants: list[Contestant]
    kernels: list[Kernel]
    fitted: Callable[[Any, Any, Array], Array]  # what ω predicts where it was fitted
    scalar: Callable[[Any, Any, Array], Array]  # what is differentiated
    optimality: Callable[[Any, Any, Array], Array]  # zero at the solution, relative
    counted: Callable[[Any, Any], tuple[Array, Array]] | None = (
        None  # ours: ω and how many steps it took
    )


@dataclass
class Row:
    case: str
    size: str
    batch: int
    method: str
    ours: bool
    timing: Timing
    milliseconds: float  # for the whole batch
    ratio: float  # to ours
    values: float
    gradient: float
    sampled: bool
    details: dict[str, Any] = field(default_factory=dict)


def main() -> None:
    options = _options()
    jax.config.update("jax_enable_x64", True)
    console, start = Console(width=None if sys.stdout.isatty() else 150), time.perf_counter()
    facts = machine()
    large = 512 if options.quick else 4096 if facts["platform"] == "gpu" else 2048
    rate = matmul_rate(large)
    console.print(f"{facts['device']}: matrix product {rate / 1e9:.0f} GFLOP/s in float64")
    rows: list[Row] = []
    for name in options.only:
        for case in CASES[name](options.quick, facts["platform"]):
            rows += _compare(case, rate, options, console)
    console.print(_table(rows))
    seconds = time.perf_counter() - start
    out = options.out or Path(__file__).parent / "results" / f"layer-{facts['platform']}.json"
    if options.out or not options.quick:
        peak = device_peak_megabytes()
        save(out, {**facts, "matmul_gflops": rate / 1e9, "device_peak_megabytes": peak,
                   "seconds": seconds, "quick": options.quick, "rows": rows})  # fmt: skip
    console.print(f"{seconds:.0f} s in all")


# Convection: linear rows, given as matrices


def convection(quick: bool, platform: str) -> Iterator[Case]:
    batch, size = (3, 24) if quick else (32, 600)
    few = 2 if quick else 4
    count = lambda share: round(share * size)
    rows = _rows(jr.key(0), batch, count(5 / 3), size)
    yield Case(
        "convection, least squares",
        f"{count(5 / 3)}×{size}",
        batch,
        jnp.zeros(()),
        {"A": rows, "b": _targets(jr.key(1), rows)},
        [
            Contestant("pdecl", layer_of_rows),
            Contestant("pdecl, the linear solve alone", solve_of_rows),
            Contestant("lineax QR", qr_of_rows),
            Contestant("jnp.linalg.lstsq", lstsq_of_rows, few),
        ],
        _normal_kernels(rows),
        _product("A"),
        _probe(size),
        _normal_equations("A", "b"),
    )
    equal = _rows(jr.key(2), batch, count(5 / 6), size)
    free = _rows(jr.key(3), batch, count(5 / 12), size)
    yield Case(
        "convection, QP",
        f"{count(5 / 6)}+{count(5 / 12)} rows, N={size}",
        batch,
        jnp.zeros(()),
        {"A": free, "b": _targets(jr.key(4), free), "C": equal, "c": _targets(jr.key(5), equal)},
        [
            Contestant("pdecl", layer_of_rows),
            Contestant("lineax LU of the KKT matrix", lu_of_kkt),
            *([Contestant("JAXopt EqualityConstrainedQP", jaxopt_qp, 1)] if jaxopt else []),
        ],
        _constrained_kernels(free, equal),
        _product("A"),
        _probe(size),
        _violation,
    )
    beyond = _rows(jr.key(6), batch, count(5 / 4), size)
    yield Case(
        "convection, QP, rows > functions",
        f"{count(5 / 4)}+{count(5 / 12)} rows, N={size}",
        batch,
        jnp.zeros(()),
        {"A": free, "b": _targets(jr.key(4), free), "C": beyond, "c": _targets(jr.key(7), beyond)},
        [
            Contestant("pdecl", layer_of_rows),
            Contestant("lineax QR of the Enforce rows", partial(qr_of_rows, A="C", b="c")),
            Contestant("jnp.linalg.lstsq of the same", partial(lstsq_of_rows, A="C", b="c"), few),
        ],
        _normal_kernels(beyond),
        _product("C"),
        _probe(size),
        _normal_equations("C", "c"),
    )


# Darcy: more functions than rows


def darcy(quick: bool, platform: str) -> Iterator[Case]:
    count, size = (37, 40) if quick else (3721, 4000)
    batch = 4 if platform == "gpu" else 1
    rows = _rows(jr.key(8), batch, count, size)
    many = {"C": rows, "c": _targets(jr.key(9), rows)}
    as_fit = lambda shared, one: layer_of_rows(shared, {"A": one["C"], "b": one["c"]})
    yield Case(
        "Darcy, least norm",
        f"{count}×{size}",
        batch,
        jnp.zeros(()),
        many,
        [
            Contestant("pdecl", layer_of_rows),
            Contestant("pdecl, rows as Fit", as_fit),
            Contestant("lineax QR", partial(qr_of_rows, A="C", b="c")),
            Contestant("jnp.linalg.lstsq", partial(lstsq_of_rows, A="C", b="c"), 1),
        ],
        [_lu(rows)] if platform == "cpu" and not quick else _normal_kernels(jnp.swapaxes(rows, 1, 2)),
        lambda shared, one, w: w,
        _probe(size),
        _violation,
    )


def layer_of_rows(_: Any, one: dict[str, Array]) -> Float[Array, " N"]:
    """The whole layer on rows that are given: C ω = c to be enforced, A ω = b to be fitted."""
    conditions, jets, sets = [], [], []
    for kind, matrix, target in ((pdecl.Enforce, "C", "c"), (pdecl.Fit, "A", "b")):
        if matrix in one:
            points = pdecl.Points(jnp.zeros((len(one[matrix]), 1)))
            misfit = lambda u, z, phi, target=target: u() - phi[target][z.index]
            conditions.append(kind(misfit, on=points, weight=float(len(points))))
            jets.append(one[matrix])
            sets.append(points)
    problem = pdecl.Problem(pdecl.Box(x=(0, 1)), conditions)
    nothing = lambda x, phi: jnp.zeros(jets[0].shape[1])
    plan = make_plan(problem, nothing, one, tuple(sets))
    held = tuple({entries[0]: jet} for entries, jet in zip(plan.entries, jets, strict=True))
    system = System(problem, nothing, one, tuple(sets), plan, held)
    return weights_of(system, pdecl.solvers.GaussNewton()).weights


def solve_of_rows(_: Any, one: dict[str, Array]) -> Float[Array, " N"]:
    """The layer's linear solve, with its column scaling and ridge, and nothing around it."""
    norms = jnp.linalg.norm(one["A"], axis=0)
    nothing, none = jnp.zeros_like(norms), jnp.zeros(0)
    rows = lx.MatrixLinearOperator(one["A"] / norms)
    model = QuadraticModel(rows, -one["b"], None, None, nothing, None, none)
    return minimise(model, jnp.full_like(norms, RIDGE), nothing, pdecl.solvers.Cholesky())[0] / norms


def qr_of_rows(_: Any, one: dict[str, Array], A: str = "A", b: str = "b") -> Float[Array, " N"]:
    return lx.linear_solve(lx.MatrixLinearOperator(one[A]), one[b], lx.QR()).value


def lstsq_of_rows(_: Any, one: dict[str, Array], A: str = "A", b: str = "b") -> Float[Array, " N"]:
    return jnp.linalg.lstsq(one[A], one[b])[0]


def lu_of_kkt(_: Any, one: dict[str, Array]) -> Float[Array, " N"]:
    A, C = one["A"], one["C"]
    matrix = jnp.block([[A.T @ A, C.T], [C, jnp.zeros((len(C), len(C)))]])
    target = jnp.concatenate([A.T @ one["b"], one["c"]])
    return lx.linear_solve(lx.MatrixLinearOperator(matrix), target, lx.LU()).value[: A.shape[1]]


def jaxopt_qp(_: Any, one: dict[str, Array]) -> Float[Array, " N"]:
    A = one["A"]
    qp = jaxopt.EqualityConstrainedQP(tol=RTOL)
    found = qp.run(params_obj=(A.T @ A, -A.T @ one["b"]), params_eq=(one["C"], one["c"]))
    return found.params.primal


def _rows(key: Array, batch: int, count: int, size: int) -> Float[Array, "batch count size"]:
    """Random rows whose singular values fall over two or three decades, as those of a basis do."""
    inner = 5 * max(count, size) // 4

    def one(key: Array) -> Array:
        left, right = jr.split(key)
        return jr.normal(left, (count, inner)) @ jr.normal(right, (inner, size)) / inner

    return jax.jit(partial(jax.lax.map, one))(jr.split(key, batch))


def _targets(key: Array, rows: Float[Array, "batch count size"]) -> Float[Array, "batch count"]:
    """Right-hand sides that the rows can meet, but for a tenth."""
    batch, _, size = rows.shape
    met, rest = jr.split(key)
    values = jnp.einsum("bns,bs->bn", rows, jr.normal(met, (batch, size)))
    return values + 0.1 * jnp.std(values) * jr.normal(rest, values.shape)


def _product(matrix: str) -> Callable[[Any, Any, Array], Array]:
    return lambda shared, one, w: one[matrix] @ w


def _probe(size: int) -> Callable[[Any, Any, Array], Array]:
    rows = jr.normal(jr.key(10), (PROBES, size)) / size**0.5
    return lambda shared, one, w: 0.5 * jnp.sum((rows @ w) ** 2)


def _normal_equations(A: str, b: str) -> Callable[[Any, Any, Array], Array]:
    def relative(shared: Any, one: Any, w: Array) -> Array:
        slope = one[A].T @ (one[A] @ w - one[b])
        return jnp.linalg.norm(slope) / jnp.linalg.norm(one[A].T @ one[b])

    return relative


def _violation(shared: Any, one: Any, w: Array) -> Array:
    return jnp.linalg.norm(one["C"] @ w - one["c"]) / jnp.linalg.norm(one["c"])


# Burgers: nonlinear rows of a network that the batch shares


class Periodic(eqx.Module):
    """Random functions of (x, t), periodic in x: what a network is before its training."""

    layers: list[tuple[Array, Array]]

    def __init__(self, size: int, width: int, key: Array):
        widths = [5, width, width, size]
        self.layers = [
            (1.5 * jr.normal(key, (n, m)) / m**0.5, 0.5 * jr.normal(jr.fold_in(key, 1), (n,)))
            for key, m, n in zip(jr.split(key, 3), widths[:-1], widths[1:], strict=True)
        ]

    def __call__(self, z: Array, phi: Any) -> Array:
        angle = 2 * jnp.pi * z[0] * jnp.arange(1, 3)
        hidden = jnp.concatenate([jnp.sin(angle), jnp.cos(angle), z[1:]])
        for weights, bias in self.layers[:-1]:
            hidden = jnp.tanh(weights @ hidden + bias)
        weights, bias = self.layers[-1]
        return weights @ hidden + bias


def burgers(quick: bool, platform: str) -> Iterator[Case]:
    for size, inside, at_start in [(10, 60, 20)] if quick else [(50, 450, 150), (200, 1200, 300)]:
        problem = _burgers(inside, at_start)
        rows = partial(_system, problem, problem.draw(size))
        basis = Periodic(size, 16 if quick else 256, jr.key(12))
        yield _burgers_case(f"{inside + at_start}×{size}", rows, basis, 3 if quick else 32)


def _burgers_case(size: str, rows: Rows, basis: Any, batch: int) -> Case:
    # Small enough for an untrained basis: every φ meets its tolerance well before MAX_STEPS.
    phi = 0.1 * jr.normal(jr.key(11), (batch, 2, 2))
    few = max(2, batch // 8)
    optimistix = {
        "LM (QR)": (optx.LevenbergMarquardt(RTOL, RTOL), None),
        "GN (QR)": (optx.GaussNewton(RTOL, RTOL, linear_solver=lx.QR()), None),
        "GN (SVD, as lstsq)": (optx.GaussNewton(RTOL, RTOL, linear_solver=lx.SVD()), few),
    }
    return Case(
        "Burgers, nonlinear least squares",
        size,
        batch,
        basis,
        phi,
        [
            Contestant("pdecl", lambda basis, phi: _gauss_newton(rows, basis, phi)[0]),
            *(
                Contestant(f"optimistix {name}", partial(_optimistix, rows, solver), some)
                for name, (solver, some) in optimistix.items()
            ),
            *([Contestant("JAXopt LM (Cholesky)", partial(_jaxopt_lm, rows))] if jaxopt else []),
        ],
        _normal_kernels(jax.jit(jax.vmap(lambda phi: _at_zero(rows(basis, phi))))(phi)),
        lambda basis, phi, w: rows(basis, phi).rows(w, "Fit"),
        _values_on_a_grid,
        partial(_stationary, rows),
        partial(_gauss_newton, rows),
    )


def _gauss_newton(rows: Rows, basis: Any, phi: Any) -> tuple[Array, Array]:
    found = weights_of(rows(basis, phi), pdecl.solvers.GaussNewton())
    return found.weights, found.iterations


def _values_on_a_grid(basis: Any, phi: Any, w: Array) -> Array:
    where = pdecl.Box(x=(0, 1), t=(0, 1)).mesh(5, 5)
    return 0.5 * jnp.sum((jax.vmap(lambda z: basis(z, phi))(where) @ w) ** 2)


def _system(problem: pdecl.Problem, sets: Any, basis: Any, phi: Any) -> System:
    return build(problem, basis, phi, sets)


def _burgers(inside: int, at_start: int) -> pdecl.Problem:
    box = pdecl.Box(x=(0, 1), t=(0, 1))

    def initial(phi: Array, x: Array) -> Array:
        angle = 2 * jnp.pi * x * jnp.arange(1, 3)
        return phi[0] @ jnp.sin(angle) + phi[1] @ jnp.cos(angle)

    return pdecl.Problem(
        box,
        [
            pdecl.Fit(
                lambda u, z, phi: u.d("t") + u() * u.d("x") - 0.01 * u.d("x", "x"),
                on=box.interior.low_discrepancy(inside),
            ),
            pdecl.Fit(
                lambda u, z, phi: u() - initial(phi, z.x),
                on=box.face(t=0).low_discrepancy(at_start),
                weight=20.0,
            ),
        ],
    )


def _at_zero(system: System) -> Float[Array, "n N"]:
    model = linearise(system)
    assert model.A is not None
    return model.A.as_matrix()


def _all_rows(system: System) -> Callable[[Array], Array]:
    """The rows with those of the layer's ridge below: the same objective as ours."""
    ridge = jnp.sqrt(RIDGE) * jnp.linalg.norm(_at_zero(system), axis=0)
    return lambda w: jnp.concatenate([system.rows(w, "Fit"), ridge * w])


def _optimistix(rows: Rows, solver: Any, basis: Any, phi: Any) -> Float[Array, " N"]:
    system = rows(basis, phi)
    residual = _all_rows(system)
    start = jnp.zeros(system.plan.size)
    return optx.least_squares(
        lambda w, _: residual(w), solver, start, max_steps=MAX_STEPS, throw=False
    ).value


def _jaxopt_lm(rows: Rows, basis: Any, phi: Any) -> Float[Array, " N"]:
    solver = jaxopt.LevenbergMarquardt(
        lambda w, given: _all_rows(rows(*given))(w),
        maxiter=MAX_STEPS,
        solver="cholesky",
        materialize_jac=True,
        xtol=RTOL,
        gtol=1e-14,
    )
    start = jnp.zeros(rows(basis, phi).plan.size)
    return solver.run(start, (basis, phi)).params


def _stationary(rows: Rows, basis: Any, phi: Any, w: Array) -> Array:
    residual = _all_rows(rows(basis, phi))
    slope = jax.grad(lambda w: 0.5 * jnp.sum(residual(w) ** 2))
    return jnp.linalg.norm(slope(w)) / jnp.linalg.norm(slope(jnp.zeros_like(w)))


# What a solve is made of


def _normal_kernels(rows: Float[Array, "batch n N"]) -> list[Kernel]:
    _, n, size = rows.shape
    gram = jax.jit(jax.vmap(_gram))(rows)
    return [
        Kernel("Gram", _gram, rows, 2 * n * size**2),
        Kernel("Cholesky", jnp.linalg.cholesky, gram, size**3 / 3),
    ]


def _lu(rows: Float[Array, "batch n N"]) -> Kernel:
    """What a CPU does for large rows that are nearly as many as functions."""
    _, n, size = rows.shape
    return Kernel("LU", lambda one: jax.lax.linalg.lu(one.T)[0], rows, n**2 * (size - n / 3))


def _constrained_kernels(fit: Float[Array, "b n N"], equal: Float[Array, "b m N"]) -> list[Kernel]:
    """The normal equations of all rows, and those of their Schur complement."""
    both = jnp.concatenate([fit, equal], axis=1)
    dual = jnp.swapaxes(equal, 1, 2)
    return [*_normal_kernels(both), *_normal_kernels(dual)]


def _gram(rows: Float[Array, "n N"]) -> Float[Array, "N N"]:
    return rows.T @ rows + RIDGE * jnp.sum(rows**2) * jnp.eye(rows.shape[1])


# The comparison


def _compare(case: Case, rate: float, options: argparse.Namespace, console: Console) -> list[Row]:
    rows: list[Row] = []
    ours: Any = None
    for contestant in case.contestants:
        if rows and any(word.lower() in contestant.name.lower() for word in options.without):
            continue
        batch = contestant.batch or case.batch
        many = jax.tree.map(lambda a, batch=batch: a[:batch], case.many)
        work = _work(case, contestant.solve)
        timing, program, output = measure(
            work, case.shared, many, repeats=options.repeats, compiler_options=options.compiler
        )
        details: dict[str, Any] = {}
        if ours is None:
            ours = output
            values, gradient = _own_errors(case, program, output)
            details = _anatomy(case, contestant.solve, rate, options)
        else:
            values, gradient = _differences(case, ours, output, batch)
        milliseconds = 1e3 * timing.seconds * case.batch / batch
        row = Row(
            case=case.name,
            size=case.size,
            batch=case.batch,
            method=contestant.name,
            ours=not rows,
            timing=timing,
            milliseconds=milliseconds,
            ratio=milliseconds / rows[0].milliseconds if rows else 1.0,
            values=values,
            gradient=gradient,
            sampled=batch < case.batch,
            details=details,
        )
        rows.append(row)
        console.print(f"{case.name}, {case.size}: {row.method} {milliseconds:.2f} ms", highlight=False)
    return rows


def _work(case: Case, solve: Solve) -> Callable[[Any, Any], Any]:
    """The scalar and ω, and the gradient by all inputs, of a batch."""

    def total(shared: Any, many: Any) -> tuple[Array, Array]:
        def one(one: Any) -> tuple[Array, Array]:
            w = solve(shared, one)
            return case.scalar(shared, one, w), w

        scalars, weights = jax.vmap(one)(many)
        return jnp.sum(scalars), weights

    return jax.value_and_grad(total, argnums=(0, 1), has_aux=True)


def _own_errors(case: Case, program: Any, output: Any) -> tuple[float, float]:
    """The size of the optimality condition, and of the gradient's error along a random direction."""
    (_, weights), gradient = output
    optimality = jax.jit(jax.vmap(partial(case.optimality, case.shared)))(case.many, weights)
    inputs = (case.shared, case.many)
    leaves, structure = jax.tree.flatten(inputs)
    keys = jr.split(jr.key(13), len(leaves))
    direction = structure.unflatten(
        [jnp.std(leaf) * jr.normal(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=True)]
    )
    step = 1e-5
    move = lambda sign: jax.tree.map(lambda x, d: x + sign * step * d, inputs, direction)
    difference = (program(*move(1))[0][0] - program(*move(-1))[0][0]) / (2 * step)
    slope = sum(jax.tree.leaves(jax.tree.map(jnp.vdot, gradient, direction)))
    return float(jnp.max(optimality)), float(jnp.abs(slope - difference) / jnp.abs(difference))


def _differences(case: Case, ours: Any, theirs: Any, batch: int) -> tuple[float, float]:
    """The relative difference of what is fitted and of the gradient by what each φ has of its own."""
    first = lambda tree: jax.tree.map(lambda a: a[:batch], tree)
    fitted = jax.jit(jax.vmap(partial(case.fitted, case.shared)))
    predict = lambda output: fitted(first(case.many), first(output[0][1]))
    values = _relative(predict(theirs), predict(ours))
    return values, _relative(theirs[1][1], first(ours[1][1]))


def _relative(a: Any, b: Any) -> float:
    norm = lambda tree: sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(tree)) ** 0.5
    return norm(jax.tree.map(operator.sub, a, b)) / norm(b)


def _anatomy(case: Case, solve: Solve, rate: float, options: argparse.Namespace) -> dict[str, Any]:
    """How long our forward solve takes, and how much of it its kernels take when run alone.

    A batch goes on until its slowest φ is done, so that each of its steps costs the whole batch.
    """
    once = lambda shared, one: (solve(shared, one), 1)
    counted = jax.vmap(case.counted or once, (None, 0), (0, 0 if case.counted else None))
    timed = partial(measure, repeats=options.repeats, compiler_options=options.compiler)
    forward, _, (_, steps) = timed(counted, case.shared, case.many)
    most = int(jnp.max(jnp.asarray(steps)))
    alone = {}
    for number, kernel in enumerate(case.kernels):
        timing, _, _ = timed(jax.vmap(kernel.run), kernel.operand)
        alone[f"{number + 1} {kernel.name}"] = 1e3 * timing.seconds
    flops = most * case.batch * sum(kernel.flops for kernel in case.kernels)
    return {
        "forward_milliseconds": 1e3 * forward.seconds,
        "steps": most,
        "kernel_milliseconds_per_step": alone,
        "share": most * sum(alone.values()) / (1e3 * forward.seconds),
        "matmul_fraction": flops / forward.seconds / rate,
    }


def _table(rows: list[Row]) -> Table:
    table = Table(title="forward + gradient of one batch")
    table.add_column("size")
    table.add_column("method")
    for name in ("ms", "rival / ours", "MB", "values", "gradient", "share", "of matmul"):
        table.add_column(name, justify="right")
    for row in rows:
        if row.ours:
            table.add_section()
        mark = "~" if row.sampled else ""
        memory = "" if row.timing.megabytes is None else f"{row.timing.megabytes:.0f}"
        table.add_row(
            f"{row.case}\n{row.size}, batch {row.batch}" if row.ours else "",
            row.method,
            f"{mark}{row.milliseconds:.3g}"
            if row.milliseconds < 1000
            else f"{mark}{row.milliseconds:.0f}",
            "" if row.ours else f"{row.ratio:.3g}",
            memory,
            f"{row.values:.0e}",
            f"{row.gradient:.0e}",
            f"{row.details['share']:.0%}" if row.details else "",
            f"{row.details['matmul_fraction']:.0%}" if row.details else "",
        )
    return table


CASES: dict[str, Callable[[bool, str], Iterator[Case]]] = {
    "convection": convection,
    "burgers": burgers,
    "darcy": darcy,
}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes; writes only where --out says")
    parser.add_argument(
        "--only", type=_names, default=list(CASES), metavar="LIST", help="of convection,burgers,darcy"
    )
    parser.add_argument(
        "--without", type=lambda text: text.split(","), default=[], metavar="LIST",
        help="leave out methods whose name contains one of these words, as in --without lstsq,jaxopt",
    )  # fmt: skip
    parser.add_argument(
        "--repeats", type=int, default=5, help="runs of each, fewer if they take over 10 s"
    )
    parser.add_argument(
        "--out", type=Path, help="JSON file (default: results/layer-<cpu|gpu>.json beside this file)"
    )
    options = parser.parse_args()
    options.compiler = None
    if options.quick:
        options.without += QUICK_WITHOUT
        options.compiler = {"xla_backend_optimization_level": 0}
    return options


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in CASES]:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(CASES)}")
    return names


if __name__ == "__main__":
    main()
