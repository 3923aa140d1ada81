"""What a stored array holds: read here where it is one chunk as fields have it, by zarr where it is anything else."""

import json

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from stores import ARRAYS
from zarr.codecs import BytesCodec, GzipCodec
from zarr.storage import MemoryStore

from fieldcraft.storage.field_store import decoding
from fieldcraft.storage.field_store.content import Content
from fieldcraft.storage.field_store.decoding import Described, decoded
from fieldcraft.storage.field_store.encoding import encoded

VALUES = np.array([[1.5, -0.0, 2.0], [0.0, np.nan, 7.0]])
OTHERWISE = {
    "another compression": {"compressors": GzipCodec()},
    "none": {"compressors": None},
    "the other order of bytes": {"serializer": BytesCodec(endian="big")},
    "another order of axes": {"filters": [{"name": "transpose", "configuration": {"order": [1, 0]}}]},
    "several chunks": {"chunks": (1, 2)},
    "one chunk that is larger": {"chunks": (4, 4)},
    "other places": {"chunk_key_encoding": {"name": "default", "separator": "."}},
}


def files_of(content: Content) -> dict[str, bytes]:
    place = "field.zarr/u/"
    return {name.removeprefix(place): text for name, text in encoded(content).items() if name.startswith(place)}


def by_zarr(values: np.ndarray, **how) -> dict[str, bytes]:
    made: dict = {}
    array = zarr.create_array(MemoryStore(made), shape=values.shape, dtype=values.dtype, zarr_format=3, **how)
    array[...] = values
    return {name: bytes(buffer.to_bytes()) for name, buffer in made.items()}


@settings(max_examples=150, deadline=None)
@given(ARRAYS)
def test_every_array_comes_back_bit_for_bit_and_can_be_written_to(values):
    dims = tuple("xyz"[: values.ndim])
    files = files_of(Content.of(xr.Dataset({"u": (dims, values, {"units": "K"})})))
    array = Described.of(files["zarr.json"])
    found = decoded(array, files, ())
    assert (array.dims, array.attrs, array.shape, array.dtype) == (dims, {"units": "K"}, values.shape, values.dtype)
    assert (found.dtype, found.shape, found.tobytes()) == (values.dtype, values.shape, values.tobytes())
    assert found.flags.writeable and found.flags.c_contiguous


@pytest.mark.parametrize("how", OTHERWISE.values(), ids=OTHERWISE)
def test_what_fields_do_not_have_is_left_to_zarr(how):
    files = by_zarr(VALUES, **how)
    array = Described.of(files["zarr.json"])
    assert decoded(array, files, ()).tobytes() == VALUES.tobytes()
    assert decoded(array, files, (slice(1, 2), 0)).tolist() == [0.0]


def test_a_chunk_of_zeros_that_an_earlier_version_left_out_is_zeros():
    files = by_zarr(np.zeros(3))
    assert set(files) == {"zarr.json"}
    assert decoded(Described.of(files["zarr.json"]), files, ()).tolist() == [0.0, 0.0, 0.0]


def test_an_array_as_fields_have_it_needs_no_zarr(monkeypatch):
    monkeypatch.setattr(decoding, "_by_zarr", lambda *_: pytest.fail("it was left to zarr"))
    files = files_of(Content.of(xr.Dataset({"u": (("x", "y"), VALUES)})))
    array = Described.of(files["zarr.json"])
    assert decoded(array, files, (0, slice(0, 1))).tolist() == [1.5]
    short = files | {"zarr.json": json.dumps(json.loads(files["zarr.json"]) | {"data_type": "float32"}).encode()}
    with pytest.raises(ValueError, match="cannot reshape"):
        decoded(Described.of(short["zarr.json"]), short, ())
