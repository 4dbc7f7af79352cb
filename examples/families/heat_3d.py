"""Heat in three dimensions and time, with random conductivity and start.

pdecl train examples/families/heat_3d.py
"""

import jax.numpy as jnp
import jax.random as jr

from pdecl import Box, Fit, Problem

box = Box(x=(0, 1), y=(0, 1), z=(0, 1), t=(0, 1))


def draw(key):
    conductivity, start = jr.split(key)
    a, b = jr.uniform(start, (2,), minval=-1)
    return {"kappa": jr.uniform(conductivity, minval=0.02, maxval=0.1), "a": a, "b": b}


def mode(p, i, j, k):
    return jnp.sin(i * jnp.pi * p.x) * jnp.sin(j * jnp.pi * p.y) * jnp.sin(k * jnp.pi * p.z)


def heat(u, p, phi):
    return u.d("t") - phi["kappa"] * (u.d("x", "x") + u.d("y", "y") + u.d("z", "z"))


def starts(u, p, phi):
    return u() - mode(p, 1, 1, 1) - phi["a"] * mode(p, 2, 1, 1) - phi["b"] * mode(p, 1, 1, 2)


problem = Problem(
    box,
    [
        Fit(heat, on=box.interior, name="pde"),
        Fit(starts, on=box.face(t=0), name="start"),
        Fit(lambda u, p, phi: u(), on=box.faces("x", "y", "z"), name="cold faces"),
    ],
    parameter=draw,
)
