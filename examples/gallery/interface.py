# title: Two materials
# statement: (a u')' + 1 = 0, a jumps
# kind: linear, interface, system
# dimensions: 1
# quick: tolerance = 1e-3

# %% [markdown]
# Heat is conducted through copper up to $x = 0.3$ and then through wood, with a source everywhere:
#
# $$q = a(x)\,u', \qquad q' + 1 = 0, \qquad u(0) = u(1) = 0, \qquad a = 100 \;\text{ or }\; 1 .$$
#
# Temperature and flux are continuous, the slope of the temperature is not. With the flux $q$ as an unknown of its own nothing else has to be
# said: the coefficient is not differentiated.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-6
box = pdecl.Box(x=(0, 1))
a = lambda x: jnp.where(x < 0.3, 100.0, 1.0)
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(
            lambda w, z, phi: (w.q() / a(z.x) - w.u.d("x"), w.q.d("x") + 1), on=box.interior, name="heat"
        ),
        pdecl.Fit(lambda w, z, phi: w.u(), on=box.faces("x"), name="ends"),
    ],
    unknowns=("u", "q"),
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The exact solution: $q = c - x$, and $u$ from it on either side.

# %%
x = np.linspace(0, 1, 1001)
resistance = 0.3 / 100 + 0.7
c = (0.045 / 100 + (0.5 - 0.045)) / resistance
left = (c * x - x**2 / 2) / 100
right = (c * 0.3 - 0.045) / 100 + c * (x - 0.3) - (x**2 - 0.09) / 2
exact = np.where(x < 0.3, left, right)
error = relative_error(u(x[:, None])["u"], exact)
fig, (one, other) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
one.plot(x, u(x[:, None])["u"])
one.plot(x, exact, "k:")
one.axvspan(0, 0.3, color="orange", alpha=0.2)
one.set(title="temperature (dotted: exact)", xlabel="x")
other.plot(x, u(x[:, None])["q"], label="flux q")
other.plot(x, u.d("x")(x[:, None])["u"], label="slope u'")
other.legend()
other.set(xlabel="x")

# %% [markdown]
# **Change next:** three layers; a slope that is prescribed at one end, `w.q() - 1`.
