"""A Fourier neural operator: from a field φ on a grid to N functions on the same grid."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..problem import Problem
from .layers import dense, require_counts, warn_if_dependent
from .spectral import Full, Separable

_SAMPLES = 8  # fields that the mean and deviation are estimated from


class FNO(eqx.Module):
    """The values of `size` functions on a grid from a field φ on it:
    `ElementBasis(box, FNO(problem, size=256, key=key))`.

    Pointwise dense layers lift the features of φ to `width` channels and project them to the functions;
    between them are `depth` blocks h ← activation(spectral(h) + W h + b). It takes a field on any grid,
    and its waves are the same on all of them, so what is trained on one grid solves on another.

    Arguments:

    - `problem`: whose φ is an array `(n, m)` over a box of two coordinates.
    - `size`: how many functions.
    - `modes`: how many waves are kept along each axis.
    - `factorised`: sums of convolutions along the axes, with few weights; otherwise in the plane.
    - `local`: if not zero, a convolution over so many nodes a side (3) beside the spectral one. It sees
      interfaces sharply, and ties the network to the spacing of the grid it was trained on.
    - `padding`: how far beyond the domain the waves' period reaches, as a part of its length.
    - `hidden`: width of the layer before the functions; more than `hidden + 1` are linearly dependent.
    - `gain`: what the functions are multiplied by; for a soft model, the size of the solutions.
    - `features`: a function from φ to channels `(n, m, k)`; by default `FieldFeatures(problem)`.
    - `dtype`: of the parameters and of all that is computed with them.
    """

    features: Callable[[Any], Float[Array, "n m k"]]
    lift: eqx.nn.Linear
    blocks: tuple["Block", ...]
    project: eqx.nn.Linear
    last: eqx.nn.Linear
    activation: Callable[[Array], Array]
    gain: float = eqx.field(static=True)

    def __init__(
        self,
        problem: Problem,
        size: int,
        width: int = 32,
        depth: int = 4,
        modes: int = 16,
        *,
        factorised: bool = True,
        local: int = 0,
        padding: float = 0.2,
        hidden: int | None = None,
        gain: float = 1.0,
        features: Callable[[Any], Float[Array, "n m k"]] | None = None,
        activation: Callable[[Array], Array] = jax.nn.gelu,
        dtype: Any = jnp.float32,
        key: PRNGKeyArray,
    ):
        hidden = max(128, size) if hidden is None else hidden
        require_counts(size=size, width=width, depth=depth, modes=modes, hidden=hidden)
        warn_if_dependent("FNO", size, hidden)
        if local and local % 2 == 0:
            raise ValueError(f"local must be zero or an odd number of nodes; found {local}.")
        features = FieldFeatures(problem) if features is None else features
        phi = jax.eval_shape(lambda: jax.tree.map(lambda leaf: leaf[0], problem.sample(jr.key(0), 1)))
        channels = jax.eval_shape(features, phi).shape[-1]
        lift, project, last, *others = jr.split(key, depth + 3)
        self.activation, self.gain = activation, gain
        single = lambda tree: jax.tree.map(lambda x: x.astype(dtype) if eqx.is_array(x) else x, tree)
        self.features = single(features)
        self.lift = single(dense(channels, width, channels**-0.5, 0.5, lift))
        self.blocks = tuple(
            single(Block(width, modes, factorised, local, padding, key=key)) for key in others
        )
        self.project = single(dense(width, hidden, 2.0 * width**-0.5, 1.0, project))
        self.last = single(dense(hidden, size, hidden**-0.5 * size**-0.5, 0.0, last))

    def __call__(self, phi: Any) -> Float[Array, "n m size"]:
        # Products of 19-bit numbers, which a GPU may use, make functions too rough to differentiate.
        with jax.default_matmul_precision("highest"):
            h = pointwise(self.lift, self.features(phi).astype(self.lift.weight.dtype))
            for block in self.blocks:
                h = self.activation(block(h))
            return self.gain * pointwise(self.last, self.activation(pointwise(self.project, h)))


class Block(eqx.Module):
    """The linear part of a layer: waves, a dense layer at each node, and perhaps its neighbours."""

    spectral: Separable | Full
    dense: eqx.nn.Linear
    local: Float[Array, "a a width width"] | None

    def __init__(
        self,
        width: int,
        modes: int,
        factorised: bool,
        local: int,
        padding: float,
        *,
        key: PRNGKeyArray,
    ):
        spectral, pointwise, neighbours = jr.split(key, 3)
        kind = Separable if factorised else Full
        self.spectral = kind(width, modes, padding, key=spectral)
        self.dense = dense(width, width, width**-0.5, 0.5, pointwise)
        shape = (local, local, width, width)
        scale = 0.1 * (max(1, local) ** 2 * width) ** -0.5
        self.local = scale * jr.normal(neighbours, shape) if local else None

    def __call__(self, h: Float[Array, "n m width"]) -> Float[Array, "n m width"]:
        out = self.spectral(h) + pointwise(self.dense, h)
        if self.local is None:
            return out
        numbers = ("NHWC", "HWIO", "NHWC")
        beside = jax.lax.conv_general_dilated(
            h[None], self.local, (1, 1), "SAME", dimension_numbers=numbers
        )
        return out + beside[0]


class FieldFeatures(eqx.Module):
    """What an FNO sees of a field φ: its logarithm if the law's fields are positive, otherwise itself,
    with mean zero and deviation one; the coordinates from -1 to 1; and a bump that is zero on the walls.
    """

    mean: Float[Array, ""]
    scale: Float[Array, ""]
    positive: bool = eqx.field(static=True)

    def __init__(self, problem: Problem):
        drawn = problem.sample(jr.key(0), _SAMPLES)
        shape = getattr(drawn, "shape", None)
        if shape is None or len(shape) != 3 or len(problem.domain.names) != 2:
            raise ValueError(
                "an FNO needs a problem over two coordinates whose φ is one array (n, m); for another φ "
                f"pass `features`. Found {len(problem.domain.names)} coordinates and φ of "
                f"{jax.tree.map(lambda leaf: leaf.shape[1:], drawn)}."
            )
        self.positive = bool(jnp.all(drawn > 0))
        drawn = jnp.log(drawn) if self.positive else drawn
        deviation = jnp.std(drawn)
        self.mean, self.scale = jnp.mean(drawn), 1 / jnp.where(deviation > 0, deviation, 1.0)

    def __call__(self, phi: Float[Array, "n m"]) -> Float[Array, "n m 4"]:
        mean, scale = jax.lax.stop_gradient((self.mean, self.scale))
        field = ((jnp.log(phi) if self.positive else phi) - mean) * scale
        axes = [np.linspace(-1, 1, count) for count in phi.shape]
        x, y = np.meshgrid(*axes, indexing="ij")
        fixed = [jnp.asarray(a, field.dtype) for a in (x, y, (1 - x**2) * (1 - y**2))]
        return jnp.stack([field, *fixed], axis=-1)


def pointwise(layer: eqx.nn.Linear, h: Float[Array, "n m k"]) -> Float[Array, "n m l"]:
    """A dense layer at each node."""
    out = h @ layer.weight.T
    return out if layer.bias is None else out + layer.bias
