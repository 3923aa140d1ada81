"""Fields: immutable, content-addressed zarr groups that appear whole or not at all.

A field is an ``xarray.Dataset`` of numbers. Its address is the SHA-256 of its content, so an identical field is stored
once, and a returned reference always names a stored field. Fields are never changed in place.
``fields_at`` opens a store in a directory or in an object store (``storage.field_store``); ``save_group`` and
``load_group`` keep one dataset in a directory of its own.

Errors: ``FieldError`` (a dataset or a disk that cannot be used) > ``FieldDamaged`` (a stored field is missing or
altered).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fieldcraft.storage.field_store.content import Content
from fieldcraft.storage.field_store.directory import DirectoryStore
from fieldcraft.storage.field_store.encoding import write
from fieldcraft.storage.field_store.folder import LocalFolder, is_sound
from fieldcraft.storage.field_store.object_store import ObjectStore
from fieldcraft.storage.field_store.opened import load
from fieldcraft.storage.field_store.staging import (
    FieldDamaged,
    FieldError,
    disk,
    publish,
    staged,
    stray_staging,
)
from fieldcraft.storage.field_store.store import FieldStore, Sweep

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "DirectoryStore",
    "FieldDamaged",
    "FieldError",
    "FieldStore",
    "Sweep",
    "content_digest",
    "fields_at",
    "load_group",
    "save_group",
    "stray_staging",
]

COMMIT_POINTS = tuple(f"{of}.rename.{when}" for of in ("field", "result") for when in ("before", "after"))


def fields_at(place: Path | str) -> FieldStore:
    """Open the fields at a directory, or at ``s3://BUCKET/PREFIX``, whose credentials are in the environment.

    Nothing is created or read before the first use.
    """
    if isinstance(place, str) and "://" in place:
        return ObjectStore(place)
    return DirectoryStore(Path(place))


def content_digest(dataset: xr.Dataset) -> str:
    """SHA-256 of a dataset's content, the address that ``FieldStore.write`` gives it; nothing is stored.

    Raises:
        FieldError: The dataset cannot be stored.
    """
    return Content.of(dataset).digest


def save_group(path: Path, dataset: xr.Dataset, written: float | None = None) -> None:
    """Write one dataset to the new directory ``path`` (manifest and zarr group), staged beside it and renamed.

    An identical dataset that is there already is left alone.

    Args:
        path: The directory.
        dataset: Its content.
        written: Time that the directory is to bear, in seconds since 1970; by default the present one.

    Raises:
        FieldError: ``path`` holds something else, the dataset cannot be stored, or the disk refused.
    """
    content = Content.of(dataset)
    with disk(path):
        if path.exists():
            if is_sound(LocalFolder(path), content.digest):
                return
            raise FieldError(f"{path} exists and holds something else. Remove it or write to another path.")
        with staged(path.parent, path.name) as staging:
            write(staging, content)
            if written is not None:
                os.utime(staging, (written, written))
            publish(staging, path, point="result")


def load_group(path: Path) -> xr.Dataset:
    """Load the dataset that ``save_group`` wrote into memory, its checksums verified.

    Raises:
        FieldDamaged: Missing, truncated or altered; names the file.
    """
    return load(LocalFolder(path), None)
