"""Dense layers from a point to N functions."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ...state.problem import Problem
from ...support.summary import Summarised, Summary, parameters
from ...support.types import Phi
from ..basis import Basis
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
    warn_if_dependent,
)


class MLP(Summarised, Pickled, Basis):
    """Dense layers from a point to `size` functions for each unknown. Does not look at φ.

    The domain is mapped to [-1, 1] in each coordinate, and the units of the first layer switch at
    different places of it: so the functions differ from the start, and the first solve is a good one.

    Arguments:

    - `problem`: whose domain and unknowns the functions are for.
    - `size`: how many functions for each unknown. More than `width + 1` are linearly dependent.
    - `width`, `depth`: of the hidden layers.
    - `activation`: smooth, since the PDE differentiates it.
    - `frequency`: how steep the first layer's units are, per half-width of the domain. Smooth solutions
      want 0.5 to 1, steep ones more.
    - `features`: what the first layer sees of a point, `Periodic(problem, "x")` say.
    - `key`: draws the weights.
    """

    layers: tuple[eqx.nn.Linear, ...]
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
        require_parts("MLP", problem, key, activation, frequency)
        require_counts(size=size, width=width, depth=depth)
        warn_if_dependent("MLP", size, width)
        self.unknowns, self.activation = problem.unknowns, activation
        self.features = features or Scaled(problem.domain)
        widths = [*[width] * depth, size * len(problem.unknowns)]
        inputs = feature_count(self.features, len(problem.domain.names))
        first, *others = jr.split(key, depth + 1)
        self.layers = (
            dense(inputs, width, frequency, frequency, first),
            *stack(widths, others),
        )

    def summary(self) -> Summary:
        rows = [
            ("layers", dense_layers(self.layers, self.activation)),
            ("features", name_of(self.features)),
            ("sees φ", False),
            ("parameters", parameters(self)),
        ]
        return Summary(functions("MLP", self.layers[-1].out_features, self.unknowns), rows)

    @property
    def count(self) -> int | None:
        return len(self.layers[-1].weight) // len(self.unknowns)

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        h = self.features(x)
        for layer in self.layers[:-1]:
            h = self.activation(layer(h))
        return by_unknown(self.layers[-1](h), self.unknowns)


def by_unknown(out: Float[Array, " k"], unknowns: tuple[str, ...]) -> Any:
    """An array for one unknown; for several, equal shares of it by name."""
    if len(unknowns) == 1:
        return out
    return dict(zip(unknowns, jnp.split(out, len(unknowns)), strict=True))
