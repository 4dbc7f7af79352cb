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
import matplotlib.pyplot as plt
import numpy as np
import trimesh
from _shared import relative_error
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

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

surface = trimesh.load(path)
values = np.asarray(u(surface.triangles_center - 1e-3 * surface.face_normals))  # just inside
fig = plt.figure(figsize=(6.4, 4.4), layout="constrained")
axes = fig.add_subplot(projection="3d", box_aspect=(2.8, 2.8, 0.8), computed_zorder=False)
faces = Poly3DCollection(surface.triangles, array=values, edgecolor="white", linewidth=0.1)
axes.add_collection3d(faces)
axes.set(
    xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), zlim=(-0.4, 0.4), xlabel="x", ylabel="y", zticks=(-0.4, 0.4)
)
fig.colorbar(faces, ax=axes, shrink=0.7, label="u on the surface")

# %% [markdown]
# **Change next:** a part of your own; `scale=1e-3` for one that was drawn in millimetres.
