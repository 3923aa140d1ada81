"""Fields in an object store: folders that appear whole or not at all, where nothing can be renamed.

    URL/ab/ab12.../WRITER/field.zarr/...   one writer's objects; no two writers share a name
    URL/ab/ab12.../manifest.json           every object with its checksum, and which WRITER's they are: the commit
    URL/.staging/WRITER                    names the digest being written; gone once it is committed

The manifest is put last, in one request, which an object store makes visible whole or not at all; until then no reader
finds the field. Two writers of one content each commit a whole field, and the later manifest holds. What is read is
checked in memory, so that the bytes that were checked are the bytes that are used.

``storage.fields`` knows what the objects mean. s3fs is imported where it is used.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.field_store.staging import (
    MANIFEST,
    STAGING,
    FieldDamaged,
    Manifest,
    StoreAway,
    damaged,
    parsed,
    sealed,
)
from fieldcraft.storage.processes import boot, is_alive, start_time

COMMIT_POINTS = tuple(f"objects.{what}.{when}" for what in ("staged", "commit") for when in ("before", "after"))
ELSEWHERE_S = 86400.0  # after which what a writer of another machine has begun is taken for left behind
_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_counter = itertools.count()


@dataclass(frozen=True)
class ObjectFolder:
    """One field's folder.

    Args:
        objects: The store it is in.
        digest: Its content digest.
    """

    objects: Objects
    digest: str

    @property
    def name(self) -> str:
        """The digest."""
        return self.digest

    @property
    def url(self) -> str:
        """Where it is."""
        return f"{self.objects.url}/{self.digest[:2]}/{self.digest}"

    def __str__(self) -> str:
        return self.url

    def manifest(self, digest: str | None) -> Manifest:
        """As ``staging.read_manifest``: one request."""
        text = self.objects.get(f"{self.url}/{MANIFEST}")
        if text is None:
            raise damaged(self.url, MANIFEST, "is missing")
        return parsed(self.url, text, digest)

    def check_sizes(self, manifest: Manifest) -> None:
        """As ``staging.check_sizes``: one listing."""
        found = self.sizes(manifest)
        for name, expected in manifest.files.items():
            if name not in found:
                raise damaged(self.url, name, "is missing")
            if found[name] != expected.size:
                problem = f"has {found[name]} bytes instead of {expected.size} (truncated or altered)"
                raise damaged(self.url, name, problem)

    def sizes(self, manifest: Manifest) -> dict[str, int]:
        """Sizes in bytes of the objects of the writer whose field it is, by name."""
        return self.objects.sizes(f"{self.url}/{manifest.folder}")

    def source(self, manifest: Manifest, names: Collection[str]) -> Mapping[str, bytes]:
        """These objects, every one checked.

        Raises:
            FieldDamaged: One is missing, truncated or altered.
        """
        found = {}
        for name in names:
            content = self.objects.get(f"{self.url}/{manifest.folder}/{name}")
            if content is None:
                raise damaged(self.url, name, "is missing")
            if hashlib.sha256(content).hexdigest() != manifest.files[name].sha256:
                raise damaged(self.url, name, "does not have the checksum of the manifest (altered)")
            found[name] = content
        return found

    def check_all(self, manifest: Manifest) -> None:
        """Check every object, and that the writer's folder holds no other."""
        self.check_sizes(manifest)
        self.source(manifest, manifest.files)
        if extra := sorted(self.sizes(manifest).keys() - manifest.files.keys()):
            raise damaged(self.url, extra[0], "is not in the manifest")

    def is_sound(self) -> bool:
        """Whether it is committed, by its manifest and the sizes of its objects."""
        try:
            self.check_sizes(self.manifest(self.digest))
        except FieldDamaged:
            return False
        return True


