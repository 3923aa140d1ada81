"""Fields in a directory: staged, sealed with a manifest of checksums, flushed and renamed (``staging``).

ROOT/ab/ab12.../manifest.json     every file with its checksum
ROOT/ab/ab12.../field.zarr        the zarr group
ROOT/.staging/...                 being written, or left by a killed process
"""

import errno
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from fieldcraft.storage.field_store.content import Content
from fieldcraft.storage.field_store.encoding import write
from fieldcraft.storage.field_store.folder import Folder, LocalFolder, is_sound
from fieldcraft.storage.field_store.staging import STAGING, disk, publish, staged, stray_staging, sync, take
from fieldcraft.storage.field_store.store import FieldStore
from fieldcraft.storage.records import FieldRef


@dataclass(frozen=True)
class DirectoryStore(FieldStore):
    """Fields under one root directory, which need not exist."""

    root: Path

    @override
    def path(self, ref: FieldRef) -> Path:
        return self._path(ref.digest)

    def _path(self, digest: str) -> Path:
        return self.root / digest[:2] / digest

    @override
    def folder(self, digest: str) -> LocalFolder:
        return LocalFolder(self._path(digest))

    @override
    def digests(self) -> set[str]:
        return {path.name for path in self.root.glob("[0-9a-f][0-9a-f]/*") if re.fullmatch("[0-9a-f]{64}", path.name)}

    @override
    def tidy(self) -> None:
        with disk(self.root):
            for path in stray_staging(self.root):
                shutil.rmtree(path)

    @override
    def staging(self, name: str) -> Path:
        return self.root / STAGING / name

    @override
    def _put(self, key: str, content: Content) -> None:
        target = self._path(content.digest)
        with disk(target):
            if is_sound(LocalFolder(target), content.digest):
                sync(target.parent)  # whoever renamed it may not have come as far as this
                return
            with staged(self.root, key) as draft:
                write(draft, content)
                self._publish(draft, target, content.digest)

    def _publish(self, draft: Path, target: Path, digest: str) -> None:
        if target.exists() and not is_sound(LocalFolder(target), digest):
            with staged(self.root, "damaged") as aside:  # same content by its address: the sound copy replaces it
                os.rename(target, aside / digest)
        try:
            publish(draft, target, point="field")
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not is_sound(LocalFolder(target), digest):
                raise  # else another writer of the same content was first

    @override
    def _take(self, ref: FieldRef, source: Folder) -> bool:
        if isinstance(source, LocalFolder):  # file by file, as they are
            return take(self.root, self._path(ref.digest), source.path, ref.digest)
        return super()._take(ref, source)

    @override
    def _remove(self, digest: str) -> None:
        with disk(self.root):
            shutil.rmtree(self._path(digest))

    @override
    def _strays(self) -> list[str]:
        return [path.name for path in stray_staging(self.root)]
