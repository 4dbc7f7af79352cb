# title: A plate with four holes
# statement: Δu = 0 on a square less four discs
# kind: linear, shape
# dimensions: 2

# %% [markdown]
# The potential between a square, $u = 1$, and four wires in it, $u = 0$. *Poisson2d-C* of PINNacle, where the best of eleven methods has an error of 1.2%.
#
# A shape is written down as what it is, a square less four discs, and solved on as a box is. Functions live in cells that are cut by the boundary and
# halved where the solution needs it.

# %%
import jax
import numpy as np
from _shared import relative_error

import pdecl
from pdecl.shapes import Disk, Domain, Rectangle

jax.config.update("jax_enable_x64", True)
tolerance = 1e-4
centres = [(x, y) for x in (-0.3, 0.3) for y in (-0.3, 0.3)]
plate = Rectangle((-0.5, -0.5), (0.5, 0.5))
for centre in centres:
    plate = plate - Disk(centre, 0.1)
domain = Domain(plate)
problem = pdecl.Problem(
    domain,
    [
        pdecl.Fit(lambda u, z, phi: u.d("x", "x") + u.d("y", "y"), on=domain.interior, name="Laplace"),
        pdecl.Fit(lambda u, z, phi: u() - 1, on=domain.boundary("outer"), name="frame"),
        pdecl.Fit(lambda u, z, phi: u(), on=domain.boundary("holes"), name="wires"),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
# The reference is a series made for this very shape: harmonic polynomials, and $\log r$, $r^{-k} \cos k\theta$, $r^{-k} \sin k\theta$ around each wire, fitted to the boundary.


# %%
def series(z):
    columns = [np.ones_like(z), *(f(z**k) for k in range(1, 41) for f in (np.real, np.imag))]
    for x, y in centres:
        w = (z - x - 1j * y) / 0.1
        columns += [np.log(abs(w)), *(f(w**-k) for k in range(1, 13) for f in (np.real, np.imag))]
    return np.stack(columns, axis=1).real


s = np.cos(np.linspace(0, np.pi, 200)) / 2
frame = np.concatenate([s + 0.5j, s - 0.5j, 0.5 + 1j * s, -0.5 + 1j * s])
wires = np.concatenate(
    [x + 1j * y + 0.1 * np.exp(2j * np.pi * np.arange(100) / 100) for x, y in centres]
)
A = series(np.concatenate([frame, wires]))
sizes = np.linalg.norm(A, axis=0)
b = np.concatenate([np.ones(len(frame)), np.zeros(len(wires))])
coefficients = np.linalg.lstsq(A / sizes, b, rcond=1e-14)[0] / sizes
points, _ = plate.interior(4000)
points = np.asarray(points)
exact = series(points[:, 0] + 1j * points[:, 1]) @ coefficients
error = relative_error(u(points), exact)
axes = u.plot()

# %% [markdown]
# **Change next:** another potential for each wire, `on=domain.boundary("hole 1")`; a flux, `u.dn() - 1`, on the frame.
