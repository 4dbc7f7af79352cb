"""How an equation is written does not decide how much it counts."""

import numpy as np
import pytest
from waves import network, stated

import pdecl
from pdecl.family.metrics import relative_l2
from pdecl.reduced.compile import assemble
from pdecl.reduced.snapshots import take_snapshots


def with_factor(problem, factor):
    """The problem, its first condition with a second equation, which is multiplied by a factor."""
    first, *others = problem.conditions

    def equations(u, z, phi):
        own = first.equation(u, z, phi)
        return own, factor * (1 + z.x) * own

    both = pdecl.Fit(equations, on=first.on, name=first.name)
    return pdecl.Problem(problem.domain, [both, *others], problem.parameter)


@pytest.mark.parametrize("nonlinear", [False, True])
def test_an_equation_may_be_multiplied_by_any_number(snapshots, fresh, nonlinear):
    """Of the same answers the same solver is made, for a linear and for a nonlinear equation."""
    weights, found = snapshots.weights if nonlinear else None, []
    for factor in (1.0, 1e4):
        problem = with_factor(stated(nonlinear), factor)
        taken = take_snapshots(problem, network(problem), snapshots.phis, weights=weights)
        weights = taken.weights
        solver = assemble(taken, 8, points=24, at=problem.domain.mesh(7, 5))
        found.append(np.asarray(solver(fresh).values))
    assert relative_l2(found[1], found[0]).max() < 1e-6
    assert solver.error.mean < 0.05
