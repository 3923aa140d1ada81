"""Fields on disk: immutable, content-addressed zarr groups that appear whole or not at all.

A field is an ``xarray.Dataset`` of numbers. Its address is the SHA-256 of its content, so an identical field is stored
once. It is staged, sealed with a manifest of checksums, flushed and renamed (``storage.staging``); whoever mentions
the returned reference mentions something that exists. Nothing is ever changed in place.

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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from storage.content import Array, Content
from storage.records import FieldRef
from storage.staging import (
    FieldDamaged,
    FieldError,
    Manifest,
    check_extra,
    check_sums,
    damaged,
    disk,
    is_sound,
    publish,
    read_manifest,
    seal,
    staged,
    stray_staging,
    sync,
)

if TYPE_CHECKING:
    import xarray as xr
    import zarr
    from zarr.core.metadata import ArrayV3Metadata

__all__ = ["FieldDamaged", "FieldError", "FieldStore", "Sweep", "load_group", "save_group", "stray_staging"]

COMMIT_POINTS = tuple(f"{of}.rename.{when}" for of in ("field", "result") for when in ("before", "after"))
GROUP = "field.zarr"
CHUNK_BYTES = 64 * 2**20  # far below the 2 GiB that one Blosc buffer can hold


@dataclass(frozen=True)
class Sweep:
    """What ``FieldStore.sweep`` found: names of stray staging directories, digests that nobody refers to."""

    staging: tuple[str, ...]
    orphans: tuple[str, ...]


class FieldStore:
    """Fields under one root directory, each at the address of its content. Safe for many processes at once."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)

    def path(self, ref: FieldRef) -> Path:
        """Directory of a field; its zarr group is ``field.zarr`` in it."""
        return self.root / ref.digest[:2] / ref.digest

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
        target = self.path(ref)
        with disk(target):
            if is_sound(target, ref.digest):
                sync(target.parent)  # whoever renamed it may not have come as far as this
                return ref
            with staged(self.root, key) as staging:
                _write(staging, content)
                self._publish(staging, target, ref.digest)
        return ref

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
        return _load(self.path(ref), ref.digest, names)

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
        opened = {ref.digest: _Opened.at(self.path(ref), ref.digest) for ref in set(refs.values())}
        return _stack({trial: opened[ref.digest] for trial, ref in refs.items()})

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
        path = self.path(ref)
        manifest = read_manifest(path, ref.digest)
        check_sums(path, manifest, manifest.files)
        check_extra(path, manifest)
        content = Content.of(_load(path, ref.digest, None))
        if content.digest != ref.digest:
            raise damaged(path, GROUP, f"holds the content {content.digest}")
        if not content.size == manifest.size == ref.size:
            raise damaged(path, GROUP, f"holds {content.size} bytes (manifest {manifest.size}, reference {ref.size})")

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
        stray, orphans = stray_staging(self.root), sorted(self.digests() - set(referenced))
        if remove:
            with disk(self.root):
                for path in (*stray, *(self.root / digest[:2] / digest for digest in orphans)):
                    shutil.rmtree(path)
        return Sweep(staging=tuple(path.name for path in stray), orphans=tuple(orphans))

    def digests(self) -> set[str]:
        """Digests of all published fields, sound or not."""
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
            _write(staging, content)
            publish(staging, path, point="result")


def load_group(path: Path) -> xr.Dataset:
    """Dataset that ``save_group`` wrote, in memory, its checksums verified.

    Raises:
        FieldDamaged: Missing, truncated or altered; names the file.
    """
    return _load(path, None, None)


def _write(path: Path, content: Content) -> None:
    import zarr
    from zarr.codecs import BloscCodec

    group = zarr.create_group(path / GROUP, zarr_format=3, attributes=content.attrs)
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
    seal(path, content.digest, content.size)


