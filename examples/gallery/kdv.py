# title: Two solitons (Korteweg–de Vries)
# statement: u_t + 6 u u_x + u_xxx = 0
# kind: nonlinear, time, periodic, order 3
# dimensions: 1 + time
# quick: tolerance = 1e-1; end = 0.2

# %% [markdown]
# A tall wave overtakes a low one, and both go on as if nothing had happened:
#
# $$u_t + 6\,u\,u_x + u_{xxx} = 0 .$$
#
# The exact solution is the second derivative in $x$ of $2 \log (1 + e^{a} + e^{b} + A\,e^{a+b})$, $a = k_1(x - x_1) - k_1^3 t$, $b = k_2(x - x_2) - k_2^3 t$,
# $A = (k_1-k_2)^2 / (k_1+k_2)^2$. On the wide box it is periodic to ten digits.

# %%
import jax
import jax.numpy as jnp
from _shared import maps, relative_error

import pdecl

jax.config.update("jax_enable_x64", True)
tolerance = 1e-4
end = 6.0


def logarithm(x, t):
    a, b = 1.8 * (x + 8) - 1.8**3 * t, 1.0 * (x + 2) - t
    return jnp.log(1 + jnp.exp(a) + jnp.exp(b) + (0.8 / 2.8) ** 2 * jnp.exp(a + b))


exact = jax.vmap(lambda x, t: 2 * jax.grad(jax.grad(logarithm))(x, t))
box = pdecl.Box(x=(-25, 25), t=(0, end))
pde = lambda u, z, phi: u.d("t") + 6 * u() * u.d("x") + u.d("x", "x", "x")
jump = lambda u, *axes: u.d(*axes) - u.at("opposite").d(*axes)
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(pde, on=box.interior, name="KdV"),
        pdecl.Fit(
            lambda u, z, phi: u() - 2 * jax.grad(jax.grad(logarithm))(z.x, 0.0),
            on=box.face(t=0),
            name="start",
        ),
        pdecl.Fit(
            lambda u, z, phi: (jump(u), jump(u, "x"), jump(u, "x", "x")),
            on=box.periodic("x"),
            name="ring",
        ),
    ],
)
u = pdecl.solve(problem, tolerance=tolerance)
print(u)

# %% [markdown]
#

# %%
points = box.mesh(301, 301)
truth = exact(*points.T)
error = relative_error(u(points), truth)
maps(box, {"u": u(points), "error": u(points) - truth}, "x", "t", 301)

# %% [markdown]
# **Change next:** a third soliton; a start that is none, such as $\cos \pi x$ with a small dispersion, which falls apart into many.
