"""Fisher–KPP: u spreads and grows at a rate r(x) that differs from place to place.

pdecl train examples/families/fisher_kpp.py
"""

import jax.numpy as jnp
import jax.random as jr

from pdecl import Box, Fit, Problem

box = Box(x=(0, 1), t=(0, 1))
nodes = jnp.linspace(0, 1, 33)


def growth(key):
    """r at the nodes, linear between them."""
    k = jnp.arange(5)
    c = jr.normal(key, (5,)) / (1 + k)
    return 4 * jnp.exp(0.4 * jnp.cos(jnp.pi * nodes[:, None] * k) @ c)


def spreads_and_grows(u, z, r):
    return u.d("t") - 0.01 * u.d("x", "x") - jnp.interp(z.x, nodes, r) * u() * (1 - u())


problem = Problem(
    box,
    [
        Fit(spreads_and_grows, on=box.interior, name="pde"),
        Fit(
            lambda u, z, r: u() - 0.6 * jnp.exp(-(((z.x - 0.3) / 0.12) ** 2)),
            on=box.face(t=0),
            name="start",
        ),
        Fit(lambda u, z, r: u.d("x"), on=box.faces("x"), name="no flux"),
    ],
    parameter=growth,
)
