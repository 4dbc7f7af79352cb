"""What is printed of an object: a title and aligned rows, as plain text and as HTML for notebooks.

A class says what a person wants to know of it and prints so:

    class Solution(Summarised, eqx.Module):
        def summary(self) -> Summary:
            return Summary("Solution", [("status", self.status), ("functions", self.weights.shape[-1])])

`Summarised` stands before `eqx.Module`, so that its `__repr__` wins; a dataclass needs `repr=False` too.
A value may be text, a number, an array or a tracer (see `number`), another `Summary`, or a `Table`.
Nothing here may be expensive: a summary is of what is known, and computes and traces nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

_INDENT = "  "


@dataclass(frozen=True)
class Table:
    """A few columns with a header, as the value of a row."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def lines(self) -> list[str]:
        return _aligned([self.header, *self.rows])

    def html(self) -> str:
        head = "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in self.header)
        return f"<table><tr>{head}</tr>{''.join(map(_html_row, self.rows))}</table>"


@dataclass(frozen=True)
class Summary:
    """A title and rows of a label and a value. Rows whose value is None are left out."""

    title: str
    rows: Iterable[tuple[str, Any]] = ()

    def lines(self) -> list[str]:
        rows = [(label, value) for label, value in self.rows if value is not None]
        width = max((len(label) for label, _ in rows), default=0)
        lines = [self.title]
        for label, value in rows:
            first, *others = value.lines() if isinstance(value, Summary | Table) else [number(value)]
            lines.append(f"{_INDENT}{label:<{width}}{_INDENT}{first}")
            lines += [_INDENT * 2 + " " * width + line for line in others]
        return lines

    def html(self) -> str:
        rows = [_html_row((label, value)) for label, value in self.rows if value is not None]
        return f"<b>{escape(self.title)}</b><table>{''.join(rows)}</table>"

    def __str__(self) -> str:
        return "\n".join(self.lines())


class Summarised:
    """Classes that print as the `Summary` that their `summary()` returns."""

    def summary(self) -> Summary:
        raise NotImplementedError

    # An error while something is printed would hide the one that the printing is about.
    def __repr__(self) -> str:
        try:
            return str(self.summary())
        except Exception:
            return f"<{type(self).__name__}>"

    def _repr_html_(self) -> str:
        try:
            return self.summary().html()
        except Exception:
            return escape(f"<{type(self).__name__}>")


def number(value: object) -> str:
    """A value in a few digits: of an array the median and the largest, or its shape where its numbers
    cannot be looked at."""
    if isinstance(value, jax.core.Tracer | jax.ShapeDtypeStruct):
        return f"an array {value.shape} that is not computed yet" if value.shape else "not computed yet"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer) and not isinstance(value, Enum):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, jax.Array | np.ndarray) and np.issubdtype(value.dtype, np.number):
        values = np.asarray(value)
        if values.ndim == 0:
            return number(values[()])
        if values.size == 0:
            return "none"
        return f"{np.median(values):.4g} (median), {np.max(values):.4g} (largest)"
    return str(value)


def parameters(tree: PyTree) -> str:
    """How many numbers a network holds, and in which precision."""
    arrays = [leaf for leaf in jax.tree.leaves(tree) if _is_real(leaf)]
    kinds = sorted({str(leaf.dtype) for leaf in arrays})
    return f"{sum(leaf.size for leaf in arrays):,}" + (f", {' and '.join(kinds)}" if kinds else "")


def _is_real(leaf: object) -> bool:
    shapes = isinstance(leaf, jax.ShapeDtypeStruct) and np.issubdtype(leaf.dtype, np.floating)
    return shapes or eqx.is_inexact_array(leaf)


def _aligned(rows: Sequence[Sequence[Any]]) -> list[str]:
    cells = [[number(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    padded = [[f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)] for row in cells]
    return [_INDENT.join(row).rstrip() for row in padded]


def _html_row(cells: Sequence[Any]) -> str:
    inner = [
        cell.html() if isinstance(cell, Summary | Table) else escape(number(cell)) for cell in cells
    ]
    return "<tr>" + "".join(f"<td style='text-align:left'>{text}</td>" for text in inner) + "</tr>"
