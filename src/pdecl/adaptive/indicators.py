"""What a solution on a slab leaves out: read off its last coefficients, or off a richer solution.

All sizes are root mean squares relative to `scale`, the size of each unknown. For a batch of φ every
array has one more axis in front, and so has what is measured.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .grid import Grid
from .slab import Slab, Start
from .space import Coefficients, Space
from .stages import at_times, radau

Scale = Mapping[str, Any]


def rms(space: Space, u: str, coefficients: np.ndarray) -> Any:
    y = space.spectrum(u, coefficients)
    own = tuple(range(coefficients.ndim - 2, y.ndim))
    return np.sqrt((y**2).sum(axis=own) / coefficients.shape[-2])


def scales(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """What errors of each unknown are relative to: its own size, unless that is next to nothing."""
    top = np.max(list(sizes.values()), axis=0)
    top = np.where(top > 0, top, 1.0)
    return {u: np.maximum(size, 1e-3 * top) for u, size in sizes.items()}


def space_tails(space: Space, values: Coefficients, scale: Scale) -> list[np.ndarray]:
    """What the functions leave out along each space coordinate, in each of its pieces: (…, pieces)."""
    each: list[Any] = [0.0] * len(space.axes)
    for u, coefficients in values.items():
        sizes = space.tails(u, space.spectrum(u, coefficients))
        own = np.asarray(scale[u])[..., None, None]
        each = [np.maximum(e, _next(x / own, 0.05)) for e, x in zip(each, sizes, strict=True)]
    return each


def time_tail(space: Space, values: Coefficients, s: int, scale: Scale) -> Any:
    """What the polynomials in time leave out."""
    worst: Any = 1e-300
    for u, x in values.items():
        if x.shape[-2] == s + 1:
            last = radau(s).to_legendre[-3:] @ space.spectrum(u, x).reshape(*x.shape[:-1], -1)
            sizes = np.linalg.norm(last, axis=-1) / np.sqrt(2 * s + 1)
            sizes = sizes / np.asarray(scale[u])[..., None]
            worst = np.maximum(worst, _next(sizes[..., None], 0.03)[..., 0])
    return worst


def by_piece(space: Space, Z: np.ndarray, scale: Scale) -> list[np.ndarray]:
    """The share of each piece of each space coordinate in a mean square, as a root."""
    squares: list[Any] = [0.0] * len(space.axes)
    for u, share in space.shares.items():
        y = space.in_pieces(u, space.spectrum(u, Z[..., share]))
        own = np.asarray(scale[u])[..., None] ** 2 * Z.shape[-2]
        parts = [(x**2).sum(axis=(-4, -3, -1)) / own for x in y]
        squares = [a + b for a, b in zip(squares, parts, strict=True)]
    return [np.sqrt(x) for x in squares]


def smooth_and_swift(measured: np.ndarray, s: int) -> tuple[Any, Any]:
    """The parts of a function of time, given at s stages, below the degree s − 4 and from it on. The
    function is what two stages and nodes more change: what s − 2 stages leave out has the degrees from
    s − 4 on, what space leaves out is smooth in time."""
    sizes = np.sqrt(s) / np.sqrt(2 * np.arange(s + 1) + 1)
    c = radau(s).to_legendre[:, 1:] @ measured * sizes[:, None]
    size = lambda c: np.sqrt((c**2).sum(axis=(-2, -1)))
    return size(c[..., : s - 4, :]), size(c[..., s - 4 :, :])


def with_start(space: Space, Z: np.ndarray, start: Start) -> Coefficients:
    """Each unknown's coefficients at the start, if it has one, and the stages."""
    shares = {u: Z[..., share] for u, share in space.shares.items()}
    begun = lambda y, x: np.concatenate([y[..., None, :], x], axis=-2)
    return {u: begun(start[u][0], x) if start.get(u) else x for u, x in shares.items()}


def extrapolated(before: "Marched | None", slab: Slab) -> np.ndarray:
    """A first guess: the last slab's polynomial in time, cut at the degree that promises the smallest
    error ahead."""
    lead = next((y[0].shape[:-1] for y in slab.start.values() if y), ())
    Z = np.zeros((*lead, slab.s, slab.space.size))
    if before is not None and before.space is not slab.space:
        before = None
    for u, share in slab.space.shares.items():
        start = slab.start.get(u)
        if before is not None and start and before.values[u].shape[-2] == slab.s + 1:
            Z[..., share] = _ahead(before, slab, u)
        elif start:
            Z[..., share] = start[0][..., None, :]
        elif before is not None:
            Z[..., share] = before.values[u][..., -1:, :]
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
        moved = (rich_start[u][0] - c[..., 0, :])[..., None, :] if start.get(u) else 0.0
        parts.append(at_times(c, s, x) + moved)
    return np.concatenate(parts, axis=-1)


def difference(
    space: Grid, rich: Grid, values: Coefficients, richer: Coefficients, u: str, s: int
) -> tuple[Any, Any]:
    """Mean squares over a slab: of the difference from the richer solution, and of that one."""
    x, weights = np.polynomial.legendre.leggauss(s + 3)
    own = at_times(rich.convert(space, {u: values[u]})[u], s, x)
    other = at_times(richer[u], s + 2, x)
    squares = lambda c: rich.spectrum(u, c).reshape(*c.shape[:-1], -1) ** 2
    mean = lambda c: (weights / 2 * squares(c).sum(axis=-1)).sum(axis=-1)
    return mean(own - other), mean(other)


def _next(sizes: np.ndarray, least: float) -> Any:
    """What comes after three sizes (…, 3, all) that fall evenly, by a factor of at least `least`."""
    third, second, last = np.moveaxis(sizes, -2, 0)
    rate = np.clip(np.sqrt(last / np.maximum(third, 1e-300)), least, 1.0)
    return np.maximum(last, second * rate) * rate


def _ahead(before: Marched, slab: Slab, u: str) -> np.ndarray:
    stages = radau(slab.s)
    times = slab.low + slab.h * np.append(0.0, stages.nodes)
    basis = np.polynomial.legendre.legvander(2 * (times - before.low) / before.h - 1, slab.s)
    coefficients = stages.to_legendre @ before.values[u]
    sizes = np.linalg.norm(coefficients, axis=-1) * np.abs(basis).max(axis=0)
    after = np.concatenate([sizes[..., 2:], 2 * sizes[..., -1:]], axis=-1)
    degree = np.argmin(sizes[..., 1:] + after, axis=-1) + 2
    kept = np.arange(sizes.shape[-1]) < degree[..., None]
    guess = basis @ (coefficients * kept[..., None])
    return guess[..., 1:, :] + (slab.start[u][0] - guess[..., 0, :])[..., None, :]
