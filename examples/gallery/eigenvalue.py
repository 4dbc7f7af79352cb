# title: Energies of a well (an eigenvalue)
# statement: −u'' + V(x) u = λ u
# kind: linear, eigenvalue, gradients, basis
# dimensions: 1
# quick: functions = 50

# %% [markdown]
# The energies λ of a particle in a well, and its wave functions:
#
# $$-u'' + V(x)\,u = \lambda\,u, \qquad u(\pm 6) = 0, \qquad V = x^2 .$$
#
# λ is the parameter φ of a problem with a source. Near an energy the response to any source goes to infinity, so its inverse goes through
# zero: a scan sees the sign change, and Newton's method finds the place, with the derivative with respect to λ from the layer.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

import pdecl

jax.config.update("jax_enable_x64", True)
functions = 80
box = pdecl.Box(x=(-6, 6))
source = lambda x: jnp.exp(-((x - 1.3) ** 2))
well = lambda u, z, lam: -u.d("x", "x") + (z.x**2 - lam) * u() - source(z.x)
problem = pdecl.Problem(box, [pdecl.Fit(well, on=box.interior.gauss(200), name="Schrödinger")])
basis = lambda x, lam: jnp.sin(jnp.arange(1, functions + 1) * jnp.pi * (x[0] + 6) / 12)
places = jnp.linspace(-6, 6, 601)


def inverse_response(lam):
    u = pdecl.solve(problem, basis, lam, throw=False)(places[:, None])
    return 1 / jnp.sum(source(places) * u)


lams = jnp.linspace(0.21, 8.0, 200)
values = jax.jit(jax.vmap(inverse_response))(lams)
falls = jnp.flatnonzero((values[:-1] > 0) & (values[1:] < 0))  # from +0 to −0; at poles it rises
step = jax.jit(jax.value_and_grad(inverse_response))
found = []
for lam in lams[falls]:
    for _ in range(3):
        value, slope = step(lam)
        lam = lam - value / slope
    found.append(float(lam))
print("energies:", [round(lam, 9) for lam in found])

# %% [markdown]
# Those of the harmonic oscillator are 1, 3, 5, 7. Beside an energy the response is its wave function.

# %%
error = max(abs(lam - exact) / exact for lam, exact in zip(found, (1, 3, 5, 7), strict=True))
fig, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
axes.plot(places, places**2, "k:", linewidth=1)
for lam in found:
    u = pdecl.solve(problem, basis, lam + 1e-3, throw=False)(places[:, None])
    axes.plot(places, lam + 0.8 * u / jnp.abs(u).max(), label=f"λ = {lam:.6f}")
axes.set(ylim=(0, 9), xlim=(-4, 4), xlabel="x")
axes.legend(loc="upper center", ncols=2, fontsize=8)

# %% [markdown]
# **Change next:** two wells, `(z.x**2 - 4) ** 2 / 4`: energies come in pairs.
