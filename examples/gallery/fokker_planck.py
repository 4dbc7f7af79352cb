# title: Where a particle is (Fokker–Planck)
# statement: p_t = ∇·(p ∇V) + D Δp
# kind: linear, time
# dimensions: 2 + time

# %% [markdown]
# The density of a particle in a double well $V$ that is pushed about at random:
#
# $$p_t = \nabla\cdot(p\,\nabla V) + D\,\Delta p, \qquad V = (x^2 - 1)^2 + \tfrac12 y^2, \qquad p = 0 \;\text{ far away.}$$
#
# It starts in the left well. Now and then it crosses, until both wells are filled alike.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from _shared import maps, relative_error
from scipy.linalg import expm

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-3
D = 0.6
times = (0.0, 1.0, 5.0)
box = pdecl.Box(x=(-2.2, 2.2), y=(-4.2, 4.2), t=(0, times[-1]))
normal = lambda x, mean, spread: (
    jnp.exp(-((x - mean) ** 2) / (2 * spread)) / jnp.sqrt(2 * jnp.pi * spread)
)
start = lambda x, y: normal(x, -1.0, 0.08) * normal(y, 1.0, 0.08)


def fokker_planck(p, z, phi):
    drift = 4 * z.x * (z.x**2 - 1) * p.d("x") + z.y * p.d("y") + (12 * z.x**2 - 3) * p()
    return p.d("t") - drift - D * (p.d("x", "x") + p.d("y", "y"))


problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(fokker_planck, on=box.interior, name="density"),
        pdecl.Fit(lambda p, z, phi: p() - start(z.x, z.y), on=box.face(t=0), name="start"),
        pdecl.Fit(lambda p, z, phi: p(), on=box.faces("x", "y"), name="far away"),
    ],
    unknowns=("p",),
)
p = pdecl.solve(problem, tolerance=tolerance)
print(p)

# %% [markdown]
# The two coordinates do not know of each other. Along $y$ a Gaussian stays one, along $x$ the reference is a matrix exponential of finite
# differences that conserve probability, on two grids, extrapolated.


# %%
def along_x(t, cells):
    """The density at 89 nodes from -2.2 to 2.2, by finite volumes."""
    h = 4.4 / cells
    x = -2.2 + h * np.arange(cells + 1)
    middle = (x[1:] + x[:-1]) / 2
    pull = 4 * middle * (middle**2 - 1)
    right, left = pull / 2 + D / h, pull / 2 - D / h  # the flux to the left is right p_{i+1} + left p_i
    A = (np.diag(np.r_[left, 0]) - np.diag(np.r_[0, right]) + np.diag(right, 1) - np.diag(left, -1)) / h
    return (expm(t * A) @ normal(x, -1.0, 0.08))[:: cells // 88]


x, y = np.linspace(-2.2, 2.2, 89), np.linspace(-4.2, 4.2, 89)
exact = []
for t in times:
    fine, coarse = along_x(t, 704), along_x(t, 352)
    spread = 0.08 * np.exp(-2 * t) + D * (1 - np.exp(-2 * t))
    exact.append(np.outer((4 * fine - coarse) / 3, normal(y, np.exp(-t), spread)))
found = [np.asarray(p.on_grid(x, y, np.array([t])))[..., 0] for t in times]
error = relative_error(np.stack(found), np.stack(exact))
plane = pdecl.Box(x=(-2.2, 2.2), y=(-4.2, 4.2))
maps(plane, {f"t = {t}": part for t, part in zip(times, found, strict=True)}, "x", "y", 89)
print(
    "probability at each time:",
    [round(float(part.sum() * (x[1] - x[0]) * (y[1] - y[0])), 4) for part in found],
)

# %% [markdown]
# **Change next:** a colder particle, `D = 0.3`, crosses far less often; a third well.
