# title: Poisson's equation
# statement: Δu = f
# kind: linear
# dimensions: 2

# %% [markdown]
# $$-\Delta u = 5\pi^2 \sin \pi x \, \sin 2\pi y \;\text{ in } (0,1)^2, \qquad u = 0 \;\text{ on the boundary.}$$

# %%
import jax
import jax.numpy as jnp
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-8
box = pdecl.Box(x=(0, 1), y=(0, 1))
source = lambda z: 5 * jnp.pi**2 * jnp.sin(jnp.pi * z.x) * jnp.sin(2 * jnp.pi * z.y)
laplace = lambda u: u.d("x", "x") + u.d("y", "y")
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, phi: laplace(u) + source(z), on=box.interior, name="Poisson"),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces(), name="boundary"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The solution is known, because the source was made for it.

# %%
points = box.mesh(101, 101)
x, y = points.T
exact = jnp.sin(jnp.pi * x) * jnp.sin(2 * jnp.pi * y)
error = relative_error(u(points), exact)
maps(box, {"u": u(points), "error": u(points) - exact}, "x", "y", 101)

# %% [markdown]
# **Change next:** a flux on one side, `u.d("x") - 1` on `box.face(x=1)`; a source in a small spot, `jnp.exp(-((z.x - 0.3)**2 + (z.y - 0.6)**2) / 0.001)`.
