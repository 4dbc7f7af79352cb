# title: Where a particle is (Fokker–Planck)
# statement: p_t = ∇·(x p) + D Δp
# kind: linear, time
# dimensions: 2 + time

# %% [markdown]
# The density of a particle that is pulled back to the middle and pushed about at random (the Ornstein–Uhlenbeck process):
#
# $$p_t = \nabla\cdot(x\,p) + D\,\Delta p \;\text{ on } (-5,5)^2, \qquad p = 0 \;\text{ far away.}$$
#
# A Gaussian stays a Gaussian: its mean falls like $e^{-t}$, its variance goes to $D$. Probability is conserved, and the answer can be
# integrated to see it.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-4
D = 0.5
box = pdecl.Box(x=(-5, 5), y=(-5, 5), t=(0, 1))


def density(x, y, t):
    mean, spread = 2 * jnp.exp(-t), 0.2 * jnp.exp(-2 * t) + D * (1 - jnp.exp(-2 * t))
    return jnp.exp(-((x - mean) ** 2 + y**2) / (2 * spread)) / (2 * jnp.pi * spread)


def fokker_planck(p, z, phi):
    drift = 2 * p() + z.x * p.d("x") + z.y * p.d("y")
    return p.d("t") - drift - D * (p.d("x", "x") + p.d("y", "y"))


problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(fokker_planck, on=box.interior, name="density"),
        pdecl.Fit(lambda p, z, phi: p() - density(z.x, z.y, 0.0), on=box.face(t=0), name="start"),
        pdecl.Fit(lambda p, z, phi: p(), on=box.faces("x", "y"), name="far away"),
    ],
    unknowns=("p",),
)
p = pdecl.solve(problem, tolerance=tolerance)
print(p)

# %%
times = (0.0, 0.3, 1.0)
plane = pdecl.Box(x=(-5, 5), y=(-5, 5))
square = np.asarray(plane.mesh(101, 101))
points = np.concatenate([np.insert(square, 2, t, axis=1) for t in times])
found = np.asarray(p(points))
error = relative_error(found, density(*points.T))
maps(plane, {f"t = {t}": part for t, part in zip(times, np.split(found, 3), strict=True)}, "x", "y", 101)
print("probability at each time:", [float(part.sum() * 0.01) for part in np.split(found, 3)])

# %% [markdown]
# **Change next:** a double well, `-(z.x - z.x**3) * p()` in the drift: the particle crosses now and then.
