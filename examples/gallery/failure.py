# title: When it cannot
# statement: ε u'' + u' + 1 = 0 with 20 smooth functions
# kind: linear, failure, layer, basis
# dimensions: 1
# quick: size = 20

# %% [markdown]
# Twenty smooth functions cannot make a boundary layer of width 0.001. The least squares have a minimum all the same, and many a program would
# return it. Here the solve raises, and says which condition does not hold and how far it is off.

# %%
import textwrap

import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
from _shared import relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
size = 20
box = pdecl.Box(x=(0, 1))
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, eps: eps * u.d("x", "x") + u.d("x") + 1, on=box.interior, name="flow"),
        pdecl.Fit(lambda u, z, eps: u(), on=box.faces("x"), name="walls"),
    ],
)
basis = pdecl.nn.MLP(problem, size=size, width=size, depth=1, key=jr.key(0))
try:
    pdecl.solve(problem, basis, 1e-3)
except pdecl.SolveError as failure:
    print(textwrap.fill(str(failure), 100))

# %% [markdown]
# With `throw=False` the answer comes back with its status, to be looked at. What helps is what the message names; or to let the functions be chosen.

# %%
wrong = pdecl.solve(problem, basis, 1e-3, throw=False)
print(wrong)
right = pdecl.solve(problem, 1e-3, tolerance=1e-6)
x = jnp.linspace(0, 1, 2001)
exact = (1 - jnp.exp(-x / 1e-3)) / (1 - jnp.exp(-1e3)) - x
error = relative_error(wrong(x[:, None]), exact)
print(
    f"error of the rejected answer {error:.2g}, to a tolerance {relative_error(right(x[:, None]), exact):.1e}"
)
fig, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
axes.plot(x, wrong(x[:, None]), label=f"{size} functions: {wrong.status}")
axes.plot(x, right(x[:, None]), label="tolerance=1e-6")
axes.plot(x, exact, "k:", label="exact")
axes.legend()
axes.set(xlabel="x")

# %% [markdown]
# **Change next:** `size = 400`: is it enough?
