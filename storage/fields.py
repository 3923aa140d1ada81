"""Fields on disk: immutable, content-addressed zarr groups that appear whole or not at all.

A field is an ``xarray.Dataset`` of numbers. Its address is the SHA-256 of its content, so an identical field is stored
once. It is staged, sealed with a manifest of checksums, flushed and renamed (``storage.field_store.staging``); whoever
mentions the returned reference mentions something that exists. Nothing is ever changed in place.

    ROOT/ab/ab12.../manifest.json     every file with its checksum
    ROOT/ab/ab12.../field.zarr        zarr v3, Blosc zstd 5 with byte shuffle; ``xarray.open_zarr`` reads it too

Errors: ``FieldError`` (a dataset or a disk that cannot be used) > ``FieldDamaged`` (what is stored is not what was
written). xarray, zarr and dask are imported where they are used: they cost a second that listing and sweeping need not
pay.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcraft.storage.field_store.content import Content
from fieldcraft.storage.field_store.objects import Objects
from fieldcraft.storage.field_store.opened import GROUP, Folder, Opened
from fieldcraft.storage.field_store.stacking import stacked
from fieldcraft.storage.field_store.staging import (
    STAGING,
    FieldDamaged,
    FieldError,
    LocalFolder,
    damaged,
    disk,
    is_sound,
    publish,
    seal,
    staged,
    stray_staging,
    sync,
    take,
)
from fieldcraft.storage.records import FieldRef

if TYPE_CHECKING:
    import xarray as xr
    from zarr.storage import MemoryStore

__all__ = ["FieldDamaged", "FieldError", "FieldStore", "Sweep", "load_group", "save_group", "stray_staging"]

COMMIT_POINTS = tuple(f"{of}.rename.{when}" for of in ("field", "result") for when in ("before", "after"))
CHUNK_BYTES = 64 * 2**20  # far below the 2 GiB that one Blosc buffer can hold


@dataclass(frozen=True)
class Sweep:
    """What ``FieldStore.sweep`` found: names of stray staging directories, digests that nobody refers to."""

    staging: tuple[str, ...]
    orphans: tuple[str, ...]


class FieldStore:
    """Fields under one root directory or URL, each at the address of its content. Safe for many processes at once."""

    def __init__(self, root: Path | str) -> None:
        """Name the root: a directory, or ``s3://BUCKET/PREFIX``, whose credentials are in the environment."""
        self._objects = Objects(root) if isinstance(root, str) and "://" in root else None
        self.root = Path(root)

    def path(self, ref: FieldRef) -> Path:
        """Directory of a field on a disk; its zarr group is ``field.zarr`` in it."""
        return self.root / ref.digest[:2] / ref.digest

    def place(self, ref: FieldRef) -> str:
        """Where a field is, for people: its directory or its URL."""
        return str(self._folder(ref))

    def _folder(self, ref: FieldRef) -> Folder:
        return LocalFolder(self.path(ref)) if self._objects is None else self._objects.folder(ref.digest)

    def write(self, key: str, dataset: xr.Dataset) -> FieldRef:
        """Store ``dataset`` durably and return its reference; an identical field is not stored again.

        Args:
            key: What the field belongs to (``heat-0007``); names the staging directory only.
            dataset: Numeric variables of any shape (empty and 0-d included; NaN allowed), attributes that are JSON.
                Values and dtypes come back bit for bit, in the machine's byte order.

        Returns:
            Reference with the content digest and the size of the arrays in bytes, uncompressed.

        Raises:
            FieldError: The dataset cannot be stored (text, objects, attributes outside JSON), or the disk refused;
                then nothing was published and the staging directory is gone.
        """
        content = Content.of(dataset)
        ref = FieldRef(digest=content.digest, size=content.size)
        if self._objects is not None:
            if not self._objects.folder(ref.digest).is_sound():
                self._objects.publish(key, ref.digest, ref.size, _encoded(content))
            return ref
        target = self.path(ref)
        with disk(target):
            if is_sound(target, ref.digest):
                sync(target.parent)  # whoever renamed it may not have come as far as this
                return ref
            with staged(self.root, key) as staging:
                _write(staging / GROUP, content)
                seal(staging, content.digest, content.size)
                self._publish(staging, target, ref.digest)
        return ref

    def take(self, ref: FieldRef, source: FieldStore | Path) -> bool:
        """Store a copy of a field that was published elsewhere (another store, a backup's, a job's folder).

        What is there already is read through, and replaced where it is damaged. Returns whether anything was stored.

        Raises:
            FieldDamaged: What ``source`` holds is not, or is no more, the field of ``ref``.
        """
        folder = source._folder(ref) if isinstance(source, FieldStore) else LocalFolder(source)
        if self._objects is None and isinstance(folder, LocalFolder):
            return take(self.root, self.path(ref), folder.path, ref.digest)
        return self._rewritten(ref, lambda: _load(folder, ref.digest, None))

    def _rewritten(self, ref: FieldRef, load: Callable[[], xr.Dataset]) -> bool:
        """Store what ``load`` reads, unless it is there; where either side is an object store."""
        try:
            self._folder(ref).check_all(self._folder(ref).manifest(ref.digest))
            return False
        except FieldDamaged:
            dataset = load()
        if (found := Content.of(dataset).digest) != ref.digest:
            raise damaged(self.place(ref), GROUP, f"was to be replaced by other content ({found})")
        if self._is_sound(ref.digest):  # by its sizes, for which ``write`` would let it be
            self._remove(ref.digest)
        self.write("copy", dataset)
        return True

    def _is_sound(self, digest: str) -> bool:
        """Whether a field is there, by its manifest and the sizes of its files."""
        if self._objects is not None:
            return self._objects.folder(digest).is_sound()
        return is_sound(self.root / digest[:2] / digest, digest)

    def staging(self, name: str) -> Path | None:
        """Where a staging directory that ``sweep`` found lies; None in an object store, which passes tidy."""
        return self.root / STAGING / name if self._objects is None else None

    def _publish(self, staging: Path, target: Path, digest: str) -> None:
        if target.exists() and not is_sound(target, digest):
            with staged(self.root, "damaged") as aside:  # same content by its address: the sound copy replaces it
                os.rename(target, aside / digest)
        try:
            publish(staging, target, point="field")
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not is_sound(target, digest):
                raise  # else another writer of the same content was first

    def read(self, ref: FieldRef, names: Sequence[str] | None = None) -> xr.Dataset:
        """Load a field, or some of its variables with their coordinates, into memory.

        The checksums of everything that is read are verified first, so that damage never becomes a number.

        Raises:
            FieldDamaged: Missing, truncated or altered; names the file.
            FieldError: ``names`` has a variable that the field has not.
        """
        return _load(self._folder(ref), ref.digest, names)

    def stack(self, refs: Mapping[str, FieldRef]) -> xr.Dataset:
        """One lazy dataset of many fields along the new leading dimension ``trial``.

        Coordinates must be the same in all fields and are loaded; data variables become dask arrays with one block
        or more per trial, read (checksums first) when computed. Attributes that all fields share are kept.

        Args:
            refs: Trial id -> field, in the order of the result.

        Raises:
            FieldDamaged: A field is missing or its files do not have the listed sizes.
            FieldError: No fields, or fields that differ in variables, dimensions, dtypes, units or coordinates.
        """
        if not refs:
            raise FieldError("There is no field to stack: no trial has one. Run trials that keep a field first.")
        opened = {ref.digest: Opened.at(self._folder(ref), ref.digest) for ref in set(refs.values())}
        return stacked({trial: opened[ref.digest] for trial, ref in refs.items()})

    def export(self, refs: Mapping[str, FieldRef], path: Path) -> None:
        """Write the ``stack`` of many fields as one zarr group to the new directory ``path``, field by field.

        Raises:
            FieldError: ``path`` exists, the fields cannot be stacked, or the disk refused.
        """
        dataset = self.stack(refs)
        with disk(path):
            if path.exists():
                raise FieldError(f"{path} exists. Remove it or export to another path.")
            with staged(path.parent, path.name) as staging:
                dataset.to_zarr(staging / GROUP, zarr_format=3, consolidated=False)
                os.rename(staging / GROUP, path)

    def verify(self, ref: FieldRef) -> None:
        """Check a field file by file, and its content against its address.

        Raises:
            FieldDamaged: Names the file and what is wrong: missing, truncated, altered, not in the manifest; or says
                that manifest or content do not belong to this digest.
        """
        folder = self._folder(ref)
        manifest = folder.manifest(ref.digest)
        folder.check_all(manifest)
        content = Content.of(_load(folder, ref.digest, None))
        if content.digest != ref.digest:
            raise damaged(str(folder), GROUP, f"holds the content {content.digest}")
        if not content.size == manifest.size == ref.size:
            sizes = f"holds {content.size} bytes (manifest {manifest.size}, reference {ref.size})"
            raise damaged(str(folder), GROUP, sizes)

    def sweep(self, referenced: Collection[str], *, remove: bool) -> Sweep:
        """Report, and with ``remove`` delete, stray staging directories and fields that nobody refers to.

        A staging directory whose process lives on this host is not stray. A field is published before the ledger
        mentions it, so remove only while no pass can be between the two (under the lease of every campaign).

        Args:
            referenced: Digests that are in use.
            remove: Delete what is found.

        Raises:
            FieldError: The disk refused to delete.
        """
        orphans = sorted(self.digests() - set(referenced))
        strays = self._strays()
        if remove:
            self.tidy()
            for digest in orphans:
                self._remove(digest)
        return Sweep(staging=tuple(strays), orphans=tuple(orphans))

    def tidy(self) -> None:
        """Delete what writers that are gone have left without committing it.

        Raises:
            FieldError: The store refused.
        """
        if self._objects is not None:
            for writer in self._objects.strays():
                self._objects.clear(writer)
            return
        with disk(self.root):
            for path in stray_staging(self.root):
                shutil.rmtree(path)

    def _strays(self) -> list[str]:
        if self._objects is not None:
            return self._objects.strays()
        return [path.name for path in stray_staging(self.root)]

    def _remove(self, digest: str) -> None:
        if self._objects is not None:
            return self._objects.remove(digest)
        with disk(self.root):
            shutil.rmtree(self.root / digest[:2] / digest)

    def digests(self) -> set[str]:
        """Digests of all published fields, sound or not."""
        if self._objects is not None:
            return self._objects.digests()
        return {path.name for path in self.root.glob("[0-9a-f][0-9a-f]/*") if re.fullmatch("[0-9a-f]{64}", path.name)}


