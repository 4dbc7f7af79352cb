# title: A basis for every conductivity
# statement: u_t = k u_xx, k from 0.05 to 0.2
# kind: linear, time, family, trained
# dimensions: 1 + time

# %% [markdown]
# One network is trained for all conductivities at once, through the layer, on the residual of the PDE and without a single solution.
# For a new $k$ only 64 weights are solved for.
#
# $$u_t = k\,u_{xx}, \qquad u(x,0) = \sin \pi x, \qquad u(0,t) = u(1,t) = 0, \qquad k \sim U(0.05, 0.2).$$

# %%
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import optax

import pdecl

jax.config.update("jax_enable_x64", True)
steps = 300
box = pdecl.Box(x=(0, 1), t=(0, 1))
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, k: u.d("t") - k * u.d("x", "x"), on=box.interior, name="heat"),
        pdecl.Fit(
            lambda u, z, k: u() - jnp.sin(jnp.pi * z.x), on=box.face(t=0), weight=10.0, name="start"
        ),
        pdecl.Fit(lambda u, z, k: u(), on=box.faces("x"), weight=10.0, name="ends"),
    ],
    parameter=lambda key: jr.uniform(key, minval=0.05, maxval=0.2),
)
basis = pdecl.nn.MLP(problem, size=64, width=64, depth=3, key=jr.key(0))
before = basis
basis, history = pdecl.fit(problem, basis, optax.adam(1e-3), steps=steps, key=jr.key(1))

# %% [markdown]
# Fifty conductivities that training has not seen, all at once:

# %%
ks = jr.uniform(jr.key(2), (50,), minval=0.05, maxval=0.2)
points = box.mesh(41, 41)
x, t = points.T
exact = jnp.exp(-ks[:, None] * jnp.pi**2 * t) * jnp.sin(jnp.pi * x)
errors = {}
for name, functions in (("untrained", before), ("trained", basis)):
    found = jax.vmap(lambda k: pdecl.solve(problem, functions, k, throw=False)(points))(ks)
    errors[name] = jnp.linalg.norm(found - exact, axis=1) / jnp.linalg.norm(exact, axis=1)
error = float(errors["trained"].mean())
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for k, curve in zip(ks, found.reshape(50, 41, 41)[:, 20], strict=True):
    left.plot(jnp.linspace(0, 1, 41), curve, color=plt.cm.viridis((k - 0.05) / 0.15))
left.set(title="temperature in the middle, for fifty k", xlabel="t")
for name, values in errors.items():
    right.semilogy(ks, values, ".", label=f"{name}, mean {values.mean():.1e}")
right.set(title="relative error", xlabel="k")
right.legend()

# %% [markdown]
# **Change next:** other starts, `phi * jnp.sin(...)`; `pdecl train` with the problem in a file, and all the commands follow.
