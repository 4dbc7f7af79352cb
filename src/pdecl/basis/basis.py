"""What a basis is, and how its functions and their derivatives are evaluated at points.

A basis is any callable `basis(x, phi)` of one point x of shape `(d,)`, in the order of the domain's
coordinates, that returns the values of its N functions: an array `(N,)`, or for several unknowns a
dictionary with one such array for each. A plain function is one. A module that has more to say of itself
is a `Basis`; `specialise`, which everything goes through, makes one of anything else.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..state.jet import Axes, derivatives
from ..state.points import Lattice
from ..support.mistakes import ask, found, in_words, require_arguments
from ..support.types import Phi

_ADVICE = (
    " A network of the point alone goes into a module with `def __call__(self, x, phi)`; one from φ to "
    "values on a grid becomes a basis as ElementBasis(box, network)."
)
_CHUNK = 2048  # points evaluated together where the N functions are not held

Weights = dict[str, Float[Array, " _N"]]


class Basis(eqx.Module):
    """N functions of a point for each unknown. A subclass writes `__call__`; others have defaults.

    - `count`: N, if it is known without running the network.
    - `at(phi)`: the basis for one φ, used instead of this one for everything. What depends on φ alone
      (the code of an encoder, values on a grid) is computed there, once.
    - `offset(x, phi)`: a fixed function, a number (or a dictionary of them): u = offset + Σ ω_i f_i.
    - `weights(phi)`: the ω that the network itself predicts, `(N,)` (or a dictionary of such arrays):
      what a soft model uses. Without it they are ones.
    - `jets(coords, phi, wanted)`: values and derivatives at points, from axes (`(0, 0)` is the second
      derivative in the first coordinate) to arrays `(n, N)`. A basis that differentiates in its own way,
      not that of `__call__`, says so by `pointwise = False`.
    - `on_lattice(lattice, phi, wanted)`: the same for points in rows and columns (`Points(lattice=…)`).
    - `contract(weights, phi)`: the basis of the single function Σ ω_i f_i, where that is cheaper than
      the N functions at each point: on a grid.
    - `times(factor)`: the basis, made for one φ, multiplied by a function of a point, where that is not
      a product at each point.
    """

    pointwise: ClassVar[Any] = True
    offset: ClassVar[Any] = None
    weights: ClassVar[Any] = None
    on_lattice: ClassVar[Any] = None
    contract: ClassVar[Any] = None
    times: ClassVar[Any] = None

    @property
    def count(self) -> int | None:
        return None

    def at(self, phi: Phi) -> "Basis":
        return self

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has to write `__call__(x, phi)` or `jets`.")

    def jets(self, coords: Float[Array, "n d"], phi: Phi, wanted: set[Axes]) -> dict[Axes, Any]:
        return jax.vmap(lambda x: derivatives(lambda y: self(y, phi), x, wanted))(coords)


def forwarded(name: str, inner: str = "inner") -> Any:
    """A member of a basis that is the one of another, which it has in a field."""
    return property(lambda self: getattr(as_basis(getattr(self, inner)), name))


class Wrapper(Basis):
    """A basis made of another, with as many functions."""

    inner: Any
    count = forwarded("count")

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        return self.at(phi)(x, phi)


def _own(name: str) -> Any:
    """A member of a user's module; None if it has none."""
    return property(lambda self: getattr(self.function, name, None))


@runtime_checkable
class HasJets(Protocol):
    """What differentiates its functions in its own way, and need not be called."""

    def jets(self, coords: Float[Array, "n d"], phi: Phi, wanted: set[Axes]) -> dict[Axes, Any]: ...


@runtime_checkable
class HasAt(Protocol):
    """What makes a basis of each φ."""

    def at(self, phi: Phi) -> Any: ...


BasisLike: TypeAlias = Basis | Callable[..., Any] | HasJets | HasAt  # what `as_basis` takes


class Plain(Basis):
    """A callable of the user's own, or a module with any of the members of a `Basis`."""

    function: Any
    offset, weights, on_lattice, contract, times = map(
        _own, ("offset", "weights", "on_lattice", "contract", "times")
    )

    def __call__(self, x: Float[Array, " d"], phi: Phi = None) -> Any:
        return self.function(x, phi)

    def at(self, phi: Phi) -> Basis:
        return as_basis(self.function.at(phi)) if hasattr(self.function, "at") else self

    def jets(self, coords: Float[Array, "n d"], phi: Phi, wanted: set[Axes]) -> dict[Axes, Any]:
        own = getattr(self.function, "jets", None)
        return super().jets(coords, phi, wanted) if own is None else own(coords, phi, wanted)

    @property
    def pointwise(self) -> bool:
        return not hasattr(self.function, "jets")


