"""Files of the published kinds, read in place of ours."""

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from pdecl.family import dataset as datasets
from pdecl.family.dataset import DatasetError
from pdecl.family.published import load
from pdecl.problems import Burgers, Convection, Darcy

DARCY = datasets.build(Darcy(grid=21), 3, 3)
BURGERS = datasets.build(Burgers(), 3, 3)
CONVECTION = datasets.build(Convection(), 3, 3)


def save_matlab73(path, **arrays):
    """MATLAB 7.3: HDF5 after a 512-byte header, axes reversed."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            file[name] = np.asarray(values).T
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116))


def save_hdf5(path, **arrays):
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values


def save_mat(path, **arrays):
    savemat(path, arrays)


WRITERS = {".mat": save_mat, "73.mat": save_matlab73, ".npz": np.savez, ".h5": save_hdf5}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_file(kind, tmp_path):
    path = tmp_path / f"data{kind}"
    WRITERS[kind](path, coeff=DARCY.phi, sol=DARCY.solution, Kcoeff=DARCY.phi)
    found = load(path, Darcy())
    np.testing.assert_array_equal(found.phi, DARCY.phi)
    np.testing.assert_array_equal(found.solution, DARCY.solution)
    assert load(path, Darcy(), count=2).count == 2
    with pytest.raises(DatasetError, match="has 3 φ, 9 were asked for"):
        load(path, Darcy(), count=9)


def test_float32_and_channels(tmp_path):
    np.savez(tmp_path / "a.npz", nu=DARCY.phi[:, None].astype(np.float32), u=DARCY.solution[..., None])
    found = load(tmp_path / "a.npz", Darcy())
    assert found.phi.dtype == np.float64
    np.testing.assert_array_equal(found.phi, DARCY.phi)


def test_burgers_without_the_last_point_is_closed(tmp_path):
    savemat(tmp_path / "b.mat", {"input": BURGERS.phi[:, :-1], "output": BURGERS.solution[:, :, :-1]})
    found = load(tmp_path / "b.mat", Burgers())
    np.testing.assert_allclose(found.phi, BURGERS.phi, atol=1e-12)
    np.testing.assert_allclose(found.solution, BURGERS.solution, atol=1e-12)
    savemat(tmp_path / "c.mat", {"input": BURGERS.phi, "output": BURGERS.solution})
    np.testing.assert_array_equal(load(tmp_path / "c.mat", Burgers()).phi, BURGERS.phi)


def test_burgers_at_the_final_time(tmp_path):
    savemat(tmp_path / "b.mat", {"a": BURGERS.phi[:, :-1], "u": BURGERS.solution[:, -1, :-1]})
    found = load(tmp_path / "b.mat", Burgers())
    assert found.solution.shape == (3, 1, 101)
    assert found.coordinates["t"] == [1.0]


def test_convection_and_our_own_kind(tmp_path):
    np.savez(tmp_path / "c.npz", beta=CONVECTION.phi, u=CONVECTION.solution)
    np.testing.assert_array_equal(load(tmp_path / "c.npz", Convection()).phi, CONVECTION.phi)
    datasets.write(tmp_path / "c.nc", CONVECTION)
    assert load(tmp_path / "c.nc", Convection(), count=2).count == 2
    with pytest.raises(DatasetError, match="holds convection data, darcy was asked for"):
        load(tmp_path / "c.nc", Darcy())


def test_what_is_wrong_is_said(tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, permeability=DARCY.phi, sol=DARCY.solution)
    with pytest.raises(
        DatasetError, match="permeability, sol; darcy data are looked for under coeff/sol"
    ):
        load(path, Darcy())
    np.savez(path, coeff=DARCY.phi, sol=DARCY.solution[:2])
    with pytest.raises(DatasetError, match="coeff has 3 φ but sol has 2"):
        load(path, Darcy())
    np.savez(path, coeff=DARCY.phi, sol=DARCY.solution + 1)
    with pytest.raises(DatasetError, match="cell centres"):
        load(path, Darcy())
    np.savez(path, coeff=-DARCY.phi, sol=DARCY.solution)
    with pytest.raises(DatasetError, match="nu must be positive"):
        load(path, Darcy())
    np.savez(path, coeff=DARCY.phi, sol=DARCY.solution * np.nan)
    with pytest.raises(DatasetError, match="NaN"):
        load(path, Darcy())
    np.savez(path, a=np.linspace(0, 1, 30) * np.ones((3, 1)), u=np.ones((3, 5, 30)))
    with pytest.raises(DatasetError, match="does not look periodic"):
        load(path, Burgers())
    (tmp_path / "d.txt").write_text("1 2 3")
    with pytest.raises(DatasetError, match=r"no \.nc, \.mat, \.npz or HDF5 file"):
        load(tmp_path / "d.txt", Darcy())
    with pytest.raises(DatasetError, match="there is no file"):
        load(tmp_path / "none.mat", Darcy())


@pytest.mark.parametrize("kind", WRITERS)
def test_truncated_files_are_said_to_be(kind, tmp_path):
    path = tmp_path / f"data{kind}"
    WRITERS[kind](path, coeff=DARCY.phi, sol=DARCY.solution)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DatasetError, match="truncated or damaged"):
        load(path, Darcy())
