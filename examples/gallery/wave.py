# title: The wave equation
# statement: u_tt = 4 u_xx
# kind: linear, time
# dimensions: 1 + time
# quick: tolerance = 1e-3

# %% [markdown]
# A string between two walls, plucked in two of its modes at once:
#
# $$u_{tt} = 4\,u_{xx}, \qquad u(0,t) = u(1,t) = 0, \qquad u(x,0) = \sin \pi x + \tfrac12 \sin 4\pi x, \qquad u_t(x,0) = 0.$$
#
# This is *Wave1d-C* of PINNacle, whose eleven methods end at a relative error of 9.8% at best. Nothing is chosen
# here but the tolerance.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-6
box = pdecl.Box(x=(0, 1), t=(0, 1))
start = lambda x: jnp.sin(jnp.pi * x) + 0.5 * jnp.sin(4 * jnp.pi * x)
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, phi: u.d("t", "t") - 4 * u.d("x", "x"), on=box.interior, name="wave"),
        pdecl.Fit(lambda u, z, phi: u() - start(z.x), on=box.face(t=0), name="start"),
        pdecl.Fit(lambda u, z, phi: u.d("t"), on=box.face(t=0), name="at rest"),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces("x"), name="walls"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The exact solution is a sum of two standing waves. `u.error_estimate` was made without it.

# %%
points = box.mesh(201, 201)
x, t = points.T
exact = jnp.sin(jnp.pi * x) * jnp.cos(2 * jnp.pi * t) + 0.5 * jnp.sin(4 * jnp.pi * x) * jnp.cos(
    8 * jnp.pi * t
)
error = jnp.linalg.norm(u(points) - exact) / jnp.linalg.norm(exact)
print(f"relative error {error:.1e}, stated {u.error_estimate:.1e}")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
for axes, values, title in ((left, u(points), "u"), (right, u(points) - exact, "error")):
    image = axes.pcolormesh(*(np.asarray(c).reshape(201, 201) for c in (t, x, values)), cmap="RdBu_r")
    fig.colorbar(image, ax=axes)
    axes.set(title=title, xlabel="t", ylabel="x")

# %% [markdown]
# **Change next:** `tolerance = 1e-9`; another start, such as a pluck `jnp.minimum(x, 1 - x)` whose kink travels for ever.
