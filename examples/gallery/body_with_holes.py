# title: A block with three cavities
# statement: Δu = 0 in three dimensions
# kind: linear, shape, three dimensions
# dimensions: 3

# %% [markdown]
# A block of metal with three spherical cavities that are kept at different temperatures. Stating a body in three dimensions takes a line more than in two.
#
# The values on all surfaces are those of charges in the middles of the cavities, $u = \sum_i q_i / |x - c_i|$, so that the answer is known.

# %%
import jax
import jax.numpy as jnp
from _shared import relative_error

import pdecl
from pdecl.shapes import Ball, Cuboid, Domain

jax.config.update("jax_enable_x64", True)
tolerance = 1e-2
cavities = [((0.3, 0.3, 0.3), 0.18, 1.0), ((0.7, 0.6, 0.4), 0.2, -1.0), ((0.4, 0.7, 0.75), 0.15, 0.5)]
block = Cuboid((0, 0, 0), (1, 1, 1))
for centre, radius, _ in cavities:
    block = block - Ball(centre, radius)
domain = Domain(block)


def exact(x, y, z):
    distance = lambda c: jnp.sqrt((x - c[0]) ** 2 + (y - c[1]) ** 2 + (z - c[2]) ** 2)
    return sum(q / distance(c) for c, _, q in cavities)


problem = pdecl.Problem(
    domain,
    [
        pdecl.Fit(
            lambda u, z, phi: u.d("x", "x") + u.d("y", "y") + u.d("z", "z"),
            on=domain.interior,
            name="heat",
        ),
        pdecl.Fit(lambda u, z, phi: u() - exact(z.x, z.y, z.z), on=domain.boundary(), name="surfaces"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %%
points, _ = block.interior(3000)
error = relative_error(u(points), exact(*jnp.asarray(points).T))
axes = u.plot()

# %% [markdown]
# **Change next:** `u.to_vtu("block.vtu")`, to be looked at with ParaView; a cavity that is insulated, `u.dn()`.
