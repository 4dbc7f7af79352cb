"""φ are the same everywhere, and follow their law."""

import hashlib

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from pdecl.family import SPLITS, named, shipped
from pdecl.family.fields import (
    neumann_field,
    normals,
    periodic_field,
    squared_exponential_field,
    squared_exponential_modes,
)
from pdecl.problems import Burgers, Convection, Darcy

SMALL = {"darcy": Darcy(grid=29), "burgers": Burgers(), "convection": Convection()}

# These numbers must never change: they are what makes results comparable between machines.
PINNED = {
    "noise": [-0.5193506213450384, 1.0357198606511326, -1.8186169591176218],
    "burgers": [
        -0.0958523107648,
        -0.2777122509244,
        0.1462550574921,
        0.2203109040231,
        -0.0958523107648,
    ],
    "convection": [
        1.4293916261066,
        1.9231143295769,
        3.4983462009996,
        2.1959380440267,
        2.0832214745581,
    ],
    "darcy": "9d7812916d63563fbfc4d5841d3e1db67ba4dd92e01001ef7c1834bfbe7ee633",
}


def covariance(field, shape):
    """Exact covariance of a field that is linear in its noise: unit noises one by one."""
    size = int(np.prod(shape))
    images = field(np.eye(size).reshape(size, *shape)).reshape(size, -1)
    return images.T @ images


def test_noise_is_standard_normal_and_streams_are_independent():
    drawn = np.stack([normals(5, index, (2000,)) for index in range(20)])
    assert stats.kstest(drawn.ravel(), "norm").pvalue > 1e-3
    correlations = np.corrcoef(drawn)[np.triu_indices(20, 1)] * np.sqrt(2000)
    assert np.abs(correlations).max() < 4.5
    assert abs(np.mean(drawn[:, ::2] * drawn[:, 1::2])) * np.sqrt(20000) < 4.5


def test_noise_needs_a_whole_number():
    for seed in (-1, True, 2**64):
        with pytest.raises(ValueError, match="seed must be a whole number"):
            normals(seed, 0, (2,))


def test_pinned_values():
    np.testing.assert_allclose(normals(2, 0, (3,)), PINNED["noise"], atol=1e-10, rtol=0)
    np.testing.assert_allclose(Burgers().sample(2, 1)[0, ::25], PINNED["burgers"], atol=1e-10)
    np.testing.assert_allclose(Convection().sample(2, 1)[0, ::25], PINNED["convection"], atol=1e-10)


def test_pinned_darcy_test_set():
    materials = Darcy().sample(SPLITS["test"].seed, 2) == 12.0
    assert hashlib.sha256(np.packbits(materials).tobytes()).hexdigest() == PINNED["darcy"]


@pytest.mark.parametrize("name", shipped())
def test_a_phi_does_not_depend_on_how_many_are_drawn(name):
    family = SMALL[name]
    five = family.sample(3, 5)
    assert five.dtype == np.float64
    np.testing.assert_allclose(family.sample(3, 2, start=3), five[3:], rtol=1e-13)


@pytest.mark.parametrize("name", ["burgers", "convection"])
def test_the_standard_splits_do_not_overlap(name):
    family = named(name)
    train, test = (family.sample(split.seed, split.count) for split in SPLITS.values())
    assert (len(train), len(test)) == (1000, 50)
    distances = np.abs(train[:, None] - test[None]).max(axis=-1)
    assert distances.min() > 1e-3


def test_covariance_of_the_neumann_field():
    # Independent: invert the squared finite-difference operator (−Δ + 9)² with Neumann ends.
    n, tau = 33, 3.0
    drawn = covariance(lambda noise: neumann_field(noise, tau, 2.0), (n, n))
    weights = np.r_[0.5, np.ones(n - 2), 0.5] / (n - 1)
    stiffness = (np.diag(np.r_[1, np.full(n - 2, 2.0), 1]) - np.eye(n, k=1) - np.eye(n, k=-1)) * (n - 1)
    area = np.kron(weights, weights)
    laplacian = np.kron(stiffness, np.diag(weights)) + np.kron(np.diag(weights), stiffness)
    operator = laplacian / area[:, None] + tau**2 * np.eye(n * n)
    inverse = np.linalg.inv(operator)
    wanted = inverse @ inverse / area
    wanted -= tau**-4  # the constant mode is left out
    chosen = np.ravel_multi_index(([16, 16, 8, 0, 3], [16, 20, 8, 0, 30]), (n, n))
    deviations = np.sqrt(np.diag(wanted)[chosen])
    difference = (drawn - wanted)[np.ix_(chosen, chosen)] / np.outer(deviations, deviations)
    # The two treat the highest modes differently, which only shows in the variances of so rough a
    # field.
    assert np.abs(np.diag(difference)).max() < 0.05
    assert np.abs(difference - np.diag(np.diag(difference))).max() < 0.005


