# title: A thousand initial values (Burgers)
# statement: u_t + u u_x = ν u_xx, u(x,0) = φ(x)
# kind: nonlinear, time, family, trained, compiled
# dimensions: 1 + time

# %% [markdown]
# The paper's Burgers family comes with a trained basis. Compiled to 96 functions it answers a thousand initial values at once;
# the network does not run again.
#
# $$u_t + u\,u_x = 0.01\,u_{xx}, \qquad u(x,0) = \varphi(x) \;\text{ drawn from a Gaussian process, periodic.}$$

# %%
import time

import jax
import matplotlib.pyplot as plt
import numpy as np
from _shared import relative_error, waves

import pdecl

jax.config.update("jax_enable_x64", True)
count = 1000
trained = pdecl.load("burgers")
problem = trained.problem()
solver = pdecl.compile(trained, functions=96, at=problem.domain.mesh(101, 101))
phis = trained.family.sample(7, count)
answers = solver(phis)
begun = time.perf_counter()
answers = jax.block_until_ready(solver(phis).values)
print(f"{(time.perf_counter() - begun) / count * 1e3:.2f} ms for each of {count} initial values")

# %% [markdown]
# Twenty of them are compared with another method: waves and exponential time differencing.

# %%
times = np.linspace(0, 1, 101)
errors, some = [], min(count, 20)
for phi, found in zip(phis[:some], np.asarray(answers).reshape(count, 101, 101), strict=False):
    start = np.fft.irfft(5 * np.fft.rfft(phi[:-1]), 500)
    burgers = lambda k, v: -0.5j * k * np.fft.rfft(v**2)
    exact = waves(lambda k: -0.01 * k**2, burgers, start, 1.0, times, steps=20)
    nodes = exact[:, np.r_[0:500:5, 0]].T
    errors.append(relative_error(found, nodes))
error = float(np.mean(errors))
print(f"mean error {error:.1e}, worst {max(errors):.1e}")
fig, row = plt.subplots(2, 4, figsize=(9, 4.4), layout="constrained", sharex=True, sharey=True)
for axes, found in zip(row.ravel(), np.asarray(answers).reshape(count, 101, 101), strict=False):
    axes.pcolormesh(times, np.linspace(0, 1, 101), found, cmap="RdBu_r", shading="gouraud")
fig.supxlabel("t")
fig.supylabel("x")

# %% [markdown]
# **Change next:** `pdecl.recommend(trained, error=1e-3)`: how few functions are enough?
