"""A grain of a battery's electrode gives off its lithium, which diffuses the worse the more there is.

pdecl train examples/families/particle.py
"""

import jax.numpy as jnp
import jax.random as jr

from pdecl import Box, Fit, Problem

box = Box(r=(0, 1), t=(0, 1))


def draw(key):
    speed, bend, current = jr.uniform(key, (3,))
    return {"speed": 0.1 * 10**speed, "bend": 3 * bend, "current": 0.05 + 0.15 * current}


def diffusivity(c, phi):
    return phi["speed"] * jnp.exp(-phi["bend"] * c)


def diffuses(c, z, phi):
    spread = c.d("r", "r") + 2 / z.r * c.d("r") - phi["bend"] * c.d("r") ** 2
    return c.d("t") - diffusivity(c(), phi) * spread


def given_off(c, z, phi):
    return diffusivity(c(), phi) * c.d("r") + phi["current"] * (1 - jnp.exp(-50 * z.t))


problem = Problem(
    box,
    [
        Fit(diffuses, on=box.interior, name="pde"),
        Fit(lambda c, z, phi: c() - 0.8, on=box.face(t=0), name="full"),
        Fit(lambda c, z, phi: c.d("r"), on=box.face(r=0), name="centre"),
        Fit(given_off, on=box.face(r=1), name="surface"),
    ],
    parameter=draw,
    unknowns=("c",),
)
