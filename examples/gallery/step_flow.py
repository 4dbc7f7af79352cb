# title: Flow over a step (Navier–Stokes)
# statement: u·∇u + ∇p = ν Δu, div u = 0
# kind: nonlinear, system, shape, corner
# dimensions: 2

# %% [markdown]
# A jet enters a channel that widens at a step. Behind the step the fluid turns back:
#
# $$(u, v)\cdot\nabla u + p_x = \nu \Delta u, \qquad (u, v)\cdot\nabla v + p_y = \nu \Delta v, \qquad u_x + v_y = 0, \qquad \nu = 0.02,$$
#
# with $u = 4y(1-y)$ at the inlet, no slip at the walls, and $p = 0$, $v = 0$ at the outlet. The geometry is that of *NS2d-CG* of PINNacle.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np
import skfem
from _shared import relative_error
from skfem.helpers import ddot, div, dot, grad

import pdecl
from pdecl.shapes import Domain, Rectangle

jax.config.update("jax_enable_x64", True)
tolerance = 5e-2
nu = 0.02
channel = Rectangle((0, 0), (4, 2)) - Rectangle((0, 1), (2, 2))
channel = channel.name("inlet", lambda x: x[:, 0] < 1e-9).name("outlet", lambda x: x[:, 0] > 4 - 1e-9)
walls = [part for part in channel.part_names if part not in ("inlet", "outlet")]
domain = Domain(channel)
moved = lambda w, q: w.u() * q.d("x") + w.v() * q.d("y") - nu * (q.d("x", "x") + q.d("y", "y"))
flow = lambda w, z, phi: (
    moved(w, w.u) + w.p.d("x"),
    moved(w, w.v) + w.p.d("y"),
    w.u.d("x") + w.v.d("y"),
)
inflow = lambda w, z, phi: (w.u() - 4 * z.y * (1 - z.y), w.v())
problem = pdecl.Problem(
    domain,
    [
        pdecl.Fit(flow, on=domain.interior, name="Navier–Stokes"),
        pdecl.Fit(inflow, on=domain.boundary("inlet"), name="inlet"),
        pdecl.Fit(lambda w, z, phi: (w.p(), w.v()), on=domain.boundary("outlet"), name="outlet"),
        pdecl.Fit(lambda w, z, phi: (w.u(), w.v()), on=domain.boundary(*walls), name="walls"),
    ],
    unknowns=("u", "v", "p"),
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The reference is another method: Taylor–Hood finite elements (scikit-fem) on 4096 squares cut into triangles, by Newton's method.

# %%
mesh = skfem.MeshTri.init_tensor(np.linspace(0, 4, 97), np.linspace(0, 2, 49))
centre = mesh.p[:, mesh.t].mean(axis=1)
mesh = mesh.remove_elements(np.flatnonzero((centre[0] < 2) & (centre[1] > 1)))
velocity = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementTriP2()), intorder=5)
pressure = velocity.with_element(skfem.ElementTriP1())
A = nu * skfem.BilinearForm(lambda u, v, w: ddot(grad(u), grad(v))).assemble(velocity)
B = skfem.BilinearForm(lambda u, q, w: -div(u) * q).assemble(velocity, pressure)
carry = lambda a, b: np.einsum("j...,ij...->i...", a, b)
newton = skfem.BilinearForm(lambda u, v, w: dot(carry(w["at"], grad(u)) + carry(u, w["at"].grad), v))
twice = skfem.LinearForm(lambda v, w: dot(carry(w["at"], w["at"].grad), v))
at_outlet = mesh.facets_satisfying(lambda x: x[0] > 4 - 1e-9)
fixed = np.r_[
    velocity.get_dofs(np.setdiff1d(mesh.boundary_facets(), at_outlet)).flatten(),
    velocity.get_dofs(at_outlet).all("u^2"),
]
x = np.zeros(velocity.N + pressure.N)
rows = velocity.get_dofs(lambda x: x[0] < 1e-9).all("u^1")
x[rows] = 4 * velocity.doflocs[1, rows] * (1 - velocity.doflocs[1, rows])
known = np.unique(np.r_[fixed, velocity.N + pressure.get_dofs(at_outlet).flatten()])
for _ in range(8):
    at = velocity.interpolate(x[: velocity.N])
    C = newton.assemble(velocity, at=at)
    right = np.r_[C @ x[: velocity.N] - twice.assemble(velocity, at=at), np.zeros(pressure.N)]
    matrix = skfem.bmat([[A + C, B.T], [B, None]], "csr")
    x = skfem.solve(*skfem.condense(matrix, right, x=x, D=known))
points = mesh.p.T
exact = x[velocity.nodal_dofs]
found = u(points)
error = relative_error(np.stack([found["u"], found["v"]]), exact)

# %%
X, Y = np.meshgrid(np.linspace(0.005, 3.995, 240), np.linspace(0.005, 1.995, 120))
outside = (X < 2) & (Y > 1)
seen = u(np.stack([X[~outside], Y[~outside]], axis=1))
fields = {name: np.full(X.shape, np.nan) for name in "uvp"}
for name in "uvp":
    fields[name][~outside] = seen[name]
fig, axes = plt.subplots(figsize=(8, 4), layout="constrained")
speed = axes.pcolormesh(X, Y, np.hypot(fields["u"], fields["v"]), shading="gouraud")
axes.streamplot(X, Y, fields["u"], fields["v"], color="white", linewidth=0.6, density=1.5, arrowsize=0.7)
axes.fill([0, 2, 2, 0], [1, 1, 2, 2], color="0.8")
fig.colorbar(speed, ax=axes, label="speed")
axes.set(title="flow over a step", xlabel="x", ylabel="y", aspect="equal", xlim=(0, 4), ylim=(0, 2))

# %% [markdown]
# **Change next:** a thinner fluid, `nu = 0.01`; a cylinder in the way, `channel - Disk((3, 1), 0.2)`.
