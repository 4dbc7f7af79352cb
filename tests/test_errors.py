"""Mistakes raise at once and say what was found and what to do; numerical failures have a word."""

import math
import os
import re
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import jaxtyping
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spectral import chebyshev

import pdecl
from pdecl import Status

BOX = pdecl.Box(x=(0, 1), t=(0, 2))
INSIDE = BOX.interior.grid(3)
VALUE = lambda u, z, phi: u() - 1
ONE = pdecl.Problem(BOX, [pdecl.Fit(VALUE, on=INSIDE)])
BASIS = lambda x, phi: jnp.stack([jnp.ones(()), x[0]])


@pytest.fixture(autouse=True)
def as_users_run_it():
    """Without the checks of types that these tests otherwise run with: pdecl's own words count."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def says(*words, error=ValueError):
    """Expects an error whose message has these words in this order."""
    return pytest.raises(error, match="(?s)" + ".*".join(re.escape(word) for word in words))


def notes(caught):
    return " ".join(caught.value.__notes__)


def fit(equation, on=INSIDE, **kwargs):
    return pdecl.Problem(BOX, [pdecl.Fit(equation, on=on, **kwargs)], parameter=lambda key: jnp.zeros(3))


class TestDomain:
    def test_no_coordinates(self):
        with says("at least one coordinate"):
            pdecl.Box()

    @pytest.mark.parametrize("bounds", [(1, 0), (0, 0), (0, np.inf), (np.nan, 1)])
    def test_bounds_that_do_not_run_from_low_to_high(self, bounds):
        with says("Box: x must run from low to high"):
            pdecl.Box(x=bounds)

    @pytest.mark.parametrize("bounds", [1, (0, 1, 2), "ab", None])
    def test_bounds_that_are_no_pair_of_numbers(self, bounds):
        with says("Box: x must be a pair of numbers", error=(ValueError, TypeError)):
            pdecl.Box(x=bounds)

    @pytest.mark.parametrize("name", ["normal", "index", "at", "_x"])
    def test_names_that_points_use_themselves(self, name):
        with says(f"{name!r} cannot name a coordinate"):
            pdecl.Box(**{name: (0, 1)})

    def test_unknown_coordinates(self):
        with says("unknown coordinate 'y'", "coordinates are x, t"):
            BOX.faces("x", "y")
        with says("unknown coordinate 'y'"):
            BOX.face(y=0)
        with says("unknown coordinate 'y'"):
            BOX.periodic("y")

    def test_no_such_face(self):
        with says("t=1 is no face", "from 0.0 to 2.0"):
            BOX.face(t=1)
        with says("name one coordinate"):
            BOX.face(x=0, t=0)

    @given(
        st.one_of(st.integers(max_value=0), st.floats(), st.text(max_size=2), st.none(), st.booleans())
    )
    @settings(max_examples=20, deadline=None, derandomize=True)
    def test_counts_that_are_no_counts(self, count):
        for place in (
            BOX.interior.uniform,
            BOX.interior.low_discrepancy,
            BOX.interior.grid,
            BOX.interior.gauss,
        ):
            with says("must be a whole number of at least 1", repr(count)):
                place(count)

    def test_a_wrong_number_of_counts(self):
        with says("3 counts were given for 2 coordinates"):
            BOX.interior.grid(2, 3, 4).draw(None, 1)
        with says("3 counts were given for 2 coordinates"):
            BOX.mesh(2, 3, 4)

    def test_wrong_arguments(self):
        with says("Box: name the coordinates", error=TypeError):
            pdecl.Box((0, 1), (0, 1))
        with says("coordinates are named by strings, 'x', 't'; found 0", error=TypeError):
            BOX.faces(0)
        with says("mesh: counts must be a whole number"):
            BOX.mesh(10.0, 10)
        with says("x='left' is no face"):
            BOX.face(x="left")

    def test_a_face_is_found_in_spite_of_rounding(self):
        assert pdecl.Box(x=(0, 0.3)).face(x=0.1 + 0.2).sides == ((0, 1),)


class TestPoints:
    def test_no_points(self):
        with says("Points: coords holds no points"):
            pdecl.Points(np.zeros((0, 2)))

    def test_wrong_shapes(self):
        with says("coords must have shape (n, d)", "(3,)"):
            pdecl.Points([1.0, 2.0, 3.0])
        with says("weights must have shape (2,)", "(3,)"):
            pdecl.Points([[0.0], [1.0]], weights=[1.0, 2.0, 3.0])
        with says("partner 'there' must have shape (2, 1)", "(1, 1)"):
            pdecl.Points([[0.0], [1.0]], partners={"there": [[1.0]]})
        with says("'value' must have one entry for each of the 2 points", "(3,)"):
            pdecl.Points([[0.0], [1.0]], value=[1.0, 2.0, 3.0])
        with says("'value' must have one entry for each of the 2 points", "()"):
            pdecl.Points([[0.0], [1.0]], value=1.0)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_numbers_that_are_not_finite(self, bad):
        with says("coords has entries that are NaN or infinite"):
            pdecl.Points([[0.0], [bad]])
        with says("value has entries that are NaN or infinite"):
            pdecl.Points([[0.0], [1.0]], value=[bad, 1.0])
        with says("partner 'there' has entries that are NaN or infinite"):
            pdecl.Points([[0.0]], partners={"there": [[bad]]})

    @pytest.mark.parametrize("weights", [[1.0, -1.0], [0.0, 0.0]])
    def test_weights_that_are_no_weights(self, weights):
        with says("weights must not be negative, nor all zero"):
            pdecl.Points([[0.0], [1.0]], weights=weights)

    def test_points_of_another_dimension_than_the_domain(self):
        with says("points have 1 coordinates; the domain has 2: x, t"):
            pdecl.Problem(BOX, [pdecl.Fit(VALUE, on=pdecl.Points([[0.5]]))])

    def test_points_outside_the_domain(self):
        with says("Fit 'wall': `on`: 1 of 2 points are outside", "row 1", "Columns are x, t"):
            fit(VALUE, on=pdecl.Points([[0.5, 1.5], [1.5, 0.5]]), name="wall")

    def test_a_box_of_other_coordinates(self):
        with says("Fit: `on` is a part of a box of t, x", "coordinates are x, t"):
            fit(VALUE, on=pdecl.Box(t=(0, 2), x=(0, 1)).interior)

    def test_data_under_a_name_that_is_taken(self):
        for name in ("index", "at", "_x"):
            with says(f"Points: {name!r} cannot name data"):
                pdecl.Points([[0.5, 0.5]], **{name: [1.0]})
        with says("data called 'x'", "a coordinate of the domain"):
            fit(VALUE, on=pdecl.Points([[0.5, 0.5]], x=[1.0]))

    @pytest.mark.parametrize("bad", ["abc", None, [[0.5, 0.5], [0.5]], pdecl.Points([[0.5]])])
    def test_something_that_is_no_array(self, bad):
        with says("Points: coords must be an array of numbers", error=TypeError):
            pdecl.Points(bad)
        with says("Points: value must be an array of numbers", error=TypeError):
            pdecl.Points([[0.5]], value=bad)

    def test_complex_coordinates(self):
        with says("Points: coords must be real numbers; found complex128", error=TypeError):
            pdecl.Points([[0.5j]])

    @pytest.mark.parametrize(
        ("points", "words"), [(np.zeros((3, 2)), "found ndarray"), (None, "found None"),
                              ((np.zeros((3, 2)),), "found ndarray in it")]
    )  # fmt: skip
    def test_sets_that_are_no_points(self, points, words):
        with says("`points` must be what problem.draw(size, key) returns", words, error=TypeError):
            ONE.check_points(points)

    def test_a_sampler_that_returns_something_else(self):
        problem = pdecl.Problem(BOX, [pdecl.Fit(VALUE, on=lambda key: np.zeros((3, 2)))])
        with says("must return Points", "ndarray", error=TypeError):
            pdecl.solve(problem, BASIS)

    def test_a_sampler_that_fails(self):
        problem = pdecl.Problem(BOX, [pdecl.Fit(VALUE, on=lambda x: x[0] == 0)])
        with pytest.raises(TypeError, match="not subscriptable") as caught:
            pdecl.solve(problem, BASIS)
        assert "a sampler: key -> Points" in notes(caught)

    def test_uniform_points_without_a_key(self):
        problem = pdecl.Problem(BOX, [pdecl.Fit(VALUE, on=BOX.interior.uniform(5))])
        with says("uniform points are random: pass `key="):
            pdecl.solve(problem, BASIS)

    def test_a_wrong_number_of_sets(self):
        with says("`points` holds 2 sets; the problem has 1"):
            ONE.check_points(ONE.draw(2) * 2)
        with says("`points` holds 2 sets; the problem has 1"):
            pdecl.solve(ONE, BASIS, points=ONE.draw(2) * 2)


class TestConditions:
    """A distribution of φ lets conditions be rehearsed where they are stated; otherwise it happens in
    `solve`."""

    def test_unknown_coordinate(self):
        with says("unknown coordinate 'y' in .d()", "coordinates are x, t"):
            fit(lambda u, z, phi: u.d("x", "y"))
        with says("unknown coordinate 'n' in .d()", "along the normal is .dn()"):
            fit(lambda u, z, phi: u.d("n"))
        with says("unknown coordinate 'y'"):
            pdecl.solve(pdecl.Problem(BOX, [pdecl.Fit(lambda u, z, phi: u.d("y"), on=INSIDE)]), BASIS)

    def test_a_parameter_that_was_not_indexed(self):
        with says("Fit 'pde'", "one number per point", "shape (3,)", "indexed or interpolated"):
            fit(lambda u, z, phi: u() - phi, name="pde")

    @pytest.mark.parametrize(
        ("equation", "words"),
        [
            (lambda u, z, phi: u() if z.x > 0.5 else u() - 1, "Write jnp.where"),
            (lambda u, z, phi: u() if u() > 0.5 else u() - 1, "Write jnp.where"),
            (lambda u, z, phi: max(u(), phi[0]), "jnp.maximum"),
            (lambda u, z, phi: u() - np.sin(z.x), "Write jnp.sin for np.sin"),
            (lambda u, z, phi: np.sin(u()), "Write jnp.sin for np.sin"),
            (lambda u, z, phi: u() - np.sin(phi)[0], "Write jnp.sin for np.sin"),
            (lambda u, z, phi: u() - np.arange(9.0)[z.index], "jnp.asarray(table)[i]"),
            (lambda u, z, phi: u() - [1.0, 2.0][z.index], "jnp.asarray(table)[i]"),
            (lambda u, z, phi: u() - math.sin(z.x), "Write jnp.sin for math.sin"),
            (lambda u, z, phi: u() - float(z.x), "leave conversions out"),
            (lambda u, z, phi: u() - phi[phi > 0][0], "Write jnp.where(mask, a, b)"),
            (lambda u, z, phi: jnp.sin(u), "write u() for its value"),
            (lambda u, z, phi: u() - jnp.sin(z), "write z.x for a coordinate"),
        ],
    )
    def test_what_jax_cannot_trace(self, equation, words):
        """Said in a sentence, with the user's line, which the traceback ends with."""
        with says(
            "Fit 'pde': ", words, "(test_errors.py, line", "lambda u, z, phi", error=TypeError
        ) as e:
            fit(equation, name="pde")
        assert "\n" not in str(e.value)
        assert e.value.__suppress_context__
        assert e.traceback[-1].path.name == "test_errors.py"

    def test_the_same_without_a_law(self):
        bent = pdecl.Fit(lambda u, z, phi: u() if z.x > 0.5 else u() - 1, on=INSIDE, name="pde")
        with says("Fit 'pde': ", "Write jnp.where", error=TypeError):
            pdecl.solve(pdecl.Problem(BOX, [bent]), BASIS)

    def test_errors_of_the_user_stay_theirs(self):
        def equation(u, z, phi):
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine") as caught:
            fit(equation, name="pde")
        assert "raised in Fit 'pde' (test_errors.py, line" in notes(caught)
        assert "phi is an array of shape (3,)" in notes(caught)

    @pytest.mark.parametrize("equation", [lambda u: 0, lambda u, z: 0, lambda u, z, phi, k: 0])
    def test_a_wrong_number_of_arguments(self, equation):
        with says("Fit 'pde'", "three arguments, (u, z, phi)", "found one of (u", error=TypeError):
            pdecl.Fit(equation, on=INSIDE, name="pde")

    def test_other_wrong_outputs(self):
        with says("one number per point", "shape (2,)"):
            fit(lambda u, z, phi: (u(), jnp.stack([u(), u()])))
        with says("found none"):
            fit(lambda u, z, phi: ())
        with says("must return one number", "None", "Does it say `return`?"):
            fit(lambda u, z, phi: None)
        with says("must return one number", "found a dictionary"):
            fit(lambda u, z, phi: {"u": u()})
        with says("must return a real number; found complex128"):
            fit(lambda u, z, phi: 1j * u())
        with says("must return a real number; found bool", "not u() == 1"):
            fit(lambda u, z, phi: u() == 1)

    def test_an_energy_of_several_numbers(self):
        with says("Energy", "must return one number; found 2"):
            pdecl.Problem(
                BOX,
                [pdecl.Energy(lambda u, z, phi: (u(), u()), on=INSIDE)],
                parameter=lambda key: jnp.zeros(3),
            )

    def test_an_equation_without_u(self):
        with says("never asks for u"):
            fit(lambda u, z, phi: z.x)

    @pytest.mark.parametrize(
        "equation",
        [
            lambda u, z, phi: u - 1.0,
            lambda u, z, phi: np.sin(u),
            lambda u, z, phi: np.float64(2) * u,
            lambda u, z, phi: u == 0,
            lambda u, z, phi: u[0],
            lambda u, z, phi: u,
        ],
    )
    def test_u_without_a_call(self, equation):
        with says("write u() for its value", error=TypeError):
            fit(equation)

    def test_u_asked_in_another_way(self):
        with says("u has no 'dx'", 'u.d("x") for a derivative', error=AttributeError):
            fit(lambda u, z, phi: u.dx)
        with says("u() is the value", "takes no arguments", error=TypeError):
            fit(lambda u, z, phi: u(z.x))
        with says('.d("x", "x") for the second derivative; found 0', error=TypeError):
            fit(lambda u, z, phi: u.d(0))
        with says("unknown coordinate 'xx'", ".d('x', 'x')"):
            fit(lambda u, z, phi: u.d("xx"))

    @pytest.mark.parametrize(
        "equation",
        [lambda u, z, phi: u() - z[0], lambda u, z, phi: u() - 2 * z, lambda u, z, phi: u() - sum(z)],
    )
    def test_a_point_as_an_array(self, equation):
        with says("z stands for a point: write z.x, z.t", error=TypeError):
            fit(equation)

    @pytest.mark.parametrize("equation", [lambda w, z, phi: w(), lambda w, z, phi: w["u"]()])
    def test_several_unknowns_as_one(self, equation):
        with says("the unknowns are u, v", "write w.u()", 'w.v.d("x")', error=TypeError):
            pdecl.Problem(
                BOX,
                [pdecl.Fit(equation, on=INSIDE)],
                unknowns=("u", "v"),
                parameter=lambda key: jnp.zeros(3),
            )

    def test_a_point_without_what_is_asked(self):
        with says("this point has no 'normal'; it has: x, t", error=AttributeError):
            fit(lambda u, z, phi: u.dn())
        with says("this point has no 'value'", error=AttributeError):
            fit(lambda u, z, phi: u() - z.value)

    def test_an_unknown_partner_or_unknown(self):
        with says("unknown partner 'opposite'", "have: none"):
            fit(lambda u, z, phi: u.at("opposite")())
        with says("no unknown 'w'; there are: u, v", error=AttributeError):
            pdecl.Problem(
                BOX,
                [pdecl.Fit(lambda w, z, phi: w.w(), on=INSIDE)],
                unknowns=("u", "v"),
                parameter=lambda key: jnp.zeros(3),
            )

    @given(st.one_of(st.floats(max_value=0), st.just(np.nan), st.just(np.inf), st.just([1.0, 2.0])))
    @settings(max_examples=10, deadline=None, derandomize=True)
    def test_weights_that_are_not_positive(self, weight):
        with says("Fit: `weight` must be a positive number; found"):
            pdecl.Fit(VALUE, on=INSIDE, weight=weight)

    @pytest.mark.parametrize("weight", ["1", None])
    def test_weights_of_another_type(self, weight):
        with says("Fit: `weight` must be a positive number", error=(TypeError, ValueError)):
            pdecl.Fit(VALUE, on=INSIDE, weight=weight)

    def test_wrong_types(self):
        with says("Energy: `equation` must be a function of (u, z, phi)", error=TypeError):
            pdecl.Energy(1.0, on=INSIDE)
        for on, found in [
            ("x=0", "'x=0'"),
            (BOX, "Box"),
            (BOX.face, "the function face"),
            (pdecl.Points, "the class Points"),
            (np.zeros((3, 2)), "ndarray"),
        ]:
            with says("Fit: `on` must be a part of a box", f"found {found}", error=TypeError):
                pdecl.Fit(VALUE, on=on)
        with says("`on`", "one argument, (key); found one of (x, on_boundary)", error=TypeError):
            pdecl.Fit(VALUE, on=lambda x, on_boundary: on_boundary)
        with says("Fit: `name` must be a string; found 3", error=TypeError):
            pdecl.Fit(VALUE, on=INSIDE, name=3)


