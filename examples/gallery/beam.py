# title: A vibrating beam
# statement: u_tt + u_xxxx = 0
# kind: linear, time, order 4
# dimensions: 1 + time

# %% [markdown]
# The Euler–Bernoulli beam, hinged at both ends, plucked near its middle:
#
# $$u_{tt} + u_{xxxx} = 0, \qquad u = u_{xx} = 0 \;\text{ at } x = 0, \pi, \qquad u_t(x, 0) = 0 .$$
#
# Short waves run faster than long ones: the mode $\sin kx$ swings with the frequency $k^2$. So the bump falls apart at once, and is back after $2\pi$.

# %%
import jax
import jax.numpy as jnp
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-6
end = 2 * jnp.pi
heights = jnp.array([1.0, 0.3, -0.6, -0.3, 0.2])
k = jnp.arange(1, 6)
start = lambda x: heights @ jnp.sin(k * x)
box = pdecl.Box(x=(0, jnp.pi), t=(0, end))
beam = lambda u, z, phi: u.d("t", "t") + u.d("x", "x", "x", "x")
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(beam, on=box.interior, name="beam"),
        pdecl.Fit(lambda u, z, phi: u() - start(z.x), on=box.face(t=0), name="start"),
        pdecl.Fit(lambda u, z, phi: u.d("t"), on=box.face(t=0), name="at rest"),
        pdecl.Fit(lambda u, z, phi: (u(), u.d("x", "x")), on=box.faces("x"), name="hinges"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The exact solution is the sum of five modes, $\sum_k a_k \sin kx \cos k^2 t$.

# %%
n = 201
points = box.mesh(n, n)
x, t = points.T
exact = (heights * jnp.sin(k * x[:, None]) * jnp.cos(k**2 * t[:, None])).sum(axis=1)
error = relative_error(u(points), exact)
maps(box, {"u": u(points), "bending moment −u_xx": -u.d("x", "x")(points)}, "t", "x", n)

# %% [markdown]
# **Change next:** a free end, `(u.d("x", "x"), u.d("x", "x", "x"))` on `box.face(x=jnp.pi)`.
