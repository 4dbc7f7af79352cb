"""A basis for a grid coarser than that of φ."""

from typing import Any

import equinox as eqx

from ...support.summary import Summarised, Summary
from ..basis import Basis, as_basis, specialise
from ..grid import subsample
from .words import inner


class Thinned(Summarised, Basis):
    """A basis that sees every k-th node of a field φ, so that `nodes` remain along each side.

    An FNO gives its functions on the grid of the field that it sees, so theirs is that coarser grid. The
    problem may still be told of the whole φ (`problem(nodes=…)` of a family on a grid).
    """

    inner: Any
    nodes: int = eqx.field(static=True)

    def summary(self) -> Summary:
        return Summary(f"Thinned: {self.nodes} nodes a side", [("basis", inner(self.inner))])

    @property
    def count(self) -> int | None:
        return as_basis(self.inner).count

    def at(self, phi: Any) -> Any:
        return specialise(self.inner, subsample(phi, self.nodes))
