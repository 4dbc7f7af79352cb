# title: Slow flow in a channel (Stokes)
# statement: −Δu + ∇p = f, div u = 0
# kind: linear, system
# dimensions: 2

# %% [markdown]
# Velocity $(u, v)$ and pressure $p$ of a slow flow:
#
# $$-\Delta u + p_x = f, \qquad -\Delta v + p_y = g, \qquad u_x + v_y = 0 .$$
#
# The pressure has no boundary values and is fixed by one point. No pair of stable elements has to be chosen.

# %%
import jax
import jax.numpy as jnp
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-4
box = pdecl.Box(x=(0, 1), y=(0, 1))
pi, sin, cos = jnp.pi, jnp.sin, jnp.cos
exact = lambda x, y: (
    sin(pi * x) ** 2 * sin(2 * pi * y), -sin(2 * pi * x) * sin(pi * y) ** 2, cos(pi * x) * sin(pi * y)
)  # fmt: skip
f = lambda x, y: (
    2 * pi**2 * sin(2 * pi * y) * (2 * sin(pi * x) ** 2 - cos(2 * pi * x))
    - pi * sin(pi * x) * sin(pi * y)
)
g = lambda x, y: (
    2 * pi**2 * sin(2 * pi * x) * (cos(2 * pi * y) - 2 * sin(pi * y) ** 2)
    + pi * cos(pi * x) * cos(pi * y)
)
pde = lambda w, z, phi: (
    -w.u.d("x", "x") - w.u.d("y", "y") + w.p.d("x") - f(z.x, z.y),
    -w.v.d("x", "x") - w.v.d("y", "y") + w.p.d("y") - g(z.x, z.y),
    w.u.d("x") + w.v.d("y"),
)
walls = lambda w, z, phi: (w.u(), w.v())
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(pde, on=box.interior, name="Stokes"),
        pdecl.Fit(walls, on=box.faces(), name="walls"),
        pdecl.Fit(lambda w, z, phi: w.p() - 1, on=pdecl.Points([[0.0, 0.5]]), name="pressure"),
    ],
    unknowns=("u", "v", "p"),
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %%
points = box.mesh(61, 61)
found, truth = u(points), exact(*points.T)
error = max(relative_error(found[name], value) for name, value in zip("uvp", truth, strict=True))
maps(box, {name: found[name] for name in "uvp"}, "x", "y", 61)

# %% [markdown]
# **Change next:** a body force that turns, and walls that move.
