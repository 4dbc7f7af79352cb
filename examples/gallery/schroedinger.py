# title: A soliton of light (nonlinear Schrödinger)
# statement: i u_t + ½ u_xx + |u|² u = 0
# kind: nonlinear, time, periodic, system
# dimensions: 1 + time

# %% [markdown]
# A pulse in a glass fibre keeps its form:
#
# $$i\,u_t + \tfrac12 u_{xx} + |u|^2 u = 0, \qquad u = v + i\,w .$$
#
# Complex equations are stated as two real ones. The bright soliton $\operatorname{sech}(x - ct)\, e^{i(cx + (1 - c^2) t/2)}$ with $c = 1$ is exact, and zero to nine digits at
# the ends of the ring. (The phase $e^{icx}$ fits the ring of length $12\pi$.)

# %%
import jax
import jax.numpy as jnp
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-4
end = 2.0
box = pdecl.Box(x=(-6 * jnp.pi, 6 * jnp.pi), t=(0, end))
exact = lambda x, t: jnp.exp(1j * x) / jnp.cosh(x - t)
square = lambda q: q.v() ** 2 + q.w() ** 2
pde = lambda q, z, phi: (
    -q.w.d("t") + 0.5 * q.v.d("x", "x") + square(q) * q.v(),
    q.v.d("t") + 0.5 * q.w.d("x", "x") + square(q) * q.w(),
)
start = lambda q, z, phi: (q.v() - exact(z.x, 0).real, q.w() - exact(z.x, 0).imag)
jump = lambda u: (u() - u.at("opposite")(), u.d("x") - u.at("opposite").d("x"))
ring = lambda q, z, phi: (*jump(q.v), *jump(q.w))
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(pde, on=box.interior, name="NLS"),
        pdecl.Fit(start, on=box.face(t=0), name="start"),
        pdecl.Fit(ring, on=box.periodic("x"), name="ring"),
    ],
    unknowns=("v", "w"),
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
#

# %%
n = 201
points = box.mesh(n, n)
found, truth = u(points), exact(*points.T)
error = relative_error(found["v"] + 1j * found["w"], truth)
maps(box, {"|u|": abs(found["v"] + 1j * found["w"]), "real part": found["v"]}, "x", "t", n)

# %% [markdown]
# **Change next:** two solitons that meet: the sum of two pulses with opposite speeds as the start.
