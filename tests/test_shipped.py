"""The trained bases that come with the package."""

import pytest

import pdecl
from pdecl import dataset as datasets
from pdecl.problems import SPLITS
from pdecl.trained import find, shipped

# Mean relative error on the first three test φ: what each basis is known for, with room for rounding.
KNOWN = {"burgers": 1e-4, "darcy": 1.5e-3}


def test_all_of_them_are_known_and_small():
    assert shipped() == sorted(KNOWN)
    assert sum(find(name).stat().st_size for name in shipped()) < 16e6


@pytest.mark.parametrize("name", KNOWN)
def test_a_shipped_basis_solves_what_it_has_never_seen(name):
    trained = pdecl.load(name)
    data = datasets.build(trained.law, SPLITS["test"].seed, 3)
    found, _ = pdecl.evaluate(trained, data)
    assert found.statuses == {"SOLVED": 3}
    assert found.errors.mean() < KNOWN[name]
