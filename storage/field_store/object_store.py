"""Fields in an object store: folders that appear whole or not at all, although nothing can be renamed there.

    URL/ab/ab12.../WRITER/field.zarr/...   one writer's objects; no two writers share a name
    URL/ab/ab12.../manifest.json           every object with its checksum, and which WRITER's they are: the commit
    URL/.staging/WRITER                    names the digest being written; gone once it is committed

The manifest is put last, in one request, which an object store makes visible whole or not at all; until then no reader
finds the field. Two writers of one content each commit a whole field, and the later manifest holds. What is read is
checked in memory, so that the bytes that were checked are the bytes that are used.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from typing_extensions import override

from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.field_store.content import Content
from fieldcraft.storage.field_store.encoding import encoded
from fieldcraft.storage.field_store.folder import Folder, is_sound
from fieldcraft.storage.field_store.objects import Objects
from fieldcraft.storage.field_store.staging import (
    MANIFEST,
    STAGING,
    Manifest,
    damaged,
    parsed,
    require_size,
    require_sound,
    sealed,
)
from fieldcraft.storage.field_store.store import FieldStore
from fieldcraft.storage.processes import boot, is_alive, start_time
from fieldcraft.storage.records import FieldRef

COMMIT_POINTS = tuple(f"objects.{what}.{when}" for what in ("staged", "commit") for when in ("before", "after"))
ELSEWHERE_S = 86400.0  # after which what a writer of another machine has begun is taken for left behind
_counter = itertools.count()


@dataclass(frozen=True)
class ObjectFolder(Folder):
    """One field's folder.

    Args:
        objects: Where it is.
        digest: Its content digest.
    """

    objects: Objects
    digest: str

    @property
    @override
    def name(self) -> str:
        return self.digest

    @property
    def url(self) -> str:
        """URL of the folder."""
        return f"{self.objects.url}/{self.digest[:2]}/{self.digest}"

    def __str__(self) -> str:
        return self.url

    @override
    def manifest(self, digest: str | None) -> Manifest:
        text = self.objects.get(f"{self.url}/{MANIFEST}")
        if text is None:
            raise damaged(self.url, MANIFEST, "is missing")
        return parsed(self.url, text, digest)

    @override
    def check_sizes(self, manifest: Manifest) -> None:
        found = self.sizes(manifest)
        for name, expected in manifest.files.items():
            if name not in found:
                raise damaged(self.url, name, "is missing")
            require_size(self.url, name, found[name], expected)

    def sizes(self, manifest: Manifest) -> dict[str, int]:
        """Sizes in bytes of the objects of the writer whose field it is, by name."""
        return self.objects.sizes(f"{self.url}/{manifest.folder}")

    @override
    def contents(self, manifest: Manifest, names: Collection[str]) -> Mapping[str, bytes]:
        found = {}
        for name in names:
            content = self.objects.get(f"{self.url}/{manifest.folder}/{name}")
            if content is None:
                raise damaged(self.url, name, "is missing")
            require_sound(self.url, name, content, manifest.files[name])
            found[name] = content
        return found

    @override
    def check_all(self, manifest: Manifest) -> None:
        self.check_sizes(manifest)
        self.contents(manifest, manifest.files)
        if extra := sorted(self.sizes(manifest).keys() - manifest.files.keys()):
            raise damaged(self.url, extra[0], "is not in the manifest")


class ObjectStore(FieldStore):
    """Fields under one URL of an object store (``s3://BUCKET/PREFIX``)."""

    def __init__(self, url: str) -> None:
        self._objects = Objects(url)

    @override
    def path(self, ref: FieldRef) -> None:
        return None

    @override
    def folder(self, digest: str) -> ObjectFolder:
        return ObjectFolder(self._objects, digest)

    @override
    def digests(self) -> set[str]:
        ends = (name.split("/") for name in self._objects.sizes(self._objects.url) if name.endswith(f"/{MANIFEST}"))
        return {parts[1] for parts in ends if len(parts) == 3 and re.fullmatch("[0-9a-f]{64}", parts[1])}

    @override
    def tidy(self) -> None:
        for writer in self._strays():
            self._clear(writer)

    @override
    def staging(self, name: str) -> None:
        return None

    @override
    def _put(self, key: str, content: Content) -> None:
        folder = self.folder(content.digest)
        if not is_sound(folder, content.digest):
            self._publish(key, folder, encoded(content), content.size)

    def _publish(self, key: str, folder: ObjectFolder, files: Mapping[str, bytes], size: int) -> None:
        """Put a field's files and then its manifest, which commits them. A sweep deletes what a failure leaves."""
        label = re.sub(r"[^A-Za-z0-9_.]", "_", key)
        # Unique over machines and their restarts, and it tells whether the writer is still at work.
        process = f"{start_time(os.getpid()):.2f}-{os.getpid()}"
        writer = f"{label}-{_machine()}-{process}-{time.time_ns():x}-{next(_counter)}"
        self._objects.put(self._mark(writer), folder.digest.encode())
        commit_point("objects.staged.before")
        for name, content in files.items():
            self._objects.put(f"{folder.url}/{writer}/{name}", content)
        commit_point("objects.staged.after")
        if is_sound(folder, folder.digest):  # another writer of this content was first
            self._clear(writer)
            return
        manifest = sealed(files, folder.digest, size, writer)
        commit_point("objects.commit.before")
        self._objects.put(f"{folder.url}/{MANIFEST}", manifest.model_dump_json(indent=1).encode())
        commit_point("objects.commit.after")
        self._objects.delete(self._mark(writer))

    def _mark(self, writer: str) -> str:
        """URL of the object that names the digest a writer is writing."""
        return f"{self._objects.url}/{STAGING}/{writer}"

    @override
    def _remove(self, digest: str) -> None:
        folder = self.folder(digest)
        self._objects.delete(f"{folder.url}/{MANIFEST}")  # first, so that nobody sees half of it
        self._objects.delete_all(folder.url)

    @override
    def _strays(self) -> list[str]:
        names = sorted(self._objects.sizes(f"{self._objects.url}/{STAGING}"))
        return [name for name in names if not _at_work(name)]

    def _clear(self, writer: str) -> None:
        """Delete the uncommitted objects of a writer; its committed field stays."""
        digest = (self._objects.get(self._mark(writer)) or b"").decode()
        if not digest:  # another sweep was faster
            return
        folder = self.folder(digest)
        text = self._objects.get(f"{folder.url}/{MANIFEST}")
        if text is None or parsed(folder.url, text, None).folder != writer:
            self._objects.delete_all(f"{folder.url}/{writer}")
        self._objects.delete(self._mark(writer))


def _machine() -> str:
    """Identifier of one boot of one machine, twelve letters."""
    return hashlib.sha256(f"{socket.gethostname()} {boot()}".encode()).hexdigest()[:12]


def _at_work(writer: str) -> bool:
    """True if a writer may still be at work: its process lives, or it is of another machine and began not long ago."""
    match = re.fullmatch(r".*-([0-9a-f]{12})-([0-9.]+)-(\d+)-([0-9a-f]+)-\d+", writer)
    if match is None:
        return False
    machine, started, pid, begun = match.groups()
    if machine == _machine():
        return is_alive(int(pid), float(started))
    return time.time() - int(begun, 16) / 1e9 < ELSEWHERE_S
