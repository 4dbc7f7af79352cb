# title: A family of shapes
# statement: Δu = 0 between two circles, φ moves one
# kind: linear, shape, family, gradients, basis
# dimensions: 2
# quick: terms = 6

# %% [markdown]
# A wire of radius $r$ in a pipe, a distance $d$ off its middle: what capacity does the pair have, and how does it change when the wire is moved or made thicker?
#
# $$\Delta u = 0, \qquad u = 1 \text{ on the wire}, \quad u = 0 \text{ on the pipe}, \qquad C = \oint \partial_n u, \qquad \varphi = (d, r).$$
#
# The shape depends on φ, and points move with it. So a geometry is a parameter like any other: solved for in one `vmap`, differentiated by `jax.grad`.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
from _shared import relative_error

import pdecl
from pdecl.shapes import Disk, MovingDomain

jax.config.update("jax_enable_x64", True)
terms = 16


def basis(x, phi):  # knows where the wire is: log r, cos kθ / r^k and sin kθ / r^k around it, and powers
    w = (x[0] - phi["d"] + 1j * x[1]) / phi["r"]
    z = x[0] + 1j * x[1]
    k = jnp.arange(1, terms + 1)
    around, inside = (1 / w) ** k, z**k
    parts = [jnp.ones(1), jnp.log(jnp.abs(w))[None], around.real, around.imag, inside.real, inside.imag]
    return jnp.concatenate(parts)


pipe = lambda phi: Disk((0, 0), 1) - Disk(jnp.stack([phi["d"], 0.0]), phi["r"])
domain = MovingDomain(pipe, reference={"d": jnp.array(0.3), "r": jnp.array(0.2)})
problem = pdecl.Problem(
    domain,
    [
        pdecl.Fit(lambda u, z, phi: u() - 1, on=domain.boundary("hole 1"), name="wire"),
        pdecl.Fit(lambda u, z, phi: u(), on=domain.boundary("outer"), name="pipe"),
    ],
)


def capacity(phi):
    t = 2 * jnp.pi * jnp.arange(200) / 200
    ring = 0.99 * jnp.stack([jnp.cos(t), jnp.sin(t)], axis=1)
    u = pdecl.solve(problem, basis, phi, throw=False)
    outward = u.d("x")(ring) * jnp.cos(t) + u.d("y")(ring) * jnp.sin(t)
    return -outward.mean() * 2 * jnp.pi * 0.99


phis = {"d": jnp.linspace(0.0, 0.5, 11), "r": jnp.full(11, 0.2)}
found = jax.jit(jax.vmap(capacity))(phis)
slope = jax.jit(jax.grad(capacity))({"d": jnp.array(0.3), "r": jnp.array(0.2)})

# %% [markdown]
# Every function is harmonic, so only the two boundaries are rows. The capacity is known: $C = 2\pi / \operatorname{arcosh} \tfrac{1 + r^2 - d^2}{2 r}$.

# %%
exact = lambda phi: 2 * jnp.pi / jnp.arccosh((1 + phi["r"] ** 2 - phi["d"] ** 2) / (2 * phi["r"]))
error = relative_error(found, exact(phis))
true_slope = jax.grad(exact)({"d": jnp.array(0.3), "r": jnp.array(0.2)})
print(
    "slopes",
    {k: float(v) for k, v in slope.items()},
    "exact",
    {k: float(v) for k, v in true_slope.items()},
)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(phis["d"], found, "o", label="found")
left.plot(phis["d"], exact(phis), "k-", linewidth=1, label="exact")
left.set(xlabel="d", title="capacity")
left.legend()
u = pdecl.solve(problem, basis, {"d": jnp.array(0.3), "r": jnp.array(0.2)}, throw=False)
radius, turn = jnp.meshgrid(jnp.linspace(0, 1, 80), 2 * jnp.pi * jnp.linspace(0, 1, 160))
x, y = radius * jnp.cos(turn), radius * jnp.sin(turn)
free = jnp.hypot(x - 0.3, y) > 0.2
points = jnp.stack([jnp.where(free, x, 0.9), jnp.where(free, y, 0.0)], axis=-1).reshape(-1, 2)
values = jnp.where(free, u(points).reshape(free.shape), jnp.nan)
right.contourf(x, y, values, 20)
right.set(aspect="equal", title="potential, d = 0.3")

# %% [markdown]
# **Change next:** minimise a functional of the shape with `scipy.optimize.minimize(..., jac=jax.grad(...))`.
