# title: A travelling front (Fisher–KPP)
# statement: u_t = u_xx + u(1 − u)
# kind: nonlinear, time
# dimensions: 1 + time

# %% [markdown]
# A population grows and spreads:
#
# $$u_t = u_{xx} + u(1-u) \;\text{ on } (-20, 40) \times (0, 10) .$$
#
# $u = 0$ solves the equation too, and a least-squares solve that starts there may stay: a march in time does not. For the speed $5/\sqrt 6$
# the front is known in closed form (Ablowitz and Zeppetella, 1979): $u = \bigl(1 + e^{(x - 5t/\sqrt6)/\sqrt6}\bigr)^{-2}$.

# %%
import jax
import jax.numpy as jnp
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-6
front = lambda x, t: (1 + jnp.exp((x - 5 * t / jnp.sqrt(6)) / jnp.sqrt(6))) ** -2
box = pdecl.Box(x=(-20, 40), t=(0, 10))
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(
            lambda u, z, phi: u.d("t") - u.d("x", "x") - u() * (1 - u()), on=box.interior, name="growth"
        ),
        pdecl.Fit(lambda u, z, phi: u() - front(z.x, 0.0), on=box.face(t=0), name="start"),
        pdecl.Fit(lambda u, z, phi: u() - front(z.x, z.t), on=box.faces("x"), name="far away"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
#

# %%
points = box.mesh(201, 201)
exact = front(*points.T)
error = relative_error(u(points), exact)
maps(box, {"u": u(points), "error": u(points) - exact}, "t", "x", 201)

# %% [markdown]
# **Change next:** a growth rate that depends on the place; a start of a single small spot, and the speed at which it spreads.
