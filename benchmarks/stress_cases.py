"""What `stress.py` runs: commands, each a process, and verbs of Python, many times in one process.

python benchmarks/stress_cases.py NAME COUNT      a verb COUNT times, with a line for each that is done
"""

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

Once = Callable[[int], object]

# In a folder of their own, after the first of them has made a run there; {} is a number.
COMMANDS = {
    "train": "train burgers --size 12 --width 12 --depth 1 --batch 2 --steps 5 --count 1 --out runs/{}",
    "info": "info burgers --json",
    "data": "data burgers --count 20 --out data-{}.nc",
    "solve burgers": "solve burgers --sample {},24 --batch 8 --grid 21,21 --out burgers-{}.h5",
    "solve convection": "solve convection-fast --sample {},16 --batch 8 --grid 21,21 --out fast-{}.h5",
    "solve bound": "solve burgers --sample {},4 --batch 4 --grid 9,9 --bound --out bound-{}.h5",
    "compile": "compile burgers --functions 24 --phis 60 --out solver-{}.safetensors",
    "evaluate": "evaluate convection-fast --count 2 --cache kept",
    "report": "report runs --out report-{} --no-studies",
    "results": "results runs --kept kept-{} --out results-{}.md",
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
    """Training: the steps of one `fit` are the runs, of which its checkpoints hear."""
    import jax.random as jr
    import optax

    import pdecl

    problem, basis, _ = _transport()

    def train(number: int) -> object:
        if number == 0:
            count = int(sys.argv[2])
            heard = SimpleNamespace(
                open=lambda state, settings: (state, 0, pdecl.History()),
                save=lambda number, *rest, **options: number < count and _tell(),
                close=lambda: None,
            )
            pdecl.fit(
                problem, basis, optax.adam(1e-3), steps=count, key=jr.key(1), batch=4,
                checkpoints=heard, progress=False,
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


VERBS = {
    verb.__name__.replace("_", " "): verb
    for verb in (
        affine, nonlinear, enforce, energy, two_solves, gradients, steps, compiled, compiling, bound,
        refine, darcy, convection,
    )
}  # fmt: skip
RARE = {"compiling", "refine", "bound", "darcy", "convection"}  # a run of these takes long


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
    from pdecl.family.experiment import basis_of, keys_of
    from pdecl.family.presets import preset

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
