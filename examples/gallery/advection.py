# title: Fast advection
# statement: u_t + 40 u_x = 0
# kind: linear, time, periodic
# dimensions: 1 + time

# %% [markdown]
# A wave is carried around a ring about six times:
#
# $$u_t + 40\,u_x = 0, \qquad u(0,t) = u(2\pi,t), \qquad u(x,0) = \sin x .$$
#
# The speed $\beta = 40$ is the case on which physics-informed networks are known to fail without help. For a solver that
# marches along $t$ it is an easy one.

# %%
import jax
import jax.numpy as jnp
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-8
box = pdecl.Box(x=(0, 2 * jnp.pi), t=(0, 1))
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, phi: u.d("t") + 40 * u.d("x"), on=box.interior, name="transport"),
        pdecl.Fit(lambda u, z, phi: u() - jnp.sin(z.x), on=box.face(t=0), name="start"),
        pdecl.Fit(lambda u, z, phi: u() - u.at("opposite")(), on=box.periodic("x"), name="ring"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The exact solution is the start, moved.

# %%
points = box.mesh(201, 201)
x, t = points.T
exact = jnp.sin(x - 40 * t)
error = relative_error(u(points), exact)
maps(box, {"u": u(points), "error": u(points) - exact}, "t", "x", 201)

# %% [markdown]
# **Change next:** a start with a kink, `jnp.abs(jnp.sin(z.x))`: the pieces follow it, and it costs more.
