"""What `stress.py` runs: commands, each a process, and verbs of Python, many times in one process.

python benchmarks/stress_cases.py NAME COUNT      a verb COUNT times, with a line for each that is done
"""

import sys
from collections.abc import Callable
from typing import Any

Once = Callable[[int], object]

# In a folder of their own, one after the other.
_TINY = "--size 24 --width 24 --depth 1 --batch 2 --steps 5 --count 1"
_ASKED = "--batch 8 --overwrite"
_GRID = f"{_ASKED} --grid 9,9"
COMMANDS = {
    "new": "new heat.py --overwrite",
    "train": f"train burgers {_TINY} --out runs/burgers",
    "train own": f"train heat.py {_TINY} --out runs/heat",
    "train without network": "train heat.py --tolerance 1e-2 --count 1 --out runs/fast",
    "train in processes": f"train burgers {_TINY} --processes 2 --out runs/two",
    "info": "info burgers --json",
    "data": "data burgers --count 20 --out data.nc",
    "solve": f"solve burgers --sample 1,16 {_GRID} --out u.h5",
    "solve convection": f"solve convection-fast --sample 1,16 {_GRID} --out fast.h5",
    "solve bound": f"solve burgers --sample 1,4 {_GRID} --bound --out bound.h5",
    "solve refine": f"solve runs/burgers --sample 1,2 {_GRID} --tolerance 0.5 --refine "
    "--residual-limit inf --out refined.h5",
    "solve without network": f"solve runs/fast --sample 1,16 {_ASKED} --store weights --out fast.zarr",
    "solve functionals": f"solve runs/heat --sample 1,16 {_GRID} --residual-limit inf "
    "--reduce 'mean over x, t' --out means.h5",
    "solve one piece": f"solve runs/fast --sample 1,16 {_GRID} --shard 1/2 --out many.h5",
    "solve the other": f"solve runs/fast --sample 1,16 {_GRID} --shard 2/2 --out many.h5",
    "merge": "merge many.h5 --overwrite",
    "compile": "compile runs/burgers --functions 8 --phis 60 --out solver.safetensors --overwrite",
    "solve compiled": f"solve solver.safetensors --sample 1,16 {_GRID} --residual-limit inf --out v.h5",
    "evaluate": "evaluate convection-fast --count 2 --cache kept",
    "evaluate own": "evaluate runs/fast --count 2 --bound --cache kept",
    "report": "report runs --out report --no-studies",
    "results": "results runs --kept results --out results.md",
}


def affine() -> Once:
    problem, basis, phis = _heat()
    return _solving(problem, basis, phis)


def nonlinear() -> Once:
    problem, basis, phis = _heat(lambda u, z, k: u.d("t") + u() * u.d("x") - k * u.d("x", "x"))
    return _solving(problem, basis, phis)


def enforce() -> Once:
    problem, basis, phis = _transport()
    return _solving(problem, basis, phis)


def energy() -> Once:
    problem, basis, phis = _poisson()
    return _solving(problem, basis, phis)


def two_solves() -> Once:
    import equinox as eqx
    import jax

    import pdecl

    one, other = _transport(), _heat()

    @eqx.filter_jit
    def both(phis: Any) -> Any:
        ask = lambda p, basis: jax.vmap(lambda phi: pdecl.solve(p, basis, phi, throw=False))(phis)
        solved = (ask(p, basis) for p, basis, _ in (one, other))
        return [solution.weights for solution in solved]

    return lambda number: both(one[2] + 1e-3 * (number % 50))


def gradients() -> Once:
    import jax
    import jax.numpy as jnp

    import pdecl

    problem, basis, phis = _transport()
    points = problem.domain.mesh(7, 7)

    @jax.jit
    def gradient(phis: Any) -> Any:
        def loss(phis: Any) -> Any:
            values = lambda phi: pdecl.solve(problem, basis, phi, throw=False)(points)
            return jnp.sum(jax.vmap(values)(phis) ** 2)

        return jax.grad(loss)(phis)

    return lambda number: gradient(phis + 1e-3 * (number % 50))


def steps() -> Once:
    """Training: the steps of one `fit` are the runs, of which its metrics hear."""
    import jax.random as jr
    import optax

    import pdecl

    problem, basis, _ = _transport()

    def train(number: int) -> object:
        if number == 0:
            count = int(sys.argv[2])
            pdecl.fit(
                problem, basis, optax.adam(1e-3), steps=count, key=jr.key(1), batch=4,
                metrics=lambda basis: _tell() or {}, metrics_count=100 * count, progress=False,
            )  # fmt: skip
        return None

    return train


def compiled() -> Once:
    import pdecl

    trained = _trained("convection")
    solver = pdecl.compile(trained, phis=24, functions=6)
    phis = trained.family.sample(3, 16)
    return lambda number: solver(phis * (1 + 1e-3 * (number % 50))).weights


