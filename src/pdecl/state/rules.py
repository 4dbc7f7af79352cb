"""Rules that place points in the unit cube [0, 1]^k, each with quadrature weights that sum to one."""

import abc
from dataclasses import dataclass
from typing import Any

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray


@dataclass(frozen=True)
class Rule(abc.ABC):
    """How points are placed. `key` shifts or draws them; rules that need none ignore it."""

    @abc.abstractmethod
    def place(
        self, key: PRNGKeyArray | None, dim: int
    ) -> tuple[Float[Any, "n dim"], Float[np.ndarray, " n"]]: ...


@dataclass(frozen=True)
class Uniform(Rule):
    """Independent uniform points. Needs a key."""

    count: int

    def __post_init__(self) -> None:
        require_count("count", self.count)

    def __str__(self) -> str:
        return f"{self.count:,} uniform points"

    def place(self, key, dim):  # type: ignore[no-untyped-def]
        if key is None:
            raise ValueError("uniform points are random: pass `key=jax.random.key(...)`.")
        return known(jr.uniform(key, (self.count, dim), float)), _equal(self.count)


@dataclass(frozen=True)
class LowDiscrepancy(Rule):
    """A Kronecker sequence: multiples of powers of the root of g^(k+1) = g + 1, modulo one.

    Without a key the points are always the same, from `start` on; a key shifts all of them together,
    which keeps their even spread and makes averages over keys unbiased.
    """

    count: int
    start: float = 0.5

    def __post_init__(self) -> None:
        require_count("count", self.count)

    def __str__(self) -> str:
        return f"{self.count:,} points of low discrepancy"

    def place(self, key, dim):  # type: ignore[no-untyped-def]
        start = self.start if key is None else known(jr.uniform(key, (dim,), float))
        return kronecker(self.count, dim, start), _equal(self.count)


@dataclass(frozen=True)
class Nodes(Rule):
    """Different nodes, drawn from a grid of `side` nodes along each coordinate, the ends among them.

    Without a key they are always the same.
    """

    count: int
    side: int

    def __post_init__(self) -> None:
        require_count("count", self.count)
        require_count("side", self.side)

    def __str__(self) -> str:
        return f"{self.count:,} nodes of a grid with {self.side} a side"

    def place(self, key, dim):  # type: ignore[no-untyped-def]
        total = self.side**dim
        if self.count > total:
            raise ValueError(f"{self.count} different nodes cannot be drawn from {total}; lower count.")
        chosen: Any
        if key is None:
            chosen = np.random.default_rng(0).choice(total, self.count, replace=False)
        else:
            chosen = known(jr.choice(key, total, (self.count,), replace=False))
        powers = self.side ** np.arange(dim)
        numbers = chosen[:, None] // powers % self.side
        return numbers / max(self.side - 1, 1), _equal(self.count)


@dataclass(frozen=True)
class Grid(Rule):
    """The midpoints of equal cells: `counts` cells along each coordinate (one number: all alike)."""

    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        for count in self.counts:
            require_count("counts", count)

    def __str__(self) -> str:
        return f"grid of {_by(self.counts)} cells"

    def place(self, key, dim):  # type: ignore[no-untyped-def]
        axes = [(np.arange(n) + 0.5) / n for n in per_axis(self.counts, dim)]
        nodes = tensor(axes, dim)
        return nodes, _equal(len(nodes))


@dataclass(frozen=True)
class Gauss(Rule):
    """Gauss–Legendre nodes: `nodes` along each coordinate of each of `cells` equal cells."""

    nodes: tuple[int, ...]
    cells: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        for count in (*self.nodes, *self.cells):
            require_count("nodes and cells", count)

    def __str__(self) -> str:
        return f"{_by(self.nodes)} Gauss nodes in {_by(self.cells)} cells"

    def place(self, key, dim):  # type: ignore[no-untyped-def]
        axes, weights = [], []
        for n, cells in zip(per_axis(self.nodes, dim), per_axis(self.cells, dim), strict=True):
            x, w = np.polynomial.legendre.leggauss(n)
            axes.append(((np.arange(cells)[:, None] + (x + 1) / 2) / cells).ravel())
            weights.append(np.tile(w / (2 * cells), cells))
        return tensor(axes, dim), tensor(weights, dim).prod(axis=1)


def kronecker(count: int, dim: int, start: Any = 0.5) -> Any:
    """The first points of the sequence that `LowDiscrepancy` places."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (dim + 1))
    return (start + np.arange(count)[:, None] * root ** -(np.arange(dim) + 1.0)) % 1.0


def tensor(axes: list[np.ndarray], dim: int) -> np.ndarray:
    """All combinations of the axes' entries, one per row, the last axis running fastest."""
    mesh = np.meshgrid(*axes, indexing="ij")
    return np.stack([m.ravel() for m in mesh], axis=-1) if dim else np.zeros((1, 0))


def per_axis(counts: tuple[int, ...], dim: int) -> tuple[int, ...]:
    if len(counts) == 1:
        return counts * dim
    if len(counts) != dim:
        raise ValueError(f"{len(counts)} counts were given for {dim} coordinates: {counts}.")
    return counts


def require_count(name: str, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; found {count!r}.")


def known(x: Any) -> Any:
    """An array whose numbers are known, outside of `jit`, as NumPy's: what is done with it compiles
    nothing then."""
    return x if isinstance(x, jax.core.Tracer) else np.asarray(x)


def _by(counts: tuple[int, ...]) -> str:
    return " × ".join(map(str, counts))


def _equal(count: int) -> Float[np.ndarray, " n"]:
    return np.full(count, 1.0 / count)
