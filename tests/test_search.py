"""One step of Gauss–Newton from any state, and one attempt from any other, against NumPy.

What is solved for tells little about how: most steps end well whatever their damping was. So the loops'
bodies are caught, and given states that are drawn at random.
"""

from dataclasses import fields, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pdecl
from pdecl.layer.precision import precision_of
from pdecl.layer.residual import relative_residuals
from pdecl.layer.solvers import GaussNewton, gauss_newton, starts
from pdecl.layer.system import build, linearise

SIZE, EPSILON = 3, np.finfo(float).eps
LINE = pdecl.Box(x=(0, 1))
X = np.array([0.1, 0.35, 0.6, 0.85, 0.95])
AT = pdecl.Points(X[:, None])
END = pdecl.Points([[1.0], [0.5]])
basis = lambda x, phi: jnp.stack([jnp.ones(()), x[0], jnp.sin(3 * x[0])])
values = lambda w, x: jnp.stack([jnp.ones(len(x)), x, jnp.sin(3 * x)], axis=1) @ w

square = lambda u, x: u**2 - 2 - x
bent = lambda u, x: u + 0.3 * u**2 - x
straight = lambda u, x: u - 1 - x
density = lambda u, x: 0.25 * u**4 + u**2 - 2 * u
as_condition = lambda kind, f, on, **more: kind(lambda u, z, phi: f(u(), z.x), on=on, **more)

FIT = as_condition(pdecl.Fit, square, AT, weight=3.0)
CONDITIONS = {
    "fit": [FIT],
    "fit and straight equalities": [FIT, as_condition(pdecl.Enforce, straight, END, weight=2.0)],
    "fit and bent equalities": [FIT, as_condition(pdecl.Enforce, bent, END, weight=2.0)],
    "energy": [as_condition(pdecl.Energy, density, AT, weight=1.5)],
}
EQUALITY = {"fit and straight equalities": straight, "fit and bent equalities": bent}
RIDGE = np.array([0.01, 0.02, 0.04])
SOLVER = GaussNewton(rtol=0.1, atol=0.05)


class ByHand:
    """A problem's objective and equalities as functions of ω, with their derivatives."""

    def __init__(self, kind):
        self.has_fit, self.equality = kind != "energy", EQUALITY.get(kind)
        self.curved = self.equality is bent

    def rows(self, w):
        return jnp.sqrt(3.0 / 5) * square(values(w, X), X) if self.has_fit else jnp.zeros(0)

    def energy(self, w):  # the shares of points are a mean if they have no weights of their own
        return 0.0 if self.has_fit else 1.5 / 5 * jnp.sum(density(values(w, X), X))

    def equalities(self, w):
        x = np.array([1.0, 0.5])
        return jnp.zeros(0) if self.equality is None else self.equality(values(w, x), x)

    def objective(self, w):
        return float(0.5 * jnp.sum(self.rows(w) ** 2) + self.energy(w) + 0.5 * RIDGE @ w**2)

    def merit(self, w, penalty):
        return self.objective(w) + penalty * np.linalg.norm(self.equalities(w))

    def at(self, w):
        """Slope, Gauss–Newton matrix, equalities and their Jacobian."""
        r, J = self.rows(w), np.asarray(jax.jacfwd(self.rows)(w))
        curvature = np.asarray(jax.hessian(self.energy)(w)) if not self.has_fit else 0.0
        slope = J.T @ r + RIDGE * w + (0 if self.has_fit else np.asarray(jax.grad(self.energy)(w)))
        c, C = np.asarray(self.equalities(w)), np.asarray(jax.jacfwd(self.equalities)(w))
        return np.asarray(slope), J.T @ J + curvature, c, C

    def optimum(self):
        """ω and multipliers at which the Lagrangian is stationary, by Newton's method."""
        w = np.array([1.0, 0.6, 0.05])
        y = np.zeros(len(self.equalities(w)))
        for _ in range(20):
            slope, _, c, C = self.at(w)
            kkt = np.block([[self.exact(w, y) + np.diag(RIDGE), C.T], [C, np.zeros((len(c), len(c)))]])
            step = np.linalg.solve(kkt, -np.concatenate([slope + C.T @ y, c]))
            w, y = w + step[:SIZE], y + step[SIZE:]
        return w, y

    def exact(self, w, multipliers):
        """The second derivative of the Lagrangian, without its ridge."""
        whole = lambda w: (
            0.5 * jnp.sum(self.rows(w) ** 2) + self.energy(w) + multipliers @ self.equalities(w)
        )
        return np.asarray(jax.hessian(whole)(jnp.asarray(w)))


