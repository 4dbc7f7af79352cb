# title: Four charges (Poisson's equation)
# statement: Δu = f
# kind: linear
# dimensions: 2

# %% [markdown]
# The potential of four charges in an earthed box:
#
# $$-\Delta u = \sum_{i=1}^4 q_i\, e^{-|x - c_i|^2 / 0.004} \;\text{ in } (0,1)^2, \qquad u = 0 \;\text{ on the boundary.}$$

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error
from scipy.fft import dstn, idstn

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-5
charges = [(1, 0.3, 0.3), (-1, 0.7, 0.35), (1, 0.65, 0.75), (-1, 0.25, 0.7)]
density = lambda x, y: sum(
    100 * q * jnp.exp(-((x - a) ** 2 + (y - b) ** 2) / 0.004) for q, a, b in charges
)
box = pdecl.Box(x=(0, 1), y=(0, 1))
laplace = lambda u: u.d("x", "x") + u.d("y", "y")
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, phi: laplace(u) + density(z.x, z.y), on=box.interior, name="Poisson"),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces(), name="boundary"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The reference is a sum of sines, by a fast transform on 256 × 256 cells. The lines are those of the field $-\nabla u$, from the answer's own derivatives.

# %%
n = 256
inner = np.arange(1, n) / n
waves = (np.pi * np.arange(1, n)) ** 2
sources = np.asarray(density(inner[:, None], inner))
exact = idstn(dstn(sources, 1) / (waves[:, None] + waves), 1)
error = relative_error(u.on_grid(inner, inner), exact)

line = np.linspace(0, 1, 101)
values, across, up = (np.asarray(u.on_grid(line, line, by=by)).T for by in ((), ("x",), ("y",)))
fig, axes = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
bound = np.abs(values).max()
shown = axes.pcolormesh(line, line, values, cmap="RdBu_r", shading="gouraud", vmin=-bound, vmax=bound)
axes.streamplot(line, line, -across, -up, color="black", linewidth=0.5, arrowsize=0.7, density=1.4)
fig.colorbar(shown, ax=axes)
axes.set(title="potential and field", xlabel="x", ylabel="y", aspect="equal", xlim=(0, 1), ylim=(0, 1))

# %% [markdown]
# **Change next:** an insulated side, `u.d("x")` on `box.face(x=1)`: leave it out of the faces that are earthed.
