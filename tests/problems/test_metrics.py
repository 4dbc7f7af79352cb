import jax
import jax.numpy as jnp
import numpy as np
import pytest
from on_a_grid import conservative_residual

import pdecl
from pdecl.family.experiment import preset
from pdecl.family.metrics import relative_error, relative_l2, summarise
from pdecl.family.trained import nodes_of


def test_relative_l2_by_hand():
    reference = np.array([[[3.0, 0.0], [0.0, 4.0]], [[1.0, 0.0], [0.0, 0.0]]])
    u = reference + np.array([[[0.0, 0.5], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.3]]])
    np.testing.assert_allclose(relative_l2(u, reference), [0.1, 0.3])
    summary = relative_error(u, reference)
    assert (summary.mean, summary.max, summary.count) == pytest.approx((0.2, 0.3, 2))
    assert summary.std == pytest.approx(0.1)
    assert str(summary) == "20% ± 10% (max 30%, 2 φ)"
    assert summary.as_dict()["count"] == 2


def test_a_nan_does_not_hide_in_a_mean():
    good = np.ones((3, 4))
    bad = good.copy()
    bad[2, 1] = np.nan
    for call in (lambda: relative_l2(bad, good), lambda: relative_l2(good, bad)):
        with pytest.raises(ValueError, match="1 of 3 φ, first number 2"):
            call()


def test_wrong_grids_are_named():
    with pytest.raises(ValueError, match="same grid"):
        relative_l2(np.ones((2, 4)), np.ones((2, 5)))
    with pytest.raises(ValueError, match="zero everywhere"):
        relative_l2(np.ones((1, 4)), np.zeros((1, 4)))
    with pytest.raises(ValueError, match="first axis over φ"):
        relative_l2(np.ones(4), np.ones(4))
    with pytest.raises(ValueError, match="one number for each φ"):
        summarise(np.ones(0))


def test_darcys_residual_is_that_of_the_five_point_scheme():
    """On all interior nodes, also of functions that are not its solution."""
    rng = np.random.default_rng(0)
    nu, u = rng.uniform(3, 12, size=(2, 9, 9)), np.pad(rng.normal(size=(7, 7)), 1)
    trained = pdecl.Trained(preset("darcy", "hard", "quick").with_overrides(grid=9), None)
    basis = pdecl.nn.ElementBasis(pdecl.Box(x=(0, 1), y=(0, 1)), jnp.asarray(u)[..., None])
    solution = jax.vmap(lambda phi: pdecl.predict(trained.problem(), basis, phi))(jnp.asarray(nu))
    wanted = [np.sum(conservative_residual(one, u) ** 2) for one in nu]
    np.testing.assert_allclose(
        trained.family.residual_on(solution, nodes_of(trained, nu)), wanted, rtol=1e-9
    )
