# title: A stretched plate (linear elasticity)
# statement: div σ(u, v) = f
# kind: linear, system
# dimensions: 2

# %% [markdown]
# Displacements $(u, v)$ of an elastic square that is clamped on the left, pulled on the right and free above and below:
#
# $$\operatorname{div} \sigma + f = 0, \qquad \sigma = \lambda \operatorname{tr} \varepsilon \, I + 2 \mu \varepsilon, \qquad \varepsilon = \tfrac12 (\nabla u + \nabla u^T).$$
#
# Tractions $\sigma n$ are natural conditions here: they are stated as they are written. Forces and tractions are those of the displacement
# $u = x \cos y$, $v = x^2 y / 2$, so that the answer can be checked.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
from _shared import relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-6
lam, mu = 1.2, 0.8
box = pdecl.Box(x=(0, 1), y=(0, 1))
exact = lambda x, y: (x * jnp.cos(y), 0.5 * x**2 * y)


def stress(w):
    strain = w.u.d("x") + w.v.d("y")
    shear = mu * (w.u.d("y") + w.v.d("x"))
    return lam * strain + 2 * mu * w.u.d("x"), lam * strain + 2 * mu * w.v.d("y"), shear


def force(z):  # −div σ of the exact displacement
    x = -(lam * z.x - mu * z.x * jnp.cos(z.y) + mu * z.x)
    y = -(-(lam + mu) * jnp.sin(z.y) + mu * z.y)
    return x, y


def balance(w, z, phi):
    mixed = lam + mu
    x = (lam + 2 * mu) * w.u.d("x", "x") + mu * w.u.d("y", "y") + mixed * w.v.d("x", "y")
    y = (lam + 2 * mu) * w.v.d("y", "y") + mu * w.v.d("x", "x") + mixed * w.u.d("x", "y")
    return x + force(z)[0], y + force(z)[1]


def stress_of_exact(z):
    strain = jnp.cos(z.y) + 0.5 * z.x**2
    shear = mu * (-z.x * jnp.sin(z.y) + z.x * z.y)
    return lam * strain + 2 * mu * jnp.cos(z.y), lam * strain + mu * z.x**2, shear


def pulled(w, z, phi):
    (xx, _, xy), (to_xx, _, to_xy) = stress(w), stress_of_exact(z)
    return xx - to_xx, xy - to_xy


def free(w, z, phi):
    (_, yy, xy), (_, to_yy, to_xy) = stress(w), stress_of_exact(z)
    return yy - to_yy, xy - to_xy


problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(balance, on=box.interior, name="balance"),
        pdecl.Fit(lambda w, z, phi: (w.u(), w.v()), on=box.face(x=0), name="clamped"),
        pdecl.Fit(pulled, on=box.face(x=1), name="pulled"),
        pdecl.Fit(free, on=box.faces("y"), name="above and below"),
    ],
    unknowns=("u", "v"),
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %%
points = box.mesh(61, 61)
found, truth = u(points), exact(*points.T)
error = relative_error(jnp.stack([found["u"], found["v"]]), jnp.stack(truth))
tension = 2 * mu * u.d("x")(points)["u"] + lam * (u.d("x")(points)["u"] + u.d("y")(points)["v"])
x, y = (0.3 * found[name] + part for name, part in zip("uv", points.T, strict=True))
x, y, tension = (values.reshape(61, 61) for values in (x, y, tension))
fig, axes = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
shown = axes.pcolormesh(x, y, tension, shading="gouraud")
axes.plot(x[:, ::6], y[:, ::6], "w", x[::6].T, y[::6].T, "w", linewidth=0.5)
axes.plot([0, 1, 1, 0, 0], [0, 0, 1, 1, 0], "k:", label="at rest")
fig.colorbar(shown, ax=axes, label="σ_xx")
axes.legend(loc="lower right")
axes.set(
    title="stretched (0.3 times as much)",
    xlabel="x",
    ylabel="y",
    aspect="equal",
    xlim=(-0.05, 1.4),
    ylim=(-0.05, 1.2),
)

# %% [markdown]
# **Change next:** a traction of your own in `pulled`; a plate with a hole: a `Domain` instead of the `Box`.
