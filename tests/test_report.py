"""The report: pictures that show something, the data behind them, a page that stands alone."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from matplotlib.image import imread

from pdecl import report
from pdecl.family import named
from pdecl.family.experiment import Experiment, basis_of, family_of, preset
from pdecl.family.trained import Trained
from pdecl.reduced.pod import leading_modes
from pdecl.report import learned, results, studies
from pdecl.report.runs import Run
from pdecl.report.studies import ReducedBasis, function_values, gram_of
from pdecl.report.words import percent
from pdecl.train.history import History, training_curves

TINY = report.Effort(
    phis=2,
    shown=1,
    side=20,
    used=60,
    grids=(12,),
    halvings=1,
    ratios=(2,),
    snapshots=8,
    repeats=1,
)


def tiny(problem: str, method: str = "hard", seed: int = 0) -> Experiment:
    experiment = preset(problem, method, "quick", seed)
    size = {"size": 10, "width": 10, "depth": 2, "steps": 30, "creased": 0.0}
    if problem != "darcy":
        return experiment.with_overrides(**size)
    products = {"degree": 1} if method == "hard" else {}
    options = {**experiment.network.options, "modes": 4, **products}
    small = replace(experiment, grid=13, constants={"grid": 13})
    return small.with_overrides(**{**size, "size": 9, "options": options})


def history(method: str) -> History:
    """Falls like 1/√step, from 0.05 (hard) or 0.5 (soft)."""
    start, steps = {"hard": 0.05, "soft": 0.5}[method], [0, 1, 2, 5, 10, 30]
    metrics = [
        {
            "step": step,
            "seconds": 0.0 if step == 0 else 4 + 0.1 * step,
            "error": start / (1 + step) ** 0.5,
            "residual": 1e3 * start / (1 + step),
        }
        for step in steps
    ]
    losses, seconds = 1 / np.arange(1, 31), 4 + 0.1 * np.arange(1, 31)
    return History(losses.tolist(), seconds.tolist(), metrics, 4.1)


def made(folder, problem: str, method: str = "hard", seed: int = 0) -> Run:
    """A run that was never trained, with made-up results."""
    experiment = tiny(problem, method, seed)
    family = family_of(experiment)
    draw = np.random.default_rng(seed)
    phi = family.sample(2, 2)
    x = np.linspace(0, 1, 13 if problem == "darcy" else 101)
    target = np.stack([np.sin(np.pi * x) * np.cos(x[:, None] + k) for k in range(2)])
    scale = {"hard": 0.001, "soft": 0.03}[method]
    difference = scale * np.sin(9 * x + 4 * x[:, None]) * np.ones((2, 1, 1))
    errors = scale * np.exp(draw.normal(size=6))
    folder.mkdir()
    Trained(experiment, basis_of(experiment, jr.key(seed))).save(folder / "model.safetensors")
    return Run(
        folder,
        experiment,
        {"device": "cpu", "command": f"pdecl train {problem}", "began": "now", "versions": {}},
        history(method),
        {
            "error": {"mean": errors.mean(), "std": errors.std(), "max": errors.max(), "count": 6},
            "errors": errors.tolist(),
            "residuals": (50 * errors).tolist(),
            "residual_loss": 50 * errors.mean(),
            "beside": {"u_box": {"mean": 0.01, "std": 0.0, "max": 0.01, "count": 6}},
            "statuses": {"SOLVED": 6},
            "seconds_per_phi": 0.002,
            "count": 6,
            "device": "cpu",
        },
        {
            "phi": phi,
            "target": target,
            "found": target + difference,
            "difference": difference.astype(np.float32),
        },
    )


class Page(HTMLParser):
    """The tags of a page, and whether each was closed in its turn."""

    ALONE = ("meta", "img", "br")

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.images: list[dict] = []
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag not in self.ALONE:
            self.open.append(tag)
        if tag == "img":
            self.images.append(found)
        if "href" in found:
            self.links.append(found["href"])
        if "id" in found:
            self.names.add(found["id"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def assert_drawn(path):
    pixels = imread(path)[..., :3]
    assert pixels.shape[0] > 200
    assert pixels.shape[1] > 300
    assert pixels.std() > 0.02
    assert path.stat().st_size > 5000


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The report of convection, two hard seeds and a soft run."""
    folder = tmp_path_factory.mktemp("report")
    given = [
        made(folder / "a", "convection", "hard", 0),
        made(folder / "b", "convection", "hard", 1),
        made(folder / "c", "convection", "soft", 0),
    ]
    index = report.write(given, folder / "out", studies=TINY, progress=False)
    return index.parent, index.read_text("utf-8")


