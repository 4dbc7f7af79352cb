"""A problem on a shape by the commands: grids with nothing outside, files, meshes, moving shapes."""

import json

import h5py
import jax
import jax.numpy as jnp
import jax.random as jr
import meshio
import numpy as np
import pytest
from typer.testing import CliRunner

import pdecl
from pdecl.family.nodes import inside_of, values_on
from pdecl.shapes import Disk, MovingDomain, Rectangle
from pdecl_cli import app

FILE = """
import jax.numpy as jnp, jax.random as jr, pdecl
from pdecl.shapes import Disk, Domain, Rectangle

domain = Domain(Rectangle((-1, -1), (1, 1)) - Disk((0, 0), 0.5))
problem = pdecl.Problem(
    domain,
    [
        pdecl.Fit(lambda u, z, phi: u.d("x", "x") + u.d("y", "y"), on=domain.interior),
        pdecl.Fit(lambda u, z, phi: u() - phi * z.x * z.y, on=domain.boundary()),
    ],
    parameter=lambda key: jr.uniform(key, minval=1.0, maxval=2.0),
)
reference = lambda phi, coords: phi * coords[:, 0] * coords[:, 1]
"""
SMALL = ["--steps", 2, "--batch", 2, "--size", 40, "--width", 40, "--depth", 1, "--count", 2]
SOLVE = ["solve", "run", "--sample", "5,2", "--residual-limit", "inf"]


def pdecl_does(*words, code=0):
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shape")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "hole.py").write_text(FILE)
        pdecl_does("train", "hole.py", *SMALL, "--out", "run")
        yield folder


def test_errors_and_grids_know_what_is_outside(folder):
    found = json.loads(pdecl_does("evaluate", "run", "--count", 2, "--json").output)
    assert found["error"]["mean"] < 0.2
    pdecl_does(*SOLVE, "--grid", "9,9", "--out", "u.h5")
    with h5py.File("u.h5") as file:
        u, phi = file["u"][()], file["phi"][()]
    x, y = np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9), indexing="ij")
    outside = np.hypot(x, y) < 0.5 - 1e-6
    np.testing.assert_array_equal(np.isnan(u), np.stack([outside, outside]))
    wanted = phi[:, None, None] * x * y
    assert np.nanmax(np.abs(u - wanted)) < 0.3
    (folder / "p.csv").write_text("x,y\n0.0,0.1\n")
    result = pdecl_does("solve", "run", "--sample", "5,1", "--points", "p.csv", code=2)
    assert "outside the domain" in " ".join(result.output.split())


def test_answers_go_to_paraview(folder):
    pdecl_does(*SOLVE, "--out", "u.vtu")
    mesh = meshio.read("u-1.vtu")
    phi = pdecl.load("run").family.sample(5, 2)[1]
    assert {"u", "u_x", "u_y"} <= set(mesh.point_data)
    wanted = phi * mesh.points[:, 0] * mesh.points[:, 1]
    assert np.linalg.norm(mesh.point_data["u"] - wanted) < 0.2 * np.linalg.norm(wanted)
    result = pdecl_does(*SOLVE, "--out", "u.vtu", code=2)
    assert "u-0.vtu is there already" in " ".join(result.output.split())
    result = pdecl_does("solve", "run", "--sample", "5,2", "--out", "v.vtu", "--grid", "9,9", code=2)
    assert "--grid does not go with --out v.vtu" in " ".join(result.output.split())


def test_it_is_compiled_and_reported(folder):
    pdecl_does("compile", "run", "--functions", 1, "--out", "fast.safetensors")
    pdecl_does("solve", "fast.safetensors", "--problem", "hole.py", *SOLVE[2:], "--out", "fast.vtu")
    assert np.isfinite(meshio.read("fast-0.vtu").point_data["u"]).all()
    pdecl_does("report", "run", "--out", "report")
    assert list((folder / "report").glob("*.html"))


def test_on_a_shape_that_phi_moves_the_grid_follows():
    domain = MovingDomain(lambda r: Rectangle((-1, -1), (1, 1)) - Disk((0, 0), r), jnp.asarray(0.4))
    laplace = pdecl.Fit(lambda u, z, phi: u.d("x", "x") + u.d("y", "y"), on=domain.interior)
    edge = pdecl.Fit(lambda u, z, phi: u() - z.x, on=domain.boundary())
    parameter = lambda key: jr.uniform(key, minval=0.3, maxval=0.5)
    problem = pdecl.Problem(domain, [laplace, edge], parameter)
    radii = jnp.asarray([0.3, 0.5])
    solve = lambda r: pdecl.solve(problem, lambda x, phi: jnp.append(x, 1.0), r, throw=False)
    inside = inside_of(problem, radii, (41, 41))
    np.testing.assert_allclose(1 - inside.mean(axis=1), np.pi * radii**2 / 4, atol=0.02)
    values = values_on(jax.vmap(solve)(radii), (41, 41))
    np.testing.assert_array_equal(np.isfinite(values), inside)
