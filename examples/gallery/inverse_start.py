# title: What was it before? (an unknown initial value)
# statement: u_t = 0.02 u_xx, u(x,0) from u(x,½)
# kind: linear, inverse, time
# dimensions: 1 + time
# quick: tolerance = 1e-3

# %% [markdown]
# A temperature is measured at 40 places at the time ½, with noise of 0.5%. What was it at the beginning?
#
# $$u_t = 0.02\,u_{xx}, \qquad u(x,0) = \sum_{j=1}^{8} \varphi_j \sin j\pi x .$$
#
# Diffusion forgets the fine parts first: the last of eight modes arrives with a five-hundredth of its height, below the noise. So the
# answer has to say which parts it knows. It is linear in φ, and what is believed before is a normal distribution, so the whole posterior
# comes from eight solves.

# %%
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-6
box = pdecl.Box(x=(0, 1), t=(0, 0.5))
modes = lambda x: jnp.sin(jnp.arange(1, 9) * jnp.pi * x)
prior = 1 / np.arange(1, 9)
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, phi: u.d("t") - 0.02 * u.d("x", "x"), on=box.interior, name="heat"),
        pdecl.Fit(lambda u, z, phi: u() - phi @ modes(z.x), on=box.face(t=0), name="start"),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces("x"), name="ends"),
    ],
    parameter=lambda key: prior * jr.normal(key, (8,)),
)
sensors = jnp.stack([jnp.linspace(0.02, 0.98, 40), jnp.full(40, 0.5)], axis=1)
answer = lambda phi: pdecl.solve(problem, phi, tolerance=tolerance)(sensors)
A = np.stack([answer(phi) for phi in np.eye(8)], axis=1)

# %% [markdown]
# The truth decays mode by mode, in closed form. No method can know the start better than the band says, because the data do not: an error
# of a sixth is what the noise leaves. Whether the band is right is seen over many truths.

# %%
x = np.linspace(0, 1, 401)
waves = lambda x: np.sin(np.pi * np.outer(x, np.arange(1, 9)))
decay = np.exp(-0.02 * (np.arange(1, 9) * np.pi) ** 2 * 0.5)
draw = np.random.default_rng(1)


def measured(truth):
    clean = waves(sensors[:, 0]) @ (decay * truth)
    noise = 0.005 * np.abs(clean).max()
    return clean + noise * draw.normal(size=40), noise


def posterior(data, noise):
    covariance = np.linalg.inv(A.T @ A / noise**2 + np.diag(1 / prior**2))
    band = np.sqrt(np.einsum("ij,jk,ik->i", waves(x), covariance, waves(x)))
    return covariance @ A.T @ data / noise**2, band


truth = np.asarray(problem.parameter(jr.key(5)))
data, noise = measured(truth)
mean, sd = posterior(data, noise)
error = relative_error(waves(x) @ mean, waves(x) @ truth)
print("mode   true   found")
for j, pair in enumerate(zip(truth, mean, strict=True), 1):
    print(f"{j}   {pair[0]:7.3f} {pair[1]:7.3f}")
inside = []
for other in prior * draw.normal(size=(200, 8)):
    middle, band = posterior(*measured(other))
    inside.append(np.abs(waves(x) @ (middle - other)) <= 2 * band)
print(f"200 other starts: within two deviations at {np.mean(inside):.0%} of all points")

fig, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(x, waves(x) @ truth, "k:", label="true start")
axes.plot(x, waves(x) @ mean, label="found")
axes.fill_between(
    x, waves(x) @ mean - 2 * sd, waves(x) @ mean + 2 * sd, alpha=0.3, label="± 2 deviations"
)
axes.plot(sensors[:, 0], data, "r.", markersize=4, label="measured at t = ½")
axes.legend()
axes.set(xlabel="x")

# %% [markdown]
# **Change next:** measure later, `t=(0, 2)`: the band grows to what was believed before.
