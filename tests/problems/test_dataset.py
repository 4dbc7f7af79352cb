"""Datasets survive the trip to disk, and damage to them is noticed."""

import json
import os

import h5py
import numpy as np
import pytest
import xarray

from pdecl.family import dataset as datasets
from pdecl.family import shipped
from pdecl.family.dataset import DatasetError
from pdecl.problems import Burgers, Convection, Darcy

LAWS = {"darcy": Darcy(grid=21), "burgers": Burgers(), "convection": Convection()}


def same(one, other):
    assert (one.problem, one.family) == (other.problem, other.family)
    assert (one.phi_axes, one.solution_dims) == (other.phi_axes, other.solution_dims)
    np.testing.assert_array_equal(one.phi, other.phi)
    np.testing.assert_array_equal(one.solution, other.solution)
    assert one.companions.keys() == other.companions.keys()
    assert one.coordinates.keys() == other.coordinates.keys()


@pytest.mark.parametrize("name", shipped())
def test_round_trip(name, tmp_path):
    told = []
    made = datasets.build(LAWS[name], seed=3, count=3, truth=True, progress=told.append)
    assert sum(told) == 3
    datasets.write(tmp_path / "deep" / "data.nc", made)
    same(datasets.read(tmp_path / "deep" / "data.nc"), made)
    assert os.listdir(tmp_path / "deep") == ["data.nc"], "no temporary file is left"


def test_others_can_open_it(tmp_path):
    made = datasets.build(LAWS["convection"], 3, 2)
    datasets.write(tmp_path / "data.nc", made)
    with h5py.File(tmp_path / "data.nc") as file:
        np.testing.assert_array_equal(file["u"][()], made.solution)
        assert json.loads(file.attrs["law"])["length"] == 0.2
    with xarray.open_dataset(tmp_path / "data.nc", engine="h5netcdf") as file:
        assert file["u"].dims == ("sample", "t", "x")
        assert file["beta"].dims == ("sample", "sensor")
        assert float(file["u"].sel(x=0.5, t=0.0)[0]) == pytest.approx(1.0)


@pytest.fixture
def path(tmp_path):
    datasets.write(tmp_path / "data.nc", datasets.build(LAWS["burgers"], 3, 4))
    return tmp_path / "data.nc"


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.5, 0.999])
def test_truncated_files_are_noticed(path, keep):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole))])
    with pytest.raises(DatasetError, match=r"truncated|damaged"):
        datasets.read(path)


def test_changed_numbers_are_noticed(path):
    with h5py.File(path, "r+") as file:
        values = file["u"][()]
        values[2, 50, 50] += 1e-12
        file["u"][...] = values
    with pytest.raises(DatasetError, match="do not match their checksum"):
        datasets.read(path)


def test_any_flipped_byte_is_noticed_or_harmless(path):
    whole = path.read_bytes()
    before = datasets.read(path)
    for place in np.linspace(0, len(whole) - 1, 40).astype(int):
        flipped = bytearray(whole)
        flipped[place] ^= 0xFF
        path.write_bytes(bytes(flipped))
        try:
            after = datasets.read(path)
        except DatasetError:
            continue
        same(after, before)


def test_other_files_are_refused_by_name(tmp_path):
    with pytest.raises(DatasetError, match="there is no file"):
        datasets.read(tmp_path / "none.nc")
    with h5py.File(tmp_path / "other.nc", "w") as file:
        file["u"] = np.ones(3)
    with pytest.raises(DatasetError, match="not written by pdecl"):
        datasets.read(tmp_path / "other.nc")


def test_a_failed_write_leaves_the_old_file(path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        datasets.write(path, datasets.build(LAWS["convection"], 3, 1))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["data.nc"]


class Counting:
    """Counts how often φ are really solved."""

    def __init__(self, monkeypatch):
        self.solved = 0
        original = Burgers.reference

        def reference(family, u0):
            self.solved += 1
            return original(family, u0)

        monkeypatch.setattr(Burgers, "reference", reference)


def test_cache_is_used_until_the_law_changes(tmp_path, monkeypatch):
    counting = Counting(monkeypatch)
    first = datasets.cached(Burgers(), 3, 2, tmp_path)
    same(datasets.cached(Burgers(), 3, 2, tmp_path), first)
    assert counting.solved == 1
    other = datasets.cached(Burgers(viscosity=0.02), 3, 2, tmp_path)
    assert counting.solved == 2
    assert np.abs(other.solution - first.solution).max() > 1e-3
    monkeypatch.setattr(Burgers, "version", 99)
    datasets.cached(Burgers(viscosity=0.02), 3, 2, tmp_path)
    assert counting.solved == 3


def test_damaged_cache_is_made_anew_with_a_warning(tmp_path):
    first = datasets.cached(Convection(), 3, 2, tmp_path)
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:3000])
    with pytest.warns(UserWarning, match="making the cached dataset anew"):
        again = datasets.cached(Convection(), 3, 2, tmp_path)
    same(again, first)
    same(datasets.cached(Convection(), 3, 2, tmp_path), first)


def test_coarser_darcy_grid_and_fewer_phi():
    made = datasets.build(LAWS["darcy"], 3, 3)
    coarse = datasets.on_grid(datasets.take(made, 2), 11)
    np.testing.assert_array_equal(coarse.solution, made.solution[:2, ::2, ::2])
    assert coarse.coordinates["x"].shape == (11,)
    with pytest.raises(ValueError, match="grid is for problems whose φ is on a grid"):
        datasets.on_grid(datasets.build(LAWS["convection"], 3, 1), 11)
    with pytest.raises(ValueError, match="count"):
        datasets.build(LAWS["darcy"], 3, 0)
