"""Heat in a rod, for any conductivity and first height: pdecl train examples/my_heat.py"""

import jax.numpy as jnp
import jax.random as jr

import pdecl

box = pdecl.Box(x=(0, 1), t=(0, 1))
units = {"x": "m", "t": "s", "u": "K", "k": "m2/s", "height": "K"}


def draw(key):
    one, other = jr.split(key)
    return {"k": jr.uniform(one, minval=0.02, maxval=0.2), "height": 1 + jr.uniform(other)}


def start(u, z, phi):
    return u() - phi["height"] * jnp.sin(jnp.pi * z.x)


problem = pdecl.Problem(
    domain=box,
    conditions=[
        pdecl.Fit(lambda u, z, phi: u.d("t") - phi["k"] * u.d("x", "x"), on=box.interior, name="heat"),
        pdecl.Fit(start, on=box.face(t=0), weight=10.0, name="start"),
        pdecl.Fit(lambda u, z, phi: u(), on=box.faces("x"), weight=10.0, name="walls"),
    ],
    parameter=draw,
)


def reference(phi, coords):
    x, t = coords.T
    return phi["height"] * jnp.exp(-phi["k"] * jnp.pi**2 * t) * jnp.sin(jnp.pi * x)
