"""Gradients through a solve, against differences."""

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import jax.random as jr
import pytest

import pdecl
from pdecl.layer.layer import weights_of
from pdecl.layer.system import build


def residual_loss(problem, basis, phi, size=8):
    """What is left of the conditions on fresh points once the layer has solved."""
    weights = weights_of(
        build(problem, basis, phi, problem.draw(size)), pdecl.solvers.GaussNewton()
    ).weights
    return build(problem, basis, phi, problem.draw(size, jr.key(1))).objective(weights)


def check_gradient(basis, loss, step=1e-5, rtol=1e-5):
    """The gradient of a loss by all parameters, along one direction, against central differences."""
    arrays, rest = eqx.partition(basis, eqx.is_inexact_array)
    flat, unravel = jax.flatten_util.ravel_pytree(arrays)
    of = jax.jit(jax.value_and_grad(lambda v: loss(eqx.combine(unravel(v), rest))))
    gradient = of(flat)[1]
    # The distribution's mean and deviation are no parameters: a direction that leaves them alone.
    direction = jnp.where(gradient == 0, 0.0, jr.normal(jr.key(3), flat.shape))
    numeric = (of(flat + step * direction)[0] - of(flat - step * direction)[0]) / (2 * step)
    assert float(gradient @ direction) == pytest.approx(float(numeric), rel=rtol)
    assert abs(numeric) > 1e-8
