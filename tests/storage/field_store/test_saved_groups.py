"""One dataset in a directory of its own."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from stores import assert_same_bits, chunk, field, flip, kill_at

from fieldcraft.storage.fields import FieldDamaged, FieldError, load_group, save_group, stray_staging


def test_a_group_is_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "heat-0001.result"
    kill_at("result.rename.before#1", "group", path, 9)
    assert not path.exists() and len(stray_staging(tmp_path)) == 1
    kill_at("result.rename.after#1", "group", path, 9)
    assert path.stat().st_mtime == 12.5, "it appears with the time that it is to bear"
    assert_same_bits(load_group(path), xr.Dataset({"u": ("x", np.arange(9.0))}))


def test_a_saved_group_is_kept_and_its_damage_is_found(tmp_path: Path) -> None:
    path = tmp_path / "result"
    save_group(path, field())
    save_group(path, field())
    with pytest.raises(FieldError, match="exists and holds something else"):
        save_group(path, field(1))
    assert_same_bits(load_group(path), field())
    flip(chunk(path))
    with pytest.raises(FieldDamaged, match=r"result is damaged: .*temperature/c/0/0"):
        load_group(path)


def test_the_module_starts_without_zarr_xarray_and_dask() -> None:
    code = "import sys, fieldcraft.storage.fields; print([m for m in ('zarr', 'xarray', 'dask') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
