# title: Helmholtz's equation
# statement: Δu + k² u = f
# kind: linear
# dimensions: 2

# %% [markdown]
# A standing wave of several wave lengths in a square room, driven by a source:
#
# $$\Delta u + k^2 u = f, \qquad u = 0 \;\text{ on the boundary}, \qquad k = 25 .$$
#
# The operator is indefinite, on which multigrid and plain iterations stall; here rows are factorised.

# %%
import jax
import jax.numpy as jnp
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-6
k = 25.0
box = pdecl.Box(x=(0, 1), y=(0, 1))
mode = lambda x, y: jnp.sin(6 * jnp.pi * x) * jnp.sin(5 * jnp.pi * y)
f = lambda z: (
    (k**2 - 61 * jnp.pi**2) * mode(z.x, z.y)
    + (k**2 - 10 * jnp.pi**2) * jnp.sin(jnp.pi * z.x) * jnp.sin(3 * jnp.pi * z.y)
)
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(
            lambda u, z, phi: u.d("x", "x") + u.d("y", "y") + k**2 * u() - f(z),
            on=box.interior,
            name="waves",
        ),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces(), name="walls"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
#

# %%
points = box.mesh(151, 151)
x, y = points.T
exact = mode(x, y) + jnp.sin(jnp.pi * x) * jnp.sin(3 * jnp.pi * y)
error = relative_error(u(points), exact)
maps(box, {"u": u(points), "error": u(points) - exact}, "x", "y", 151)

# %% [markdown]
# **Change next:** a wave number near a resonance of the room, $k^2 = 61\pi^2$: what does the solver say there?
