"""A Fourier neural operator: from a field φ on a grid to N functions on the same grid."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PRNGKeyArray

from ...state.problem import Problem
from ...support.summary import Summarised, Summary, parameters
from ...support.types import Phi
from .field import FieldFeatures
from .layers import Pickled, dense, name_of, require_counts, require_parts, warn_if_dependent
from .spectral import Full, Separable


class FNO(Summarised, Pickled, eqx.Module):
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
    - `local`: if not zero, a convolution over this many nodes a side (3) beside the spectral one. It
      sees interfaces sharply, and ties the network to the spacing of the grid it was trained on.
    - `padding`: how far beyond the domain the waves' period reaches, as a part of its length.
    - `hidden`: width of the layer before the functions; more than `hidden + 1` are linearly dependent.
    - `gain`: what the functions are multiplied by; for a soft model, the size of the solutions.
    - `slopes`: shows the network those of the field's potential too, which bend where the field jumps.
    - `features`: a function from φ to channels `(n, m, k)`; by default `FieldFeatures(problem, slopes)`.
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
        slopes: bool = False,
        features: Callable[[Any], Float[Array, "n m k"]] | None = None,
        activation: Callable[[Array], Array] = jax.nn.gelu,
        dtype: DTypeLike = jnp.float32,
        key: PRNGKeyArray,
    ):
        require_parts("FNO", problem, key, activation)
        hidden = max(128, size) if hidden is None else hidden
        require_counts(size=size, width=width, depth=depth, modes=modes, hidden=hidden)
        warn_if_dependent("FNO", size, hidden)
        if local and local % 2 == 0:
            raise ValueError(f"local must be zero or an odd number of nodes; found {local}.")
        features = FieldFeatures(problem, slopes) if features is None else features
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

    def summary(self) -> Summary:
        width, blocks = self.lift.out_features, self.blocks
        modes = blocks[0].spectral.weights.shape[1]
        rows = [
            ("blocks", f"{len(blocks)} of {width} channels, {modes} modes, {name_of(self.activation)}"),
            ("features", f"{self.lift.in_features} of φ at each node"),
            ("sees φ", True),
            ("parameters", parameters(self)),
        ]
        return Summary(f"FNO: {self.last.out_features:,} functions on the grid of φ", rows)

    @property
    def count(self) -> int:
        return len(self.last.weight)

    def __call__(self, phi: Phi) -> Float[Array, "n m size"]:
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


def pointwise(layer: eqx.nn.Linear, h: Float[Array, "n m k"]) -> Float[Array, "n m l"]:
    """A dense layer at each node."""
    out = h @ layer.weight.T
    return out if layer.bias is None else out + layer.bias