class Objects:
    """Folders under one URL of an object store (``s3://BUCKET/PREFIX``). Safe for many processes at once."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def folder(self, digest: str) -> ObjectFolder:
        """Where the field of that digest is, or would be."""
        return ObjectFolder(self, digest)

    def publish(self, key: str, digest: str, size: int, files: Mapping[str, bytes]) -> None:
        """Put a field's files and then its manifest, which commits them.

        Raises:
            StoreAway: The store does not answer or refuses; nothing was committed, and what was put is for a sweep.
        """
        label = re.sub(r"[^A-Za-z0-9_.]", "_", key)
        # Unique over machines and their restarts, and it tells whether the writer is still at work.
        process = f"{start_time(os.getpid()):.2f}-{os.getpid()}"
        writer = f"{label}-{_machine()}-{process}-{time.time_ns():x}-{next(_counter)}"
        folder, mark = self.folder(digest), f"{self.url}/{STAGING}/{writer}"
        with self._served() as store:
            store.pipe_file(mark, digest.encode())
            commit_point("objects.staged.before")
            for name, content in files.items():
                store.pipe_file(f"{folder.url}/{writer}/{name}", content)
            commit_point("objects.staged.after")
            if folder.is_sound():  # another writer of this content was first
                self.clear(writer)
                return
            manifest = sealed(files, digest, size, writer)
            commit_point("objects.commit.before")
            store.pipe_file(f"{folder.url}/{MANIFEST}", manifest.model_dump_json(indent=1).encode())
            commit_point("objects.commit.after")
            store.rm_file(mark)

    def get(self, url: str) -> bytes | None:
        """An object's content; None where there is none."""
        with self._served() as store:
            try:
                return bytes(store.cat_file(url))
            except FileNotFoundError:
                self._require_bucket(store)
                return None

    def sizes(self, url: str) -> dict[str, int]:
        """Sizes in bytes of all objects under ``url``, by their names below it."""
        with self._served() as store:
            store.invalidate_cache()
            try:
                found = store.find(url, detail=True)
            except FileNotFoundError:
                found = {}
            if not found:
                self._require_bucket(store)
        start = len(url.partition("://")[2]) + 1
        return {name[start:]: int(about["size"]) for name, about in found.items()}

    def digests(self) -> set[str]:
        """Digests of all fields with a manifest, sound or not."""
        ends = (name.split("/") for name in self.sizes(self.url) if name.endswith(f"/{MANIFEST}"))
        return {parts[1] for parts in ends if len(parts) == 3 and re.fullmatch("[0-9a-f]{64}", parts[1])}

    def strays(self) -> list[str]:
        """Names of writers that are gone and whose field was not committed, or not marked as such."""
        names = sorted(self.sizes(f"{self.url}/{STAGING}"))
        return [name for name in names if not _at_work(name)]

    def clear(self, writer: str) -> None:
        """Delete what a writer left behind; its field, where it is committed, stays."""
        mark = f"{self.url}/{STAGING}/{writer}"
        digest = (self.get(mark) or b"").decode()
        if not digest:  # another sweep was faster
            return
        folder = self.folder(digest)
        text = self.get(f"{folder.url}/{MANIFEST}")
        if text is None or parsed(folder.url, text, None).folder != writer:
            self._remove(f"{folder.url}/{writer}")
        with self._served() as store:
            store.rm_file(mark)

    def remove(self, digest: str) -> None:
        """Delete a field, its manifest first, so that nobody sees half of it."""
        folder = self.folder(digest)
        with self._served() as store:
            store.rm_file(f"{folder.url}/{MANIFEST}")
        self._remove(folder.url)

    def _remove(self, url: str) -> None:
        names = list(self.sizes(url))
        with self._served() as store:
            for name in names:
                store.rm_file(f"{url}/{name}")

    @cached_property
    def _store(self) -> Any:
        try:
            import s3fs
        except ImportError as error:
            raise StoreAway(
                f"Fields at {self.url} need the package s3fs, which is not installed: pip install 'fieldcraft[s3]', or "
                "leave FIELDCRAFT_FIELDS out to keep them under the home."
            ) from error
        patience = {"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 2}}
        return s3fs.S3FileSystem(use_listings_cache=False, config_kwargs=patience)

    def _require_bucket(self, store: Any) -> None:
        """Tell an object that is not there from a bucket that is not there.

        Raises:
            StoreAway: There is no such bucket.
        """
        bucket = self.url.partition("://")[2].partition("/")[0]
        if not store.exists(bucket):
            raise StoreAway(
                f"There is no bucket {bucket!r} for the fields at {self.url}. Make it, or name another in "
                "FIELDCRAFT_FIELDS; nothing was lost."
            )

    @contextmanager
    def _served(self) -> Iterator[Any]:
        """The file system; what it cannot do becomes one clear error that quotes no credential."""
        store = self._store
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield store
        except (OSError, BotoCoreError, ClientError) as error:
            if isinstance(error, FileNotFoundError):
                self._require_bucket(store)
            raise StoreAway(
                f"The object store of {self.url} refused or did not answer: {_without_secrets(error)}. Nothing was "
                "published and nothing is lost. Check the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or "
                "AWS_PROFILE), AWS_ENDPOINT_URL and the bucket, then run again."
            ) from None


def _without_secrets(error: Exception) -> str:
    """What an error says, in one line, without the values of credentials."""
    text = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
    for secret in filter(None, map(os.environ.get, _SECRETS)):
        text = text.replace(secret, "***")
    return text[:300]


def _machine() -> str:
    """Tells one boot of one machine from another, in twelve letters."""
    return hashlib.sha256(f"{socket.gethostname()} {boot()}".encode()).hexdigest()[:12]


def _at_work(writer: str) -> bool:
    """Whether a writer may still be at work: its process lives, or it is of another machine and not long ago."""
    match = re.fullmatch(r".*-([0-9a-f]{12})-([0-9.]+)-(\d+)-([0-9a-f]+)-\d+", writer)
    if match is None:
        return False
    machine, started, pid, begun = match.groups()
    if machine == _machine():
        return is_alive(int(pid), float(started))
    return time.time() - int(begun, 16) / 1e9 < ELSEWHERE_S
