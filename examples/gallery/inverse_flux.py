# title: How hot is the furnace? (an unknown boundary flux)
# statement: u_t = u_xx, −u_x(0,t) = φ(t) from sensors inside
# kind: inverse, gradients, time, basis
# dimensions: 1 + time

# %% [markdown]
# Heat enters a wall at $x = 0$ by a flux that nobody can measure; two thermometers inside the wall are read 30 times, with noise of 0.3%.
#
# $$u_t = 0.2\,u_{xx}, \qquad -u_x(0,t) = \varphi(t), \qquad u_x(1,t) = 0, \qquad u(x,0) = 0,$$
#
# φ is linear between 9 times, and smooth: a random walk is what is believed of it.

# %%
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from _shared import relative_error
from scipy.sparse.linalg import splu

import pdecl

jax.config.update("jax_enable_x64", True)
functions = 250
box = pdecl.Box(x=(0, 1), t=(0, 1))
times = jnp.linspace(0, 1, 9)
flux = lambda phi, t: jnp.interp(t, times, phi)
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, phi: u.d("t") - 0.2 * u.d("x", "x"), on=box.interior, name="heat"),
        pdecl.Fit(lambda u, z, phi: u(), on=box.face(t=0), weight=100.0, name="cold"),
        pdecl.Fit(
            lambda u, z, phi: u.d("x") + flux(phi, z.t), on=box.face(x=0), weight=10.0, name="furnace"
        ),
        pdecl.Fit(lambda u, z, phi: u.d("x"), on=box.face(x=1), weight=10.0, name="insulated"),
    ],
    parameter=lambda key: jnp.cumsum(jr.normal(key, (9,))) / 3,
)
basis = pdecl.nn.MLP(problem, size=functions, width=functions, depth=1, key=jr.key(0))
inside = jnp.linspace(0.05, 1, 30)
sensors = jnp.concatenate([jnp.stack([jnp.full(30, x), inside], axis=1) for x in (0.1, 0.3)])
answer = lambda phi: pdecl.solve(problem, basis, phi, throw=False)(sensors)

# %% [markdown]
# Measurements come from Crank–Nicolson's method on a fine grid.

# %%
n, steps = 400, 800
true_flux = lambda t: 1 + np.sin(2 * np.pi * t) * np.exp(-t)
x = np.linspace(0, 1, n + 1)
lower = sp.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(n + 1, n + 1)).tolil()
lower[0, 1] = lower[n, n - 1] = 2.0
lower = (0.2 * n**2 * lower).tocsc()
h = 1 / steps
left = splu((sp.eye(n + 1) - h / 2 * lower).tocsc())
u, history = np.zeros(n + 1), [np.zeros(n + 1)]
for k in range(steps):
    load = np.zeros(n + 1)
    load[0] = 0.2 * 2 * n * (true_flux(k * h) + true_flux(k * h + h)) / 2
    u = left.solve(u + h / 2 * (lower @ u) + h * load)
    history.append(u)
clean = np.concatenate(
    [
        np.interp(inside, np.arange(steps + 1) * h, np.asarray(history)[:, round(p * n)])
        for p in (0.1, 0.3)
    ]
)
noise = 0.003 * clean.max()
measured = clean + noise * np.random.default_rng(0).normal(size=60)

A = np.asarray(jax.jit(jax.jacfwd(answer))(jnp.zeros(9)))
walk = np.diff(np.eye(9), axis=0)
precision = A.T @ A / noise**2 + 4 * walk.T @ walk
mean = np.linalg.solve(precision, A.T @ measured / noise**2)
sd = np.sqrt(np.diag(np.linalg.inv(precision)))
error = relative_error(mean, true_flux(np.asarray(times)))
inside_band = np.mean(np.abs(mean - true_flux(np.asarray(times))) < 2 * sd)
print(f"{inside_band:.0%} of the values are within two deviations of the true flux")
fig, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(np.arange(steps + 1) * h, true_flux(np.arange(steps + 1) * h), "k:", label="true flux")
axes.errorbar(times, mean, 2 * sd, label="found, ± 2 deviations")
axes.plot(inside, measured[:30], "r.", markersize=4, label="thermometer at 0.1")
axes.legend()
axes.set(xlabel="t")

# %% [markdown]
# **Change next:** thermometers further inside: the flux of the last moments has not arrived there.
