"""What the networks say of themselves in their summaries."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx

from ...support.mistakes import found
from ...support.summary import Summarised, Summary


def functions(kind: str, outputs: Any, unknowns: tuple[str, ...]) -> str:
    """A title: "MLP: 64 functions for each of u, v"."""
    each = f" for each of {', '.join(unknowns)}" if len(unknowns) > 1 else f" for {unknowns[0]}"
    return f"{kind}: {outputs // len(unknowns):,} functions{each}"


def dense_layers(layers: Sequence[eqx.nn.Linear], activation: Any = None) -> str:
    """Their widths, "2 → 64 → 64", and what is between them."""
    widths = [layers[0].in_features, *(layer.out_features for layer in layers)]
    between = "" if activation is None else f", {name_of(activation)}"
    return " → ".join(map(str, widths)) + between


def name_of(function: Any) -> str:
    return getattr(function, "__name__", None) or str(function)


def inner(basis: Any) -> Summary | str:
    """A basis within another, in a summary."""
    return basis.summary() if isinstance(basis, Summarised) else found(basis)
