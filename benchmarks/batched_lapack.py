"""What it costs that a CPU factorises the matrices of a batch singly (`pdecl.layer.batching.singly`).

Beside each batch in loops of ours is one call of JAX's own for all of it, which may stand still where a
program holds two of them; here each program holds one at a time. Both are compiled first and take turns,
so that what else the machine does meets both.

    python benchmarks/batched_lapack.py [--seconds 2] [--out benchmarks/results/batched-lapack-cpu.json]
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import jax.random as jr
from timing import machine, save

import pdecl
from pdecl.layer import lapack
from pdecl.layer.solvers import triangular

SIZES = [(1000, 20), (64, 50), (32, 200), (16, 400), (8, 600)]  # batch, n


def cholesky(matrix: jax.Array) -> jax.Array:
    return jax.lax.linalg.cholesky(matrix, symmetrize_input=False)


def divide(lower: jax.Array, columns: jax.Array) -> jax.Array:
    return jax.lax.linalg.triangular_solve(lower, columns, left_side=True, lower=True)


def in_turns(seconds: float, programs: list[Callable[..., Any]], *inputs: Any) -> list[float]:
    """The median time of each."""
    times: list[list[float]] = [[] for _ in programs]
    for program in programs:
        jax.block_until_ready(program(*inputs))
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times[0]) < 5:
        for program, mine in zip(programs, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(program(*inputs))
            mine.append(time.perf_counter() - start)
    return [statistics.median(mine) for mine in times]


def compiled(function: Callable[..., Any], *inputs: Any) -> Callable[..., Any]:
    return jax.jit(function).lower(*inputs).compile()


def of_factorisations(seconds: float) -> list[dict[str, Any]]:
    rows = []
    for batch, n in SIZES:
        root = jr.normal(jr.key(0), (batch, n, 2 * n))
        matrices = root @ jnp.swapaxes(root, 1, 2)
        factors = jnp.linalg.cholesky(matrices)
        cases = {
            "cholesky": (lapack.cholesky, cholesky, (matrices,)),
            "triangular solve": (lapack.divide, divide, (factors, root[:, :, :n])),
        }
        for name, (ours, theirs, inputs) in cases.items():
            both = [compiled(jax.vmap(function), *inputs) for function in (ours, theirs)]
            rows.append(row(name, batch, n, *in_turns(seconds, both, *inputs)))
    return rows


def of_a_solve(seconds: float, batch: int, size: int) -> dict[str, Any]:
    """Rows that depend on φ, so that each φ has a factorisation of its own."""
    box = pdecl.Box(x=(0, 1), t=(0, 1))
    equation = lambda u, z, k: u.d("t") - k * u.d("x", "x")
    problem = pdecl.Problem(
        box,
        [
            pdecl.Fit(equation, on=box.interior),
            pdecl.Fit(lambda u, z, k: u() - jnp.sin(jnp.pi * z.x), on=box.face(t=0), weight=10.0),
            pdecl.Fit(lambda u, z, k: u(), on=box.faces("x"), weight=10.0),
        ],
    )
    basis = pdecl.nn.MLP(problem, size=size, width=size, depth=2, key=jr.key(0))
    phi = jnp.linspace(0.05, 0.2, batch)
    weights = jax.vmap(lambda phi: pdecl.solve(problem, basis, phi, throw=False).weights)
    ours = compiled(lambda phi: weights(phi), phi)
    jax.clear_caches()
    at_once = lambda lower: triangular.split(cholesky(lower))[0]
    theirs_only = mock.patch.multiple(lapack, cholesky=cholesky, divide=divide)
    with theirs_only, mock.patch.object(triangular, "_in_one_turn", at_once):
        theirs = compiled(lambda phi: weights(phi), phi)
    jax.clear_caches()
    return row("solve", batch, size, *in_turns(seconds, [ours, theirs], phi))


def row(name: str, batch: int, n: int, ours: float, theirs: float) -> dict[str, Any]:
    print(
        f"{name:18}{batch:5} × {n:<6}{ours * 1e3:9.2f} ms{theirs * 1e3:9.2f} ms{ours / theirs:7.2f}",
        flush=True,
    )
    return {"what": name, "batch": batch, "n": n, "ours": ours, "jax": theirs, "ratio": ours / theirs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    default = Path(__file__).parent / "results" / "batched-lapack-cpu.json"
    parser.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    print(f"{'':18}{'batch × n':>14}{'ours':>12}{'JAX':>12}{'ratio':>7}")
    rows = of_factorisations(options.seconds)
    rows += [of_a_solve(options.seconds, batch, size) for batch, size in ((64, 50), (32, 200))]
    save(options.out, {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
