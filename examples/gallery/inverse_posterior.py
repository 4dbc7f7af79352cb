# title: How fast does it spread? (a posterior by Hamiltonian Monte Carlo)
# statement: u_t = D u_xx + r u(1 − u), D and r from u
# kind: nonlinear, inverse, time, family, trained, compiled, gradients
# dimensions: 1 + time

# %% [markdown]
# A species spreads. It is counted at six places and three times, with noise. How fast does it wander, and how fast does it grow?
#
# $$u_t = D\,u_{xx} + r\,u\,(1-u), \qquad u_x(0,t) = u_x(1,t) = 0, \qquad u(x,0) = e^{-20 x^2}, \qquad \varphi = (\log D, \log r).$$
#
# `pdecl.fit` makes a solver of this family, which takes about a millisecond for a φ and is differentiable: that is all that a sampler needs. Here it is
# the No-U-Turn sampler of [BlackJAX](https://github.com/blackjax-devs/blackjax).

# %%
import blackjax
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 3e-4
warmup, samples = 300, 4000
box = pdecl.Box(x=(0, 1), t=(0, 1))
prior_mean, prior_sd = jnp.log(jnp.array([0.02, 4.0])), 0.3
growth = lambda u, z, phi: u.d("t") - jnp.exp(phi[0]) * u.d("x", "x") - jnp.exp(phi[1]) * u() * (1 - u())
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(growth, on=box.interior, name="spread"),
        pdecl.Fit(lambda u, z, phi: u() - jnp.exp(-20 * z.x**2), on=box.face(t=0), name="start"),
        pdecl.Fit(lambda u, z, phi: u.d("x"), on=box.faces("x"), name="nothing leaves"),
    ],
    parameter=lambda key: prior_mean + prior_sd * jr.normal(key, (2,)),
)
solver = pdecl.fit(problem, tolerance=tolerance)
print(solver)

# %% [markdown]
# The measurements, and the posterior that the samples are compared with, come from another method: finite differences and a
# fourth-order Runge–Kutta method, for all of 61 × 61 values of φ.

# %%
instants, places = (0.3, 0.6, 0.9), np.linspace(0.1, 0.85, 6)


def differences(phi, n=80, steps=1000):
    """u at the places at the times, for each row of φ."""
    D, r = np.exp(phi).T[..., None]
    x, h = np.linspace(0, 1, n + 1), 1 / steps
    u, found = np.tile(np.exp(-20 * x**2), (len(phi), 1)), []

    def slope(u):
        wide = np.concatenate([u[:, 1:2], u, u[:, -2:-1]], axis=1)
        return D * (wide[:, 2:] - 2 * u + wide[:, :-2]) * n**2 + r * u * (1 - u)

    for step in range(1, round(instants[-1] * steps) + 1):
        a = slope(u)
        b = slope(u + h / 2 * a)
        c = slope(u + h / 2 * b)
        u = u + h / 6 * (a + 2 * b + 2 * c + slope(u + h * c))
        if step in [round(t * steps) for t in instants]:
            found.append(np.stack([u[:, round(place * n)] for place in places], axis=1))
    return np.concatenate(found, axis=1)


truth, noise = np.log([[0.015, 5.0]]), 0.03
places = np.round(places * 80) / 80
sensors = jnp.array([(x, t) for t in instants for x in places])
measured = differences(truth)[0] + noise * np.random.default_rng(1).normal(size=18)


def log_posterior(phi):
    misfit = (solver(phi, residual_limit=None)(sensors) - measured) / noise
    return -0.5 * jnp.sum(misfit**2) - 0.5 * jnp.sum(((phi - prior_mean) / prior_sd) ** 2)


@jax.jit
def sample(key):
    one, two = jr.split(key)
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_posterior)
    (state, parameters), _ = adaptation.run(one, prior_mean, warmup)
    step = blackjax.nuts(log_posterior, **parameters).step
    moved = lambda state, key: (lambda new: (new, new.position))(step(key, state)[0])
    return jax.lax.scan(moved, state, jr.split(two, samples))[1]


phis = np.asarray(sample(jr.key(0)))

# %%
lines = [np.log(0.015) + np.linspace(-0.6, 0.6, 61), np.log(5.0) + np.linspace(-0.4, 0.4, 61)]
grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, 2)
cost = (((differences(grid) - measured) / noise) ** 2).sum(axis=1) + (
    ((grid - np.asarray(prior_mean)) / prior_sd) ** 2
).sum(axis=1)
weights = np.exp(-(cost - cost.min()) / 2)
weights /= weights.sum()
mean = weights @ grid
sd = np.sqrt(weights @ (grid - mean) ** 2)
print(
    "mean and deviation of log D, log r, sampled:", phis.mean(axis=0).round(3), phis.std(axis=0).round(3)
)
print("by quadrature over the grid:                ", mean.round(3), sd.round(3))
error = relative_error(np.exp(phis).mean(axis=0), weights @ np.exp(grid))

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
x = np.linspace(0, 1, 61)
for k, t in enumerate(instants):
    curves = np.stack([solver(phi)(np.stack([x, np.full(61, t)], axis=1)) for phi in phis[::200]])
    left.plot(x, curves.T, color=f"C{k}", alpha=0.3, linewidth=0.8)
    left.plot(places, measured[6 * k : 6 * k + 6], "o", color=f"C{k}", label=f"t = {t}")
left.legend()
left.set(title="counts, and twenty of the curves", xlabel="x", ylabel="u")
right.plot(*np.exp(phis).T, ".", markersize=2, alpha=0.5, label="samples")
heights = np.sort(weights)[::-1]
levels = [heights[np.searchsorted(np.cumsum(heights), share)] for share in (0.95, 0.5)]
right.contour(*map(np.exp, lines), weights.reshape(61, 61).T, levels=levels, colors="black")
right.plot(*np.exp(truth[0]), "r*", markersize=10, label="truth")
right.legend()
right.set(title="samples, and exact contours (50%, 95%)", xlabel="D", ylabel="r")
right.set(xlim=(0.009, 0.022), ylim=(4.3, 5.8))

# %% [markdown]
# **Change next:** fewer counts; an unknown start, as coefficients of cosines; another sampler.
