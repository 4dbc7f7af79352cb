# title: A boundary layer
# statement: ε u'' + u' + 1 = 0
# kind: linear, layer
# dimensions: 1
# quick: tolerance = 1e-3

# %% [markdown]
# Transport towards a wall with very little diffusion:
#
# $$\varepsilon u'' + u' + 1 = 0, \qquad u(0) = u(1) = 0, \qquad \varepsilon = 10^{-4} .$$
#
# The solution falls from about 1 to 0 within a few $\varepsilon$ of the wall at $x = 0$. Pieces are halved there and nowhere else.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
from _shared import relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-8
box = pdecl.Box(x=(0, 1))
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, eps: eps * u.d("x", "x") + u.d("x") + 1, on=box.interior, name="flow"),
        pdecl.Fit(lambda u, z, eps: u(), on=box.faces("x"), name="walls"),
    ],
)
u = pdecl.solve(problem, 1e-4, tolerance=tolerance)
print(u)

# %% [markdown]
# The exact solution is $(1 - e^{-x/\varepsilon})/(1 - e^{-1/\varepsilon}) - x$. Half of the points are drawn within the layer.

# %%
x = jnp.concatenate([jnp.linspace(0, 1, 501), jnp.linspace(0, 2e-3, 501)])
exact = (1 - jnp.exp(-x / 1e-4)) / (1 - jnp.exp(-1e4)) - x
error = relative_error(u(x[:, None]), exact)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(x[:501], u(x[:501, None]))
left.set(title="u", xlabel="x")
right.plot(1000 * x[501:], u(x[501:, None]), label="u")
right.plot(1000 * x[501:], exact[501:], "k:", label="exact")
right.set(title="the layer", xlabel="1000 x")
right.legend()

# %% [markdown]
# **Change next:** `1e-6` for φ; a source that changes its sign, so that the layer moves to the other wall.
