"""The contract of a field store, and the part that its kinds share.

xarray, zarr and dask are imported where they are used: that takes a second, which listing and sweeping then save.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcraft.storage.field_store.content import Array, Content
from fieldcraft.storage.field_store.encoding import DESCRIPTION, GROUP, consolidate
from fieldcraft.storage.field_store.folder import Folder, LocalFolder, is_sound
from fieldcraft.storage.field_store.labels import CONVENTIONS
from fieldcraft.storage.field_store.opened import Opened, load
from fieldcraft.storage.field_store.stacking import stacked
from fieldcraft.storage.field_store.staging import FieldDamaged, FieldError, damaged, disk, require_new, staged
from fieldcraft.storage.records import FieldRef

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Sweep:
    """Findings of ``FieldStore.sweep``: names of stray staging directories, and digests that nobody refers to."""

    staging: tuple[str, ...]
    orphans: tuple[str, ...]


class FieldStore(ABC):
    """Fields at one place, each at the address of its content. Safe for many processes at once.

    This class holds what all kinds of store share. A kind of store defines where a field's folder is, how a field
    appears whole or not at all, and which uncommitted files ended writers have left.
    """

    @abstractmethod
    def folder(self, digest: str) -> Folder:
        """Folder of the field of that digest, whether or not it exists."""

    @abstractmethod
    def digests(self) -> set[str]:
        """Digests of all published fields, sound or not."""

    @abstractmethod
    def tidy(self) -> None:
        """Delete the uncommitted files of ended writers.

        Raises:
            FieldError: The store refused.
        """

    @abstractmethod
    def path(self, ref: FieldRef) -> Path | None:
        """Directory of a field on a disk, with its zarr group ``field.zarr``; None in an object store."""

    @abstractmethod
    def staging(self, name: str) -> Path | None:
        """Staging directory on a disk that ``sweep`` found; None in an object store, whose passes call ``tidy``."""

    @abstractmethod
    def _put(self, key: str, content: Content) -> None:
        """Publish a field, unless it is stored and undamaged."""

    @abstractmethod
    def _remove(self, digest: str) -> None:
        """Delete a published field."""

    @abstractmethod
    def _strays(self) -> list[str]:
        """Names of the uncommitted files of ended writers."""

    def place(self, ref: FieldRef) -> str:
        """Directory or URL of a field, as shown to people."""
        return str(self.folder(ref.digest))

    def write(self, key: str, dataset: xr.Dataset, labels: Mapping[str, Any] | None = None) -> FieldRef:
        """Store ``dataset`` durably and return its reference; an identical field is not stored again.

        Args:
            key: Owner of the field (``heat-0007``); used only to name what is staged.
            dataset: Numeric variables of any shape (empty and 0-d included; NaN allowed), attributes that are JSON.
                Values and dtypes come back bit for bit, in the machine's byte order.
            labels: Attributes of the stored group for other readers, such as its trial; no part of the content, and
                not read back. With them it follows the CF conventions. A field that is stored keeps its first ones.

        Returns:
            Reference with the content digest and the size of the arrays in bytes, uncompressed.

        Raises:
            FieldError: The dataset cannot be stored (text, objects, attributes outside JSON), or the store refused;
                then nothing was published.
        """
        content = Content.of(dataset, labels)
        self._put(key, content)
        return FieldRef(digest=content.digest, size=content.size)

    def take(self, ref: FieldRef, source: FieldStore | Path) -> bool:
        """Store a copy of a field that was published elsewhere (another store, a backup's, a job's folder).

        A field that is stored already is read through, and replaced if it is damaged. Returns True if anything was
        stored.

        Raises:
            FieldDamaged: ``source`` does not hold the field of ``ref``, or holds it damaged.
        """
        return self._take(ref, source.folder(ref.digest) if isinstance(source, FieldStore) else LocalFolder(source))

    def _take(self, ref: FieldRef, source: Folder) -> bool:
        """Read a field and write it here, unless it is stored here."""
        folder = self.folder(ref.digest)
        with suppress(FieldDamaged):
            folder.check_all(folder.manifest(ref.digest))
            return False
        opened = Opened.at(source, ref.digest)
        dataset = opened.dataset(opened.variables(opened.arrays))
        if (found := Content.of(dataset).digest) != ref.digest:
            raise damaged(self.place(ref), GROUP, f"was to be replaced by other content ({found})")
        if is_sound(folder, ref.digest):  # by its sizes, for which ``write`` would let it be
            self._remove(ref.digest)
        self.write("copy", dataset, opened.labels)
        return True

    def read(self, ref: FieldRef, names: Sequence[str] | None = None) -> xr.Dataset:
        """Load a field, or some of its variables with their coordinates, into memory.

        The checksums of everything that is read are verified first, so that damage never becomes a number.

        Raises:
            FieldDamaged: Missing, truncated or altered; names the file.
            FieldError: ``names`` has a variable that the field lacks.
        """
        return load(self.folder(ref.digest), ref.digest, names)

    def arrays(self, ref: FieldRef) -> dict[str, Array]:
        """Values of all variables and coordinates by name, checked as ``read`` checks them, without xarray.

        Raises:
            FieldDamaged: Missing, truncated or altered; names the file.
        """
        opened = Opened.at(self.folder(ref.digest), ref.digest)
        return {name: opened.values(name) for name in opened.arrays}

    def names(self, ref: FieldRef) -> tuple[str, ...]:
        """Names of a field's variables and coordinates, by its manifest: nothing else of it is read or checked.

        Raises:
            FieldDamaged: The manifest is missing or altered.
        """
        manifest = self.folder(ref.digest).manifest(ref.digest)
        return tuple(
            file.split("/")[-2] for file in manifest.files if file.count("/") > 1 and file.endswith(f"/{DESCRIPTION}")
        )

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
        opened = {ref.digest: Opened.at(self.folder(ref.digest), ref.digest) for ref in set(refs.values())}
        return stacked({trial: opened[ref.digest] for trial, ref in refs.items()})

    def export(self, refs: Mapping[str, FieldRef], path: Path) -> None:
        """Write the ``stack`` of many fields as one zarr group to the new directory ``path``, field by field.

        Raises:
            FieldError: ``path`` exists, the fields cannot be stacked, or the disk refused.
        """
        require_new(path)
        dataset = self.stack(refs)
        with disk(path), staged(path.parent, path.name) as staging:
            dataset.assign_attrs({**CONVENTIONS, **dataset.attrs}).to_zarr(
                staging / GROUP, zarr_format=3, consolidated=False
            )
            consolidate(staging / GROUP)
            os.rename(staging / GROUP, path)

    def verify(self, ref: FieldRef) -> None:
        """Check a field file by file, and its content against its address.

        Raises:
            FieldDamaged: A file is missing, truncated, altered or not in the manifest, or manifest or content do not
                belong to this digest; names the file and the problem.
        """
        folder = self.folder(ref.digest)
        manifest = folder.manifest(ref.digest)
        folder.check_all(manifest)
        content = Content.of(load(folder, ref.digest))
        if content.digest != ref.digest:
            raise damaged(str(folder), GROUP, f"holds the content {content.digest}")
        if not content.size == manifest.size == ref.size:
            sizes = f"holds {content.size} bytes (manifest {manifest.size}, reference {ref.size})"
            raise damaged(str(folder), GROUP, sizes)

    def sweep(self, referenced: Collection[str], *, remove: bool) -> Sweep:
        """Report, and with ``remove`` delete, the files of ended writers and the fields that nobody refers to.

        A staging directory whose process lives on this host is not stray. A field is published before the ledger
        mentions it, so remove only while no pass can be between these two steps (under the lease of every campaign).

        Args:
            referenced: Digests that are in use.
            remove: Delete what is found.

        Raises:
            FieldError: The store refused to delete.
        """
        orphans = sorted(self.digests() - set(referenced))
        strays = self._strays()
        if remove:
            self.tidy()
            for digest in orphans:
                self._remove(digest)
        return Sweep(staging=tuple(strays), orphans=tuple(orphans))
