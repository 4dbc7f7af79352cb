"""A small problem, linear or not, and a basis that is not trained: random features do for it."""

import jax.numpy as jnp
import jax.random as jr

import pdecl

WIDTH = 37  # of the network: no other dimension of an online program has this size


def stated(nonlinear):
    """A wave that is damped, and with `nonlinear` steepens; φ is speed (or viscosity) and amplitudes."""
    box = pdecl.Box(x=(0, 1), t=(0, 0.5))

    def equation(u, z, phi):
        transport = u() if nonlinear else phi[0]
        return u.d("t") + transport * u.d("x") - 0.1 * phi[0] * u.d("x", "x")

    def initial(u, z, phi):
        return u() - phi[1] * jnp.sin(jnp.pi * z.x) - phi[2] * jnp.sin(2 * jnp.pi * z.x)

    return pdecl.Problem(
        box,
        [
            pdecl.Fit(equation, on=box.interior, name="equation"),
            pdecl.Fit(initial, on=box.face(t=0), weight=10.0, name="initial"),
            pdecl.Fit(lambda u, z, phi: u(), on=box.faces("x"), weight=10.0, name="walls"),
        ],
        parameter=lambda key: jr.uniform(key, (3,), minval=0.5, maxval=1.0),
    )


def network(problem, size=30):
    return pdecl.nn.MLP(problem, size=size, width=WIDTH, depth=1, frequency=2.0, key=jr.key(1))
