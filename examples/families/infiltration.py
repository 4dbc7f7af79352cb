"""Rain enters a dry soil, which conducts water the better the wetter it is.

pdecl train examples/families/infiltration.py
"""

import jax.numpy as jnp
import jax.random as jr

from pdecl import Box, Fit, Problem

box = Box(z=(0, 1), t=(0, 1))
dry, wet = 0.1, 0.9


def draw(key):
    speed, bend, gravity = jr.uniform(key, (3,))
    return {"speed": 0.1 * 10**speed, "bend": 3 * bend, "gravity": 0.5 * gravity}


def seeps(w, x, phi):
    """Richards' equation: the flux is −D(w) w_z + K(w), D = speed exp(bend w) and K = gravity w²."""
    spread = w.d("z", "z") + phi["bend"] * w.d("z") ** 2
    diffuses = phi["speed"] * jnp.exp(phi["bend"] * w()) * spread
    return w.d("t") - diffuses + 2 * phi["gravity"] * w() * w.d("z")


problem = Problem(
    box,
    [
        Fit(seeps, on=box.interior, name="pde"),
        Fit(lambda w, x, phi: w() - dry, on=box.face(t=0), name="dry"),
        Fit(
            lambda w, x, phi: w() - wet + (wet - dry) * jnp.exp(-50 * x.t), on=box.face(z=0), name="rain"
        ),
        Fit(lambda w, x, phi: w.d("z"), on=box.face(z=1), name="below"),
    ],
    parameter=draw,
    unknowns=("w",),
)
