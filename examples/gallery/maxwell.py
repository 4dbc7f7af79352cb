# title: Light in a box (Maxwell, TE)
# statement: ε E_t = curl H, μ H_t = −curl E
# kind: linear, system, time
# dimensions: 2 + time

# %% [markdown]
# The electric field $E$ across the plane (transverse electric waves) and the magnetic field $(H, G)$ in it, in a cavity with conducting walls:
#
# $$E_t = G_x - H_y, \qquad H_t = -E_y, \qquad G_t = E_x, \qquad E = 0 \;\text{ on the walls.}$$
#
# Modes $\sin m\pi x \sin n\pi y \cos \sqrt{m^2 + n^2}\, \pi t$ of $E$ are exact. Three of them beat here. Arrows show the magnetic field.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-3
box = pdecl.Box(x=(0, 1), y=(0, 1), t=(0, 1))
pi, modes = jnp.pi, [(1, 1), (2, 1), (1, 3)]
mode = lambda m, n, x, y, t: (
    jnp.sin(m * pi * x) * jnp.sin(n * pi * y) * jnp.cos(jnp.hypot(m, n) * pi * t)
)
E = lambda x, y, t: sum(mode(m, n, x, y, t) for m, n in modes)
maxwell = lambda w, z, phi: (
    w.E.d("t") - w.G.d("x") + w.H.d("y"),
    w.H.d("t") + w.E.d("y"),
    w.G.d("t") - w.E.d("x"),
)
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(maxwell, on=box.interior, name="Maxwell"),
        pdecl.Fit(
            lambda w, z, phi: (w.E() - E(z.x, z.y, 0.0), w.H(), w.G()), on=box.face(t=0), name="start"
        ),
        pdecl.Fit(lambda w, z, phi: w.E(), on=box.faces("x", "y"), name="conductor"),
    ],
    unknowns=("E", "H", "G"),
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %%
times = (0.2, 0.5, 0.8)
square = np.asarray(pdecl.Box(x=(0, 1), y=(0, 1)).mesh(61, 61))
points = np.concatenate([np.insert(square, 2, t, axis=1) for t in times])
found = u(points)
error = relative_error(found["E"], E(*points.T))
pictures = {
    f"E, t = {t}": part for t, part in zip(times, np.split(np.asarray(found["E"]), 3), strict=True)
}
maps(pdecl.Box(x=(0, 1), y=(0, 1)), pictures, "x", "y", 61)
for k, axes in enumerate(plt.gcf().axes[:3]):
    H, G = (np.asarray(found[name]).reshape(3, 61, 61)[k, 3::6, 3::6].T for name in "HG")
    axes.quiver(*np.meshgrid(*[np.linspace(0, 1, 61)[3::6]] * 2), H, G, pivot="mid")

# %% [markdown]
# **Change next:** a piece of glass, `4.0 * w.E.d("t")` where `z.x > 0.5` (write `jnp.where`).