class TestProblem:
    def test_wrong_parts(self):
        with says("`domain` must be a Box; found dict", error=TypeError):
            pdecl.Problem({"x": (0, 1)}, ONE.conditions)
        with says("`conditions` is empty"):
            pdecl.Problem(BOX, [])
        with says("must hold Fit, Enforce and Energy; found the function", error=TypeError):
            pdecl.Problem(BOX, [VALUE])
        with says("must hold Fit, Enforce and Energy; found the class Fit", error=TypeError):
            pdecl.Problem(BOX, [pdecl.Fit])
        with says("must hold Fit, Enforce and Energy, in a list; found a dictionary", error=TypeError):
            pdecl.Problem(BOX, {"pde": ONE.conditions[0]})
        with says("must hold Fit, Enforce and Energy", error=TypeError):
            pdecl.Problem(BOX, ONE.conditions[0])

    def test_conditions_of_one_name(self):
        named = lambda name: pdecl.Fit(VALUE, on=INSIDE, name=name)
        for conditions in ([named("a"), named("a")], [named("Fit 1"), named(None)]):
            with says("two conditions are called", "give them different ones"):
                pdecl.Problem(BOX, conditions)

    @pytest.mark.parametrize("law", [0.1, np.linspace(0, 1, 10)])
    def test_a_law_that_is_no_function(self, law):
        with says("`parameter` must be a function key -> φ; found", "phis=", error=TypeError):
            pdecl.Problem(BOX, ONE.conditions, parameter=law)

    def test_laws_that_are_no_laws(self):
        law = lambda parameter: pdecl.Problem(BOX, ONE.conditions, parameter=parameter)
        with says("distribution of φ", "one argument, (key); found one of ()", error=TypeError):
            law(lambda: 0.1)
        with says("distribution of φ", "Write jnp.where", error=TypeError):
            law(lambda key: 0.1 if jr.uniform(key) > 0.5 else 0.2)
        with says("distribution of φ", "must return real numbers", error=TypeError):
            law(lambda key: 1j * jr.uniform(key))
        with says("distribution of φ", "must be numbers and arrays", error=TypeError):
            law(lambda key: "fast")
        with pytest.raises(TypeError) as caught:
            law(lambda key: np.random.default_rng(key).uniform())
        assert "the distribution of φ" in notes(caught)

    @pytest.mark.parametrize("key", [0, None, jr.key, jr.split(jr.key(0), 2), np.zeros(2)])
    def test_keys_that_are_no_keys(self, key):
        law = pdecl.Problem(BOX, ONE.conditions, parameter=jr.uniform)
        calls = [lambda: law.sample(key, 3)]
        calls += [lambda: law.draw(4, key)] if key is not None else []
        for call in calls:
            with says("`key` must be", "key", error=(TypeError, ValueError)):
                call()

    def test_keys_of_the_old_style(self):
        law = pdecl.Problem(BOX, ONE.conditions, parameter=jr.uniform)
        assert law.sample(jr.PRNGKey(0), 3).shape == (3,)
        assert len(law.draw(4, jr.PRNGKey(0))[0]) == 9

    @pytest.mark.parametrize("unknowns", [("u", "u"), (), "u", (1, 2), ("_u",)])
    def test_unknowns_that_are_no_distinct_names(self, unknowns):
        with says("`unknowns` must be distinct names"):
            pdecl.Problem(BOX, ONE.conditions, unknowns=unknowns)

    def test_sampling_without_a_law(self):
        with says("has no distribution of φ", "parameter="):
            ONE.sample(jr.key(0), 3)


