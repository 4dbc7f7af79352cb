"""What is printed of an object is what a person wants to know of it, and printing never fails."""

import jax
import jax.numpy as jnp
import numpy as np

from pdecl import Status
from pdecl.summary import Summarised, Summary, Table, number


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
