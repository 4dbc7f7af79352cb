# title: How hot is the furnace? (an unknown boundary flux)
# statement: u_t = 0.2 u_xx, −u_x(0,t) = φ(t) from sensors inside
# kind: linear, inverse, time
# dimensions: 1 + time

# %% [markdown]
# Heat enters a wall at $x = 0$ by a flux that nobody can measure; two thermometers inside the wall are read 30 times, with noise of 0.3%.
#
# $$u_t = 0.2\,u_{xx}, \qquad -u_x(0,t) = \varphi(t), \qquad u_x(1,t) = 0, \qquad u(x,0) = 0,$$
#
# where φ is a polynomial of degree 8 in time. The temperature is linear in its coefficients, so nine solves are all that is needed; what
# is believed of them before, little, is a normal distribution.

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
tolerance = 1e-5
box = pdecl.Box(x=(0, 1), t=(0, 1))
legendre = np.zeros((9, 9))
for k in range(9):
    legendre[k, : k + 1] = np.polynomial.legendre.leg2poly(np.eye(9)[k])
shapes = lambda t: legendre @ (2 * t - 1) ** jnp.arange(9)
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, phi: u.d("t") - 0.2 * u.d("x", "x"), on=box.interior, name="heat"),
        pdecl.Fit(lambda u, z, phi: u(), on=box.face(t=0), name="cold"),
        pdecl.Fit(lambda u, z, phi: u.d("x") + phi @ shapes(z.t), on=box.face(x=0), name="furnace"),
        pdecl.Fit(lambda u, z, phi: u.d("x"), on=box.face(x=1), name="insulated"),
    ],
    parameter=lambda key: jr.normal(key, (9,)),
)
inside = jnp.linspace(0.05, 1, 30)
sensors = jnp.concatenate([jnp.stack([jnp.full(30, x), inside], axis=1) for x in (0.1, 0.3)])
answer = lambda phi: pdecl.solve(problem, phi, tolerance=tolerance)(sensors)
A = np.stack([answer(phi) for phi in np.eye(9)], axis=1)

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
draw = np.random.default_rng(0)
covariance = np.linalg.inv(A.T @ A / noise**2 + np.eye(9))
fitted = lambda measured: covariance @ A.T @ measured / noise**2
times = np.linspace(0, 1, 101)
rows = np.asarray(jax.vmap(shapes)(times))
sd = np.sqrt(np.einsum("ij,jk,ik->i", rows, covariance, rows))
measured = clean + noise * draw.normal(size=60)
found = rows @ fitted(measured)
error = relative_error(found, true_flux(times))
others = [rows @ fitted(clean + noise * draw.normal(size=60)) for _ in range(200)]
within = np.mean([np.abs(other - true_flux(times)) <= 2 * sd for other in others])
print(f"200 other draws of noise: within two deviations at {within:.0%} of all times")

fig, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(times, true_flux(times), "k:", label="true flux")
axes.plot(times, found, label="found")
axes.fill_between(times, found - 2 * sd, found + 2 * sd, alpha=0.3, label="± 2 deviations")
axes.plot(inside, measured[:30], "r.", markersize=4, label="thermometer at 0.1")
axes.legend()
axes.set(xlabel="t")

# %% [markdown]
# **Change next:** thermometers further inside: the flux of the last moments has not arrived there.