class TestParameter:
    LAW = pdecl.Problem(
        BOX,
        [pdecl.Fit(lambda u, z, phi: u() - phi["k"] - phi["a"][0], on=INSIDE)],
        parameter=lambda key: {"k": jnp.zeros(()), "a": jnp.zeros(4)},
    )

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_numbers_that_are_not_finite(self, bad):
        with says("phi has entries that are NaN or infinite"):
            pdecl.solve(self.LAW, BASIS, {"k": bad, "a": jnp.zeros(4)})
        with says("phi has entries that are NaN or infinite"):
            pdecl.solve(ONE, BASIS, np.array([1.0, bad]))

    @given(st.lists(st.integers(0, 5), max_size=3).map(tuple).filter(lambda shape: shape != (4,)))
    @settings(max_examples=10, deadline=None, derandomize=True)
    def test_wrong_shape(self, shape):
        words = f"an array of shape {shape}" if shape else "one number"
        with says(f"phi['a'] is {words}", "is an array of shape (4,)", "jax.vmap"):
            pdecl.solve(self.LAW, BASIS, {"k": 1.0, "a": np.zeros(shape)})

    @pytest.mark.parametrize(
        ("phi", "words"),
        [
            (1.0, ["phi is one number"]),
            ({"k": 1.0}, ["phi is a dictionary of 'k' (one number)", "'a' is missing"]),
            ({"kk": 1.0, "a": 1.0}, ["phi is a", "'k' is missing", "'kk' is not known"]),
            ((1.0, 2.0), ["phi is a tuple of 2 (one number, one number)"]),
            (None, ["phi is None", "pass one, solve(problem, basis, phi)"]),
        ],
    )
    def test_wrong_structure(self, phi, words):
        law = "a dictionary of 'a' (an array of shape (4,)) and 'k' (one number)"
        with says(words[0], f"by the problem it is {law}", *words[1:]):
            pdecl.solve(self.LAW, BASIS, phi)

    def test_a_list_for_an_array(self):
        law = pdecl.Problem(BOX, ONE.conditions, parameter=jr.uniform)
        with says("phi is a list of 2", "it is one number: write jnp.asarray(phi)"):
            pdecl.solve(law, BASIS, [0.1, 0.2])

    def test_a_batch_without_a_batch_axis(self):
        with says("every array needs a first axis"):
            self.LAW.check_many({"k": 1.0, "a": jnp.zeros((2, 4))})
        with says("(2, 2)", "(4,)", "after a first axis for the batch"):
            self.LAW.check_many({"k": jnp.zeros(2), "a": jnp.zeros((2, 2))})

    def test_arrays_of_different_batch_sizes(self):
        with says("phi", "2", "3"):
            self.LAW.check_many({"k": jnp.zeros(2), "a": jnp.zeros((3, 4))})
        with says("phi", "length 0: give at least one"):
            self.LAW.check_many({"k": jnp.zeros(0), "a": jnp.zeros((0, 4))})

    def test_something_that_is_no_number(self):
        for phi, words in [
            ("fast", "found 'fast'"),
            (lambda key: 1.0, "found the function <lambda>"),
            (np.array([1.0, None]), "found ndarray"),
            (jr.key(0), "found a random key"),
            (1j, "be real; found complex numbers"),
        ]:
            with says("phi must", words, error=TypeError):
                pdecl.solve(ONE, BASIS, phi)

    def test_a_table_of_another_library(self):
        class Series:
            def __array__(self, dtype=None, copy=None):
                return np.ones(3)

        with says("phi must be", "found Series: write np.asarray(phi)", error=TypeError):
            pdecl.solve(ONE, BASIS, Series())


