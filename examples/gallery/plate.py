# title: A bent plate
# statement: Δ²u = q
# kind: linear, order 4
# dimensions: 2

# %% [markdown]
# The deflection of a square plate, simply supported on its four sides, under a load $q$:
#
# $$\Delta^2 u = q, \qquad u = 0, \quad u_{nn} = 0 \;\text{ on the boundary.}$$
#
# Derivatives of fourth order are stated like any others.

# %%
import jax
import jax.numpy as jnp
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-6
box = pdecl.Box(x=(0, 1), y=(0, 1))
load = lambda z: 4 * jnp.pi**4 * jnp.sin(jnp.pi * z.x) * jnp.sin(jnp.pi * z.y)
biharmonic = lambda u: u.d("x", "x", "x", "x") + 2 * u.d("x", "x", "y", "y") + u.d("y", "y", "y", "y")
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, phi: biharmonic(u) - load(z), on=box.interior, name="plate"),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces(), name="supported"),
        pdecl.Fit(lambda u, z, phi: u.d("x", "x"), on=box.faces("x"), name="no moment in x"),
        pdecl.Fit(lambda u, z, phi: u.d("y", "y"), on=box.faces("y"), name="no moment in y"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The exact deflection is one mode; the bending moment is a second derivative of the answer.

# %%
points = box.mesh(81, 81)
x, y = points.T
exact = jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y)
error = relative_error(u(points), exact)
moment = -(u.d("x", "x")(points) + 0.3 * u.d("y", "y")(points))
maps(box, {"deflection": u(points), "moment": moment, "error": u(points) - exact}, "x", "y", 81)

# %% [markdown]
# **Change next:** a clamped side: `u.d("x")` for `u.d("x", "x")` on `box.face(x=0)`.
