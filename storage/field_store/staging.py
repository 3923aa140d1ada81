"""Directories that appear whole or not at all: staged, listed in a manifest with checksums, flushed, renamed.

    FOLDER/.staging/KEY-PID.START@HOST-N/...   being written, or left by a killed process
    TARGET/manifest.json                 {format, digest, size, files: {relative path: {sha256, size}}}

``storage.fields`` puts a zarr group into such a directory; this module does not depend on the meaning of the files.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import re
import shutil
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.processes import is_alive, own_start_time

FORMAT = 1
MANIFEST, STAGING = "manifest.json", ".staging"
_counter = itertools.count()
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]")


class FieldError(Exception):
    """A field cannot be written or read; the message names the value, the problem and the remedy."""


class FieldDamaged(FieldError):
    """A stored field is missing or altered."""


class StoreAway(FieldError):
    """The store itself cannot be used now; this says nothing about the fields in it."""


class StoredFile(BaseModel):
    """Checksum and length in bytes of one file."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    sha256: str
    size: int


class Manifest(BaseModel):
    """Contents of a published directory: content digest, size of the content in bytes, and every file.

    In an object store the files lie in ``folder``, the folder of the writer that committed them; on a disk they lie
    beside the manifest.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: int
    digest: str
    size: int
    files: dict[str, StoredFile]
    folder: str = ""


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` of the block into a ``FieldError`` about ``path``."""
    try:
        yield
    except OSError as error:
        raise FieldError(
            f"The disk refused {path}: {error.strerror or error}. Nothing was published. Check the free space and the "
            "permissions there, then run again."
        ) from error


@contextmanager
def staged(folder: Path, key: str) -> Iterator[Path]:
    """A new directory in ``folder/.staging``, deleted when the block ends unless it was renamed."""
    label, process = _UNSAFE.sub("_", key), f"{os.getpid()}.{100 * own_start_time(os.getpid()):.0f}"
    (folder / STAGING).mkdir(parents=True, exist_ok=True)
    while True:
        path = folder / STAGING / f"{label}-{process}@{_host()}-{next(_counter)}"
        try:
            path.mkdir()
            break
        except FileExistsError:  # left by a killed process that had the same pid
            continue
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def seal(path: Path, digest: str, size: int) -> None:
    """Write the manifest of all files under ``path`` and flush files and directories to the disk."""
    files = {}
    for file in sorted(found for found in path.rglob("*") if found.is_file()):
        sync(file)
        files[str(file.relative_to(path))] = stored_file(file)
    _write(path / MANIFEST, _text(Manifest(format=FORMAT, digest=digest, size=size, files=files)))
    for directory in (*(found for found in path.rglob("*") if found.is_dir()), path):
        sync(directory)


def write_sealed(path: Path, files: Mapping[str, bytes], digest: str, size: int) -> None:
    """Write files that are in memory into the empty directory ``path``, and seal it."""
    folders = [f"{path}/{folder}" for folder in sorted(_folders(frozenset(files)))]  # the outer ones first
    for folder in folders:
        os.mkdir(folder)
    for name, content in files.items():
        _write(f"{path}/{name}", content)
    _write(f"{path}/{MANIFEST}", _text(sealed(files, digest, size, "")))
    for folder in (*folders, str(path)):
        sync(folder)


@lru_cache(maxsize=256)
def _folders(names: frozenset[str]) -> frozenset[str]:
    """Folders that files of these names lie in."""
    return frozenset(str(folder) for name in names for folder in PurePosixPath(name).parents) - {"."}


def _text(manifest: Manifest) -> bytes:
    return manifest.model_dump_json(indent=1, exclude_defaults=True).encode()


def _write(file: Path | str, content: bytes) -> None:
    """Write a new file and flush it to the disk."""
    with open(file, "xb", buffering=0) as opened:
        written = 0
        while written < len(content):
            written += opened.write(memoryview(content)[written:])
        os.fsync(opened.fileno())


def publish(path: Path, target: Path, *, point: str) -> None:
    """Rename a sealed directory to ``target`` and flush the rename to the disk.

    Raises ``OSError`` if ``target`` exists.
    """
    if not target.parent.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        sync(target.parent.parent)
    commit_point(f"{point}.rename.before")
    os.rename(path, target)
    sync(target.parent)
    commit_point(f"{point}.rename.after")


def read_manifest(path: Path, digest: str | None) -> Manifest:
    """Manifest of a published directory, checked to belong to ``digest`` where one is given.

    Raises:
        FieldDamaged: Missing, not a manifest, or of another digest.
        FieldError: Written by a newer format.
    """
    try:
        text = (path / MANIFEST).read_bytes()
    except OSError as error:
        raise damaged(path, MANIFEST, "is missing") from error
    return parsed(path, text, digest)


def parsed(place: Path | str, text: bytes, digest: str | None) -> Manifest:
    """The manifest in ``text``, read from ``place``; raises as ``read_manifest``."""
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        raise damaged(place, MANIFEST, f"is broken ({error.errors()[0]['msg']})") from error
    if manifest.format > FORMAT:
        raise FieldError(f"{place} has field format {manifest.format}, newer than {FORMAT}. Upgrade fieldcraft.")
    if digest is not None and manifest.digest != digest:
        raise damaged(place, MANIFEST, f"belongs to the digest {manifest.digest}")
    return manifest


