"""examples/inverse.py finds φ from noisy sensors, at a size that takes seconds."""

from pathlib import Path

import numpy as np
import pytest

import pdecl
from pdecl.family.experiment import basis_of, keys_of, preset

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def inverse(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import inverse

    return inverse


# Kinks are hard on so few functions, and a speed shows in u only through where they lie.
@pytest.mark.parametrize(("problem", "share"), [("convection", 0.7), ("burgers", 0.2)])
def test_phi_is_recovered_far_better_than_guessed(problem, share, inverse):
    made = preset(problem, "hard", "quick").with_overrides(size=60, width=60, depth=1, creased=0.0)
    random = pdecl.Trained(made, basis_of(made, keys_of(made)[0]))
    solver, prior, results = inverse.recover_some(random, sensors=40, phis=24, count=2)
    assert solver.at.shape == (40, 2)
    assert len(results) == 2
    for one in results:
        np.testing.assert_array_equal(one.guess, prior.mean)
        assert one.error < share * one.error_of_guess
        assert (one.deviation > 0).all()


@pytest.fixture
def pinnacle(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES.parent / "benchmarks")
    import pinnacle_inverse

    return pinnacle_inverse


def test_a_blended_coefficient_is_the_exact_one_on_the_sides(pinnacle):
    for case in pinnacle.CASES.values():
        (x0, x1), (y0, y1) = case.box.bounds[:2]
        s = np.linspace(0, 1, 7)
        x, y = x0 + (x1 - x0) * s, y0 + (y1 - y0) * s
        sides = [(x, y0), (x, y1), (x0, y), (x1, y)]
        for side in sides:
            for point in np.stack(np.broadcast_arrays(*side), axis=1):
                np.testing.assert_allclose(pinnacle.blended(case, point), case.coefficient(point))
                assert np.abs(pinnacle.sines(case.box, point)).max() < 1e-12


def test_an_unknown_coefficient_is_found_from_noisy_values(pinnacle, monkeypatch):
    monkeypatch.setattr(pinnacle, "_MODES", 2)
    monkeypatch.setattr(pinnacle, "TOLERANCE", 1e-2)
    case = pinnacle.CASES["poisson_inverse"]
    points = case.sensors()
    exact = np.sin(np.pi * points[:, 0]) * np.sin(np.pi * points[:, 1])
    data = exact + 0.1 * np.random.default_rng(0).standard_normal(len(points))
    phi, spread = pinnacle.recovered(case, pinnacle.problem_of(case), points, data)
    # Beside what is blended from the sides, a is 0.0325 of the first sine and next to nothing of others.
    assert np.count_nonzero(phi["a"]) == 1
    assert 0.002 < np.sqrt(spread[0, 0]) < 0.01
    assert abs(phi["a"][0, 0] - 0.0325) < 3 * np.sqrt(spread[0, 0])