def inverse(H, C, columns, f, g):
    """(x, y) with  H x + Cᵀ y = f  and  C x − s (y − C x + g) = g,  both sides scaled by the columns."""
    s, C = precision_of(jnp.float64).regularisation, C / columns
    H = H / columns / columns[:, None]
    matrix = np.block([[H, C.T], [(1 + s) * C, -s * np.eye(len(C))]])
    both = np.linalg.solve(matrix, np.concatenate([f / columns, (1 + s) * g]))
    return both[: len(f)] / columns, both[len(f) :]


def step_by_hand(hand, s, free_start, rtol, atol):
    """The state after a step, as the docstring of `GaussNewton` and the comments say it."""
    w, (slope, H, c, C) = s["weights"], hand.at(s["weights"])
    columns = np.sqrt(np.diag(H) + RIDGE + np.sum(C**2, axis=0))
    damping = s["damping"] * columns**2
    solve = lambda f, g: inverse(H + np.diag(RIDGE + damping), C, columns, f, g)
    step, change = solve(-slope - C.T @ s["multipliers"], -c)
    multipliers = s["multipliers"] + change
    if hand.curved or s["steps"] >= 6:
        exact = hand.exact(w, multipliers) + np.diag(RIDGE + damping)
        kkt = np.block([[exact, C.T], [C, np.zeros((len(c), len(c)))]])
        at = np.linalg.solve(kkt, -np.concatenate([slope + C.T @ multipliers, c]))
        better, balance = at[:SIZE], multipliers + at[SIZE:]
        if hand.curved:
            better = better + solve(0 * slope, -np.asarray(hand.equalities(w + better)))[0]
        penalty = max(s["penalty"], 2 * np.linalg.norm(balance))
        if hand.merit(w + better, penalty) < hand.merit(w + step, penalty):
            step, multipliers = better, balance
    size = np.linalg.norm(multipliers)
    fall = 0.5 * abs((slope + C.T @ multipliers) @ step)
    penalty = max(s["penalty"], 2 * size)
    before, after = hand.merit(w, penalty), hand.merit(w + step, penalty)
    expected = fall + (penalty - size) * np.linalg.norm(c)
    zero = np.zeros(SIZE)
    scale = abs(hand.objective(zero)) + 0.5 * np.sum(np.asarray(hand.equalities(zero)) ** 2)
    tiny = expected <= 500 * EPSILON * (abs(before) + scale)
    free_now = free_start and hand.has_fit and hand.equality is None and s["steps"] == 0
    accept = before - after > 1e-4 * expected or tiny or free_now
    further = fall * min(1.0, fall / s["fall"] if s["fall"] > 0 else 1.0)
    settled = further <= rtol**2 * abs(after) + atol**2 * scale
    settled = settled and c @ c <= rtol**2 * scale and not (free_now and after > before)
    gain = 1.0 if tiny else (before - after) / expected
    well = 0.5 if s["rejected"] else 0.1
    shrunk = s["damping"] * (well if gain > 0.75 else 0.5 if gain > 0.25 else 2.0)
    free = s["damping"] <= 1e-6
    return {
        "weights": w + step if accept else w,
        "multipliers": multipliers if accept else s["multipliers"],
        "damping": (0 if shrunk < 1e-12 else shrunk)
        if accept
        else max(s["damping"] * s["growth"], 1e-10),
        "growth": 10.0 if accept else 2 * s["growth"],
        "penalty": penalty,
        "fall": fall if accept and free else 0.0,
        "rejected": not accept,
        "steps": s["steps"] + 1,
        "done": (accept and settled and free) or s["damping"] > 1e12,
    }


