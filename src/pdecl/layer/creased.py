"""Functions that crease along a front which the layer itself finds."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..basis import basis as bases
from ..basis.basis import BasisLike
from ..basis.networks.layers import inner, require_counts
from ..basis.networks.wrappers import as_single
from ..state.points import is_concrete
from ..state.problem import Problem
from ..support.mistakes import found
from ..support.summary import Summarised, Summary
from ..support.types import Phi
from .layer import weights_of
from .solvers import Cholesky, GaussNewton
from .system import build

_RIDGE = 1e-10  # of the solve for the front: its weights stay small, its place is known well enough


class Creased(Summarised, bases.Basis):
    """A basis some of whose functions have a crease, for solutions whose slope jumps across a front.

    Where a slope jumps, it often does so along a curve that is itself carried by a PDE: the zero level
    of a smooth function s. That PDE is stated like any other, and for each φ the layer solves it first,
    with the functions of `basis`. The last `along` functions are then multiplied by √(s² + w²) − w,
    which for a small blur w is |s|, with a crease where s = 0. All of it is differentiable.

    Arguments:

    - `basis`: smooth functions of one unknown.
    - `front`: the problem that s solves, of the same φ and coordinates.
    - `along`: how many of the functions are creased.
    - `blur`: w at the start, in units of s; it is trained.
    """

    basis: Any
    front: Problem
    log_blur: Float[Array, ""]
    along: int = eqx.field(static=True)
    count = bases.forwarded("count", "basis")

    def __init__(self, basis: BasisLike, front: Problem, along: int, blur: float = 0.003):
        bases.require_basis(basis, "Creased: `basis`")
        if not isinstance(front, Problem):
            raise TypeError(f"Creased: `front` must be a Problem; found {found(front)}.")
        require_counts(along=along)
        if not blur > 0:
            raise ValueError(f"Creased: blur must be positive; found {blur}.")
        if len(front.unknowns) != 1:
            raise ValueError(
                f"Creased: a front is the zero level of one unknown; found {', '.join(front.unknowns)}."
            )
        self.basis, self.front, self.along = basis, front, along
        self.log_blur = jnp.asarray(jnp.log(blur), float)

    def summary(self) -> Summary:
        blur = self.log_blur
        rows = [
            ("creased", f"the last {self.along:,} functions"),
            ("front", ", ".join(self.front.names())),
            ("blur", float(np.exp(blur)) if isinstance(blur, jax.Array) and is_concrete(blur) else blur),
            ("basis", inner(self.basis)),
        ]
        return Summary("Creased", rows)

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        return self.at(phi)(x, phi)

    def at(self, phi: Phi) -> "Folded":
        smooth = bases.specialise(self.basis, phi)
        size = sum(bases.sizes(smooth, self.front.unknowns, len(self.front.domain.names), phi).values())
        if self.along > size:
            raise ValueError(f"Creased: along = {self.along}, but the basis has {size} functions.")
        functions = as_single(smooth) if self.log_blur.dtype == jnp.float32 else smooth
        system = build(self.front, functions, phi, self.front.draw(size))
        outcome = weights_of(system, front_solver())
        return Folded(smooth, outcome.weights, jnp.exp(self.log_blur), self.along)


class Folded(bases.Wrapper):
    """The functions for one φ, with the weights of its front."""

    front: Float[Array, " N"]
    blur: Float[Array, ""]
    along: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        return jax.tree.map(self._fold, self.inner(x, phi))

    def _fold(self, functions: Float[Array, " N"]) -> Float[Array, " N"]:
        s, w = functions @ self.front.astype(functions.dtype), self.blur.astype(functions.dtype)
        smooth = functions.size - self.along
        return jnp.concatenate([functions[:smooth], functions[smooth:] * fold(s, w)])


def fold(s: Float[Array, "*n"], blur: Float[Array, ""]) -> Float[Array, "*n"]:
    """√(s² + w²) − w: |s|, rounded off within the blur w."""
    return jnp.sqrt(s**2 + blur**2) - blur


def front_solver() -> GaussNewton:
    """What finds the front."""
    return GaussNewton(Cholesky(ridge=_RIDGE))
