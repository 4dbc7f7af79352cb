"""What the README prints runs as printed, and so does the example."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=True, timeout=400
    ).stdout


def test_the_first_example_runs_as_printed(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    script = tmp_path / "example.py"
    # u(½, ½) = exp(−kπ²/2), and its derivative in k, are known.
    script.write_text(
        example
        + "\nimport math\n"
        + "exact = math.exp(-0.1 * math.pi**2 / 2)\n"
        + "assert abs(float(u[50 * 101 + 50]) - exact) < 1e-3, float(u[50 * 101 + 50])\n"
        + "slope = -(math.pi**2) / 2 * exact\n"
        + "assert abs(float(jax.grad(middle)(0.1)) - slope) < 0.02 * abs(slope)\n"
    )
    assert "solved" in run(script, cwd=tmp_path)


def test_the_example_trains_solves_and_draws(tmp_path):
    out = run(ROOT / "examples" / "heat.py", "--steps", "60", "--out", tmp_path / "demo", cwd=tmp_path)
    assert "solved" in out
    assert (tmp_path / "demo" / "heat.png").stat().st_size > 10_000


def test_every_link_beside_the_site_leads_somewhere():
    for document in ROOT.glob("*.md"):  # those of the site: tests/test_docs.py
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
