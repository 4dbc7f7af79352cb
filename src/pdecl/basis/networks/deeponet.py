"""A trunk of functions and a branch that predicts their weights."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ...state.problem import Problem
from ...support.summary import Summarised, Summary, parameters
from ..basis import Basis
from .encoder import Encoder
from .features import Features
from .layers import require_counts, require_parts
from .mlp import MLP, by_unknown
from .words import dense_layers, functions, name_of


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

    @property
    def count(self) -> int | None:
        return self.trunk.count

    def __call__(self, x: Float[Array, " d"], phi: Any = None) -> Any:
        return self.trunk(x)

    def weights(self, phi: Any) -> Any:
        return by_unknown(self.branch(phi), self.trunk.unknowns)
