"""examples/inverse.py finds φ from noisy sensors, at a size that takes seconds."""

from pathlib import Path

import numpy as np
import pytest

import pdecl
from pdecl.family.experiment import basis_of, keys_of
from pdecl.family.presets import preset

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
