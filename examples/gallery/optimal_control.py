# title: Heating just enough (optimal control)
# statement: u_t = 0.1 u_xx + φ, u(·,1) = target
# kind: linear, control, gradients, time, basis
# dimensions: 1 + time

# %% [markdown]
# Where and when must a rod be heated so that it ends at a wanted temperature, with as little power as possible?
#
# $$\min_\varphi \; \tfrac12 \int (u(x,1) - w(x))^2 dx + \tfrac{\alpha}{2} \iint \varphi^2, \qquad u_t = 0.1\,u_{xx} + \varphi(x,t), \quad u(x,0) = 0, \quad u = 0 \text{ at the ends.}$$
#
# The cost is quadratic in φ, the 16 coefficients of the control. Its gradient and its Hessian go through the layer by the implicit function theorem; one step of Newton's method is the optimum.

# %%
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
functions = 250
alpha = 1e-4
box = pdecl.Box(x=(0, 1), t=(0, 1))
modes = lambda z: jnp.outer(jnp.sin(jnp.arange(1, 5) * jnp.pi * z.x), z.t ** jnp.arange(4)).ravel()
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(
            lambda u, z, phi: u.d("t") - 0.1 * u.d("x", "x") - phi @ modes(z),
            on=box.interior,
            name="heat",
        ),
        pdecl.Fit(lambda u, z, phi: u(), on=box.face(t=0), weight=100.0, name="cold"),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces("x"), weight=100.0, name="ends"),
    ],
    parameter=lambda key: jr.normal(key, (16,)),
)
basis = pdecl.nn.MLP(problem, size=functions, width=functions, depth=1, key=jr.key(0))
nodes, share = np.polynomial.legendre.leggauss(16)
nodes, share = jnp.asarray((nodes + 1) / 2), jnp.asarray(share / 2)
end = jnp.stack([nodes, jnp.ones(16)], axis=1)
wanted = jnp.sin(jnp.pi * nodes) + 0.3 * jnp.sin(3 * jnp.pi * nodes)
inside = jnp.stack([c.ravel() for c in jnp.meshgrid(nodes, nodes, indexing="ij")], axis=1)
area = jnp.outer(share, share).ravel()
mesh = box.mesh(41, 41)
control = lambda phi, points: jax.vmap(lambda p: phi @ modes(type("z", (), {"x": p[0], "t": p[1]})))(
    points
)


def cost(phi):
    u = pdecl.solve(problem, basis, phi, throw=False)
    return 0.5 * share @ (u(end) - wanted) ** 2 + alpha / 2 * area @ control(phi, inside) ** 2


zero = jnp.zeros(16)
best = -jnp.linalg.solve(jax.jit(jax.hessian(cost))(zero), jax.jit(jax.grad(cost))(zero))
print(f"cost {cost(zero):.3g} without control, {cost(best):.3g} with the best")

# %% [markdown]
# The reference: each mode of the rod is an ordinary differential equation with a known answer, so the optimum is one linear system.

# %%
j = np.arange(1, 5)
s, w = np.polynomial.legendre.leggauss(40)
s, w = (s + 1) / 2, w / 2
decay = np.exp(-0.1 * (j[:, None] * np.pi) ** 2 * (1 - s))
gain = np.einsum("jq,q,qk->jk", decay, w, s[:, None] ** np.arange(4))  # of mode j at the end by power k
target = np.array([1.0, 0.0, 0.3, 0.0])
power = np.einsum("q,qk,ql->kl", w, s[:, None] ** np.arange(4), s[:, None] ** np.arange(4))
exact = np.stack(
    [np.linalg.solve(np.outer(g, g) + alpha * power, g * t) for g, t in zip(gain, target, strict=True)]
)
error = relative_error(control(best, mesh), control(jnp.asarray(exact.ravel()), mesh))
maps(
    box,
    {
        "control found": control(best, mesh),
        "its temperature": pdecl.solve(problem, basis, best)(mesh),
    },
    "t",
    "x",
    41,
)

# %% [markdown]
# **Change next:** less patience for power, `alpha = 1e-2`; a control at one end only.