def save_group(path: Path, dataset: xr.Dataset) -> None:
    """Write one dataset to the new directory ``path`` (manifest and zarr group), staged beside it and renamed.

    An identical dataset that is there already is left alone.

    Raises:
        FieldError: ``path`` holds something else, the dataset cannot be stored, or the disk refused.
    """
    content = Content.of(dataset)
    with disk(path):
        if path.exists():
            if is_sound(path, content.digest):
                return
            raise FieldError(f"{path} exists and holds something else. Remove it or write to another path.")
        with staged(path.parent, path.name) as staging:
            _write(staging / GROUP, content)
            seal(staging, content.digest, content.size)
            publish(staging, path, point="result")


def load_group(path: Path) -> xr.Dataset:
    """Dataset that ``save_group`` wrote, in memory, its checksums verified.

    Raises:
        FieldDamaged: Missing, truncated or altered; names the file.
    """
    return _load(LocalFolder(path), None, None)


def _encoded(content: Content) -> dict[str, bytes]:
    """The files of a field's folder, in memory."""
    from zarr.storage import MemoryStore

    made: dict[str, Any] = {}
    _write(MemoryStore(made), content)
    return {f"{GROUP}/{name}": bytes(buffer.to_bytes()) for name, buffer in made.items()}


def _write(store: Path | MemoryStore, content: Content) -> None:
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


def _chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Whole array in one chunk, or leading axes cut until a chunk holds at most ``CHUNK_BYTES``."""
    chunks = [max(1, length) for length in shape]
    for axis in range(len(chunks)):
        rest = int(np.prod(chunks[axis + 1 :], dtype=np.int64)) * itemsize
        chunks[axis] = max(1, min(chunks[axis], CHUNK_BYTES // rest))
    return tuple(chunks)


def _load(folder: Folder, digest: str | None, names: Sequence[str] | None) -> xr.Dataset:
    opened = Opened.at(folder, digest)
    return opened.dataset(opened.variables(opened.choose(names)))
