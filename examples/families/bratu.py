"""Bratu's problem in the plane: a reaction that heats itself, beside a source of heat.

pdecl train examples/families/bratu.py
"""

import jax.numpy as jnp
import jax.random as jr

from pdecl import Box, Fit, Problem

box = Box(x=(0, 1), y=(0, 1))


def draw(key):
    reaction, source, place = jr.split(key, 3)
    return {
        "reaction": jr.uniform(reaction, maxval=5.0),
        "source": jr.uniform(source, maxval=10.0),
        "place": jr.uniform(place, (2,), minval=0.3, maxval=0.7),
    }


def balance(u, z, phi):
    off = (z.x - phi["place"][0]) ** 2 + (z.y - phi["place"][1]) ** 2
    source = phi["source"] * jnp.exp(-off / 0.04)
    return u.d("x", "x") + u.d("y", "y") + phi["reaction"] * jnp.exp(u()) + source


problem = Problem(
    box,
    [
        Fit(balance, on=box.interior, name="pde"),
        Fit(lambda u, z, phi: u(), on=box.faces("x", "y"), name="boundary"),
    ],
    parameter=draw,
)
