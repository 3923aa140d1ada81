"""Files of fields that are made to do harm: each is one clear error, within bounded memory, and nothing runs."""

import json
import os
import pickle
import resource
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.codecs import BytesCodec, ShardingCodec, ZstdCodec

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files import field_files
from fieldcraft.flows.files.field_files import read_field
from fieldcraft.flows.files.field_probe import require_bounded

MANY = 1000


def swollen() -> bytes:
    """A stream of deflate of less than 2 MB that becomes 2 GiB of zeros."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(2**26)) + packer.flush(zlib.Z_FULL_FLUSH)  # pieces so ended may follow one another
    return b"\x78\x9c" + piece * 32 + zlib.compressobj(9, zlib.DEFLATED, -15).flush() + struct.pack(">I", 2**31 % 65521)


def netcdf(file: Path, stored: bytes) -> Path:
    """A file that declares 1000 numbers, with a piece that is stored as these bytes."""
    with h5py.File(file, "w") as made:
        made["x"] = np.arange(MANY, dtype="f8")
        made["x"].make_scale("x")
        values = made.create_dataset("u", shape=(MANY,), chunks=(MANY,), dtype="f8", compression="gzip")
        values.dims[0].attach_scale(made["x"])
        values.id.write_direct_chunk((0,), stored)
    return file


def zarr_folder(folder: Path, stored: bytes, **told: object) -> Path:
    """A folder of zarr 2 that declares 3 numbers, with a piece that is stored as these bytes."""
    (folder / "u").mkdir(parents=True)
    (folder / ".zgroup").write_text('{"zarr_format": 2}')
    usual = {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "<f8", "fill_value": 0, "order": "C"}
    (folder / "u" / ".zarray").write_text(json.dumps({**usual, "compressor": None, "filters": None, **told}))
    (folder / "u" / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["x"]}')
    (folder / "u" / "0").write_bytes(stored)
    return folder


BOMBS: dict[str, Callable[[Path], Path]] = {
    "netCDF": lambda folder: netcdf(folder / "map.nc", swollen()),
    "zarr": lambda folder: zarr_folder(folder / "map.zarr", swollen(), compressor={"id": "zlib", "level": 9}),
}


@pytest.mark.parametrize("make", BOMBS.values(), ids=BOMBS)
def test_a_piece_that_becomes_more_than_it_says_is_found_out_by_a_process_of_its_own(tmp_path, monkeypatch, make):
    file, before = make(tmp_path), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(part.stat().st_size for part in [file, *file.rglob("*")]) < 2_500_000
    monkeypatch.setattr(field_files, "_half_the_memory", lambda: 2**27)  # above which a compressed file is tried
    with pytest.raises(InputError, match=r"map.* cannot be read within the \d+ bytes that it says it has"):
        read_field(file)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**16, "in KiB: this process took none of it"


def test_a_compressed_field_that_is_as_large_as_it_says_passes_the_trial(tmp_path, monkeypatch):
    values = xr.Dataset({"u": ("x", np.random.default_rng(1).normal(size=60_000))})
    values.to_netcdf(tmp_path / "map.nc", engine="h5netcdf", encoding={"u": {"zlib": True, "chunksizes": (5000,)}})
    tried = []
    monkeypatch.setattr(field_files, "_half_the_memory", lambda: 2**21)
    monkeypatch.setattr(field_files, "require_bounded", lambda *words: tried.append(words) or require_bounded(*words))
    assert read_field(tmp_path / "map.nc").identical(values) and len(tried) == 1


def packed_twice(file: Path) -> Path:
    """A file of 4 kB whose piece of 8 MB was compressed twice, which is more than one pass of deflate can do."""
    with h5py.File(file, "w") as made:
        kept = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        kept.set_chunk((2**20,))
        for _ in range(2):
            kept.set_filter(h5py.h5z.FILTER_DEFLATE, h5py.h5z.FLAG_MANDATORY, (9,))
        space = h5py.h5s.create_simple((2**20,))
        h5py.Dataset(h5py.h5d.create(made.id, b"u", h5py.h5t.IEEE_F64LE, space, kept))[:] = 0
    return file


def zarr_packed(folder: Path, **options: Any) -> Path:
    """A folder of zarr 3 of 2^17 ones, stored with these options."""
    usual = {"shape": (2**17,), "dtype": "f8", "dimension_names": ["x"], "chunks": (2**17,)}
    zarr.open_group(folder, mode="w", zarr_format=3).create_array("u", **usual, **options)[:] = 1
    return folder


SHARDS = ShardingCodec(
    chunk_shape=(2**14,), codecs=[ShardingCodec(chunk_shape=(2**10,), codecs=[BytesCodec(), ZstdCodec()])]
)
PACKED: dict[str, Callable[[Path], Path]] = {
    "netCDF": lambda folder: packed_twice(folder / "map.nc"),
    "zarr": lambda folder: zarr_packed(folder / "map.zarr", compressors=[ZstdCodec(), ZstdCodec()]),
    "a shard within another": lambda folder: zarr_packed(folder / "map.zarr", compressors=None, serializer=SHARDS),
}


@pytest.mark.parametrize("make", PACKED.values(), ids=PACKED)
def test_what_is_compressed_twice_or_where_it_is_not_seen_is_always_tried(tmp_path, monkeypatch, make):
    file, tried = make(tmp_path), []
    monkeypatch.setattr(field_files, "_half_the_memory", lambda: 2**40)
    monkeypatch.setattr(field_files, "require_bounded", lambda *words: tried.append(words))
    assert read_field(file).u.size and len(tried) == 1


def test_the_trial_loads_no_module_that_lies_in_the_present_folder(tmp_path, monkeypatch):
    (tmp_path / "xarray.py").write_text("open('ran', 'w').close()")
    xr.Dataset({"u": ("x", np.arange(4.0))}).to_netcdf(tmp_path / "map.nc", engine="h5netcdf")
    monkeypatch.chdir(tmp_path)
    require_bounded(Path("map.nc"), 10_000)
    assert not Path("ran").exists()


def test_a_piece_larger_than_the_memory_is_refused_however_little_of_it_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(field_files, "_half_the_memory", lambda: 2**30)
    with h5py.File(tmp_path / "map.nc", "w") as made:
        made.create_dataset("u", shape=(4,), maxshape=(None,), chunks=(2**28,), dtype="f8", compression="gzip")
    with pytest.raises(InputError, match="takes 2147483680 bytes of memory, of 1073741824 that it may"):
        read_field(tmp_path / "map.nc")


class Runs:
    """What runs as it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> object:
        return os.mkdir, (str(self.file),)


