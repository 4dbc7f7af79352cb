"""A coordinate network conditioned on φ."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ...state.problem import Problem
from ...support.summary import Summarised, Summary, parameters
from ...support.types import Phi
from ..basis import Basis, Wrapper, forwarded
from .encoder import Encoder
from .features import Features
from .layers import dense, dense_layers, functions, name_of, require_counts, require_parts
from .mlp import MLP, by_unknown


class Modulated(Summarised, Basis):
    """Dense layers from a point to `size` functions that change with φ.

    An encoder turns φ into a code, and each hidden layer is scaled and shifted by it:
    h ← activation((W h + b) · (1 + S code) + T code). The functions are scaled so that their plain sum
    is of order one: as a soft model, with weights of one, this is an ordinary conditioned network.

    Arguments are those of `MLP`, and

    - `code`: how many numbers φ is encoded in.
    - `strength`: how strongly the code scales and shifts at the start.

    The problem needs a distribution of φ (`parameter=`): φ is scaled by its mean and deviation under it.
    """

    network: MLP
    encoder: Encoder
    modulation: eqx.nn.Linear
    count = forwarded("count", "network")

    def __init__(
        self,
        problem: Problem,
        size: int,
        width: int = 64,
        depth: int = 3,
        activation: Callable[[Array], Array] = jnp.tanh,
        frequency: float = 1.0,
        features: Features | None = None,
        *,
        code: int = 32,
        strength: float = 0.3,
        key: PRNGKeyArray,
    ):
        require_parts("Modulated", problem, key, activation, frequency)
        require_counts(code=code)
        network_key, encoder_key, modulation_key = jr.split(key, 3)
        network = MLP(problem, size, width, depth, activation, frequency, features, key=network_key)
        last = lambda net: net.layers[-1].weight
        self.network = eqx.tree_at(last, network, last(network) * size**-0.5)
        self.encoder = Encoder(problem, code, width, 2, key=encoder_key)
        self.modulation = dense(code, 2 * depth * width, strength * code**-0.5, 0.0, modulation_key)

    def summary(self) -> Summary:
        network = self.network
        rows = [
            ("layers", dense_layers(network.layers, network.activation)),
            ("features", name_of(network.features)),
            ("sees φ", f"by a code: {dense_layers(self.encoder.layers, jnp.tanh)}"),
            ("parameters", parameters(self)),
        ]
        return Summary(functions("Modulated", network.layers[-1].out_features, network.unknowns), rows)

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        return self.at(phi)(x, phi)

    def at(self, phi: Phi) -> "Coded":
        width, depth = self.network.layers[-1].in_features, len(self.network.layers) - 1
        scales, shifts = self.modulation(self.encoder(phi)).reshape(2, depth, width)
        return Coded(self.network, 1 + scales, shifts)


class Coded(Wrapper):
    """A modulated network for one φ."""

    inner: MLP
    scales: Float[Array, "depth width"]
    shifts: Float[Array, "depth width"]

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        network = self.inner
        h = network.features(x)
        for layer, scale, shift in zip(network.layers[:-1], self.scales, self.shifts, strict=True):
            h = network.activation(layer(h) * scale + shift)
        return by_unknown(network.layers[-1](h), network.unknowns)
