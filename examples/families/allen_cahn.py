"""Allen–Cahn: a random start separates into regions where u = 1 and u = −1.

pdecl train examples/families/allen_cahn.py
"""

import jax.numpy as jnp
import jax.random as jr

from pdecl import Box, Fit, Problem

box = Box(x=(-1, 1), t=(0, 1))
waves = jnp.arange(1, 5)


def amplitudes(key):
    return 0.6 * jr.normal(key, (2, 4)) / waves


def start(x, phi):
    return phi[0] @ jnp.cos(jnp.pi * waves * x) + phi[1] @ jnp.sin(jnp.pi * waves * x)


def periodic(u, z, phi):
    return u() - u.at("opposite")(), u.d("x") - u.at("opposite").d("x")


problem = Problem(
    box,
    [
        Fit(
            lambda u, z, phi: u.d("t") - 1e-3 * u.d("x", "x") + 5 * (u() ** 3 - u()),
            on=box.interior,
            name="pde",
        ),
        Fit(lambda u, z, phi: u() - start(z.x, phi), on=box.face(t=0), name="start"),
        Fit(periodic, on=box.periodic("x"), name="periodic"),
    ],
    parameter=amplitudes,
)
