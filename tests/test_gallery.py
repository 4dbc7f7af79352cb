"""Examples of the gallery run at a smaller size: those whose head names one. `make gallery` runs all."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import gallery

EXAMPLES = {example.name: example for example in gallery.examples() if example.quick}


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_runs_and_has_an_error_and_a_picture(name):
    names = gallery.execute(EXAMPLES[name], quick=True)
    assert float(names["error"]) < 1


def test_a_head_that_says_too_little_is_named(tmp_path):
    path = tmp_path / "some.py"
    path.write_text("# title: Some\n\n# %%\nerror = 0\n")
    with pytest.raises(ValueError, match="dimensions, kind, statement"):
        gallery.read(path)
