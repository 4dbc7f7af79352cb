# title: Which comes first? (a committor in six dimensions)
# statement: Δq − x·∇q = 0, q = 0 on A, q = 1 on B
# kind: linear, many dimensions, basis
# dimensions: 6

# %% [markdown]
# A particle in six dimensions is pulled to the middle and pushed about at random. The probability that it leaves through the sphere $B$ of radius 3
# before it touches the sphere $A$ of radius 1½ is the *committor*:
#
# $$\Delta q - x \cdot \nabla q = 0, \qquad q = 0 \;\text{ for } |x| = \tfrac32, \qquad q = 1 \;\text{ for } |x| = 3 .$$
#
# A grid is out of the question, and the shell is not a box: points of one's own say where conditions hold. The functions are polynomials in the squares of the
# coordinates, since nothing changes when a coordinate changes its sign. Nobody tells them that the answer depends on the radius alone.

# %%
from itertools import product

import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error
from scipy.integrate import quad

import pdecl

jax.config.update("jax_enable_x64", True)
degree = 6
d = 6
names = tuple(f"x{i}" for i in range(1, d + 1))


def shell(key, n, low, high):
    """n points with directions and radii that are spread evenly."""
    one, other = jr.split(key)
    way = jr.normal(one, (n, d))
    return (
        way
        / jnp.linalg.norm(way, axis=1, keepdims=True)
        * jr.uniform(other, (n, 1), minval=low, maxval=high)
    )


one, two, three, four = jr.split(jr.key(0), 4)
exponents = np.array([e for e in product(range(degree + 1), repeat=d) if sum(e) <= degree])
functions = len(exponents)


def basis(x, phi):
    powers = jnp.stack([(2 * (x / 3) ** 2 - 1) ** k for k in range(degree + 1)])
    return powers[exponents, jnp.arange(d)].prod(axis=1)


committor = lambda q, z, phi: sum(q.d(name, name) - getattr(z, name) * q.d(name) for name in names)
problem = pdecl.Problem(
    pdecl.Box(**dict.fromkeys(names, (-3, 3))),
    [
        pdecl.Fit(committor, on=pdecl.Points(shell(one, 3 * functions, 1.5, 3)), name="committor"),
        pdecl.Fit(
            lambda q, z, phi: q(), on=pdecl.Points(shell(two, functions, 1.5, 1.5)), weight=1e3, name="A"
        ),
        pdecl.Fit(
            lambda q, z, phi: q() - 1,
            on=pdecl.Points(shell(three, functions, 3, 3)),
            weight=1e3,
            name="B",
        ),
    ],
)
q = pdecl.solve(problem, basis)
print(q)

# %% [markdown]
# By symmetry the exact committor is an integral over the radius, $q \propto \int_{3/2}^{|x|} s^{1-d} e^{s^2/2}\, ds$.

# %%
density = lambda s: s ** (1 - d) * np.exp(s**2 / 2)
radii = np.linspace(1.5, 3, 201)
integral = np.array([quad(density, 1.5, r)[0] for r in radii])
exact = lambda x: np.interp(np.linalg.norm(x, axis=1), radii, integral / integral[-1])
points = np.asarray(shell(four, 4000, 1.5, 3))
found = np.asarray(q(points))
error = relative_error(found, exact(points))

line = np.linspace(-3, 3, 161)
plane = np.stack([*np.meshgrid(line, line), *[np.zeros((161, 161))] * (d - 2)], axis=-1).reshape(-1, d)
radius = np.linalg.norm(plane, axis=1)
values = np.where((radius > 1.5) & (radius < 3), q(plane), np.nan).reshape(161, 161)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
shown = left.pcolormesh(line, line, values, cmap="viridis")
left.contour(line, line, values, levels=[0.1, 0.3, 0.5, 0.7, 0.9], colors="white", linewidths=0.7)
fig.colorbar(shown, ax=left)
left.set(title="q in a plane through the middle", xlabel="x1", ylabel="x2", aspect="equal")
right.plot(np.linalg.norm(points, axis=1), found, ".", markersize=2, label="4000 points")
right.plot(radii, integral / integral[-1], "k", label="exact")
right.set(title="all directions", xlabel="|x|", ylabel="q")
right.legend()

# %% [markdown]
# **Change next:** ten dimensions; a pull that differs from one coordinate to the next: the answer then no longer depends on the radius alone.