def test_page_stands_alone(written):
    folder, text = written
    page = Page(text)
    assert not re.search(r"https?:|<script|@import|url\(", text)
    assert len(page.images) == len(list(folder.glob("*.png"))) == 7
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.images)
    assert all(len(image["alt"]) > 20 for image in page.images)
    for link in page.links:
        assert link[1:] in page.names if link.startswith("#") else (folder / link).is_file()


def test_figures_show_something_and_have_their_data(written):
    folder, _ = written
    for picture in folder.glob("*.png"):
        assert_drawn(picture)
        data = [folder / "data" / f"{picture.stem}.{kind}" for kind in ("json", "npz")]
        assert sum(path.is_file() for path in data) == 1


def test_data_are_what_was_run(written):
    folder, _ = written
    fields = np.load(folder / "data/convection-quick-fields.npz")
    assert set(fields) == {"target", "hard_difference", "soft_difference"}
    assert np.abs(fields["soft_difference"]).max() == pytest.approx(0.03, rel=0.01)
    curves = json.loads((folder / "data/convection-quick-curves.json").read_text())
    assert len(curves["metrics"]["hard"]) == 2
    assert curves["metrics"]["soft"][0][0]["error"] == 0.5
    assert curves["paper"]["error"] == {"hard": 0.0132, "soft": 0.0259}
    points = json.loads((folder / "data/convection-quick-points.json").read_text())
    assert points["counts"] == {"used": 60, "unused": 340}
    assert sum(points["error"]["unused"]["shares"]) == pytest.approx(1)
    grids = json.loads((folder / "data/convection-quick-interpolation.json").read_text())["grids"]
    assert [grid["side"] for grid in grids] == [12]
    rows = json.loads((folder / "data/convection-quick-trade-off.json").read_text())["rows"]
    assert [row["N"] for row in rows] == [5, 10]


def test_what_was_run_and_what_is_missing_is_said(written):
    _, text = written
    assert "No runs of Burgers, Darcy were given" in text
    assert "N = 10" in text
    assert "30 steps, cpu, seeds 0, 1" in text
    assert "2.59% ± 0.15%" in text  # the paper's soft error


def test_darcy_is_reported_with_its_grids(tmp_path):
    run = made(tmp_path / "run", "darcy")
    index = report.write([run], tmp_path / "out", studies=replace(TINY, halvings=0), progress=False)
    assert_drawn(tmp_path / "out" / "darcy-quick-fields.png")
    assert_drawn(tmp_path / "out" / "darcy-quick-trade-off.png")
    rows = json.loads((tmp_path / "out" / "data" / "darcy-quick-trade-off.json").read_text())["rows"]
    assert {row["grid"] for row in rows} == {13}
    assert "bilinear between its nodes" in index.read_text()


def test_a_run_that_was_not_evaluated_is_reported_as_such(tmp_path):
    run = replace(
        made(tmp_path / "run", "burgers", "soft"),
        evaluation={},
        fields={},
        history=History([1.0], [1.0]),
    )
    text = report.write([run], tmp_path / "out", progress=False).read_text()
    for words in ("not evaluated", "Heat maps: none", "Curves: no metrics", "there is no hard run"):
        assert words in text
    assert not list((tmp_path / "out").glob("*.png"))


def first_screen(text: str) -> str:
    return text.partition("<body>")[2].partition("<nav")[0]


def test_page_begins_with_errors_a_picture_and_what_is_known_without_a_reference(tmp_path):
    run = made(tmp_path / "run", "convection")
    run.evaluation["bounds"] = {"kind": "bound", "norm": "L2", "relative": [0.04] * 5 + [1e-9]}
    soft = results.collect(made(tmp_path / "soft", "convection", "soft"))
    alone = report.write([run], tmp_path / "alone", studies=False, progress=False)
    index = report.write([run], tmp_path / "out", studies=False, progress=False, kept=[soft])
    text = index.read_text()
    begin = first_screen(text)
    assert "how many times smaller than the paper" in begin
    assert "proved: ≤ 4.0%; holds for 5 of 6" in begin
    assert percent(soft["evaluation"]["error"]["mean"]) in begin
    assert "no soft run" in alone.read_text()
    assert "no soft run" not in text
    assert "missing" not in begin
    assert_drawn(tmp_path / "out" / "front.png")
    curves = json.loads((tmp_path / "out" / "data" / "convection-quick-curves.json").read_text())
    assert set(curves["metrics"]) == {"hard", "soft"}