def compiling() -> Once:
    import pdecl

    trained = _trained("convection")
    return lambda number: pdecl.compile(trained, phis=24, functions=6)


def bound() -> Once:
    trained = _trained("burgers")
    solution = trained.solve(trained.family.sample(3, 4), throw=False)
    return lambda number: trained.bound(solution, throw=False).relative


def refine() -> Once:
    import pdecl

    trained = _trained("darcy", grid=17)
    solution = trained.solve(trained.family.sample(3, 2), throw=False)
    return lambda number: pdecl.refine(trained, solution, 1e-6).codes


def darcy() -> Once:
    """Through the Fourier transforms of its network."""
    import pdecl
    from pdecl.problems import Darcy

    trained, nu = pdecl.load("darcy"), Darcy(grid=31).sample(3, 2)
    return lambda number: trained.solve(nu * (1 + 1e-3 * (number % 50)), throw=False).weights


def convection() -> Once:
    import pdecl

    trained = pdecl.load("convection-fast")
    phis = trained.family.sample(3, 4)
    return lambda number: trained.solve(phis * (1 + 1e-3 * (number % 50)), throw=False).weights


def tolerance() -> Once:
    import pdecl

    problem, *_ = _heat()
    return lambda number: pdecl.solve(problem, 0.1 + 1e-3 * (number % 50), tolerance=1e-3).pieces


def tolerance_in_a_program() -> Once:
    """Solves on the host, which run programs themselves, inside one."""
    import jax
    import jax.numpy as jnp

    import pdecl

    problem, basis, _ = _heat()
    points = problem.domain.mesh(5, 5)

    @jax.jit
    def slopes(phis: Any) -> Any:
        def value(k: Any) -> Any:
            other = pdecl.solve(problem, basis, 2 * k, throw=False)(points)
            return jnp.sum((pdecl.solve(problem, k, tolerance=1e-2)(points) - other) ** 2)

        return jax.vmap(jax.grad(value))(phis)

    return lambda number: slopes(jnp.array([0.1, 0.2]) + 1e-3 * (number % 50))


def shape() -> Once:
    import pdecl

    problem = _plate()
    return lambda number: pdecl.solve(problem, 1.0 + 1e-3 * (number % 50), tolerance=1e-2).pieces


def shape_compiled() -> Once:
    import jax
    import jax.numpy as jnp
    import jax.random as jr

    import pdecl

    problem = _plate()
    basis = pdecl.nn.MLP(problem, size=48, width=64, depth=2, key=jr.key(0))
    solver = pdecl.compile(problem, basis, jnp.linspace(1.0, 20.0, 24), functions=3)
    points = problem.domain.interior.draw(None, 9).coords
    ask = lambda phis: jnp.sum(solver(phis, throw=False, residual_limit=None)(points) ** 2)
    slope = jax.jit(jax.grad(ask))
    return lambda number: slope(jnp.linspace(1.0, 20.0, 16) + 1e-3 * (number % 50))


def without_network() -> Once:
    import pdecl

    problem, *_ = _heat()
    return lambda number: pdecl.fit(problem, tolerance=1e-2, progress=False).core


def on_devices() -> Once:
    """Of four simulated devices: a step of training, and a batch that is split over them."""
    import jax
    import jax.random as jr
    import optax
    from jax.sharding import NamedSharding, PartitionSpec

    import pdecl

    problem, basis, phis = _transport()
    devices = jax.devices()
    assert len(devices) > 1
    split = NamedSharding(jax.make_mesh((len(devices),), ("phi",)), PartitionSpec("phi"))
    solve = jax.vmap(lambda phi: pdecl.solve(problem, basis, phi, throw=False))

    def train_and_solve(number: int) -> object:
        steps = {"steps": 4, "key": jr.key(number), "batch": 8, "devices": devices, "progress": False}
        pdecl.fit(problem, basis, optax.adam(1e-3), **steps)
        return solve(jax.device_put(phis, split)).weights

    return train_and_solve


def reference() -> Once:
    from pdecl.problems import Burgers

    family = Burgers()
    phis = family.sample(3, 4)
    return lambda number: family.reference(phis * (1 + 1e-3 * (number % 50)))


def stored() -> Once:
    """Reads a file of ω while it evaluates the functions."""
    from pathlib import Path

    import numpy as np

    import pdecl
    from pdecl.stream import FromDistribution, ask, solve_stream

    trained, out = _trained("convection"), Path("stored.h5")
    out.unlink(missing_ok=True)
    source = FromDistribution(trained.family, 7, 16)
    query = ask(trained, source.shape, store="weights")
    solve_stream(trained, source, out, query, batch=8, residual_limit=np.inf)
    answers, points = pdecl.open(out, trained), np.random.default_rng(0).random((50, 2))
    return lambda number: answers[number % 8 :].d("x")(points)