class Caught(Exception):
    """The parts of a loop."""


def loop_of(call, kind):
    """Condition, body and first state of the first loop over a state of that kind."""
    real = jax.lax.while_loop

    def catch(going, advance, state):
        if isinstance(state, kind):
            raise Caught(going, advance, state)
        return real(going, advance, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax.lax, "while_loop", catch)
        with pytest.raises(Caught) as caught:
            call()
    return caught.value.args


def system_of(kind):
    problem = pdecl.Problem(LINE, CONDITIONS[kind])
    return build(problem, basis, None, problem.draw(SIZE))


def states(hand, count, seed=0):
    """As they come up, and as they hardly do: near the solution, far away, damped, rejected before."""
    rng, (best, balance) = np.random.default_rng(seed), hand.optimum()
    m = len(balance)
    for number in range(count):
        near = 10.0 ** rng.uniform(-4, 0.7)
        yield {
            "weights": best + near * rng.normal(size=SIZE),
            "multipliers": (balance + near * rng.normal(size=m)) * (number % 3 > 0),
            "damping": [0.0, 0.0, 1e-7, 1e-3, 1.0, 1e2 if m else 3e12, 5e-12][number % 7],
            "growth": 10.0 * 2.0 ** (number % 3),
            "penalty": [0.0, 1.0, 30.0][number % 3] * (m > 0),
            "fall": [0.0, 1e-6, 1e-2, 10.0][number % 4],
            "rejected": bool(number % 2),
            "steps": [0, 1, 6, 5][number % 4],
            "done": False,
        }


@pytest.mark.parametrize("kind", CONDITIONS)
def test_a_step_from_any_state(kind):
    hand, system = ByHand(kind), system_of(kind)

    @eqx.filter_jit
    def advance(state, free_start, rtol):
        def call():
            rough = jnp.asarray(True), eqx.tree_at(lambda s: s.rtol, SOLVER, rtol)
            gauss_newton.search(
                system, jnp.asarray(RIDGE), jnp.ones(SIZE), SOLVER, free_start=free_start, roughly=rough
            )

        return loop_of(call, gauss_newton._State)[1](state)

    outcomes = []
    for number, state in enumerate(states(hand, 40)):
        free_start, rtol = number % 5 > 2, [1e-8, 0.1][number % 2]
        wanted = step_by_hand(hand, state, free_start, rtol, SOLVER.atol)
        given = gauss_newton._State(**jax.tree.map(jnp.asarray, state))
        found = advance(given, jnp.asarray(free_start), jnp.asarray(rtol))
        for field in fields(found):
            np.testing.assert_allclose(
                getattr(found, field.name), wanted[field.name], rtol=1e-4, atol=1e-6,
                err_msg=f"{field.name} of {number}",
            )  # fmt: skip
        outcomes.append((wanted["rejected"], wanted["done"]))
    assert {done for _, done in outcomes} == {True, False}
    assert kind != "fit" or {rejected for rejected, _ in outcomes} == {True, False}


def test_a_search_begins_with_nothing_known_and_ends_when_it_is_done_or_out_of_steps(monkeypatch):
    system = system_of("fit and straight equalities")
    start = jnp.array([0.1, 0.2, 0.3])
    solver = GaussNewton(max_steps=5)
    going, _, first = loop_of(
        lambda: gauss_newton.search(system, jnp.asarray(RIDGE), start, solver), gauss_newton._State
    )
    none = {"damping": 0, "penalty": 0, "fall": 0, "rejected": False, "steps": 0, "done": False}
    for name, value in {"weights": start, "multipliers": [0, 0], "growth": 10, **none}.items():
        np.testing.assert_array_equal(getattr(first, name), value)
    state = lambda **changes: replace(first, **jax.tree.map(jnp.asarray, changes))
    assert [bool(going(state(steps=4))), bool(going(state(steps=5))), bool(going(state(done=True)))] == [
        True, False, False,
    ]  # fmt: skip
    for done, damping, converged in [(True, 0.0, True), (False, 0.0, False), (True, 2e12, False)]:
        last = state(done=done, damping=damping, steps=3, multipliers=jnp.array([7.0, 8.0]))
        monkeypatch.setattr(jax.lax, "while_loop", lambda *_, last=last: last)
        found = gauss_newton.search(system, jnp.asarray(RIDGE), start, solver)
        assert [bool(found[3]), int(found[2])] == [converged, 3]
        np.testing.assert_array_equal(found[1], [7, 8])


