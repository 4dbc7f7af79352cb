"""Functions given as piecewise polynomials on a grid of pieces: POD modes of solutions."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial import legendre

from ...state.jet import Axes
from ...state.problem import Problem
from ...support.summary import Summarised, Summary
from ...support.types import Phi
from ..basis import Basis, in_chunks

_AT_ONCE = 256  # points


class Modes(Summarised, Basis):
    """In each piece products of Legendre polynomials; derivatives are those of the polynomials.

    - `breaks`: for each coordinate the ends of its E pieces, (E + 1,).
    - `coefficients`: for each unknown (E_1, …, E_d, q_1, …, q_d, N), q polynomials along a coordinate.
    """

    breaks: tuple[Float[Array, " _E"], ...]
    coefficients: dict[str, Float[Array, "..."]]
    pointwise = False

    @property
    def count(self) -> int:
        return next(iter(self.coefficients.values())).shape[-1]

    @classmethod
    def zeros(
        cls, problem: Problem, size: int, width: int, depth: int, *, pieces: Any, key: Any
    ) -> "Modes":
        """To be filled from a file; `pieces`: (E, q) for each coordinate. Networks have the rest."""
        shape = (*(e for e, _ in pieces), *(q for _, q in pieces), size)
        ends = tuple(
            jnp.linspace(*bounds, e + 1)
            for bounds, (e, _) in zip(problem.domain.bounds, pieces, strict=True)
        )
        return cls(ends, {u: jnp.zeros(shape) for u in problem.unknowns})

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """(E, q) for each coordinate."""
        shape, d = next(iter(self.coefficients.values())).shape, len(self.breaks)
        return list(zip(shape[:d], shape[d : 2 * d], strict=True))

    def summary(self) -> Summary:
        pieces = " × ".join(f"{e} pieces of degree {q - 1}" for e, q in self.pieces)
        return Summary("POD modes", [("functions", self.count), ("polynomials", pieces)])

    def contract(self, weights: Any, phi: Phi) -> "Modes":
        shares = weights if isinstance(weights, dict) else dict.fromkeys(self.coefficients, weights)
        combined = {u: (c @ shares[u])[..., None] for u, c in self.coefficients.items()}
        return Modes(self.breaks, combined)

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        return jax.tree.map(lambda values: values[0], self.jets(x[None], phi, {()})[()])

    def jets(self, coords: Float[Array, "n d"], phi: Phi, wanted: set[Axes]) -> dict[Axes, Any]:
        at = lambda x: {axes: self._at(x, axes) for axes in wanted}
        at_points = in_chunks(at, coords, _AT_ONCE)
        alone = len(self.coefficients) == 1
        return {axes: next(iter(out.values())) if alone else out for axes, out in at_points.items()}

    def _at(self, x: Float[Array, " d"], axes: Axes) -> dict[str, Float[Array, " N"]]:
        place, polynomials = [], []
        for axis, (ends, (count, degree)) in enumerate(zip(self.breaks, self.pieces, strict=True)):
            e = jnp.clip(jnp.searchsorted(ends, x[axis], side="right") - 1, 0, count - 1)
            length = ends[e + 1] - ends[e]
            place.append(e)
            polynomials.append(_legendre(2 * (x[axis] - ends[e]) / length - 1, degree, axes.count(axis))
                               * (2 / length) ** axes.count(axis))  # fmt: skip
        out = {}
        for u, coefficients in self.coefficients.items():
            block = coefficients[tuple(place)]
            for values in polynomials:
                block = jnp.tensordot(values, block, (0, 0))
            out[u] = block
        return out


def _legendre(x: Float[Array, ""], count: int, order: int) -> Float[Array, " count"]:
    """A derivative of the first Legendre polynomials."""
    values = [jnp.ones_like(x), x]
    for k in range(1, count - 1):
        values.append(((2 * k + 1) * x * values[k] - k * values[k - 1]) / (k + 1))
    if order >= count:
        return jnp.zeros(count, x.dtype)
    rise = np.zeros((count, count))
    derivative = legendre.legder(np.eye(count), order)
    rise[: len(derivative)] = derivative
    return jnp.stack(values[:count]) @ rise