VERBS = {
    verb.__name__.replace("_", " "): verb
    for verb in (
        affine, nonlinear, enforce, energy, two_solves, gradients, steps, tolerance,
        tolerance_in_a_program, shape, shape_compiled, compiled, stored, reference, on_devices,
        without_network, compiling, bound, refine, darcy, convection,
    )
}  # fmt: skip
DEVICES = {"on devices"}
RARE = {  # a run of these takes long
    "tolerance in a program", "shape", "on devices", "without network", "compiling", "refine", "bound",
    "darcy", "convection",
}  # fmt: skip


def _solving(problem: Any, basis: Any, phis: Any) -> Once:
    import jax

    import pdecl

    solve = jax.jit(jax.vmap(lambda phi: pdecl.solve(problem, basis, phi, throw=False)))
    return lambda number: solve(phis + 1e-3 * (number % 50)).weights


def _heat(equation: Any = lambda u, z, k: u.d("t") - k * u.d("x", "x")) -> Any:
    import jax.numpy as jnp

    import pdecl

    box = pdecl.Box(x=(0, 1), t=(0, 1))
    conditions = [
        pdecl.Fit(equation, on=box.interior),
        pdecl.Fit(lambda u, z, k: u() - jnp.sin(jnp.pi * z.x), on=box.face(t=0)),
        pdecl.Fit(lambda u, z, k: u(), on=box.faces("x")),
    ]
    return _with_network(box, conditions)


def _transport() -> Any:
    import jax.numpy as jnp

    import pdecl

    box = pdecl.Box(x=(0, 1), t=(0, 1))
    conditions = [
        pdecl.Enforce(lambda u, z, k: u.d("t") + k * u.d("x"), on=box.interior),
        pdecl.Fit(lambda u, z, k: u() - jnp.sin(jnp.pi * z.x), on=box.face(t=0)),
        pdecl.Fit(lambda u, z, k: u(), on=box.face(x=0)),
    ]
    return _with_network(box, conditions)


def _poisson() -> Any:
    import pdecl

    box = pdecl.Box(x=(0, 1), y=(0, 1))
    energy = lambda u, z, k: k / 2 * (u.d("x") ** 2 + u.d("y") ** 2) - u()
    conditions = [pdecl.Energy(energy, on=box.interior.gauss(4, cells=4))]
    problem, basis, phis = _with_network(box, conditions)
    return problem, pdecl.nn.Mollified(basis, box.faces()), phis


def _plate() -> Any:
    """On a square with a hole."""
    import jax.random as jr

    import pdecl
    from pdecl.shapes import Disk, Domain, Rectangle

    domain = Domain(Rectangle((-1, -1), (1, 1)) - Disk((0, 0), 0.5))
    conditions = [
        pdecl.Fit(lambda u, z, phi: u.d("x", "x") + u.d("y", "y") - phi * u(), on=domain.interior),
        pdecl.Fit(lambda u, z, phi: u() - z.x * z.y, on=domain.boundary()),
    ]
    law = lambda key: jr.uniform(key, minval=1.0, maxval=20.0)
    return pdecl.Problem(domain, conditions, parameter=law)


def _with_network(box: Any, conditions: list[Any]) -> Any:
    import jax.numpy as jnp
    import jax.random as jr

    import pdecl

    family = lambda key: jr.uniform(key, minval=0.05, maxval=0.2)
    problem = pdecl.Problem(domain=box, conditions=conditions, parameter=family)
    basis = pdecl.nn.MLP(problem, size=48, width=64, depth=2, key=jr.key(0))
    return problem, basis, jnp.linspace(0.05, 0.2, 16)


def _trained(problem: str, **changes: Any) -> Any:
    import pdecl
    from pdecl.family.experiment import basis_of, keys_of, preset

    plain = {"size": 24, "width": 24, "depth": 1, "creased": 0.0}
    if problem == "darcy":
        plain["options"] = {"modes": 12, "local": 3, "slopes": True, "degree": 1}
    made = preset(problem).with_overrides(**plain, **changes)
    return pdecl.Trained(made, basis_of(made, keys_of(made)[0]))


def _tell() -> None:
    sys.stdout.write(".\n")
    sys.stdout.flush()


def main() -> None:
    import jax

    jax.config.update("jax_enable_x64", True)
    once = VERBS[sys.argv[1]]()
    for number in range(int(sys.argv[2])):
        jax.block_until_ready(once(number))
        if sys.argv[1] != "steps" or number == 0:
            _tell()
        if sys.argv[1] == "steps":
            return


if __name__ == "__main__":
    main()
