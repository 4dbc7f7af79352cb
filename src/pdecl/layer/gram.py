"""Symmetric positive definite operators made of rows: Σ RᵀΘR + diag(ridge), and RRᵀ + diag(ridge)."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from jaxtyping import Array, Float

from .batching import one_by_one
from .lapack import eigh

Metric = Float[Array, "q k k"] | None
_SMALL, _LARGE = 300, 1500  # functions from which on a CPU, and a GPU, leaves out what is not read
_WIDTH, _BLOCK_ROWS = 200, 6  # of the blocks that are left out: about so wide, and no more rows of them


class Gram(eqx.Module):
    """H = Σ RᵀΘR + diag(ridge), for blocks (R, Θ).

    R is an operator; Θ is None (the identity) or blocks of k×k, one for each k rows of R.
    """

    blocks: tuple[tuple[lx.AbstractLinearOperator, Metric], ...]
    ridge: Float[Array, " N"]

    def mv(self, x: Float[Array, " N"]) -> Float[Array, " N"]:
        """H x, row by row: never worse conditioned than the rows themselves."""
        total = self.ridge * x
        for rows, metric in self.blocks:
            total = total + transposed(rows, weigh(metric, rows.mv(x)))
        return total

    def lower(self) -> Float[Array, "N N"]:
        """H as a matrix, of which nothing above the diagonal is to be read."""
        total = self.ridge * jnp.eye(self.ridge.size, dtype=self.ridge.dtype)
        for rows, metric in self.blocks:
            R, columns = held(rows) or (rows.as_matrix(), jnp.ones_like(self.ridge))
            total = total + columns[:, None] * lower_product(R, _weigh_columns(metric, R)) * columns
        return total

    def diagonal(self) -> Float[Array, " N"]:
        """The diagonal of H; its mean, in every entry, where rows are not held as matrices."""
        total = self.ridge
        for rows, metric in self.blocks:
            if matrix := held(rows):
                R, columns = matrix
                total = total + columns**2 * jnp.sum(R * _weigh_columns(metric, R), axis=0)
            else:
                # One random sign vector v: vᵀHv is the trace but for the off-diagonal terms.
                signs = jax.random.rademacher(jax.random.key(0), total.shape, total.dtype)
                y = rows.mv(signs)
                total = total + jnp.sum(y * weigh(metric, y)) / total.size
        return total

    def root(self) -> lx.FunctionLinearOperator:
        """Stacked rows S with SᵀS = H. Metrics that are not positive semidefinite are cut off."""
        halves = [_half(metric) for _, metric in self.blocks]

        def push(x: Float[Array, " N"]) -> Float[Array, " rows"]:
            parts = [
                weigh(half, rows.mv(x)) for (rows, _), half in zip(self.blocks, halves, strict=True)
            ]
            return jnp.concatenate([jnp.sqrt(self.ridge) * x, *parts])

        return lx.FunctionLinearOperator(push, jax.ShapeDtypeStruct(self.ridge.shape, self.ridge.dtype))

    def plus(self, rows: lx.AbstractLinearOperator) -> "Gram":
        """H + RᵀR."""
        return Gram((*self.blocks, (rows, None)), self.ridge)


class Dual(eqx.Module):
    """H = RRᵀ + diag(ridge).

    A product with it is one with R as it is stored, and none with a transposed R, which for 3721 × 4000
    numbers takes a CPU twenty times as long.
    """

    rows: lx.AbstractLinearOperator
    ridge: Float[Array, " n"]

    def mv(self, y: Float[Array, " n"]) -> Float[Array, " n"]:
        """H y, row by row."""
        return self.ridge * y + self.rows.mv(transposed(self.rows, y))

    def lower(self) -> Float[Array, "n n"]:
        """H as a matrix, of which nothing above the diagonal is to be read."""
        return self._gram().lower()

    def root(self) -> lx.FunctionLinearOperator:
        """Stacked rows S with SᵀS = H."""
        return self._gram().root()

    def _gram(self) -> Gram:
        return Gram(((written_out(self.rows).T, None),), self.ridge)


Operator = Gram | Dual  # what a linear solver inverts


def scale_columns(rows: lx.AbstractLinearOperator, columns: Array) -> lx.AbstractLinearOperator:
    """The rows with each column (or all of them) multiplied by a number; no matrix is copied for it."""
    if matrix := held(rows):
        R, before = matrix
        return lx.MatrixLinearOperator(R) @ lx.DiagonalLinearOperator(before * columns)
    return lx.FunctionLinearOperator(lambda x: rows.mv(columns * x), rows.in_structure())


def held(rows: lx.AbstractLinearOperator) -> tuple[Float[Array, "n N"], Float[Array, " N"]] | None:
    """The matrix of rows that have one, and what its columns are to be multiplied by."""
    if isinstance(rows, lx.MatrixLinearOperator):
        return rows.matrix, jnp.ones(rows.in_size(), rows.matrix.dtype)
    if isinstance(rows, lx.ComposedLinearOperator):  # what `scale_columns` made
        return rows.operator1.matrix, rows.operator2.diagonal
    return None


def written_out(rows: lx.AbstractLinearOperator) -> lx.AbstractLinearOperator:
    """The same rows, with a matrix whose columns are multiplied already."""
    matrix = held(rows)
    return rows if matrix is None else lx.MatrixLinearOperator(matrix[0] * matrix[1])


def transposed(rows: lx.AbstractLinearOperator, y: Float[Array, " n"]) -> Float[Array, " N"]:
    """Rᵀy. For one matrix of 3721 × 4000 numbers `R.T @ y` takes a CPU 72 ms, and `y @ R` 4 ms."""
    if matrix := held(rows):
        return (y @ matrix[0]) * matrix[1]
    return rows.T.mv(y)


def lower_product(left: Float[Array, "n N"], right: Float[Array, "n N"]) -> Float[Array, "N N"]:
    """LᵀR where it is symmetric, and nothing above the diagonal is to be read: it is left out where that
    saves more than smaller products cost."""
    N = left.shape[1]
    if N < _SMALL:
        return _by_block_rows(left, right, 1)
    few = min(_BLOCK_ROWS, -(-N // _WIDTH))
    on_cpu, elsewhere = (partial(_by_block_rows, count=k) for k in (few, few if N >= _LARGE else 1))
    return jax.lax.platform_dependent(left, right, cpu=one_by_one(on_cpu), default=elsewhere)


def _by_block_rows(
    left: Float[Array, "n N"], right: Float[Array, "n N"], count: int
) -> Float[Array, "N N"]:
    N = left.shape[1]
    # On a CPU a product with a transposed copy takes 0.6 of the time of one without it.
    transposed = jax.lax.optimization_barrier(left.T)
    k = -(-N // count)
    rows = [transposed[i : i + k] @ right[:, : i + k] for i in range(0, N, k)]
    return jnp.concatenate([jnp.pad(r, ((0, 0), (0, N - r.shape[1]))) for r in rows])


def weigh(metric: Metric, y: Float[Array, " qk"]) -> Float[Array, " qk"]:
    """Θ y for a block-diagonal Θ."""
    if metric is None:
        return y
    return jnp.einsum("qij,qj->qi", metric, y.reshape(metric.shape[:2])).ravel()


def _weigh_columns(metric: Metric, R: Float[Array, "qk N"]) -> Float[Array, "qk N"]:
    return R if metric is None else jax.vmap(weigh, (None, 1), 1)(metric, R)


def _half(metric: Metric) -> Metric:
    """Blocks K with KᵀK = Θ."""
    if metric is None:
        return None
    values, vectors = eigh(metric)
    return jnp.sqrt(jnp.maximum(values, 0))[:, :, None] * jnp.swapaxes(vectors, 1, 2)
