"""Writing a field's content as a zarr group: zarr v3, Blosc zstd 5 with byte shuffle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcraft.storage.field_store.content import Content
from fieldcraft.storage.field_store.opened import GROUP

if TYPE_CHECKING:
    from zarr.storage import MemoryStore

CHUNK_BYTES = 64 * 2**20  # far below the 2 GiB that one Blosc buffer can hold


def write_group(store: Path | MemoryStore, content: Content) -> None:
    """Write the group to a new directory or into memory."""
    import zarr
    from zarr.codecs import BloscCodec

    group = zarr.create_group(store, zarr_format=3, attributes=content.attrs)
    for name, (dims, values, attrs) in content.variables.items():
        array = group.create_array(
            name,
            shape=values.shape,
            dtype=values.dtype,
            chunks=_chunks(values.shape, values.itemsize),
            compressors=BloscCodec(cname="zstd", clevel=5, shuffle="shuffle"),
            dimension_names=dims,
            attributes=attrs,
        )
        if values.size:
            array[...] = values


def encoded(content: Content) -> dict[str, bytes]:
    """Files of a field's folder, in memory."""
    from zarr.storage import MemoryStore

    made: dict[str, Any] = {}
    write_group(MemoryStore(made), content)
    return {f"{GROUP}/{name}": bytes(buffer.to_bytes()) for name, buffer in made.items()}


def _chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Whole array in one chunk, or leading axes cut until a chunk holds at most ``CHUNK_BYTES``."""
    chunks = [max(1, length) for length in shape]
    for axis in range(len(chunks)):
        rest = int(np.prod(chunks[axis + 1 :], dtype=np.int64)) * itemsize
        chunks[axis] = max(1, min(chunks[axis], CHUNK_BYTES // rest))
    return tuple(chunks)