def test_covariance_of_the_periodic_field():
    # Independent: (−d²/dx² + τ²)^(−1) on a circle has the Green's function
    # cosh(τ(½ − r))/(2τ sinh(τ/2)).
    x, tau, sigma = np.linspace(0, 1, 21), 5.0, 3.0
    drawn = covariance(lambda noise: periodic_field(noise, x, 1.0, tau, sigma), (2, 400))
    r = np.abs(x[:, None] - x)
    green = np.cosh(tau * (0.5 - r)) / (2 * tau * np.sinh(tau / 2)) - tau**-2
    # What is left out beyond 400 modes is at most 2σ²/(4π²·400).
    np.testing.assert_allclose(drawn, sigma**2 * green, atol=2e-3)


@pytest.mark.parametrize("length", [0.05, 0.2, 1.0])
def test_covariance_of_the_squared_exponential_field(length):
    x = np.linspace(0, 1, 51)
    modes = squared_exponential_modes(length)
    drawn = covariance(lambda noise: squared_exponential_field(noise, x, length), (2, modes))
    wanted = np.exp(-((x[:, None] - x) ** 2) / (2 * length**2))
    np.testing.assert_allclose(drawn, wanted, atol=1e-13)


def test_drawn_burgers_phi_have_the_stated_deviations():
    family = Burgers()
    u0 = family.sample(11, 2000)
    waves = np.fft.rfft(u0[:, :-1]) / 100
    k = np.arange(1, 11)
    deviations = np.sqrt(2) * 625 * ((2 * np.pi * k) ** 2 + 25) ** -2.0
    for part in (2 * waves[:, 1:11].real, -2 * waves[:, 1:11].imag):
        ratio = part.std(axis=0) / deviations
        assert np.abs(ratio - 1).max() < 4.5 / np.sqrt(2 * 2000)
        assert np.abs(part.mean(axis=0) / deviations).max() < 4.5 / np.sqrt(2000)
    np.testing.assert_allclose(u0[:, 0], u0[:, -1], atol=1e-12)


def test_drawn_convection_phi_are_v_minus_its_minimum_plus_one():
    beta = Convection().sample(12, 2000)
    np.testing.assert_allclose(beta.min(axis=1), 1.0, atol=1e-12)
    # Differences of β are differences of v: variance 2(1 − exp(−r²/2ℓ²)).
    for apart in (5, 20, 60):
        wanted = 2 * (1 - np.exp(-((apart / 100) ** 2) / 0.08))
        found = np.mean((beta[:, 20 + apart] - beta[:, 20]) ** 2)
        assert abs(found / wanted - 1) < 4.5 * np.sqrt(2 / 2000)


def test_darcy_phi_is_two_materials_in_equal_parts():
    nu = Darcy(grid=61).sample(13, 300)
    assert set(np.unique(nu)) == {3.0, 12.0}
    share = (nu == 12).mean(axis=(1, 2))
    assert abs(share.mean() - 0.5) < 4.5 * share.std() / np.sqrt(300)


@pytest.mark.parametrize("name", shipped())
def test_draw_is_pure_jax_and_follows_the_same_law(name):
    family = SMALL[name]
    keys = jr.split(jr.key(0), 400)
    drawn = np.asarray(jax.jit(jax.vmap(family.draw))(keys))
    sampled = family.sample(14, 400)
    assert drawn.shape == sampled.shape
    family.check(drawn)
    spread = np.sqrt((drawn.var(axis=0) + sampled.var(axis=0)) / 400)
    assert (np.abs(drawn.mean(axis=0) - sampled.mean(axis=0)) <= 5 * spread + 1e-12).all()


def test_formulas_agree_between_numpy_and_jax():
    noise = normals(0, 0, (3, 17, 17))
    np.testing.assert_allclose(
        neumann_field(jnp.asarray(noise), 3.0, 2.0), neumann_field(noise, 3.0, 2.0), atol=1e-13
    )
