# title: Poisson's equation in five dimensions
# statement: Δu = f
# kind: linear, many dimensions
# dimensions: 5

# %% [markdown]
# $$-\Delta u = \tfrac{\pi^2}{4} \sum_{i=1}^5 \sin \tfrac{\pi}{2} x_i \;\text{ in } (0,1)^5, \qquad u = \sum_i \sin \tfrac{\pi}{2} x_i \;\text{ on the boundary.}$$
#
# A grid with 50 nodes a side would have 312 million. Polynomials of a total degree need a thousand functions for seven digits.
# *Poisson-5d* of PINNacle: 4.7e-4 at best.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-6
names = tuple("abcde")
box = pdecl.Box(**dict.fromkeys(names, (0, 1)))
exact = lambda z: sum(jnp.sin(jnp.pi / 2 * getattr(z, name)) for name in names)
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(
            lambda u, z, phi: sum(u.d(n, n) for n in names) + jnp.pi**2 / 4 * exact(z),
            on=box.interior,
            name="Poisson",
        ),
        pdecl.Fit(lambda u, z, phi: u() - exact(z), on=box.faces(), name="boundary"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %%
points = np.random.default_rng(0).random((20000, 5))
truth = np.sin(np.pi / 2 * points).sum(axis=1)
found = np.asarray(u(points))
error = relative_error(found, truth)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
line = np.linspace(0, 1, 81)
plane = np.full((81, 81, 5), 0.5)
plane[..., 0], plane[..., 1] = np.meshgrid(line, line)
levels = left.contourf(line, line, np.reshape(u(plane.reshape(-1, 5)), (81, 81)), 30)
fig.colorbar(levels, ax=left)
left.set(title="u where c = d = e = ½", xlabel="a", ylabel="b")
right.hist(np.log10(np.abs(found - truth) + 1e-16), bins=60)
right.set(title="error at 20,000 random points", xlabel="log₁₀ |u − exact|")

# %% [markdown]
# **Change next:** eight dimensions; a solution that is not smooth, and what the estimate then says.
