"""Networks that propose basis functions."""

import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from .problem import Problem
from .rules import require_count


class MLP(eqx.Module):
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
    """

    layers: tuple[eqx.nn.Linear, ...]
    activation: Callable[[Array], Array]
    centre: tuple[float, ...] = eqx.field(static=True)
    reach: tuple[float, ...] = eqx.field(static=True)
    unknowns: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        problem: Problem,
        size: int,
        width: int = 64,
        depth: int = 3,
        activation: Callable[[Array], Array] = jnp.tanh,
        frequency: float = 1.0,
        *,
        key: PRNGKeyArray,
    ):
        for name, value in [("size", size), ("width", width), ("depth", depth)]:
            require_count(name, value)
        if size > width + 1:
            warnings.warn(
                f"MLP: {size} functions from a last hidden layer of width {width} span at most "
                f"{width + 1} dimensions; raise width to {size - 1} or lower size.",
                stacklevel=2,
            )
        bounds = problem.domain.bounds
        self.centre = tuple((low + high) / 2 for low, high in bounds)
        self.reach = tuple((high - low) / 2 for low, high in bounds)
        self.unknowns, self.activation = problem.unknowns, activation
        widths = [len(bounds), *[width] * depth, size * len(problem.unknowns)]
        first, *others = jr.split(key, depth + 1)
        self.layers = (
            _layer(widths[0], widths[1], frequency, frequency, first),
            *(
                _layer(inputs, outputs, inputs**-0.5, 0.0, key)
                for inputs, outputs, key in zip(widths[1:-1], widths[2:], others, strict=True)
            ),
        )

    def __call__(self, x: Float[Array, " d"], phi: Any = None) -> Any:
        h = (x - jnp.asarray(self.centre)) / jnp.asarray(self.reach)
        for layer in self.layers[:-1]:
            h = self.activation(layer(h))
        out = self.layers[-1](h)
        if len(self.unknowns) == 1:
            return out
        return dict(zip(self.unknowns, jnp.split(out, len(self.unknowns)), strict=True))


def _layer(
    inputs: int, outputs: int, deviation: float, spread: float, key: PRNGKeyArray
) -> eqx.nn.Linear:
    """Normal weights of the given deviation, biases uniform within ± spread."""
    weight_key, bias_key = jr.split(key)
    weight = deviation * jr.normal(weight_key, (outputs, inputs))
    bias = jr.uniform(bias_key, (outputs,), minval=-spread, maxval=spread)
    linear = eqx.nn.Linear(inputs, outputs, key=key)
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), linear, (weight, bias))
