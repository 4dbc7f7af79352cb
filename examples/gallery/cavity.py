# title: The lid-driven cavity (Navier–Stokes)
# statement: u·∇u + ∇p = ν Δu, div u = 0
# kind: nonlinear, system
# dimensions: 2

# %% [markdown]
# A lid drags the fluid in a box; a vortex turns below:
#
# $$u\,u_x + v\,u_y + p_x = \nu \Delta u, \qquad u\,v_x + v\,v_y + p_y = \nu \Delta v, \qquad u_x + v_y = 0, \qquad \nu = 0.01,$$
#
# with $u = 4x(1-x)$ at the lid, so that the corners are not singular in $u$ (they are in $p$). *NS2d-C* of PINNacle: 3.6% at best.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error
from scipy.fft import dstn, idstn

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 2e-2
nu = 0.01
box = pdecl.Box(x=(0, 1), y=(0, 1))
momentum = lambda w, jet, slope: (
    w.u() * jet.d("x") + w.v() * jet.d("y") + slope - nu * (jet.d("x", "x") + jet.d("y", "y"))
)
pde = lambda w, z, phi: (
    momentum(w, w.u, w.p.d("x")),
    momentum(w, w.v, w.p.d("y")),
    w.u.d("x") + w.v.d("y"),
)
lid = lambda w, z, phi: (w.u() - 4 * z.x * (1 - z.x), w.v())
wall = lambda w, z, phi: (w.u(), w.v())
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(pde, on=box.interior, name="Navier–Stokes"),
        pdecl.Fit(lid, on=box.face(y=1), name="lid"),
        pdecl.Fit(wall, on=box.face(y=0), name="bottom"),
        pdecl.Fit(wall, on=box.faces("x"), name="sides"),
        pdecl.Fit(lambda w, z, phi: w.p(), on=pdecl.Points([[0.0, 0.0]]), name="pressure"),
    ],
    unknowns=("u", "v", "p"),
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The reference is another formulation by another method: finite differences for stream function and vorticity,
# $\omega = -\Delta \psi$, marched to rest, of second order and extrapolated from two grids. The velocity through the middle is compared.


# %%
def middle(n, steps):
    """u on the line x = ½, from the stream function on n × n cells."""
    h, psi, om = 1 / n, np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    lam = 2 * np.cos(np.pi * np.arange(1, n) / n) - 2
    lap = (lam[:, None] + lam) / h**2
    lid = 4 * np.arange(n + 1) * h * (1 - np.arange(n + 1) * h)
    dt = 0.2 * h**2 / nu
    for _ in range(steps):
        psi[1:-1, 1:-1] = idstn(dstn(-om[1:-1, 1:-1], 1) / lap, 1)
        om[0], om[-1] = -2 * psi[1] / h**2, -2 * psi[-2] / h**2
        om[:, 0], om[:, -1] = -2 * psi[:, 1] / h**2, -2 * psi[:, -2] / h**2 - 2 * lid / h
        u, v = (psi[1:-1, 2:] - psi[1:-1, :-2]) / (2 * h), -(psi[2:, 1:-1] - psi[:-2, 1:-1]) / (2 * h)
        x, y = (om[2:, 1:-1] - om[:-2, 1:-1]) / (2 * h), (om[1:-1, 2:] - om[1:-1, :-2]) / (2 * h)
        five = om[2:, 1:-1] + om[:-2, 1:-1] + om[1:-1, 2:] + om[1:-1, :-2] - 4 * om[1:-1, 1:-1]
        om[1:-1, 1:-1] += dt * (nu * five / h**2 - u * x - v * y)
    return ((psi[n // 2, 2:] - psi[n // 2, :-2]) / (2 * h))[n // 16 - 1 :: n // 16]


coarse, fine = middle(32, 6000), middle(64, 24000)
line = np.stack([np.full(15, 0.5), np.arange(1, 16) / 16], axis=1)
reference = (4 * fine - coarse) / 3
error = relative_error(u(line)["u"], reference)

# %%
grid = np.linspace(0, 1, 81)
x, y = (np.asarray(u(box.mesh(81, 81))[name]).reshape(81, 81).T for name in "uv")
fig, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
shown = left.pcolormesh(grid, grid, np.hypot(x, y), shading="gouraud")
left.streamplot(grid, grid, x, y, color="white", linewidth=0.6, density=1.2, arrowsize=0.8)
fig.colorbar(shown, ax=left)
left.set(title="speed", xlabel="x", ylabel="y", xlim=(0, 1), ylim=(0, 1), aspect="equal")
right.plot(u(np.stack([np.full(81, 0.5), grid], axis=1))["u"], grid, label="pdecl")
right.plot(reference, line[:, 1], "k.", label="stream function")
right.legend()
right.set(title="u on the line x = ½", xlabel="u", ylabel="y")

# %% [markdown]
# **Change next:** `nu = 0.002`; two lids.
