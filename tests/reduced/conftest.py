"""One snapshots of the nonlinear problem serves most tests."""

import jax.random as jr
import pytest
from waves import network, stated

from pdecl.reduced.compile import assemble
from pdecl.reduced.snapshots import take_snapshots


@pytest.fixture(scope="session")
def snapshots():
    problem = stated(nonlinear=True)
    return take_snapshots(problem, network(problem), problem.sample(jr.key(2), 60))


@pytest.fixture(scope="session")
def reduced(snapshots):
    """Twelve of the thirty functions, on eighteen rows."""
    return assemble(snapshots, 12, points=18, at=snapshots.problem.domain.mesh(7, 5))


@pytest.fixture(scope="session")
def fresh(snapshots):
    """As many as are solved together in a snapshots, so that nothing is compiled anew."""
    return snapshots.problem.sample(jr.key(3), 50)
