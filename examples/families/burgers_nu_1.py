"""Burgers, ν = 0.1: two random waves steepen into fronts.

pdecl train examples/families/burgers_nu_1.py
"""

import jax.numpy as jnp
import jax.random as jr

from pdecl import Box, Fit, Problem

nu = 0.1
box = Box(x=(0, 1), t=(0, 2))


def two_waves(key):
    """The numbers, amplitudes and phases of two waves, and their sign."""
    number, height, phase, sign = jr.split(key, 4)
    return {
        "number": jr.randint(number, (2,), 1, 5).astype(float),
        "height": jr.uniform(height, (2,)) * jr.rademacher(sign, ()),
        "phase": jr.uniform(phase, (2,), maxval=2 * jnp.pi),
    }


def start(x, phi):
    return phi["height"] @ jnp.sin(2 * jnp.pi * phi["number"] * x + phi["phase"])


def periodic(u, z, phi):
    return u() - u.at("opposite")(), u.d("x") - u.at("opposite").d("x")


problem = Problem(
    box,
    [
        Fit(
            lambda u, z, phi: u.d("t") + u() * u.d("x") - nu / jnp.pi * u.d("x", "x"),
            on=box.interior,
            name="pde",
        ),
        Fit(lambda u, z, phi: u() - start(z.x, phi), on=box.face(t=0), name="start"),
        Fit(periodic, on=box.periodic("x"), name="periodic"),
    ],
    parameter=two_waves,
)
