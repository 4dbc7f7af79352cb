"""What is printed of an object is what a person wants to know of it, and printing never fails."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import pdecl
from pdecl import Status
from pdecl.support.summary import Summarised, Summary, Table, number


class TestSummary:
    def test_rows_are_aligned_and_those_without_a_value_left_out(self):
        text = str(Summary("Thing", [("a", 1), ("longer", "two"), ("none", None)]))
        assert text == "Thing\n  a       1\n  longer  two"

    def test_a_summary_and_a_table_within_one(self):
        inner = Summary("Inner", [("b", 2.0)])
        table = Table(("name", "kind"), [("pde", "Fit"), ("wall", "Enforce")])
        assert str(Summary("Outer", [("in", inner), ("of", table)])).splitlines() == [
            "Outer",
            "  in  Inner",
            "        b  2",
            "  of  name  kind",
            "      pde   Fit",
            "      wall  Enforce",
        ]

    def test_html_is_escaped(self):
        summary = Summary("a < b", [("<i>", Summary("&", [("c", Table(("<",), [(">",)]))]))])
        html = summary.html()
        for part in ("<b>a &lt; b</b>", "&lt;i&gt;", "<b>&amp;</b>", "&lt;</th>", "&gt;</td>"):
            assert part in html
        assert "<i>" not in html

    def test_numbers_are_short_and_tracers_allowed(self):
        numbers = (12345, 1 / 3, True, jnp.asarray(2.5))
        assert list(map(number, numbers)) == ["12,345", "0.3333", "yes", "2.5"]
        assert number(Status.SOLVED) == "solved"
        assert number(np.asarray([1.0, 2.0, 6.0])) == "2 (median), 6 (largest)"
        seen = []
        jax.eval_shape(lambda x: seen.append(number(x)), jnp.zeros(3))
        assert seen == ["an array (3,) that is not computed yet"]

    def test_an_error_while_printing_does_not_hide_another(self):
        class Broken(Summarised):
            def summary(self):
                return Summary("Broken", [("x", self.missing)])

        assert repr(Broken()) == "<Broken>"
        assert Broken()._repr_html_() == "&lt;Broken&gt;"


BOX = pdecl.Box(x=(0, 1), t=(0, 2))
PROBLEM = pdecl.Problem(
    BOX,
    [
        pdecl.Fit(lambda w, z, p: w.u() + w.v(), on=BOX.interior, weight=10.0),
        pdecl.Enforce(lambda w, z, p: w.u(), on=BOX.face(t=0).uniform(500), name="initial"),
        pdecl.Fit(lambda w, z, p: w.v(), on=pdecl.Points([[0.5, 0.5]])),
    ],
    unknowns=("u", "v"),
    parameter=lambda key: {"k": jr.uniform(key), "a": jnp.zeros(3)},
)
FIELD = pdecl.Problem(
    BOX,
    [pdecl.Fit(lambda u, z, nu: u(), on=BOX.interior)],
    parameter=lambda key: jr.normal(key, (5, 6)),
)
KEY = jr.key(0)
MLP = pdecl.nn.MLP(PROBLEM, 1000, 1000, 1, key=KEY)
FNO = pdecl.nn.FNO(FIELD, 3, 4, 1, 2, slopes=True, key=KEY)
HISTORY = pdecl.History(
    loss=[2.0, 1.0],
    seconds=[3.0, 3.5],
    metrics=[{"step": 1, "seconds": 3.0, "error": 0.25}, {"step": 2, "seconds": 3.5, "error": 0.5}],
    compiling=3.0,
)
BOUND = pdecl.ErrorBound(
    bound=jnp.asarray([0.1, 0.2]), relative=jnp.asarray([0.1, 0.3]), lower=jnp.zeros(2),
    size=jnp.ones(2), parts={"interior": jnp.ones(2)}, norm="L2", kind="bound",
)  # fmt: skip

PRINTED = [
    (BOX, ["Box(x=(0, 1), t=(0, 2))"]),
    (BOX.faces(), ["all faces of Box"]),
    (BOX.faces("x").gauss(2, cells=(3,)), ["x = 0, x = 1, 2 Gauss nodes in 3 cells of Box"]),
    (BOX.periodic("x").low_discrepancy(10), ["x periodic, 10 points of low discrepancy"]),
    (PROBLEM.conditions[0], ["Fit on interior, weight 10"]),
    (PROBLEM.conditions[1], ["Enforce 'initial' on t = 0, 500 uniform points, weight 1"]),
    (PROBLEM, ["Problem for u, v", "x from 0 to 1, t from 0 to 2", "a dictionary of", "where",
               "Fit 0", "interior", "10", "initial    Enforce  t = 0, 500 uniform points  1",
               "1 given points"]),
    (pdecl.Points(BOX.mesh(3, 4), value=np.zeros(12)),
     ["Points: 12 of 2", "0 to 1, 0 to 2", "value (12,)"]),
    (MLP, ["1,000 functions for each of u, v", "2 → 1000 → 2000, tanh", "x, t from -1 to 1",
           "sees φ      no", "2,005,000, float64"]),
    (pdecl.nn.MLP(FIELD, 3, 4, 1, features=pdecl.nn.Periodic(FIELD, "x", waves=2), key=KEY),
     ["3 functions for u", "waves in x, up to 2"]),
    (pdecl.nn.DeepONet(FIELD, 3, 4, 1, key=KEY), ["DeepONet: 3", "branch      30 → 4 → 3, tanh"]),
    (pdecl.nn.DeepONet(FIELD, 3, 4, 1, branch_depth=2, key=KEY), ["branch      30 → 4 → 4 → 3, tanh"]),
    (pdecl.nn.GatedDeepONet(FIELD, 3, 4, 1, key=KEY), ["GatedDeepONet: 3", "sees φ      yes"]),
    (pdecl.nn.Modulated(FIELD, 3, 4, 1, code=2, key=KEY), ["Modulated: 3", "a code: 30 → 4 → 4 → 2"]),
    (pdecl.nn.ElementBasis(BOX, pdecl.nn.Products(FNO, 1)),
     ["ElementBasis over Box", "Products: 9", "FNO: 3 functions", "1 of 4 channels, 2 modes, gelu"]),
    (pdecl.nn.GridBasis(BOX, jnp.ones((5, 6, 2))), ["GridBasis over Box", "2 on 5 × 6 nodes"]),
    (pdecl.nn.Creased(MLP, FIELD, 2, blur=0.5), ["the last 2", "blur     0.5", "basis    MLP: 1,000"]),
    (pdecl.nn.Mollified(lambda x, phi: x, BOX.faces()), ["zero on  all faces", "the function <lambda>"]),
    (pdecl.nn.ExactInitial(pdecl.nn.InSingle(MLP), BOX.face(t=0), lambda z, phi: 0.0),
     ["exact on  t = 0", "InSingle: evaluated in float32", "MLP: 1,000"]),
    (pdecl.nn.Thinned(FNO, 4), ["Thinned: 4 nodes a side", "FNO: 3"]),
    (HISTORY, ["History of 2 steps", "2 at first, 1 at last", "3.5, 3.0 of them compiling",
               "0.5 at last, least 0.25 at step 1"]),
    (pdecl.History(), ["History of 0 steps"]),
    (pdecl.load("darcy"), ["Trained basis for darcy, hard", "preset 'best', seed", "steps", "FNO: "]),
    (BOUND, ["Error bound in L2", "0.2 (median), 0.3 (largest)", "interior"]),
]  # fmt: skip
IDS = [f"{type(thing).__name__}-{number}" for number, (thing, _) in enumerate(PRINTED)]


@pytest.mark.parametrize(("thing", "words"), PRINTED, ids=IDS)
class TestObjects:
    def test_they_say_what_they_are(self, thing, words):
        text, start = repr(thing), 0
        for word in words:
            assert word in text[start:], (word, text)
            start = text.index(word, start)
        assert len(text.splitlines()) < 20
        assert max(map(len, text.splitlines())) < 110

    def test_in_a_notebook(self, thing, words):
        if isinstance(thing, Summarised):
            html = thing._repr_html_()
            assert html.startswith("<b>")
            assert html.count("<table>") == html.count("</table>") > 0

    def test_where_arrays_are_not_known(self, thing, words):
        """Inside jit, and with shapes or nothing for arrays: printing must not fail."""
        arrays, rest = eqx.partition(thing, eqx.is_array)
        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), arrays)
        texts = [repr(rest), repr(eqx.combine(shapes, rest))]
        jax.eval_shape(lambda traced: texts.append(repr(eqx.combine(traced, rest))), arrays)
        assert len(texts) == 3
        assert not any(text.startswith("<") for text in texts[1:]), texts
