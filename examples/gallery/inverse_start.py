# title: What was it before? (an unknown initial value)
# statement: u_t = 0.02 u_xx, u(x,0) from u(x,½)
# kind: inverse, gradients, time, basis
# dimensions: 1 + time
# quick: functions = 80

# %% [markdown]
# A temperature is measured at 40 places at the time ½, with noise of 0.5%. What was it at the beginning?
#
# $$u_t = 0.02\,u_{xx}, \qquad u(x,0) = \sum_{j=1}^{8} \varphi_j \sin j\pi x .$$
#
# Diffusion forgets the fine parts first: the answer has to say which parts it knows. The problem is linear in φ, so one derivative of the
# layer gives the whole posterior. The last of eight modes arrives with a five-hundredth of its height, below the noise:
# the error below is what no method can know, and the band says so.

# %%
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
functions = 200
box = pdecl.Box(x=(0, 1), t=(0, 0.5))
modes = lambda x: jnp.sin(jnp.arange(1, 9) * jnp.pi * x)
prior = 1 / jnp.arange(1, 9)
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, phi: u.d("t") - 0.02 * u.d("x", "x"), on=box.interior, name="heat"),
        pdecl.Fit(
            lambda u, z, phi: u() - phi @ modes(z.x), on=box.face(t=0), weight=100.0, name="start"
        ),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces("x"), weight=100.0, name="ends"),
    ],
    parameter=lambda key: prior * jr.normal(key, (8,)),
)
basis = pdecl.nn.Mollified(
    pdecl.nn.MLP(problem, size=functions, width=functions, depth=1, key=jr.key(0)), box.faces("x")
)
sensors = jnp.stack([jnp.linspace(0.02, 0.98, 40), jnp.full(40, 0.5)], axis=1)
answer = lambda phi: pdecl.solve(problem, basis, phi, throw=False)(sensors)

# %% [markdown]
# The truth decays mode by mode, in closed form.

# %%
truth = np.asarray(problem.parameter(jr.key(5)))
x = np.linspace(0, 1, 401)
waves = np.sin(np.pi * np.outer(x, np.arange(1, 9)))
late = truth * np.exp(-0.02 * (np.arange(1, 9) * np.pi) ** 2 * 0.5)
clean = np.sin(np.pi * np.outer(sensors[:, 0], np.arange(1, 9))) @ late
noise = 0.005 * np.abs(clean).max()
measured = clean + noise * np.random.default_rng(1).normal(size=40)
A = np.asarray(jax.jit(jax.jacfwd(answer))(jnp.zeros(8)))
precision = A.T @ A / noise**2 + np.diag(1 / np.asarray(prior) ** 2)
mean = np.linalg.solve(precision, A.T @ measured / noise**2)
sd = np.sqrt(np.einsum("ij,ij->i", waves @ np.linalg.inv(precision), waves))
error = relative_error(waves @ mean, waves @ truth)
print("j      true    found   ±")
for j in range(8):
    print(f"{j + 1}   {truth[j]:7.3f} {mean[j]:7.3f}   {np.sqrt(np.linalg.inv(precision)[j, j]):.3f}")
print(
    f"the start is within two deviations on {np.mean(np.abs(waves @ (mean - truth)) <= 2 * sd):.0%} of the rod"
)
without_noise = np.linalg.solve(A.T @ A, A.T @ clean)
print(
    f"error of all modes from data without noise: {relative_error(waves @ without_noise, waves @ truth):.1e}"
)
fig, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(x, waves @ truth, "k:", label="true start")
axes.plot(x, waves @ mean, label="found")
axes.fill_between(x, waves @ mean - 2 * sd, waves @ mean + 2 * sd, alpha=0.3, label="± 2 deviations")
axes.plot(sensors[:, 0], measured, "r.", markersize=4, label="measured at t = ½")
axes.legend()
axes.set(xlabel="x")

# %% [markdown]
# **Change next:** measure later, `t=(0, 2)`: the band grows to what was believed before.
