# title: A fluid that thickens when it is sheared (p-Laplacian)
# statement: min ∫ |∇u|⁴/4 − 2u
# kind: nonlinear, energy, basis
# dimensions: 2
# quick: size = 40

# %% [markdown]
# $$-\operatorname{div}\bigl(|\nabla u|^{p-2} \nabla u\bigr) = 2, \qquad p = 4,$$
#
# is the speed $u$ of a fluid along a pipe, whose viscosity $|\nabla u|^{p-2}$ grows with shear (paint thins: $p < 2$; starch in water thickens: $p > 2$).
# It minimises $\int |\nabla u|^p / p - 2u$. The energy is shorter to state than the equation, and convex. In a round pipe $u = c - \tfrac{p-1}{p}\, r^{p/(p-1)}$
# is exact; a square beside its axis is solved for, with $c = 0$.

# %%
import jax
import jax.numpy as jnp
import jax.random as jr
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
size = 120
p = 4
box = pdecl.Box(x=(0.5, 1.5), y=(0.5, 1.5))
exact = lambda x, y: -(p - 1) / p * jnp.hypot(x, y) ** (p / (p - 1))
energy = lambda u, z, phi: (u.d("x") ** 2 + u.d("y") ** 2) ** (p / 2) / p - 2 * u()
boundary = lambda u, z, phi: u() - exact(z.x, z.y)
problem = pdecl.Problem(
    box,
    [
        pdecl.Energy(energy, on=box.interior.gauss(8, cells=2), name="energy"),
        pdecl.Fit(boundary, weight=1e4, on=box.faces().low_discrepancy(40), name="boundary"),
    ],
)
basis = pdecl.nn.MLP(problem, size=size, width=size, depth=1, key=jr.key(0))
start = jr.normal(jr.key(1), (size,))  # at u = 0 the energy is flat in every direction
u = pdecl.solve(problem, basis, initial=start, solver=pdecl.solvers.GaussNewton(rtol=1e-4))
print(u)

# %%
points = box.mesh(61, 61)
error = relative_error(u(points), exact(*points.T))
viscosity = jnp.hypot(u.d("x")(points), u.d("y")(points)) ** (p - 2)
maps(
    box,
    {"speed": u(points), "viscosity": viscosity, "error": u(points) - exact(*points.T)},
    "x",
    "y",
    61,
)

# %% [markdown]
# **Change next:** `p = 1.5`, a fluid that thins; `p = 2` is Poisson's equation.
