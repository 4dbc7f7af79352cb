# title: The layer inside a larger model
# statement: sensors → network → φ → PDE → u
# kind: linear, gradients, basis, trained
# dimensions: 1 + time

# %% [markdown]
# A network reads five noisy thermometers and is to draw the whole temperature. It need not learn what heat does: it guesses the conductivity, and
# the layer does the rest.
#
# $$\text{5 readings} \;\to\; k \;\to\; u_t = k\,u_{xx} \;\to\; u .$$
#
# It is trained on readings alone, never on $k$ or $u$: what the PDE says of the guessed $k$ has to agree with the thermometers.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import optax

import pdecl

jax.config.update("jax_enable_x64", True)
steps = 150
box = pdecl.Box(x=(0, 1), t=(0, 1))
problem = pdecl.Problem(
    box,
    [
        pdecl.Fit(lambda u, z, k: u.d("t") - k * u.d("x", "x"), on=box.interior, name="heat"),
        pdecl.Fit(
            lambda u, z, k: u() - jnp.sin(jnp.pi * z.x), on=box.face(t=0), weight=100.0, name="start"
        ),
        pdecl.Fit(lambda u, z, k: u(), on=box.faces("x"), weight=100.0, name="ends"),
    ],
    parameter=lambda key: jr.uniform(key, minval=0.02, maxval=0.3),
)
basis = pdecl.nn.MLP(problem, size=60, width=60, depth=1, key=jr.key(0))
places = jnp.array([[0.2, 0.3], [0.4, 0.6], [0.5, 0.9], [0.7, 0.5], [0.8, 0.2]])
true_u = lambda k, points: jnp.exp(-k * jnp.pi**2 * points[:, 1]) * jnp.sin(jnp.pi * points[:, 0])
reader = eqx.nn.MLP(5, "scalar", 32, 2, key=jr.key(1))
guess = lambda reader, readings: 0.02 + 0.28 * jax.nn.sigmoid(reader(4 * readings - 1))


def readings_of(key):
    one, other = jr.split(key)
    return true_u(problem.parameter(one), places) + 0.01 * jr.normal(other, (5,))


@eqx.filter_jit
def step(reader, state, key):
    def loss(reader):
        readings = jax.vmap(readings_of)(jr.split(key, 16))
        k = jax.vmap(lambda r: guess(reader, r))(readings)
        told = jax.vmap(lambda k: pdecl.solve(problem, basis, k, throw=False)(places))(k)
        return jnp.mean((told - readings) ** 2)

    value, slopes = eqx.filter_value_and_grad(loss)(reader)
    updates, state = optimiser.update(slopes, state)
    return eqx.apply_updates(reader, updates), state, value


optimiser = optax.adam(3e-3)
state = optimiser.init(eqx.filter(reader, eqx.is_inexact_array))
losses = []
for i in range(steps):
    reader, state, value = step(reader, state, jr.key(10 + i))
    losses.append(float(value))

# %% [markdown]
# New rods, with noise: how far off is the temperature everywhere?

# %%
keys = jr.split(jr.key(3), 200)
k_true = jax.vmap(lambda key: problem.parameter(jr.split(key)[0]))(keys)
k_found = jax.vmap(lambda key: guess(reader, readings_of(key)))(keys)
points = box.mesh(21, 21)
found = jax.vmap(lambda k: pdecl.solve(problem, basis, k, throw=False)(points))(k_found)
exact = jax.vmap(lambda k: true_u(k, points))(k_true)
error = float(jnp.median(jnp.linalg.norm(found - exact, axis=1) / jnp.linalg.norm(exact, axis=1)))
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.semilogy(losses)
left.set(title="misfit of the thermometers", xlabel="step")
right.plot(k_true, k_found, ".", markersize=3)
right.plot([0.02, 0.3], [0.02, 0.3], "k:")
right.set(title="conductivity", xlabel="true", ylabel="read off five thermometers")

# %% [markdown]
# **Change next:** thermometers that drift; a start that is unknown too.