class TestBasis:
    @pytest.mark.parametrize("shape", [(), (2, 3), (0,)])
    def test_output_that_is_no_row_of_functions(self, shape):
        with says(
            "the basis must return one value for each of its functions", f"returned shape {shape}"
        ):
            pdecl.solve(ONE, lambda x, phi: jnp.ones(shape))

    def test_a_missing_unknown(self):
        problem = pdecl.Problem(
            BOX, [pdecl.Fit(lambda w, z, phi: w.u() + w.v(), on=INSIDE)], unknowns=("u", "v")
        )
        with says("unknowns u, v", "dictionary", "found ['u']"):
            pdecl.solve(problem, lambda x, phi: {"u": jnp.ones(2)})
        with says("unknowns u, v", "dictionary"):
            pdecl.solve(problem, BASIS)

    def test_something_that_is_no_function(self):
        with says("basis", "found 3", error=TypeError):
            pdecl.solve(ONE, 3)
        with says("the basis is the class MLP: make one, MLP(problem, size", error=TypeError):
            pdecl.solve(ONE, pdecl.nn.MLP)
        with says("must be a function of two arguments, (x, phi)", "found one of (x)", error=TypeError):
            pdecl.solve(ONE, lambda x: x)
        with says(
            "(x, phi); found one of (x, *, key=None)", "def __call__(self, x, phi)", error=TypeError
        ):
            pdecl.solve(ONE, eqx.nn.MLP(2, 4, 4, 1, key=jr.key(0)))

    @pytest.mark.parametrize(
        ("basis", "words"),
        [
            (lambda x, phi: [x[0], x[1]], "returned a list of 2"),
            (lambda x, phi: None, "returned None"),
            (lambda x, phi: 1j * x, "real numbers; for 'u' found complex128"),
            (lambda x, phi: jnp.ones(2, int), "real numbers; for 'u' found int64"),
        ],
    )
    def test_other_outputs(self, basis, words):
        with says("the basis must return", words):
            pdecl.solve(ONE, basis)

    def test_what_jax_cannot_trace(self):
        with says("the basis: ", "Write jnp.where", error=TypeError):
            pdecl.solve(ONE, lambda x, phi: x if x[0] > 0 else -x)
        with says("the basis: ", "Write jnp.sin for np.sin", error=TypeError):
            pdecl.solve(ONE, lambda x, phi: np.sin(x))
        with pytest.raises(ZeroDivisionError) as caught:
            pdecl.solve(ONE, lambda x, phi: x / (1 // 0))
        assert "raised in the basis (test_errors.py, line" in notes(caught)

    def test_one_made_for_another_problem(self):
        rod = pdecl.Box(x=(0, 1))
        other = pdecl.Problem(rod, [pdecl.Fit(VALUE, on=rod.interior)])
        for here, there in [(ONE, other), (other, ONE)]:
            net = pdecl.nn.MLP(there, 4, 4, 1, key=jr.key(0))
            with says("a network made for the coordinates", "make it with the problem"):
                pdecl.solve(here, net)
        with says("a network made for the coordinates x was given a point of shape (2,)"):
            pdecl.solve(ONE, pdecl.nn.Mollified(BASIS, rod.faces()))


class TestNetworks:
    KINDS = (pdecl.nn.MLP, pdecl.nn.DeepONet, pdecl.nn.GatedDeepONet, pdecl.nn.Modulated)
    LAW = pdecl.Problem(BOX, [pdecl.Fit(VALUE, on=INSIDE)], parameter=jr.uniform)

    @pytest.mark.parametrize("kind", [*KINDS, pdecl.nn.FNO])
    def test_wrong_ingredients(self, kind):
        name = kind.__name__
        with says(
            f"{name}: `key` must be a random key", "found 0", "jax.random.key(0)", error=TypeError
        ):
            kind(self.LAW, 4, key=0)
        with says(f"{name}: `key` must be a single key; found 2 of them"):
            kind(self.LAW, 4, key=jr.split(jr.key(0)))
        with says(f"{name}: the first argument must be a Problem; found Box", error=TypeError):
            kind(BOX, 4, key=jr.key(0))
        with says(f"{name}: `activation` must be a function", "found 'tanh'", error=TypeError):
            kind(self.LAW, 4, activation="tanh", key=jr.key(0))
        with says(f"{name}: `activation`", "Write jnp.sin for np.sin", error=TypeError):
            kind(self.LAW, 4, activation=np.tanh, key=jr.key(0))

    def test_wrong_numbers(self):
        make = lambda *args, **kwargs: pdecl.nn.MLP(ONE, *args, **kwargs, key=jr.key(0))
        for size in (0, 4.0, [4, 4]):
            with says("size must be a whole number of at least 1; found", repr(size)):
                make(size)
        for frequency in (0, -1.0, "1", np.nan):
            with says("MLP: `frequency` must be a positive number; found", repr(frequency)):
                make(4, frequency=frequency)

    def test_a_kinked_activation(self):
        with pytest.warns(UserWarning, match="relu has no second derivative"):
            pdecl.nn.MLP(ONE, 4, 4, 1, activation=jax.nn.relu, key=jr.key(0))

    def test_features(self):
        for features, words in [("periodic", "'periodic'"), (pdecl.nn.Periodic, "the class Periodic")]:
            with says("`features` must be a function of a point", words, error=TypeError):
                pdecl.nn.MLP(ONE, 4, features=features, key=jr.key(0))
        with says("Periodic: name the coordinates that repeat"):
            pdecl.nn.Periodic(ONE)
        with says("Periodic: the first argument must be a Problem; found Box", error=TypeError):
            pdecl.nn.Periodic(BOX, "x")

    def test_wrappers(self):
        for wrap in (pdecl.nn.InSingle, lambda inner: pdecl.nn.Mollified(inner, BOX.faces())):
            with says("`inner` is the class MLP", error=TypeError):
                wrap(pdecl.nn.MLP)
        with says("ExactInitial: `value` must be a function of (z, phi)", "found 0.0", error=TypeError):
            pdecl.nn.ExactInitial(BASIS, BOX.face(t=0), 0.0)
        with says("ExactInitial: `value`", "(z, phi); found one of (x)", error=TypeError):
            pdecl.nn.ExactInitial(BASIS, BOX.face(t=0), lambda x: x)
        with says("ExactInitial: `value`: ", "Write jnp.sin for np.sin", error=TypeError):
            pdecl.solve(ONE, pdecl.nn.ExactInitial(BASIS, BOX.face(t=0), lambda z, phi: np.sin(z.x)))
        with says("Creased: `front` must be a Problem; found None", error=TypeError):
            pdecl.nn.Creased(BASIS, None, 1)


class TestFit:
    LAW = pdecl.Problem(BOX, [pdecl.Fit(VALUE, on=INSIDE)], parameter=jr.uniform)
    NET = pdecl.nn.MLP(LAW, 2, 2, 1, key=jr.key(0))

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"steps": 1.5}, "fit: steps must be a whole number of at least 1; found 1.5"),
            ({"steps": 0}, "fit: steps must be a whole number"),
            ({"batch": 0}, "fit: batch must be a whole number of at least 1; found 0"),
            ({"batch": True}, "fit: batch must be a whole number"),
            ({"key": 0}, "fit: `key` must be a random key of JAX; found 0"),
            ({"optimiser": 1e-3}, "must be one of Optax, such as optax.adam(1e-3); found 0.001"),
            ({"optimiser": optax.adam}, ("`optimiser` must be one of Optax", "the function adam")),
            ({"optimiser": optax.GradientTransformation}, "found the class GradientTransformation"),
            ({"problem": NET}, "fit: the first argument must be a Problem; found MLP"),
            ({"problem": ONE}, ("no distribution of φ", "phis=")),
            ({"basis": pdecl.nn.MLP}, "fit: the basis is the class MLP"),
            ({"basis": BASIS}, ("no numbers to train", "found the function")),
            ({"loss_problem": [VALUE]}, ("`loss_problem` must be a Problem", "found a list")),
            ({"metrics": 3}, "`metrics` must be a function of the basis; found 3"),
            ({"metrics": lambda basis: 0.5}, ("`metrics` must return numbers by name", "found 0.5")),
            ({"checkpoints": "folder"}, ("`checkpoints` must be pdecl.Checkpoints", "'folder'")),
            ({"tolerance": 1e-3}, ("`tolerance` is for a fit without a network", "leave out")),
            ({"basis": None}, "an optimiser trains a network: give one"),
            ({"basis": None, "optimiser": None}, ("`steps` is for a network: give a basis and an")),
        ],
    )  # fmt: skip
    def test_arguments_are_looked_at_first(self, options, words, capsys):
        given = {"problem": self.LAW, "basis": self.NET, "optimiser": optax.adam(1e-3)} | options
        given = {"steps": 1, "key": jr.key(0), "progress": "metrics" not in options} | given
        words = words if isinstance(words, tuple) else (words,)
        with says(*words, error=(TypeError, ValueError)):
            pdecl.fit(**given)
        assert capsys.readouterr().err == ""

    def test_a_law_that_ignores_its_key(self):
        law = pdecl.Problem(BOX, [pdecl.Fit(VALUE, on=INSIDE)], parameter=lambda key: jnp.ones(()))
        with pytest.warns(UserWarning, match="the same φ for every key"):
            pdecl.fit(law, self.NET, optax.sgd(0.1), steps=1, key=jr.key(0), progress=False)


