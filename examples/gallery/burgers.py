# title: A shock of Burgers' equation
# statement: u_t + u u_x = (0.01/π) u_xx
# kind: nonlinear, time, layer
# dimensions: 1 + time

# %% [markdown]
# A wave that steepens until only viscosity holds it:
#
# $$u_t + u\,u_x = \tfrac{0.01}{\pi}\,u_{xx}, \qquad u(\pm 1, t) = 0, \qquad u(x,0) = -\sin \pi x .$$
#
# At $t = 1/\pi$ a front of width 0.003 stands at $x = 0$. *Burgers1d* of PINNacle: 1.45% is the best of eleven methods there.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-6
nu = 0.01 / np.pi
box = pdecl.Box(x=(-1, 1), t=(0, 1))
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(
            lambda u, z, phi: u.d("t") + u() * u.d("x") - nu * u.d("x", "x"),
            on=box.interior,
            name="Burgers",
        ),
        pdecl.Fit(lambda u, z, phi: u() + jnp.sin(jnp.pi * z.x), on=box.face(t=0), name="start"),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces("x"), name="walls"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The reference is the Cole–Hopf formula, $u = -\int \sin\pi(x-\eta)\, f(x-\eta)\, e^{-\eta^2/4\nu t} d\eta \,/ \int f(x-\eta)\, e^{-\eta^2/4\nu t} d\eta$ with
# $f(y) = e^{-\cos \pi y / 2\pi\nu}$, by Gauss–Hermite quadrature.

# %%
points = np.asarray(box.mesh(201, 101))
points = points[points[:, 1] > 0]
nodes, weights = np.polynomial.hermite.hermgauss(200)
y = points[:, :1] - nodes * np.sqrt(4 * nu * points[:, 1:])
f = weights * np.exp((-np.cos(np.pi * y) - 1) / (2 * np.pi * nu))
exact = -(f * np.sin(np.pi * y)).sum(axis=1) / f.sum(axis=1)
error = relative_error(u(points), exact)
maps(box, {"u": u(box.mesh(201, 201))}, "t", "x", 201)
figure = plt.gcf()
figure.set_size_inches(9, 3.4)
axes = figure.add_subplot(1, 2, 2)
figure.axes[0].set_subplotspec(axes.get_gridspec()[0])
line = np.linspace(-0.05, 0.05, 401)
for time in (0.2, 0.3, 0.4, 1.0):
    axes.plot(line, u(np.stack([line, np.full_like(line, time)], axis=1)), label=f"t = {time}")
axes.set(title="the front", xlabel="x")
axes.legend()

# %% [markdown]
# **Change next:** `nu = 0.001 / np.pi`: the front is ten times thinner, and the solve takes little longer.
