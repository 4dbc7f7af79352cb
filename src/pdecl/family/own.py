"""A plain `Problem` as a family: what a file states beside it is taken, the rest has its defaults."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..basis.basis import sizes
from ..error.record import ErrorBound
from ..layer.solution import Solution
from ..state.problem import Problem
from ..state.rules import tensor
from ..support.types import Phi
from . import phi as phis
from .checks import numbered
from .family import Family, phi_like
from .preset import Network

OWN = "own"  # the kind of a network that a file makes itself
# What a file may state beside its problem. A variable of another kind under one of the texts' names is
# something else, an equation as a function say.
_TEXTS, _FUNCTIONS = ("label", "equation", "norm"), ("reference", "check", "bound")


class OwnFamily(Family):
    """The family of a `Problem`.

    - `reference`: `reference(phi, coords)`, the solution for one φ at points `(n, d)`; for several
      unknowns a dictionary.
    - `check`: `check(phi)` raises a ValueError for a φ that makes no sense.
    - `bound`: `bound(solution)`, an `ErrorBound` for a batch, in the norm that `norm` names.
    - `network`: a `Network`, or a function `network(problem, key)` that returns a basis.
    """

    def __init__(
        self,
        problem: Problem,
        name: str,
        *,
        label: str = "",
        equation: str = "",
        units: Mapping[str, str] | None = None,
        reference: Callable[[Any, Any], Any] | None = None,
        check: Callable[[Any], Any] | None = None,
        bound: Callable[[Solution], ErrorBound] | None = None,
        norm: str | None = None,
        network: Network | Callable[[Problem, PRNGKeyArray], Any] | None = None,
        source: str = "",
    ):
        self.name, self.label, self.equation, self.units = name, label, equation, units or {}
        self.source = source
        self._problem, self._check, self._network = problem, check, network
        self.at_points, self.norm = reference, norm or self.norm
        self.reduced = network is None
        if reference is not None:
            self.exact = self._on_axes
        if bound is not None:
            self.bound = lambda solution, **resolution: bound(solution)

    def problem(self, *words: Any, **statement: Any) -> Problem:
        if words or statement:
            raise ValueError(
                f"{self.name} is stated as it is; it takes no {', '.join(statement) or 'arguments'}."
            )
        return self._problem

    def check(self, phi: Phi) -> Any:
        batch = super().check(phi)
        if self._check is not None:
            for number in range(phis.count(batch)):
                self._screen(phis.take(batch, number), number)
        return batch

    def basis(self, network: Network, key: PRNGKeyArray) -> Any:
        if network.kind == OWN and callable(self._network):
            if network != self.network("hard"):
                raise ValueError(
                    f"{self.name} makes its own network: its size is what its file says, not --size, "
                    "--width or --depth."
                )
            return self._network(self._problem, key)
        return super().basis(network, key)

    def network(self, method: str) -> Network:
        if isinstance(self._network, Network):
            return self._network
        if self._network is None:
            return super().network(method)
        basis = self._network(self._problem, jax.random.key(0))
        like = phi_like(self) if self._problem.parameter is not None else None
        counts = sizes(basis, self._problem.unknowns, len(self._problem.domain.names), like)
        return Network(OWN, max(counts.values()), 0, 0)

    def _screen(self, phi: Phi, number: int) -> None:
        assert self._check is not None
        try:
            verdict = self._check(phi)
        except ValueError as error:
            raise ValueError(f"{error} ({numbered(np.asarray([number]))})") from error
        if verdict is False:
            raise ValueError(
                f"{self.name} refuses this φ: its check is False ({numbered(np.asarray([number]))})"
            )

    def _on_axes(self, phi: Phi, axes: Sequence[np.ndarray]) -> Any:
        assert self.at_points is not None
        shape = tuple(map(len, axes))
        coords = jnp.asarray(tensor(list(axes), len(axes)))
        inside = self._problem.domain.covers(coords, phi)
        values = self.at_points(phi, coords)
        for array in jax.tree.leaves(values):
            if np.shape(array) != (len(coords),):
                raise ValueError(
                    f"{self.name}: reference(phi, coords) must return one number for each of the "
                    f"{len(coords)} points; found shape {np.shape(array)}."
                )
        kept = values if inside is None else jax.tree.map(partial(_where, inside), values)
        return jax.tree.map(lambda array: np.asarray(array, float).reshape(shape), kept)


def _where(inside: Any, values: Any) -> Any:
    return jnp.where(inside, values, jnp.nan)


def own(problem: Problem, name: str, stated: Mapping[str, Any]) -> OwnFamily:
    """The family of a problem, with what else the file that states it says in its variables."""
    given = {word: stated[word] for word in _TEXTS if isinstance(stated.get(word), str)}
    given |= {word: stated[word] for word in (*_FUNCTIONS, "network", "units") if word in stated}
    for word in _FUNCTIONS:
        if word in given and not callable(given[word]):
            raise ValueError(f"{name}: `{word}` must be a function; found {given[word]!r}.")
    if not isinstance(given.get("units", {}), Mapping):
        raise ValueError(f"{name}: `units` must be a dictionary of texts; found {given['units']!r}.")
    name = stated["name"] if isinstance(stated.get("name"), str) else name
    file = stated.get("__file__")
    source = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] if file else ""
    return OwnFamily(problem, name, source=source, **given)
