"""The trained bases that come with the package."""

import pytest

import pdecl
from pdecl.family import SPLITS
from pdecl.family import dataset as datasets
from pdecl.family.trained import find, shipped
from pdecl.reduced.snapshots import phi_independent

# Mean relative error on the first two test φ: what each basis is known for, with room for rounding.
# Darcy's is for 141 × 141 of the 421 × 421 nodes it was trained on, where most of it is the grid's own.
KNOWN = {"burgers": 1e-4, "convection": 3e-4, "convection-fast": 1.5e-3, "darcy": 7e-3}


def test_all_of_them_are_known_and_small():
    assert shipped() == sorted(KNOWN)
    assert sum(find(name).stat().st_size for name in shipped()) < 16e6


@pytest.mark.parametrize("name", KNOWN)
def test_a_shipped_basis_solves_what_it_has_never_seen(name):
    trained = pdecl.load(name)
    data = datasets.build(trained.family, SPLITS["test"].seed, 2)
    if name == "darcy":
        data = datasets.on_grid(data, 141)
    found, _ = pdecl.evaluate(trained, data)
    assert found.statuses == {"SOLVED": 2}
    assert found.errors.mean() < KNOWN[name]


@pytest.mark.parametrize("name", ["burgers", "convection-fast"])
def test_these_run_no_network_once_they_are_compiled(name):
    trained = pdecl.load(name)
    assert phi_independent(trained.problem(), trained.basis, trained.family.sample(0, 1)[0])
