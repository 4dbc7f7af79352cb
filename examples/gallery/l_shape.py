# title: A corner that bends inwards
# statement: Δu = 0 on an L
# kind: linear, shape, corner
# dimensions: 2

# %% [markdown]
# At the inner corner of an L the slope of a potential is infinite: $u = r^{2/3} \sin \tfrac{2\theta}{3}$ is harmonic and belongs to $H^{5/3}$ only. Polynomials of
# any degree converge slowly there; cells that shrink towards the corner do not mind.

# %%
import jax
import jax.numpy as jnp
from _shared import relative_error

import pdecl
from pdecl.shapes import Domain, Polygon

jax.config.update("jax_enable_x64", True)
tolerance = 1e-5
ell = Polygon([(0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1)])
domain = Domain(ell)
angle = lambda x, y: jnp.where(
    jnp.arctan2(y, x) < -1e-9, jnp.arctan2(y, x) + 2 * jnp.pi, jnp.arctan2(y, x)
)
exact = lambda x, y: jnp.hypot(x, y) ** (2 / 3) * jnp.sin(2 / 3 * angle(x, y))
problem = pdecl.Problem(
    domain,
    [
        pdecl.Fit(lambda u, z, phi: u.d("x", "x") + u.d("y", "y"), on=domain.interior, name="Laplace"),
        pdecl.Fit(lambda u, z, phi: u() - exact(z.x, z.y), on=domain.boundary(), name="boundary"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %%
points, _ = ell.interior(4000)
error = relative_error(u(points), exact(*jnp.asarray(points).T))
axes = u.plot()

# %% [markdown]
# **Change next:** another angle of the corner: $r^{\pi/\alpha}$.
