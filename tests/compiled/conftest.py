"""One study of the nonlinear problem serves most tests."""

import jax.random as jr
import pytest
from waves import network, stated

from pdecl.compiled.make import assemble
from pdecl.compiled.study import examine


@pytest.fixture(scope="session")
def study():
    problem = stated(nonlinear=True)
    return examine(problem, network(problem), problem.sample(jr.key(2), 60))


@pytest.fixture(scope="session")
def reduced(study):
    """Twelve of the thirty functions, on eighteen rows."""
    return assemble(study, 12, points=18, at=study.problem.domain.mesh(7, 5))


@pytest.fixture(scope="session")
def fresh(study):
    """As many as are solved together in a study, so that nothing is compiled anew."""
    return study.problem.sample(jr.key(3), 50)
