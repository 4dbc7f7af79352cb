"""Dense layers that read φ, whatever pytree it is, brought to mean zero and deviation one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ...state.problem import Problem
from ...support.types import Phi
from .layers import stack

_SAMPLES = 256  # parameters that the distribution's mean and deviation are estimated from


class Standard(eqx.Module):
    """φ as one array, each entry minus its mean and over its deviation under the problem's distribution.

    Both are kept with the network's parameters, so that they are saved with it, but are not trained.
    """

    mean: Float[Array, " m"]
    scale: Float[Array, " m"]  # one over the deviation

    def __init__(self, problem: Problem):
        # The distribution's own numbers: the same for every network, so no key of the caller's.
        drawn = jax.vmap(flatten)(problem.sample(jr.key(0), _SAMPLES))
        self.mean, deviation = jnp.mean(drawn, axis=0), jnp.std(drawn, axis=0)
        # What the distribution does not vary tells nothing; it is left at zero, not divided by zero.
        varies = deviation > 1e-6 * jnp.max(deviation)
        self.scale = jnp.where(varies, 1 / jnp.where(varies, deviation, 1.0), 0.0)

    def __call__(self, phi: Phi) -> Float[Array, " m"]:
        mean, scale = jax.lax.stop_gradient((self.mean, self.scale))
        return (flatten(phi).astype(mean.dtype) - mean) * scale


class Encoder(eqx.Module):
    """Dense layers from φ to `outputs` numbers of size `gain`."""

    standard: Standard
    layers: tuple[eqx.nn.Linear, ...]

    def __init__(
        self,
        problem: Problem,
        outputs: int,
        width: int,
        depth: int,
        gain: float = 1.0,
        *,
        key: PRNGKeyArray,
    ):
        self.standard = Standard(problem)
        widths = [self.standard.mean.size, *[width] * depth, outputs]
        self.layers = stack(widths, list(jr.split(key, depth + 1)), gain)

    def __call__(self, phi: Phi) -> Float[Array, " outputs"]:
        h = self.standard(phi)
        for layer in self.layers[:-1]:
            h = jnp.tanh(layer(h))
        return self.layers[-1](h)


def flatten(phi: Phi) -> Float[Array, " m"]:
    """All numbers of φ, one after the other."""
    leaves = [jnp.ravel(leaf) for leaf in jax.tree.leaves(phi)]
    if not leaves:
        raise ValueError("φ holds no numbers that a network could be conditioned on.")
    out = jnp.concatenate(leaves)
    return out if jnp.issubdtype(out.dtype, jnp.floating) else out.astype(float)
