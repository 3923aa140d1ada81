"""Encoding of a field's content as a zarr group: zarr v3, Blosc zstd 5 with byte shuffle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcraft.storage.field_store.content import Array, Content
from fieldcraft.storage.field_store.labels import labelled, of_variable
from fieldcraft.storage.field_store.staging import seal, write_sealed

if TYPE_CHECKING:
    import zarr
    from zarr.storage import MemoryStore

GROUP, DESCRIPTION = "field.zarr", "zarr.json"
"""Folder of the group, and file that describes an array or a group."""
CHUNK_BYTES = 64 * 2**20
"""Most bytes of a chunk, far below the 2 GiB that one Blosc buffer can hold."""
_LEVEL = 5


def write(path: Path, content: Content) -> None:
    """Write a field into an empty directory, with its manifest, and flush it to the disk."""
    if _whole(content):
        write_sealed(path, encoded(content), content.digest, content.size)
    else:
        _write(path / GROUP, content)
        consolidate(path / GROUP)
        seal(path, content.digest, content.size)


def encoded(content: Content) -> dict[str, bytes]:
    """Files of a field's folder, in memory."""
    files = _files(content) if _whole(content) else _by_zarr(lambda store: _write(store, content))
    files[DESCRIPTION] = _consolidated(labelled(content.attrs, content.labels), files)
    return {f"{GROUP}/{name}": text for name, text in files.items()}


def _whole(content: Content) -> bool:
    """True if each array is one chunk."""
    shapes = ((values.shape, values.itemsize) for _, values, _ in content.variables.values())
    return all(_chunks(shape, itemsize) == tuple(max(1, n) for n in shape) for shape, itemsize in shapes)


def _files(content: Content) -> dict[str, bytes]:
    """The files of arrays of one chunk each, as zarr writes them, in a fraction of its time; not the group's own."""
    from numcodecs import blosc

    made: dict[str, bytes] = {}
    for name, (dims, values, attrs) in _labelled(content):
        chunks = {"name": "regular", "configuration": {"chunk_shape": _chunks(values.shape, values.itemsize)}}
        of_its_own = {"shape": values.shape, "chunk_grid": chunks, "attributes": attrs}
        of_its_own |= {"dimension_names": dims} if dims else {}
        made[f"{name}/{DESCRIPTION}"] = _description(values.dtype.name, values.ndim, json.dumps(of_its_own))
        if values.size:
            little = values.astype(values.dtype.newbyteorder("<"), copy=False)
            made[f"{name}/{only_chunk(values.ndim)}"] = blosc.compress(little, b"zstd", _LEVEL, blosc.SHUFFLE)
    return made


def consolidate(group: Path) -> None:
    """Write the descriptions of a group's arrays into its own, so that a reader opens one file."""
    files = {str(file.relative_to(group)): file.read_bytes() for file in group.glob(f"**/{DESCRIPTION}")}
    (group / DESCRIPTION).write_bytes(_consolidated(json.loads(files[DESCRIPTION])["attributes"], files))


def _consolidated(attrs: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """The description of a group with those of its arrays, as zarr consolidates them, in a fraction of its time."""
    ending = f"/{DESCRIPTION}"
    arrays = tuple(sorted((name.removesuffix(ending), files[name]) for name in files if name.endswith(ending)))
    before, after = _around(arrays)
    indented = json.dumps(attrs, indent=2).replace("\n", "\n  ")
    return f"{before}{indented}{after}".encode()


@lru_cache(maxsize=256)
def _around(arrays: tuple[tuple[str, bytes], ...]) -> tuple[str, str]:
    """A group's description before and after its attributes."""
    told = {name: json.loads(text) for name, text in arrays}
    consolidated = {"kind": "inline", "must_understand": False, "metadata": told}
    whole = {"attributes": "@", "zarr_format": 3, "consolidated_metadata": consolidated, "node_type": "group"}
    before, _, after = json.dumps(whole, indent=2).partition('"@"')
    return before, after


def _labelled(content: Content) -> Iterator[tuple[str, tuple[tuple[str, ...], Array, dict[str, Any]]]]:
    """Variables of a content by name, with labels where the content has some."""
    for name, (dims, values, attrs) in content.variables.items():
        yield name, (dims, values, labelled(attrs, of_variable(name)) if content.labels else attrs)


def only_chunk(ndim: int) -> str:
    """File of an array's first chunk, in the array's folder."""
    return "/".join(("c", *("0" for _ in range(ndim))))


@lru_cache(maxsize=1024)
def _description(dtype: str, ndim: int, own: str) -> bytes:
    """The file that describes an array; what is ``own`` to it, as JSON."""
    return json.dumps(json.loads(_described(dtype, ndim)) | json.loads(own), indent=2).encode()


@lru_cache(maxsize=256)
def _described(dtype: str, ndim: int) -> str:
    """The file by which zarr describes an array of one element."""

    def describe(store: MemoryStore) -> None:
        _array(_group(store, {}), "one", [f"x{axis}" for axis in range(ndim)], np.dtype(dtype), (1,) * ndim, {})

    return _by_zarr(describe)[f"one/{DESCRIPTION}"].decode()


def _by_zarr(write: Callable[[MemoryStore], None]) -> dict[str, bytes]:
    """The files that zarr writes."""
    from zarr.storage import MemoryStore

    made: dict[str, Any] = {}
    write(MemoryStore(made))
    return {name: bytes(buffer.to_bytes()) for name, buffer in made.items()}


def _write(store: Path | MemoryStore, content: Content) -> None:
    group = _group(store, labelled(content.attrs, content.labels))
    for name, (dims, values, attrs) in _labelled(content):
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