class TestSolve:
    def test_a_solver_of_another_type(self):
        with says("`solver` must be a linear solver or GaussNewton; found 'cholesky'", error=TypeError):
            pdecl.solve(ONE, BASIS, solver="cholesky")

    @pytest.mark.parametrize("initial", [np.ones(3), np.ones(())])
    def test_a_start_of_another_length(self, initial):
        with says("`initial`", "the basis has 2"):
            pdecl.solve(ONE, BASIS, initial=jnp.asarray(initial))

    def test_another_precision(self):
        with says("`dtype` must be jnp.float64 or jnp.float32"):
            pdecl.solve(ONE, BASIS, dtype=jnp.float16)

    def test_double_precision_turned_off(self):
        program = (
            "import jax.numpy as jnp, pdecl\n"
            "box = pdecl.Box(x=(0, 1))\n"
            "problem = pdecl.Problem(box, [pdecl.Fit(lambda u, z, phi: u() - 2, on=box.interior)])\n"
            "basis = lambda x, phi: jnp.ones(1)\n"
            "print(pdecl.solve(problem, basis, dtype=jnp.float32).weights.dtype)\n"
            "try: pdecl.fit(problem)\n"
            "except RuntimeError as error: print(error)\n"
            "pdecl.solve(problem, basis)\n"
        )
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "0"}
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
        )
        assert done.stdout.startswith("float32\npdecl solves in float64, and JAX has it turned off.")
        assert "RuntimeError: pdecl solves in float64" in done.stderr
        assert 'jax.config.update("jax_enable_x64", True)' in done.stderr


