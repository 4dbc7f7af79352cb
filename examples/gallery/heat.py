# title: Heat in a rod
# statement: u_t = k u_xx
# kind: linear, time
# dimensions: 1 + time

# %% [markdown]
# The temperature of a rod whose ends are kept at zero:
#
# $$u_t = k\,u_{xx}, \qquad u(0,t) = u(1,t) = 0, \qquad u(x,0) = \sin \pi x + \tfrac12 \sin 3\pi x .$$
#
# The conductivity $k$ is the parameter φ of the problem: one statement serves every value of it.

# %%
import jax
import jax.numpy as jnp
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-8
box = pdecl.Box(x=(0, 1), t=(0, 1))
start = lambda x: jnp.sin(jnp.pi * x) + 0.5 * jnp.sin(3 * jnp.pi * x)
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, k: u.d("t") - k * u.d("x", "x"), on=box.interior, name="heat"),
        pdecl.Fit(lambda u, z, k: u() - start(z.x), on=box.face(t=0), name="start"),
        pdecl.Fit(lambda u, z, k: u(), on=box.faces("x"), name="ends"),
    ],
)
u = pdecl.solve(problem, 0.1, tolerance=tolerance)
print(u)

# %% [markdown]
# Each mode $\sin j\pi x$ decays at its own rate $k j^2\pi^2$.

# %%
points = box.mesh(101, 101)
x, t = points.T
mode = lambda j: jnp.exp(-0.1 * (j * jnp.pi) ** 2 * t) * jnp.sin(j * jnp.pi * x)
exact = mode(1) + 0.5 * mode(3)
error = relative_error(u(points), exact)
maps(box, {"u": u(points), "u_x": u.d("x")(points), "error": u(points) - exact}, "t", "x", 101)

# %% [markdown]
# **Change next:** a conductivity that depends on the place, `k * (1 + z.x)`; an insulated end, `u.d("x")` on `box.face(x=1)`.
