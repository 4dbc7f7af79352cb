# title: Chaos (Kuramoto–Sivashinsky)
# statement: u_t + 6.25 u u_x + 0.39 u_xx + 0.0015 u_xxxx = 0
# kind: nonlinear, time, periodic, order 4, chaos
# dimensions: 1 + time

# %% [markdown]
# A flame front that never settles. The equation in the scaling of PINNacle, on a ring of length $2\pi$:
#
# $$u_t + \tfrac{100}{16} u\,u_x + \tfrac{100}{16^2} u_{xx} + \tfrac{100}{16^4} u_{xxxx} = 0, \qquad u(x,0) = \cos x\,(1 + \sin x) .$$
#
# Small differences grow, so errors do too. The error estimate sees that: a richer solution is marched beside, and what the equation makes of their difference
# is what is stated. The best of eleven networks has an error of 96%.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from _shared import maps, relative_error, waves

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-4
end = 1.0
box = pdecl.Box(x=(0, 2 * np.pi), t=(0, end))
pde = lambda u, z, phi: (
    u.d("t")
    + 100 / 16 * u() * u.d("x")
    + 100 / 16**2 * u.d("x", "x")
    + 100 / 16**4 * u.d("x", "x", "x", "x")
)
jump = lambda u, k: u.d(*["x"] * k) - u.at("opposite").d(*["x"] * k)
start = lambda x: jnp.cos(x) * (1 + jnp.sin(x))
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(pde, on=box.interior, name="KS"),
        pdecl.Fit(lambda u, z, phi: u() - start(z.x), on=box.face(t=0), name="start"),
        pdecl.Fit(
            lambda u, z, phi: tuple(jump(u, k) for k in range(4)), on=box.periodic("x"), name="ring"
        ),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The reference is an independent method: 512 waves and exponential time differencing.

# %%
x, times = np.linspace(0, 2 * np.pi, 513)[:-1], np.linspace(0, end, 11)
exact = waves(
    lambda k: 100 / 16**2 * k**2 - 100 / 16**4 * k**4,
    lambda k, v: -100 / 32 * 1j * k * np.fft.rfft(v**2),
    np.asarray(start(x)), 2 * np.pi, times, steps=2000,
)  # fmt: skip
points = np.stack(np.meshgrid(x, times), axis=-1).reshape(-1, 2)
error = relative_error(u(points), exact.ravel())
maps(box, {"u": u(box.mesh(301, 301))}, "t", "x", 301)

# %% [markdown]
# **Change next:** `end = 2.0`: every digit asked for at the end costs more at the start.
