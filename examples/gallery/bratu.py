# title: A reaction that heats itself (Bratu)
# statement: Δu + λ eᵘ = 0
# kind: nonlinear
# dimensions: 2

# %% [markdown]
# The temperature of a body that burns the faster the hotter it is:
#
# $$\Delta u + \lambda e^u = 0 \;\text{ in } (0,1)^2, \qquad u = 0 \;\text{ on the boundary.}$$
#
# Below $\lambda \approx 6.8$ there are two solutions; a solve finds the lower one, the state that is reached from the cold.
# Near the limit, $\lambda = 6$, the equation is stiff but not hard.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from _shared import maps, relative_error

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
# The reference is Newton's method on a mesh of Chebyshev points, written here in ten lines.

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
warm = [
    float(pdecl.solve(problem, lam, tolerance=1e-3)([[0.5, 0.5]])[0]) for lam in (1.0, 3.0, 5.0, 6.5)
]
maps(box, {"u, λ = 6": u(box.mesh(81, 81)), "eᵘ": jnp.exp(u(box.mesh(81, 81)))}, "x", "y", 81)
print("u in the middle for λ = 1, 3, 5, 6.5:", [round(w, 3) for w in warm])

# %% [markdown]
# **Change next:** `lam = 7.0`, where there is no solution: the message says so. A heat source, `+ jnp.exp(-50 * ((z.x - 0.3)**2 + (z.y - 0.5)**2))`.
