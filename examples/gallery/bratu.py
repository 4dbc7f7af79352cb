# title: A reaction that heats itself (Bratu)
# statement: Δu + λ eᵘ = 0
# kind: nonlinear
# dimensions: 2

# %% [markdown]
# The temperature of a body that burns the faster the hotter it is:
#
# $$\Delta u + \lambda e^u = 0 \;\text{ in } (0,1)^2, \qquad u = 0 \;\text{ on the boundary.}$$
#
# Below $\lambda \approx 6.81$ there are two solutions, above it none: the body ignites. A solve finds the lower one, the state that is reached from
# the cold.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-6
box = pdecl.Box(x=(0, 1), y=(0, 1))
reaction = lambda u, z, lam: u.d("x", "x") + u.d("y", "y") + lam * jnp.exp(u())
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(reaction, on=box.interior, name="Bratu"),
        pdecl.Fit(lambda u, z, lam: u(), on=box.faces(), name="cold walls"),
    ],
)
u = pdecl.solve(problem, 6.0, tolerance=tolerance)
print(u)

# %% [markdown]
# The reference is Newton's method on a mesh of Chebyshev points, written here in ten lines. It also follows the curve of both solutions
# round its fold: the middle's temperature is given, and λ an unknown.

# %%
n = 24
s = np.cos(np.pi * np.arange(n + 1) / n)
c = np.where(np.arange(n + 1) % n == 0, 2.0, 1.0) * (-1) ** np.arange(n + 1)
D = np.outer(c, 1 / c) / (s[:, None] - s + np.eye(n + 1))
D = 2 * (D - np.diag(D.sum(axis=1)))  # on (0, 1)
second = (D @ D)[1:-1, 1:-1]
laplace = np.kron(second, np.eye(n - 1)) + np.kron(np.eye(n - 1), second)
v = np.zeros((n - 1) ** 2)
for _ in range(12):
    v -= np.linalg.solve(laplace + np.diag(6 * np.exp(v)), laplace @ v + 6 * np.exp(v))
x = (s[1:-1] + 1) / 2
nodes = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
error = relative_error(u(nodes), v)
centre, warmest, lams = len(v) // 2, np.linspace(0.05, 4.5, 40), []
w, lam = np.zeros_like(v), 0.5
for warm in warmest:
    for _ in range(5):
        slope = np.block(
            [[laplace + np.diag(lam * np.exp(w)), np.exp(w)[:, None]], [np.eye(len(w) + 1)[centre]]]
        )
        step = np.linalg.solve(slope, np.append(laplace @ w + lam * np.exp(w), w[centre] - warm))
        w, lam = w - step[:-1], lam - step[-1]
    lams.append(lam)

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.4), layout="constrained")
grid = np.linspace(0, 1, 81)
shown = left.pcolormesh(
    grid, grid, u(box.mesh(81, 81)).reshape(81, 81).T, shading="gouraud", cmap="inferno"
)
fig.colorbar(shown, ax=left)
left.set(title="temperature, λ = 6", xlabel="x", ylabel="y", aspect="equal")
right.plot(lams, warmest, "k:", label="both solutions (Newton)")
for lam in (0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5):
    point = pdecl.solve(problem, lam, tolerance=1e-3)([[0.5, 0.5]])
    right.plot(lam, point, "o", color="C3", label="pdecl" if lam == 0.5 else None)
right.legend()
right.set(title="u in the middle", xlabel="λ")

# %% [markdown]
# **Change next:** `lam = 7.0`, where there is no solution: the message says so. A heat source, `+ jnp.exp(-50 * ((z.x - 0.3)**2 + (z.y - 0.5)**2))`.