def _chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Whole array in one chunk, or leading axes cut until a chunk holds at most ``CHUNK_BYTES``."""
    chunks = [max(1, length) for length in shape]
    for axis in range(len(chunks)):
        rest = int(np.prod(chunks[axis + 1 :], dtype=np.int64)) * itemsize
        chunks[axis] = max(1, min(chunks[axis], CHUNK_BYTES // rest))
    return tuple(chunks)


def _load(path: Path, digest: str | None, names: Sequence[str] | None) -> xr.Dataset:
    opened = _Opened.at(path, digest)
    return opened.dataset(opened.variables(opened.choose(names)))


@dataclass(frozen=True)
class _Opened:
    """A published directory whose files all have the listed sizes."""

    path: Path
    manifest: Manifest
    group: zarr.Group
    arrays: dict[str, zarr.Array[Any]]
    coordinates: frozenset[str]

    @staticmethod
    def at(path: Path, digest: str | None) -> _Opened:
        import zarr

        manifest = read_manifest(path, digest)
        described = [file for file in manifest.files if file.endswith("/zarr.json")]
        check_sums(path, manifest, described)
        group = zarr.open_group(path / GROUP, mode="r", zarr_format=3)
        arrays = {}
        for file in described:
            *_, owner, _ = file.split("/")
            if owner != GROUP:
                arrays[owner] = zarr.open_array(path / GROUP / owner, mode="r", zarr_format=3)
        return _Opened(path, manifest, group, arrays, frozenset(str(group.attrs.get("coordinates", "")).split()))

    def dims(self, name: str) -> tuple[str, ...]:
        metadata = cast("ArrayV3Metadata", self.arrays[name].metadata)
        return tuple(map(str, metadata.dimension_names or ()))

    def values(self, name: str, key: tuple[int | slice, ...] = ()) -> Array:
        files = [file for file in self.manifest.files if file.startswith(f"{GROUP}/{name}/")]
        check_sums(self.path, self.manifest, files)
        return np.asarray(self.arrays[name][key or ...])

    def variables(self, names: Iterable[str]) -> dict[str, xr.Variable]:
        import xarray as xr

        return {name: xr.Variable(self.dims(name), self.values(name), dict(self.arrays[name].attrs)) for name in names}

    def choose(self, names: Sequence[str] | None) -> Iterable[str]:
        if names is None:
            return self.arrays
        if unknown := sorted(set(names) - self.arrays.keys()):
            raise FieldError(
                f"Field {self.path.name} has no variable {unknown[0]!r}. It has: {', '.join(self.arrays)}."
            )
        dims = {dim for name in names for dim in self.dims(name)}
        return (
            name
            for name in self.arrays
            if name in names or (name in self.coordinates and dims.issuperset(self.dims(name)))
        )

    def dataset(self, variables: Mapping[str, xr.Variable]) -> xr.Dataset:
        import xarray as xr

        data = {name: variable for name, variable in variables.items() if name not in self.coordinates}
        coords = {name: variable for name, variable in variables.items() if name in self.coordinates}
        attrs = {key: value for key, value in self.group.attrs.items() if key != "coordinates"}
        return xr.Dataset(data, coords, attrs)


@dataclass(frozen=True)
class _Rows:
    """One variable of many fields as an array (trial, ...); a field is checked, then read, when a slice asks."""

    members: Sequence[_Opened]
    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.members), *self.members[0].arrays[self.name].shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.members[0].arrays[self.name].dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, key: tuple[int | slice, ...]) -> Array:
        row, *rest = key
        if isinstance(row, slice):
            return np.stack([member.values(self.name, tuple(rest)) for member in self.members[row]])
        return self.members[row].values(self.name, tuple(rest))


def _stack(fields: Mapping[str, _Opened]) -> xr.Dataset:
    import dask.array
    import xarray as xr

    trials, members = tuple(fields), tuple(fields.values())
    first, distinct = members[0], {id(member): trial for trial, member in fields.items()}
    if "trial" in first.arrays or any("trial" in first.dims(name) for name in first.arrays):
        raise FieldError(f"The field of {trials[0]} uses the name 'trial', along which fields are stacked. Rename it.")
    stacked = first.variables(name for name in first.arrays if name in first.coordinates)
    for trial in distinct.values():
        _require_alike(trials[0], first, stacked, trial, fields[trial])
    for name in first.arrays.keys() - first.coordinates:
        chunks = (1, *first.arrays[name].chunks)
        data = dask.array.from_array(_Rows(members, name), chunks=chunks, name=False, fancy=False)  # type: ignore[no-untyped-call]
        attrs = _shared([dict(member.arrays[name].attrs) for member in members])
        stacked[name] = xr.Variable(("trial", *first.dims(name)), data, attrs)
    dataset = first.dataset(stacked).assign_coords(trial=np.array(trials, dtype=object))
    dataset.attrs = _shared([dict(member.group.attrs) for member in members])
    dataset.attrs.pop("coordinates", None)
    return dataset


def _shared(attrs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in attrs[0].items() if all(other.get(key, None) == value for other in attrs)}


def _require_alike(one: str, first: _Opened, coords: Mapping[str, xr.Variable], trial: str, other: _Opened) -> None:
    def described(field: _Opened) -> dict[str, object]:
        return {
            name: (name in field.coordinates, field.dims(name), array.shape, array.dtype, array.attrs.get("units"))
            for name, array in field.arrays.items()
        }

    mine, theirs = described(first), described(other)
    differing = [name for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name)]
    if not differing:
        differing = [name for name, kept in coords.items() if other.values(name).tobytes() != kept.values.tobytes()]
    if differing:
        raise FieldError(
            f"The fields of {one} and {trial} cannot be stacked: they differ in '{differing[0]}' (presence, "
            "dimensions, shape, dtype, units or, for a coordinate, values). Stack trials of one mesh."
        )
