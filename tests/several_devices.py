"""Small problems that several devices, or several processes, train and solve: what the tests of both
start in a process of its own: `python several_devices.py devices`, or `… process NUMBER COUNT …`."""

import json
import math
import os
import re
import sys
import time
import warnings
from contextlib import contextmanager
from functools import cache

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jax._src import compiler
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from programs import watch

jax.config.update("jax_enable_x64", True)

import pdecl  # noqa: E402

box = pdecl.Box(x=(0, 1))


def stated(bent):
    """A decay, whose rate may depend on u."""
    rate = lambda u, k: k["rate"] * (1 + bent * u())
    return pdecl.Problem(
        box,
        [
            pdecl.Fit(lambda u, z, k: u.d("x") + rate(u, k) * u(), on=box.interior),
            pdecl.Fit(lambda u, z, k: u() - k["start"], on=box.face(x=0), weight=4.0),
        ],
        parameter=lambda key: {
            "rate": jr.uniform(key, minval=1.0, maxval=6.0),
            "start": jr.uniform(jr.fold_in(key, 1), minval=0.5, maxval=1.0),
        },
    )


@cache
def decay():
    return stated(0.0)


def functions():
    return pdecl.nn.MLP(decay(), size=4, width=8, depth=1, key=jr.key(0))


def train(devices, steps=3, method="soft", given=True, **options):
    """Soft where it is not the solve that matters: it compiles in a second."""
    soft = pdecl.nn.DeepONet(decay(), size=4, width=8, depth=1, key=jr.key(0))
    phis = decay().sample(jr.key(7), 20) if given else None
    # Functions that are nearly dependent, as of an untrained network, let rounding grow.
    solver = pdecl.solvers.Cholesky(ridge=1e-6)
    return pdecl.fit(
        decay(), soft if method == "soft" else functions(), optax.adam(1e-2), steps=steps, key=jr.key(1),
        phis=phis, solver=solver, method=method, devices=devices, **{"progress": False, **options},
    )  # fmt: skip


def losses():
    """Of trainings with 1, 2, 4 devices, and with none named."""
    devices = jax.devices()
    runs = {str(size): train(devices[:size])[1].loss for size in (1, 2, 4)}
    mesh = jax.make_mesh((2, 2), ("one", "other"))
    return {
        **runs,
        "none": train(None)[1].loss,
        "drawn on a mesh": train(mesh, given=False)[1].loss,
        "drawn": train(None, given=False)[1].loss,
        "hard": train(None, method="hard")[1].loss,
        "hard 4": train(devices, method="hard")[1].loss,
    }


def split(phis):
    mesh = jax.make_mesh((jax.device_count(),), ("any name",))
    return jax.device_put(phis, NamedSharding(mesh, PartitionSpec("any name")))


@contextmanager
def programs():
    """The texts of all programs that are compiled meanwhile."""
    texts, compile_program = [], compiler.compile_or_get_cached

    def kept(*arguments, **options):
        executable = compile_program(*arguments, **options)
        texts.extend(module.to_string() for module in executable.hlo_modules())
        return executable

    compiler.compile_or_get_cached = kept
    yield texts
    compiler.compile_or_get_cached = compile_program


def spread_programs(texts):
    return [text for text in texts if f"num_partitions={jax.device_count()}" in text]


def of_one_and_of_all(answer, phis):
    """What a solver says of a batch on one device and split over all of them."""
    one = answer(phis)
    with programs() as texts:
        many = answer(split(phis))
    spread = spread_programs(texts)
    asking = [text for text in spread if re.search(r"all-|collective-|reduce-scatter", text)]
    usable = np.isfinite(np.asarray(one.weights))
    difference = np.asarray(one.weights)[usable] - np.asarray(many.weights)[usable]
    return {
        "codes": [np.asarray(each.code).tolist() for each in (one, many)],
        "difference": float(np.abs(difference).max()),
        "programs": len(spread),
        "that ask": len(asking),
        "devices": len(many.weights.sharding.device_set),
    }


def solved():
    phis = decay().sample(jr.key(3), 8)
    phis["rate"] = phis["rate"].at[5].set(jnp.nan)
    problem, basis = decay(), functions()
    solve = lambda phi: pdecl.solve(problem, basis, phi, throw=False, residual_limit=None)
    return of_one_and_of_all(jax.vmap(solve), phis)


def compiled():
    """In rounds: a batch of which the slow go on by themselves (`reduced/rounds.py`)."""
    bent = stated(0.3)
    snapshots = bent.sample(jr.key(4), 24)
    solver = pdecl.compile(bent, functions(), snapshots)
    phis = bent.sample(jr.key(5), 512)
    phis["start"] = phis["start"].at[300].set(jnp.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return of_one_and_of_all(lambda phis: solver(phis, residual_limit=None), phis)


def one_system():
    """One system of 257 rows of 32 functions, which are split over the devices by their points."""
    equation, start = decay().conditions
    inside = pdecl.Fit(equation.equation, on=box.interior.low_discrepancy(256))
    tall = pdecl.Problem(box, [inside, start], parameter=decay().parameter)
    basis = pdecl.nn.MLP(tall, size=32, width=32, depth=1, key=jr.key(0))
    phi, (rows, one_more) = tall.parameter(jr.key(1)), tall.draw(32)
    solve = lambda rows: pdecl.solve(
        tall, basis, phi, points=(rows, one_more), solver=pdecl.solvers.Cholesky(ridge=1e-6),
        residual_limit=None,
    )  # fmt: skip
    points, mesh = jnp.linspace(0, 1, 20)[:, None], Mesh(jax.devices(), ("rows",))
    one = solve(rows)(points)
    with programs() as texts:
        many = solve(jax.device_put(rows, NamedSharding(mesh, PartitionSpec("rows"))))
    told = [
        math.prod(map(int, sizes.split(",")))
        for text in spread_programs(texts)
        for result in re.findall(r"= (.*?) (?:all-|collective-|reduce-scatter)\S*\(", text)
        for sizes in re.findall(r"\[([\d,]+)\]", result)
    ]
    return {"difference": float(jnp.abs(one - many(points)).max()), "most told": max(told)}


def of_process(number, count, port, folder, steps, pause, word):
    """One of several processes that train together; a pause before each step lets it be killed."""
    from pdecl.parallel import processes

    try:
        processes.join(f"127.0.0.1:{port}", count, number)
        processes.require_same({"the word": word})

        def slowly(basis):
            time.sleep(pause)
            return {}

        metrics = slowly if pause else None
        history = train(
            jax.devices(), steps, metrics=metrics, metrics_count=100,
            checkpoints=pdecl.Checkpoints(folder, every=1),
        )[1]  # fmt: skip
        print(json.dumps(history.loss), flush=True)
    except pdecl.ProcessError as error:
        print(error, file=sys.stderr, flush=True)
        processes.told(own=not isinstance(error, processes.LostProcess), seconds=10.0)
        os._exit(3)


if __name__ == "__main__":
    watch()
    if sys.argv[1] == "process":
        of_process(*map(json.loads, sys.argv[2:]))
    else:
        found = {"losses": losses(), "solve": solved(), "compiled": compiled()}
        found["one system"] = one_system()
        print(json.dumps(found))