def as_basis(basis: BasisLike) -> Basis:
    return basis if isinstance(basis, Basis) else Plain(basis)


def specialise(basis: BasisLike, phi: Phi) -> Basis:
    """The basis for one φ, with all that depends on φ alone computed."""
    return as_basis(basis).at(phi)


def sizes(basis: Any, unknowns: tuple[str, ...], dim: int, phi: Phi) -> dict[str, int]:
    """How many functions each unknown has; where the basis does not know it, from shapes alone."""
    require_basis(basis)
    if (count := as_basis(basis).count) is not None:
        return dict.fromkeys(unknowns, count)
    coords = jax.ShapeDtypeStruct((1, dim), jnp.zeros(()).dtype)
    values = lambda x, phi: specialise(basis, phi).jets(x, phi, {()})[()]
    out = _by_unknown(ask("the basis", jax.eval_shape, values, coords, phi, phi=phi), unknowns)
    for unknown, leaf in out.items():
        shape = getattr(leaf, "shape", None)
        if shape is None or len(shape) != 2 or shape[1] == 0:
            what = in_words(leaf) if shape is None else f"shape {shape[1:]}"
            raise ValueError(
                f"the basis must return one value for each of its functions at a point, an array of "
                f"shape (N,); for {unknown!r} it returned {what}."
                + (" Write jnp.stack([...])." if isinstance(leaf, list | tuple) else "")
            )
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(f"the basis must return real numbers; for {unknown!r} found {leaf.dtype}.")
    return {unknown: leaf.shape[1] for unknown, leaf in out.items()}


def require_basis(basis: object, what: str = "the basis") -> None:
    """That this may be a basis, as far as can be seen without running it."""
    if isinstance(basis, type):
        raise TypeError(
            f"{what} is the class {basis.__name__}: make one, {basis.__name__}(problem, size, key=key)."
        )
    if isinstance(basis, Basis) or hasattr(basis, "jets") or hasattr(basis, "at"):
        return
    if not callable(basis):
        raise TypeError(f"{what} must be a function of (x, phi); found {found(basis)}.")
    require_arguments(what, basis, ("x", "phi"), _ADVICE)


def evaluate(
    basis: Basis,
    unknowns: tuple[str, ...],
    coords: Float[Array, "n d"],
    phi: Phi,
    wanted: Iterable[Axes],
    lattice: Lattice | None = None,
) -> dict[tuple[str, Axes], Float[Array, "n _N"]]:
    """The wanted derivatives of all functions at all points, one array for each unknown and axes.

    `lattice` is that of the points, if they are in rows and columns.
    """
    # Two sets of a lattice's points that were joined are none.
    whole = lattice is not None and math.prod(count for *_, count in lattice) == len(coords)
    if whole and basis.on_lattice is not None:
        by_axes = basis.on_lattice(lattice, phi, set(wanted))
    else:
        by_axes = basis.jets(coords, phi, set(wanted))
    return {
        (unknown, axes): values.astype(coords.dtype)
        for axes, out in by_axes.items()
        for unknown, values in _by_unknown(out, unknowns).items()
    }


def combine(
    basis: Basis,
    unknowns: tuple[str, ...],
    weights: Weights,
    coords: Float[Array, "n d"],
    phi: Phi,
    wanted: Iterable[Axes],
    lattice: Lattice | None = None,
) -> dict[tuple[str, Axes], Float[Array, " n"]]:
    """The wanted derivatives of Σ ω_i f_i, without ever holding those of the N functions.

    The sum is taken first and differentiated then, so that the cost of a derivative and the memory
    for it do not depend on N.
    """
    wanted = set(wanted)
    if basis.contract is not None:
        share = weights[unknowns[0]] if len(unknowns) == 1 else weights
        single = as_basis(basis.contract(share, phi))
        jets = evaluate(single, unknowns, coords, phi, wanted, lattice)
        return {key: values[:, 0] for key, values in jets.items()}
    if not basis.pointwise:
        jets = evaluate(basis, unknowns, coords, phi, wanted, lattice)
        return {key: values @ weights[key[0]] for key, values in jets.items()}

    def total(x: Float[Array, " d"]) -> dict[str, Float[Array, ""]]:
        out = _by_unknown(basis(x, phi), unknowns)
        return {name: out[name].astype(x.dtype) @ weights[name] for name in unknowns}

    # A chunk of points at a time, recomputed when differentiated: no array of n×N at any moment.
    at_point = jax.checkpoint(lambda x: derivatives(total, x, wanted))
    jets = in_chunks(at_point, coords, _CHUNK)
    return {(name, axes): jets[axes][name] for axes in wanted for name in unknowns}