def sealed(files: Mapping[str, bytes], digest: str, size: int, folder: str) -> Manifest:
    """Manifest of files that are in memory."""
    listed = {
        name: StoredFile(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
        for name, content in sorted(files.items())
    }
    return Manifest(format=FORMAT, digest=digest, size=size, files=listed, folder=folder)


def check_sizes(path: Path, manifest: Manifest) -> None:
    """Raise ``FieldDamaged`` for the first listed file that is missing or of another length."""
    for name, expected in manifest.files.items():
        try:
            size = (path / name).stat().st_size
        except OSError as error:
            raise damaged(path, name, "is missing") from error
        require_size(path, name, size, expected)


def check_sums(path: Path, manifest: Manifest) -> None:
    """Raise ``FieldDamaged`` for the first listed file whose checksum differs."""
    check_sizes(path, manifest)
    for name in manifest.files:
        contents(path, manifest, [name])


def contents(path: Path, manifest: Manifest, names: Collection[str]) -> dict[str, bytes]:
    """Contents of the files ``names``; raises ``FieldDamaged`` for the first whose checksum differs."""
    found = {}
    for name in names:
        try:
            found[name] = (path / name).read_bytes()
        except OSError as error:
            raise damaged(path, name, "is missing") from error
        require_sound(path, name, found[name], manifest.files[name])
    return found


def require_sound(place: Path | str, name: str, content: bytes, expected: StoredFile) -> None:
    """Raise ``FieldDamaged`` unless the content of a file is the listed one."""
    require_size(place, name, len(content), expected)
    if hashlib.sha256(content).hexdigest() != expected.sha256:
        raise damaged(place, name, "does not have the checksum of the manifest (altered)")


def require_size(place: Path | str, name: str, size: int, expected: StoredFile) -> None:
    """Raise ``FieldDamaged`` unless the length of a file in bytes is the listed one."""
    if size != expected.size:
        raise damaged(place, name, f"has {size} bytes instead of {expected.size} (truncated or altered)")


def check_extra(path: Path, manifest: Manifest) -> None:
    """Raise ``FieldDamaged`` for the first file that the manifest does not list."""
    found = {str(file.relative_to(path)) for file in path.rglob("*") if not file.is_dir()}
    if extra := sorted(found - {MANIFEST} - manifest.files.keys()):
        raise damaged(path, extra[0], "is not in the manifest")


def check_all(path: Path, digest: str) -> Manifest:
    """Manifest of a published directory, after all files were verified against it; else raises ``FieldDamaged``."""
    manifest = read_manifest(path, digest)
    check_sums(path, manifest)
    check_extra(path, manifest)
    return manifest


def take(folder: Path, target: Path, path: Path, digest: str) -> bool:
    """Publish a copy of the published directory ``path`` at ``target``; a damaged directory there is replaced.

    Args:
        folder: Folder in which the copy is staged.
        target: Destination; read through first, and left as it is where it is sound.
        path: Directory that is copied.
        digest: Content digest of both.

    Returns:
        True if it was copied.

    Raises:
        FieldDamaged: ``path`` is missing files or was altered.
        FieldError: The disk refused.
    """
    with suppress(FieldDamaged):
        check_all(target, digest)
        return False
    check_sizes(path, read_manifest(path, digest))
    with disk(target), staged(folder, "copy") as staging:
        for file in sorted(found for found in path.rglob("*") if found.is_file()):
            copy_file(file, staging / file.relative_to(path))
        try:
            check_all(staging, digest)
        except FieldDamaged:
            check_all(path, digest)  # names the file where it is damaged
            raise
        if target.exists():
            with staged(folder, "damaged") as aside:
                os.rename(target, aside / digest)
        publish(staging, target, point="field")
    return True


def require_new(path: Path) -> None:
    """Accept a place for an export.

    Raises:
        FieldError: something is there, or the disk refused to say.
    """
    with disk(path):
        if path.exists():
            raise FieldError(f"{path} exists. Remove it or export to another path.")


def copy_file(file: Path, target: Path) -> StoredFile:
    """Copy one file, with the folders it needs, and flush it to the disk; returns its checksum as copied.

    Raises:
        OSError: it was not copied; where the disk is full, the error names ``target``.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(file, target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            error.filename, error.filename2 = str(target), None  # copyfile names the file that it reads
        raise
    sync(target)
    sync(target.parent)
    return stored_file(target)


def stored_file(file: Path) -> StoredFile:
    """Checksum and length in bytes of a file."""
    return StoredFile(sha256=_sha256(file), size=file.stat().st_size)


def damaged(place: Path | str, file: str, problem: str) -> FieldDamaged:
    """The error for one file of a published directory, or of an object store's folder, which is named by its URL."""
    return FieldDamaged(
        f"Field {str(place).rpartition('/')[2]} is damaged: {place}/{file} {problem}. 'fieldcraft repair' says whether "
        "it can be had again."
    )


def stray_staging(folder: Path) -> list[Path]:
    """Staging directories in ``folder`` whose process has ended on this host."""
    staging = folder / STAGING
    return sorted(path for path in staging.iterdir() if not _is_live(path)) if staging.is_dir() else []


def _host() -> str:
    return _UNSAFE.sub("_", socket.gethostname())


def _is_live(path: Path) -> bool:
    """True if the process that made a staging directory still runs; a later process that reuses its pid does not count.

    A directory of another host counts as live, since its processes cannot be seen. Earlier versions did not record
    when the process started; then the directory's time decides. That is wrong once a clock was set, here or on the
    disk's server.
    """
    match = re.fullmatch(r".*-(\d+)(?:\.(\d+))?(?:@(.+))?-\d+", path.name)
    if match is None:
        return False
    if match[3] not in (None, _host()):
        return True
    if match[2] is not None:
        return is_alive(int(match[1]), int(match[2]) / 100)
    try:
        return psutil.Process(int(match[1])).create_time() <= path.stat().st_mtime + 1.0
    except (psutil.NoSuchProcess, FileNotFoundError):
        return False


def sync(path: Path | str) -> None:
    """Flush one file or directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
