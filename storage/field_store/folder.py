"""Folders of published fields: the interface that each kind of store implements, and the one on a disk."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from typing_extensions import override

from fieldcraft.storage.field_store import staging
from fieldcraft.storage.field_store.staging import FieldDamaged, Manifest


class Folder(Protocol):
    """A published field's folder in any kind of store. As text it is its directory or its URL."""

    @property
    def name(self) -> str:
        """Last part of the path, which is the digest of a stored field."""

    def manifest(self, digest: str | None) -> Manifest:
        """Manifest, checked to belong to ``digest`` where one is given.

        Raises:
            FieldDamaged: Missing, not a manifest, or of another digest.
            FieldError: Written by a newer format.
        """

    def check_sizes(self, manifest: Manifest) -> None:
        """Raise ``FieldDamaged`` for the first listed file that is missing or of another length."""

    def contents(self, manifest: Manifest, names: Collection[str]) -> Mapping[str, bytes]:
        """Contents of these files by name, each verified against its checksum.

        Raises:
            FieldDamaged: One is missing, truncated or altered.
        """

    def check_all(self, manifest: Manifest) -> None:
        """Raise ``FieldDamaged`` for the first file that was altered or that the manifest lacks."""


@dataclass(frozen=True)
class LocalFolder(Folder):
    """A published directory on a disk."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    @override
    def name(self) -> str:
        return self.path.name

    @override
    def manifest(self, digest: str | None) -> Manifest:
        return staging.read_manifest(self.path, digest)

    @override
    def check_sizes(self, manifest: Manifest) -> None:
        staging.check_sizes(self.path, manifest)

    @override
    def contents(self, manifest: Manifest, names: Collection[str]) -> Mapping[str, bytes]:
        return staging.contents(self.path, manifest, names)

    @override
    def check_all(self, manifest: Manifest) -> None:
        staging.check_sums(self.path, manifest)
        staging.check_extra(self.path, manifest)


def is_sound(folder: Folder, digest: str) -> bool:
    """True if a folder holds the content of ``digest``, judged by its manifest and the sizes of its files."""
    try:
        folder.check_sizes(folder.manifest(digest))
    except FieldDamaged:
        return False
    return True
