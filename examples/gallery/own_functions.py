# title: Functions of your own
# statement: −u'' = exp(φ x), functions in plain JAX
# kind: linear, basis, own network
# dimensions: 1
# quick: N = 6

# %% [markdown]
# Any function `basis(x, phi)` that returns N numbers at a point is a basis: an Equinox or Flax module, or two lines of JAX. These here
# vanish at both ends, so no condition has to say so.
#
# $$-u'' = e^{\varphi x}, \qquad u(0) = u(1) = 0 .$$

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
from _shared import relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
N = 12


def basis(x, phi):
    return x[0] * (1 - x[0]) * x[0] ** jnp.arange(N)


box = pdecl.Box(x=(0, 1))
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(
            lambda u, z, phi: u.d("x", "x") + jnp.exp(phi * z.x),
            on=box.interior.gauss(50),
            name="string",
        )
    ],
)
u = pdecl.solve(problem, basis, 2.0)
print(u)

# %%
x = jnp.linspace(0, 1, 401)
exact = (1 + (jnp.exp(2.0) - 1) * x - jnp.exp(2 * x)) / 4
error = relative_error(u(x[:, None]), exact)
slope = jax.grad(lambda phi: pdecl.solve(problem, basis, phi)(jnp.array([[0.5]]))[0])(2.0)
print("du(½)/dφ =", float(slope))
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(x, jax.vmap(lambda point: basis(point, 2.0))(x[:, None]), alpha=0.5)
left.plot(x, u(x[:, None]), "k", linewidth=2, label="u, their combination")
left.legend()
left.set(title="twelve functions", xlabel="x")
right.plot(x, u(x[:, None]) - exact)
right.set(title="error", xlabel="x")

# %% [markdown]
# **Change next:** powers of a trained map of x: make `basis` an `eqx.Module`, and `pdecl.fit` trains it.
