"""Diffusion–sorption: a contaminant enters a soil that holds part of it back.

pdecl train examples/families/diffusion_sorption.py
"""

import jax.numpy as jnp
import jax.random as jr

from pdecl import Box, Fit, Problem

D, p, rho, k, n = 5e-4, 0.29, 2880.0, 3.5e-4, 0.874
box = Box(x=(0, 1), t=(0, 500))


def retardation(u):
    return 1 + (1 - p) / p * rho * k * n * (jnp.maximum(u, 0) + 1e-6) ** (n - 1)


problem = Problem(
    box,
    [
        Fit(
            lambda u, z, start: u.d("t") - D / retardation(u()) * u.d("x", "x"),
            on=box.interior,
            name="pde",
        ),
        Fit(lambda u, z, start: u() - start, on=box.face(t=0), name="start"),
        Fit(lambda u, z, start: u() - 1, on=box.face(x=0), name="inflow"),
        Fit(lambda u, z, start: u() + D * u.d("x"), on=box.face(x=1), name="outflow"),
    ],
    parameter=lambda key: jr.uniform(key, maxval=0.2),
)
