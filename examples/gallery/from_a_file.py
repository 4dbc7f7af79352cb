# title: A body from an STL file
# statement: Δu = 0 in a torus of triangles
# kind: linear, shape, three dimensions, file
# dimensions: 3

# %% [markdown]
# Shapes come from files too: closed surfaces of triangles (STL, PLY, OBJ) and gmsh meshes with their groups. The ring here is written first, so that
# the example needs no file of yours.

# %%
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import trimesh
from _shared import relative_error

import pdecl
from pdecl.shapes import Domain, load

jax.config.update("jax_enable_x64", True)
tolerance = 3e-2
path = Path(tempfile.mkdtemp()) / "ring.stl"
trimesh.creation.torus(1.0, 0.4, major_sections=32, minor_sections=16).export(path)

ring = load(path)
domain = Domain(ring)
exact = lambda x, y, z: x**2 - y**2 + jnp.exp(x) * jnp.sin(z)
problem = pdecl.Problem(
    domain,
    [
        pdecl.Fit(
            lambda u, z, phi: u.d("x", "x") + u.d("y", "y") + u.d("z", "z"),
            on=domain.interior,
            name="Laplace",
        ),
        pdecl.Fit(lambda u, z, phi: u() - exact(z.x, z.y, z.z), on=domain.boundary(), name="surface"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %%
points, _ = ring.interior(2000)
error = relative_error(u(points), exact(*jnp.asarray(points).T))
axes = u.plot()

# %% [markdown]
# **Change next:** a part of your own; `scale=1e-3` for one that was drawn in millimetres.
