# title: A plate under its own weight
# statement: Δ²u = 1
# kind: linear, order 4
# dimensions: 2

# %% [markdown]
# The deflection of a square plate, simply supported on its four sides, under a uniform load:
#
# $$\Delta^2 u = 1, \qquad u = 0, \quad u_{nn} = 0 \;\text{ on the boundary.}$$
#
# Derivatives of fourth order are stated like any others.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-5
box = pdecl.Box(x=(0, 1), y=(0, 1))
biharmonic = lambda u: u.d("x", "x", "x", "x") + 2 * u.d("x", "x", "y", "y") + u.d("y", "y", "y", "y")
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, phi: biharmonic(u) - 1, on=box.interior, name="plate"),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces(), name="supported"),
        pdecl.Fit(lambda u, z, phi: u.d("x", "x"), on=box.faces("x"), name="no moment in x"),
        pdecl.Fit(lambda u, z, phi: u.d("y", "y"), on=box.faces("y"), name="no moment in y"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The reference is Navier's series of 1820. The twisting moment, a mixed second derivative of the answer, is largest in the corners:
# they would lift if they were not held.

# %%
line = np.linspace(0, 1, 81)
k = np.arange(1, 200, 2)
modes = np.sin(np.pi * np.outer(line, k))
exact = modes @ (16 / (np.pi**6 * np.outer(k, k) * (k[:, None] ** 2 + k**2) ** 2)) @ modes.T
found = np.asarray(u.on_grid(line, line))
error = relative_error(found, exact)
twist = 0.7 * np.asarray(u.on_grid(line, line, by=("x", "y")))

fig = plt.figure(figsize=(9, 3.6), layout="constrained")
left = fig.add_subplot(1, 2, 1, projection="3d")
X, Y = np.meshgrid(line, line, indexing="ij")
left.plot_surface(X, Y, -1000 * found, cmap="viridis_r", rstride=2, cstride=2, linewidth=0)
left.set(title="1000 × deflection", xlabel="x", ylabel="y")
right = fig.add_subplot(1, 2, 2)
shown = right.pcolormesh(line, line, twist.T, cmap="RdBu_r", shading="gouraud")
fig.colorbar(shown, ax=right)
right.set(title="twisting moment", xlabel="x", ylabel="y", aspect="equal")

# %% [markdown]
# **Change next:** a clamped side: `u.d("x")` for `u.d("x", "x")` on `box.face(x=0)`.
