"""What the networks share: dense layers with chosen scales, and checks of their sizes."""

import warnings
from collections.abc import Sequence

import equinox as eqx
import jax.random as jr
from jaxtyping import PRNGKeyArray

from ..rules import require_count


def dense(
    inputs: int, outputs: int, deviation: float, spread: float, key: PRNGKeyArray
) -> eqx.nn.Linear:
    """Normal weights of the given deviation, biases uniform within ± spread."""
    weight_key, bias_key = jr.split(key)
    weight = deviation * jr.normal(weight_key, (outputs, inputs))
    bias = jr.uniform(bias_key, (outputs,), minval=-spread, maxval=spread)
    linear = eqx.nn.Linear(inputs, outputs, key=key)
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), linear, (weight, bias))


def stack(
    widths: Sequence[int], keys: Sequence[PRNGKeyArray], gain: float = 1.0
) -> tuple[eqx.nn.Linear, ...]:
    """Dense layers that keep the size of what passes through them; the last multiplies it by `gain`."""
    gains = [1.0] * (len(widths) - 2) + [gain]
    return tuple(
        dense(inputs, outputs, factor * inputs**-0.5, 0.0, key)
        for inputs, outputs, factor, key in zip(widths[:-1], widths[1:], gains, keys, strict=True)
    )


def require_counts(**counts: int) -> None:
    for name, value in counts.items():
        require_count(name, value)


def warn_if_dependent(network: str, size: int, width: int) -> None:
    """A last linear layer of some width spans at most width + 1 functions, its bias included."""
    if size > width + 1:
        warnings.warn(
            f"{network}: {size} functions from a last hidden layer of width {width} span at most "
            f"{width + 1} dimensions; raise width to {size - 1} or lower size.",
            stacklevel=3,
        )
