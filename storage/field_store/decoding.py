"""Decoding of a stored array: what zarr's description of it says, and its values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcraft.storage.field_store.content import Array
from fieldcraft.storage.field_store.encoding import DESCRIPTION, only_chunk
from fieldcraft.storage.field_store.labels import unlabelled

_PLACES = {"name": "default", "configuration": {"separator": "/"}}  # of the chunks' files


@dataclass(frozen=True)
class Described:
    """Description of an array, read from its file.

    Args:
        attrs: Attributes.
        shape: Shape.
        dtype: Type of the values, in the machine's byte order.
        chunks: Shape of a chunk.
        dims: Names of the dimensions.
        plain: True if a chunk is the values in little-endian order, compressed by Blosc, as ``encoding`` writes it.
    """

    attrs: dict[str, Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    dims: tuple[str, ...]
    plain: bool

    @staticmethod
    def of(text: bytes) -> Described:
        """Read the text of such a file."""
        told = json.loads(text)
        codecs = [(codec["name"], codec.get("configuration", {}).get("endian", "little")) for codec in told["codecs"]]
        return Described(
            unlabelled(told["attributes"]),
            tuple(told["shape"]),
            np.dtype(told["data_type"]),
            tuple(told["chunk_grid"]["configuration"]["chunk_shape"]),
            tuple(map(str, told.get("dimension_names") or ())),
            codecs == [("bytes", "little"), ("blosc", "little")] and told["chunk_key_encoding"] == _PLACES,
        )


def decoded(array: Described, files: Mapping[str, bytes], key: tuple[int | slice, ...]) -> Array:
    """Values of an array or of a part of it.

    One that is a single chunk is read without zarr's own calls, which take ten times as long.

    Args:
        array: Its description.
        files: All files of its folder, by their names there.
        key: The part; empty for all of it.
    """
    chunk = only_chunk(len(array.shape))
    if not (array.plain and files.keys() == {DESCRIPTION, chunk} and array.chunks == array.shape):
        return _by_zarr(files, key)
    from numcodecs import blosc

    little = np.frombuffer(blosc.decompress(files[chunk]), array.dtype.newbyteorder("<"))
    return np.asarray(little.reshape(array.shape).astype(array.dtype)[key or ...])


def _by_zarr(files: Mapping[str, bytes], key: tuple[int | slice, ...]) -> Array:
    import zarr
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore

    buffer = default_buffer_prototype().buffer
    store = MemoryStore({name: buffer.from_bytes(content) for name, content in files.items()})
    return np.asarray(zarr.open_array(store, mode="r")[key or ...])
