"""Backups of a home: a folder that holds the state of one instant, whole or not at all; the next backup adds to it.

    DEST/manifest.json          what belongs to the backup, with checksums; renamed into place last
    DEST/state-TIME-PID/        of that instant: ledger.sqlite and the files of laboratories and jobs
    DEST/fields/ab/ab12.../     every field the ledger mentions, as in a field store; shared by one backup and the next
    DEST/restored.json          who took it over, if it was made by a move

Fields are copied, not linked: damage to a file in its place would reach a link too. A field that is damaged where it
is copied from is left out and reported, unless an earlier backup has it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.field_store.staging import (
    MANIFEST,
    FieldDamaged,
    FieldError,
    StoredFile,
    check_all,
    copy_file,
    disk,
    stored_file,
    stray_staging,
    sync,
)
from fieldcraft.storage.fields import DirectoryStore, FieldStore
from fieldcraft.storage.records import FieldRef, digest_of

COMMIT_POINTS = ("backup.state.after", "backup.manifest.before", "backup.manifest.after")
BACKUP_FORMAT = 1
LEDGER = "ledger.sqlite"
_TAKEN_BY = "If nobody did, delete that file and repeat; if somebody did, go on there."
_STATE, _FIELDS, _LOCK, RESTORED = "state-", "fields", ".lock", "restored.json"


class BackupError(FieldError):
    """A backup cannot be made or used; the message names the value, the problem and the remedy."""


class BackupManifest(BaseModel):
    """Contents of a backup.

    Args:
        format: Of this file.
        made: When the ledger's copy was made, in seconds since the epoch.
        host: Machine it was made on.
        home: Folder that it is a backup of.
        by: Who made it.
        ledger_made: When the ledger was made, which all its copies share.
        sealed: True if the home was sealed, so that no campaign continues there.
        state: Name of the folder with the ledger and the files.
        files: Every file in it, by its path in it.
        fields: SHA-256 of the manifest of every field, by its digest.
        missing: Problem with each field that could not be copied.
        sum: Digest of all the rest.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: int
    made: float
    host: str
    home: str
    by: str
    ledger_made: float
    sealed: bool
    state: str
    files: dict[str, StoredFile]
    fields: dict[str, str]
    missing: dict[str, str]
    sum: str = ""

    @property
    def digest(self) -> str:
        """Digest of all but ``sum``."""
        return digest_of(self.model_dump(mode="json", exclude={"sum"}))

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.sum and self.sum != self.digest:
            raise ValueError("it does not have the sum written in it")
        return self


