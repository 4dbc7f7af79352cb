# title: Where does it leak? (an unknown source)
# statement: Δu + q(x; φ) = 0, φ from the boundary
# kind: linear, inverse, gradients, basis
# dimensions: 2

# %% [markdown]
# A spot of heat inside a plate is to be found from the heat that leaves at 40 places of the rim, measured with 2% noise:
#
# $$\Delta u + q\,e^{-|x - c|^2 / 0.02} = 0, \qquad u = 0 \;\text{ on the boundary}, \qquad \varphi = (c, q).$$

# %%
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
from _shared import maps, relative_error
from scipy.fft import dstn, idstn
from scipy.optimize import least_squares

import pdecl

jax.config.update("jax_enable_x64", True)
functions = 300
box = pdecl.Box(x=(0, 1), y=(0, 1))
spot = lambda z, phi: phi[2] * jnp.exp(-((z.x - phi[0]) ** 2 + (z.y - phi[1]) ** 2) / 0.02)
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(
            lambda u, z, phi: u.d("x", "x") + u.d("y", "y") + spot(z, phi), on=box.interior, name="heat"
        ),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces(), weight=1e4, name="rim"),
    ],
    parameter=lambda key: jr.uniform(key, (3,), minval=0.3, maxval=0.7),
)
basis = pdecl.nn.MLP(problem, size=functions, width=functions, depth=1, key=jr.key(0))
side = jnp.linspace(0.05, 0.95, 10)
left, right = (jnp.stack([jnp.full(10, x), side], axis=1) for x in (0.0, 1.0))
low, high = (jnp.stack([side, jnp.full(10, y)], axis=1) for y in (0.0, 1.0))


def leaving(phi):
    u = pdecl.solve(problem, basis, phi, throw=False)
    x, y = u.d("x"), u.d("y")
    return jnp.concatenate([x(left), -x(right), y(low), -y(high)])


# %% [markdown]
# The measurements come from finite differences on 200 × 200 cells, and noise.

# %%
truth = jnp.array([0.62, 0.35, 5.0])
n = 200
nodes = np.arange(1, n) / n
source = 5.0 * np.exp(-((nodes[:, None] - 0.62) ** 2 + (nodes - 0.35) ** 2) / 0.02)
lam = (2 * np.cos(np.pi * nodes) - 2) * n**2
u = idstn(dstn(-source, 1) / (lam[:, None] + lam), 1)
slope = lambda rows: (4 * rows[0] - rows[1]) / 2 * n
at = np.rint(np.asarray(side) * n).astype(int) - 1
clean = np.concatenate([slope(u)[at], slope(u[::-1])[at], slope(u.T)[at], slope(u.T[::-1])[at]])
noise = 0.02 * np.abs(clean).max()
measured = clean + noise * np.random.default_rng(0).normal(size=40)
misfit = jax.jit(lambda phi: (leaving(phi) - measured) / noise)
slopes = jax.jit(jax.jacfwd(misfit))
found = least_squares(lambda p: np.asarray(misfit(p)), [0.5, 0.5, 1.0], lambda p: np.asarray(slopes(p)))
deviation = np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac)))
print("found", found.x, "±", deviation, "true", truth)
error = relative_error(found.x, truth)
maps(
    box,
    {"temperature found": pdecl.solve(problem, basis, jnp.asarray(found.x))(box.mesh(81, 81))},
    "x",
    "y",
    81,
)
axes = plt.gcf().axes[0]
axes.plot(*truth[:2], "o", color="white", markeredgecolor="black", markersize=9, label="true")
axes.plot(*found.x[:2], "k+", markersize=9, label="found")
for part in (left, right, low, high):
    axes.plot(*part.T, "k.", markersize=5, clip_on=False)
axes.legend(loc="upper left")

# %% [markdown]
# **Change next:** two spots; sensors on one side only.
