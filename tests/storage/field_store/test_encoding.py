"""A field whose arrays are one chunk each is written without zarr's own calls: the files are those that zarr writes."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from stores import ARRAYS
from zarr.storage import MemoryStore

from fieldcraft.storage.field_store import encoding
from fieldcraft.storage.field_store.content import Content
from fieldcraft.storage.field_store.encoding import _by_zarr, _write, encoded, write

ATTRIBUTES = {"solver": "direct", "of": {"é\u2028": [1, 2.5, None, True, '"\\\n']}, "none": [], "empty": {}}


def by_zarr(content: Content) -> dict[str, bytes]:
    def whole(store: MemoryStore) -> None:
        _write(store, content)
        with pytest.warns(zarr.errors.ZarrUserWarning, match="not part in the Zarr format 3"):
            zarr.consolidate_metadata(store)

    return {f"field.zarr/{name}": text for name, text in _by_zarr(whole).items()}


def read(files: dict[str, bytes]) -> dict[str, np.ndarray]:
    buffer = zarr.core.buffer.default_buffer_prototype().buffer
    store = MemoryStore({name.partition("/")[2]: buffer.from_bytes(text) for name, text in files.items()})
    return {name: np.asarray(array[...]) for name, array in zarr.open_group(store, mode="r").arrays()}


@settings(max_examples=150, deadline=None)
@given(ARRAYS)
def test_the_files_are_to_the_byte_those_that_zarr_writes(values):
    dims = tuple("xyz"[: values.ndim])
    content = Content.of(xr.Dataset({"u": (dims, values, {"units": "K"}), "v": ((), 2.5)}, attrs=ATTRIBUTES))
    assert encoded(content) == by_zarr(content)
    labelled = replace(content, labels={"Conventions": "CF-1.11", "trial": "heat-0001"})
    assert encoded(labelled) == by_zarr(labelled) != encoded(content)


def test_minus_zero_and_nan_are_kept_to_the_bit():
    for values in (np.array([-0.0, 0.0]), np.array([np.nan]), np.array(-0.0), np.zeros(3), np.array(complex(0, -0.0))):
        content = Content.of(xr.Dataset({"u": (("x",)[: values.ndim], values)}))
        assert read(encoded(content))["u"].tobytes() == values.tobytes()


def test_an_array_of_several_chunks_is_left_to_zarr(monkeypatch, tmp_path):
    monkeypatch.setattr(encoding, "CHUNK_BYTES", 64)
    content = Content.of(xr.Dataset({"u": (("x", "y"), np.arange(1.0, 41.0).reshape(10, 4))}))
    files = encoded(content)
    assert files == by_zarr(content) and sum("/c/" in name for name in files) == 5
    write(tmp_path, content)
    there = {str(f.relative_to(tmp_path)): f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()}
    assert there.pop("manifest.json") and there == files


def test_minus_zero_is_kept_in_arrays_of_several_chunks_too(monkeypatch):
    monkeypatch.setattr(encoding, "CHUNK_BYTES", 64)
    values = np.full((10, 4), complex(0, -0.0))
    files = encoded(Content.of(xr.Dataset({"u": (("x", "y"), values)})))
    assert sum("/c/" in name for name in files) == 10 and read(files)["u"].tobytes() == values.tobytes()


def test_fields_of_one_form_have_their_own_values_and_attributes(tmp_path):
    for number, unit in enumerate(("K", "K", "m")):
        content = Content.of(xr.Dataset({"u": ("x", np.full(3, float(number)), {"units": unit})}, attrs={"n": number}))
        (tmp_path / str(number)).mkdir()
        write(tmp_path / str(number), content)
        found = xr.open_zarr(tmp_path / str(number) / "field.zarr", consolidated=False)
        assert (found["u"].values.tolist(), found["u"].attrs["units"]) == ([float(number)] * 3, unit)
        assert found.attrs["n"] == number
