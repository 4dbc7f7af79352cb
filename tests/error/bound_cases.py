"""Solutions to put under a bound: bases of known functions, and the true error by quadrature."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from spectral import chebyshev

import pdecl
from pdecl.family.experiment import stated
from pdecl.layer.solution import Given
from pdecl.layer.solve import sizes_of
from pdecl.problems import Burgers, Convection, Darcy
from pdecl.problems.convection import speed

CONVECTION, BURGERS, DARCY = Convection(), Burgers(), Darcy(grid=21)


def polynomials(degree):
    """Products of polynomials of x and t up to a degree; no network, so that everything is quick."""
    return chebyshev(pdecl.Box(x=(0, 1), t=(0, 1)), degree)


def waves(count, degree):
    """Sines and cosines of x up to a wave times polynomials of t: periodic."""
    numbers = 2 * np.pi * np.arange(1, count + 1)

    in_time = chebyshev(pdecl.Box(t=(0, 1)), degree)

    def basis(x, phi):
        around = jnp.concatenate([jnp.ones(1), jnp.cos(numbers * x[0]), jnp.sin(numbers * x[0])])
        return jnp.outer(around, in_time(x[1:], phi)).ravel()

    return basis


def bumps(count):
    """Elements on Darcy's grid, zero on the boundary: products of sines."""
    nodes = np.linspace(0, 1, DARCY.grid)
    one = np.sin(np.pi * np.arange(1, count + 1) * nodes[:, None])
    one[[0, -1]] = 0
    values = np.einsum("xi,yj->xyij", one, one).reshape(DARCY.grid, DARCY.grid, -1)
    return pdecl.nn.ElementBasis(pdecl.Box(x=(0, 1), y=(0, 1)), jnp.asarray(values))


def given(family, basis, phi, weights=None, **statement):
    """The solution with those weights (ones if left out), without a solve."""
    problem, phi = stated(family, **statement), jnp.asarray(phi)
    if weights is None:
        weights = jnp.ones((len(phi), sizes_of(problem, basis, phi[0])["u"]))
    none = jnp.zeros(len(phi))
    code = jnp.full(len(phi), int(pdecl.Status.PREDICTED))
    steps = none.astype(int)
    return pdecl.Solution(Given.of(problem, basis, ()), phi, weights, code, steps, none, none, {})


def fitted(family, basis, phi, **statement):
    """The function of the basis that is nearest to the reference, on every fifth node."""
    u = family.reference(phi)
    if family.name == "darcy":
        values = np.asarray(basis.values).reshape(-1, basis.values.shape[-1])
    else:
        u = u.swapaxes(1, 2)[:, ::5, ::5]
        coords = pdecl.Box(x=(0, 1), t=(0, 1)).mesh(21, 21)
        values = np.asarray(jax.vmap(lambda x: basis(x, None))(coords))
    weights = np.linalg.lstsq(values, u.reshape(len(u), -1).T)[0].T
    return given(family, basis, phi, jnp.asarray(weights), **statement)


def member(solution, k):
    """One φ of a batch, as a solution that is none."""
    return jax.tree.map(lambda leaf: leaf[k], solution)


def true_error(family, phi, solution):
    """‖v − u‖ in the norm of the bound, from the reference on its grid."""
    u = family.reference(phi)
    mesh = solution.problem.domain.mesh(*u.shape[1:])
    v = np.asarray(solution(mesh)).reshape(u.shape)
    if family.name == "darcy":
        off = v - u
        across = (nu_face(phi, 1)[:, :, 1:-1] * np.diff(off, axis=1)[:, :, 1:-1] ** 2).sum((1, 2))
        along = (nu_face(phi, 2)[:, 1:-1] * np.diff(off, axis=2)[:, 1:-1] ** 2).sum((1, 2))
        return np.sqrt(across + along)
    off = v.swapaxes(1, 2) - u
    weight = np.ones((len(phi), 101))
    if family.name == "convection":
        weight = 1 / speed(phi, np.linspace(0, 1, 101))
    along_x = np.trapezoid(off**2 * weight[:, None], dx=0.01, axis=2)
    return np.sqrt(np.trapezoid(along_x, dx=0.01, axis=1))


def nu_face(nu, axis):
    moved = np.moveaxis(nu, axis, 0)
    return np.moveaxis((moved[1:] + moved[:-1]) / 2, 0, axis)


def perturbed(solution, size):
    """The same with weights off by some noise."""
    noise = size * jax.random.normal(jax.random.key(0), solution.weights.shape)
    return eqx.tree_at(lambda s: s.weights, solution, solution.weights + noise)
