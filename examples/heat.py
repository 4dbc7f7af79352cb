"""Trains a basis for the heat equation through the layer and solves parameters it has never seen.

    u_t = k u_xx on (0, 1)²,   u = 0 at x = 0 and x = 1,   u(x, 0) = Σ_j a_j sin(jπx), j = 1, 2, 3

The parameter φ is the diffusivity k and the amplitudes a. The exact solution,
Σ_j a_j sin(jπx) exp(−k j²π² t), is used to measure the error and for nothing else.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib
import numpy as np
import optax
from rich.console import Console
from rich.table import Table

import pdecl

MODES = jnp.arange(1, 4)
box = pdecl.Box(x=(0, 1), t=(0, 1))


def waves(x: Any) -> Any:
    return jnp.sin(jnp.pi * MODES * x)


def draw(key: Any) -> dict[str, Any]:
    diffusivity_key, amplitude_key = jr.split(key)
    diffusivity = jr.uniform(diffusivity_key, minval=0.02, maxval=0.2)
    return {"k": diffusivity, "a": jr.normal(amplitude_key, (3,)) / MODES}


heat = pdecl.Problem(
    domain=box,
    conditions=[
        pdecl.Fit(
            lambda u, z, phi: u.d("t") - phi["k"] * u.d("x", "x"), on=box.interior, name="u_t = k u_xx"
        ),
        pdecl.Fit(
            lambda u, z, phi: u() - phi["a"] @ waves(z.x), on=box.face(t=0), weight=100.0, name="start"
        ),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces("x"), weight=100.0, name="walls"),
    ],
    parameter=draw,
)


def exact(points: Any, phi: Any) -> Any:
    decay = jnp.exp(-phi["k"] * (jnp.pi * MODES) ** 2 * points[:, 1:])
    return (jax.vmap(waves)(points[:, 0]) * decay) @ phi["a"]


def relative_error(found: Any, truth: Any) -> Any:
    return jnp.linalg.norm(found - truth, axis=-1) / jnp.linalg.norm(truth, axis=-1)


def errors(basis: Any, phis: Any, grid: Any) -> Any:
    # The table shows the statuses.
    solution = jax.vmap(lambda phi: pdecl.solve(heat, basis, phi, throw=False))(phis)
    truth = jax.vmap(lambda phi: exact(grid, phi))(phis)
    return solution, truth, relative_error(solution(grid), truth)


def seconds_per_solve(basis: Any, phis: Any, repeats: int = 5) -> float:
    def once() -> float:
        start = time.perf_counter()
        solution = jax.vmap(lambda phi: pdecl.solve(heat, basis, phi, throw=False))(phis)
        jax.block_until_ready(solution.weights)
        return time.perf_counter() - start

    return float(np.median([once() for _ in range(repeats)])) / len(phis["k"])


def picture(path: Path, truth: Any, found: Any, shape: tuple[int, int], title: str) -> None:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    truth, found = np.asarray(truth).reshape(shape), np.asarray(found).reshape(shape)
    difference = found - truth
    size, worst = np.abs(truth).max(), np.abs(difference).max()
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", sharey=True)
    panels = [
        ("exact", truth, "viridis", (-size, size)),
        ("predicted", found, "viridis", (-size, size)),
        ("predicted − exact", difference, "RdBu_r", (-worst, worst)),
    ]
    for axis, (name, values, colours, limits) in zip(axes, panels, strict=True):
        image = axis.imshow(
            values, origin="lower", extent=(0, 1, 0, 1), aspect="auto", cmap=colours, clim=limits
        )
        axis.set(title=name, xlabel="time t")
        figure.colorbar(image, ax=axis)
    axes[0].set_ylabel("position x")
    figure.suptitle(title)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=1500, help="training steps (default: 1500)")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the picture")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    console = Console()

    unseen, grid = heat.sample(jr.key(7), 20), box.mesh(101, 101)
    untrained = pdecl.nn.MLP(heat, size=64, width=64, depth=3, key=jr.key(0))
    optimiser = optax.adam(optax.cosine_decay_schedule(2e-3, options.steps))
    console.print("Training a basis of 64 functions through the layer, on no solution data.")
    basis, history = pdecl.fit(heat, untrained, optimiser, steps=options.steps, key=jr.key(1))
    console.print(f"{options.steps} steps in {history.seconds[-1]:.0f} s.")

    _, _, before = errors(untrained, unseen, grid)
    solution, truth, after = errors(basis, unseen, grid)
    left = solution.relative_residual["u_t = k u_xx"]
    milliseconds = 1e3 * seconds_per_solve(basis, unseen)
    table = Table(title="The first eight of 20 unseen φ", caption="errors on 101 × 101 points")
    for name in ["k", "error, untrained", "error, trained", "relative residual", "status"]:
        table.add_column(name, justify="left" if name == "status" else "right")
    for i in range(8):
        table.add_row(
            f"{unseen['k'][i]:.3f}", f"{before[i]:.2e}", f"{after[i]:.2e}", f"{left[i]:.1e}",
            str(solution.status[i]),
        )  # fmt: skip
    console.print(table)
    console.print(
        f"Mean relative error of all 20: {before.mean():.2e} untrained, {after.mean():.2e} trained; "
        f"{milliseconds:.2f} ms per solve in a batch of 20."
    )
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "heat.png"
    title = f"heat equation, k = {unseen['k'][2]:.3f}: a φ never seen in training"
    picture(path, truth[2], solution(grid)[2], (101, 101), title)
    console.print(f"Picture: {path}")


if __name__ == "__main__":
    main()
