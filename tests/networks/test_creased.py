"""Functions that crease along a front, which the layer finds as the zero level of a smooth solution."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import CubicSpline
from through_the_layer import check_gradient, residual_loss

import pdecl
from pdecl.basis import basis as bases
from pdecl.family import named
from pdecl.nn import Creased, InSingle

family = named("convection")
PROBLEM, FRONT = family.problem(), family.front()
PHI = jnp.asarray(family.sample(2, 3))


# As one program: outside of `jit` each operation is compiled for itself.
specialised = eqx.filter_jit(lambda basis: basis.at(PHI[0]))
evaluated = eqx.filter_jit(lambda basis, x: basis(x, PHI[0]))


def smooth(size=64):
    return pdecl.nn.Modulated(PROBLEM, size, 64, 2, key=jr.key(0))


def test_the_front_is_the_characteristic_through_the_corner():
    """Which reaches x at the time ∫ dx/β, here by SciPy; the trained basis knows it to a thousandth."""
    here = specialised(pdecl.load("convection").basis)
    along = eqx.filter_jit(
        jax.vmap(lambda t, x: here.inner(jnp.array([x, t]), None) @ here.front, (0, None))
    )
    beta = CubicSpline(np.linspace(0, 1, 101), PHI[0])
    for x in (0.2, 0.5, 0.8):
        arrival, _ = quad(lambda y: 1 / beta(y), 0, x)
        times = jnp.linspace(0, 1, 2001)
        s = along(times, jnp.asarray(x))
        crossings = times[:-1][jnp.sign(s[1:]) != jnp.sign(s[:-1])]
        assert jnp.abs(crossings - arrival).min() < 1e-3


def test_derivatives_of_creased_functions():
    here = specialised(Creased(smooth(16), FRONT, 4, blur=0.1))
    x, h = jnp.array([0.4, 0.3]), 1e-5
    found = jax.jit(lambda x: bases.evaluate(here, ("u",), x, PHI[0], {(), (1,)}))(x[None])
    above, below = (evaluated(here, x + jnp.array([0, step])) for step in (h, -h))
    numeric = (above - below) / (2 * h)
    np.testing.assert_allclose(found["u", (1,)][0], numeric, rtol=1e-6, atol=1e-8)
    inner, values = eqx.filter_jit(lambda net: net(x, None))(here.inner), found["u", ()][0]
    np.testing.assert_allclose(values[:12], inner[:12], rtol=1e-12)
    assert not np.any(np.isclose(values[12:], inner[12:]))


def test_gradients_go_through_both_solves():
    basis = Creased(smooth(12), FRONT, 4, blur=0.1)
    check_gradient(basis, lambda basis: residual_loss(PROBLEM, basis, PHI[0], 12), step=1e-7)


def test_creases_make_the_first_solve_better():
    exact = family.reference(PHI).transpose(0, 2, 1)

    def error(basis):
        solution = jax.vmap(lambda phi: pdecl.solve(PROBLEM, basis, phi, residual_limit=None))(PHI)
        found = np.asarray(solution(PROBLEM.domain.mesh(101, 101))).reshape(3, 101, 101)
        return np.linalg.norm(found - exact) / np.linalg.norm(exact)

    assert error(Creased(smooth(), FRONT, 16)) < 0.7 * error(smooth())


def test_in_single_precision_the_front_is_still_found_in_double():
    basis, x = Creased(smooth(), FRONT, 16), jnp.array([0.4, 0.3])
    here = specialised(InSingle(basis))
    assert here.inner.front.dtype == jnp.float64
    np.testing.assert_allclose(evaluated(here, x), evaluated(basis, x), atol=1e-4)


def test_what_cannot_be_creased():
    with pytest.raises(ValueError, match="along = 20, but the basis has 16 functions"):
        Creased(smooth(16), FRONT, 20).at(PHI[0])
    with pytest.raises(ValueError, match="blur must be positive"):
        Creased(smooth(16), FRONT, 4, blur=0.0)
    two = pdecl.Problem(PROBLEM.domain, [pdecl.Fit(lambda w, z, phi: w.u(), on=PROBLEM.domain.interior)],
                        unknowns=("u", "v"))  # fmt: skip
    with pytest.raises(ValueError, match="zero level of one unknown; found u, v"):
        Creased(smooth(16), two, 4)