def test_kept_results_of_other_settings_are_left_out(tmp_path):
    run = made(tmp_path / "run", "convection")
    other = results.collect(made(tmp_path / "other", "burgers", "soft"))
    text = report.write([run], tmp_path / "out", studies=False, progress=False, kept=[other]).read_text()
    assert "Burgers, preset quick" not in text


def test_folders_of_others_are_left_alone_and_ours_are_replaced(tmp_path):
    run = made(tmp_path / "run", "burgers")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "index.html").write_text("mine")
    with pytest.raises(report.ReportError, match="not empty and holds no report"):
        report.write([run], tmp_path / "thesis", progress=False)
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["index.html"]
    with pytest.raises(report.ReportError, match="at least one run"):
        report.write([], tmp_path / "none", progress=False)

    report.write([run], tmp_path / "out", studies=False, progress=False)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    bare = replace(run, evaluation={}, fields={})
    report.write([bare], tmp_path / "out", studies=False, progress=False)
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == ["burgers-quick-curves.png", "data", "index.html", "notes.txt", "report.json"]


def test_infinite_errors_are_counted_and_not_drawn(tmp_path):
    run = made(tmp_path / "run", "burgers")
    run.evaluation["errors"][2] = np.inf
    run.evaluation["error"]["mean"] = run.evaluation["error"]["max"] = np.inf
    text = report.write([run], tmp_path / "out", studies=False, progress=False).read_text()
    assert "1 solve gave no finite error" in text
    assert "∞%" in text
    assert "there is no soft run of burgers with preset quick" in text
    assert "no hard and soft runs of one preset to compare" in text


def test_exact_solutions_are_the_references():
    line = np.linspace(0, 1, 101)
    for name in ("convection", "burgers"):
        family = named(name)
        phi = family.sample(2, 1)
        assert np.allclose(family.exact(phi[0], (line, line)).T, family.reference(phi)[0], atol=1e-9)
    assert named("darcy").exact is None


def test_reduced_basis_holds_the_solutions_it_was_made_from():
    experiment = tiny("burgers")
    basis = basis_of(experiment, jr.key(0))
    points = np.random.default_rng(0).uniform(size=(200, 2))
    phi = family_of(experiment).sample(1, 1)
    weights = np.random.default_rng(1).normal(size=(3, 10))
    matrix = leading_modes(weights, weights @ gram_of(basis, phi, points) @ weights.T)
    assert matrix.shape == (10, 3)
    modes = np.asarray(function_values(ReducedBasis(basis, jnp.asarray(matrix)), phi[0], points))
    assert np.allclose(modes.T @ modes / len(points), np.eye(3), atol=1e-6)
    solutions = np.asarray(function_values(basis, phi[0], points)) @ weights.T
    left = solutions - modes @ np.linalg.lstsq(modes, solutions)[0]
    assert np.abs(left).max() < 1e-6 * np.abs(solutions).max()


def test_functions_on_a_grid_are_reduced_there():
    experiment = tiny("darcy")
    basis, phi = basis_of(experiment, jr.key(0)), family_of(experiment).sample(1, 1)[0]
    matrix, points = jnp.asarray(np.random.default_rng(0).normal(size=(9, 2))), np.full((3, 2), 0.3)
    full = function_values(basis, phi, points)
    assert np.allclose(function_values(ReducedBasis(basis, matrix), phi, points), full @ matrix)


def test_trade_off_survives_failed_solves(tmp_path):
    row = {"N": 4, "n": 8, "ratio": 2, "grid": None, "error": 0.1, "seconds": 0.001}
    study = {"phis": 2, "snapshots": 8, "together": 2, "rows": [row, {**row, "N": 8, "error": np.inf}]}
    exhibit = learned.trade_off_chart("some", study)
    assert "∞%" in exhibit.alt
    assert studies.Effort().grids == (100, 1000)


def test_history_plots_itself(tmp_path):
    history("hard").plot(tmp_path / "curves.png")
    assert_drawn(tmp_path / "curves.png")
    energies = History([-1.0, -1.5, -1.6], [1.0, 2.0, 3.0])
    training_curves(energies, tmp_path / "energy.png")
    assert_drawn(tmp_path / "energy.png")
    with pytest.raises(ValueError, match="no steps"):
        training_curves(History(), tmp_path / "none.png")
