"""Encoding of a field's content as a zarr group: zarr v3, Blosc zstd 5 with byte shuffle."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcraft.storage.field_store.content import Content
from fieldcraft.storage.field_store.opened import GROUP
from fieldcraft.storage.field_store.staging import seal, write_sealed

if TYPE_CHECKING:
    import zarr
    from zarr.storage import MemoryStore

CHUNK_BYTES = 64 * 2**20
"""Most bytes of a chunk, far below the 2 GiB that one Blosc buffer can hold."""
_LEVEL = 5


def write(path: Path, content: Content) -> None:
    """Write a field into an empty directory, with its manifest, and flush it to the disk."""
    if _whole(content):
        write_sealed(path, encoded(content), content.digest, content.size)
    else:
        _write(path / GROUP, content)
        seal(path, content.digest, content.size)


def encoded(content: Content) -> dict[str, bytes]:
    """Files of a field's folder, in memory."""
    files = _files(content) if _whole(content) else _by_zarr(lambda store: _write(store, content))
    return {f"{GROUP}/{name}": text for name, text in files.items()}


def _whole(content: Content) -> bool:
    """True if each array is one chunk."""
    shapes = ((values.shape, values.itemsize) for _, values, _ in content.variables.values())
    return all(_chunks(shape, itemsize) == tuple(max(1, n) for n in shape) for shape, itemsize in shapes)


def _files(content: Content) -> dict[str, bytes]:
    """The files that zarr writes of arrays of one chunk each, in a fraction of its time.

    Zarr itself writes what describes them, once for all fields of one form.
    """
    from numcodecs import blosc

    arrays = {name: (dims, a.dtype.name, a.shape, attrs) for name, (dims, a, attrs) in content.variables.items()}
    made = dict(_described(json.dumps([arrays, content.attrs])))
    for name, (_, values, _) in content.variables.items():
        if values.size:
            chunk = "/".join((name, "c", *("0" for _ in values.shape)))
            little = values.astype(values.dtype.newbyteorder("<"), copy=False)
            made[chunk] = blosc.compress(little, b"zstd", _LEVEL, blosc.SHUFFLE)
    return made


@lru_cache(maxsize=256)
def _described(form: str) -> tuple[tuple[str, bytes], ...]:
    """The files that describe a group and its arrays."""
    arrays, attrs = json.loads(form)

    def describe(store: MemoryStore) -> None:
        group = _group(store, attrs)
        for name, (dims, dtype, shape, own) in arrays.items():
            _array(group, name, dims, np.dtype(dtype), tuple(shape), own)

    return tuple(_by_zarr(describe).items())


def _by_zarr(write: Callable[[MemoryStore], None]) -> dict[str, bytes]:
    """The files that zarr writes."""
    from zarr.storage import MemoryStore

    made: dict[str, Any] = {}
    write(MemoryStore(made))
    return {name: bytes(buffer.to_bytes()) for name, buffer in made.items()}


def _write(store: Path | MemoryStore, content: Content) -> None:
    group = _group(store, content.attrs)
    for name, (dims, values, attrs) in content.variables.items():
        array = _array(group, name, dims, values.dtype, values.shape, attrs)
        if values.size:
            array[...] = values


def _group(store: Path | MemoryStore, attrs: dict[str, Any]) -> zarr.Group:
    import zarr

    return zarr.create_group(store, zarr_format=3, attributes=attrs)


def _array(
    group: zarr.Group, name: str, dims: Sequence[str], dtype: np.dtype[Any], shape: tuple[int, ...], attrs: Any
) -> zarr.Array[Any]:
    from zarr.codecs import BloscCodec

    return group.create_array(
        name,
        shape=shape,
        dtype=dtype,
        chunks=_chunks(shape, dtype.itemsize),
        compressors=BloscCodec(cname="zstd", clevel=_LEVEL, shuffle="shuffle"),
        dimension_names=dims,
        attributes=attrs,
        config={"write_empty_chunks": True},  # for zarr the complex number -0j is 0, and would be left out
    )


def _chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Whole array in one chunk, or leading axes cut until a chunk holds at most ``CHUNK_BYTES``."""
    chunks = [max(1, length) for length in shape]
    for axis in range(len(chunks)):
        rest = int(np.prod(chunks[axis + 1 :], dtype=np.int64)) * itemsize
        chunks[axis] = max(1, min(chunks[axis], CHUNK_BYTES // rest))
    return tuple(chunks)
