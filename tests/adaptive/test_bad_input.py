"""Solves to a tolerance that cannot be: each says in a sentence why."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdecl
from pdecl import Box, Fit, Points, Problem, SolveError, Status
from pdecl.adaptive.effort import Effort, Stop
from pdecl.adaptive.levels import Levels
from pdecl.adaptive.rows import equations_of
from pdecl.adaptive.solve import _positive

BOX = Box(x=(0, 1), t=(0, 1))
LINE = Box(x=(0, 1))
HEAT = Fit(lambda u, z, k: u.d("t") - k * u.d("x", "x"), on=BOX.interior, name="heat")
START = Fit(lambda u, z, k: u() - jnp.sin(jnp.pi * z.x), on=BOX.face(t=0))
ENDS = Fit(lambda u, z, k: u(), on=BOX.faces("x"))
GOOD = Problem(BOX, [HEAT, START, ENDS])


@pytest.mark.parametrize("tolerance", [0.0, -1e-3, 1e-16, 2.0, np.nan])
def test_a_tolerance_that_cannot_be_met(tolerance):
    with pytest.raises(ValueError, match="tolerance"):
        pdecl.solve(GOOD, 1.0, tolerance=tolerance)


@pytest.mark.parametrize("budget", ["10 s", True, jnp.ones(2)])
def test_numbers_that_are_none(budget):
    with pytest.raises(ValueError, match="`budget` must be a positive number, such as 600; found"):
        _positive("budget", budget, "600")
    with pytest.raises(ValueError, match="found a value that JAX traces"):
        jax.jit(lambda x: _positive("budget", x, "600"))(1.0)
    assert _positive("budget", jnp.asarray(3.0), "600") == 3.0


@pytest.mark.parametrize("budget", [0, -1.0])
def test_a_budget_of_nothing(budget):
    with pytest.raises(ValueError, match="budget"):
        pdecl.solve(GOOD, 1.0, tolerance=1e-3, budget=budget)


def test_a_budget_that_is_too_small_says_where_it_ended():
    with pytest.raises(SolveError, match="budget of 1e-09 s is used up at t = 0"):
        pdecl.solve(GOOD, 1.0, tolerance=1e-3, budget=1e-9)
    solution = pdecl.solve(GOOD, 1.0, tolerance=1e-3, budget=1e-9, throw=False)
    assert solution.status is Status.TOLERANCE_NOT_MET
    assert np.isnan(solution([[0.5, 0.5]])).all()
    assert "budget" in str(solution)


def test_no_level_is_begun_that_the_budget_does_not_allow():
    line = [
        Fit(lambda u, z, k: u.d("x", "x") + 1, on=LINE.interior),
        Fit(lambda u, z, k: u(), on=LINE.faces("x")),
    ]
    equations = equations_of(Problem(LINE, line), None)
    levels = Levels(equations, 1e-3, Effort(600.0, lambda share, note: None))
    levels.last = 1e3
    with pytest.raises(Stop, match="richer level would take more than the budget of 600 s"):
        levels.run()
    levels.last = 0.0
    levels.run()
    assert levels.pieces


def test_a_basis_and_a_tolerance_or_neither():
    basis = lambda x, phi: jnp.stack([x[0], x[1]])
    with pytest.raises(TypeError, match="chooses its own functions"):
        pdecl.solve(GOOD, basis, 1.0, tolerance=1e-3)
    with pytest.raises(TypeError, match="two φ"):
        pdecl.solve(GOOD, 1.0, 2.0, tolerance=1e-3)
    with pytest.raises(TypeError, match="give a basis"):
        pdecl.solve(GOOD)


def test_arguments_of_a_solve_with_a_basis_are_refused():
    for name, value in {"solver": pdecl.solvers.QR(), "residual_limit": 0.5}.items():
        with pytest.raises(ValueError, match=f"`{name}`"):
            pdecl.solve(GOOD, 1.0, tolerance=1e-3, **{name: value})
    with pytest.raises(ValueError, match="float64"):
        pdecl.solve(GOOD, 1.0, tolerance=1e-3, dtype=jnp.float32)


def test_a_problem_that_is_traced():
    length = lambda k: Problem(BOX, [HEAT, Fit(lambda u, z, p: u(), on=Points([[0.0, k]]))])
    with pytest.raises(TypeError, match="pass what varies as φ"):
        jax.jit(lambda k: pdecl.solve(length(k), 1.0, tolerance=1e-3)([[0.5, 0.5]]))(1.0)


def test_phi_that_is_nan():
    with pytest.raises(ValueError, match="phi has entries that are NaN"):
        pdecl.solve(GOOD, np.nan, tolerance=1e-3)


def test_a_start_that_is_nan():
    nan = Fit(lambda u, z, k: u() - jnp.sqrt(z.x - 0.5), on=BOX.face(t=0))
    with pytest.raises(SolveError, match="values at t = 0 are NaN"):
        pdecl.solve(Problem(BOX, [HEAT, nan, ENDS]), 1.0, tolerance=1e-3)


@pytest.mark.parametrize(
    "conditions",
    [[HEAT, START], [HEAT, START, Fit(lambda u, z, k: u(), on=BOX.face(x=0))]],
    ids=["no ends", "one end"],
)
def test_too_few_conditions(conditions):
    with pytest.raises(ValueError, match=r"too few conditions: u has derivatives of order 2 by x"):
        pdecl.solve(Problem(BOX, conditions), 1.0, tolerance=1e-3)


def test_periodicity_of_values_alone_is_too_little_for_diffusion():
    gap = Fit(lambda u, z, k: u() - u.at("opposite")(), on=BOX.periodic("x"))
    with pytest.raises(ValueError, match="periodicity is stated for 1"):
        pdecl.solve(Problem(BOX, [HEAT, START, gap]), 1.0, tolerance=1e-3)


def test_pairs_that_are_not_periodicity():
    gap = Fit(lambda u, z, k: u() + u.at("opposite")(), on=BOX.periodic("x"), name="odd")
    with pytest.raises(ValueError, match="'odd': on pairs of points"):
        pdecl.solve(Problem(BOX, [HEAT, START, gap]), 1.0, tolerance=1e-3)


def test_conditions_that_contradict_each_other():
    bend = Fit(lambda u, z, k: u.d("x", "x") - 1, on=LINE.interior)
    zero = Fit(lambda u, z, k: u(), on=LINE.faces("x"), name="zero")
    one = Fit(lambda u, z, k: u() - 1, on=LINE.face(x=0), name="one")
    with pytest.raises(SolveError, match="contradict"):
        pdecl.solve(Problem(LINE, [bend, zero, one]), tolerance=1e-3)


def test_faces_that_contradict_each_other(capfd):
    """LAPACK has nothing to say of it."""
    box = pdecl.Box(x=(0, 1), y=(0, 1))
    conditions = [
        Fit(lambda u, z, k: u.d("x", "x") + u.d("y", "y"), on=box.interior),
        Fit(lambda u, z, k: u(), on=box.faces()),
        Fit(lambda u, z, k: u() - 1, on=box.face(x=0)),
    ]
    with pytest.raises(SolveError, match="contradict"):
        pdecl.solve(Problem(box, conditions), tolerance=1e-3)
    assert "On entry to" not in "".join(capfd.readouterr())


def test_what_is_not_stated_on_parts_of_a_box():
    ends = Fit(lambda u, z, k: u(), on=LINE.faces("x"))
    cloud = Fit(lambda u, z, k: u.d("x", "x"), on=Points([[0.2], [0.4]]))
    with pytest.raises(ValueError, match="scattered points"):
        pdecl.solve(Problem(LINE, [cloud, ends]), tolerance=1e-3)
    drawn = Fit(lambda u, z, k: u.d("x", "x"), on=lambda key: LINE.interior.draw(key, 5))
    with pytest.raises(ValueError, match="function draws"):
        pdecl.solve(Problem(LINE, [drawn, ends]), tolerance=1e-3)


def test_no_evaluation_inside_jit():
    problem = Problem(
        LINE,
        [
            Fit(lambda u, z, k: u.d("x"), on=LINE.interior),
            Fit(lambda u, z, k: u() - 1, on=LINE.face(x=0)),
        ],
    )
    solution = pdecl.solve(problem, tolerance=1e-3)
    with pytest.raises(TypeError, match="evaluated by NumPy"):
        jax.jit(solution)(jnp.ones((1, 1)))


@pytest.mark.parametrize(("lid", "said"), [(1.0, "x = 0 and y = 1 meet: u is 0 and 1 there"), (0.0, "")])
def test_corners_that_disagree_are_named(lid, said):
    box = pdecl.Box(x=(0, 1), y=(0, 1))
    laplace = pdecl.Fit(lambda u, z, phi: u.d("x", "x") + u.d("y", "y"), on=box.interior)
    sides = pdecl.Fit(lambda u, z, phi: u(), on=box.faces("x"))
    ends = pdecl.Fit(lambda u, z, phi: 2 * u() - 2 * lid * z.y, on=box.faces("y"))
    problem = pdecl.Problem(box, [laplace, sides, ends])
    message = pdecl.solve(problem, tolerance=0.1, throw=False).message
    assert (said in message) if said else message == ""