class Backup:
    """A folder of backups and its contents."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    @property
    def fields(self) -> DirectoryStore:
        """The fields in it."""
        return DirectoryStore(self.folder / _FIELDS)

    def manifest(self) -> BackupManifest:
        """The manifest of the backup.

        Raises:
            BackupError: There is none, it was never finished, or its manifest is damaged.
        """
        try:
            said = (self.folder / MANIFEST).read_bytes()
        except OSError:
            raise BackupError(
                f"{self.folder} holds no finished backup: there is no {MANIFEST} in it. Name another, or make it again "
                "with 'fieldcraft backup'."
            ) from None
        try:
            found = BackupManifest.model_validate_json(said)
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise BackupError(
                f"{self.folder / MANIFEST} is damaged ({problem}). Use another copy of the backup. Where the home "
                "still lives, delete this file and make the backup again: what is whole in it is kept."
            ) from None
        if found.format > BACKUP_FORMAT or not found.sum:
            raise BackupError(f"{self.folder} has backup format {found.format}; this fieldcraft reads {BACKUP_FORMAT}.")
        return found

    def file(self, manifest: BackupManifest, name: str) -> Path:
        """Path of a file of the backup."""
        return self.folder / manifest.state / name

    def verify(self) -> BackupManifest:
        """Read all files of the backup and compare them with their checksums.

        Raises:
            BackupError: The first file that is missing or altered, or that there is no finished backup.
        """
        manifest = self.manifest()
        for name, expected in manifest.files.items():
            file = self.file(manifest, name)
            if not file.is_file() or stored_file(file) != expected:
                raise self._torn(file)
        for digest, expected_sum in manifest.fields.items():
            field = self.fields.path(FieldRef(digest=digest, size=0))
            try:
                check_all(field, digest)
            except FieldDamaged as error:
                raise self._torn(field, str(error)) from error
            if stored_file(field / MANIFEST).sha256 != expected_sum:
                raise self._torn(field / MANIFEST)
        return manifest

    def _torn(self, file: Path, problem: str = "it is missing, or not what was written") -> BackupError:
        return BackupError(
            f"The backup {self.folder} is damaged: {file.relative_to(self.folder)} ({problem}). Nothing was restored. "
            "Use another copy of it; where the home still lives, 'fieldcraft backup' there replaces what is damaged."
        )

    @contextmanager
    def writing(self, ledger_made: float) -> Iterator[Path]:
        """A new state folder to fill, while no other process writes a backup here; deleted unless ``publish`` keeps it.

        Raises:
            BackupError: The folder is not a backup, is of another ledger, or another process is writing there.
        """
        self._require_ours(ledger_made)
        with disk(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        state = self.folder / f"{_STATE}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}"
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise BackupError(f"Another backup is being written to {self.folder}. Wait for it to end.") from None
        try:
            shutil.rmtree(state, ignore_errors=True)  # of a killed process that had the same number in the same second
            state.mkdir()
            yield state
        finally:
            self._tidy()
            os.close(descriptor)

    def _require_ours(self, ledger_made: float) -> None:
        if not self.folder.exists():
            return
        known = {MANIFEST, f".{MANIFEST}", _FIELDS, _LOCK, RESTORED}
        strange = [
            path.name for path in self.folder.iterdir() if path.name not in known and not path.name.startswith(_STATE)
        ]
        if strange:
            raise BackupError(f"{self.folder} holds {strange[0]!r}, which is no part of a backup. Name another folder.")
        if (self.folder / MANIFEST).exists() and (found := self.manifest()).ledger_made != ledger_made:
            raise BackupError(
                f"{self.folder} is a backup of another ledger ({found.home} on {found.host}). Name another folder."
            )

    def publish(
        self, state: Path, fields: Mapping[str, str], missing: Mapping[str, str], **said: Any
    ) -> BackupManifest:
        """Make a filled state folder the backup, in one rename; earlier states are deleted."""
        files = {str(path.relative_to(state)): stored_file(path) for path in sorted(_files(state))}
        draft = BackupManifest(
            format=BACKUP_FORMAT,
            host=socket.gethostname(),
            state=state.name,
            files=files,
            fields=dict(fields),
            missing=dict(missing),
            **said,
        )
        manifest = draft.model_copy(update={"sum": draft.digest})
        for folder in (state, self.folder):
            sync(folder)
        commit_point("backup.manifest.before")
        replace_text(self.folder / MANIFEST, manifest.model_dump_json(indent=1))
        commit_point("backup.manifest.after")
        return manifest

    def _tidy(self) -> None:
        """Delete the states that no manifest names and the files that unfinished backups left."""
        for path in stray_staging(self.fields.root):
            shutil.rmtree(path, ignore_errors=True)
        kept = None
        if (self.folder / MANIFEST).exists():
            try:
                kept = self.manifest().state
            except BackupError:  # nobody knows which
                return
        for path in self.folder.glob(f"{_STATE}*"):
            if path.name != kept:
                shutil.rmtree(path, ignore_errors=True)

    def take_fields(self, store: FieldStore, refs: Iterable[FieldRef]) -> tuple[dict[str, str], dict[str, str], int]:
        """Copy into the backup the fields that it does not have yet.

        Returns:
            SHA-256 of the manifest of each field by its digest; the problem of each field that cannot be copied; the
                number that were copied.
        """
        commit_point("backup.state.after")
        sums, missing, copied = dict[str, str](), dict[str, str](), 0
        for ref in sorted(set(refs), key=lambda ref: ref.digest):
            try:
                copied += self.fields.take(ref, store)
            except FieldDamaged as error:
                missing[ref.digest] = str(error)
                continue
            sums[ref.digest] = stored_file(self.fields.path(ref) / MANIFEST).sha256
        return sums, missing, copied

    def restored(self) -> dict[str, Any] | None:
        """Record of who took the backup over; None if nobody did, or if it was not made by a move.

        Raises:
            BackupError: the record cannot be read.
        """
        file = self.folder / RESTORED
        try:
            found = json.loads(file.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise BackupError(f"{file} cannot be read: {error}. {_TAKEN_BY}") from error
        if not isinstance(found, dict) or not {"host", "home"} <= found.keys():
            raise BackupError(f"{file} does not say who took the backup over. {_TAKEN_BY}")
        return found


def copy_tree(source: Path, target: Path) -> bool:
    """Copy a folder file by file. Returns False and deletes the copy if a file vanished meanwhile."""
    try:
        for file in _files(source):
            copy_file(file, target / file.relative_to(source))
    except FileNotFoundError:
        shutil.rmtree(target, ignore_errors=True)
        return False
    return True


def copy_moving(source: Path, target: Path) -> None:
    """Copy a folder whose files other processes add, move and delete meanwhile; a file that stays is always copied."""
    copied = set[Path]()
    while found := [file for file in _files(source) if file not in copied]:
        copied.update(found)
        for file in found:
            with suppress(FileNotFoundError):  # where it went to, the next look finds it
                copy_file(file, target / file.relative_to(source))


def replace_text(file: Path, text: str) -> None:
    """Replace the content of a file in one rename, flushed to the disk."""
    draft = file.with_name(f".{file.name}")
    with disk(file):
        draft.write_text(text)
        sync(draft)
        os.replace(draft, file)
        sync(file.parent)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
