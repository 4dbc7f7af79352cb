# title: An option's price (Black–Scholes)
# statement: V_t + ½σ²S²V_SS + rSV_S − rV = 0
# kind: linear, time, kink
# dimensions: 1 + time
# quick: tolerance = 1e-2

# %% [markdown]
# What a European call is worth before its end, in the time $t$ that is left:
#
# $$V_t = \tfrac12 \sigma^2 S^2 V_{SS} + r\,S\,V_S - r\,V, \qquad V(S, 0) = \max(S - K, 0), \qquad V(0,t) = 0 .$$
#
# The pay-off has a kink at the strike $K$; the solver finds it. Slopes of the price are what traders hedge with: here they are
# derivatives of the answer, and $\partial V / \partial \sigma$ is as near (see the examples with gradients).

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error
from scipy.stats import norm

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-5
K = 100.0
box = pdecl.Box(S=(0, 300), t=(0, 1))
market = {"sigma": 0.2, "r": 0.05}


def price(V, z, m):
    return V.d("t") - 0.5 * (m["sigma"] * z.S) ** 2 * V.d("S", "S") - m["r"] * (z.S * V.d("S") - V())


problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(price, on=box.interior, name="price"),
        pdecl.Fit(lambda V, z, m: V() - jnp.maximum(z.S - K, 0), on=box.face(t=0), name="at the end"),
        pdecl.Fit(lambda V, z, m: V(), on=box.face(S=0), name="worthless"),
        pdecl.Fit(
            lambda V, z, m: V() - z.S + K * jnp.exp(-m["r"] * z.t),
            on=box.face(S=300),
            name="a sure gain",
        ),
    ],
    unknowns=("V",),
)
V = pdecl.solve(problem, market, tolerance=tolerance)
print(V)

# %% [markdown]
# The formula of Black and Scholes is the reference.

# %%
points = np.asarray(box.mesh(201, 101))
points = points[(points[:, 0] > 0) & (points[:, 1] > 0)]
S, t = points.T
spread = 0.2 * np.sqrt(t)
d = (np.log(S / K) + (0.05 + 0.02) * t) / spread
exact = S * norm.cdf(d) - K * np.exp(-0.05 * t) * norm.cdf(d - spread)
error = relative_error(V(points), exact)
line = np.linspace(50, 150, 201)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for years in (0.01, 0.1, 0.5, 1.0):
    at = np.stack([line, np.full(201, years)], axis=1)
    left.plot(line, V(at), label=f"{years} years left")
    right.plot(line, V.d("S")(at))
left.set(title="price", xlabel="share price S")
right.set(title="delta, ∂V/∂S", xlabel="share price S")
left.legend()

# %% [markdown]
# **Change next:** a volatility that smiles, `sigma * (1 + 0.3 * (z.S / K - 1)**2)`; a barrier, `V = 0` at `S = 130`.
