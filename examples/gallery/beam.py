# title: A vibrating beam
# statement: u_tt + u_xxxx = 0
# kind: linear, time, order 4
# dimensions: 1 + time

# %% [markdown]
# The Euler–Bernoulli beam, hinged at both ends:
#
# $$u_{tt} + u_{xxxx} = 0, \qquad u = u_{xx} = 0 \;\text{ at } x = 0, \pi, \qquad u(x,0) = \sin x, \quad u_t(x,0) = 0 .$$

# %%
import jax
import jax.numpy as jnp
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-8
box = pdecl.Box(x=(0, jnp.pi), t=(0, 1))
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(
            lambda u, z, phi: u.d("t", "t") + u.d("x", "x", "x", "x"), on=box.interior, name="beam"
        ),
        pdecl.Fit(lambda u, z, phi: u() - jnp.sin(z.x), on=box.face(t=0), name="start"),
        pdecl.Fit(lambda u, z, phi: u.d("t"), on=box.face(t=0), name="at rest"),
        pdecl.Fit(lambda u, z, phi: (u(), u.d("x", "x")), on=box.faces("x"), name="hinges"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
#

# %%
points = box.mesh(101, 101)
x, t = points.T
exact = jnp.sin(x) * jnp.cos(t)
error = relative_error(u(points), exact)
maps(box, {"u": u(points), "error": u(points) - exact}, "t", "x", 101)

# %% [markdown]
# **Change next:** a free end, `(u.d("x", "x"), u.d("x", "x", "x"))` on `box.face(x=jnp.pi)`.