def derivatives_of(
    basis: BasisLike,
    unknowns: tuple[str, ...],
    weights: Float[Array, " N"],
    coords: Float[Array, "n d"],
    phi: Phi,
    wanted: set[Axes],
) -> dict[tuple[str, Axes], Float[Array, " n"]]:
    """The wanted derivatives of u = offset + Σ ω_i f_i."""
    basis = specialise(basis, phi)
    shares = split(weights, sizes(basis, unknowns, coords.shape[1], phi))
    fixed = offsets(basis, unknowns, coords, phi, wanted) or {}
    total = combine(basis, unknowns, shares, coords, phi, wanted)
    return {key: values + fixed.get(key, 0.0) for key, values in total.items()}


def in_chunks(at_point: Callable[..., Any], coords: Float[Array, "n d"], most: int) -> Any:
    """A function of one point at all points, no more than so many at a time.

    All chunks are of one size, the last one filled up: a rest by itself (the `batch_size` of
    `jax.lax.map`) would put the function into the program twice, and it is most of what is compiled.
    """
    n, together = len(coords), jax.vmap(at_point)
    chunks = -(-n // most)
    if chunks <= 1:
        return together(coords)
    size = -(-n // chunks)
    filled = jnp.concatenate(
        [coords, jnp.broadcast_to(coords[-1], (chunks * size - n, coords.shape[1]))]
    )
    found = jax.lax.map(together, filled.reshape(chunks, size, -1))
    return jax.tree.map(lambda values: values.reshape(chunks * size, *values.shape[2:])[:n], found)


def offsets(
    basis: Basis,
    unknowns: tuple[str, ...],
    coords: Float[Array, "n d"],
    phi: Phi,
    wanted: Iterable[Axes],
) -> dict[tuple[str, Axes], Float[Array, " n"]] | None:
    """The wanted derivatives of the fixed function that u is measured from; None if there is none."""
    if basis.offset is None:
        return None
    wanted = set(wanted)

    def at_point(x: Float[Array, " d"]) -> dict[Axes, Any]:
        return derivatives(lambda y: _by_unknown(basis.offset(y, phi), unknowns), x, wanted)

    found = jax.vmap(at_point)(coords)
    for unknown, values in ((name, out[name]) for out in found.values() for name in unknowns):
        if values.shape != (len(coords),):
            raise ValueError(
                f"the basis's offset must be one number at a point; for {unknown!r} it has shape "
                f"{values.shape[1:]}."
            )
    return {
        (unknown, axes): values.astype(coords.dtype)
        for axes, out in found.items()
        for unknown, values in out.items()
    }


def predicted(
    basis: Basis, unknowns: tuple[str, ...], phi: Phi, sizes: dict[str, int]
) -> Float[Array, " N"]:
    """The weights ω that the basis itself predicts, one unknown after the other; ones without any."""
    if basis.weights is None:
        return jnp.ones(sum(sizes.values()))
    weights = _by_unknown(basis.weights(phi), unknowns)
    for unknown, size in sizes.items():
        if weights[unknown].shape != (size,):
            raise ValueError(
                f"the basis has {size} functions for {unknown!r}, but predicts weights of shape "
                f"{weights[unknown].shape}."
            )
    return jnp.concatenate([weights[unknown] for unknown in sizes])


def split(weights: Float[Array, " N"], sizes: dict[str, int]) -> Weights:
    """Each unknown's share of ω."""
    shares = jnp.split(weights, np.cumsum(list(sizes.values()))[:-1])
    return dict(zip(sizes, shares, strict=True))


def _by_unknown(out: Any, unknowns: tuple[str, ...]) -> dict[str, Any]:
    if len(unknowns) == 1 and not isinstance(out, dict):
        return {unknowns[0]: out}
    if not isinstance(out, dict) or set(out) != set(unknowns):
        what = sorted(out) if isinstance(out, dict) else in_words(jax.tree.map(lambda _: 0.0, out))
        raise ValueError(
            f"the problem has the unknowns {', '.join(unknowns)}, so its basis must return a "
            f"dictionary with an array (N,) for each; found {what}."
        )
    return {unknown: out[unknown] for unknown in unknowns}
