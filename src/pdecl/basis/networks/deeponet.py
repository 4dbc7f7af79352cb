"""A trunk of functions and a branch of φ: one that predicts weights, one that is seen in every layer."""

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
from .encoder import Encoder, Standard
from .features import Features, Scaled, feature_count
from .layers import (
    Pickled,
    dense,
    dense_layers,
    functions,
    name_of,
    require_counts,
    require_parts,
    stack,
)
from .mlp import MLP, by_unknown


class DeepONet(Summarised, Basis):
    """A trunk, dense layers from a point to `size` functions, and a branch from φ to their weights.

    `solve` uses the trunk alone and finds the weights; a soft model uses the branch's, which see φ
    through dense layers of the same width.

    Arguments are those of `MLP`, which the trunk is, and `branch_depth`, the branch's hidden layers if
    not as many. The problem needs a distribution of φ (`parameter=`): φ is scaled by its mean and
    deviation under it.
    """

    trunk: MLP
    branch: Encoder
    count = forwarded("count", "trunk")

    def __init__(
        self,
        problem: Problem,
        size: int,
        width: int = 64,
        depth: int = 3,
        activation: Callable[[Array], Array] = jnp.tanh,
        frequency: float = 1.0,
        features: Features | None = None,
        branch_depth: int | None = None,
        *,
        key: PRNGKeyArray,
    ):
        require_parts("DeepONet", problem, key, activation, frequency)
        branch_depth = depth if branch_depth is None else branch_depth
        require_counts(branch_depth=branch_depth)
        trunk_key, branch_key = jr.split(key)
        self.trunk = MLP(problem, size, width, depth, activation, frequency, features, key=trunk_key)
        outputs = size * len(problem.unknowns)
        # Weights of this size make u of order one.
        self.branch = Encoder(problem, outputs, width, branch_depth, size**-0.5, key=branch_key)

    def summary(self) -> Summary:
        trunk = self.trunk
        rows = [
            ("trunk", dense_layers(trunk.layers, trunk.activation)),
            ("branch", dense_layers(self.branch.layers, jnp.tanh)),
            ("features", name_of(trunk.features)),
            ("sees φ", "in its branch, whose weights a soft model takes"),
            ("parameters", parameters(self)),
        ]
        return Summary(functions("DeepONet", trunk.layers[-1].out_features, trunk.unknowns), rows)

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        return self.trunk(x)

    def weights(self, phi: Phi) -> Any:
        return by_unknown(self.branch(phi), self.trunk.unknowns)


class GatedDeepONet(Summarised, Pickled, Basis):
    """The improved DeepONet of Wang, Wang and Perdikaris (2022), a soft model to stand beside.

    Two dense layers encode φ and the point once, as U and V. After every hidden layer z of the branch
    and of the trunk, h ← (1 − z) U + z V, so that both see φ and the point. Function i is the product of
    their i-th outputs; as a soft model, with weights of one, u is the inner product of the two.

    Arguments are those of `MLP`. The problem needs a distribution of φ (`parameter=`): φ is scaled by
    its mean and deviation under it.
    """

    standard: Standard
    code_phi: eqx.nn.Linear
    code_point: eqx.nn.Linear
    branch: tuple[eqx.nn.Linear, ...]
    trunk: tuple[eqx.nn.Linear, ...]
    activation: Callable[[Array], Array]
    features: Features
    unknowns: tuple[str, ...] = eqx.field(static=True)

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
        key: PRNGKeyArray,
    ):
        require_parts("GatedDeepONet", problem, key, activation, frequency)
        require_counts(size=size, width=width, depth=depth)
        self.unknowns, self.activation = problem.unknowns, activation
        self.features, self.standard = features or Scaled(problem.domain), Standard(problem)
        coordinates, numbers = (
            feature_count(self.features, len(problem.domain.names)),
            self.standard.mean.size,
        )
        keys = list(jr.split(key, 2 * depth + 4))
        of_phi = lambda key: dense(numbers, width, numbers**-0.5, 0.0, key)
        of_point = lambda key: dense(coordinates, width, frequency, frequency, key)
        widths = [*[width] * depth, size * len(problem.unknowns)]
        self.code_phi, self.code_point = of_phi(keys.pop()), of_point(keys.pop())
        self.branch = (of_phi(keys.pop()), *stack(widths, keys[:depth]))
        # Outputs of this size make u of order one.
        self.trunk = (of_point(keys.pop()), *stack(widths, keys[depth : 2 * depth], size**-0.5))

    def summary(self) -> Summary:
        rows = [
            ("trunk", dense_layers(self.trunk, self.activation)),
            ("branch", dense_layers(self.branch, self.activation)),
            ("features", name_of(self.features)),
            ("sees φ", True),
            ("parameters", parameters(self)),
        ]
        return Summary(functions("GatedDeepONet", self.trunk[-1].out_features, self.unknowns), rows)

    @property
    def count(self) -> int | None:
        return len(self.trunk[-1].weight) // len(self.unknowns)

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        return self.at(phi)(x, phi)

    def at(self, phi: Phi) -> "Met":
        phi = self.standard(phi)
        return Met(self, self.activation(self.code_phi(phi)), self.activation(self.branch[0](phi)))


class Met(Wrapper):
    """A gated DeepONet that has read one φ: its code, and the branch's first layer."""

    inner: GatedDeepONet
    code: Float[Array, " width"]
    first: Float[Array, " width"]

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        net, point = self.inner, self.inner.features(x)
        here = net.activation(net.code_point(point))
        gate = lambda z: (1 - z) * self.code + z * here

        def through(layers: tuple[eqx.nn.Linear, ...], z: Float[Array, " width"]) -> Float[Array, " k"]:
            for layer in layers[1:-1]:
                z = net.activation(layer(gate(z)))
            return layers[-1](gate(z))

        branch = through(net.branch, self.first)
        trunk = through(net.trunk, net.activation(net.trunk[0](point)))
        return by_unknown(branch * trunk, net.unknowns)
