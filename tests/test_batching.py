"""What a CPU does one by one, and how many axes it goes over at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pdecl.layer import batching
from pdecl.layer.batching import in_cache, singly

A, B = np.arange(60.0).reshape(3, 5, 4), np.arange(15.0).reshape(3, 5)


def both(x, y):
    return {"sum": x + y, "product": x[0] * y}


@pytest.mark.parametrize(
    ("axes", "arrays"),
    [
        (((0, None), (0, 0)), (A, B[0])),
        (((None, 0), (0, 0)), (A[0], B)),
        (((0, None), (None, 0)), (A[:, 0], B[0])),
        (((None, 0), (0, None)), (A[0], B[:, 0])),
        (((1, 1), (0, 0)), (A, B)),
    ],
)
def test_a_batch_of_batches_is_what_each_is(axes, arrays):
    twice = lambda f: jax.vmap(jax.vmap(f, axes[1]), axes[0])
    for found, wanted in zip(
        jax.tree.leaves(twice(singly(both))(*arrays)),
        jax.tree.leaves(twice(both)(*arrays)),
        strict=True,
    ):
        np.testing.assert_array_equal(found, wanted)


def test_all_axes_become_one_loop():
    text = jax.jit(jax.vmap(jax.vmap(singly(jnp.linalg.cholesky)))).lower(jnp.zeros((7, 5, 3, 3)))
    assert text.as_text().count("stablehlo.while") == 1


@pytest.mark.parametrize("piece", [1, 3, 50])
@pytest.mark.parametrize("cores", [1, 2])
def test_pieces_are_what_the_whole_batch_is(monkeypatch, piece, cores):
    """Whether or not they divide it."""
    monkeypatch.setattr(batching, "_cores", lambda: cores)
    x, y = np.random.default_rng(0).standard_normal((11, 4)), np.eye(4)
    numbers = batching._LARGE // piece
    program = jax.jit(jax.vmap(in_cache(lambda x, y: (y @ x, jnp.sum(x)), numbers), (0, None)))
    np.testing.assert_allclose(program(x, y)[0], x)
    np.testing.assert_allclose(program(x, y)[1], x.sum(axis=1))


def test_it_has_forward_derivatives_in_a_batch():
    slope = lambda f: jax.vmap(lambda x: jax.jvp(f, (x,), (jnp.cos(x),))[1])
    np.testing.assert_allclose(slope(singly(jnp.sin))(A), slope(jnp.sin)(A))


def test_a_batch_may_be_empty():
    assert jax.vmap(singly(jnp.linalg.cholesky))(jnp.zeros((0, 3, 3))).shape == (0, 3, 3)
