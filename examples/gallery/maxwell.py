# title: Light in a box (Maxwell, TE)
# statement: ε E_t = curl H, μ H_t = −curl E
# kind: linear, system, time
# dimensions: 2 + time

# %% [markdown]
# The transverse electric field $E$ and the magnetic field $(H, G)$ in a cavity with conducting walls:
#
# $$E_t = G_x - H_y, \qquad H_t = -E_y, \qquad G_t = E_x, \qquad E = 0 \;\text{ on the walls.}$$
#
# The mode $\sin \pi x \sin \pi y \cos \sqrt2 \pi t$ of $E$ is exact.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-4
box = pdecl.Box(x=(0, 1), y=(0, 1), t=(0, 1))
pi, c = jnp.pi, jnp.sqrt(2) * jnp.pi
E = lambda x, y, t: jnp.sin(pi * x) * jnp.sin(pi * y) * jnp.cos(c * t)
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
times = (0.0, 0.25, 0.5)
square = np.asarray(pdecl.Box(x=(0, 1), y=(0, 1)).mesh(61, 61))
points = np.concatenate([np.insert(square, 2, t, axis=1) for t in times])
found = u(points)
error = relative_error(found["E"], E(*points.T))
pictures = {
    f"E, t = {t}": part for t, part in zip(times, np.split(np.asarray(found["E"]), 3), strict=True)
}
maps(pdecl.Box(x=(0, 1), y=(0, 1)), pictures, "x", "y", 61)

# %% [markdown]
# **Change next:** two modes that beat; a piece of glass, `4.0 * w.E.d("t")` where `z.x > 0.5` (write `jnp.where`).
