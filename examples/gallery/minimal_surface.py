# title: A soap film (minimal surface)
# statement: min ∫ √(1 + |∇u|²)
# kind: nonlinear, energy, basis
# dimensions: 2
# quick: size = 120

# %% [markdown]
# A soap film takes the form of least area:
#
# $$\min_u \int_{(-1,1)^2} \sqrt{1 + |\nabla u|^2}, \qquad u \;\text{ given on the boundary.}$$
#
# What is minimised is stated as it stands, as an `Energy`; boundary values are enforced. The functions are those of a network that was not
# trained. Scherk's surface, $u = \log(\cos y / \cos x)$, is exact.

# %%
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
size = 160
box = pdecl.Box(x=(-1, 1), y=(-1, 1))
exact = lambda x, y: jnp.log(jnp.cos(y) / jnp.cos(x))
area = lambda u, z, phi: jnp.sqrt(1 + u.d("x") ** 2 + u.d("y") ** 2)
problem = pdecl.Problem(
    box,
    [
        pdecl.Energy(area, on=box.interior.gauss(8, cells=3), name="area"),
        pdecl.Enforce(
            lambda u, z, phi: u() - exact(z.x, z.y), on=box.faces().low_discrepancy(80), name="wire"
        ),
    ],
)
basis = pdecl.nn.MLP(problem, size=size, width=size, depth=1, key=jr.key(0))
u = pdecl.solve(problem, basis, solver=pdecl.solvers.GaussNewton(rtol=1e-4))
print(u)

# %%
points = box.mesh(81, 81)
error = relative_error(u(points), exact(*points.T))
x, y, film = (np.asarray(values).reshape(81, 81) for values in (*points.T, u(points)))
fig = plt.figure(figsize=(9, 3.8), layout="constrained")
axes = fig.add_subplot(1, 2, 1, projection="3d", title="the film in its wire", zlim=(-0.65, 0.65))
axes.plot_surface(x, y, film, cmap="RdBu_r", linewidth=0, antialiased=True, rcount=81, ccount=81)
for edge in np.s_[:, 0], np.s_[:, -1], np.s_[0], np.s_[-1]:
    axes.plot(x[edge], y[edge], film[edge], "k")
axes.view_init(28, -50)
right = fig.add_subplot(1, 2, 2, title="error", xlabel="x", ylabel="y", aspect="equal")
off = film - np.asarray(exact(x, y))
shown = right.pcolormesh(
    x, y, off, shading="gouraud", cmap="RdBu_r", vmin=-abs(off).max(), vmax=abs(off).max()
)
fig.colorbar(shown, ax=right)

# %% [markdown]
# **Change next:** another wire, `0.5 * jnp.sin(3 * jnp.pi * z.x)` on two sides and 0 on the others.
