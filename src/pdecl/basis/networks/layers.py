"""What the networks share: dense layers with chosen scales, checks of sizes, words for summaries."""

import functools
import importlib
import warnings
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from ...state.points import is_concrete
from ...state.problem import require_problem
from ...state.rules import require_count
from ...support.mistakes import ask, found, require_key
from ...support.summary import Summarised, Summary
from ..basis import BasisLike

_KINKED = (jax.nn.relu, jax.nn.relu6, jax.nn.leaky_relu)


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


def require_parts(
    network: str, problem: object, key: object, activation: Any = jnp.tanh, frequency: Any = 1.0
) -> None:
    """What the networks are made of, looked at before anything is drawn."""
    require_problem(problem, network)
    require_key(key, network)
    if not callable(activation):
        raise TypeError(
            f"{network}: `activation` must be a function such as jnp.tanh; found {found(activation)}."
        )
    numbers = jax.ShapeDtypeStruct((3,), jnp.zeros(()).dtype)
    # Not `activation` itself: of a function of NumPy JAX makes a program that ends the process.
    out = ask(f"{network}: `activation`", jax.eval_shape, lambda x: activation(x), numbers)
    if getattr(out, "shape", None) != numbers.shape:
        raise ValueError(f"{network}: `activation` must map arrays to arrays of the same shape.")
    if any(activation is kinked for kinked in _KINKED):
        warnings.warn(
            f"{network}: {activation.__name__} has no second derivative, which a PDE of second order "
            "needs; take a smooth one, such as jnp.tanh or jax.nn.gelu.",
            stacklevel=3,
        )
    if is_concrete(frequency) and not (np.ndim(frequency) == 0 and _is_positive(frequency)):
        raise ValueError(f"{network}: `frequency` must be a positive number; found {frequency!r}.")


def _is_positive(x: Any) -> bool:
    return isinstance(x, int | float | np.number | jax.Array | np.ndarray) and bool(0 < x < np.inf)


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


def functions(kind: str, outputs: Any, unknowns: tuple[str, ...]) -> str:
    """A title: "MLP: 64 functions for each of u, v"."""
    each = f" for each of {', '.join(unknowns)}" if len(unknowns) > 1 else f" for {unknowns[0]}"
    return f"{kind}: {outputs // len(unknowns):,} functions{each}"


def dense_layers(layers: Sequence[eqx.nn.Linear], activation: object = None) -> str:
    """Their widths, "2 → 64 → 64", and what is between them."""
    widths = [layers[0].in_features, *(layer.out_features for layer in layers)]
    between = "" if activation is None else f", {name_of(activation)}"
    return " → ".join(map(str, widths)) + between


def name_of(function: object) -> str:
    return getattr(function, "__name__", None) or str(function)


def inner(basis: BasisLike) -> Summary | str:
    """A basis within another, in a summary."""
    return basis.summary() if isinstance(basis, Summarised) else found(basis)


class Pickled:
    """A module whose fields may be functions of JAX: those go by the name they are imported under."""

    def __reduce__(self) -> Any:
        fields = {name: _named(value) for name, value in vars(self).items()}
        return _restored, (type(self), fields)


class _Name(tuple[str, str]):
    """Where a function is imported from."""


def _named(value: object) -> Any:
    place: Any = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    return _Name(place) if all(place) and _imported(*place) is value else value


def _imported(module: str, name: str) -> Any:
    try:
        return functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except (AttributeError, ImportError):
        return None


def _restored(cls: type, fields: dict[str, Any]) -> Any:
    module: Any = object.__new__(cls)
    for name, value in fields.items():
        vars(module)[name] = _imported(*value) if isinstance(value, _Name) else value
    return module
