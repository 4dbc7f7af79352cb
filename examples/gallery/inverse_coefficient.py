# title: What is it made of? (an unknown coefficient)
# statement: (a(x) u')' + 1 = 0, a from u
# kind: linear, inverse, gradients, basis
# dimensions: 1
# quick: starts = 2; repeats = 1

# %% [markdown]
# A rod is heated evenly, its temperature is measured at 30 places with 1% noise. How does it conduct?
#
# $$(a(x)\,u')' + 1 = 0, \qquad u(0) = u(1) = 0, \qquad a = \exp\Bigl(\sum_{j=0}^{4} \varphi_j \cos j\pi x\Bigr).$$
#
# Each guess of φ is one solve, and the derivative of its answer with respect to φ goes through the layer. Least squares from several
# starts ends at the same place; the curvature there says how well each part of $a$ is known. Where the temperature is flat, at its top,
# no flux passes and nothing can be known of $a$: the error of the answer is the noise's, and it shrinks with it.

# %%
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error
from scipy.optimize import least_squares

import pdecl

jax.config.update("jax_enable_x64", True)
starts = 8
repeats = 40
box = pdecl.Box(x=(0, 1))
modes = lambda x: jnp.cos(jnp.arange(5) * jnp.pi * x)
conducts = lambda phi, x: jnp.exp(phi @ modes(x))
slope = jax.grad(conducts, argnums=1)
equation = lambda u, z, phi: conducts(phi, z.x) * u.d("x", "x") + slope(phi, z.x) * u.d("x") + 1
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(equation, on=box.interior, name="heat"),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces("x"), weight=100.0, name="ends"),
    ],
    parameter=lambda key: 0.5 * jr.normal(key, (5,)),
)
basis = pdecl.nn.MLP(problem, size=40, width=40, depth=1, key=jr.key(0))
sensors = jnp.linspace(0.02, 0.98, 30)[:, None]
truth = jnp.array([0.3, 0.5, -0.4, 0.0, 0.2])

# %% [markdown]
# The measurements come from another method: two integrations on a fine mesh, and noise.

# %%
x = np.linspace(0, 1, 4001)
a = np.exp(np.asarray(jax.vmap(modes)(jnp.asarray(x))) @ np.asarray(truth))
integral = lambda y: np.concatenate([[0], np.cumsum((y[1:] + y[:-1]) / 2) * (x[1] - x[0])])
one, other = integral(x / a), integral(1 / a)
u = one[-1] / other[-1] * other - one
noise = 0.01 * u.max()
clean, draw = np.interp(sensors[:, 0], x, u), np.random.default_rng(0)

answer = lambda phi: pdecl.solve(problem, basis, phi, throw=False)(sensors)
misfit = jax.jit(lambda phi, data, noise: jnp.concatenate([(answer(phi) - data) / noise, phi / 0.5]))
slopes = jax.jit(jax.jacfwd(misfit))


def fitted(start, data, noise):
    run = lambda function: lambda phi: np.asarray(function(phi, data, noise))
    return least_squares(run(misfit), start, run(slopes))


first = draw.normal(size=30)
measured = clean + noise * first
found = [fitted(problem.parameter(jr.key(i)), measured, noise) for i in range(starts)]
best = min(found, key=lambda result: result.cost)
print("costs of all starts:", *(f"{result.cost:.3f}" for result in found))
wave = np.asarray(jax.vmap(modes)(jnp.asarray(x)))


def log_conductivity(result):
    """Mean and deviation of log a."""
    spread = np.linalg.inv(result.jac.T @ result.jac)
    return wave @ result.x, np.sqrt(np.einsum("ij,jk,ik->i", wave, spread, wave))


mean, sd = log_conductivity(best)
error = relative_error(np.exp(mean), a)
for less in (noise / 10, noise / 100):
    again = fitted(best.x, clean + less * first, less)
    print(f"error with noise of {less / u.max():.2%}: {relative_error(np.exp(wave @ again.x), a):.1e}")
inside = []
for _ in range(repeats):
    middle, band = log_conductivity(fitted(best.x, clean + noise * draw.normal(size=30), noise))
    inside.append(np.abs(middle - np.log(a)) <= 2 * band)
print(
    f"{repeats} other draws of noise: a is within two deviations at {np.mean(inside):.0%} of all points"
)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(x, u)
left.plot(sensors, measured, "k.", markersize=4)
left.set(title="temperature and sensors", xlabel="x")
right.plot(x, a, "k:", label="true a")
right.plot(x, np.exp(mean), label="found")
right.fill_between(x, np.exp(mean - 2 * sd), np.exp(mean + 2 * sd), alpha=0.3, label="± 2 deviations")
right.legend()
right.set(xlabel="x")

# %% [markdown]
# **Change next:** fewer sensors, more noise: the band widens where nothing is measured.