@pytest.fixture(scope="module")
def solution():
    return pdecl.solve(ONE, BASIS)


class TestQuery:
    @pytest.mark.parametrize("shape", [(2,), (4, 3), (), (2, 2, 2)])
    def test_wrong_shape(self, solution, shape):
        with says("points must have shape (n, 2), columns x, t", str(shape)):
            solution(np.zeros(shape))

    def test_no_points(self, solution):
        with says("points: there are none"):
            solution(np.zeros((0, 2)))

    @pytest.mark.parametrize("bad", [[0.5, 2.1], [-0.1, 1.0], [np.nan, 1.0]])
    def test_points_outside_or_nan(self, solution, bad):
        with says("1 of 2 points are NaN or outside the domain", "row 1"):
            solution(np.array([[0.5, 1.0], bad]))

    def test_points_on_the_edge_are_inside(self, solution):
        np.testing.assert_allclose(solution([[0.0, 2.0], [1.0, 0.0]]), 1.0, atol=1e-9)

    def test_unknown_coordinate(self, solution):
        with says("unknown coordinate 'y'"):
            solution.d("y")


class TestStatuses:
    """Each way a solve can fail: the word, the exception, and what to try next."""

    def fails(self, status, problem, basis, phi=None, **kwargs):
        solution = pdecl.solve(problem, basis, phi, throw=False, **kwargs)
        assert solution.status is status
        with pytest.raises(pdecl.SolveError) as caught:
            pdecl.solve(problem, basis, phi, **kwargs)
        assert caught.value.status is status
        assert str(status) in str(caught.value)
        assert status.advice in str(caught.value)
        return solution

    def test_network_output(self):
        basis = lambda x, phi: jnp.stack([jnp.ones(()), jnp.log(x[0] - 0.4)])
        self.fails(Status.NONFINITE_NETWORK, ONE, basis)

    def test_derivatives_of_the_network(self):
        problem = pdecl.Problem(
            BOX, [pdecl.Fit(lambda u, z, phi: u.d("x") - 1, on=BOX.face(x=0).grid(2))]
        )
        self.fails(Status.NONFINITE_NETWORK, problem, lambda x, phi: jnp.sqrt(x[:1]))

    def test_equation(self):
        problem = pdecl.Problem(BOX, [pdecl.Fit(lambda u, z, phi: u() - jnp.sqrt(z.x - 0.5), on=INSIDE)])
        self.fails(Status.NONFINITE_EQUATION, problem, BASIS)

    def test_coefficient_of_u(self):
        problem = pdecl.Problem(BOX, [pdecl.Fit(lambda u, z, phi: u() / (z.x - 0.5) - 1, on=INSIDE)])
        self.fails(Status.NONFINITE_EQUATION, problem, BASIS)

    def test_input_that_could_not_be_looked_at(self):
        """Inside jit a φ is checked when it runs."""
        problem = pdecl.Problem(BOX, [pdecl.Fit(lambda u, z, phi: u() - phi, on=INSIDE)])
        solve = jax.jit(lambda phi: pdecl.solve(problem, BASIS, phi, throw=False).code)
        assert solve(1.0) == Status.SOLVED
        assert solve(jnp.nan) == Status.NONFINITE_INPUT

    def test_an_energy_that_is_not_convex(self):
        problem = pdecl.Problem(BOX, [pdecl.Energy(lambda u, z, phi: u() - 0.5 * u() ** 2, on=INSIDE)])
        self.fails(Status.ILL_CONDITIONED, problem, BASIS)

    def test_a_nonlinear_solve_that_ran_out_of_steps(self):
        problem = pdecl.Problem(BOX, [pdecl.Fit(lambda u, z, phi: jnp.exp(u()) - 50, on=INSIDE)])
        constant = lambda x, phi: jnp.ones(1)
        solution = self.fails(
            Status.NOT_CONVERGED,
            problem,
            constant,
            solver=pdecl.solvers.GaussNewton(max_steps=2, restarts=0),
        )
        assert solution.iterations == 2
        assert pdecl.solve(problem, constant).weights[0] == pytest.approx(np.log(50))

    def test_contradictory_constraints(self):
        enforce = lambda value: pdecl.Enforce(lambda u, z, phi: u() - value, on=BOX.face(x=0).grid(1))
        problem = pdecl.Problem(BOX, [enforce(1.0), enforce(2.0)])
        self.fails(Status.CONSTRAINTS_INCONSISTENT, problem, chebyshev(BOX, 2))

    def test_too_many_constraints_are_no_failure(self):
        problem = pdecl.Problem(BOX, [pdecl.Enforce(lambda u, z, phi: u() - z.x**2, on=INSIDE)])
        solution = pdecl.solve(problem, BASIS, residual_limit=0.2)
        assert solution.status is Status.OVERDETERMINED
        assert "more Enforce rows than functions" in str(solution.status)
        assert "enforce at fewer points" in solution.status.advice

    @pytest.mark.parametrize("status", Status)
    def test_every_status_reads_as_words(self, status):
        assert str(status)[0].islower()
        assert "_" not in str(status)
        assert bool(status.advice) == (status is not Status.SOLVED)
        usable = (Status.SOLVED, Status.OVERDETERMINED, Status.PREDICTED, Status.AMPLIFIED)
        assert status.failed == (status not in usable)
