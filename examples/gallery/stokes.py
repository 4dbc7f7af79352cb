# title: Slow flow in a box (Stokes)
# statement: −Δu + ∇p = f, div u = 0
# kind: linear, system
# dimensions: 2

# %% [markdown]
# Velocity $(u, v)$ and pressure $p$ of a slow flow:
#
# $$-\Delta u + p_x = f, \qquad -\Delta v + p_y = g, \qquad u_x + v_y = 0 .$$
#
# The pressure has no boundary values and is fixed by one point. No pair of stable elements has to be chosen.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-4
box = pdecl.Box(x=(0, 1), y=(0, 1))
pi, sin, cos = jnp.pi, jnp.sin, jnp.cos
exact = lambda x, y: (
    sin(pi * x) ** 2 * sin(2 * pi * y), -sin(2 * pi * x) * sin(pi * y) ** 2, cos(pi * x) * sin(pi * y)
)  # fmt: skip
f = lambda x, y: (
    2 * pi**2 * sin(2 * pi * y) * (2 * sin(pi * x) ** 2 - cos(2 * pi * x))
    - pi * sin(pi * x) * sin(pi * y)
)
g = lambda x, y: (
    2 * pi**2 * sin(2 * pi * x) * (cos(2 * pi * y) - 2 * sin(pi * y) ** 2)
    + pi * cos(pi * x) * cos(pi * y)
)
pde = lambda w, z, phi: (
    -w.u.d("x", "x") - w.u.d("y", "y") + w.p.d("x") - f(z.x, z.y),
    -w.v.d("x", "x") - w.v.d("y", "y") + w.p.d("y") - g(z.x, z.y),
    w.u.d("x") + w.v.d("y"),
)
walls = lambda w, z, phi: (w.u(), w.v())
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(pde, on=box.interior, name="Stokes"),
        pdecl.Fit(walls, on=box.faces(), name="walls"),
        pdecl.Fit(lambda w, z, phi: w.p() - 1, on=pdecl.Points([[0.0, 0.5]]), name="pressure"),
    ],
    unknowns=("u", "v", "p"),
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %%
points = box.mesh(61, 61)
found, truth = u(points), exact(*points.T)
error = max(relative_error(found[name], value) for name, value in zip("uvp", truth, strict=True))
line = np.linspace(0, 1, 61)
u, v, p = (np.asarray(found[name]).reshape(61, 61).T for name in "uvp")
fig, axes = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
shown = axes.pcolormesh(line, line, p, cmap="RdBu_r", shading="gouraud")
axes.streamplot(
    line, line, u, v, color="black", linewidth=2 * np.hypot(u, v), arrowsize=0.8, density=1.3
)
fig.colorbar(shown, ax=axes, label="pressure")
axes.set(title="flow and pressure", xlabel="x", ylabel="y", aspect="equal", xlim=(0, 1), ylim=(0, 1))

# %% [markdown]
# **Change next:** a body force that turns, and walls that move.
