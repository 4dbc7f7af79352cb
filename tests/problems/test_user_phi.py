"""φ that users bring: what is wrong is said in their words."""

import numpy as np
import pytest

from pdecl.family import named, shipped
from pdecl.problems import Burgers, Convection, Darcy

GOOD = {
    "darcy": np.full((9, 9), 3.0),
    "burgers": np.sin(2 * np.pi * np.linspace(0, 1, 33)),
    "convection": np.linspace(1, 2, 17),
}


@pytest.mark.parametrize("name", shipped())
def test_one_phi_lists_and_other_precisions_become_a_float64_batch(name):
    family = named(name)
    good = GOOD[name]
    for phi in (good, good[None], good.tolist(), good.astype(np.float32)):
        checked = family.check(phi)
        assert checked.shape == (1, *good.shape)
        assert checked.dtype == np.float64
    assert np.isfinite(family.reference(good)).all()


@pytest.mark.parametrize("name", shipped())
def test_broken_values_are_named(name):
    family = named(name)
    bad = np.stack([GOOD[name]] * 3)
    bad[1].flat[4] = np.nan
    with pytest.raises(ValueError, match=rf"{family.phi_name} has NaN or infinite values \(φ number 1,"):
        family.check(bad)
    for shape in ((), (2, 3, 4, 5), (0, 9)):
        with pytest.raises(ValueError, match=f"{family.phi_name} must have"):
            family.check(np.ones(shape))
    with pytest.raises(ValueError, match="array of real numbers"):
        family.check("rough")
    with pytest.raises(ValueError, match="array of real numbers"):
        family.check(GOOD[name] + 1j)


@pytest.mark.parametrize("name", shipped())
def test_too_few_points(name):
    with pytest.raises(ValueError, match=r"at least [45] are needed"):
        named(name).check(np.ones((2, 2) if name == "darcy" else 3))


def test_darcy_needs_a_square_positive_grid():
    with pytest.raises(ValueError, match="square grid, got 9 × 8"):
        Darcy().check(np.ones((2, 9, 8)))
    with pytest.raises(ValueError, match="nu must be positive everywhere; its smallest value is 0"):
        Darcy().check(np.zeros((9, 9)))


def test_burgers_needs_periodic_values():
    with pytest.raises(ValueError, match="append the first value at the end"):
        Burgers().check(GOOD["burgers"][:-1])


def test_convection_needs_a_positive_speed_also_between_sensors():
    with pytest.raises(ValueError, match="beta must be positive"):
        Convection().check(np.linspace(-1, 1, 9))
    rough = np.where(np.arange(12) % 6 == 0, 50.0, 0.1)
    with pytest.raises(ValueError, match="too rough for its 12 points"):
        Convection().check(rough)


def test_unknown_problem_and_count():
    with pytest.raises(ValueError, match="choose one of burgers, convection, darcy"):
        named("heat")
    for count in (0, -1, True):
        with pytest.raises(ValueError, match="count must be"):
            Burgers().sample(1, count)
    with pytest.raises(ValueError, match="length must be positive"):
        Convection(length=-1.0)
    with pytest.raises(ValueError, match="grid has 3 nodes"):
        Darcy(grid=3)
