"""What a coordinate network sees of a point: the box mapped to [-1, 1], or periodic features."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...state.domain import Box
from ...state.problem import Problem, require_problem
from ...state.rules import require_count
from ...support.mistakes import ask, found, in_words

Features = Callable[[Float[Array, " d"]], Float[Array, " m"]]


class Scaled(eqx.Module):
    """The coordinates, each mapped from its range in the box to [-1, 1]: the default."""

    box: Box = eqx.field(static=True)

    def __repr__(self) -> str:
        return f"{', '.join(self.box.names)} from -1 to 1"

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        low, high = np.asarray(self.box.bounds).T
        require_dimension(self.box, x)
        return (x - _like(x, (low + high) / 2)) / _like(x, (high - low) / 2)


class Periodic(eqx.Module):
    """Features that repeat from face to face, so that every function of the network does, with all its
    derivatives: `MLP(problem, size=100, features=Periodic(problem, "x"), key=key)`.

    A named coordinate becomes cos and sin of 2πks for k = 1 … `waves`, divided by k, where s runs from
    0 to 1 across the domain. One wave is enough for a network to make the others of. The coordinates
    that are not named are mapped to [-1, 1] as always.
    """

    box: Box = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    waves: int = eqx.field(static=True)

    def __init__(self, problem: Problem, *names: str, waves: int = 1):
        require_problem(problem, "Periodic")
        require_count("waves", waves)
        if not names:
            raise ValueError('Periodic: name the coordinates that repeat, as in Periodic(problem, "x").')
        for name in names:
            problem.domain.axis(name)
        self.box, self.names, self.waves = problem.domain, names, waves

    def __repr__(self) -> str:
        return f"waves in {', '.join(self.names)}, up to {self.waves} a period"

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " m"]:
        orders = _like(x, np.arange(1, self.waves + 1))
        scaled, parts = Scaled(self.box)(x), []
        for axis, name in enumerate(self.box.names):
            if name in self.names:
                angles = jnp.pi * orders * (scaled[axis] + 1)
                parts += [jnp.cos(angles) / orders, jnp.sin(angles) / orders]
            else:
                parts.append(scaled[axis : axis + 1])
        return jnp.concatenate(parts)


def feature_count(features: Features, dim: int) -> int:
    """How many features there are at a point; checks what the function returns."""
    if not callable(features) or isinstance(features, type):
        raise TypeError(
            f'`features` must be a function of a point, such as Periodic(problem, "x"); found '
            f"{found(features)}."
        )
    point = jax.ShapeDtypeStruct((dim,), jnp.zeros(()).dtype)
    out = ask("`features`", jax.eval_shape, lambda x: features(x), point)
    if not hasattr(out, "shape") or len(out.shape) != 1:
        what = f"shape {out.shape}" if hasattr(out, "shape") else in_words(out)
        raise ValueError(f"`features` must map a point (d,) to an array (m,); it returned {what}.")
    return out.shape[0]


def require_dimension(box: Box, x: Float[Array, " d"]) -> None:
    """That a point has the coordinates of the box that a network was made for."""
    if x.shape != (len(box.names),):
        raise ValueError(
            f"a network made for the coordinates {', '.join(box.names)} was given a point of shape "
            f"{x.shape}: make it with the problem that it is used for."
        )


def _like(x: Array, values: Any) -> Array:
    return jnp.asarray(values, x.dtype)