def test_the_steps_of_a_search_may_be_those_of_another_solver():
    system, start = system_of("fit"), jnp.ones(SIZE)
    rough = GaussNewton(max_steps=2)
    for is_rough, most in [(True, 2), (False, 50)]:
        call = lambda r=is_rough: gauss_newton.search(
            system, jnp.asarray(RIDGE), start, GaussNewton(), roughly=(jnp.asarray(r), rough)
        )
        going, _, first = loop_of(call, gauss_newton._State)
        at = lambda steps, first=first: replace(first, steps=jnp.asarray(steps))
        assert [bool(going(at(most - 1))), bool(going(at(most)))] == [True, False]


class TestAttempts:
    KIND, SOLVER = "fit and bent equalities", GaussNewton(restarts=4, max_steps=30)
    START = jnp.array([0.1, 0.2, 0.3])

    def attempts(self, initial=None, solver=SOLVER):
        system = system_of(self.KIND)
        call = lambda: starts.reach(system, jnp.asarray(RIDGE), linearise(system), initial, solver)
        return system, *loop_of(call, starts._Path)

    def by_hand(self, path, weights, steps, converged, misfit):
        """The next path, as the head of `starts.py` and its comments say it."""
        hand = ByHand(self.KIND)
        found = hand.objective(weights) + 0.5 * np.sum(np.asarray(hand.equalities(weights)) ** 2)
        found = found if np.isfinite(found) else np.inf
        whole, first = path["share"] == 1, path["restarts"] == 0
        better = whole and (found < path["value"] if converged == path["converged"] else converged)
        climbed, failed = converged and not whole, not converged and not first
        base = weights if climbed else path["base"]
        reached = path["share"] if climbed else path["reached"]
        pace = path["pace"] / 4 if failed else path["pace"] * (2 if climbed and steps <= 6 else 1)
        if first:
            share = 0.0
        elif path["share"] == 0:
            share = 0.25
        else:
            share = min(reached + pace, 1.0)
        pace = 0.25 if path["share"] == 0 else pace
        return {
            "start": np.zeros(SIZE) if first else base,
            "share": share,
            "pace": pace,
            "reached": reached,
            "base": base,
            "best": (weights, np.array([5.0, 6.0])) if better else path["best"],
            "value": found if better else path["value"],
            "converged": converged if better else path["converged"],
            "steps": path["steps"] + steps,
            "restarts": path["restarts"] + 1,
            "done": bool(
                (whole and converged and (misfit <= self.SOLVER.restart_above or not first))
                or (failed and (reached < 0 or pace < 1e-3))
                or path["restarts"] + 1 > self.SOLVER.restarts
            ),
        }

    def test_what_follows_from_each(self, monkeypatch):
        _, going, attempt, _ = self.attempts()
        rng, asked, ends = np.random.default_rng(0), [], set()
        for number in range(60):
            path = {
                "start": rng.normal(size=SIZE),
                "share": [1.0, 0.0, 0.25, 0.7][number % 4],
                "pace": [0.25, 0.5, 0.003][number % 3],
                "reached": [-1.0, 0.1, 0.5][number // 4 % 3],
                "base": rng.normal(size=SIZE),
                "best": (rng.normal(size=SIZE), rng.normal(size=2)),
                "value": [np.inf, 0.1, 1e4][number % 3],
                "converged": bool(number // 2 % 2),
                "steps": number,
                "restarts": number % 6,
                "done": number % 7 == 0,
            }
            weights = rng.normal(size=SIZE) * (np.nan if number % 11 == 0 else 1)
            steps, converged, misfit = (
                (6, 7, 2)[number % 3],
                bool(number // 3 % 2),
                (0.05, 0.2)[number % 2],
            )

            def search(*given, number=number, weights=weights, steps=steps, converged=converged, **more):
                asked.append((given, more))
                both = jnp.asarray(weights), jnp.array([5.0, 6.0])
                return *both, jnp.asarray(steps), jnp.asarray(converged)

            monkeypatch.setattr(starts, "search", search)
            monkeypatch.setattr(starts, "misfit", lambda *_, misfit=misfit: misfit)
            found = attempt(starts._Path(**jax.tree.map(jnp.asarray, path)))
            wanted = self.by_hand(path, weights, steps, converged, misfit)
            for field in fields(found):
                one, other = (
                    jax.tree.leaves(x) for x in (getattr(found, field.name), wanted[field.name])
                )
                for a, b in zip(one, other, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=f"{field.name} of {number}")
            assert bool(going(found)) != wanted["done"]
            ends.add(wanted["done"])
            (softened, ridge, start, solver), more = asked[-1]
            np.testing.assert_array_equal(start, path["start"])
            np.testing.assert_array_equal(ridge, RIDGE)
            assert (softened.share, solver) == (path["share"], self.SOLVER)
            assert (bool(more["idle"]), bool(more["free_start"])) == (
                path["done"],
                path["restarts"] == 0,
            )
            rough, other = more["roughly"]
            assert (bool(rough), other.rtol, other.max_steps) == (path["share"] != 1, 0.1, 20)
        assert ends == {True, False}

    def test_how_they_begin(self):
        for initial in (None, self.START):
            _, _, _, first = self.attempts(initial)
            start = np.zeros(SIZE) if initial is None else initial
            for name, value in [("share", 1), ("pace", 0.25), ("reached", -1), ("value", np.inf)]:
                assert getattr(first, name) == value
            for name in ("converged", "steps", "restarts", "done"):
                assert getattr(first, name) == 0
            for values in (first.start, first.base, first.best[0]):
                np.testing.assert_array_equal(values, start)
            np.testing.assert_array_equal(first.best[1], [0, 0])

    def test_a_start_that_is_given_is_not_left_by_a_step_up_a_hill(self, monkeypatch):
        _, _, attempt, first = self.attempts(self.START)
        asked = []
        answer = self.START, jnp.zeros(2), jnp.asarray(1), jnp.asarray(True)
        monkeypatch.setattr(starts, "search", lambda *_, **more: asked.append(more) or answer)
        attempt(first)
        assert asked[0]["free_start"] is False

    def test_without_restarts_or_nonlinear_rows_there_is_one(self, monkeypatch):
        asked = []
        answer = self.START, jnp.zeros(0), jnp.asarray(1), jnp.asarray(True)
        search = lambda *given, **more: asked.append((given, more)) or answer
        monkeypatch.setattr(starts, "search", search)
        away = np.sin(1.0 + np.arange(3.0) ** 2)  # squares have no slope at zero
        for kind, restarts, first in [
            ("fit", 0, away / np.linalg.norm(away)),
            ("energy", 16, np.zeros(3)),
        ]:
            system, solver = system_of(kind), GaussNewton(restarts=restarts)
            for initial in (None, self.START):
                starts.reach(system, jnp.asarray(RIDGE), linearise(system), initial, solver)
                (_, _, start, _), more = asked[-1]
                np.testing.assert_allclose(start, first if initial is None else initial, rtol=1e-12)
                assert more == {"free_start": initial is None}


def test_what_is_left_of_an_equation_with_a_share_of_its_nonlinear_terms():
    """u u_x is affine in each of its entries and u² is not: at u = 0 they leave −x + 2 u_x + 3 u_xx."""
    equation = lambda u, x: u[0] * u[1] + u[0] ** 2 + 2 * u[1] + 3 * u[2] - x
    read = lambda u, z, phi: equation((u(), u.d("x"), u.d("x", "x")), z.x)
    root = lambda u, z, phi: jnp.sqrt(u()) - 1  # whose slope at zero is infinite
    same = lambda u, z, phi: u.d("x") - z.x
    conditions = [pdecl.Fit(f, on=AT, weight=5.0) for f in (read, root, same)]
    problem = pdecl.Problem(LINE, conditions)
    system = build(problem, basis, None, problem.draw(SIZE))
    soften = starts._softening(system)
    w, share = jnp.array([0.9, 0.7, 0.2]), 0.3
    u = [
        w[0] + w[1] * X + w[2] * np.sin(3 * X),
        w[1] + 3 * w[2] * np.cos(3 * X),
        -9 * w[2] * np.sin(3 * X),
    ]
    left = -X + 2 * u[1] + 3 * u[2]
    wanted = [
        (1 - share) * left + share * equation(u, X),
        share * np.sqrt(u[0]) - 1,
        u[1] - X,
    ]
    found = soften(share).rows(w, "Fit").reshape(3, -1)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    slopes = linearise(soften(share), w).A.as_matrix()
    np.testing.assert_allclose(slopes, jax.jacfwd(lambda w: soften(share).rows(w, "Fit"))(w), rtol=1e-12)
    straight = pdecl.Problem(LINE, [pdecl.Fit(same, on=AT), CONDITIONS["energy"][0]])
    assert starts._softening(build(straight, basis, None, straight.draw(SIZE))) is None


def test_the_misfit_is_of_conditions_whose_terms_have_a_size():
    """u' at a face is not read inside: it counts for nothing, however large."""
    of = lambda f, on, name: pdecl.Fit(lambda u, z, phi: f(u, z), on=on, name=name)
    conditions = [
        of(lambda u, z: u.d("x", "x") + u() - z.x, LINE.interior.grid(6), "equation"),
        of(lambda u, z: u() - 1.1, LINE.face(x=0), "value"),
        of(lambda u, z: u.d("x"), LINE.face(x=1), "slope"),
    ]
    for kept in (conditions, conditions[::2]):
        problem = pdecl.Problem(LINE, kept)
        system, w = build(problem, basis, None, problem.draw(SIZE)), jnp.array([1.0, 0.0, 1e-3])
        found = relative_residuals(system, w)
        sized = [float(found[c.name]) for c in kept if c.name != "slope"]
        assert found["slope"] == pytest.approx(1)
        assert starts.misfit(system, w) == pytest.approx(max(sized), rel=1e-12)
        assert max(sized) < 1


@pytest.mark.parametrize(
    ("conditions", "stationary"),
    [
        ([as_condition(pdecl.Fit, lambda u, x: u**2 - 1, AT)], True),
        ([as_condition(pdecl.Fit, lambda u, x: u**2, AT)], False),
        ([as_condition(pdecl.Fit, lambda u, x: u - 1, AT)], False),
        ([as_condition(pdecl.Enforce, lambda u, x: u**2 - 1, AT)], True),
        ([as_condition(pdecl.Enforce, lambda u, x: u + u**2 - 1, AT)], False),
        ([as_condition(pdecl.Fit, lambda u, x: u**2 - 1, AT), CONDITIONS["energy"][0]], False),
        (
            [
                as_condition(pdecl.Fit, lambda u, x: u**2 - 1, AT),
                as_condition(pdecl.Enforce, lambda u, x: u - x, END),
            ],
            False,
        ),
    ],
)
def test_a_start_away_from_zero_where_nothing_pulls_although_something_is_left(conditions, stationary):
    problem = pdecl.Problem(LINE, conditions)
    system = build(problem, basis, None, problem.draw(SIZE))
    away = np.sin(1.0 + np.arange(3.0) ** 2)
    found = starts._first_start(linearise(system), jnp.asarray(RIDGE))
    np.testing.assert_allclose(found, stationary * away / np.linalg.norm(away), rtol=1e-12)
