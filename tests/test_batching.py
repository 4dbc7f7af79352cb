"""What a batch decides together, and what is put in an order."""

import jax
import jax.numpy as jnp
import numpy as np

from pdecl.batching import after


def test_after_changes_no_number_and_no_derivative():
    known, tree = jnp.asarray([2.0, jnp.nan]), (jnp.arange(3.0), jnp.ones((2, 2)))
    for old, new in zip(tree, after(known, tree), strict=True):
        np.testing.assert_array_equal(old, new)
    by_both = jax.grad(lambda k, x: jnp.sum(after(k, x) ** 2), argnums=(0, 1))(known[:1], tree[0])
    np.testing.assert_array_equal(by_both[0], 0)
    np.testing.assert_array_equal(by_both[1], 2 * tree[0])


def test_after_is_an_order_that_the_compiler_keeps():
    """What has to come first is computed, although no number depends on it."""
    text = lambda f: jax.jit(f).lower(jnp.ones(2), jnp.ones(2)).compile().as_text()
    assert "sine(" in text(lambda x, k: after(jnp.sin(k), x))
    assert "sine(" not in text(lambda x, k: x)