@pytest.mark.parametrize("dtype", ["|O", "<f8"])
@pytest.mark.parametrize("place", ["filters", "compressor"])
def test_nothing_is_unpickled(tmp_path, dtype, place):
    codec = {"id": "pickle", "protocol": 5}
    told = {"dtype": dtype, place: [codec] if place == "filters" else codec}
    file = zarr_folder(tmp_path / "map.zarr", pickle.dumps(Runs(tmp_path / "ran")), **told)
    with pytest.raises(InputError, match=r"map\.zarr: cannot be read as a field"):
        read_field(file)
    (tmp_path / "map.nc").write_bytes(pickle.dumps(Runs(tmp_path / "ran")))
    with pytest.raises(InputError, match=r"map\.nc: cannot be read as a field"):
        read_field(tmp_path / "map.nc")
    assert not (tmp_path / "ran").exists()


def test_objects_of_netcdf_are_refused(tmp_path):
    with h5py.File(tmp_path / "map.nc", "w") as made:
        made.create_dataset("u", shape=(2,), dtype=h5py.vlen_dtype(np.float64))
    with pytest.raises(InputError, match="'u' holds objects, and fields hold numbers only"):
        read_field(tmp_path / "map.nc")


def test_a_netcdf_3_that_declares_more_than_it_holds_is_damaged(tmp_path):
    xr.Dataset({"u": ("x", np.arange(4.0))}).to_netcdf(tmp_path / "map.nc", engine="scipy")
    raw = (tmp_path / "map.nc").read_bytes()
    (tmp_path / "map.nc").write_bytes(raw.replace(struct.pack(">I", 4), struct.pack(">I", 2**20), 1))
    with pytest.raises(InputError, match=r"map\.nc: "):
        read_field(tmp_path / "map.nc")
