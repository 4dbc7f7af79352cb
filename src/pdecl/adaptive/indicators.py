"""What a solution on a slab leaves out: read off its last coefficients, or off a richer solution.

All sizes are root mean squares relative to `scale`, the size of each unknown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .grid import Grid
from .slab import Slab, Start
from .space import Coefficients, Space
from .stages import at_times, radau

Scale = Mapping[str, float]


def rms(space: Space, u: str, coefficients: np.ndarray) -> float:
    return float(np.sqrt((space.spectrum(u, coefficients) ** 2).sum() / len(coefficients)))


def scales(sizes: Mapping[str, float]) -> dict[str, float]:
    """What errors of each unknown are relative to: its own size, unless that is next to nothing."""
    top = max(sizes.values()) or 1.0
    return {u: max(size, 1e-3 * top) for u, size in sizes.items()}


def space_tails(space: Space, values: Coefficients, scale: Scale) -> list[np.ndarray]:
    """What the functions leave out along each space coordinate, in each of its pieces: (pieces,)."""
    each: list[Any] = [0.0] * len(space.axes)
    for u, coefficients in values.items():
        sizes = space.tails(u, space.spectrum(u, coefficients))
        each = [np.maximum(e, _next(x / scale[u], 0.05)) for e, x in zip(each, sizes, strict=True)]
    return each


def time_tail(space: Space, values: Coefficients, s: int, scale: Scale) -> float:
    """What the polynomials in time leave out."""
    worst = 1e-300
    for u, x in values.items():
        if len(x) == s + 1:
            last = radau(s).to_legendre[-3:] @ space.spectrum(u, x).reshape(s + 1, -1)
            sizes = np.linalg.norm(last, axis=1) / np.sqrt(2 * s + 1) / scale[u]
            worst = max(worst, float(_next(sizes, 0.03)))
    return worst


def by_piece(space: Space, Z: np.ndarray, scale: Scale) -> list[np.ndarray]:
    """The share of each piece of each space coordinate in a mean square, as a root."""
    squares: list[Any] = [0.0] * len(space.axes)
    for u, share in space.shares.items():
        x = space.spectrum(u, Z[:, share]) / scale[u]
        parts = [(y**2).sum(axis=(0, 2)) / len(Z) for y in space.in_pieces(u, x)]
        squares = [a + b for a, b in zip(squares, parts, strict=True)]
    return [np.sqrt(x) for x in squares]


def smooth_and_swift(measured: np.ndarray, s: int) -> tuple[float, float]:
    """The parts of a function of time, given at s stages, below the degree s − 4 and from it on. The
    function is what two stages and nodes more change: what s − 2 stages leave out has the degrees from
    s − 4 on, what space leaves out is smooth in time."""
    sizes = np.sqrt(s) / np.sqrt(2 * np.arange(s + 1) + 1)
    c = radau(s).to_legendre[:, 1:] @ measured * sizes[:, None]
    return float(np.linalg.norm(c[: s - 4])), float(np.linalg.norm(c[s - 4 :]))


def with_start(space: Space, Z: np.ndarray, start: Start) -> Coefficients:
    """Each unknown's coefficients at the start, if it has one, and the stages."""
    shares = {u: Z[:, share] for u, share in space.shares.items()}
    return {u: np.concatenate([start[u][0][None], x]) if start.get(u) else x for u, x in shares.items()}


def extrapolated(before: "Marched | None", slab: Slab) -> np.ndarray:
    """A first guess: the last slab's polynomial in time, cut at the degree that promises the smallest
    error ahead."""
    Z = np.zeros((slab.s, slab.space.size))
    if before is not None and before.space is not slab.space:
        before = None
    for u, share in slab.space.shares.items():
        start = slab.start.get(u)
        if before is not None and start and len(before.values[u]) == slab.s + 1:
            Z[:, share] = _ahead(before, slab, u)
        elif start:
            Z[:, share] = start[0]
        elif before is not None:
            Z[:, share] = before.values[u][-1]
    return Z


class Marched:
    """The solution on a slab that is done: each unknown's coefficients at its start and stages."""

    def __init__(self, low: float, h: float, space: Space, values: Coefficients):
        self.low, self.h, self.space, self.values = low, h, space, values


def lifted(
    space: Grid, rich: Grid, values: Coefficients, start: Start, rich_start: Start, s: int
) -> np.ndarray:
    """A slab's solution at the stages of the richer one, moved by the difference of their starts."""
    x, parts = 2 * radau(s + 2).nodes - 1, []
    for u in space.unknowns:
        c = rich.convert(space, {u: values[u]})[u]
        moved = rich_start[u][0] - c[0] if start.get(u) else 0.0
        parts.append(at_times(c, s, x) + moved)
    return np.concatenate(parts, axis=1)


def difference(
    space: Grid, rich: Grid, values: Coefficients, richer: Coefficients, u: str, s: int
) -> tuple[float, float]:
    """Mean squares over a slab: of the difference from the richer solution, and of that one."""
    x, weights = np.polynomial.legendre.leggauss(s + 3)
    own = at_times(rich.convert(space, {u: values[u]})[u], s, x)
    other = at_times(richer[u], s + 2, x)
    squares = lambda c: rich.spectrum(u, c).reshape(len(c), -1) ** 2
    mean = lambda c: float((weights[:, None] / 2 * squares(c)).sum())
    return mean(own - other), mean(other)


def _next(sizes: Sequence[Any] | np.ndarray, least: float) -> Any:
    """What comes after three sizes that fall evenly, by a factor of at least `least`."""
    third, second, last = sizes
    rate = np.clip(np.sqrt(last / np.maximum(third, 1e-300)), least, 1.0)
    return np.maximum(last, second * rate) * rate


def _ahead(before: Marched, slab: Slab, u: str) -> np.ndarray:
    stages = radau(slab.s)
    times = slab.low + slab.h * np.append(0.0, stages.nodes)
    basis = np.polynomial.legendre.legvander(2 * (times - before.low) / before.h - 1, slab.s)
    coefficients = stages.to_legendre @ before.values[u]
    sizes = np.linalg.norm(coefficients, axis=1) * np.abs(basis).max(axis=0)
    degree = int(np.argmin(sizes[1:] + np.append(sizes[2:], 2 * sizes[-1]))) + 2
    guess = basis[:, :degree] @ coefficients[:degree]
    return guess[1:] + (slab.start[u][0] - guess[0])
