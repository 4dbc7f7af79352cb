# title: Allen–Cahn: two phases
# statement: u_t = 1e-4 u_xx + 5(u − u³)
# kind: nonlinear, time, periodic, layer
# dimensions: 1 + time

# %% [markdown]
# Two phases, $u = 1$ and $u = -1$, part and leave thin walls between them:
#
# $$u_t = 10^{-4}\,u_{xx} + 5\,(u - u^3), \qquad u(x,0) = x^2 \cos \pi x, \qquad \text{periodic in } x .$$

# %%
import jax
import jax.numpy as jnp
import numpy as np
from _shared import maps, relative_error, waves

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-5
box = pdecl.Box(x=(-1, 1), t=(0, 1))
pde = lambda u, z, phi: u.d("t") - 1e-4 * u.d("x", "x") + 5 * (u() ** 3 - u())
ring = lambda u, z, phi: (u() - u.at("opposite")(), u.d("x") - u.at("opposite").d("x"))
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(pde, on=box.interior, name="Allen–Cahn"),
        pdecl.Fit(
            lambda u, z, phi: u() - z.x**2 * jnp.cos(jnp.pi * z.x), on=box.face(t=0), name="start"
        ),
        pdecl.Fit(ring, on=box.periodic("x"), name="ring"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The reference is an independent method: 4096 waves, since the start has a kink at the seam, and exponential time differencing.

# %%
x, times = np.linspace(-1, 1, 4097)[:-1], np.linspace(0, 1, 21)
exact = waves(
    lambda k: 5 - 1e-4 * k**2,
    lambda k, v: np.fft.rfft(-5 * v**3),
    x**2 * np.cos(np.pi * x),
    2.0,
    times,
    steps=200,
)
points = np.stack(np.meshgrid(x, times), axis=-1).reshape(-1, 2)
error = relative_error(u(points), exact.ravel())
maps(box, {"u": u(box.mesh(201, 201)), "u_x": u.d("x")(box.mesh(201, 201))}, "t", "x", 201)

# %% [markdown]
# **Change next:** thinner walls, `1e-5`; another start with many zeros.
