"""Natural convection in a square cavity that is hot on the left, of fluids from air to oil.

pdecl train examples/families/natural_convection.py
"""

import jax.random as jr

from pdecl import Box, Fit, Problem

box = Box(x=(0, 1), y=(0, 1))


def draw(key):
    rayleigh, prandtl = jr.uniform(key, (2,))
    return {"Ra": 10 ** (3 + 1.5 * rayleigh), "Pr": 10 ** (2 * prandtl - 0.3)}


def flow(w, z, phi):
    """Of the stream function, u = psi_y and v = −psi_x, and of the temperature."""
    psi, T = w.psi, w.T
    carried = lambda a, b: psi.d("y") * a - psi.d("x") * b
    laplacian = lambda *by: psi.d("x", "x", *by) + psi.d("y", "y", *by)
    spin = carried(laplacian("x"), laplacian("y"))
    return (
        (laplacian("x", "x") + laplacian("y", "y") - spin / phi["Pr"]) / phi["Ra"] - T.d("x"),
        T.d("x", "x") + T.d("y", "y") - carried(T.d("x"), T.d("y")),
    )


problem = Problem(
    box,
    [
        Fit(flow, on=box.interior, name="flow"),
        Fit(lambda w, z, phi: w.psi(), on=box.faces("x", "y"), name="walls"),
        Fit(lambda w, z, phi: w.psi.d("x"), on=box.faces("x"), name="no slip at the sides"),
        Fit(lambda w, z, phi: w.psi.d("y"), on=box.faces("y"), name="no slip above and below"),
        Fit(lambda w, z, phi: w.T() - 0.5 + z.x, on=box.faces("x"), name="hot and cold"),
        Fit(lambda w, z, phi: w.T.d("y"), on=box.faces("y"), name="no flux"),
    ],
    parameter=draw,
    unknowns=("psi", "T"),
)
